//! The files of a recording with a limit: the newest, the previous one, and the one with the peak.
//!
//! `NAME.ttmem` always exists and is the newest. When it is full, the next file is written under a temporary name. It
//! starts with the important state from before (`opening`) and replaces `NAME.ttmem` once that is written completely;
//! before that, the full file gets another name. So a program can be killed at any point: `NAME.ttmem` is readable and
//! complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ttmem_model::words::{counted_as, size};
use ttmem_model::{Error, HistoryRow, Nanoseconds, RankEvent, Result, Source};

use super::examples::Examples;
use super::opening::write_opening;
use super::rounds::Rounds;
use crate::event_file::EventFile;
use crate::live::RecordingStatus;
use crate::live::narrator::Narrator;
use crate::live::record::{Message, Record};
use crate::recording::RecordSink;
use crate::replace;

/// The maximum number of files of a recording. Each may use its part of the limit.
const FILES: u64 = 3;
/// A file is nearly full if less than one in this many bytes of it is left.
const NEARLY_FULL: u64 = 8;

/// The steps of a file change. The program may be killed after any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All records are in the full file.
    Flushed,
    /// The file whose name the full one will get has been removed.
    Cleared,
    /// The opening of the next file is written, under its temporary name.
    Opened,
    /// The full file is complete.
    Ended,
    /// The full file has both names.
    Linked,
    /// The next file has its final name.
    Replaced,
}

/// The files of a recording.
pub(in crate::live) struct Files {
    narrator: Narrator,
    path: PathBuf,
    began: u64,
    limit: Option<u64>,
    /// The size limit of the newest file, after which another follows.
    max_size: u64,
    /// The number of steps before the newest file.
    since: u64,
    /// The sizes of the other files.
    before: u64,
    peak: u64,
    /// Whether there is a file with the peak.
    peak_is_kept: bool,
    status: Arc<Mutex<RecordingStatus>>,
}

impl Files {
    /// Begins a recording; `began` is its Unix time in nanoseconds. Replaces an existing recording with all its files.
    pub fn create(path: &Path, began: u64, limit: Option<u64>) -> Result<Self> {
        let file = replace::create(path)?;
        for beside in ["before", "peak", "next"] {
            replace::clear(&beside_of(path, beside))?;
        }
        let mut narrator = Narrator::new(begin_file(file, path, began)?)?;
        narrator.kept.rounds = limit.map_or_else(Rounds::default, |limit| Rounds::fitting(limit / FILES));
        narrator.kept.examples =
            limit.map_or_else(Examples::default, |limit| Examples::fitting(limit / FILES));
        narrator.flush()?;
        Ok(Self {
            narrator,
            path: path.to_owned(),
            began,
            limit,
            max_size: limit.map_or(u64::MAX, |limit| limit / FILES),
            since: 0,
            before: 0,
            peak: 0,
            peak_is_kept: false,
            status: Arc::default(),
        })
    }

    /// The status of the recording, shared with the recorder.
    pub fn status(&self) -> Arc<Mutex<RecordingStatus>> {
        Arc::clone(&self.status)
    }

    #[inline]
    fn rotate_if_full(&mut self) -> Result<()> {
        let file = &self.narrator.file;
        if file.max_size() > self.max_size || file.is_full() {
            self.rotate(&mut |_| {})?;
        }
        Ok(())
    }

    /// Writes a row of an allocator's history. Prefers to change the file between two iterations.
    fn history(&mut self, row: HistoryRow, call: Option<u64>) -> Result<()> {
        let begins = self.narrator.kept.examples.begins_with(&row, call);
        if begins && self.narrator.file.max_size() > self.max_size - self.max_size / NEARLY_FULL {
            self.rotate(&mut |_| {})?;
        }
        self.narrator.history(row, call)
    }

