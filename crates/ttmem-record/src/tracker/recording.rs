//! A recording while it is made: what happened goes in batches to a thread of its own, which writes it.
//!
//! The threads that allocate pay for leaving a small record behind; encoding, compressing and writing is done beside
//! them. The queue is bounded: who allocates faster than can be written waits. What was left behind is in the file after
//! every phase, and otherwise about a second later, so that little is lost when the program is killed.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::account::Account;
use super::narrator::Narrator;
use super::record::Record;
use crate::replace;
use ttmem_model::Segment;
use ttmem_model::frame::Writer;
use ttmem_model::{Error, Result};

/// How many records make a batch.
const BATCH: usize = 4096;
/// How many messages wait for the thread, at most.
const QUEUE: usize = 64;
/// What was left behind is written after this time, at the latest.
const FLUSH_EVERY: Duration = Duration::from_millis(800);
/// After this time it is looked again whether an account is free that was busy.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Texts beyond this many are not kept apart: they would fill the memory of a program that makes them up.
const MOST_TEXTS: usize = 4096;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Message {
    /// What happened, in order.
    Batch(Vec<Record>),
    /// A text that records name by its number.
    Text(Box<str>),
    /// A session begins; what was there before is of no interest any more.
    Session { estimated: bool, forgotten: Vec<u32> },
    /// A phase ends.
    Phase { name: Box<str>, segment: Segment },
    /// The capture ends.
    Ended,
    /// What people should know.
    Warning(String),
    /// Everything up to here shall be in the file; then the word is passed on.
    Flush(SyncSender<()>),
    /// The recording ends.
    Finish,
}

/// The end of the queue that the account holds.
#[derive(Debug)]
pub(super) struct Outlet {
    queue: SyncSender<Message>,
    batch: Vec<Record>,
    /// Batches that were written, to be used again.
    spare: Receiver<Vec<Record>>,
    texts: FxHashMap<Box<str>, u32>,
}

impl Outlet {
    pub fn tell(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Says something that comes after all that happened so far.
    pub fn say(&mut self, message: Message) {
        self.hand_over();
        self.send(message);
    }

    /// The number of a text; `None` where there are too many.
    pub fn text(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.texts.get(text) {
            return Some(*number);
        }
        let number = u32::try_from(self.texts.len()).ok().filter(|_| self.texts.len() < MOST_TEXTS)?;
        self.texts.insert(text.into(), number);
        self.say(Message::Text(text.into()));
        Some(number)
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            let next = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            let full = std::mem::replace(&mut self.batch, next);
            self.send(Message::Batch(full));
        }
    }

    fn send(&self, message: Message) {
        // The thread takes messages until it is told to finish, and the outlet goes then.
        let _ = self.queue.send(message);
    }
}

/// A recording that is being made.
#[derive(Debug)]
pub(super) struct Recording {
    thread: JoinHandle<Result<()>>,
}

impl Recording {
    /// Begins a recording of what an account will be told through the outlet.
    pub fn begin(path: &Path, account: &Arc<Mutex<Account>>) -> Result<(Self, Outlet)> {
        let writer = Writer::create(replace::create(path)?, path)?.quick()?;
        let mut narrator = Narrator::new(writer, &path.display().to_string())?;
        narrator.flush()?;
        let (queue, messages) = sync_channel(QUEUE);
        let (used, spare) = sync_channel(QUEUE);
        let account = Arc::clone(account);
        let (flushed, behind, failed) = (Instant::now(), false, None);
        let mut scribe = Scribe { account, messages, used, narrator, flushed, behind, failed };
        let thread = thread::Builder::new()
            .name("ttmem-recording".into())
            .spawn(move || scribe.work())
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        let texts = FxHashMap::default();
        Ok((Self { thread }, Outlet { queue, batch: Vec::with_capacity(BATCH), spare, texts }))
    }

