//! Results that const-eval programs and traces keep on the device, to be loaded again.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Moment, StrId};

use super::super::life::{AllocRef, Lives};
use super::super::tables::OpRef;

/// The key of cached results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CacheKey {
    /// The name of a const-eval program, and the hash that the runtime prints.
    Constants(Option<StrId>, Option<StrId>),
    /// An operation that captures a trace.
    Trace(OpRef),
}

/// The cached results; `None` for results that are not on the device.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: FxHashMap<CacheKey, Vec<Option<AllocRef>>>,
    /// The keys of entries whose memory was freed.
    former: FxHashSet<CacheKey>,
}

impl Cache {
    /// The key of a cached load. If its hash or that of an earlier load is missing from the log, only the program name
    /// is used.
    pub fn key(&self, callee: Option<StrId>, hash: Option<StrId>) -> CacheKey {
        let key = CacheKey::Constants(callee, hash);
        if self.entries.contains_key(&key) {
            return key;
        }
        let mut of_callee = self.entries.keys().filter(|known| match known {
            CacheKey::Constants(of, under) => *of == callee && (hash.is_none() || under.is_none()),
            CacheKey::Trace(_) => false,
        });
        match (of_callee.next(), of_callee.next()) {
            (Some(known), None) => *known,
            _ => key,
        }
    }

    /// The results of a key.
    pub fn get(&self, key: CacheKey) -> Option<&[Option<AllocRef>]> {
        self.entries.get(&key).map(Vec::as_slice)
    }

    /// Whether results of a key are or were in the cache. If a line is missing, a key lacks its program or its hash.
    pub fn had(&self, key: CacheKey) -> bool {
        let fits =
            |one: Option<StrId>, other: Option<StrId>| one.is_none() || other.is_none() || one == other;
        self.entries.keys().chain(&self.former).any(|known| match (*known, key) {
            (CacheKey::Constants(callee, hash), CacheKey::Constants(of, under)) => {
                fits(callee, of) && fits(hash, under)
            }
            (known, key) => known == key,
        })
    }

    /// Caches results. Takes over one hold of each result that is new under this key, and releases the results they
    /// replace.
    pub fn keep(&mut self, key: CacheKey, results: Vec<Option<AllocRef>>, lives: &mut Lives, at: Moment) {
        let before = self.entries.get(&key).into_iter().flatten().flatten();
        let replaced = before.filter(|old| !results.contains(&Some(**old)));
        replaced.for_each(|old| lives.release(*old, at, false));
        self.entries.insert(key, results);
    }

    /// All allocations in the cache.
    pub fn allocations(&self) -> impl Iterator<Item = AllocRef> {
        self.entries.values().flatten().flatten().copied()
    }

    /// Drops entries whose memory was freed, because their slots will be reused.
    pub fn forget_the_dead(&mut self, lives: &Lives) {
        self.entries.retain(|key, results| {
            for alloc in results.iter_mut().flatten() {
                *alloc = lives.resolve(*alloc);
            }
            let is_kept = results.iter().flatten().all(|alloc| lives.get(*alloc).is_alive());
            if !is_kept {
                self.former.insert(*key);
            }
            is_kept
        });
    }
}
