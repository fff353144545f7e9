//! The end of a top-level program: which graph it was, what its arguments are, and what happened before it.
//!
//! Only when a program has ended is it certain which compiled graph it belongs to. Then its arguments get their
//! names, it is known which of them are new memory, and the lives that were held back are said.

use ttmem_model::{Class, Moment, RankEvent, Result, Step, StepMarks, difference};

use super::super::graphs::{FunctionRef, Match};
use super::super::life::{Alloc, AllocRef, near};
use super::super::tables::Tables;
use super::RankState;
use super::frame::Frame;
use super::pools::Pool;
use super::residents::Owner;

/// By how many bytes per bank memory may differ from what tensors explain without a warning: small buffers come and go.
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
        // The hold of the residents, which get them below.
        for alloc in &returned {
            self.lives.hold(*alloc);
        }
        // Arguments stay: they are the caller's.
        frame.release_results(&mut self.lives, Moment::early(self.programs.steps()));
        self.resolve_arguments(&frame, function, tables)?;
        self.name_constants(&frame, function, tables)?;
        self.residents.add_outputs(returned);
        // Their slots will be used again.
        self.residents.forget_the_dead(&self.lives);
        self.cache.forget_the_dead(&self.lives);
        self.lives.say(self.id, tables)?;
        self.pools.settle(|pool| self.lives.settle(pool));
        self.note_excess();
        Ok(())
    }

    /// Compares the tensors that should be there with what the device says is there.
    fn note_excess(&mut self) {
        for (pool, level) in self.pools.levels() {
            let of_pool = self.lives.alive().filter(|alloc| alloc.pool == pool);
            let sum = of_pool.filter_map(|alloc| alloc.per_bank).fold(0, u64::saturating_add);
            let excess = sum.saturating_sub(level);
            if excess > MAX_UNEXPLAINED {
                self.doubts.excess(excess, self.programs.steps());
            }
        }
    }

    /// The step that an error belongs to did nothing, nor did one that waited for a program to run.
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
                self.doubts.ambiguous(frame.program_text(), lines, tables)?;
                Ok(None)
            }
            Match::None => {
                self.doubts.unmatched();
                Ok(None)
            }
        }
    }

    /// What a top-level program leaves on the device: what it returns, or all that it made if that is not
    /// known, or if it never came to its end.
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

    /// Finds out which arguments of a program are new memory, and since when.
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

    /// Whether the log says of all arguments of a program where they are: without a graph that has layouts, it does so only of
    /// those that operations use.
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
        let unexplained = held.saturating_sub(self.lives.most_at(pool, at));
        if unexplained > MAX_UNEXPLAINED {
            self.doubts.unexplained_at_first(unexplained, are_arguments_placed);
        }
    }

    /// Gives the results of const-eval programs the names of the weights they were made from.
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

    /// The arguments of a program that are on the device, used or not, with what the graph says of them.
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
        // The program has named it after all, as something that is not on the device any more.
        let name = tables.text(ssa.as_bytes())?;
        if frame.find(name).is_some() {
            return Ok(None);
        }
        let Some(place) = self.pools.place(ty, tables)? else { return Ok(None) };
        let owner = (frame.run(), frame.program());
        Ok(Some(self.lives.add(Alloc::new(ty, place, Moment::START, Class::Argument, owner, name, None))))
    }

    /// Decides what happened between the last program and this one: which results of earlier programs went,
    /// and whether weights that look like those of another graph are the same memory.
    pub(super) fn settle_gap(&mut self, first: Step, new: &[AllocRef]) {
        let shared = self.residents.shareable(new, &self.lives);
        let pieces = self.residents.pieces_of_outputs(&self.lives);
        let gaps: Vec<PoolGap> =
            self.pools.iter().filter_map(|pool| self.gap_of(pool, new, &shared, &pieces)).collect();
        let mut best: Option<(u64, u32, bool)> = None;
        let all = (1u32 << pieces.len()) - 1;
        // All gone or all kept is what happens; the rest is tried only where neither fits.
        let assumptions = || [all, 0].into_iter().chain((1..all).rev());
        'found: for share in [true, false] {
            for gone in assumptions() {
                let missed = gaps.iter().map(|gap| gap.missed(share, gone)).fold(0, u64::saturating_add);
                // Of what fits equally well, that most is gone: nobody keeps results without end.
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
            self.doubts.fall(first, fell);
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

    /// What the device said of a gap, and what may have made it; `None` where it said nothing.
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

/// A gap between two programs, as one pool shows it.
struct PoolGap {
    measured: i64,
    /// What arguments that were not there before take.
    came: u64,
    /// What of that another graph has already.
    known: u64,
    /// What each piece of earlier results takes.
    pieces: Vec<u64>,
}

impl PoolGap {
    /// By how much an assumption misses what the device said.
    fn missed(&self, share: bool, gone: u32) -> u64 {
        let pieces = self.pieces.iter().enumerate().filter(|(index, _)| gone >> index & 1 == 1);
        let went = pieces.map(|(_, size)| *size).fold(0, u64::saturating_add);
        let known = if share { self.known } else { 0 };
        let expected = difference(self.came, known.saturating_add(went));
        if near(self.measured, expected) { 0 } else { self.measured.abs_diff(expected) }
    }
}
