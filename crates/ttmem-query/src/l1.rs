//! The L1 of a Tenstorrent core in the response of `ttmem summary`: its parts at the peak, and the lowest headroom.

use serde::Serialize;
use ttmem_model::{CoreMemory, Profile, Rank, Step, TtnnPeaks};

use super::level::{Level, Thresholds};
use super::statement::Statement;
use super::words::{brief, size};
use crate::analyze::Span;
use crate::analyze::l1::{L1, StepUse};

/// The maximum length of a location in a sentence.
const MAX_LOCATION: usize = 60;

/// The L1 of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct L1Summary {
    /// The size of a core's L1.
    pub size_per_core: Option<u64>,
    /// The part that the runtime reserves.
    pub reserved_per_core: Option<u64>,
    /// The region for small buffers (`L1_SMALL`).
    pub small_region_per_core: Option<u64>,
    /// The number of cores that run programs, in x and y direction.
    pub grid: Option<(u32, u32)>,
    /// Whether nothing ran: sizes are right, but addresses and the headroom are those of tensors without gaps.
    pub is_estimate: bool,
    /// The number of programs.
    pub programs: usize,
    /// The number of programs whose buffers are not in the input.
    pub unknown_programs: usize,
    /// The step with the most memory in use on a core.
    pub peak: Option<L1Moment>,
    /// Whether the actual peak may be higher.
    pub peak_is_lower_bound: bool,
    /// Why the actual peak may be higher, and what to do about it.
    pub note: Option<String>,
    /// How close the peak is to the size.
    pub level: Option<Level>,
    /// The step with the lowest headroom.
    pub lowest_headroom: Option<L1Moment>,
    /// The requested step: while it runs.
    pub at: Option<L1Moment>,
    /// The peaks that ttnn's own functions compute from the capture.
    pub ttnn: Option<TtnnL1Peaks>,
    /// What cannot run, for a program that was only captured and did not run.
    pub verdict: Option<Statement>,
}

/// The peaks of L1 by the rules of ttnn's own functions. They assume that all program buffers are on the same core, and
/// that these stay until the next program begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TtnnL1Peaks {
    /// `extract_resource_usage_per_core`: circular buffers.
    pub peak_cb: u64,
    /// `extract_resource_usage_per_core`: dataflow buffers.
    pub peak_dataflow_buffer: u64,
    /// `extract_resource_usage_per_core`: scratchpads.
    pub peak_scratchpad: u64,
    /// `extract_resource_usage_per_core`: buffers of tensors.
    pub peak_l1: u64,
    /// `extract_resource_usage_per_core`: all of them at the same time.
    pub peak_total: u64,
    /// `extract_peak_L1_memory_usage`: the buffers of all cores plus the program buffers of one core.
    pub peak_l1_memory_usage: u64,
}

impl From<TtnnPeaks> for TtnnL1Peaks {
    fn from(peaks: TtnnPeaks) -> Self {
        Self {
            peak_cb: peaks.circular,
            peak_dataflow_buffer: peaks.dataflow,
            peak_scratchpad: peaks.scratchpads,
            peak_l1: peaks.buffers,
            peak_total: peaks.total,
            peak_l1_memory_usage: peaks.device,
        }
    }
}

/// A part of a core's L1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct L1Part {
    /// `reserved`, `circular buffers`, `dataflow buffers`, `scratchpads`, `program buffers`, `tensors` or `L1_SMALL`.
    pub name: &'static str,
    /// The size; null if unknown.
    pub bytes: Option<u64>,
}

/// The L1 of a core while a step runs. Of the cores, the one whose program buffers end highest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct L1Moment {
    /// The step.
    pub step: Step,
    /// Its operation.
    pub op: Option<String>,
    /// The location of the operation.
    pub loc: Option<String>,
    /// All bytes in use: the reserved part, the program's buffers, the tensors, and the region for small buffers.
    pub bytes: Option<u64>,
    /// The bytes of tensors.
    pub tensors: Option<u64>,
    /// The bytes of circular buffers; null if unknown.
    pub circular_buffers: Option<u64>,
    /// The bytes of dataflow buffers; null if unknown.
    pub dataflow_buffers: Option<u64>,
    /// The bytes of scratchpads; null if unknown.
    pub scratchpads: Option<u64>,
    /// The parts in the order of their addresses, without empty ones.
    pub parts: Vec<L1Part>,
    /// The address where the program's buffers end.
    pub program_end: Option<u64>,
    /// The address of the lowest tensor.
    pub lowest_tensor: Option<u64>,
    /// The bytes between the two; negative if they overlap.
    pub headroom: Option<i64>,
    /// The bytes between tensors. Program buffers cannot use them.
    pub holes: Option<u64>,
    /// Whether the actual headroom may be smaller: buffers are unknown, or tensors have no addresses.
    pub headroom_is_upper_bound: bool,
}

