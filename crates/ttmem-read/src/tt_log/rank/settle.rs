//! What a step did to the memory, settled when the next one begins.

use super::super::life::{Alloc, AllocRef, Lives};
use super::super::tables::{OpFacts, Tables, TypeRef};
use super::super::types::{Alignment, Place};
use super::{CacheKey, Current, Kept, RankState};
use ttmem_model::Result;
use ttmem_model::{Class, Moment, OpKind, PoolId, RankEvent, RunId, StepMarks, StrId};

impl RankState {
    /// Settles the step that runs in the innermost program.
    pub(super) fn settle_current(&mut self, tables: &mut Tables<'_>) -> Result<()> {
        let Some(current) = self.frames.last_mut().and_then(|frame| frame.current.take()) else {
            return Ok(());
        };
        let facts = tables.op_facts(current.op);
        self.say_marks(&current, tables)?;
        if self.frames.last().is_some_and(|frame| frame.retold) {
            return Ok(());
        }
        if current.failed {
            // It did nothing, but what it was to read is there.
            return self.operands(&facts, tables).map(|_| ());
        }
        match facts.kind {
            OpKind::GetDevice => Ok(()),
            OpKind::Deallocate => self.settle_deallocate(&current, &facts, tables),
            OpKind::LoadCached => self.settle_cached(&current, &facts, tables),
            OpKind::Call => self.settle_call(&current, &facts, tables),
            OpKind::Compute => self.settle_compute(&current, &facts, tables),
        }
    }

    pub(super) fn say_marks(&mut self, current: &Current, tables: &mut Tables<'_>) -> Result<()> {
        let marks = [
            (current.hit, StepMarks::CACHE_HIT),
            (current.miss, StepMarks::CACHE_MISS),
            (current.retained, StepMarks::RETAINED),
            (current.failed, StepMarks::FAILED),
        ];
        for (set, mark) in marks {
            if set {
                tables.say(self.id, RankEvent::Marks(current.step, mark))?;
            }
        }
        Ok(())
    }

    pub(super) fn settle_deallocate(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if current.retained {
            return Ok(());
        }
        if self.has_texts && tables.operands(facts).next().is_none() {
            let candidates = self.recently_named();
            self.lives.release_unknown(&candidates, Moment::after(current.step));
            return Ok(());
        }
        for operand in self.operands(facts, tables)?.into_iter().flatten() {
            self.lives.release(operand, Moment::after(current.step), facts.force);
        }
        let names: Vec<StrId> = tables.operands(facts).map(|(name, _)| name).collect();
        if let Some(frame) = self.frames.last_mut() {
            for name in names {
                // The name stays known: a second deallocation of it must not look like an argument's.
                frame.names.insert(name, None);
            }
        }
        Ok(())
    }

    pub(super) fn settle_compute(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let operands: Vec<AllocRef> = self.operands(facts, tables)?.into_iter().flatten().collect();
        let results: Vec<_> = tables.results(facts).collect();
        if let Some(frame) = self.frames.last_mut() {
            frame.used.clone_from(&operands);
        }
        self.trace_sources(facts, tables);
        for (name, ty) in results {
            let place = ty.map(|ty| self.place(ty, tables)).transpose()?.flatten();
            let alloc = match (ty, place) {
                (Some(ty), Some(place)) => {
                    let born = Moment::after(current.step);
                    let alloc = Alloc::new(
                        ty,
                        place,
                        born,
                        Class::Activation,
                        self.owner(tables)?,
                        name,
                        Some(current.step),
                    );
                    Some(self.lives.bear(alloc, current.step, operands.clone()))
                }
                _ => None,
            };
            self.name(name, alloc, Moment::after(current.step));
        }
        Ok(())
    }

    /// What the innermost program has on the device, what it named last first.
    fn recently_named(&self) -> Vec<AllocRef> {
        /// A program frees soon after the last use; further back, a size tells little.
        const FAR: usize = 256;
        let Some(frame) = self.frames.last() else { return Vec::new() };
        let results = frame.order.iter().rev().take(FAR).filter_map(|name| frame.named(*name));
        frame.used.iter().rev().copied().chain(results).collect()
    }

