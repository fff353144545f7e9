//! A recording in progress: the recorder's handle, and the thread that writes.
//!
//! The program only pays for putting a small record into the queue. The thread turns records into events, compresses
//! and writes them. Everything is in the file soon after it happened (`RecordSink::FLUSH_INTERVAL`), so a program that
//! is killed loses little. A failed write ends the recording, not the program: the queue is drained without writing,
//! and [`Finishing::wait`] returns the error.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ttmem_model::words::counted_as;
use ttmem_model::{Error, Result};

use super::queue::{Backlog, Consumer, Entry, Message, Producer, Progress, StallDetector, queue};

/// How often a caller that waits for the thread checks whether it is still working.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Turns the records and messages of one kind of recorder into a file.
pub(super) trait RecordSink: Send + 'static {
    /// Frequent events.
    type Record: Copy + Send + 'static;
    /// Rare or large events.
    type Message: Send + 'static;

    /// The maximum time between two flushes while there are events.
    const FLUSH_INTERVAL: Duration;

    fn record(&mut self, record: Self::Record) -> Result<()>;

    fn message(&mut self, message: Self::Message) -> Result<()>;

    fn warn(&mut self, message: String) -> Result<()>;

    /// Writes everything to the file.
    fn flush(&mut self) -> Result<()>;

    /// Writes everything, and marks the file as complete.
    fn finish(&mut self) -> Result<()>;
}

/// The recording of a recorder. By default there is none, and records are dropped.
#[derive(Debug)]
pub(super) struct Recording<R, M> {
    open: Option<Open<R, M>>,
    /// Kept after the recording has finished.
    progress: Option<Arc<Progress>>,
}

#[derive(Debug)]
struct Open<R, M> {
    producer: Producer<R, M>,
    thread: JoinHandle<Result<()>>,
    process: u32,
}

impl<R, M> Default for Recording<R, M> {
    fn default() -> Self {
        Self { open: None, progress: None }
    }
}

impl<R: Send + 'static, M: Send + 'static> Recording<R, M> {
    /// Starts the thread that writes to `sink`. `path` is for error messages.
    pub fn start<S>(path: &Path, sink: S) -> Result<Self>
    where
        S: RecordSink<Record = R, Message = M>,
    {
        let (mut producer, consumer) = queue();
        let writer = Writer { consumer, sink, flushed: Instant::now(), is_unflushed: false, error: None };
        let thread = thread::Builder::new()
            .name("ttmem-recording".into())
            .spawn(move || writer.run())
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        producer.set_consumer(thread.thread().clone());
        let progress = Some(Arc::clone(&producer.progress));
        Ok(Self { open: Some(Open { producer, thread, process: std::process::id() }), progress })
    }

    /// Whether a recording is in progress.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    #[inline]
    pub fn put(&mut self, record: R) {
        if let Some(open) = &mut self.open {
            open.producer.put(record);
        }
    }

    pub fn send(&mut self, message: M) {
        if let Some(open) = &mut self.open {
            open.producer.send(Message::Content(message));
        }
    }

    /// Starts to write everything so far to the file. Lets the caller wait without holding a lock.
    pub fn begin_flush(&mut self) -> Option<Flushing> {
        let producer = &mut self.of_this_process()?.producer;
        let (done, wait) = sync_channel(1);
        producer.send(Message::Flush(done));
        producer.wake();
        Some(Flushing { done: wait, stall: StallDetector::new(&producer.progress) })
    }

    /// Starts to write the remaining records and the end of the file. Lets the caller wait without holding a lock.
    pub fn begin_finish(&mut self) -> Option<Finishing> {
        self.of_this_process()?;
        let Open { mut producer, thread, .. } = self.open.take()?;
        producer.send(Message::Finish);
        producer.wake();
        Some(Finishing { thread, progress: Arc::clone(&producer.progress) })
    }

