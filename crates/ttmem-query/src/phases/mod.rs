//! `ttmem phases`: the expected and measured memory of training sessions, as data.
//!
//! Each session is described by its own header only; the parameters and device memory of other sessions are not used.

mod advice;
mod answer;

pub use answer::{
    Advice, Comparison, Figure, Growth, Origin, Part, PartKind, PartSource, Phases, SessionPhases,
};

use rustc_hash::FxHashMap;
use ttmem_model::{Error, Phase, Profile, Rank, Result, Session};

use super::answer::{PhaseSummary, SessionSummary, WarningSummary};
use super::device::device_of_session;
use super::level::{Level, Thresholds};
use super::ranks::in_order;
use super::summary::{is_rank, no_such_rank, source};
use super::words::{brief, size};
use crate::analyze::phases::{self, AtPeak, Held, Kind, Known};

/// The device memory to assume if the input does not contain it: a Wormhole's 12 GiB.
const USUAL_DEVICE: u64 = 12 << 30;

/// The pool that sessions measure.
const POOL: &str = "DRAM";

/// The pool that the session with this name measures.
pub(super) fn pool_of_session(name: Option<&str>) -> &str {
    name.and_then(device_of_session).unwrap_or(POOL)
}

/// The parameters of a phases request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhasesRequest {
    /// The rank to include, as `0` or `1,0`.
    pub rank: Option<String>,
    /// The device memory. Overrides the value in the input.
    pub device_memory: Option<u64>,
    /// The expected size of the parameters.
    pub model: Option<u64>,
    /// The expected size of the optimizer state.
    pub optimizer: Option<u64>,
    /// The expected size of the gradients.
    pub gradients: Option<u64>,
    /// Whether the parts of the peak use the measured sizes of model and optimizer.
    pub use_actual_sizes: bool,
    /// The shares of the device memory above which a session is high or full.
    pub thresholds: Thresholds,
}

/// Describes all sessions of all ranks of all files. A file without phases is an error.
pub fn phases(profiles: &[Profile], request: &PhasesRequest) -> Result<Phases> {
    let mut sessions = Vec::new();
    let mut ranks = Vec::new();
    for profile in profiles {
        let before = ranks.len();
        for rank in in_order(profile).into_iter().filter(|rank| !rank.sessions.is_empty()) {
            let label = rank.label.map(|label| profile.text(label).to_owned());
            ranks.push(label.clone());
            if request.rank.as_deref().is_none_or(|wanted| is_rank(label.as_deref(), wanted)) {
                let view = View { profile, rank, request };
                let of_sessions = by_session(profile, rank);
                let rows = rank.sessions.iter().zip(&of_sessions).enumerate();
                sessions.extend(rows.map(|(index, (session, known))| view.session(index, session, known)));
            }
        }
        if ranks.len() == before {
            return Err(without_phases(profile));
        }
    }
    if let (Some(wanted), true) = (&request.rank, sessions.is_empty()) {
        return Err(no_such_rank(wanted, &ranks));
    }
    make_labels_unique(&mut sessions);
    let mut source = source(profiles);
    source.warnings.extend(sessions.iter().filter_map(negative_rest));
    Ok(Phases { schema: 1, source, comparisons: advice::comparisons(&sessions), sessions })
}

fn without_phases(profile: &Profile) -> Error {
    Error::NoMemoryData {
        file: profile.source.file.clone(),
        message: format!(
            "no phases (read as {}); to print phases, the training program must call MemoryUsageTracker's \
             begin_capture, snapshot(NAME) after each phase, and print_memory_usage (tt-train's examples: \
             --track_memory)",
            profile.source.format
        ),
    }
}

/// Makes the labels of sessions unique by adding their rank, file or number.
fn make_labels_unique(sessions: &mut [SessionPhases]) {
    type Words = fn(usize, &SessionPhases) -> Option<String>;
    let further: [Words; 3] = [
        |_, session| session.rank.as_ref().map(|rank| format!("rank {rank}")),
        |_, session| Some(session.file.clone()),
        |index, _| Some(format!("summary {}", index + 1)),
    ];
    for words in further {
        let mut alike: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (index, session) in sessions.iter().enumerate() {
            alike.entry(session.label.clone()).or_default().push(index);
        }
        let labels: Vec<String> = sessions.iter().map(|session| session.label.clone()).collect();
        for label in labels {
            let Some(indices) = alike.remove(&label) else { continue };
            let suffixes: Vec<Option<String>> =
                indices.iter().map(|&index| words(index, &sessions[index])).collect();
            // A suffix that all of these sessions share does not distinguish them.
            if suffixes.iter().all(|words| *words == suffixes[0]) {
                continue;
            }
            for (index, words) in indices.into_iter().zip(suffixes) {
                sessions[index].label =
                    words.map_or_else(|| label.clone(), |words| format!("{label}, {words}"));
            }
        }
    }
}

