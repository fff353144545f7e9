//! The profile of the last pass, derived from the profile of the whole log.
//!
//! Runs, steps and tensors of the pass are numbered from 0. Tensors that were allocated before the pass and are still
//! live when it begins are carried over: they exist from the first moment, and have the program, operation and location
//! that allocated them instead of a run and a step. Texts, types, operations and modules keep their IDs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ttmem_model::rules::Span;
use ttmem_model::{
    Alias, Carried, Curve, CurveKind, CutOut, Derivation, Error, Fault, Moment, Origin, Pool, Profile, Rank,
    Reading, Result, Run, RunId, Step, StepNumber, StepRow, StrId, Strings, Tensor, TensorId, Warning,
};

use super::Part;

/// The profile of the last pass of each rank. `processes` is the warning that several processes wrote the log.
pub(super) fn profile(
    name: &str,
    log: &Profile,
    parts: &[Part],
    processes: Option<&Warning>,
) -> Result<Profile> {
    let mut strings = log.strings.clone();
    let nameless = empty_text(&mut strings);
    let mut ranks = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(rank) = log.ranks.get(part.rank) else { continue };
        if part.begin.is_some() && rank.steps.is_empty() {
            return Err(no_steps(name));
        }
        ranks.push(Excerpt::new(log, rank, part, nameless).rank(part.of)?);
    }
    // Only one process of each label remains.
    let mut warnings: Vec<Warning> =
        log.warnings.iter().filter(|warning| Some(*warning) != processes).cloned().collect();
    warnings.extend(left_out(log, parts));
    Ok(Profile {
        source: log.source.clone(),
        strings,
        types: log.types.clone(),
        ops: log.ops.clone(),
        texts: texts_of(log, &ranks),
        ranks,
        warnings,
        skipped_lines: log.skipped_lines,
        complete: log.complete,
        ..Profile::default()
    })
}

/// The ID of the empty text, which is the name of programs without a name.
fn empty_text(strings: &mut Strings) -> Option<StrId> {
    let found = strings.iter().position(str::is_empty);
    match found {
        Some(index) => StrId::new(index),
        None => strings.push(""),
    }
}

fn no_steps(name: &str) -> Error {
    Error::NotFound(format!(
        "{name}: memory states without operations can't be assigned to a pass, so the last pass has no profile; \
         omit --profile, or capture with TT_RUNTIME_MEMORY_LOG_LEVEL=operation"
    ))
}

/// Warnings about ranks whose last pass is unknown.
fn left_out(log: &Profile, parts: &[Part]) -> Vec<Warning> {
    let labels: Vec<Option<StrId>> =
        parts.iter().filter_map(|part| log.ranks.get(part.rank)).map(|rank| rank.label).collect();
    let is_left_out = |rank: &&Rank| rank.has_content() && !labels.contains(&rank.label);
    let warning = |rank: &Rank| {
        let lines = match rank.label {
            Some(label) => format!("the lines of rank {}", log.text(label)),
            None => "lines without a rank tag".to_owned(),
        };
        let message =
            format!("{lines} do not name programs; the profile of the last pass does not include them");
        Warning { line: None, message }
    };
    log.ranks.iter().filter(is_left_out).map(warning).collect()
}

/// The module texts of ranks.
fn texts_of(log: &Profile, ranks: &[Rank]) -> BTreeMap<(u64, u64), String> {
    let modules = ranks.iter().flat_map(|rank| &rank.modules);
    let places: BTreeSet<(u64, u64)> = modules
        .flat_map(|module| &module.stages)
        .map(|stage| (stage.source.start, stage.source.end))
        .collect();
    let kept = log.texts.iter().filter(|(place, _)| places.contains(place));
    kept.map(|(place, text)| (*place, text.clone())).collect()
}

/// One rank, restricted to its last pass.
struct Excerpt<'a> {
    log: &'a Profile,
    rank: &'a Rank,
    runs: Range<usize>,
    steps: Range<Step>,
    /// The first and the last moment.
    start: Moment,
    last: Moment,
    /// The name of programs without a name.
    nameless: Option<StrId>,
}

