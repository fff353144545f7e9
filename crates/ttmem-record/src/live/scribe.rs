//! The thread that writes a recording: it takes what happened out of the queue, and has it in the file soon after.

use std::fs::File;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::RecordingStatus;
use super::files::Files;
use super::narrator::Narrator;
use super::queue::{Inlet, Outlet, Parcel, Record, queue};
use ttmem_model::{Error, Result};
use ttmem_model::{Event, Warning};

/// How long the thread sleeps when there is nothing to do.
const SLEEP: Duration = Duration::from_millis(20);
/// What happened is in the file after this time, at the latest, and the time that writing takes.
const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// Begins a recording: the end of the queue that the program gets, and the thread.
pub(super) fn begin(path: &Path, began: u64, limit: Option<u64>) -> Result<(Outlet, JoinHandle<Result<()>>)> {
    let (files, narrator) = Files::begin(path, began, limit)?;
    let (mut outlet, inlet) = queue();
    let (flushed, is_behind, narrator) = (Instant::now(), false, Some(narrator));
    let mut scribe = Scribe { inlet, files, narrator, flushed, is_behind, failed: None };
    let thread = thread::Builder::new()
        .name("ttmem-recording".into())
        .spawn(move || scribe.work())
        .map_err(|source| Error::Write { path: path.to_owned(), source })?;
    outlet.wakes(thread.thread().clone());
    Ok((outlet, thread))
}

struct Scribe {
    inlet: Inlet,
    files: Files,
    /// Gone when something went wrong: nothing is written behind that, but the queue is still emptied.
    narrator: Option<Narrator<File>>,
    flushed: Instant,
    /// Something was said since the last flush.
    is_behind: bool,
    /// The first thing that went wrong.
    failed: Option<Error>,
}

impl Scribe {
    fn work(&mut self) -> Result<()> {
        loop {
            let mut is_over = self.inlet.is_over();
            while let Some(record) = self.inlet.take() {
                is_over |= self.hear(record);
            }
            if self.is_behind && self.flushed.elapsed() >= FLUSH_EVERY {
                self.flush();
            }
            if is_over {
                break;
            }
            thread::park_timeout(SLEEP);
        }
        let given_up = self.inlet.gauge.failure().map(str::to_owned);
        if let (Some(narrator), Some(message)) = (&mut self.narrator, given_up) {
            let said = narrator.take(Event::Warning(Warning { line: None, message }));
            self.note(said);
        }
        let finished = self.narrator.as_mut().map_or(Ok(()), Narrator::finish);
        self.note(finished);
        self.say_status();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Whether that was the last word.
    fn hear(&mut self, record: Record) -> bool {
        self.is_behind = true;
        let parcel = match record {
            Record::Parcel => self.inlet.parcel(),
            record => {
                let told = self.narrator.as_mut().map_or(Ok(()), |narrator| narrator.tell(record));
                self.wrote(told);
                return false;
            }
        };
        let result = match (parcel, &mut self.narrator) {
            (Some(Parcel::Finish), _) => return true,
            (Some(Parcel::Flush(done)), _) => {
                self.flush();
                // Nobody waits any more: that is fine.
                let _ = done.send(());
                return false;
            }
            (_, None) => Ok(()),
            (Some(Parcel::Event(event)), Some(narrator)) => narrator.take(event),
            (Some(Parcel::Pool { name, text, is_empty }), Some(narrator)) => {
                narrator.pool(name, text, is_empty)
            }
            (Some(Parcel::Reading(pool, reading, op)), Some(narrator)) => narrator.reading(pool, reading, op),
            (Some(Parcel::Late(call)), Some(narrator)) => narrator.late_call(&call),
            (Some(Parcel::History(row, call)), Some(narrator)) => narrator.history(row, call),
            (Some(Parcel::Fault(fault, op)), Some(narrator)) => narrator.fault(fault, op),
            (Some(Parcel::FaultEnded), Some(narrator)) => narrator.fault_ended(),
            (None, Some(_)) => Err(Error::Bug("a parcel of a recording is not there".into())),
        };
        self.wrote(result);
        false
    }

    fn flush(&mut self) {
        let flushed = self.narrator.as_mut().map_or(Ok(()), Narrator::flush);
        self.wrote(flushed);
        self.say_status();
        (self.flushed, self.is_behind) = (Instant::now(), false);
    }

    /// Something was written, or not. A file that is full is followed by another.
    #[inline]
    fn wrote(&mut self, result: Result<()>) {
        if result.is_err() {
            self.note(result);
        } else if self.narrator.as_ref().is_some_and(|narrator| self.files.is_full(narrator)) {
            self.rotate();
        }
    }

    #[cold]
    fn rotate(&mut self) {
        let Some(narrator) = self.narrator.take() else { return };
        match self.files.rotate(narrator, &mut |_| {}) {
            Ok(narrator) => self.narrator = Some(narrator),
            Err(error) => self.note(Err(error)),
        }
        (self.flushed, self.is_behind) = (Instant::now(), false);
        self.say_status();
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.narrator = None;
            self.inlet.gauge.fail(format!("the recording ends here: {error}"));
            self.failed.get_or_insert(error);
        }
    }

    fn say_status(&self) {
        let Files { rotations, most_on_disk, carried, .. } = self.files;
        if let Some(narrator) = &self.narrator {
            let (size, kept) = (narrator.size_at_most(), narrator.kept.sizes());
            self.inlet.gauge.set_status(RecordingStatus { size, rotations, most_on_disk, carried, kept });
        }
    }
}
