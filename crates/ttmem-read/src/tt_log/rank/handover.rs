//! What a rank hands over where the last pass begins, and what it takes up from the head of a cut-out.
//!
//! Between two programs a rank is what it remembers: what is alive and who holds it, what is cached for whom, which
//! arguments are on the device, what earlier programs returned, and what the pools held. All of it is said in lines
//! (`carried`); a rank that takes these lines up is as the one was that handed them over, so that it understands
//! the last pass in just the same way.

use rustc_hash::FxHashMap;

use super::super::carried::{ArgumentOf, Cached, Line, MadeFrom, Pool, Results, Tensor, Told};
use super::super::life::{Alloc, AllocRef};
use super::super::tables::Tables;
use super::{CacheKey, Kept, Owner, RankState};
use ttmem_model::Result;
use ttmem_model::{
    Alias, Carried, CutOut, Derivation, Moment, Origin, Profile, Rank, RankEvent, RunId, Step, StrId,
    TensorId,
};

/// What was taken up from the head of a cut-out.
#[derive(Debug, Default)]
pub(super) struct TakenUp {
    /// The program that starts next is a const-eval program of an earlier pass.
    pub const_eval_follows: bool,
    /// The runs of such steps.
    pub steps: Vec<Option<RunId>>,
    /// Such runs, without those inside of them.
    runs: Vec<RunId>,
    /// The tensors, by the numbers of their lines.
    tensors: Vec<(AllocRef, TensorId)>,
    /// What the pools should hold, by their numbers.
    levels: Vec<Option<u64>>,
    /// The pass has begun: nothing more is taken up.
    done: bool,
}

/// No device has more pools.
const MOST_POOLS: usize = 64;
/// Nothing has more holders: every one of them is a name in a program that runs.
const MOST_HOLDERS: u32 = 1 << 24;

impl RankState {
    /// Begins a program that ran in a pass that was cut away.
    pub(super) fn retell(&mut self, run: RunId, program: StrId, program_text: String, const_eval: bool) {
        if self.frames.is_empty() {
            self.taken_up.runs.push(run);
        }
        self.push_frame(Some(run), program, program_text, const_eval);
        if let Some(frame) = self.frames.last_mut() {
            frame.retold = true;
        }
    }

    pub(super) fn end_retold(&mut self, finished: bool, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        self.settle_current(tables)?;
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.say_end(frame.run, finished, Some(offset), tables)
    }

    /// Takes up a line of a cut-out's head. `false` where it makes no sense there.
    pub fn take_up(&mut self, line: &Line, tables: &mut Tables<'_>) -> Result<bool> {
        let begun = self.taken_up.done || !self.begins.is_empty() || !self.frames.is_empty();
        if begun || self.steps as usize != self.taken_up.steps.len() {
            return Ok(false);
        }
        match line {
            Line::ConstEval => self.taken_up.const_eval_follows = true,
            Line::Pool(pool) => return self.take_up_pool(pool, tables),
            Line::Tensor(tensor) => return self.take_up_tensor(tensor, tables),
            Line::Cached(cached) => return self.take_up_cached(cached, tables),
            Line::Results(results) => {
                let tensors = results.tensors.iter().map(|&number| self.tensor_numbered(number));
                let Some(tensors) = tensors.collect::<Option<Vec<_>>>() else { return Ok(false) };
                self.outputs.push(tensors.into_iter().map(|(alloc, _)| alloc).collect());
            }
            Line::MadeFrom(made) => return self.take_up_derivation(made, tables),
            Line::Told(told) => {
                let message = tables.text(told.message.as_bytes())?;
                self.told_messages.insert(message);
            }
            Line::LastPass(pass) => {
                self.taken_up.done = true;
                self.levels = std::mem::take(&mut self.taken_up.levels);
                let cut_out = CutOut { pass: pass.pass, of: pass.of, first: self.steps };
                tables.say(self.id, RankEvent::CutOut(cut_out))?;
            }
        }
        Ok(true)
    }

    fn tensor_numbered(&self, number: usize) -> Option<(AllocRef, TensorId)> {
        self.taken_up.tensors.get(number).copied()
    }

