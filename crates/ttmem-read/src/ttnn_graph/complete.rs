//! Completes a capture of a real run with a capture of the same program that ran nothing (`RunMode.NO_DISPATCH`).
//!
//! A capture of a real run has addresses, but not the dataflow buffers and scratchpads of programs. A capture without
//! dispatch has all buffers, but no addresses. Both have the same programs in the same order.

use rustc_hash::FxHashMap;
use ttmem_model::words::counted;
use ttmem_model::{
    FaultKind, OpKind, Profile, ProgramBuffer, ProgramBuffers, Rank, Step, StepMarks, StrId, Warning,
};

use super::TtnnGraph;
use crate::Reader;

/// How far the programs of two captures are searched for the next common one.
const WINDOW: usize = 64;

/// Whether a profile may be completed, or complete another one.
pub fn may_complete(profile: &Profile) -> bool {
    // A database has the programs of the capture that it was made from.
    let is_capture = [TtnnGraph.name(), "ttnn_db"].contains(&profile.source.format.as_str());
    is_capture && profile.ranks.len() == 1
}

/// Completes captures of real runs with captures without dispatch among the same profiles. A capture that was used for
/// that becomes `None`. One that does not match any other gets a warning.
pub fn complete(profiles: Vec<Profile>) -> Vec<Option<Profile>> {
    let mut profiles: Vec<Option<Profile>> = profiles.into_iter().map(Some).collect();
    for row in 0..profiles.len() {
        let Some(estimate) = profiles[row].take_if(|profile| is_estimate(profile)) else { continue };
        profiles[row] = use_estimate(&mut profiles, estimate);
    }
    profiles
}

/// Completes the capture that matches an estimate best. Returns the estimate if there is none.
fn use_estimate(profiles: &mut [Option<Profile>], mut estimate: Profile) -> Option<Profile> {
    let runs = profiles.iter_mut().flatten().filter(|profile| is_run(profile));
    let matched = runs.map(|run| (Matched::of(run, &estimate), run));
    let best = matched.max_by_key(|(found, _)| (found.is_same_program(), found.pairs.len()));
    let Some((found, run)) = best else { return Some(estimate) };
    if found.is_same_program() {
        found.apply(run, &estimate);
        return None;
    }
    let why = if found.is_same_device {
        let steps = counted(found.of_run, "operation");
        format!("is of another program: {} of its {steps} match", found.pairs.len())
    } else {
        "is of another kind of device".to_owned()
    };
    let message = format!("cannot complete {}, which {why}", run.source.file);
    estimate.warnings.push(Warning { line: None, message });
    Some(estimate)
}

fn is_estimate(profile: &Profile) -> bool {
    may_complete(profile) && profile.ranks[0].sessions.iter().any(|session| session.estimated)
}

fn is_run(profile: &Profile) -> bool {
    may_complete(profile) && !is_estimate(profile)
}

/// The operations that two captures have in common.
struct Matched {
    /// The steps of the run and of the estimate.
    pairs: Vec<(Step, Step)>,
    /// The number of operations of the run.
    of_run: usize,
    /// The number of operations of the estimate, up to the last one in common.
    of_estimate: usize,
    is_same_device: bool,
}

impl Matched {
    fn of(run: &Profile, estimate: &Profile) -> Self {
        let (of_run, of_estimate) = (operations(run), operations(estimate));
        let mut pairs = Vec::new();
        let (mut here, mut there) = (0, 0);
        while here < of_run.len() && there < of_estimate.len() {
            // The nearest common operation; usually the next one of both.
            let Some((a, b)) = next_common(&of_run[here..], &of_estimate[there..]) else { break };
            pairs.push((of_run[here + a].step, of_estimate[there + b].step));
            (here, there) = (here + a + 1, there + b + 1);
        }
        let layout = |profile: &Profile| {
            let memory = profile.ranks[0].core_memory?;
            Some((memory.size, memory.reserved, memory.grid))
        };
        let is_same_device = match (layout(run), layout(estimate)) {
            (Some(run), Some(estimate)) => run == estimate,
            _ => true,
        };
        Self { pairs, of_run: of_run.len(), of_estimate: there, is_same_device }
    }