    /// In a const-eval program, what a step makes goes back to what its operands go back to.
    fn trace_sources(&mut self, facts: &OpFacts, tables: &Tables<'_>) {
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.const_eval) else { return };
        let mut sources: Vec<u32> = tables
            .operands(facts)
            .filter_map(|(name, _)| frame.sources.get(&name))
            .flatten()
            .copied()
            .collect();
        sources.sort_unstable();
        sources.dedup();
        for (name, _) in tables.results(facts) {
            frame.sources.insert(name, sources.clone());
        }
    }

    /// Binds the results of a cached load to what the cache holds.
    pub(super) fn settle_cached(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let key = self.cached_under(facts.callee, current.key);
        self.settle_kept(current, facts, key, Class::Weight, tables)
    }

    /// What a cached load asks for. Where its hash or that of an earlier load is missing from the log, the program's name
    /// must do.
    fn cached_under(&self, callee: Option<StrId>, hash: Option<StrId>) -> CacheKey {
        let key = CacheKey::Constants(callee, hash);
        if self.cache.contains_key(&key) {
            return key;
        }
        let mut of_callee = self.cache.keys().filter(|known| match known {
            CacheKey::Constants(of, under) => *of == callee && (hash.is_none() || under.is_none()),
            CacheKey::Trace(_) => false,
        });
        match (of_callee.next(), of_callee.next()) {
            (Some(known), None) => *known,
            _ => key,
        }
    }

    /// Binds the results of a call to what the program inside it returned.
    pub(super) fn settle_call(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let is_trace = facts.callee.is_none();
        match &current.returned {
            Some(_) | None if is_trace => {
                self.settle_kept(current, facts, CacheKey::Trace(current.op), Class::Activation, tables)
            }
            Some(returned) => {
                let names: Vec<StrId> = tables.results(facts).map(|(name, _)| name).collect();
                let (run, program) = self.owner(tables)?;
                for (name, alloc) in
                    names.into_iter().zip(returned.iter().copied().chain(std::iter::repeat(None)))
                {
                    if let Some(alloc) = alloc {
                        self.lives.alias(alloc, run, program, name);
                    }
                    self.name(name, alloc, Moment::after(current.step));
                }
                Ok(())
            }
            // Nothing ran that we could see: it is a computation like any other.
            None => self.settle_compute(current, facts, tables),
        }
    }

    pub(super) fn settle_kept(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        key: CacheKey,
        class: Class,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let results: Vec<_> = tables.results(facts).collect();
        // A program that only executes a trace returns nothing of its own.
        let fresh = current.returned.clone().filter(|returned| returned.iter().any(Option::is_some));
        let is_fresh = fresh.is_some();
        let types = |kept: &[Option<AllocRef>], lives: &Lives| {
            kept.len() == results.len()
                && kept
                    .iter()
                    .zip(&results)
                    .all(|(kept, (_, ty))| kept.is_none_or(|kept| Some(lives.get(kept).ty) == *ty))
        };
        let found =
            self.cache.get(&key).filter(|kept| !is_fresh && types(&kept.results, &self.lives)).cloned();
        let earlier = found.as_ref().and_then(|found| found.maker).filter(|_| current.maker.is_none());
        if let Some(maker) = earlier {
            self.asked.insert(maker, self.begins.len());
        }
        let kept = match fresh.or_else(|| found.map(|found| found.results)) {
            Some(kept) => kept,
            None => self.resident_before(&results, class, tables)?,
        };
        let (run, program) = self.owner(tables)?;
        for (index, (name, _)) in results.iter().enumerate() {
            let alloc = kept.get(index).copied().flatten();
            if let Some(alloc) = alloc {
                // A program that just ran has handed its own hold over; a trace holds its slots besides.
                if !is_fresh || matches!(key, CacheKey::Trace(_)) {
                    self.lives.hold(alloc);
                }
                self.lives.alias(alloc, run, program, *name);
            }
            self.name(*name, alloc, Moment::after(current.step));
        }
        let maker = current.maker.or(earlier);
        let before = self.cache.insert(key, Kept { results: kept.clone(), maker });
        // Evaluated again, the cache lets go of what it had.
        let before = before.map(|before| before.results);
        for old in before.into_iter().flatten().flatten().filter(|old| !kept.contains(&Some(*old))) {
            self.lives.release(old, Moment::after(current.step), false);
        }
        Ok(())
    }

    /// What was cached before the log began.
    pub(super) fn resident_before(
        &mut self,
        results: &[(StrId, Option<TypeRef>)],
        class: Class,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<Option<AllocRef>>> {
        let mut kept = Vec::with_capacity(results.len());
        for &(name, ty) in results {
            let place = ty.map(|ty| self.place(ty, tables)).transpose()?.flatten();
            kept.push(match (ty, place) {
                (Some(ty), Some(place)) => {
                    let alloc = Alloc::new(ty, place, Moment::START, class, self.owner(tables)?, name, None);
                    Some(self.lives.add(alloc))
                }
                _ => None,
            });
        }
        Ok(kept)
    }

    /// Gives a name to an allocation in the innermost program. A name that is given anew lets go of the old.
    pub(super) fn name(&mut self, name: StrId, alloc: Option<AllocRef>, at: Moment) {
        let Some(frame) = self.frames.last_mut() else { return };
        frame.order.push(name);
        if let Some(Some(before)) = frame.names.insert(name, alloc) {
            self.lives.release(before, at, false);
        }
    }

    /// The program that names are given in now.
    fn owner(&self, tables: &mut Tables<'_>) -> Result<(Option<RunId>, StrId)> {
        match self.frames.last() {
            Some(frame) => Ok((frame.run, frame.program)),
            None => Ok((None, tables.text(b"")?)),
        }
    }

    /// The allocations of an operation's operands. An argument that was not named before is found now.
    pub(super) fn operands(
        &mut self,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<Option<AllocRef>>> {
        let operands: Vec<_> = tables.operands(facts).collect();
        let mut found = Vec::with_capacity(operands.len());
        for (name, ty) in operands {
            let is_tensor = ty.is_some();
            let known = self.frames.last().and_then(|frame| frame.names.get(&name).copied());
            let alloc = match known {
                Some(alloc) => alloc,
                None => {
                    let found = self.find_argument(name, ty, tables)?;
                    // A program whose start is missing may have made it before.
                    let is_complete =
                        self.frames.last().is_some_and(|frame| frame.run.is_some() && !frame.has_gaps);
                    if is_tensor && is_complete && tables.argument_number(name).is_none() {
                        self.doubts.undefined += 1;
                        self.frames.last_mut().into_iter().for_each(|frame| {
                            frame.names.insert(name, None);
                        });
                    }
                    found
                }
            };
            // Devices are operands too, but never arguments of a nested program.
            if is_tensor || alloc.is_some() {
                found.push(alloc);
            }
        }
        Ok(found)
    }

    pub(super) fn find_argument(
        &mut self,
        name: StrId,
        ty: Option<TypeRef>,
        tables: &mut Tables<'_>,
    ) -> Result<Option<AllocRef>> {
        let Some(number) = tables.argument_number(name) else { return Ok(None) };
        if self.frames.len() != 1 {
            return Ok(None);
        }
        let place = ty.map(|ty| self.place(ty, tables)).transpose()?.flatten();
        let alloc = match (ty, place) {
            (Some(ty), Some(place)) => {
                let alloc =
                    Alloc::new(ty, place, Moment::START, Class::Argument, self.owner(tables)?, name, None);
                Some(self.lives.add(alloc))
            }
            _ => None,
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.arguments.push((number, ty));
            frame.slots.extend(alloc.map(|alloc| (number, alloc)));
            frame.names.insert(name, alloc);
        }
        Ok(alloc)
    }

    /// The pool of a type and what it takes of each bank; `None` for what is not on the device.
    pub(super) fn place(
        &mut self,
        ty: TypeRef,
        tables: &mut Tables<'_>,
    ) -> Result<Option<(PoolId, Option<u64>)>> {
        let facts = tables.type_facts(ty);
        let Some(name) = facts.place.and_then(Place::pool) else { return Ok(None) };
        let index = match self.pools.iter().position(|pool| pool.name == name.as_bytes()) {
            Some(index) => index,
            None => self.add_pool(name.as_bytes(), None, 0, tables)?,
        };
        let pool = &self.pools[index];
        let per_bank = pool.banks.and_then(|banks| facts.footprint?.per_bank(banks, self.alignment()));
        Ok(Some((pool.id, per_bank)))
    }

    /// Wormhole's banks hold one or two GiB, Blackhole's four; nothing in the log names the chip.
    pub(super) fn alignment(&self) -> Alignment {
        const LARGEST_WORMHOLE_BANK: u64 = 2 << 30;
        let dram = self.pools.iter().find(|pool| pool.name == b"DRAM");
        Alignment {
            dram: if dram.is_some_and(|dram| dram.capacity > LARGEST_WORMHOLE_BANK) { 64 } else { 32 },
        }
    }
}
