//! The effect of a step on memory, settled when the next step begins.

use ttmem_model::{Class, Moment, OpKind, RankEvent, Result, RunId, StepMarks, StrId};

use super::super::life::{Alloc, AllocRef};
use super::super::tables::{OpFacts, Tables, TypeRef};
use super::RankState;
use super::cache::CacheKey;
use super::frame::{Current, Frame, Named};

impl RankState {
    /// Settles the current step of the innermost program.
    pub(super) fn settle_current(&mut self, tables: &mut Tables<'_>) -> Result<()> {
        let Some(current) = self.programs.innermost_mut().and_then(Frame::take_current) else {
            return Ok(());
        };
        let facts = tables.op_facts(current.op());
        for mark in current.marks() {
            tables.say(self.id, RankEvent::Marks(current.step(), mark))?;
        }
        if current.is(StepMarks::FAILED) {
            // It had no effect, but its operands exist.
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

    pub(super) fn settle_deallocate(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if current.is(StepMarks::RETAINED) {
            return Ok(());
        }
        if self.detail.has_texts() && tables.operands(facts).next().is_none() {
            let candidates = self.programs.innermost().map(Frame::recently_named).unwrap_or_default();
            self.lives.release_unknown(&candidates, Moment::after(current.step()));
            return Ok(());
        }
        for operand in self.operands(facts, tables)?.into_iter().flatten() {
            self.lives.release(operand, Moment::after(current.step()), facts.force);
        }
        if let Some(frame) = self.programs.innermost_mut() {
            tables.operands(facts).for_each(|(name, _)| frame.forget(name));
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
        if let Some(frame) = self.programs.innermost_mut() {
            frame.use_operands(&operands);
            let names = |parts: (StrId, Option<TypeRef>)| parts.0;
            frame.trace_sources(tables.operands(facts).map(names), tables.results(facts).map(names));
        }
        for (name, ty) in results {
            let place = ty.map(|ty| self.pools.place(ty, tables)).transpose()?.flatten();
            let alloc = match (ty, place) {
                (Some(ty), Some(place)) => {
                    let step = current.step();
                    let (born, owner) = (Moment::after(step), self.owner(tables)?);
                    let alloc = Alloc::new(ty, place, born, Class::Activation, owner, name, Some(step));
                    Some(self.lives.bear(alloc, step, operands.clone()))
                }
                _ => None,
            };
            self.name(name, alloc, Moment::after(current.step()));
        }
        Ok(())
    }

    /// Binds the results of a cached load to the cache entries.
    pub(super) fn settle_cached(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let key = self.cache.key(facts.callee, current.key());
        self.settle_kept(current, facts, key, Class::Weight, tables)
    }

    /// Binds the results of a call to the results of the program inside it.
    pub(super) fn settle_call(
        &mut self,
        current: &Current,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if facts.callee.is_none() {
            let key = CacheKey::Trace(current.op());
            return self.settle_kept(current, facts, key, Class::Activation, tables);
        }
        let Some(returned) = current.returned() else {
            // The log shows no program inside it, so it is treated like any other computation.
            return self.settle_compute(current, facts, tables);
        };
        let names: Vec<StrId> = tables.results(facts).map(|(name, _)| name).collect();
        let (run, program) = self.owner(tables)?;
        for (name, alloc) in names.into_iter().zip(returned.iter().copied().chain(std::iter::repeat(None))) {
            if let Some(alloc) = alloc {
                self.lives.alias(alloc, run, program, name);
            }
            self.name(name, alloc, Moment::after(current.step()));
        }
        Ok(())
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
        // A program that only executes a trace returns nothing itself.
        let fresh = current.returned().filter(|returned| returned.iter().any(Option::is_some));
        let is_fresh = fresh.is_some();
        let fits = |kept: &&[Option<AllocRef>]| {
            let is_same = |(kept, (_, ty)): (&Option<AllocRef>, &(StrId, Option<TypeRef>))| {
                kept.is_none_or(|kept| Some(self.lives.get(kept).ty) == *ty)
            };
            kept.len() == results.len() && kept.iter().zip(&results).all(is_same)
        };
        let kept = match fresh.or_else(|| self.cache.get(key).filter(fits)) {
            Some(kept) => kept.to_vec(),
            None => self.cached_before(current, key, &results, class, tables)?,
        };
        let at = Moment::after(current.step());
        let (run, program) = self.owner(tables)?;
        for (index, (name, _)) in results.iter().enumerate() {
            let alloc = kept.get(index).copied().flatten();
            if let Some(alloc) = alloc {
                // A program that just ran has passed on its hold; a trace also holds its slots.
                if !is_fresh || matches!(key, CacheKey::Trace(_)) {
                    self.lives.hold(alloc);
                }
                self.lives.alias(alloc, run, program, *name);
            }
            self.name(*name, alloc, at);
        }
        self.cache.keep(key, kept, &mut self.lives, at);
        Ok(())
    }

    /// Results that no program in the log has computed, as far as its lines show.
    fn cached_before(
        &mut self,
        current: &Current,
        key: CacheKey,
        results: &[(StrId, Option<TypeRef>)],
        class: Class,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<Option<AllocRef>>> {
        let mut kept = Vec::with_capacity(results.len());
        for &(name, ty) in results {
            let place = ty.map(|ty| self.pools.place(ty, tables)).transpose()?.flatten();
            kept.push(match (ty, place) {
                (Some(ty), Some(place)) => {
                    let alloc = Alloc::new(ty, place, Moment::START, class, self.owner(tables)?, name, None);
                    Some(self.lives.add(alloc))
                }
                _ => None,
            });
        }
        // Lines of the program that computed them may be missing, unless it was a cache hit and no program in the log
        // has cached them.
        let is_hit = class == Class::Activation || current.is(StepMarks::CACHE_HIT);
        if is_hit && current.returned().is_none() && !self.cache.had(key) {
            self.inconsistencies.cached_before(kept.iter().flatten().count());
        }
        Ok(kept)
    }

    /// Names an allocation in the innermost program.
    fn name(&mut self, name: StrId, alloc: Option<AllocRef>, at: Moment) {
        if let Some(frame) = self.programs.innermost_mut() {
            frame.name(name, alloc, &mut self.lives, at);
        }
    }

    /// The program that currently defines names.
    fn owner(&self, tables: &mut Tables<'_>) -> Result<(Option<RunId>, StrId)> {
        match self.programs.innermost() {
            Some(frame) => Ok((frame.run(), frame.program())),
            None => Ok((None, tables.text(b"")?)),
        }
    }

    /// The allocations of an operation's operands. An argument without a name yet is found now.
    pub(super) fn operands(
        &mut self,
        facts: &OpFacts,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<Option<AllocRef>>> {
        let operands: Vec<_> = tables.operands(facts).collect();
        let mut found = Vec::with_capacity(operands.len());
        for (name, ty) in operands {
            let is_tensor = ty.is_some();
            let known = self.programs.innermost().and_then(|frame| frame.find(name));
            let alloc = match known {
                Some(Named::OnDevice(alloc)) => Some(alloc),
                Some(Named::NotOnDevice) => None,
                None => {
                    let found = self.find_argument(name, ty, tables)?;
                    // A program whose start is missing may have created it before.
                    let frame = self.programs.innermost_mut().filter(|frame| frame.is_complete());
                    if let Some(frame) = frame
                        && is_tensor
                        && tables.argument_number(name).is_none()
                    {
                        self.inconsistencies.undefined_operand();
                        frame.forget(name);
                    }
                    found
                }
            };
            // Devices are also operands, but never arguments of a nested program.
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
        if self.programs.depth() != 1 {
            return Ok(None);
        }
        let place = ty.map(|ty| self.pools.place(ty, tables)).transpose()?.flatten();
        let alloc = match (ty, place) {
            (Some(ty), Some(place)) => {
                let alloc =
                    Alloc::new(ty, place, Moment::START, Class::Argument, self.owner(tables)?, name, None);
                Some(self.lives.add(alloc))
            }
            _ => None,
        };
        if let Some(frame) = self.programs.innermost_mut() {
            frame.add_argument(name, number, ty, alloc);
        }
        Ok(alloc)
    }
}