/// The warning for a session whose parts add up to more than its peak.
fn negative_rest(session: &SessionPhases) -> Option<WarningSummary> {
    let rest = session.parts.iter().find(|part| part.kind == PartKind::Other)?.bytes?;
    let over = rest.checked_neg().filter(|over| *over > 0)?;
    Some(WarningSummary {
        file: session.file.clone(),
        line: session.line,
        message: format!(
            "{}: the parts add up to {} more than the peak; the model or optimizer is smaller than expected or not \
             fully allocated at the peak (use --use-actual-sizes for measured sizes)",
            session.label,
            size(over.unsigned_abs())
        ),
    })
}

/// A rank and the request.
struct View<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    request: &'a PhasesRequest,
}

impl View<'_> {
    fn session(&self, index: usize, session: &Session, known: &[Known<'_>]) -> SessionPhases {
        let summary = session_summary(self.profile, session, known, &self.request.thresholds);
        let (device_memory, device_memory_source) = self.device(session).unzip();
        let expected = self.expected(session);
        let measured = phases::measured(known);
        let holder = phases::holder(session, known);
        let at = holder.and_then(|holder| phases::at_peak(known, holder));
        let peak_phase = holder.and_then(|holder| known.get(holder)).map(|known| self.name(known.phase));
        let peak = summary.peak_bytes;
        let left = peak.zip(device_memory).map(|(peak, device)| left_of(device, peak));
        let figure = |expected: Option<(u64, Origin)>, measured: Option<i64>| Figure {
            expected_bytes: expected.map(|(bytes, _)| bytes),
            expected_source: expected.map(|(_, source)| source),
            measured_bytes: measured,
            difference_pct: difference_pct(expected.map(|(bytes, _)| bytes), measured),
        };
        let torn = known.iter().filter(|known| phases::is_torn(known.phase));
        let mut answer = SessionPhases {
            file: self.profile.source.file.clone(),
            rank: self.rank.label.map(|label| self.profile.text(label).to_owned()),
            label: summary.name.clone().unwrap_or_else(|| format!("Summary {}", index + 1)),
            name: summary.name,
            line: summary.line,
            parameters: summary.parameters,
            dtype_assumed: summary.dtype.is_none(),
            dtype: summary.dtype.unwrap_or_else(|| ASSUMED_DTYPE.to_owned()),
            estimated: summary.estimated,
            finished: summary.finished,
            torn_phases: torn.map(|known| self.name(known.phase)).collect(),
            device_memory_bytes: device_memory,
            device_memory_source,
            peak_bytes: peak,
            peak_phase,
            final_bytes: summary.final_bytes,
            device_usage_pct: peak
                .zip(device_memory)
                .and_then(|(peak, device)| percent_of(peak, i64::try_from(device).unwrap_or(i64::MAX))),
            // Relative to the device memory of the response, which the request may have set.
            level: level(&self.request.thresholds, peak, device_memory),
            fits: left.map(|left| left > 0),
            left_bytes: left,
            growth: growth(self.profile, known, left),
            model: figure(expected.model, measured.model),
            optimizer: figure(expected.optimizer, measured.optimizer),
            gradients: figure(expected.gradients, measured.gradients),
            activations: figure(None, measured.activations),
            parts: Vec::new(),
            advice: Vec::new(),
            notes: Vec::new(),
            phases: known.iter().map(|known| phase_summary(self.profile, known.phase)).collect(),
        };
        if let (Some(holder), Some(at)) = (holder.and_then(|holder| known.get(holder)), at) {
            answer.parts = self.parts(&answer, holder, at);
            answer.advice = excess(&answer, at).map(|excess| excess.advice()).unwrap_or_default();
        }
        answer.notes = notes(&answer);
        answer
    }

    fn name(&self, phase: &Phase) -> String {
        self.profile.text(phase.name).to_owned()
    }

    /// The device memory. A PyTorch device may have any size.
    fn device(&self, session: &Session) -> Option<(u64, Origin)> {
        let option = self.request.device_memory.map(|bytes| (bytes, Origin::Option));
        let header = session.device_memory.map(|bytes| (bytes, Origin::Header));
        let is_torch = session.name.is_some_and(|name| device_of_session(self.profile.text(name)).is_some());
        option.or(header).or((!is_torch).then_some((USUAL_DEVICE, Origin::Default)))
    }

    fn expected(&self, session: &Session) -> Expected {
        let option = |bytes: Option<u64>| bytes.map(|bytes| (bytes, Origin::Option));
        let dtype = session.dtype.map_or(ASSUMED_DTYPE, |dtype| self.profile.text(dtype));
        let header = session.parameters.and_then(|count| parameter_bytes(count, dtype));
        let model = option(self.request.model).or(header.map(|bytes| (bytes, Origin::Header)));
        let from_model = model
            .map(|(bytes, source)| (bytes, if source == Origin::Option { Origin::Model } else { source }));
        // AdamW keeps two moments per parameter.
        let moments = from_model.and_then(|(bytes, source)| Some((bytes.checked_mul(2)?, source)));
        Expected {
            model,
            optimizer: option(self.request.optimizer).or(moments),
            gradients: option(self.request.gradients).or(from_model),
        }
    }

    /// The parts of the peak, bottom to top.
    fn parts(&self, answer: &SessionPhases, holder: &Known<'_>, at: AtPeak) -> Vec<Part> {
        let measured = |kind: PartKind, name: &str, bytes: Option<i64>| Part {
            kind,
            name: name.to_owned(),
            bytes,
            source: PartSource::Measured,
        };
        // A model or optimizer that is being created at the peak is only partly allocated.
        let sized = |kind: PartKind, name: &str, figure: Figure, there: Option<i64>, in_making: bool| {
            let expected = figure.expected_bytes.and_then(|bytes| i64::try_from(bytes).ok());
            let first_measured = self.request.use_actual_sizes || in_making;
            match (expected, there) {
                (Some(bytes), there) if !first_measured || there.is_none() => {
                    Part { source: PartSource::Expected, ..measured(kind, name, Some(bytes)) }
                }
                (_, there) => measured(kind, name, there),
            }
        };
        let making = |kind: Kind| holder.kind == kind;
        let model = at.model.is_there().then(|| {
            let there = at.model.bytes();
            sized(PartKind::Model, "Model Parameters", answer.model, there, making(Kind::Model))
        });
        let optimizer = at.optimizer.is_there().then(|| {
            let there = at.optimizer.bytes();
            sized(PartKind::Optimizer, "Optimizer State", answer.optimizer, there, making(Kind::Optimizer))
        });
        let held = |kind: PartKind, name: &str, held: Held| {
            held.is_there().then(|| measured(kind, name, held.bytes()))
        };
        let kept = held(PartKind::GradientsKept, "Gradients Kept", at.gradients);
        let rise = if holder.kind == Kind::Backward {
            measured(PartKind::GradientsOverhead, "Gradients Overhead", at.rise)
        } else {
            measured(PartKind::Phase, &self.name(holder.phase), at.rise)
        };
        let activations = held(PartKind::Activations, "Activations", at.activations);
        let named: Vec<Part> =
            [model, kept, Some(rise), optimizer, activations].into_iter().flatten().collect();
        let sum = named.iter().filter_map(|part| part.bytes).fold(0, i64::saturating_add);
        let rest = Part {
            kind: PartKind::Other,
            name: "Other".to_owned(),
            bytes: answer.peak_bytes.map(|peak| peak.saturating_sub(sum)),
            source: PartSource::Rest,
        };
        std::iter::once(rest).chain(named).collect()
    }
}

