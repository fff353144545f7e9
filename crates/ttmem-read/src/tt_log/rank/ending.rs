//! The end of a top-level program: its graph, its arguments, and what happened before it.
//!
//! The compiled graph of a program is only certain when the program has ended. Then its arguments get their names, it
//! is known which of them are new memory, and the deferred lifetimes are emitted.

use ttmem_model::{Class, Moment, RankEvent, Result, Step, StepMarks, difference};

use super::super::graphs::{FunctionRef, Match};
use super::super::life::{Alloc, AllocRef, near};
use super::super::tables::Tables;
use super::RankState;
use super::frame::Frame;
use super::pools::Pool;
use super::residents::Owner;

/// The difference in bytes per bank between usage and tensors that causes no warning: small buffers come and go.
const MAX_UNEXPLAINED: u64 = 16 << 10;

impl RankState {
    pub(super) fn end_top(
        &mut self,
        finished: bool,
        offset: Option<u64>,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if !finished {
            self.fail_current(tables);
        }
        self.settle_current(tables)?;
        let Some(frame) = self.programs.pop(finished) else { return Ok(()) };
        self.say_end(frame.run(), finished, offset.or(Some(0)), tables)?;
        let function = self.matching(&frame, finished, tables)?;
        let returned = self.outputs_of(&frame, function, finished);
        // For the residents, which take over the hold below.
        for alloc in &returned {
            self.lives.hold(*alloc);
        }
        // Arguments stay, because they belong to the caller.
        frame.release_results(&mut self.lives, Moment::early(self.programs.steps()));
        self.resolve_arguments(&frame, function, tables)?;
        self.name_constants(&frame, function, tables)?;
        self.residents.add_outputs(returned);
        // Their slots will be reused.
        self.residents.forget_the_dead(&self.lives);
        self.cache.forget_the_dead(&self.lives);
        self.lives.say(self.id, tables)?;
        self.pools.settle(|pool| self.lives.settle(pool));
        self.note_excess();
        Ok(())
    }

    /// Compares the expected tensors with the reported usage.
    fn note_excess(&mut self) {
        for (pool, level) in self.pools.levels() {
            let of_pool = self.lives.alive().filter(|alloc| alloc.pool == pool);
            let sum = of_pool.filter_map(|alloc| alloc.per_bank).fold(0, u64::saturating_add);
            let excess = sum.saturating_sub(level);
            if excess > MAX_UNEXPLAINED {
                self.inconsistencies.excess(excess, self.programs.steps());
            }
        }
    }

    /// Marks the step of an error as having no effect, and any step that was waiting for a program to run.
    pub(super) fn fail_current(&mut self, tables: &Tables<'_>) {
        let failed = self.faults.last_step();
        let is_caller = self.caller(tables).is_some();
        if let Some(current) = self.programs.current_mut() {
            let waited = is_caller && !current.is(StepMarks::CACHE_HIT) && current.returned().is_none();
            if waited || Some(current.step()) == failed {
                current.mark(StepMarks::FAILED);
            }
        }
    }

    pub(super) fn matching(
        &mut self,
        frame: &Frame,
        finished: bool,
        tables: &mut Tables<'_>,
    ) -> Result<Option<FunctionRef>> {
        if self.graphs.is_empty() || !frame.has_operations() || !self.detail.has_texts() {
            return Ok(None);
        }
        match self.graphs.find(&frame.traits(finished), tables)? {
            Match::One(function) => {
                if let Some(run) = frame.run() {
                    let module = self.graphs.module(function);
                    tables.say(self.id, RankEvent::RunModule(run, module))?;
                }
                Ok(Some(function))
            }
            Match::Ambiguous(lines) => {
                self.inconsistencies.ambiguous(frame.program_text(), lines, tables)?;
                Ok(None)
            }
            Match::None => {
                self.inconsistencies.unmatched();
                Ok(None)
            }
        }
    }

    /// The memory that a top-level program leaves on the device: its results, or everything it allocated if the results
    /// are unknown or it did not finish.
    pub(super) fn outputs_of(
        &self,
        frame: &Frame,
        function: Option<FunctionRef>,
        finished: bool,
    ) -> Vec<AllocRef> {
        let is_result = |alloc: &AllocRef| {
            let alloc = self.lives.get(*alloc);
            alloc.class() == Class::Activation && alloc.is_alive()
        };
        let function = function.filter(|_| finished);
        if let Some(names) = function.and_then(|function| self.graphs.returns(function)) {
            return names.iter().filter_map(|name| frame.named(*name)).filter(is_result).collect();
        }
        frame.results().filter(is_result).collect()
    }