    /// Waits until all that an account was told is in the file. The account must not be locked.
    pub fn flush(account: &Mutex<Account>) {
        let (done, wait) = sync_channel(1);
        let mut locked = super::lock(account);
        if let Some(outlet) = &mut locked.outlet {
            outlet.say(Message::Flush(done));
            drop(locked);
            // An error here is a thread that is gone: `finish` says why.
            let _ = wait.recv();
        }
    }

    /// Writes what is left, and the end.
    pub fn finish(self, outlet: Option<Outlet>) -> Result<()> {
        if let Some(mut outlet) = outlet {
            outlet.say(Message::Finish);
        }
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Bug("the thread of a recording has panicked".into())))
    }
}

/// What runs in the thread.
struct Scribe {
    account: Arc<Mutex<Account>>,
    messages: Receiver<Message>,
    used: SyncSender<Vec<Record>>,
    narrator: Narrator<File>,
    flushed: Instant,
    /// Something was said since the last flush.
    behind: bool,
    /// The first thing that went wrong: nothing is written behind it, but messages are still taken.
    failed: Option<Error>,
}

impl Scribe {
    fn work(&mut self) -> Result<()> {
        let mut patience = FLUSH_EVERY;
        loop {
            let heard = match self.messages.recv_timeout(patience) {
                Ok(message) => self.hear(message),
                Err(RecvTimeoutError::Timeout) => self.fetch(),
                Err(RecvTimeoutError::Disconnected) => Heard::End,
            };
            patience = match heard {
                Heard::End => break,
                Heard::Busy => LOOK_AGAIN,
                Heard::Done => FLUSH_EVERY.saturating_sub(self.flushed.elapsed()).max(LOOK_AGAIN),
            };
            if self.behind && self.flushed.elapsed() >= FLUSH_EVERY {
                self.flush();
            }
        }
        match self.failed.take() {
            None => self.narrator.finish(),
            Some(failed) => Err(failed),
        }
    }

    fn hear(&mut self, message: Message) -> Heard {
        let result = match message {
            Message::Finish => return Heard::End,
            Message::Flush(done) => {
                self.flush();
                // Nobody waits any more: that is fine.
                let _ = done.send(());
                return Heard::Done;
            }
            _ if self.failed.is_some() => Ok(()),
            Message::Batch(mut batch) => {
                let told = self.narrator.tell(&batch);
                batch.clear();
                // Enough are spare.
                let _ = self.used.try_send(batch);
                told
            }
            Message::Text(text) => self.narrator.text_of_records(&text),
            Message::Session { estimated, forgotten } => self.narrator.begin_session(estimated, &forgotten),
            Message::Phase { name, segment } => self.narrator.end_phase(&name, &segment),
            Message::Ended => self.narrator.end_session(),
            Message::Warning(message) => self.narrator.warn(message),
        };
        self.behind = true;
        self.note(result);
        Heard::Done
    }

    /// Takes what waits in the account for its batch to be full, and writes it.
    fn fetch(&mut self) -> Heard {
        // Never waits for the account: its holder may be waiting for a place in the queue.
        let account = Arc::clone(&self.account);
        let mut account = match account.try_lock() {
            Ok(account) => account,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Heard::Busy,
        };
        let waiting = account.outlet.as_mut().map(|outlet| std::mem::take(&mut outlet.batch));
        // What was sent before the account was locked comes first.
        let mut sent = Vec::new();
        let is_open = loop {
            match self.messages.try_recv() {
                Ok(message) => sent.push(message),
                Err(TryRecvError::Empty) => break true,
                Err(TryRecvError::Disconnected) => break false,
            }
        };
        drop(account);
        for message in sent {
            if let Heard::End = self.hear(message) {
                return Heard::End;
            }
        }
        if let Some(batch) = waiting.filter(|batch| !batch.is_empty()) {
            self.hear(Message::Batch(batch));
        }
        if self.behind {
            self.flush();
        }
        if is_open { Heard::Done } else { Heard::End }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            let result = self.narrator.flush();
            self.note(result);
        }
        (self.flushed, self.behind) = (Instant::now(), false);
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

/// What came of looking for something to do.
enum Heard {
    Done,
    /// The account was in use.
    Busy,
    End,
}