/// Notes on assumptions and missing figures.
fn notes(answer: &SessionPhases) -> Vec<String> {
    let mut notes = Vec::new();
    if answer.estimated {
        notes.push(
            "Estimated: nothing was allocated (NO_DISPATCH); the figures show what a real run would allocate."
                .to_owned(),
        );
    }
    if !answer.finished {
        notes.push(
            "Incomplete: the log ends before the totals, so the peak is that of the recorded phases.".into(),
        );
    }
    if !answer.torn_phases.is_empty() {
        notes.push(format!(
            "Incomplete: figures of {} are missing; values derived from them are unknown.",
            some_of(&answer.torn_phases)
        ));
    }
    if answer.device_memory_source == Some(Origin::Default) {
        notes.push("The device memory is unknown; assuming 12 GiB (set it with --device-memory).".to_owned());
    }
    let from_header = answer.model.expected_source == Some(Origin::Header);
    if answer.dtype_assumed && from_header {
        notes.push(format!(
            "The log does not contain the dtype of the parameters; assuming {ASSUMED_DTYPE} (set the model size with \
             --model-size)."
        ));
    }
    if answer.model.expected_bytes.is_none() {
        notes.push(match answer.parameters {
            None => "The number of parameters is unknown, so the parts use measured sizes (set the model size with \
                     --model-size)."
                .to_owned(),
            Some(_) => format!(
                "The element size of dtype {} is unknown, so the parts use measured sizes (set the model size with \
                 --model-size).",
                answer.dtype
            ),
        });
    }
    if answer.peak_phase.is_none() {
        notes.push("No phase reaches the peak, so its parts are unknown.".to_owned());
    }
    for part in answer.parts.iter().filter(|part| part.bytes.is_none()) {
        notes.push(format!("The size of {} at the peak is unknown; it is included in Other.", part.name));
    }
    notes
}