    fn take_up_pool(&mut self, pool: &Pool, tables: &mut Tables<'_>) -> Result<bool> {
        let name = pool.name.as_bytes();
        let index = match self.pools.iter().position(|known| known.name == name) {
            Some(index) => index,
            None if self.pools.len() >= MOST_POOLS => return Ok(false),
            None => self.add_pool(name, pool.banks, pool.capacity, tables)?,
        };
        self.pools[index].gap = pool.gap;
        self.lives.take_up_observed(self.pools[index].id, pool.observed);
        self.taken_up.levels.resize(self.taken_up.levels.len().max(index + 1), None);
        self.taken_up.levels[index] = pool.level;
        Ok(true)
    }

    fn take_up_tensor(&mut self, line: &Tensor, tables: &mut Tables<'_>) -> Result<bool> {
        let run = match line.step.map(|step| self.taken_up.steps.get(step as usize)) {
            None => None,
            Some(Some(run)) => *run,
            Some(None) => return Ok(false),
        };
        let Some(ty) = tables.tensor_type(line.ty.as_bytes())? else { return Ok(false) };
        let Some((pool, _)) = self.place(ty, tables)? else { return Ok(false) };
        if line.holders > MOST_HOLDERS || !self.knows(line) {
            return Ok(false);
        }
        let (ssa, program) = (tables.text(line.ssa.as_bytes())?, tables.text(line.program.as_bytes())?);
        let born = line.step.map_or(Moment::START, Moment::after);
        let place = (pool, line.per_bank);
        let mut alloc = Alloc::new(ty, place, born, line.class, (run, program), ssa, line.step);
        alloc.holders = line.holders;
        alloc.name = line.name.as_ref().map(|name| tables.text(name.as_bytes())).transpose()?;
        let (slot, tensor) = self.lives.take_up(alloc, self.id, tables)?;
        self.taken_up.tensors.push((slot, tensor));
        for argument in &line.arguments {
            let (owner, number) = match argument {
                ArgumentOf::Function { graph, function, number } => {
                    let function = self.graphs.function_numbered(*graph, *function);
                    (function.map(Owner::Function), *number)
                }
                ArgumentOf::Program { program, number } => {
                    (Some(Owner::Program(tables.text(program.as_bytes())?)), *number)
                }
            };
            self.resident.extend(owner.map(|owner| ((owner, number, ty), slot)));
        }
        self.say_where_from(line, tensor, tables)?;
        Ok(true)
    }

    /// Whether the graphs that a tensor names were printed.
    fn knows(&self, line: &Tensor) -> bool {
        let known = |argument: &ArgumentOf| match argument {
            ArgumentOf::Function { graph, function, .. } => {
                self.graphs.function_numbered(*graph, *function).is_some()
            }
            ArgumentOf::Program { .. } => true,
        };
        line.arguments.iter().all(known)
            && line.origins.iter().all(|(graph, _)| self.graphs.module_numbered(*graph).is_some())
    }

    fn say_where_from(&mut self, line: &Tensor, tensor: TensorId, tables: &mut Tables<'_>) -> Result<()> {
        for name in &line.also {
            let ssa = tables.text(name.as_bytes())?;
            tables.say(self.id, RankEvent::Alias(Alias { tensor, run: None, ssa }))?;
        }
        for &(graph, argument) in &line.origins {
            if let Some(module) = self.graphs.module_numbered(graph) {
                tables.say(self.id, RankEvent::Origin(Origin { tensor, module, argument }))?;
            }
        }
        if line.step.is_some() {
            return Ok(());
        }
        let mut text = |text: &Option<String>| match text {
            Some(text) => tables.text(text.as_bytes()).map(Some),
            None => Ok(None),
        };
        let (op, loc) = (text(&line.op)?, text(&line.loc)?);
        let program = tables.text(line.program.as_bytes())?;
        tables.say(self.id, RankEvent::Carried(Carried { tensor, program, op, loc }))
    }

    fn take_up_cached(&mut self, line: &Cached, tables: &mut Tables<'_>) -> Result<bool> {
        let result = |number: &Option<usize>| match number {
            Some(number) => self.tensor_numbered(*number).map(|(alloc, _)| Some(alloc)),
            None => Some(None),
        };
        let Some(results) = line.results.iter().map(result).collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let key = match &line.trace {
            Some(text) => {
                let Some(op) = tables.operation(text.as_bytes())? else { return Ok(false) };
                self.traces.insert(op, text.as_bytes().into());
                CacheKey::Trace(op)
            }
            None => {
                let mut text = |text: &Option<String>| match text {
                    Some(text) => tables.text(text.as_bytes()).map(Some),
                    None => Ok(None),
                };
                CacheKey::Constants(text(&line.function)?, text(&line.hash)?)
            }
        };
        let maker = line.run.and_then(|number| self.taken_up.runs.get(number).copied());
        self.cache.insert(key, Kept { results, maker });
        Ok(true)
    }