    /// Determines which arguments of a program are new memory, and since when.
    pub(super) fn resolve_arguments(
        &mut self,
        frame: &Frame,
        function: Option<FunctionRef>,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let owner = function.map_or(Owner::Program(frame.program()), Owner::Function);
        let slots = self.all_slots(frame, function, tables)?;
        let is_first = self.pools.is_first_program();
        let mut new = Vec::new();
        for (number, slot) in slots {
            let key = (owner, number, self.lives.get(slot).ty);
            match self.residents.argument(key) {
                Some(known) if self.is_same(known, slot) => self.lives.unite(slot, known),
                _ => {
                    new.push(slot);
                    if let Some(function) = function.filter(|function| self.graphs.is_main(*function)) {
                        self.lives.originate(slot, self.graphs.module(function), number);
                    }
                }
            }
            let alloc = self.lives.resolve(slot);
            self.residents.set_argument(key, alloc);
        }
        let born = if is_first { Moment::START } else { Moment::late(frame.first()) };
        for slot in &new {
            self.lives.exists_since(*slot, born);
        }
        if is_first {
            let are_placed = self.are_arguments_placed(frame, function, tables)?;
            self.note_unexplained_at_first(are_placed);
        } else {
            self.settle_gap(frame.first(), &new);
        }
        Ok(())
    }