    /// Continues in a new file. `watch` is called after each stage.
    #[cold]
    fn rotate(&mut self, watch: &mut dyn FnMut(Stage)) -> Result<()> {
        self.narrator.flush()?;
        watch(Stage::Flushed);
        let size = self.narrator.file.max_size();
        let has_peak = self.narrator.kept.highest_use(self.since).is_some_and(|highest| highest.is_new);
        let beside = beside_of(&self.path, if has_peak { "peak" } else { "before" });
        let mut on_disk = size + self.before + self.peak;
        replace::clear(&beside)?;
        *(if has_peak { &mut self.peak } else { &mut self.before }) = 0;
        watch(Stage::Cleared);
        self.peak_is_kept |= has_peak;

        let has_examples = self.narrator.kept.examples.end_file();
        let next = beside_of(&self.path, "next");
        let opened = self.open(&next).inspect_err(|_| {
            // A partial file is useless, and the disk may be full. An error here would hide the first one.
            let _ = fs::remove_file(&next);
        })?;
        watch(Stage::Opened);
        let carried = opened.max_size();
        on_disk = on_disk.max(size + self.before + self.peak + carried);
        self.narrator.file.end()?;
        watch(Stage::Ended);
        put_aside(&self.path, &beside).map_err(|source| self.failed(source))?;
        watch(Stage::Linked);
        fs::rename(&next, &self.path).map_err(|source| self.failed(source))?;
        watch(Stage::Replaced);
        *(if has_peak { &mut self.peak } else { &mut self.before }) = size;
        self.narrator.go_on_in(opened);
        self.since = self.narrator.kept.last.position;
        self.narrator.kept.next_file();
        self.update(|status| {
            status.rotations += 1;
            status.forgotten += u64::from(!has_examples);
            status.carried = carried;
            status.peak_on_disk = status.peak_on_disk.max(on_disk);
        });
        self.make_room(carried)
    }

    /// Writes the opening of the next file.
    fn open(&mut self, next: &Path) -> Result<EventFile> {
        let note = self.note();
        replace::clear(next)?;
        let file = File::create_new(next).map_err(|source| self.failed(source))?;
        // Messages use the name that users know.
        let mut file = begin_file(file, &self.path, self.began)?;
        write_opening(&mut file, &mut self.narrator.kept, note)?;
        file.flush()?;
        Ok(file)
    }

    /// Lets files exceed the limit, with a warning, if the opening takes more than half of one: otherwise files would
    /// change all the time.
    fn make_room(&mut self, carried: u64) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let needed = carried.saturating_mul(2);
        if needed <= self.max_size {
            return Ok(());
        }
        if self.max_size == limit / FILES {
            let message = format!(
                "the recording exceeds its limit of {}, because live allocations alone take {} of it; set the limit \
                 to at least {} MiB",
                size(limit),
                size(carried),
                needed.saturating_mul(FILES).div_ceil(1 << 20)
            );
            self.narrator.warn(message)?;
        }
        self.max_size = needed;
        Ok(())
    }

    /// The warning in the next file: what is missing, and where to find it.
    fn note(&self) -> String {
        let kept = &self.narrator.kept;
        let name = |beside: &str| {
            let path = beside_of(&self.path, beside);
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let mut notes = vec![format!(
            "the recording has reached its limit; for the first {}, only totals, peaks, named snapshots and live \
             allocations are kept, not every step",
            duration(kept.until())
        )];
        if let Some(peak) = kept.highest_use(self.since).filter(|_| self.peak_is_kept) {
            notes.push(format!(
                "the tensors live at the {} peak of that time ({}, after {}) are in {}",
                peak.pool,
                size(peak.bytes),
                duration(peak.time),
                name("peak")
            ));
        }
        if kept.snapshots.dropped() > 0 {
            let dropped = kept.snapshots.dropped();
            notes.push(counted_as(dropped, "older snapshot was dropped", "older snapshots were dropped"));
        }
        notes.push(format!("{} may have the steps right before this file", name("before")));
        notes.join("; ")
    }

    fn update(&self, update: impl FnOnce(&mut RecordingStatus)) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut status);
        (status.size, status.kept) = (self.narrator.file.max_size(), self.narrator.kept.sizes());
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

impl RecordSink for Files {
    type Record = Record;
    type Message = Message;

    const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

    #[inline]
    fn record(&mut self, record: Record) -> Result<()> {
        self.narrator.record(record)?;
        self.rotate_if_full()
    }

    fn message(&mut self, message: Message) -> Result<()> {
        match message {
            Message::History(rows) => rows.into_iter().try_for_each(|(row, call)| self.history(row, call))?,
            message => self.narrator.message(message)?,
        }
        self.rotate_if_full()
    }

    fn warn(&mut self, message: String) -> Result<()> {
        self.narrator.warn(message)
    }

    fn flush(&mut self) -> Result<()> {
        self.narrator.flush()?;
        self.rotate_if_full()?;
        self.update(|_| {});
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.narrator.finish()?;
        self.update(|_| {});
        Ok(())
    }
}