/// The L1 of a rank; `None` if the input does not have its layout or programs.
pub(super) fn l1_summary(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    at: Option<Step>,
    thresholds: &Thresholds,
) -> Option<L1Summary> {
    let l1 = L1::of(profile, rank)?;
    let uses = l1.steps();
    let steps = || (0..).zip(&uses).filter(|(step, _)| (span.first..span.end).contains(step));
    let moment = |(step, found): (Step, &StepUse)| moment(profile, rank, l1.memory, step, found);
    // The first of several equal ones.
    let fullest = steps().rev_max_by_key(|(_, found)| in_use(l1.memory, found));
    let tightest =
        steps().filter(|(_, found)| found.headroom().is_some()).min_by_key(|(_, found)| found.headroom());
    let programs = steps().filter(|(_, found)| found.program.runs).count();
    let unknown_programs = steps().filter(|(_, found)| found.is_open()).count();
    let is_estimated = |(step, found): &(Step, &StepUse)| {
        found.program.is_known && !found.program.failed && l1.is_from_estimate(*step)
    };
    let estimated_programs = steps().filter(is_estimated).count();
    let memory = l1.memory;
    let peak = fullest.map(moment);
    let is_incomplete = l1.pool.is_some_and(|pool| rank.not_watched.iter().any(|(of, _)| *of == pool));
    // Unknown buffers may leave less, and so do gaps between tensors without addresses.
    let is_bound = unknown_programs > 0 || is_incomplete || l1.is_estimate;
    let bounded = |lowest: L1Moment| {
        let is_certain = lowest.headroom < Some(0) && !l1.is_estimate;
        L1Moment { headroom_is_upper_bound: is_bound && !is_certain, ..lowest }
    };
    let lowest_headroom = tightest.map(moment).map(bounded);
    let size = memory.map(|memory| memory.size);
    let bytes = peak.as_ref().and_then(|peak| peak.bytes);
    Some(L1Summary {
        size_per_core: size,
        reserved_per_core: memory.map(|memory| memory.reserved),
        small_region_per_core: memory.map(|memory| memory.small),
        grid: memory.and_then(|memory| memory.grid),
        is_estimate: l1.is_estimate,
        programs,
        unknown_programs,
        level: thresholds.level("L1", bytes, size),
        // Programs that ran took no more than there is.
        peak_is_lower_bound: memory.is_none() || is_incomplete || unknown_programs > 0 && bytes <= size,
        note: note(memory, programs, unknown_programs, estimated_programs, is_incomplete),
        verdict: lowest_headroom
            .as_ref()
            .filter(|_| l1.is_estimate)
            .and_then(|tightest| verdict(memory, tightest)),
        peak,
        lowest_headroom,
        ttnn: rank.ttnn_peaks.map(TtnnL1Peaks::from),
        at: at.and_then(|at| steps().find(|(step, _)| *step == at)).map(moment),
    })
}

/// All bytes in use on a core; without the layout, those of tensors and program buffers.
fn in_use(memory: Option<CoreMemory>, found: &StepUse) -> Option<u64> {
    let around = memory.map_or(0, |memory| memory.reserved.saturating_add(memory.small));
    // Gaps between program buffers cannot be used either.
    let program = match (memory, found.program.end) {
        (Some(memory), Some(end)) => end.saturating_sub(memory.reserved),
        _ => found.program.bytes(),
    };
    found.tensors?.checked_add(program)?.checked_add(around)
}

fn moment(
    profile: &Profile,
    rank: &Rank,
    memory: Option<CoreMemory>,
    step: Step,
    found: &StepUse,
) -> L1Moment {
    let program = &found.program;
    let known = |bytes: u64| Some(bytes).filter(|_| !program.runs || program.is_known);
    L1Moment {
        step,
        op: profile.op_name(rank, step).map(str::to_owned),
        loc: profile.op_loc(rank, step).map(str::to_owned),
        bytes: in_use(memory, found),
        tensors: found.tensors,
        circular_buffers: known(program.circular),
        dataflow_buffers: known(program.dataflow),
        scratchpads: known(program.scratchpads),
        parts: parts(memory, found),
        program_end: found.program.end,
        lowest_tensor: found.lowest_tensor,
        headroom: found.headroom(),
        holes: holes(memory, found),
        headroom_is_upper_bound: found.is_open(),
    }
}

