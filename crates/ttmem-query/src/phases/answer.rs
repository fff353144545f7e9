//! The response of `ttmem phases`. docs/phases.md documents every field.
//!
//! All sizes are in bytes of one device. `None` means unknown, never zero.

use serde::Serialize;

use crate::answer::{PhaseSummary, SourceSummary};
use crate::level::Level;

/// The response of `ttmem phases`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phases {
    /// The version of this format.
    pub schema: u32,
    /// The input files.
    pub source: SourceSummary,
    /// The sessions of all ranks of all files, in order.
    pub sessions: Vec<SessionPhases>,
    /// Each session compared with the session of its rank that has the lowest peak.
    pub comparisons: Vec<Comparison>,
}

/// A training session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionPhases {
    /// The input file.
    pub file: String,
    /// The label of its rank.
    pub rank: Option<String>,
    /// Its label, unique within the response.
    pub label: String,
    /// Its name in the input.
    pub name: Option<String>,
    /// The line number where it starts, from 1.
    pub line: Option<u64>,
    /// The number of parameters, from the session's header.
    pub parameters: Option<u64>,
    /// The element type of the parameters.
    pub dtype: String,
    /// Whether the element type is assumed because the input does not contain it.
    pub dtype_assumed: bool,
    /// Whether the figures are estimates: nothing was allocated.
    pub estimated: bool,
    /// Whether the session finished.
    pub finished: bool,
    /// The phases with missing device memory figures.
    pub torn_phases: Vec<String>,
    /// The device memory; null if it is unknown.
    pub device_memory_bytes: Option<u64>,
    /// Where the device memory is from; null if it is unknown.
    pub device_memory_source: Option<Origin>,
    /// The highest memory use.
    pub peak_bytes: Option<i64>,
    /// The phase that first reached the peak.
    pub peak_phase: Option<String>,
    /// The memory use at the end.
    pub final_bytes: Option<i64>,
    /// The peak in percent of the device memory.
    pub device_usage_pct: Option<f64>,
    /// How close the peak is to the device memory.
    pub level: Option<Level>,
    /// Whether the peak is below the device memory.
    pub fits: Option<bool>,
    /// The free device memory at the peak; negative if the session does not fit.
    pub left_bytes: Option<i64>,
    /// How memory grows from iteration to iteration; null if it does not.
    pub growth: Option<Growth>,
    /// The parameters.
    pub model: Figure,
    /// The optimizer state.
    pub optimizer: Figure,
    /// The gradients.
    pub gradients: Figure,
    /// The activations that forward passes keep for the backward pass. They have no expected size.
    pub activations: Figure,
    /// The parts of the peak, bottom to top; empty if the phase that reaches it is unknown.
    pub parts: Vec<Part>,
    /// What to change if the session does not fit.
    pub advice: Vec<Advice>,
    /// Notes on assumptions and missing figures.
    pub notes: Vec<String>,
    /// The phases.
    pub phases: Vec<PhaseSummary>,
}

/// Memory that is not freed at the end of iterations.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Growth {
    /// The name of the phase that ends an iteration.
    pub phase: String,
    /// The number of iterations that growth was measured over.
    pub iterations: u64,
    /// The mean growth per iteration.
    pub per_iteration_bytes: i64,
    /// The number of further iterations that fit into the device memory; null if it is unknown.
    pub iterations_left: Option<u64>,
}

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An option set by the user.
    Option,
    /// The session's header.
    Header,
    /// The model size set by the user.
    Model,
    /// A default value.
    Default,
}

/// An expected and a measured size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The expected size.
    pub expected_bytes: Option<u64>,
    /// Where the expected size is from: `option`, `header` (computed from its parameters) or `model` (computed from the
    /// given model size).
    pub expected_source: Option<Origin>,
    /// The measured size.
    pub measured_bytes: Option<i64>,
    /// (measured − expected) / expected, in percent.
    pub difference_pct: Option<f64>,
}

/// A part of the peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Its kind.
    pub kind: PartKind,
    /// Its display name.
    pub name: String,
    /// Its size.
    pub bytes: Option<i64>,
    /// Where the size is from.
    pub source: PartSource,
}

/// The kind of a part of the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The rest, which the other parts do not explain.
    Other,
    /// The parameters.
    Model,
    /// The gradients kept from earlier backward passes.
    GradientsKept,
    /// The peak of the backward pass that reaches the session's peak, relative to its start.
    GradientsOverhead,
    /// The same for another phase.
    Phase,
    /// The optimizer state.
    Optimizer,
    /// The activations kept by forward passes.
    Activations,
}

/// Where the size of a part is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartSource {
    /// The expected size.
    Expected,
    /// The measured size.
    Measured,
    /// The difference between the peak and the other parts.
    Rest,
}

/// A change that may help a session that does not fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// `recomputation`, `smaller_batch`, `gradient_accumulation` or `smaller_model`.
    pub kind: &'static str,
    /// The minimum reduction of the peak.
    pub must_save_bytes: u64,
    /// The size of the activations at the peak.
    pub activations_bytes: Option<i64>,
    /// Whether it can be enough on its own.
    pub can_suffice: Option<bool>,
    /// The maximum size of the activations that fits, in percent of their current size.
    pub activations_share_pct: Option<f64>,
    /// The minimum number of micro-batches.
    pub micro_batches: Option<u64>,
    /// What to do, in a few words.
    pub headline: String,
    /// Why, and how much it can save.
    pub detail: String,
    /// The headline and detail as one text.
    pub message: String,
}

/// A comparison of two sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The label of the session with the lower peak.
    pub label: String,
    /// The label of the other session.
    pub against: String,
    /// The difference between the peaks.
    pub saves_bytes: i64,
    /// The difference in percent of the other session's peak.
    pub saves_pct: Option<f64>,
    /// The difference between the activations.
    pub activations_saved_bytes: Option<i64>,
    /// The comparison as a sentence.
    pub message: String,
}
