//! The queue from the program to the writer thread: a ring of small records, and a channel for what is rare or large.
//!
//! There is one producer and one consumer; neither takes a lock. The producer does not wait for the disk either: records
//! that do not fit into the ring are set aside, up to a limit. Beyond that limit it waits, because a recording must not
//! have gaps. If the consumer takes nothing for [`TIMEOUT`], the recording ends there: the reason is kept, and the records
//! that are lost are counted. A program that prefers to wait where it holds no lock asks [`Producer::behind`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rtrb::{PushError, RingBuffer};

/// The size of the ring.
const RING_BYTES: usize = 2 << 20;
/// The consumer is woken after this many records.
const WAKE_EVERY: usize = 1 << 13;
/// The maximum number of records set aside while the ring is full.
const MAX_ASIDE: usize = 1 << 18;
/// How many records are set aside between two attempts to move them into the ring.
const DRAIN_EVERY: usize = 128;
/// How long a waiting producer sleeps before it looks again. The consumer needs longer than that to empty the ring.
const WAIT: Duration = Duration::from_micros(500);
/// How many entries the consumer takes at once: each access to the ring costs the producer time as well.
const BATCH: usize = 1 << 10;
/// A consumer that takes nothing for this long is given up.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A slot of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<R> {
    /// A record.
    Record(R),
    /// The place of the next message of the channel among the records.
    Message,
}

/// What goes through the channel.
#[derive(Debug)]
pub(super) enum Message<M> {
    /// A message of the recorder.
    Content(M),
    /// A request to write everything before it to the file, and to confirm that.
    Flush(SyncSender<()>),
    /// The end of the recording.
    Finish,
}

/// What producer and consumer know about each other.
#[derive(Debug, Default)]
pub(super) struct Progress {
    taken: AtomicU64,
    lost: AtomicU64,
    failure: OnceLock<String>,
}

impl Progress {
    /// Why the recording has ended early.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Ends the recording early. The first reason counts.
    pub fn fail(&self, why: impl std::fmt::Display) {
        self.failure.get_or_init(|| format!("the recording ends here: {why}"));
    }

    /// How many records came after the recording had ended early.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }
}

/// A program that is far ahead of the disk, and may wait for it.
#[derive(Debug)]
pub struct Behind {
    progress: Arc<Progress>,
    until: u64,
}

impl Behind {
    /// Waits until the queue has room again. Returns as well if the disk takes nothing.
    pub fn wait(&self) {
        let (mut taken, mut since) = (0, Instant::now());
        loop {
            let now = self.progress.taken.load(Ordering::Relaxed);
            if now >= self.until || self.progress.failure().is_some() || since.elapsed() > TIMEOUT {
                return;
            }
            if now != taken {
                (taken, since) = (now, Instant::now());
            }
            thread::sleep(WAIT);
        }
    }
}

/// Returns both ends of a new queue of records `R` and messages `M`.
pub(super) fn queue<R, M>() -> (Producer<R, M>, Consumer<R, M>) {
    let (producer, consumer) = RingBuffer::new(RING_BYTES / size_of::<Entry<R>>().max(1));
    let (sender, receiver) = channel();
    let progress = Arc::new(Progress::default());
    let producer = Producer {
        ring: producer,
        aside: VecDeque::new(),
        messages: sender,
        since_wake: 0,
        put: 0,
        is_behind: false,
        is_over: false,
        consumer: None,
        progress: Arc::clone(&progress),
    };
    (producer, Consumer { ring: consumer, messages: receiver, taken: 0, progress })
}

/// The program's end of the queue.
#[derive(Debug)]
pub(super) struct Producer<R, M> {
    ring: rtrb::Producer<Entry<R>>,
    /// Records that the ring had no room for, in order. Later records must not overtake them.
    aside: VecDeque<Entry<R>>,
    messages: Sender<Message<M>>,
    /// How many records were put in since the consumer was last woken, and before that.
    since_wake: usize,
    put: u64,
    /// Most of the ring was in use when the consumer was last woken.
    is_behind: bool,
    /// The recording has ended early.
    is_over: bool,
    consumer: Option<Thread>,
    pub progress: Arc<Progress>,
}

impl<R, M> Producer<R, M> {
    /// Sets the thread that is woken when there is something to do.
    pub fn wakes(&mut self, consumer: Thread) {
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
        // Fails only if the consumer is gone, which is noticed when the ring is full.
        let _ = self.messages.send(message);
        self.push(Entry::Message);
    }

    #[inline]
    fn push(&mut self, entry: Entry<R>) {
        if !self.aside.is_empty() || self.is_over {
            self.set_aside(entry);
        } else if let Err(PushError::Full(entry)) = self.ring.push(entry) {
            self.set_aside(entry);
        }
        self.since_wake += 1;
        if self.since_wake >= WAKE_EVERY {
            self.wake();
        }
    }

    pub fn wake(&mut self) {
        self.put += self.since_wake as u64;
        self.since_wake = 0;
        self.drain();
        self.is_behind = !self.aside.is_empty() || self.ring.slots() < WAKE_EVERY;
        if let Some(consumer) = &self.consumer {
            consumer.unpark();
        }
    }