    /// Whether the log shows the location of all arguments of a program. Without a graph that has layouts, it only does
    /// for those that operations use.
    fn are_arguments_placed(
        &self,
        frame: &Frame,
        function: Option<FunctionRef>,
        tables: &mut Tables<'_>,
    ) -> Result<bool> {
        let Some(function) = function else { return Ok(false) };
        for argument in self.graphs.arguments(function) {
            let name = tables.text(argument.ssa.as_bytes())?;
            let ty = tables.tensor_type(&argument.ty)?;
            if frame.find(name).is_none() && ty.is_none_or(|ty| tables.type_facts(ty).place.is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares the first state of DRAM with the tensors that existed then.
    fn note_unexplained_at_first(&mut self, are_arguments_placed: bool) {
        let dram = self.pools.named(b"DRAM").filter(|_| self.detail.has_texts());
        let Some((pool, (at, held))) = dram.and_then(|pool| Some((pool.id(), pool.first_state()?))) else {
            return;
        };
        let unexplained = held.saturating_sub(self.lives.max_at(pool, at));
        if unexplained > MAX_UNEXPLAINED {
            self.inconsistencies.unexplained_at_first(unexplained, are_arguments_placed);
        }
    }

    /// Gives the results of const-eval programs the names of the weights that they were computed from.
    fn name_constants(
        &mut self,
        frame: &Frame,
        function: Option<FunctionRef>,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let Some(function) = function else { return Ok(()) };
        let is_main = self.graphs.is_main(function);
        let module = self.graphs.module(function);
        for (alloc, numbers) in frame.constants() {
            let declared = self.graphs.arguments(function);
            let names: Vec<&str> =
                numbers.iter().filter_map(|number| declared.get(*number as usize)?.name.as_deref()).collect();
            if !names.is_empty() {
                let name = tables.text(names.join(" + ").as_bytes())?;
                self.lives.set_name(*alloc, Some(name));
            }
            for number in numbers.iter().filter(|_| is_main) {
                self.lives.originate(*alloc, module, *number);
            }
        }
        Ok(())
    }

    pub(super) fn is_same(&self, known: AllocRef, slot: AllocRef) -> bool {
        let (known, slot) = (self.lives.get(known), self.lives.get(slot));
        known.is_alive() && known.ty == slot.ty
    }

    /// The arguments of a program that are on the device, used or not, with their entries in the graph.
    pub(super) fn all_slots(
        &mut self,
        frame: &Frame,
        function: Option<FunctionRef>,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<(u32, AllocRef)>> {
        let mut slots: Vec<(u32, AllocRef)> = frame.slots().collect();
        let declared = function.map(|function| self.graphs.arguments(function).to_vec()).unwrap_or_default();
        for (number, argument) in (0..).zip(&declared) {
            let slot = slots.iter().find(|(have, _)| *have == number).map(|(_, slot)| *slot);
            let slot = match slot {
                Some(slot) => Some(slot),
                None => self.unused_argument(frame, &argument.ssa, &argument.ty, tables)?,
            };
            let Some(slot) = slot else { continue };
            let name = argument.name.as_ref().map(|name| tables.text(name.as_bytes())).transpose()?;
            self.lives.set_name(slot, name);
            self.lives.set_class(slot, argument.kind.map_or(Class::Input, ttmem_model::ArgumentKind::class));
            if !slots.iter().any(|(have, _)| *have == number) {
                slots.push((number, slot));
            }
        }
        slots.sort_unstable_by_key(|(number, _)| *number);
        Ok(slots)
    }

    pub(super) fn unused_argument(
        &mut self,
        frame: &Frame,
        ssa: &str,
        ty: &[u8],
        tables: &mut Tables<'_>,
    ) -> Result<Option<AllocRef>> {
        let Some(ty) = tables.tensor_type(ty)? else { return Ok(None) };
        // The program has named it, but it is no longer on the device.
        let name = tables.text(ssa.as_bytes())?;
        if frame.find(name).is_some() {
            return Ok(None);
        }
        let Some(place) = self.pools.place(ty, tables)? else { return Ok(None) };
        let owner = (frame.run(), frame.program());
        Ok(Some(self.lives.add(Alloc::new(ty, place, Moment::START, Class::Argument, owner, name, None))))
    }

    /// Determines what happened between the previous program and this one: which results of earlier programs were
    /// freed, and whether weights that look like those of another graph are the same memory.
    pub(super) fn settle_gap(&mut self, first: Step, new: &[AllocRef]) {
        let shared = self.residents.shareable(new, &self.lives);
        let pieces = self.residents.pieces_of_outputs(&self.lives);
        let gaps: Vec<PoolGap> =
            self.pools.iter().filter_map(|pool| self.gap_of(pool, new, &shared, &pieces)).collect();
        let mut best: Option<(u64, u32, bool)> = None;
        let all = (1u32 << pieces.len()) - 1;
        // Usually all are freed or all are kept; the rest is only tried if neither fits.
        let assumptions = || [all, 0].into_iter().chain((1..all).rev());
        'found: for share in [true, false] {
            for gone in assumptions() {
                let missed = gaps.iter().map(|gap| gap.missed(share, gone)).fold(0, u64::saturating_add);
                // If several fit equally well, assume that most were freed: results are rarely kept forever.
                let better = |(least, most, _): (u64, u32, bool)| {
                    missed < least || missed == least && gone.count_ones() > most.count_ones()
                };
                if best.is_none_or(better) {
                    best = Some((missed, gone, share));
                }
                if missed == 0 {
                    break 'found;
                }
            }
        }
        let Some((missed, gone, share)) = best else { return };
        let fell = gaps.iter().filter(|gap| gap.measured < 0).map(|gap| gap.measured.unsigned_abs()).max();
        if let Some(fell) = fell.filter(|_| missed > MAX_UNEXPLAINED && self.detail.has_texts()) {
            self.inconsistencies.fall(first, fell);
        }
        let at = Moment::late(first);
        for (_, piece) in pieces.iter().enumerate().filter(|(index, _)| gone >> index & 1 == 1) {
            for alloc in piece {
                self.lives.end_outside(*alloc, at);
            }
        }
        if share {
            for (slot, known) in shared {
                self.lives.unite(slot, known);
            }
        }
    }

    /// The reported change of a gap, and its possible causes; `None` if nothing was reported.
    fn gap_of(
        &self,
        pool: &Pool,
        new: &[AllocRef],
        shared: &[(AllocRef, AllocRef)],
        pieces: &[Vec<AllocRef>],
    ) -> Option<PoolGap> {
        let size = |alloc: AllocRef| {
            let alloc = self.lives.get(alloc);
            if alloc.pool == pool.id() { alloc.per_bank.unwrap_or(0) } else { 0 }
        };
        let sum = |allocs: &mut dyn Iterator<Item = AllocRef>| allocs.map(size).fold(0, u64::saturating_add);
        Some(PoolGap {
            measured: pool.gap()?,
            came: sum(&mut new.iter().copied()),
            known: sum(&mut shared.iter().map(|(slot, _)| *slot)),
            pieces: pieces.iter().map(|piece| sum(&mut piece.iter().copied())).collect(),
        })
    }
}

/// A gap between two programs in one pool.
struct PoolGap {
    measured: i64,
    /// The bytes of new arguments.
    came: u64,
    /// The part of them that another graph already has.
    known: u64,
    /// The bytes of each piece of earlier results.
    pieces: Vec<u64>,
}

impl PoolGap {
    /// The error of an assumption compared with the reported change.
    fn missed(&self, share: bool, gone: u32) -> u64 {
        let pieces = self.pieces.iter().enumerate().filter(|(index, _)| gone >> index & 1 == 1);
        let went = pieces.map(|(_, size)| *size).fold(0, u64::saturating_add);
        let known = if share { self.known } else { 0 };
        let expected = difference(self.came, known.saturating_add(went));
        if near(self.measured, expected) { 0 } else { self.measured.abs_diff(expected) }
    }
}