/// Writes the beginning of every file.
fn begin_file(file: File, path: &Path, began: u64) -> Result<EventFile> {
    let mut file = EventFile::begin(file, path, Source::RECORDING)?;
    file.write_rank(RankEvent::Began(began))?;
    Ok(file)
}

/// The path of another file of a recording.
pub(in crate::live) fn beside_of(path: &Path, what: &str) -> PathBuf {
    path.with_extension(format!("{what}.ttmem"))
}

/// Gives a file another name. If possible, it also keeps the old name until it is replaced.
fn put_aside(path: &Path, beside: &Path) -> io::Result<()> {
    fs::hard_link(path, beside).or_else(|_| fs::rename(path, beside))
}

/// A duration for people.
fn duration(time: Nanoseconds) -> String {
    let seconds = time / 1_000_000_000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}.{:03} s", time / 1_000_000 % 1000),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Place;
    use ttmem_model::frame;
    use ttmem_model::{Builder, Class, CurveKind, Moment, OpId, PoolId, Profile, StrId};

    fn read(path: &Path) -> Profile {
        let mut builder = Builder::new();
        frame::read(&mut File::open(path).unwrap(), "a recording", &mut builder).unwrap();
        builder.finish()
    }

    fn held(profile: &Profile) -> u64 {
        let rank = &profile.ranks[0];
        let live = rank.live(PoolId::new(0).unwrap(), Moment::early(rank.end()));
        live.map(|tensor| rank.tensors.per_bank[tensor].or_zero()).sum()
    }

    fn recording(path: &Path) -> Files {
        let mut files = Files::create(path, 0, Some(1 << 20)).unwrap();
        let (name, text) = (StrId::new(0).unwrap(), "cpu".into());
        files.message(Message::Pool { name, text, is_empty: true }).unwrap();
        files
    }

    /// A program that holds more and more memory, in steps of 100 bytes, with one allocation of 7000 bytes that is
    /// freed again.
    fn tell(files: &mut Files, from: u32, count: u32) {
        let (pool, op) = (PoolId::new(0).unwrap(), OpId::new(0).unwrap());
        let allocated = |place: u32, bytes: u64| Record::Allocated {
            place: Place(place),
            pool,
            bytes,
            op,
            ty: None,
            class: Class::Unknown,
        };
        for place in from..from + count {
            files.record(allocated(place, 100)).unwrap();
        }
        files.record(allocated(from + count, 7000)).unwrap();
        files.record(Record::Freed(Place(from + count))).unwrap();
    }

    /// At whatever stage of a file change the program is killed, the newest file has everything.
    #[test]
    fn a_change_of_files_may_be_interrupted_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let mut files = recording(&path);
        let mut stages = Vec::new();
        for round in 0..4 {
            tell(&mut files, round * 10, 10);
            let total = 1000 * u64::from(round + 1);
            files
                .rotate(&mut |stage| {
                    let found = read(&path);
                    assert_eq!(held(&found), total, "{stage:?} of round {round}");
                    let peak = found.ranks[0].pools[0].curve(CurveKind::Allocated).unwrap();
                    assert_eq!(peak.value.iter().max(), Some(&(total + 7000)), "{stage:?}");
                    stages.push(stage);
                })
                .unwrap();
        }
        assert_eq!(stages.len(), 24);
        assert_eq!(held(&read(&path)), 4000);
        // The peak is always in the last file here, so there is no `before` file.
        assert!(beside_of(&path, "peak").exists() && !beside_of(&path, "next").exists());
        assert_eq!(held(&read(&beside_of(&path, "peak"))), 4000);
        assert!(read(&beside_of(&path, "peak")).complete);
    }

    /// If no new file can be created, the old one stays as it is, complete up to there.
    #[test]
    fn a_change_that_fails_leaves_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let mut files = recording(&path);
        tell(&mut files, 0, 10);
        fs::create_dir(beside_of(&path, "next")).unwrap();
        assert!(files.rotate(&mut |_| {}).is_err());
        assert_eq!(held(&read(&path)), 1000);
    }

    #[test]
    fn times_are_said_for_people() {
        let second = 1_000_000_000;
        assert_eq!(duration(1_500_000_000), "1.500 s");
        assert_eq!(duration(61 * second), "1 min 1 s");
        assert_eq!(duration(86_000 * second), "23 h 53 min");
    }
}
