//! The thread that writes a recording: it takes what happened out of the queue, and has it in the file soon after.

use std::fs::File;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::narrator::Narrator;
use super::queue::{Inlet, Outlet, Parcel, Record, queue};
use crate::error::{Error, Result};
use crate::record::frame::Writer;

/// How long the thread sleeps when there is nothing to do.
const SLEEP: Duration = Duration::from_millis(20);
/// What happened is in the file after this time, at the latest, and the time that writing takes.
const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// Begins a recording: the end of the queue that the program gets, and the thread.
pub(super) fn begin(file: File, path: &Path, began: u64) -> Result<(Outlet, JoinHandle<Result<()>>)> {
    let writer = Writer::create(file, path)?.quick()?;
    let mut narrator = Narrator::new(writer, &path.display().to_string(), began)?;
    narrator.flush()?;
    let (mut outlet, inlet) = queue();
    let (flushed, is_behind, failed) = (Instant::now(), false, None);
    let mut scribe = Scribe { inlet, narrator, flushed, is_behind, failed };
    let thread = thread::Builder::new()
        .name("ttmem-recording".into())
        .spawn(move || scribe.work())
        .map_err(|source| Error::Write { path: path.to_owned(), source })?;
    outlet.wakes(thread.thread().clone());
    Ok((outlet, thread))
}

struct Scribe {
    inlet: Inlet,
    narrator: Narrator<File>,
    flushed: Instant,
    /// Something was said since the last flush.
    is_behind: bool,
    /// The first thing that went wrong: nothing is written behind it, but the queue is still emptied.
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
        match self.failed.take() {
            None => self.narrator.finish(),
            Some(failed) => Err(failed),
        }
    }

    /// Whether that was the last word.
    fn hear(&mut self, record: Record) -> bool {
        self.is_behind = true;
        let result = match record {
            Record::Parcel => match self.inlet.parcel() {
                Some(Parcel::Finish) => return true,
                Some(Parcel::Flush(done)) => {
                    self.flush();
                    // Nobody waits any more: that is fine.
                    let _ = done.send(());
                    return false;
                }
                _ if self.failed.is_some() => Ok(()),
                Some(Parcel::Event(event)) => self.narrator.take(event),
                Some(Parcel::Pool { name, is_empty }) => self.narrator.pool(name, is_empty),
                Some(Parcel::Reading(pool, reading, op)) => self.narrator.reading(pool, reading, op),
                None => Err(Error::Bug("a parcel of a recording is not there".into())),
            },
            _ if self.failed.is_some() => Ok(()),
            record => self.narrator.tell(record),
        };
        self.note(result);
        false
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            let result = self.narrator.flush();
            self.note(result);
        }
        (self.flushed, self.is_behind) = (Instant::now(), false);
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}