/// The free bytes above the lowest tensor.
fn holes(memory: Option<CoreMemory>, found: &StepUse) -> Option<u64> {
    let memory = memory?;
    let top = memory.size.checked_sub(memory.small)?;
    top.checked_sub(found.lowest_tensor?)?.checked_sub(found.tensors?)
}

/// The parts of a core's L1, in the order of their addresses.
fn parts(memory: Option<CoreMemory>, found: &StepUse) -> Vec<L1Part> {
    let program = &found.program;
    let part = |name, bytes| L1Part { name, bytes };
    let mut parts = vec![part("reserved", memory.map(|memory| memory.reserved))];
    if !program.runs || program.is_known {
        parts.push(part("circular buffers", Some(program.circular)));
        parts.push(part("dataflow buffers", Some(program.dataflow)));
        parts.push(part("scratchpads", Some(program.scratchpads)));
    } else {
        // Their end is known if they did not fit.
        let end = program.end.filter(|_| program.failed);
        parts.push(part(
            "program buffers",
            memory.zip(end).and_then(|(memory, end)| end.checked_sub(memory.reserved)),
        ));
    }
    parts.push(part("tensors", found.tensors));
    parts.push(part("L1_SMALL", Some(memory.map_or(0, |memory| memory.small))));
    parts.retain(|part| part.bytes != Some(0));
    parts
}

/// The verdict on a program that did not run, if it cannot or may not run.
fn verdict(memory: Option<CoreMemory>, tightest: &L1Moment) -> Option<Statement> {
    let missing = tightest.headroom.filter(|headroom| *headroom < 0)?.unsigned_abs();
    let memory = memory?;
    let named = tightest.parts.iter().filter_map(|part| Some(format!("{} {}", part.name, size(part.bytes?))));
    let place =
        tightest.loc.as_ref().map_or_else(String::new, |loc| format!(" at {}", brief(loc, MAX_LOCATION)));
    let operation = tightest.op.as_deref().unwrap_or("the operation");
    let detail = format!(
        "Step {}, {operation}{place}, takes {} of {} on a core ({}).",
        tightest.step,
        size(tightest.bytes?),
        size(memory.size),
        named.collect::<Vec<_>>().join(", ")
    );
    let bank = memory.size.checked_sub(memory.reserved)?.checked_sub(memory.small)?;
    // The sizes of tensors are certain.
    let headline = if tightest.tensors.is_some_and(|tensors| tensors > bank) {
        format!("Does not fit: L1 is {} short, even without gaps between tensors.", size(missing))
    } else {
        format!(
            "May not fit: L1 is {} short, unless the operation needs less when less is free.",
            size(missing)
        )
    };
    let advice = if tightest.program_end.is_some_and(|end| end > memory.size) {
        "The program's buffers alone do not fit: use smaller blocks, or spread the operation over more cores."
    } else {
        "Move tensors that are live at this step to DRAM, free them earlier, shard them over more cores, or use smaller \
         blocks in the program config. Some operations, such as matmul and layer_norm, choose smaller buffers if less L1 is \
         free; only a run shows that."
    };
    Some(Statement::new(headline).detail(detail).advice(advice.to_owned()))
}

fn note(
    memory: Option<CoreMemory>,
    programs: usize,
    unknown: usize,
    estimated: usize,
    is_incomplete: bool,
) -> Option<String> {
    let mut notes = Vec::new();
    if estimated > 0 {
        notes.push(format!(
            "The buffers of {estimated} of {programs} programs are from the capture without dispatch, where L1 is empty: some \
             operations use less if less is free."
        ));
    }
    if unknown > 0 {
        notes.push(format!(
            "The buffers of {unknown} of {programs} programs are not in the input: a capture of a real run does not \
             contain dataflow buffers. Capture the program once more with RunMode.NO_DISPATCH and pass both files."
        ));
    }
    if is_incomplete {
        notes.push(
            "L1 buffers that existed before the capture are missing. Begin the capture earlier, or make a detailed one \
             (ttnn.graph.enable_detailed_buffer_tracing())."
                .to_owned(),
        );
    }
    if memory.is_none() {
        notes.push(
            "The input does not have the layout of L1. Capture with end_graph_capture_to_file, which records it.".to_owned(),
        );
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// `max_by_key` that returns the first of several equal elements.
trait FirstMax: Iterator + Sized {
    fn rev_max_by_key<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        self.fold(None, |best: Option<(Self::Item, K)>, item| {
            let rank = key(&item);
            match best {
                Some((best, at)) if at >= rank => Some((best, at)),
                _ => Some((item, rank)),
            }
        })
        .map(|(item, _)| item)
    }
}

impl<I: Iterator> FirstMax for I {}
