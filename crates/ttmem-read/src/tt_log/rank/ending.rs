//! The end of a top-level program: which graph it was, what its arguments are, and what happened before it.
//!
//! Only when a program has ended is it certain which compiled graph it belongs to. Then its arguments get their
//! names, it is known which of them are new memory, and the lives that were held back are said.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::graphs::{FunctionRef, Match};
use super::super::life::{Alloc, AllocRef, near};
use super::super::tables::Tables;
use super::{Frame, Owner, PoolState, RankState};
use ttmem_model::Result;
use ttmem_model::{Class, Moment, RankEvent, Step, difference};

/// By how much the bytes of a gap between programs may differ from what tensors explain: small buffers come and go.
const UNEXPLAINED_FALL: u64 = 16 << 10;

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
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.say_end(frame.run, finished, offset.or(Some(0)), tables)?;
        let function = self.matching(&frame, finished, tables)?;
        let returned = self.outputs_of(&frame, function, finished);
        for alloc in &returned {
            self.lives.hold(*alloc);
        }
        self.leave_top(&frame);
        self.resolve_arguments(&frame, function, tables)?;
        self.name_constants(function, tables)?;
        self.outputs.push(returned);
        self.forget_the_dead();
        self.lives.say(self.id, tables)?;
        self.levels = self.pools.iter().map(|pool| self.lives.settle(pool.id)).collect();
        self.note_excess();
        self.pools.iter_mut().for_each(|pool| pool.gap = None);
        Ok(())
    }

    /// Compares the tensors that should be there with what the device says is there.
    fn note_excess(&mut self) {
        for (pool, level) in self.pools.iter().zip(&self.levels) {
            let of_pool = self.lives.alive().filter(|alloc| alloc.pool == pool.id);
            let sum = of_pool.filter_map(|alloc| alloc.per_bank).fold(0, u64::saturating_add);
            let excess = level.map_or(0, |level| sum.saturating_sub(level));
            if excess > UNEXPLAINED_FALL && self.doubts.excess.is_none_or(|(known, _)| excess > known) {
                self.doubts.excess = Some((excess, self.steps));
            }
        }
    }

    /// The step that an error belongs to did nothing, nor did one that waited for a program to run.
    pub(super) fn fail_current(&mut self, tables: &Tables<'_>) {
        let failed = self.faults.last().and_then(|pending| pending.fault.step);
        let waits = self.caller(tables).map(|(step, _)| step);
        self.mark(|current| {
            let waited = waits == Some(current.step) && !current.hit && current.returned.is_none();
            current.failed |= Some(current.step) == failed || waited;
        });
    }

    pub(super) fn matching(
        &mut self,
        frame: &Frame,
        finished: bool,
        tables: &mut Tables<'_>,
    ) -> Result<Option<FunctionRef>> {
        if self.graphs.is_empty() || frame.operations == 0 || !self.has_texts {
            return Ok(None);
        }
        match self.graphs.find(&frame.traits(finished), tables)? {
            Match::One(function) => {
                if let Some(run) = frame.run {
                    let module = self.graphs.module(function);
                    tables.say(self.id, RankEvent::RunModule(run, module))?;
                }
                Ok(Some(function))
            }
            Match::Ambiguous(lines) => {
                if self.ambiguous != lines {
                    let places: Vec<String> = lines.iter().map(u64::to_string).collect();
                    let message = format!(
                        "program {} fits the graphs printed at lines {} equally; their argument names are not used",
                        frame.program_text,
                        places.join(" and ")
                    );
                    tables.warn(None, message)?;
                    self.ambiguous = lines;
                }
                Ok(None)
            }
            Match::None => {
                self.unmatched += 1;
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
            alloc.class == Class::Activation && alloc.is_alive()
        };
        let function = function.filter(|_| finished);
        if let Some(names) = function.and_then(|function| self.graphs.returns(function)) {
            return names.iter().filter_map(|name| frame.named(*name)).filter(is_result).collect();
        }
        frame.order.iter().filter_map(|name| frame.named(*name)).filter(is_result).collect()
    }

    /// Lets go of a top-level program's names; its arguments stay, they are the caller's.
    pub(super) fn leave_top(&mut self, frame: &Frame) {
        let slots: FxHashSet<AllocRef> = frame.slots.values().copied().collect();
        let mut held: Vec<AllocRef> =
            frame.names.values().flatten().filter(|alloc| !slots.contains(alloc)).copied().collect();
        held.sort_unstable();
        let at = Moment::early(self.steps);
        for alloc in held {
            self.lives.release(alloc, at, false);
        }
    }

    /// Finds out which arguments of a program are new memory, and since when.
    pub(super) fn resolve_arguments(
        &mut self,
        frame: &Frame,
        function: Option<FunctionRef>,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let owner = function.map_or(Owner::Program(frame.program), Owner::Function);
        let slots = self.all_slots(frame, function, tables)?;
        let is_first = self.levels.is_empty();
        let mut new = Vec::new();
        for (number, slot) in slots {
            let key = (owner, number, self.lives.get(slot).ty);
            match self.resident.get(&key).copied() {
                Some(known) if self.is_same(known, slot) => self.lives.unite(slot, known),
                _ => {
                    new.push(slot);
                    if let Some(function) = function.filter(|function| self.graphs.is_main(*function)) {
                        self.lives.originate(slot, self.graphs.module(function), number);
                    }
                }
            }
            let alloc = self.lives.resolve(slot);
            self.resident.insert(key, alloc);
        }
        let born = if is_first { Moment::START } else { Moment::late(frame.first) };
        for slot in &new {
            self.lives.get_mut(*slot).born = born;
        }
        if !is_first {
            self.settle_gap(frame.first, &new);
        }
        Ok(())
    }

    /// Gives the results of const-eval programs the names of the weights they were made from.
    fn name_constants(&mut self, function: Option<FunctionRef>, tables: &mut Tables<'_>) -> Result<()> {
        let constants = std::mem::take(&mut self.constants);
        let Some(function) = function else { return Ok(()) };
        let is_main = self.graphs.is_main(function);
        let module = self.graphs.module(function);
        for (alloc, numbers) in constants {
            let declared = self.graphs.arguments(function);
            let names: Vec<&str> =
                numbers.iter().filter_map(|number| declared.get(*number as usize)?.name.as_deref()).collect();
            if !names.is_empty() {
                let name = tables.text(names.join(" + ").as_bytes())?;
                self.lives.get_mut(alloc).name = Some(name);
            }
            for number in numbers.into_iter().filter(|_| is_main) {
                self.lives.originate(alloc, module, number);
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
        let mut slots: Vec<(u32, AllocRef)> =
            frame.slots.iter().map(|(number, slot)| (*number, *slot)).collect();
        let declared = function.map(|function| self.graphs.arguments(function).to_vec()).unwrap_or_default();
        for (number, argument) in (0..).zip(&declared) {
            let slot = slots.iter().find(|(have, _)| *have == number).map(|(_, slot)| *slot);
            let slot = match slot {
                Some(slot) => Some(slot),
                None => self.unused_argument(frame, &argument.ssa, &argument.ty, tables)?,
            };
            let Some(slot) = slot else { continue };
            let name = argument.name.as_ref().map(|name| tables.text(name.as_bytes())).transpose()?;
            let alloc = self.lives.get_mut(slot);
            alloc.name = name;
            alloc.class = argument.kind.map_or(Class::Input, ttmem_model::ArgumentKind::class);
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
        if frame.names.contains_key(&name) {
            return Ok(None);
        }
        let Some(place) = self.place(ty, tables)? else { return Ok(None) };
        let owner = (frame.run, frame.program);
        Ok(Some(self.lives.add(Alloc::new(ty, place, Moment::START, Class::Argument, owner, name, None))))
    }

    /// Decides what happened between the last program and this one: which results of earlier programs went,
    /// and whether weights that look like those of another graph are the same memory.
    pub(super) fn settle_gap(&mut self, first: Step, new: &[AllocRef]) {
        let shared = self.shareable(new);
        let pieces = self.pieces_of_outputs();
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
        if let Some(fell) = fell.filter(|_| missed > UNEXPLAINED_FALL && self.has_texts) {
            self.doubts.falls.0 += 1;
            self.doubts.falls.1.get_or_insert((first, fell));
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
        pool: &PoolState,
        new: &[AllocRef],
        shared: &[(AllocRef, AllocRef)],
        pieces: &[Vec<AllocRef>],
    ) -> Option<PoolGap> {
        let size = |alloc: AllocRef| {
            let alloc = self.lives.get(alloc);
            if alloc.pool == pool.id { alloc.per_bank.unwrap_or(0) } else { 0 }
        };
        let sum = |allocs: &mut dyn Iterator<Item = AllocRef>| allocs.map(size).fold(0, u64::saturating_add);
        Some(PoolGap {
            measured: pool.gap?,
            came: sum(&mut new.iter().copied()),
            known: sum(&mut shared.iter().map(|(slot, _)| *slot)),
            pieces: pieces.iter().map(|piece| sum(&mut piece.iter().copied())).collect(),
        })
    }

    /// What may be gone by itself: single results where they are few, else those of one program together.
    fn pieces_of_outputs(&self) -> Vec<Vec<AllocRef>> {
        const MOST: usize = 8;
        let alive = |alloc: &&AllocRef| self.lives.get(**alloc).is_alive();
        let mut single = self.outputs.iter().flatten().filter(alive).map(|alloc| vec![*alloc]);
        let few: Vec<Vec<AllocRef>> = single.by_ref().take(MOST).collect();
        if single.next().is_none() {
            return few;
        }
        // The results of the latest programs, each; all older ones together.
        let (old, recent) = self.outputs.split_at(self.outputs.len().saturating_sub(MOST - 1));
        let mut pieces = vec![old.iter().flatten().filter(alive).copied().collect()];
        pieces.extend(recent.iter().map(|group| group.iter().filter(alive).copied().collect()));
        pieces
    }

    /// New arguments that another graph has under the same name and type, on the device.
    pub(super) fn shareable(&self, new: &[AllocRef]) -> Vec<(AllocRef, AllocRef)> {
        let of = |alloc: AllocRef| {
            let alloc = self.lives.get(alloc);
            (alloc.class == Class::Weight && alloc.is_alive()).then_some((alloc.name?, alloc.ty))
        };
        let wanted: FxHashSet<_> = new.iter().filter_map(|slot| of(*slot)).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let fresh: FxHashSet<AllocRef> = new.iter().map(|slot| self.lives.resolve(*slot)).collect();
        let mut resident: Vec<AllocRef> =
            self.resident.values().map(|alloc| self.lives.resolve(*alloc)).collect();
        resident.sort_unstable_by_key(|alloc| std::cmp::Reverse(self.lives.said_as(*alloc)));
        resident.dedup();
        let mut known: FxHashMap<_, Vec<AllocRef>> = FxHashMap::default();
        for alloc in resident.into_iter().filter(|alloc| !fresh.contains(alloc)) {
            if let Some(key) = of(alloc).filter(|key| wanted.contains(key)) {
                known.entry(key).or_default().push(alloc);
            }
        }
        // Each is given once, the oldest first.
        let mut give = |slot: AllocRef| Some((slot, known.get_mut(&of(slot)?)?.pop()?));
        new.iter().filter_map(|slot| give(*slot)).collect()
    }

    /// Drops what refers to memory that is gone: its slot will be used again.
    pub(super) fn forget_the_dead(&mut self) {
        let lives = &self.lives;
        self.resident.retain(|_, alloc| {
            *alloc = lives.resolve(*alloc);
            lives.get(*alloc).is_alive()
        });
        self.cache.retain(|_, kept| {
            for alloc in kept.results.iter_mut().flatten() {
                *alloc = lives.resolve(*alloc);
            }
            kept.results.iter().flatten().all(|alloc| lives.get(*alloc).is_alive())
        });
        for group in &mut self.outputs {
            for alloc in group.iter_mut() {
                *alloc = lives.resolve(*alloc);
            }
            group.retain(|alloc| lives.get(*alloc).is_alive());
        }
        self.outputs.retain(|group| !group.is_empty());
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
