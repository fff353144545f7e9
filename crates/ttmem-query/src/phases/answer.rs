//! The answer of `ttmem phases`, field by field as docs/phases.md describes it.
//!
//! All sizes are whole bytes of one device. `None` is not known, never zero.

use serde::Serialize;

use crate::answer::{PhaseSummary, SourceSummary};
use crate::level::Level;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phases {
    /// The version of this form.
    pub schema: u32,
    /// What was read.
    pub source: SourceSummary,
    /// The sessions of all ranks of all files, in order.
    pub sessions: Vec<SessionPhases>,
    /// Each session against the one of its rank that needs least.
    pub comparisons: Vec<Comparison>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionPhases {
    /// The file it is in.
    pub file: String,
    /// The label of its rank.
    pub rank: Option<String>,
    /// What it is called here: no other session of the answer has this label.
    pub label: String,
    /// What it is called in the evidence.
    pub name: Option<String>,
    /// The line that it begins on, from 1.
    pub line: Option<u64>,
    /// The parameters of the model, as its own header says.
    pub parameters: Option<u64>,
    /// Their element.
    pub dtype: String,
    /// The evidence does not say the element.
    pub dtype_assumed: bool,
    /// Nothing was allocated: the figures are what would have been.
    pub estimated: bool,
    /// Whether its end was reached.
    pub finished: bool,
    /// The phases of which a figure of device memory is missing.
    pub torn_phases: Vec<String>,
    /// The memory of the device.
    pub device_memory_bytes: u64,
    /// Who says so.
    pub device_memory_source: Origin,
    /// The highest use.
    pub peak_bytes: Option<i64>,
    /// The phase in which it was reached first.
    pub peak_phase: Option<String>,
    /// The use at the end.
    pub final_bytes: Option<i64>,
    /// The highest use, in percent of the device.
    pub device_usage_pct: Option<f64>,
    /// How close the highest use is to what the device has.
    pub level: Option<Level>,
    /// Whether the highest use is below what the device has.
    pub fits: Option<bool>,
    /// What is left of the device at the peak; negative where it does not fit.
    pub left_bytes: Option<i64>,
    /// The parameters.
    pub model: Figure,
    /// The state of the optimizer.
    pub optimizer: Figure,
    /// The gradients.
    pub gradients: Figure,
    /// What forward passes keep for the backward pass; nothing tells what to expect.
    pub activations: Figure,
    /// What the peak is made of, bottom to top; empty where no phase is known to hold it.
    pub parts: Vec<Part>,
    /// What helps, where it does not fit.
    pub advice: Vec<Advice>,
    /// What was assumed, and what is missing.
    pub notes: Vec<String>,
    /// The phases.
    pub phases: Vec<PhaseSummary>,
}

/// Who says a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user.
    Option,
    /// The session's own header.
    Header,
    /// The size of the model that the user gave.
    Model,
    /// Nobody: it is what is usual.
    Default,
}

/// What was expected and what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// What was expected.
    pub expected_bytes: Option<u64>,
    /// Who says so: `option`, or `header`, whose parameters it follows from, or `model`, whose size was given.
    pub expected_source: Option<Origin>,
    /// What was measured.
    pub measured_bytes: Option<i64>,
    /// (measured − expected) / expected, in percent.
    pub difference_pct: Option<f64>,
}

/// A part of the peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// What people call it.
    pub name: String,
    /// What it takes.
    pub bytes: Option<i64>,
    /// Where that is from.
    pub source: PartSource,
}

/// What a part of the peak is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// What the other parts do not explain.
    Other,
    /// The parameters.
    Model,
    /// What earlier backward passes left behind.
    GradientsKept,
    /// How far the backward pass that holds the peak went above its start.
    GradientsOverhead,
    /// The same of another phase.
    Phase,
    /// The state of the optimizer.
    Optimizer,
    /// What forward passes keep.
    Activations,
}

/// Where the size of a part is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartSource {
    /// What is expected.
    Expected,
    /// What was measured.
    Measured,
    /// What is left.
    Rest,
}

/// What may help a session that does not fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// `recomputation`, `smaller_batch`, `gradient_accumulation` or `smaller_model`.
    pub kind: &'static str,
    /// What the peak must come down by, at least.
    pub must_save_bytes: u64,
    /// What the activations take at the peak.
    pub activations_bytes: Option<i64>,
    /// Whether it can be enough alone.
    pub can_suffice: Option<bool>,
    /// To which share of their size the activations would have to shrink, in percent.
    pub activations_share_pct: Option<f64>,
    /// Into how many micro-batches the batch would have to be cut.
    pub micro_batches: Option<u64>,
    /// What to do, in a few words.
    pub headline: String,
    /// Why, and how much it can save.
    pub detail: String,
    /// Both as one text.
    pub message: String,
}

/// Two sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The label of the one that needs least.
    pub label: String,
    /// The label of the other.
    pub against: String,
    /// How much less the first needs at its peak.
    pub saves_bytes: i64,
    /// The same, in percent of the other.
    pub saves_pct: Option<f64>,
    /// How much less its activations take.
    pub activations_saved_bytes: Option<i64>,
    /// In words.
    pub message: String,
}