    /// Whether at least nine of ten operations of both match.
    fn is_same_program(&self) -> bool {
        let is_most = |of: usize| self.pairs.len() * 10 >= of * 9;
        self.is_same_device && self.of_run > 0 && is_most(self.of_run) && is_most(self.of_estimate)
    }

    /// Gives the programs of the run the buffers that they have in the estimate.
    fn apply(&self, run: &mut Profile, estimate: &Profile) {
        let mut texts: FxHashMap<StrId, StrId> = FxHashMap::default();
        let mut found: Vec<ProgramBuffer> = Vec::new();
        for &(step, there) in &self.pairs {
            if is_known(&run.ranks[0], step) || !lacks_program(&run.ranks[0], step) {
                continue;
            }
            for buffer in estimate.ranks[0].program_buffers.of(there) {
                let known = texts.get(&buffer.cores).copied();
                let Some(cores) = known.or_else(|| run.strings.push(estimate.text(buffer.cores))) else {
                    return;
                };
                texts.insert(buffer.cores, cores);
                found.push(ProgramBuffer { step, cores, ..buffer });
            }
            if let Some(marks) = run.ranks[0].steps.marks.get_mut(step as usize) {
                marks.remove(StepMarks::UNKNOWN_PROGRAM);
            }
        }
        let rank = &mut run.ranks[0];
        let mut rows: Vec<ProgramBuffer> = rank.program_buffers.iter().chain(found).collect();
        rows.sort_by_key(|buffer| buffer.step);
        rank.program_buffers = ProgramBuffers::default();
        for buffer in rows {
            rank.program_buffers.push(buffer);
        }
    }
}

/// An operation of a capture. Both kinds of captures have its name and the sizes of what it allocates.
#[derive(Clone, Copy)]
struct Operation<'a> {
    step: Step,
    name: &'a str,
    /// The bytes per bank that it allocates.
    allocated: u64,
}

/// The first position in each list of the same operation, with the fewest skipped.
fn next_common(here: &[Operation<'_>], there: &[Operation<'_>]) -> Option<(usize, usize)> {
    (0..2 * WINDOW).find_map(|skipped| {
        (0..=skipped).map(|a| (a, skipped - a)).find(|&(a, b)| match (here.get(a), there.get(b)) {
            (Some(one), Some(other)) => (one.name, one.allocated) == (other.name, other.allocated),
            _ => false,
        })
    })
}

/// The operations that allocate memory or run programs.
fn operations(profile: &Profile) -> Vec<Operation<'_>> {
    let rank = &profile.ranks[0];
    let mut allocated = vec![0_u64; rank.steps.len()];
    for (step, bytes) in rank.tensors.step.iter().zip(&rank.tensors.per_bank) {
        if let Some(sum) = step.and_then(|step| allocated.get_mut(step.get() as usize)) {
            *sum = sum.saturating_add(bytes.or_zero());
        }
    }
    let computes = |step: &Step| profile.op_kind(rank, *step) == OpKind::Compute;
    let steps = (0..rank.end()).filter(computes);
    let operation = |step: Step| Operation {
        step,
        name: profile.op_name(rank, step).unwrap_or_default(),
        allocated: allocated.get(step as usize).copied().unwrap_or(0),
    };
    steps.map(operation).collect()
}

/// Whether the program of a step is unknown, or did not fit. Then the capture has no buffers of it.
fn lacks_program(rank: &Rank, step: Step) -> bool {
    let marks = rank.steps.marks.get(step as usize).copied().unwrap_or_default();
    marks.has(StepMarks::UNKNOWN_PROGRAM) || marks.has(StepMarks::FAILED) || is_clash(rank, step)
}

/// Whether the program of a step did not fit. Then the capture has no program.
fn is_clash(rank: &Rank, step: Step) -> bool {
    let is_of_program =
        |kind| matches!(kind, FaultKind::CircularBuffersClash | FaultKind::CircularBuffersTooLarge);
    rank.faults.iter().any(|fault| fault.step == Some(step) && is_of_program(fault.kind))
}

fn is_known(rank: &Rank, step: Step) -> bool {
    rank.program_buffers.of(step).next().is_some()
}
