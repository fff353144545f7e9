//! The memory of a rank between two programs, to decide whether the next program belongs to the same process.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Class, PoolId, Result};

use super::super::life::{Alloc, AllocRef};
use super::super::tables::{Tables, TypeRef};
use super::super::view::{QUANTUM, View};
use super::RankState;
use super::frame::Frame;

impl RankState {
    /// Whether any operation has a text.
    pub fn has_texts(&self) -> bool {
        self.detail.has_texts()
    }

    /// Whether the next lines belong to a program that was started and has not failed.
    pub fn in_program(&self) -> bool {
        let is_named = self.programs.outermost().is_some_and(|frame| !frame.is_nameless());
        is_named && !self.faults.has_failed(self.programs.runs())
    }

    /// Whether an operation has begun whose state was not printed yet.
    pub fn awaits_state(&self) -> bool {
        self.programs.current().is_some_and(|current| !current.has_state())
    }

    /// Whether the current operation starts a program of this name.
    pub fn starts_nested(&self, name: &[u8], tables: &mut Tables<'_>) -> Result<bool> {
        let program = tables.text(name)?;
        Ok(self.caller(tables).is_some_and(|(_, facts)| self.calls(&facts, program)))
    }

    /// Ends the running programs, because another one starts that none of them calls. Returns a warning, which does not
    /// apply if that program starts in another process.
    pub fn end_programs(&mut self, at: super::At, tables: &mut Tables<'_>) -> Result<Option<String>> {
        if self.programs.innermost().is_some_and(Frame::is_nameless) {
            self.end_top(true, Some(at.offset), tables)?;
        }
        if let Some(frame) = self.programs.innermost() {
            let message = format!(
                "program {} had not finished when another program started here; it was aborted, or a new process \
                 began that was not detected, so later numbers may be wrong",
                frame.program_text()
            );
            self.abandon(at.offset, tables)?;
            return Ok(Some(message));
        }
        Ok(None)
    }

    /// Whether a state contradicts the known banks of a pool.
    pub fn has_other_banks(&self, pool: &[u8], view: &View) -> bool {
        self.pools.named(pool).is_some_and(|known| known.has_other_banks(view))
    }

    /// Whether the usage of a pool was at least as high in its first state.
    pub fn began_with_at_least(&self, pool: &[u8], view: &View) -> bool {
        self.pools.named(pool).is_none_or(|known| known.began_with_at_least(view))
    }

    /// The expected usage of a pool now.
    pub fn level(&self, pool: &[u8]) -> Option<u64> {
        self.lives.observed(self.pool_id(pool)?)
    }

    /// The bytes per bank that a process keeps in a pool between programs: weights, const-eval results and tensors of
    /// traces.
    pub fn resident(&self, pool: &[u8]) -> u64 {
        let Some(pool) = self.pool_id(pool) else { return 0 };
        let weights = self.lives.alive().filter(|alloc| alloc.class() == Class::Weight);
        sum_in(pool, weights.chain(self.in_caches().filter(|alloc| alloc.class() != Class::Weight)))
    }

    /// The bytes per bank in a pool that const-eval programs and traces keep.
    pub fn cached(&self, pool: &[u8]) -> u64 {
        self.pool_id(pool).map_or(0, |pool| sum_in(pool, self.in_caches()))
    }

    fn in_caches(&self) -> impl Iterator<Item = &Alloc> {
        let kept: FxHashSet<AllocRef> =
            self.cache.allocations().map(|alloc| self.lives.resolve(alloc)).collect();
        kept.into_iter().map(|alloc| self.lives.get(alloc)).filter(|alloc| alloc.is_alive())
    }

    /// Whether arguments of earlier programs should still be in a pool.
    pub fn has_arguments(&self, pool: &[u8]) -> bool {
        let Some(pool) = self.pool_id(pool) else { return false };
        sum_in(pool, self.lives.alive().filter(|alloc| alloc.class() != Class::Activation)) > QUANTUM
    }

    /// Whether the last top-level program ended without finishing.
    pub fn was_aborted(&self) -> bool {
        self.programs.was_aborted()
    }

    /// The number of resident tensors of each type.
    pub fn resident_types(&self) -> FxHashMap<TypeRef, usize> {
        let mut types = FxHashMap::default();
        for alloc in self.lives.alive() {
            *types.entry(alloc.ty).or_default() += 1;
        }
        types
    }

    /// The bytes per bank of a tensor type in a pool; `None` if it is not in that pool.
    pub fn bytes_in(&self, pool: &[u8], ty: TypeRef, tables: &Tables<'_>) -> Option<u64> {
        self.pools.bytes_in(pool, ty, tables)
    }

    /// Whether an identical module dump was read before.
    pub fn has_dump(&self, hash: u64) -> bool {
        self.graphs.has_dump(hash)
    }
}

/// The bytes per bank of allocations in a pool.
fn sum_in<'a>(pool: PoolId, allocs: impl Iterator<Item = &'a Alloc>) -> u64 {
    allocs.filter(|alloc| alloc.pool == pool).filter_map(|alloc| alloc.per_bank).fold(0, u64::saturating_add)
}
