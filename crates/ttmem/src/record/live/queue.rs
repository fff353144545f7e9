//! The way from the program to the thread that writes: a ring of small records, and beside it a channel for what is
//! rare and large.
//!
//! There is one who puts in and one who takes out, and neither waits for a lock. Who puts in waits only where the ring is
//! full: nothing is lost.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread::{self, Thread};
use std::time::Duration;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::model::{
    CallId, Class, Event, LaneId, Nanoseconds, OpId, Outcome, PoolId, Reading, ScopeId, StrId, TensorId,
    TypeId,
};

/// How many records wait for the thread, at most.
const RING: usize = 1 << 15;
/// The thread is woken when this many have come.
const WAKE_EVERY: usize = RING / 4;
/// How long who puts in waits for a place, before it looks again.
const WAIT: Duration = Duration::from_micros(50);

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// What comes next in the channel belongs here.
    Parcel,
    /// The time of what follows.
    Time(Nanoseconds),
    /// The call that what follows belongs to.
    Within(Option<CallId>),
    /// The next tensor is there.
    Allocated { pool: PoolId, bytes: u64, op: OpId, ty: Option<TypeId>, class: Class },
    /// A tensor is gone.
    Freed { tensor: TensorId, pool: PoolId, bytes: u64 },
    /// What a tensor turned out to be.
    Classified { tensor: TensorId, class: Class, name: Option<StrId> },
    /// The next call begins.
    Entered { scope: ScopeId, lane: LaneId, parent: Option<CallId>, op: Option<OpId>, began: Nanoseconds },
    /// A call ends.
    Returned(CallId, Outcome),
    /// Somebody wants to look at this moment.
    Snapshot { name: Option<StrId>, time: Nanoseconds },
}

/// What is too large or too rare for the ring.
#[derive(Debug)]
pub(super) enum Parcel {
    /// An event that is written as it is.
    Event(Event<'static>),
    /// The next pool, by its name; whether it is empty now, or not known.
    Pool { name: StrId, is_empty: bool },
    /// What a pool was seen to have; at a step of its own, if there is an operation.
    Reading(PoolId, Reading, Option<OpId>),
    /// Everything up to here shall be in the file; then the word is passed on.
    Flush(SyncSender<()>),
    /// The recording ends.
    Finish,
}

/// A new queue, both ends.
pub(super) fn queue() -> (Outlet, Inlet) {
    let (put, take) = RingBuffer::new(RING);
    let (send, receive) = channel();
    (Outlet { ring: put, parcels: send, since: 0, thread: None }, Inlet { ring: take, parcels: receive })
}

/// The end that the program has.
#[derive(Debug)]
pub(super) struct Outlet {
    ring: Producer<Record>,
    parcels: Sender<Parcel>,
    /// How many were put in since the thread was woken.
    since: usize,
    thread: Option<Thread>,
}

impl Outlet {
    /// Whom to wake when there is something to do.
    pub fn wakes(&mut self, thread: Thread) {
        self.thread = Some(thread);
    }

    #[inline]
    pub fn put(&mut self, record: Record) {
        if let Err(PushError::Full(record)) = self.ring.push(record) {
            self.wait_and_put(record);
        }
        self.since += 1;
        if self.since >= WAKE_EVERY {
            self.wake();
        }
    }

    pub fn send(&mut self, parcel: Parcel) {
        // The thread takes parcels until it is told to finish, and the outlet goes then.
        let _ = self.parcels.send(parcel);
        self.put(Record::Parcel);
    }

    pub fn wake(&mut self) {
        self.since = 0;
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    #[cold]
    fn wait_and_put(&mut self, mut record: Record) {
        loop {
            if self.ring.is_abandoned() {
                return;
            }
            self.wake();
            thread::sleep(WAIT);
            match self.ring.push(record) {
                Ok(()) => return,
                Err(PushError::Full(again)) => record = again,
            }
        }
    }
}

/// The end that the thread has.
#[derive(Debug)]
pub(super) struct Inlet {
    ring: Consumer<Record>,
    parcels: Receiver<Parcel>,
}

impl Inlet {
    /// What is next, if something is.
    pub fn take(&mut self) -> Option<Record> {
        self.ring.pop().ok()
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
