//! The queue from the program to the writer thread: rings of small records, and a channel for rare or large messages.
//!
//! There is one producer and one consumer; neither takes a lock. The producer does not wait for the disk either: when a
//! ring is full, it continues in another, up to a limit. At that limit it waits, because a recording must not have
//! gaps. If the consumer takes nothing for [`TIMEOUT`], the recording ends: the reason is kept, and the lost records
//! are counted. A program that prefers to wait without holding a lock uses [`Producer::backlog`].

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rtrb::{PushError, RingBuffer};

/// The size of a ring. A program that the disk keeps up with uses only one.
const RING_BYTES: usize = 2 << 20;
/// The maximum number of rings.
const MAX_RINGS: u64 = 8;
/// The consumer is woken after this many records.
const WAKE_EVERY: usize = 1 << 13;
/// How long a waiting producer sleeps between checks. The consumer needs longer than that to empty a ring.
const WAIT: Duration = Duration::from_micros(500);
/// The maximum number of entries that the consumer takes at once: each access to the ring also slows the producer.
const BATCH: usize = 1 << 10;
/// If the consumer takes nothing for this long, the recording ends.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 10_000 });

/// A slot of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<R> {
    /// A record.
    Record(R),
    /// The position of the channel's next message among the records.
    Message,
}

/// An item of the channel.
#[derive(Debug)]
pub(super) enum Message<M> {
    /// A message from the recorder.
    Content(M),
    /// A request to write everything before it to the file, and to confirm that.
    Flush(SyncSender<()>),
    /// The end of the recording.
    Finish,
}

/// The shared state of producer and consumer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The number of entries that the consumer has taken, and of rings that it has emptied.
    taken: AtomicU64,
    rings_left: AtomicU64,
    lost: AtomicU64,
    failure: OnceLock<String>,
}

impl Progress {
    /// Why the recording ended early.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Ends the recording early. Only the first reason is kept.
    pub fn fail(&self, why: impl std::fmt::Display) {
        self.failure.get_or_init(|| format!("the recording stopped: {why}"));
    }

    /// The number of records since the recording ended early.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Detects that the consumer has stopped taking entries.
#[derive(Debug)]
pub(super) struct StallDetector {
    progress: Arc<Progress>,
    taken: u64,
    since: Instant,
}

impl StallDetector {
    pub fn new(progress: &Arc<Progress>) -> Self {
        Self { progress: Arc::clone(progress), taken: progress.taken(), since: Instant::now() }
    }

    /// Whether nothing was taken for [`TIMEOUT`]. Must be called repeatedly.
    pub fn is_stalled(&mut self) -> bool {
        let taken = self.progress.taken();
        if taken != self.taken {
            (self.taken, self.since) = (taken, Instant::now());
        }
        self.since.elapsed() > TIMEOUT
    }
}

/// Entries that the disk has not kept up with. The program may wait for them.
#[derive(Debug)]
pub struct Backlog {
    progress: Arc<Progress>,
    until: u64,
}

impl Backlog {
    /// Waits until the queue has room again. Also returns if the disk accepts no data.
    pub fn wait(&self) {
        let mut stall = StallDetector::new(&self.progress);
        let is_waiting = || self.progress.taken() < self.until && self.progress.failure().is_none();
        while is_waiting() && !stall.is_stalled() {
            thread::sleep(WAIT);
        }
    }
}

/// Creates a queue of records `R` and messages `M`. Returns both ends.
pub(super) fn queue<R, M>() -> (Producer<R, M>, Consumer<R, M>) {
    let (ring, first) = new_ring();
    let (rings, next_rings) = channel();
    let (messages, receiver) = channel();
    let progress = Arc::new(Progress::default());
    let producer = Producer {
        ring,
        rings,
        rings_begun: 1,
        messages,
        since_wake: 0,
        put: 0,
        has_backlog: false,
        is_over: false,
        process: std::process::id(),
        consumer: None,
        progress: Arc::clone(&progress),
    };
    (producer, Consumer { ring: first, next_rings, messages: receiver, taken: 0, progress })
}

fn new_ring<R>() -> (rtrb::Producer<Entry<R>>, rtrb::Consumer<Entry<R>>) {
    RingBuffer::new(RING_BYTES / size_of::<Entry<R>>().max(1))
}

/// The program's end of the queue.
#[derive(Debug)]
pub(super) struct Producer<R, M> {
    ring: rtrb::Producer<Entry<R>>,
    /// Passes the other ends of further rings to the consumer.
    rings: Sender<rtrb::Consumer<Entry<R>>>,
    rings_begun: u64,
    messages: Sender<Message<M>>,
    /// The number of entries since the consumer was last woken, and before that.
    since_wake: usize,
    put: u64,
    /// Whether the consumer had a backlog when it was last woken.
    has_backlog: bool,
    /// Whether the recording ended early.
    is_over: bool,
    /// The process with the consumer. A child after `fork` has none.
    process: u32,
    consumer: Option<Thread>,
    pub progress: Arc<Progress>,
}

impl<R, M> Producer<R, M> {
    /// Sets the thread to wake.
    pub fn set_consumer(&mut self, consumer: Thread) {
        self.consumer = Some(consumer);
    }