    fn take_up_derivation(&mut self, line: &MadeFrom, tables: &mut Tables<'_>) -> Result<bool> {
        let Some((_, tensor)) = self.tensor_numbered(line.tensor) else { return Ok(false) };
        let sources = line.sources.iter().map(|number| Some(self.tensor_numbered(*number)?.1));
        let Some(sources) = sources.collect::<Option<Vec<_>>>() else { return Ok(false) };
        for source in sources {
            tables.say(self.id, RankEvent::Derived(Derivation { tensor, source }))?;
        }
        Ok(true)
    }
}

/// The const-eval runs of earlier passes that a cut-out tells again, as they are numbered there.
#[derive(Debug, Default)]
pub(in super::super) struct Retold {
    /// The runs, without those inside of them.
    pub runs: FxHashMap<RunId, usize>,
    /// Their steps.
    pub steps: FxHashMap<Step, Step>,
}

impl RankState {
    /// Hands over what it remembers, as lines; to be asked between two programs.
    ///
    /// Ids become words by the profile of the whole log, in which `rank` is this rank.
    pub fn hand_over(&self, profile: &Profile, rank: &Rank, retold: &Retold) -> Vec<Line> {
        let standing = self.lives.standing();
        let giver = Giver {
            state: self,
            profile,
            rank,
            retold,
            numbers: (0..).zip(&standing).map(|(number, (_, alloc))| (*alloc, number)).collect(),
            rows: (0..).zip(&standing).map(|(number, (tensor, _))| (*tensor, number)).collect(),
        };
        let mut lines: Vec<Line> = (0..self.pools.len()).map(|index| giver.pool(index)).collect();
        lines.extend(giver.tensors(&standing));
        lines.extend(giver.cached());
        lines.extend(giver.results());
        lines.extend(giver.derivations());
        lines.extend(giver.told());
        lines
    }
}

/// Puts what a rank remembers into words.
struct Giver<'a> {
    state: &'a RankState,
    profile: &'a Profile,
    rank: &'a Rank,
    retold: &'a Retold,
    /// The numbers of the tensors that are handed over.
    numbers: FxHashMap<AllocRef, usize>,
    rows: FxHashMap<TensorId, usize>,
}