    /// Writes the remaining records and the end of the file.
    pub fn finish(&mut self) -> Result<()> {
        self.begin_finish().map_or(Ok(()), Finishing::wait)
    }

    /// Returns a backlog to wait for if the disk does not keep up with the program.
    #[inline]
    pub fn backlog(&mut self) -> Option<Backlog> {
        self.open.as_mut().and_then(|open| open.producer.backlog())
    }

    /// Why the recording ended early.
    pub fn failure(&self) -> Option<&str> {
        self.progress.as_ref().and_then(|progress| progress.failure())
    }

    /// The number of records since the recording ended early.
    pub fn lost(&self) -> u64 {
        self.progress.as_ref().map_or(0, |progress| progress.lost())
    }

    /// Leaves the recording to the process that started it: in a child after `fork`, no thread writes.
    pub fn abandon(&mut self) {
        // Not dropped: the child has no thread to detach.
        std::mem::forget(self.open.take());
    }

    fn of_this_process(&mut self) -> Option<&mut Open<R, M>> {
        if self.open.as_ref().is_some_and(|open| open.process != std::process::id()) {
            self.abandon();
        }
        self.open.as_mut()
    }
}

/// A flush in progress.
#[derive(Debug)]
pub struct Flushing {
    done: Receiver<()>,
    stall: StallDetector,
}

impl Flushing {
    /// Waits for the flush, unless the disk accepts no data. If it fails, `Finishing::wait` returns the reason.
    pub fn wait(mut self) {
        while self.done.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout)
            && !self.stall.is_stalled()
        {}
    }
}

/// A recording that is being finished.
#[derive(Debug)]
pub struct Finishing {
    thread: JoinHandle<Result<()>>,
    progress: Arc<Progress>,
}

impl Finishing {
    /// Waits until the file is complete, unless the disk accepts no data. Returns an error if records are missing.
    pub fn wait(self) -> Result<()> {
        let Self { thread, progress } = self;
        let mut stall = StallDetector::new(&progress);
        let mut pause = Duration::from_micros(50);
        while !thread.is_finished() {
            if stall.is_stalled() {
                progress.fail("the disk accepts no data");
                return incomplete(&progress);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(CHECK_EVERY);
        }
        let joined = thread.join();
        joined.unwrap_or_else(|_| Err(Error::Bug("a recording's writer thread panicked".into())))?;
        incomplete(&progress)
    }
}

/// Returns an error if the recording ended early.
fn incomplete(progress: &Progress) -> Result<()> {
    let lost = counted_as(progress.lost(), "record was", "records were");
    progress.failure().map_or(Ok(()), |why| Err(Error::NotFound(format!("{why}; {lost} lost"))))
}

/// The state of the writer thread.
struct Writer<S: RecordSink> {
    consumer: Consumer<S::Record, S::Message>,
    sink: S,
    flushed: Instant,
    /// Whether there are entries since the last flush.
    is_unflushed: bool,
    /// The first error. Nothing is written after it, but the queue is still drained.
    error: Option<Error>,
}

impl<S: RecordSink> Writer<S> {
    fn run(mut self) -> Result<()> {
        let mut batch = Vec::new();
        loop {
            let is_over = !self.consumer.take(&mut batch);
            let is_finished = batch.iter().any(|entry| self.process(*entry));
            if self.is_unflushed && self.flushed.elapsed() >= S::FLUSH_INTERVAL {
                self.flush();
            }
            if is_finished || is_over {
                break;
            }
            if batch.is_empty() {
                thread::park_timeout(S::FLUSH_INTERVAL * 2 / 5);
            }
        }
        self.finish();
        self.error.map_or(Ok(()), Err)
    }