    #[inline]
    pub fn put(&mut self, record: R) {
        self.push(Entry::Record(record));
    }

    pub fn send(&mut self, message: Message<M>) {
        if self.is_over {
            self.progress.lose(u64::from(matches!(message, Message::Content(_))));
            return;
        }
        // Fails only if the consumer has ended, which is noticed when the rings are full.
        let _ = self.messages.send(message);
        self.push(Entry::Message);
    }

    #[inline]
    fn push(&mut self, entry: Entry<R>) {
        if let Err(PushError::Full(entry)) = self.ring.push(entry) {
            self.push_into_next(entry);
        }
        self.since_wake += 1;
        if self.since_wake >= WAKE_EVERY {
            self.wake();
        }
    }

    pub fn wake(&mut self) {
        self.put += self.since_wake as u64;
        self.since_wake = 0;
        self.has_backlog = self.rings_in_use() > 1 || self.ring.slots() < WAKE_EVERY;
        if let Some(consumer) = &self.consumer {
            consumer.unpark();
        }
    }

    /// Returns a backlog to wait for if the disk does not keep up with the program.
    #[inline]
    pub fn backlog(&mut self) -> Option<Backlog> {
        if !std::mem::take(&mut self.has_backlog) {
            return None;
        }
        let half = self.ring.buffer().capacity() as u64 / 2;
        let until = (self.put + self.since_wake as u64).saturating_sub(half);
        Some(Backlog { progress: Arc::clone(&self.progress), until })
    }

    fn rings_in_use(&self) -> u64 {
        self.rings_begun - self.progress.rings_left.load(Ordering::Relaxed)
    }

    /// Continues in another ring, or waits for the consumer if there are too many. Ends the recording if the consumer
    /// takes nothing.
    #[cold]
    fn push_into_next(&mut self, mut entry: Entry<R>) {
        let mut stall = StallDetector::new(&self.progress);
        while !self.is_over {
            if self.ring.is_abandoned() {
                self.give_up("the writer thread has ended");
            } else if self.process != std::process::id() {
                self.give_up("it belongs to the parent process of this fork");
            } else if self.rings_in_use() < MAX_RINGS {
                self.begin_ring();
            } else if stall.is_stalled() {
                self.give_up(&format!("the disk accepted no data for {} s", TIMEOUT.as_secs()));
            } else {
                self.wake();
                thread::sleep(WAIT);
            }
            match self.ring.push(entry) {
                Ok(()) => return,
                Err(PushError::Full(full)) => entry = full,
            }
        }
        self.progress.lose(1);
    }

    fn begin_ring(&mut self) {
        let (producer, consumer) = new_ring();
        // Fails only if the consumer has ended. Sent before the old ring is dropped, which tells the consumer to
        // continue.
        let _ = self.rings.send(consumer);
        self.ring = producer;
        self.rings_begun += 1;
    }

