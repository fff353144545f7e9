//! The calls that run now: who is inside of whom, what each of them did to memory, and what all calls of a scope came to.
//!
//! A call is known by its place in a slab. The place is kept for as long as somebody may still mean it: an allocation
//! that was made in it, a call inside of it, or whoever holds it (a task that was begun in it may outlive it).

use slab::Slab;

use crate::{CallTotals, Nanoseconds, Outcome, ScopeId};

/// A place of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRef(u32);

impl CallRef {
    /// The place in the slab.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Place {
    scope: ScopeId,
    parent: Option<CallRef>,
    is_open: bool,
    /// Which of all calls it is, from 0.
    number: u64,
    /// How many mean it: allocations, calls inside of it, holders.
    meant: u32,
    began: Nanoseconds,
    /// What it allocated less what it gave back.
    level: i64,
    so_far: Outcome,
}

/// The calls that run, and those that are still meant.
#[derive(Clone, Debug, Default)]
pub struct RunningCalls {
    places: Slab<Place>,
    /// How many calls began.
    entered: u64,
    /// What the calls that ended came to, by scope.
    totals: Vec<CallTotals>,
}

impl RunningCalls {
    /// A call begins, unless there are too many. Who gets the place holds it until [`release`](Self::release).
    pub fn enter(&mut self, scope: ScopeId, parent: Option<CallRef>, began: Nanoseconds) -> Option<CallRef> {
        let at = CallRef(u32::try_from(self.places.vacant_key()).ok()?);
        if let Some(parent) = parent.and_then(|parent| self.place(parent)) {
            parent.meant += 1;
        }
        let so_far = Outcome::default();
        let number = self.entered;
        let place = Place { scope, parent, is_open: true, number, meant: 1, began, level: 0, so_far };
        self.places.insert(place);
        self.entered += 1;
        Some(at)
    }

    /// The number of a call that is over, and has no place.
    pub fn take_number(&mut self) -> u64 {
        self.entered += 1;
        self.entered - 1
    }

    /// A call ends: what it came to. `None` when it had ended before.
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

    /// Who held a place does so no more.
    pub fn release(&mut self, at: CallRef) {
        let mut next = Some(at);
        while let Some(place) = next.and_then(|at| self.place(at)) {
            place.meant = place.meant.saturating_sub(1);
            if place.is_open || place.meant > 0 {
                return;
            }
            let (parent, at) = (place.parent, next);
            next = parent;
            if let Some(CallRef(index)) = at {
                self.places.remove(index as usize);
            }
        }
    }

    /// Something was allocated in a call: the call it belongs to, which is meant from now on.
    pub fn allocated(&mut self, within: Option<CallRef>, bytes: u64) -> Option<CallRef> {
        let owner = self.running(within);
        if let Some(owner) = owner.and_then(|owner| self.place(owner)) {
            owner.meant += 1;
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

    /// Something was given back in a call that belonged to another, or the same.
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

    /// The innermost call that still runs.
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

    /// Whether a call has not ended yet.
    pub fn runs(&self, at: Option<CallRef>) -> bool {
        at.and_then(|at| self.places.get(at.0 as usize)).is_some_and(|place| place.is_open)
    }

    /// Which of all calls is at a place, from 0.
    pub fn number(&self, at: CallRef) -> Option<u64> {
        self.places.get(at.0 as usize).map(|place| place.number)
    }

    /// The scope of a place.
    pub fn scope(&self, at: CallRef) -> Option<ScopeId> {
        self.places.get(at.0 as usize).map(|place| place.scope)
    }

    /// What the calls of a scope came to that have ended.
    pub fn totals(&self, scope: ScopeId) -> CallTotals {
        self.totals.get(scope.index()).copied().unwrap_or_default()
    }

    /// How many places are held: none is, in the end.
    pub fn held(&self) -> usize {
        self.places.len()
    }

    fn place(&mut self, at: CallRef) -> Option<&mut Place> {
        self.places.get_mut(at.0 as usize)
    }

    /// All calls from one outwards that still run.
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