impl<'a> Excerpt<'a> {
    fn new(log: &'a Profile, rank: &'a Rank, part: &Part, nameless: Option<StrId>) -> Self {
        let end = part.end.map_or(u64::MAX, |end| end.next);
        let step_at = |offset: u64| {
            let step = rank.steps.offset.partition_point(|before| *before < offset);
            u32::try_from(step).unwrap_or(u32::MAX)
        };
        let (run, step) = match (part.begin, rank.top_level_runs().nth(part.first)) {
            (None, _) => (0, 0),
            (Some(_), Some((id, run))) => (id.index(), run.first),
            // Without programs, the pass can only be located by its lines.
            (Some(begin), None) => (0, step_at(begin.run.offset)),
        };
        let runs = run..rank.runs.partition_point(|run| run.source.start < end).max(run);
        let steps = step..step_at(end).max(step);
        let span = Span { first: steps.start, end: steps.end };
        Self { log, rank, runs, steps, start: span.start(), last: span.last(rank), nameless }
    }

    /// Whether the pass does not cover the whole log.
    fn is_cut(&self) -> bool {
        self.runs != (0..self.rank.runs.len()) || self.steps != (0..self.rank.end())
    }

    fn rank(&self, passes: usize) -> Result<Rank> {
        if !self.is_cut() {
            return Ok(Rank { process: None, ..self.rank.clone() });
        }
        let of = u32::try_from(passes).unwrap_or(u32::MAX);
        let mut rank = Rank {
            label: self.rank.label,
            pools: self.rank.pools.iter().map(|pool| self.pool(pool)).collect::<Result<_>>()?,
            modules: self.rank.modules.clone(),
            runs: self.rank.runs[self.runs.clone()].iter().map(|run| self.run(run)).collect(),
            cut_out: Some(CutOut { pass: of, of, first: 0 }),
            ..Rank::default()
        };
        for step in self.steps.clone() {
            let Some(row) = self.rank.steps.get(step as usize) else { break };
            rank.steps.push(StepRow { run: row.run.and_then(|run| self.run_id(run)), ..row });
        }
        for (index, fault) in (0..).zip(&self.rank.faults) {
            let Some(fault) = self.fault(fault) else { continue };
            if let Some(&detail) = self.rank.fault_details.get(&index) {
                rank.fault_details.insert(u32::try_from(rank.faults.len()).unwrap_or(u32::MAX), detail);
            }
            rank.faults.push(fault);
        }
        self.tensors(&mut rank);
        Ok(rank)
    }

    fn run_id(&self, id: RunId) -> Option<RunId> {
        id.index().checked_sub(self.runs.start).filter(|_| id.index() < self.runs.end).and_then(RunId::new)
    }

    fn step(&self, step: Step) -> Option<Step> {
        self.steps.contains(&step).then(|| step - self.steps.start)
    }

    /// Converts a moment of the log to one of the pass; anything before the pass becomes its first moment.
    fn moment(&self, at: Moment) -> Moment {
        if at < self.start {
            return Moment::START;
        }
        let shift = Moment::early(self.steps.start).index();
        let moment = at.index().checked_sub(shift).filter(|_| at <= self.last);
        moment.and_then(Moment::from_index).unwrap_or(Moment::NEVER)
    }

    fn run(&self, run: &Run) -> Run {
        let position = |step: Step| step.clamp(self.steps.start, self.steps.end) - self.steps.start;
        Run {
            parent: run.parent.and_then(|parent| self.run_id(parent)),
            first: position(run.first),
            end: position(run.end),
            ..*run
        }
    }

    /// An error of the pass. One outside all steps that ended the program came after all passes.
    fn fault(&self, fault: &Fault) -> Option<Fault> {
        match fault.step {
            Some(step) => Some(Fault { step: Some(self.step(step)?), ..*fault }),
            None => fault.ended_program.then_some(*fault),
        }
    }