    /// Ends the recording here, even if the disk recovers: records after a gap would be assigned to the wrong tensors.
    /// A ring without slots accepts nothing, so further records need no additional check.
    fn give_up(&mut self, why: &str) {
        self.progress.fail(why);
        self.is_over = true;
        self.ring = RingBuffer::new(0).0;
    }
}

/// The writer thread's end of the queue.
#[derive(Debug)]
pub(super) struct Consumer<R, M> {
    ring: rtrb::Consumer<Entry<R>>,
    next_rings: Receiver<rtrb::Consumer<Entry<R>>>,
    messages: Receiver<Message<M>>,
    taken: u64,
    pub progress: Arc<Progress>,
}

impl<R: Copy, M> Consumer<R, M> {
    /// Replaces a batch with the next entries. Returns `false` if there are none and the producer has ended.
    pub fn take(&mut self, batch: &mut Vec<Entry<R>>) -> bool {
        batch.clear();
        loop {
            let is_left = self.ring.is_abandoned();
            if is_left {
                // Makes all entries of this ring visible below: `is_abandoned` does not synchronize.
                fence(Ordering::Acquire);
            }
            // Fails only if there are fewer entries.
            if let Ok(chunk) = self.ring.read_chunk(self.ring.slots().min(BATCH)) {
                let (first, second) = chunk.as_slices();
                batch.extend_from_slice(first);
                batch.extend_from_slice(second);
                chunk.commit_all();
            }
            if !batch.is_empty() || !is_left {
                self.taken += batch.len() as u64;
                self.progress.taken.store(self.taken, Ordering::Relaxed);
                return true;
            }
            let Ok(next) = self.next_rings.try_recv() else { return false };
            self.ring = next;
            self.progress.rings_left.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The message at the position that was taken.
    pub fn message(&self) -> Option<Message<M>> {
        self.messages.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = RING_BYTES / size_of::<Entry<u64>>();

    /// The producer does not wait while it may start a ring; nothing is lost or reordered.
    #[test]
    fn a_full_ring_is_followed_by_another() {
        let (mut producer, mut consumer) = queue::<u64, ()>();
        let count = RING as u64 * MAX_RINGS - 1;
        (0..count).for_each(|number| producer.put(number));
        assert_eq!(producer.rings_in_use(), MAX_RINGS);
        assert!(producer.backlog().is_some());
        let (mut batch, mut expected) = (Vec::new(), 0);
        while expected < count {
            assert!(consumer.take(&mut batch));
            for entry in &batch {
                assert_eq!(*entry, Entry::Record(expected));
                expected += 1;
            }
        }
        producer.wake();
        assert!(producer.backlog().is_none());
        assert_eq!((producer.rings_in_use(), producer.progress.lost()), (1, 0));
        drop(producer);
        assert!(!consumer.take(&mut batch) && batch.is_empty());
    }

    /// Messages arrive at their position among the records.
    #[test]
    fn messages_keep_their_place_among_records() {
        let (mut producer, mut consumer) = queue::<u64, u64>();
        for number in 0..3 * RING as u64 / 2 {
            producer.put(number);
            if number.is_multiple_of(1000) {
                producer.send(Message::Content(number));
            }
        }
        let (mut batch, mut last) = (Vec::new(), None);
        drop(producer);
        while consumer.take(&mut batch) {
            for entry in &batch {
                match entry {
                    Entry::Record(number) => last = Some(*number),
                    Entry::Message => {
                        let Some(Message::Content(number)) = consumer.message() else { panic!("no message") };
                        assert_eq!(Some(number), last);
                    }
                }
            }
        }
        assert_eq!(last, Some(3 * RING as u64 / 2 - 1));
        assert!(consumer.message().is_none());
    }

    /// A stalled consumer ends the recording for good: what follows when it works again would come after a gap.
    #[test]
    fn nothing_is_taken_after_a_gap() {
        let (mut producer, mut consumer) = queue::<u64, ()>();
        let fits = RING as u64 * MAX_RINGS;
        (0..fits + 10).for_each(|number| producer.put(number));
        assert!(producer.progress.failure().is_some_and(|why| why.contains("accepted no data")));
        let (mut batch, mut expected) = (Vec::new(), 0);
        while consumer.take(&mut batch) {
            for entry in &batch {
                assert_eq!(*entry, Entry::Record(expected));
                expected += 1;
            }
            producer.put(0);
        }
        assert_eq!(expected, fits);
        assert!(producer.progress.lost() > 10);
    }

    /// If the consumer has ended, the recording ends; the reason and the number of lost records are known.
    #[test]
    fn a_thread_that_is_gone_is_not_waited_for() {
        let (mut producer, consumer) = queue::<u64, ()>();
        drop(consumer);
        (0..3 * RING as u64).for_each(|number| producer.put(number));
        assert!(producer.is_over);
        assert!(producer.progress.failure().is_some_and(|why| why.contains("has ended")));
        assert_eq!(producer.progress.lost(), 2 * RING as u64);
    }
}