impl Giver<'_> {
    fn text(&self, id: StrId) -> String {
        self.profile.text(id).to_owned()
    }

    fn pool(&self, index: usize) -> Line {
        let pool = &self.state.pools[index];
        Line::Pool(Pool {
            name: String::from_utf8_lossy(&pool.name).into_owned(),
            banks: pool.banks,
            capacity: pool.capacity,
            level: self.state.levels.get(index).copied().flatten(),
            observed: self.state.lives.observed(pool.id),
            gap: pool.gap,
        })
    }

    fn tensors(&self, standing: &[(TensorId, AllocRef)]) -> Vec<Line> {
        let mut names: Vec<Vec<String>> = vec![Vec::new(); standing.len()];
        for alias in self.rank.aliases.iter() {
            let Some(&number) = self.rows.get(&alias.tensor) else { continue };
            let name = self.profile.text(alias.ssa);
            if !names[number].iter().any(|known| known == name) {
                names[number].push(name.to_owned());
            }
        }
        let mut origins: Vec<Vec<(usize, u32)>> = vec![Vec::new(); standing.len()];
        for origin in self.rank.origins.iter() {
            if let Some(&number) = self.rows.get(&origin.tensor) {
                origins[number].push((origin.module.index(), origin.argument));
            }
        }
        let mut arguments = self.arguments(standing.len());
        let parts = names.into_iter().zip(origins).zip(&mut arguments);
        let lines = standing.iter().zip(parts).map(|((tensor, alloc), ((also, origins), arguments))| {
            let line = self.tensor(*tensor, *alloc);
            Line::Tensor(Box::new(Tensor { also, origins, arguments: std::mem::take(arguments), ..line }))
        });
        lines.collect()
    }

    /// Which arguments the tensors are, by their numbers.
    fn arguments(&self, tensors: usize) -> Vec<Vec<ArgumentOf>> {
        let found = self.state.resident.iter().filter_map(|((owner, number, _), alloc)| {
            let tensor = self.number(*alloc)?;
            let number = *number;
            let argument = match *owner {
                Owner::Function(of) => {
                    ArgumentOf::Function { graph: of.graph, function: of.function, number }
                }
                Owner::Program(program) => ArgumentOf::Program { program: self.text(program), number },
            };
            Some((tensor, argument))
        });
        let mut found: Vec<(usize, ArgumentOf)> = found.collect();
        // The same log always gives the same lines.
        found.sort_unstable();
        let mut arguments: Vec<Vec<ArgumentOf>> = vec![Vec::new(); tensors];
        for (tensor, argument) in found {
            arguments[tensor].push(argument);
        }
        arguments
    }

    fn tensor(&self, id: TensorId, alloc: AllocRef) -> Tensor {
        let held = self.state.lives.get(alloc);
        let made = self.profile.made(self.rank, id);
        let step = held.step.and_then(|step| self.retold.steps.get(&step).copied());
        // As it was said: what the rank learned later changes no answer.
        let row = self.rank.tensors.get(id.index());
        let ty = row.and_then(|row| self.profile.tensor_type(row.ty?)?.text);
        let said = |text: Option<&str>| text.filter(|_| step.is_none()).map(str::to_owned);
        Tensor {
            ssa: self.text(held.ssa),
            program: self.text(held.program),
            name: row.and_then(|row| row.name).map(|name| self.text(name)),
            class: row.map_or(held.class, |row| row.class),
            ty: ty.map(|ty| self.text(ty)).unwrap_or_default(),
            per_bank: held.per_bank,
            step,
            op: said(made.op),
            loc: said(made.loc),
            also: Vec::new(),
            holders: held.holders,
            arguments: Vec::new(),
            origins: Vec::new(),
        }
    }

    fn cached(&self) -> Vec<Line> {
        let entries = self.state.cache.iter().filter_map(|(key, kept)| self.entry(key, kept));
        let mut entries: Vec<Cached> = entries.collect();
        entries.sort_unstable();
        entries.into_iter().map(Line::Cached).collect()
    }

    /// What is kept for somebody; `None` where it is not all there any more, so that nobody gets it.
    fn entry(&self, key: &CacheKey, kept: &Kept) -> Option<Cached> {
        let result = |result: &Option<AllocRef>| match result {
            Some(alloc) => self.number(*alloc).map(Some),
            None => Some(None),
        };
        let results = kept.results.iter().map(result).collect::<Option<Vec<_>>>()?;
        let run = kept.maker.and_then(|maker| self.retold.runs.get(&maker).copied());
        let text = |id: &Option<StrId>| id.map(|id| self.text(id));
        Some(match key {
            CacheKey::Constants(function, hash) => {
                Cached { function: text(function), hash: text(hash), trace: None, run, results }
            }
            CacheKey::Trace(op) => {
                let trace = String::from_utf8_lossy(self.state.traces.get(op)?).into_owned();
                Cached { function: None, hash: None, trace: Some(trace), run, results }
            }
        })
    }

    fn number(&self, alloc: AllocRef) -> Option<usize> {
        self.numbers.get(&self.state.lives.resolve(alloc)).copied()
    }

    fn results(&self) -> impl Iterator<Item = Line> {
        self.state.outputs.iter().map(|group| {
            let tensors = group.iter().filter_map(|alloc| self.number(*alloc)).collect();
            Line::Results(Results { tensors })
        })
    }

    fn derivations(&self) -> Vec<Line> {
        let mut sources: Vec<Vec<usize>> = vec![Vec::new(); self.rows.len()];
        for row in self.rank.derivations.iter() {
            if let (Some(&tensor), Some(&source)) = (self.rows.get(&row.tensor), self.rows.get(&row.source)) {
                sources[tensor].push(source);
            }
        }
        let lines = sources.into_iter().enumerate().filter(|(_, sources)| !sources.is_empty());
        lines.map(|(tensor, sources)| Line::MadeFrom(MadeFrom { tensor, sources })).collect()
    }

    fn told(&self) -> Vec<Line> {
        let mut messages: Vec<String> = self.state.told_messages.iter().map(|id| self.text(*id)).collect();
        messages.sort_unstable();
        messages.into_iter().map(|message| Line::Told(Told { message })).collect()
    }
}