    /// A pool with its readings during the pass.
    fn pool(&self, pool: &Pool) -> Result<Pool> {
        let mut kept = Pool::new(pool.name, pool.banks, pool.quantum);
        let mut shown = Reading::default();
        pool.replay(&mut |at, change| {
            for (kind, value) in change.iter().flat_map(Reading::values) {
                if value.is_some() {
                    shown.set(kind, value);
                }
            }
            if self.start <= at && at <= self.last {
                let at = self.moment(at);
                match change {
                    // The changes since the last reading before the pass cannot be derived from the pass alone.
                    _ if kept.observed.is_empty() => kept.observe(at, &shown),
                    Some(change) => kept.observe(at, &change),
                    None => kept.look(at),
                };
            }
            Ok(())
        })?;
        if kept.observed.is_empty() {
            // Without a reading during the pass, only the pool size is known.
            let capacity = pool.curve(CurveKind::Capacity).and_then(Curve::last);
            kept.observe(Moment::START, &Reading { capacity, ..Reading::default() });
        }
        Ok(kept)
    }

    /// Adds the tensors that are live during the pass, and their properties.
    fn tensors(&self, rank: &mut Rank) {
        let mut ids: Vec<Option<TensorId>> = vec![None; self.rank.tensors.len()];
        for index in self.tensors_alive() {
            let (Some(id), Some(tensor)) = (TensorId::new(rank.tensors.len()), self.rank.tensors.get(index))
            else {
                break;
            };
            ids[index] = Some(id);
            if let Some(carried) = self.carried(id, &tensor) {
                rank.carried.push(carried);
            }
            rank.tensors.push(Tensor {
                born: self.moment(tensor.born),
                dies: self.moment(tensor.dies),
                run: tensor.run.and_then(|run| self.run_id(run)),
                step: tensor.step.and_then(|step| self.step(step.get())).and_then(StepNumber::new),
                ..tensor
            });
        }
        let id_of = |tensor: TensorId| ids.get(tensor.index()).copied().flatten();
        for alias in self.rank.aliases.iter() {
            if let Some(tensor) = id_of(alias.tensor) {
                let run = alias.run.and_then(|run| self.run_id(run));
                rank.aliases.push(Alias { tensor, run, ..alias });
            }
        }
        for row in self.rank.derivations.iter() {
            if let (Some(tensor), Some(source)) = (id_of(row.tensor), id_of(row.source)) {
                rank.derivations.push(Derivation { tensor, source });
            }
        }
        for origin in self.rank.origins.iter() {
            if let Some(tensor) = id_of(origin.tensor) {
                rank.origins.push(Origin { tensor, ..origin });
            }
        }
    }

    /// The tensors that are live during the pass: those from before it first, oldest first.
    fn tensors_alive(&self) -> Vec<usize> {
        let tensors = &self.rank.tensors;
        let is_alive = |index: &usize| self.start < tensors.dies[*index] && tensors.born[*index] <= self.last;
        let alive = (0..tensors.len()).filter(is_alive);
        let (mut before, during): (Vec<usize>, Vec<usize>) =
            alive.partition(|index| tensors.born[*index] < self.start);
        before.sort_by_key(|index| tensors.born[*index]);
        before.extend(during);
        before
    }

    /// The origin of a tensor whose run or step is not part of the pass.
    fn carried(&self, id: TensorId, tensor: &Tensor) -> Option<Carried> {
        let step = tensor.step.map(StepNumber::get);
        let is_cut = tensor.run.is_some_and(|run| self.run_id(run).is_none())
            || step.is_some_and(|step| self.step(step).is_none());
        let run = tensor.run.and_then(|run| self.rank.run(run));
        let program = run.map(|run| run.program).or(self.nameless).filter(|_| is_cut)?;
        let op = step.and_then(|step| self.rank.op_id(step));
        let ops = &self.log.ops;
        Some(Carried {
            tensor: id,
            program,
            op: op.and_then(|op| ops.name(op)),
            loc: op.and_then(|op| ops.loc(op)),
        })
    }
}