/// The first few names, and the number of the others.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| brief(name, 60)).collect();
    if let Some(more) = names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

/// Expected sizes and where they are from.
struct Expected {
    model: Option<(u64, Origin)>,
    optimizer: Option<(u64, Origin)>,
    gradients: Option<(u64, Origin)>,
}

fn excess(answer: &SessionPhases, at: AtPeak) -> Option<advice::Excess<'_>> {
    let over = answer.left_bytes.filter(|left| *left <= 0)?.unsigned_abs();
    let expected = answer.gradients.expected_bytes.and_then(|bytes| i64::try_from(bytes).ok());
    let gradients = answer.gradients.measured_bytes.or(expected);
    Some(advice::Excess { over, at, gradients, phase: answer.peak_phase.as_deref()? })
}

/// The dtype of parameters to assume if the log does not contain it.
const ASSUMED_DTYPE: &str = "bf16";

/// The size of `count` parameters; `None` for an unknown dtype.
fn parameter_bytes(count: u64, dtype: &str) -> Option<u64> {
    let bytes = match dtype.to_ascii_lowercase().as_str() {
        "bf16" | "bfloat16" | "f16" | "float16" | "fp16" | "half" => 2,
        "f32" | "float32" | "fp32" | "float" => 4,
        "f64" | "float64" | "double" => 8,
        "i8" | "u8" | "int8" | "uint8" | "fp8" | "f8e4m3fn" | "f8e5m2" => 1,
        // A tile of 1024 values and 64 exponents.
        "bfp8" | "bfp8_b" | "bfloat8_b" | "bfp_bf8" => {
            return count.checked_mul(1088).map(|sum| sum.div_ceil(1024));
        }
        "bfp4" | "bfp4_b" | "bfloat4_b" | "bfp_bf4" => {
            return count.checked_mul(576).map(|sum| sum.div_ceil(1024));
        }
        _ => return None,
    };
    count.checked_mul(bytes)
}

/// (measured − expected) / expected, in percent.
fn difference_pct(expected: Option<u64>, measured: Option<i64>) -> Option<f64> {
    let expected = i64::try_from(expected?).ok()?;
    percent_of(measured?.checked_sub(expected)?, expected)
}

/// A share in percent, with two decimal places.
#[allow(clippy::cast_precision_loss, reason = "a share, to be shown with two decimal places")]
pub(super) fn percent_of(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 10_000.0).round() / 100.0)
}

/// The phases of each session of a rank, in order.
pub(super) fn by_session<'a>(profile: &Profile, rank: &'a Rank) -> Vec<Vec<Known<'a>>> {
    let mut sessions: Vec<Vec<Known<'a>>> = vec![Vec::new(); rank.sessions.len()];
    for phase in &rank.phases {
        if let Some(session) = sessions.get_mut(phase.session.index()) {
            session.push(Known { kind: Kind::of(profile.text(phase.name)), phase });
        }
    }
    sessions
}

/// The growth of a session from iteration to iteration. `left` is the free device memory at the peak.
fn growth(profile: &Profile, known: &[Known<'_>], left: Option<i64>) -> Option<Growth> {
    let found = phases::growth(known, |phase| profile.text(phase.name))?;
    Some(Growth {
        phase: phases::base_name(profile.text(known.get(found.phase)?.phase.name)).to_owned(),
        iterations: found.iterations,
        per_iteration_bytes: found.per_iteration,
        iterations_left: left.and_then(|left| u64::try_from(left / found.per_iteration).ok()),
    })
}

/// The mean change per iteration of the session that grows most: the phase that ends an iteration, the number of iterations,
/// and the bytes. `None` if there are too few iterations.
pub(super) fn change_per_iteration(profile: &Profile, rank: &Rank) -> Option<(String, u64, i64)> {
    let of_session = |known: Vec<Known<'_>>| {
        let found = phases::change_per_iteration(&known, |phase| profile.text(phase.name))?;
        let phase = phases::base_name(profile.text(known.get(found.phase)?.phase.name));
        Some((phase.to_owned(), found.iterations, found.per_iteration))
    };
    by_session(profile, rank).into_iter().filter_map(of_session).max_by_key(|(_, _, bytes)| *bytes)
}