    /// Processes an entry of the queue. Returns whether it is the last one.
    #[inline]
    fn process(&mut self, entry: Entry<S::Record>) -> bool {
        match entry {
            Entry::Record(record) => self.write(|sink| sink.record(record)),
            Entry::Message => match self.consumer.message() {
                Some(Message::Content(message)) => self.write(|sink| sink.message(message)),
                Some(Message::Flush(done)) => {
                    self.flush();
                    // Fails if the caller has stopped waiting.
                    let _ = done.send(());
                }
                Some(Message::Finish) => return true,
                None => self.fail(Error::Bug("a message of a recording is missing".into())),
            },
        }
        false
    }

    #[inline]
    fn write(&mut self, write: impl FnOnce(&mut S) -> Result<()>) {
        if self.error.is_some() {
            self.consumer.progress.lose(1);
            return;
        }
        self.is_unflushed = true;
        if let Err(error) = write(&mut self.sink) {
            self.fail(error);
        }
    }

    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.sink.flush()
        {
            self.fail(error);
        }
        (self.flushed, self.is_unflushed) = (Instant::now(), false);
    }

    fn finish(&mut self) {
        if self.error.is_some() {
            return;
        }
        // The program gave up, but the disk works again. The number of missing records is not known yet.
        let warned = self.consumer.progress.failure().map_or(Ok(()), |why| self.sink.warn(why.to_owned()));
        if let Err(error) = warned.and_then(|()| self.sink.finish()) {
            self.fail(error);
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.consumer.progress.fail(&error);
        self.error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The entries that a sink received.
    #[derive(Debug, Default)]
    struct Got {
        /// Records as numbers, messages as negative numbers.
        entries: Vec<i64>,
        warnings: Vec<String>,
        flushed: usize,
        is_finished: bool,
    }

    /// A sink that keeps everything and fails at a given record. It stalls while a test holds the lock on `disk`.
    #[derive(Debug)]
    struct Memory {
        got: Arc<Mutex<Got>>,
        fails_at: Option<i64>,
        disk: Arc<Mutex<()>>,
    }

    impl RecordSink for Memory {
        type Record = i64;
        type Message = i64;

        const FLUSH_INTERVAL: Duration = Duration::from_millis(5);

        fn record(&mut self, record: i64) -> Result<()> {
            if self.fails_at == Some(record) {
                return Err(Error::NotFound("the disk is full".into()));
            }
            let _works = self.disk.lock().unwrap();
            self.got.lock().unwrap().entries.push(record);
            Ok(())
        }

        fn message(&mut self, message: i64) -> Result<()> {
            self.got.lock().unwrap().entries.push(-message);
            Ok(())
        }

        fn warn(&mut self, message: String) -> Result<()> {
            self.got.lock().unwrap().warnings.push(message);
            Ok(())
        }

        fn flush(&mut self) -> Result<()> {
            let mut got = self.got.lock().unwrap();
            got.flushed = got.entries.len();
            Ok(())
        }

        fn finish(&mut self) -> Result<()> {
            self.got.lock().unwrap().is_finished = true;
            Ok(())
        }
    }

    fn recording(fails_at: Option<i64>) -> (Recording<i64, i64>, Arc<Mutex<Got>>) {
        let got: Arc<Mutex<Got>> = Arc::default();
        let sink = Memory { got: Arc::clone(&got), fails_at, disk: Arc::default() };
        (Recording::start(Path::new("test.ttmem"), sink).unwrap(), got)
    }

    /// A recording that has ended because the disk accepted no data. Returns the number of records.
    fn given_up(disk: &Arc<Mutex<()>>) -> (Recording<i64, i64>, Arc<Mutex<Got>>, u64) {
        let got: Arc<Mutex<Got>> = Arc::default();
        let sink = Memory { got: Arc::clone(&got), fails_at: None, disk: Arc::clone(disk) };
        let mut recording = Recording::start(Path::new("test.ttmem"), sink).unwrap();
        let mut put = 0_i64;
        while recording.failure().is_none() {
            put += 1;
            recording.put(put);
        }
        (recording, got, put.cast_unsigned())
    }

    /// The disk works again later, but records after the gap would be wrong.
    #[test]
    fn a_disk_that_recovers_too_late_gets_nothing_after_the_gap() {
        let disk = Arc::new(Mutex::new(()));
        let stalled = disk.lock().unwrap();
        let (mut recording, got, put) = given_up(&disk);
        drop(stalled);
        (1..=1000).for_each(|number| recording.put(-number));
        recording.send(7);
        let error = recording.finish().unwrap_err().to_string();
        let lost = recording.lost();
        assert_eq!(error, format!("{}; {lost} records were lost", recording.failure().unwrap()));
        let got = got.lock().unwrap();
        assert!(got.entries.iter().zip(1..).all(|(entry, number)| *entry == number));
        assert_eq!(got.entries.len() as u64 + lost, put + 1001);
        assert!(got.is_finished);
        assert_eq!(got.warnings, [recording.failure().unwrap()]);
    }

    /// Neither a flush nor the end of the program waits for a disk that accepts no data.
    #[test]
    fn a_stalled_disk_is_not_waited_for_forever() {
        let disk = Arc::new(Mutex::new(()));
        let stalled = disk.lock().unwrap();
        let (mut recording, _, _) = given_up(&disk);
        recording.begin_flush().unwrap().wait();
        assert!(recording.finish().unwrap_err().to_string().contains(" lost"));
        drop(stalled);

        let disk = Arc::new(Mutex::new(()));
        let _stalled = disk.lock().unwrap();
        let sink = Memory { got: Arc::default(), fails_at: None, disk: Arc::clone(&disk) };
        let mut recording = Recording::start(Path::new("test.ttmem"), sink).unwrap();
        recording.put(1);
        recording.begin_flush().unwrap().wait();
        assert!(recording.finish().unwrap_err().to_string().contains("the disk accepts no data"));
    }

    #[test]
    fn everything_is_written_in_order() {
        let (mut recording, got) = recording(None);
        let mut expected = Vec::new();
        for number in 1..=300_000 {
            recording.put(number);
            expected.push(number);
            if number % 1000 == 0 {
                recording.send(number);
                expected.push(-number);
            }
        }
        recording.begin_flush().unwrap().wait();
        assert_eq!(got.lock().unwrap().flushed, expected.len());
        recording.put(7);
        expected.push(7);
        recording.finish().unwrap();
        let got = got.lock().unwrap();
        assert!(got.entries == expected && got.is_finished && got.warnings.is_empty());
        assert_eq!((recording.failure(), recording.lost(), recording.is_open()), (None, 0, false));
    }

    /// The program is not affected; the error has a reason, and the missing records are counted.
    #[test]
    fn an_error_ends_the_recording_and_not_the_program() {
        let (mut recording, got) = recording(Some(10));
        (1..=1000).for_each(|number| recording.put(number));
        recording.begin_flush().unwrap().wait();
        assert_eq!(recording.failure(), Some("the recording stopped: the disk is full"));
        assert_eq!(recording.lost(), 990);
        recording.put(1001);
        assert_eq!(recording.finish().unwrap_err().to_string(), "the disk is full");
        let got = got.lock().unwrap();
        assert!(got.entries.len() == 9 && !got.is_finished);
    }

    /// A program that never pauses must not prevent the thread from writing.
    #[test]
    fn a_program_that_never_pauses_is_flushed() {
        let (mut recording, got) = recording(None);
        let since = Instant::now();
        while got.lock().unwrap().flushed == 0 && since.elapsed() < Duration::from_secs(20) {
            (0..1000).for_each(|number| recording.put(number));
        }
        assert!(got.lock().unwrap().flushed > 0);
        recording.finish().unwrap();
    }

    #[test]
    fn without_a_recording_nothing_happens() {
        let mut none = Recording::<i64, i64>::default();
        none.put(1);
        none.send(2);
        assert!(none.begin_flush().is_none() && none.backlog().is_none() && none.finish().is_ok());
        assert_eq!((none.failure(), none.lost()), (None, 0));
    }
}
