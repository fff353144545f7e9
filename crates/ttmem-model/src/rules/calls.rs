//! The running calls: their nesting, their effect on memory, and the totals per scope.
//!
//! A call is identified by its slot in a slab. The slot is kept while something refers to it: an allocation made in it,
//! a nested call, or its holder (a task started in the call may outlive it).

use slab::Slab;

use crate::{CallTotals, Nanoseconds, Outcome, ScopeId};

/// The slot of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRef(u32);

impl CallRef {
    /// The index in the slab.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Place {
    scope: ScopeId,
    parent: Option<CallRef>,
    is_open: bool,
    /// The number of the call, counted from 0.
    number: u64,
    /// The number of references: allocations, nested calls, holders.
    references: u32,
    began: Nanoseconds,
    /// The allocated minus the freed bytes.
    level: i64,
    so_far: Outcome,
}

/// The running calls, and those that are still referenced.
#[derive(Clone, Debug, Default)]
pub struct RunningCalls {
    places: Slab<Place>,
    /// The number of calls so far.
    entered: u64,
    /// The totals of ended calls, by scope.
    totals: Vec<CallTotals>,
}

impl RunningCalls {
    /// Begins a call, unless there are too many. The caller holds the slot until [`release`](Self::release).
    pub fn enter(&mut self, scope: ScopeId, parent: Option<CallRef>, began: Nanoseconds) -> Option<CallRef> {
        let at = CallRef(u32::try_from(self.places.vacant_key()).ok()?);
        if let Some(parent) = parent.and_then(|parent| self.place(parent)) {
            parent.references += 1;
        }
        let so_far = Outcome::default();
        let number = self.entered;
        let place = Place { scope, parent, is_open: true, number, references: 1, began, level: 0, so_far };
        self.places.insert(place);
        self.entered += 1;
        Some(at)
    }

    /// The number for a call that has already ended and needs no slot.
    pub fn take_number(&mut self) -> u64 {
        self.entered += 1;
        self.entered - 1
    }

    /// Ends a call and returns its outcome; `None` if it had already ended.
    pub fn exit(&mut self, at: CallRef, now: Nanoseconds) -> Option<Outcome> {
        let place = self.place(at).filter(|place| place.is_open)?;
        place.is_open = false;
        let outcome = Outcome { ended: now, ..place.so_far };
        let (scope, took) = (place.scope.index(), now.saturating_sub(place.began));
        if self.totals.len() <= scope {
            self.totals.resize(scope + 1, CallTotals::default());
        }
        self.totals[scope].add(&outcome, took);
        Some(outcome)
    }

    /// Releases a holder's reference to a slot.
    pub fn release(&mut self, at: CallRef) {
        let mut next = Some(at);
        while let Some(place) = next.and_then(|at| self.place(at)) {
            place.references = place.references.saturating_sub(1);
            if place.is_open || place.references > 0 {
                return;
            }
            let (parent, at) = (place.parent, next);
            next = parent;
            if let Some(CallRef(index)) = at {
                self.places.remove(index as usize);
            }
        }
    }

    /// Records an allocation in a call. Returns the call it belongs to, which is referenced from now on.
    pub fn allocated(&mut self, within: Option<CallRef>, bytes: u64) -> Option<CallRef> {
        let owner = self.running(within);
        if let Some(owner) = owner.and_then(|owner| self.place(owner)) {
            owner.references += 1;
        }
        self.each_running(owner, |place| {
            place.level = place.level.saturating_add_unsigned(bytes);
            let outcome = &mut place.so_far;
            outcome.allocated = outcome.allocated.saturating_add(bytes);
            outcome.kept = outcome.kept.saturating_add(bytes);
            outcome.allocations = outcome.allocations.saturating_add(1);
            outcome.peak = outcome.peak.max(u64::try_from(place.level).unwrap_or(0));
        });
        owner
    }

    /// Records a free in a call, of an allocation that belongs to `owner`.
    pub fn freed(&mut self, owner: Option<CallRef>, within: Option<CallRef>, bytes: u64) {
        self.each_running(within, |place| {
            place.level = place.level.saturating_sub_unsigned(bytes);
            place.so_far.freed = place.so_far.freed.saturating_add(bytes);
            place.so_far.frees = place.so_far.frees.saturating_add(1);
        });
        self.each_running(owner, |place| place.so_far.kept = place.so_far.kept.saturating_sub(bytes));
        if let Some(owner) = owner {
            self.release(owner);
        }
    }

    /// The innermost running call.
    pub fn running(&self, at: Option<CallRef>) -> Option<CallRef> {
        let mut next = at;
        while let Some(at) = next {
            let place = self.places.get(at.0 as usize)?;
            if place.is_open {
                return Some(at);
            }
            next = place.parent;
        }
        None
    }

    /// Whether a call is still running.
    pub fn runs(&self, at: Option<CallRef>) -> bool {
        at.and_then(|at| self.places.get(at.0 as usize)).is_some_and(|place| place.is_open)
    }

    /// The number of the call in a slot, counted from 0.
    pub fn number(&self, at: CallRef) -> Option<u64> {
        self.places.get(at.0 as usize).map(|place| place.number)
    }

    /// The scope of a slot.
    pub fn scope(&self, at: CallRef) -> Option<ScopeId> {
        self.places.get(at.0 as usize).map(|place| place.scope)
    }

    /// The totals of a scope's ended calls.
    pub fn totals(&self, scope: ScopeId) -> CallTotals {
        self.totals.get(scope.index()).copied().unwrap_or_default()
    }

    /// The number of used slots; 0 at the end.
    pub fn held(&self) -> usize {
        self.places.len()
    }

    fn place(&mut self, at: CallRef) -> Option<&mut Place> {
        self.places.get_mut(at.0 as usize)
    }

    /// All running calls, from one outwards.
    fn each_running(&mut self, from: Option<CallRef>, mut each: impl FnMut(&mut Place)) {
        let mut next = from;
        while let Some(place) = next.and_then(|at| self.place(at)) {
            if place.is_open {
                each(place);
            }
            next = place.parent;
        }
    }
}