/// The sessions of a rank in a summary.
pub(super) fn session_summaries(
    profile: &Profile,
    rank: &Rank,
    thresholds: &Thresholds,
) -> Vec<SessionSummary> {
    let of_sessions = by_session(profile, rank);
    let sessions = rank.sessions.iter().zip(&of_sessions);
    sessions.map(|(session, known)| session_summary(profile, session, known, thresholds)).collect()
}

/// The free device memory at a peak; negative if the peak does not fit.
fn left_of(device_memory: u64, peak: i64) -> i64 {
    i64::try_from(device_memory).unwrap_or(i64::MAX).saturating_sub(peak)
}

/// The level of a peak; `None` if the peak or the device memory is unknown.
fn level(thresholds: &Thresholds, peak: Option<i64>, device_memory: Option<u64>) -> Option<Level> {
    thresholds.level(POOL, peak.and_then(|peak| u64::try_from(peak).ok()), device_memory)
}

fn session_summary(
    profile: &Profile,
    session: &Session,
    known: &[Known<'_>],
    thresholds: &Thresholds,
) -> SessionSummary {
    let last = known.last().and_then(|known| known.phase.cumulative_current);
    let peak = phases::peak(session, known);
    SessionSummary {
        name: session.name.map(|name| profile.text(name).to_owned()),
        parameters: session.parameters,
        dtype: session.dtype.map(|dtype| profile.text(dtype).to_owned()),
        device_memory_bytes: session.device_memory,
        estimated: session.estimated,
        finished: session.totals.is_some(),
        line: session.line,
        peak_bytes: peak,
        level: level(thresholds, peak, session.device_memory),
        fits: session.device_memory.zip(peak).map(|(device, peak)| left_of(device, peak) > 0),
        growth: growth(
            profile,
            known,
            session.device_memory.zip(peak).map(|(device, peak)| left_of(device, peak)),
        ),
        final_bytes: session.totals.and_then(|totals| totals.current).or(last),
    }
}

/// A phase in a summary.
pub(super) fn phase_summary(profile: &Profile, phase: &Phase) -> PhaseSummary {
    PhaseSummary {
        session: phase.session.index(),
        name: profile.text(phase.name).to_owned(),
        first_step: phase.steps.map(|(first, _)| first),
        end_step: phase.steps.map(|(_, end)| end),
        segment_peak_bytes: phase.segment_peak,
        allocations_bytes: phase.allocations,
        deallocations_bytes: phase.deallocations,
        change_bytes: phase.change,
        cumulative_peak_bytes: phase.cumulative_peak,
        cumulative_current_bytes: phase.cumulative_current,
        l1_peak_cb_bytes: phase.l1_peak_cb,
        l1_peak_buffer_bytes: phase.l1_peak_buffer,
        l1_peak_total_bytes: phase.l1_peak_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_parameters_depends_on_their_dtype() {
        let bytes = |dtype| parameter_bytes(1024, dtype);
        assert_eq!((bytes("bf16"), bytes("Float32"), bytes("int8")), (Some(2048), Some(4096), Some(1024)));
        assert_eq!((bytes("bfp8"), bytes("bfp4"), bytes("posit")), (Some(1088), Some(576), None));
        assert_eq!(parameter_bytes(u64::MAX, "f32"), None);
    }

    #[test]
    fn long_lists_of_names_are_shortened() {
        let names: Vec<String> = (0..8).map(|number| format!("PHASE_{number}")).collect();
        assert_eq!(some_of(&names[..2]), "PHASE_0, PHASE_1");
        assert!(some_of(&names).ends_with("PHASE_4, 3 more"));
    }

    #[test]
    fn shares_have_two_decimal_places() {
        assert_eq!(
            (percent_of(1, 3), percent_of(-1, 3), percent_of(1, 0)),
            (Some(33.33), Some(-33.33), None)
        );
        assert_eq!(difference_pct(Some(200), Some(150)), Some(-25.0));
        assert_eq!(difference_pct(Some(u64::MAX), Some(150)), None);
    }
}