    /// Returns something to wait for if the program is far ahead of the disk.
    #[inline]
    pub fn behind(&mut self) -> Option<Behind> {
        if !std::mem::take(&mut self.is_behind) {
            return None;
        }
        let half = self.ring.buffer().capacity() as u64 / 2;
        let until = (self.put + self.since_wake as u64).saturating_sub(half);
        Some(Behind { progress: Arc::clone(&self.progress), until })
    }

    /// Moves everything that was set aside into the ring, and wakes the consumer.
    pub fn settle(&mut self) {
        while !self.aside.is_empty() && !self.is_over {
            self.wait_for_room();
        }
        self.wake();
    }

    #[cold]
    fn set_aside(&mut self, entry: Entry<R>) {
        if self.is_over {
            self.progress.lose(1);
            return;
        }
        self.aside.push_back(entry);
        // The consumer needs time to take some: trying for every record would be expensive.
        if self.aside.len().is_multiple_of(DRAIN_EVERY) {
            self.drain();
        }
        if self.aside.len() >= MAX_ASIDE {
            self.wait_for_room();
        }
    }

    /// Moves as much into the ring as fits.
    fn drain(&mut self) {
        while let Some(entry) = self.aside.pop_front() {
            if let Err(PushError::Full(entry)) = self.ring.push(entry) {
                self.aside.push_front(entry);
                return;
            }
        }
    }

    /// Waits until something that was set aside is in the ring. Ends the recording if that takes too long.
    fn wait_for_room(&mut self) {
        let (before, since) = (self.aside.len(), Instant::now());
        while self.aside.len() == before && !self.is_over {
            if self.ring.is_abandoned() {
                self.give_up("the thread that writes it is gone");
            } else if since.elapsed() > TIMEOUT {
                self.give_up("the disk has taken nothing for 10 s");
            } else {
                self.wake();
                thread::sleep(WAIT);
                self.drain();
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        self.progress.fail(why);
        self.progress.lose(self.aside.len() as u64);
        self.is_over = true;
        self.aside = VecDeque::new();
    }
}

/// The writer thread's end of the queue.
#[derive(Debug)]
pub(super) struct Consumer<R, M> {
    ring: rtrb::Consumer<Entry<R>>,
    messages: Receiver<Message<M>>,
    taken: u64,
    pub progress: Arc<Progress>,
}

impl<R: Copy, M> Consumer<R, M> {
    /// Replaces a batch by the next entries. It is empty if there are none.
    pub fn take(&mut self, batch: &mut Vec<Entry<R>>) {
        batch.clear();
        // Fails only if there are fewer entries than that.
        if let Ok(chunk) = self.ring.read_chunk(self.ring.slots().min(BATCH)) {
            let (first, second) = chunk.as_slices();
            batch.extend_from_slice(first);
            batch.extend_from_slice(second);
            chunk.commit_all();
        }
        self.taken += batch.len() as u64;
        self.progress.taken.store(self.taken, Ordering::Relaxed);
    }

    /// The message whose place was taken.
    pub fn message(&self) -> Option<Message<M>> {
        self.messages.try_recv().ok()
    }

    /// The queue is empty, and the producer is gone.
    pub fn is_over(&self) -> bool {
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = RING_BYTES / size_of::<Entry<u64>>();

    /// The producer does not wait while there is room aside; nothing is lost, and nothing overtakes.
    #[test]
    fn what_the_ring_has_no_room_for_is_set_aside() {
        let (mut producer, mut consumer) = queue::<u64, ()>();
        let count = (RING + MAX_ASIDE / 2) as u64;
        for number in 0..count {
            producer.put(number);
        }
        assert!(producer.behind().is_some());
        let (mut batch, mut expected) = (Vec::new(), 0);
        while expected < count {
            consumer.take(&mut batch);
            for entry in &batch {
                assert_eq!(*entry, Entry::Record(expected));
                expected += 1;
            }
            producer.wake();
        }
        assert!(producer.aside.is_empty() && producer.behind().is_none());
        assert_eq!((producer.progress.lost(), producer.progress.failure()), (0, None));
    }

    /// Messages arrive at their place among the records.
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
        loop {
            producer.wake();
            consumer.take(&mut batch);
            if batch.is_empty() {
                break;
            }
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

    /// If nobody takes anything any more, the recording is given up; the reason and the number of lost records are known.
    #[test]
    fn a_thread_that_is_gone_is_not_waited_for() {
        let (mut producer, consumer) = queue::<u64, ()>();
        drop(consumer);
        let count = 2 * (RING + MAX_ASIDE);
        for number in 0..count as u64 {
            producer.put(number);
        }
        assert!(producer.is_over && producer.aside.is_empty());
        assert!(producer.progress.failure().is_some_and(|why| why.contains("is gone")));
        assert_eq!(producer.progress.lost(), (count - RING) as u64);
    }
}
