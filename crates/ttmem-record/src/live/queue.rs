//! The way from the program to the thread that writes: a ring of small records, and beside it a channel for what is
//! rare and large.
//!
//! There is one who puts in and one who takes out, and neither waits for a lock. Who puts in does not wait for the disk
//! either: what the ring has no room for is set aside, up to a limit. Beyond that it waits, as nothing may be lost; and if
//! nothing moves for a long time, the recording ends there, and says so. A program that can wait at a better place (where
//! it holds nothing that others need) asks [`Outlet::behind`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::{LateCall, Place, RecordingStatus};
use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    Class, Event, Fault, HistoryRow, LaneId, Nanoseconds, OpId, Outcome, PoolId, Reading, ScopeId, StrId,
    TypeId,
};

/// How many records wait for the thread, at most.
const RING: usize = 1 << 15;
/// The thread is woken when this many have come.
const WAKE_EVERY: usize = RING / 4;
/// So many are set aside where the ring is full.
const MOST_ASIDE: usize = 1 << 18;
/// How many are set aside before there may be room again.
const DRAIN_EVERY: usize = 128;
/// How long who puts in waits for a place, before it looks again.
const WAIT: Duration = Duration::from_micros(50);
/// A disk that takes nothing for so long is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// What comes next in the channel belongs here.
    Parcel,
    /// The time of what follows.
    Time(Nanoseconds),
    /// The call that what follows belongs to.
    Within(Option<CallRef>),
    /// There is something at a place.
    Allocated { place: Place, pool: PoolId, bytes: u64, op: OpId, ty: Option<TypeId>, class: Class },
    /// What is at a place is gone.
    Freed(Place),
    /// What something turned out to be.
    Classified { place: Place, class: Class, name: Option<StrId> },
    /// Whether gradients are computed for something.
    RequiresGrad(Place, bool),
    /// A call begins.
    Entered {
        call: CallRef,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallRef>,
        op: Option<OpId>,
        began: Nanoseconds,
    },
    /// A call ends. (An outcome without its position, which is the file's: so a record has 64 bytes.)
    Returned {
        call: CallRef,
        ended: Nanoseconds,
        allocated: u64,
        freed: u64,
        peak: u64,
        kept: u64,
        allocations: u64,
        frees: u64,
    },
    /// Somebody wants to look at this moment.
    Snapshot { name: Option<StrId>, time: Nanoseconds },
}

const _: () = assert!(size_of::<Record>() <= 64, "a record has outgrown its line of the cache");

impl Record {
    /// That a call came to this.
    pub fn returned(call: CallRef, outcome: &Outcome) -> Self {
        let &Outcome { ended, end: _, allocated, freed, peak, kept, allocations, frees } = outcome;
        Self::Returned { call, ended, allocated, freed, peak, kept, allocations, frees }
    }

    /// What a call came to.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Returned { call: _, ended, allocated, freed, peak, kept, allocations, frees } => {
                Outcome { ended, end: 0, allocated, freed, peak, kept, allocations, frees }
            }
            _ => Outcome::default(),
        }
    }
}

/// What is too large or too rare for the ring.
#[derive(Debug)]
pub(super) enum Parcel {
    /// An event that is written as it is.
    Event(Event<'static>),
    /// The next pool, by its name; whether it is empty now, or not known.
    Pool { name: StrId, text: String, is_empty: bool },
    /// What a pool was seen to have; at a step of its own, if there is an operation.
    Reading(PoolId, Reading, Option<OpId>),
    /// A call that is over already.
    Late(LateCall),
    /// What an allocator did, learned of afterwards; and in which call, by its number.
    History(HistoryRow, Option<u64>),
    /// Something that went wrong in the program; at a step of its own, if there is an operation.
    Fault(Fault, Option<OpId>),
    /// What went wrong last has ended the program.
    FaultEnded,
    /// Everything up to here shall be in the file; then the word is passed on.
    Flush(SyncSender<()>),
    /// The recording ends.
    Finish,
}

/// What both ends know.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// How many records were taken out.
    taken: AtomicU64,
    /// Why nothing more is written.
    failure: OnceLock<String>,
    status: Mutex<RecordingStatus>,
}

impl Gauge {
    /// Why nothing more is written.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Nothing more is written; the first reason counts.
    pub fn fail(&self, why: String) {
        let _ = self.failure.set(why);
    }

    pub fn status(&self) -> RecordingStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_status(&self, status: RecordingStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// The program is ahead of the disk: who has nothing that others need waits here.
#[derive(Debug)]
pub struct Behind {
    gauge: Arc<Gauge>,
    until: u64,
}

impl Behind {
    /// Waits until there is room again; not for a disk that takes nothing.
    pub fn wait(&self) {
        let (mut taken, mut since) = (0, Instant::now());
        loop {
            let now = self.gauge.taken.load(Ordering::Relaxed);
            if now >= self.until || self.gauge.failure().is_some() || since.elapsed() > PATIENCE {
                return;
            }
            if now != taken {
                (taken, since) = (now, Instant::now());
            }
            thread::sleep(WAIT);
        }
    }
}

/// A new queue, both ends.
pub(super) fn queue() -> (Outlet, Inlet) {
    let (put, take) = RingBuffer::new(RING);
    let (send, receive) = channel();
    let gauge = Arc::new(Gauge::default());
    let outlet = Outlet {
        ring: put,
        aside: VecDeque::new(),
        parcels: send,
        since: 0,
        put: 0,
        is_behind: false,
        is_over: false,
        thread: None,
        gauge: Arc::clone(&gauge),
    };
    (outlet, Inlet { ring: take, parcels: receive, taken: 0, gauge })
}

/// The end that the program has.
#[derive(Debug)]
pub(super) struct Outlet {
    ring: Producer<Record>,
    /// What the ring had no room for, in order: nothing goes past it.
    aside: VecDeque<Record>,
    parcels: Sender<Parcel>,
    /// How many were put in since the thread was woken.
    since: usize,
    /// How many were put in before that.
    put: u64,
    /// Most of the ring was full when that was last looked at.
    is_behind: bool,
    /// Nothing is put in any more.
    is_over: bool,
    thread: Option<Thread>,
    pub gauge: Arc<Gauge>,
}

impl Outlet {
    /// Whom to wake when there is something to do.
    pub fn wakes(&mut self, thread: Thread) {
        self.thread = Some(thread);
    }

    #[inline]
    pub fn put(&mut self, record: Record) {
        if !self.aside.is_empty() || self.is_over {
            self.put_behind(record);
        } else if let Err(PushError::Full(record)) = self.ring.push(record) {
            self.put_behind(record);
        }
        self.since += 1;
        if self.since >= WAKE_EVERY {
            self.wake();
        }
    }

    pub fn send(&mut self, parcel: Parcel) {
        if !self.is_over {
            // The thread takes parcels until it is told to finish, and the outlet goes then.
            let _ = self.parcels.send(parcel);
            self.put(Record::Parcel);
        }
    }

    pub fn wake(&mut self) {
        self.put += self.since as u64;
        self.since = 0;
        self.drain();
        self.is_behind = !self.aside.is_empty() || self.ring.slots() < WAKE_EVERY;
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    /// Something to wait for, if the program is far ahead of the disk.
    #[inline]
    pub fn behind(&mut self) -> Option<Behind> {
        if !std::mem::take(&mut self.is_behind) {
            return None;
        }
        let until = (self.put + self.since as u64).saturating_sub(RING as u64 / 2);
        Some(Behind { gauge: Arc::clone(&self.gauge), until })
    }

    /// Has all in the ring that was set aside, for who waits for the thread then.
    pub fn settle(&mut self) {
        while !self.aside.is_empty() && !self.is_over {
            self.wait_for_room();
        }
    }

    #[cold]
    fn put_behind(&mut self, record: Record) {
        if self.is_over {
            return;
        }
        self.aside.push_back(record);
        // Not for every single one: the thread has to have taken some first.
        if self.aside.len().is_multiple_of(DRAIN_EVERY) {
            self.drain();
        }
        if self.aside.len() >= MOST_ASIDE {
            self.wait_for_room();
        }
    }

    /// Puts into the ring what there is room for.
    fn drain(&mut self) {
        while let Some(record) = self.aside.pop_front() {
            if let Err(PushError::Full(record)) = self.ring.push(record) {
                self.aside.push_front(record);
                return;
            }
        }
    }

    /// Waits until something that was set aside is in the ring; gives the recording up when nothing moves.
    fn wait_for_room(&mut self) {
        let (before, since) = (self.aside.len(), Instant::now());
        while self.aside.len() == before && !self.is_over {
            if self.ring.is_abandoned() {
                self.give_up("the thread that writes it is gone");
            } else if since.elapsed() > PATIENCE {
                self.give_up("the disk has taken nothing for 10 s");
            } else {
                self.wake();
                thread::sleep(WAIT);
                self.drain();
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        self.gauge.fail(format!("the recording ends here: {why}"));
        self.is_over = true;
        self.aside = VecDeque::new();
    }
}

/// The end that the thread has.
#[derive(Debug)]
pub(super) struct Inlet {
    ring: Consumer<Record>,
    parcels: Receiver<Parcel>,
    taken: u64,
    pub gauge: Arc<Gauge>,
}

impl Inlet {
    /// What is next, if something is.
    #[inline]
    pub fn take(&mut self) -> Option<Record> {
        let record = self.ring.pop().ok();
        self.taken += u64::from(record.is_some());
        if record.is_none() || self.taken.is_multiple_of(1 << 10) {
            self.gauge.taken.store(self.taken, Ordering::Relaxed);
        }
        record
    }

    /// The parcel of a record that says that there is one.
    pub fn parcel(&self) -> Option<Parcel> {
        self.parcels.try_recv().ok()
    }

    /// Nobody will put anything in any more.
    pub fn is_over(&self) -> bool {
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody waits while there is room aside, nothing is lost, and nothing overtakes.
    #[test]
    fn what_the_ring_has_no_room_for_is_set_aside() {
        let (mut outlet, mut inlet) = queue();
        let count = (RING + MOST_ASIDE / 2) as u64;
        for time in 0..count {
            outlet.put(Record::Time(time));
        }
        assert!(outlet.behind().is_some());
        let mut expected = 0;
        while expected < count {
            while let Some(record) = inlet.take() {
                assert_eq!(record, Record::Time(expected));
                expected += 1;
            }
            outlet.wake();
        }
        assert!(outlet.aside.is_empty() && outlet.behind().is_none());
    }

    /// Where nobody takes anything out any more, the recording is given up, and that is said.
    #[test]
    fn a_thread_that_is_gone_is_not_waited_for() {
        let (mut outlet, inlet) = queue();
        drop(inlet);
        for time in 0..2 * (RING + MOST_ASIDE) as u64 {
            outlet.put(Record::Time(time));
        }
        assert!(outlet.is_over && outlet.aside.is_empty());
        assert!(outlet.gauge.failure().is_some_and(|why| why.contains("is gone")));
    }
}
