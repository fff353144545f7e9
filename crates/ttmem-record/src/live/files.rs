//! The files of a recording: the newest, the one before it, and the one with the peak; and how one follows another.
//!
//! `NAME.ttmem` is always there, and always the newest. A new file is written beside it, under a name of its own, and put
//! in its place when everything is in it; the file that was there gets another name first. So whoever kills the program,
//! whenever, leaves a file of that name behind that can be read, with everything in it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::kept::Kept;
use super::narrator::Narrator;
use super::past::Point;
use super::retold::retell;
use super::rounds::Rounds;
use crate::replace;
use ttmem_model::frame::Writer;
use ttmem_model::{Error, Result};
use ttmem_model::{Event, Nanoseconds, Sink, Warning};

/// A recording has so many files at most; each may take its part of the limit.
const FILES: u64 = 3;

/// How far a change of files has come: a program may be killed at any of these points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// All is in the file.
    Flushed,
    /// The file that will be replaced is gone.
    Cleared,
    /// The new file is whole, under its own name.
    Retold,
    /// The old file has its end.
    Ended,
    /// The old file has both names.
    Linked,
    /// The new file is in its place.
    Replaced,
}

/// The files of a recording.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    began: u64,
    limit: Option<u64>,
    /// How large the newest may become before another follows.
    most: u64,
    /// How many steps there were when the newest began.
    since: u64,
    /// How large the others are.
    before: u64,
    peak: u64,
    /// There is a file with the peak.
    peak_is_kept: bool,
    /// How often one followed another.
    pub rotations: u64,
    /// The most that all of them took, as far as it was counted: at every change.
    pub most_on_disk: u64,
    /// What the last change had to say again.
    pub carried: u64,
}

impl Files {
    /// Begins a recording. Files that an earlier one of the same name left behind are replaced, too.
    pub fn begin(path: &Path, began: u64, limit: Option<u64>) -> Result<(Self, Narrator<File>)> {
        let file = replace::create(path)?;
        for beside in ["before", "peak", "next"] {
            replace::clear(&beside_of(path, beside))?;
        }
        let writer = Writer::create(file, path)?.quick()?;
        let mut narrator = Narrator::new(writer, &path.display().to_string(), began)?;
        narrator.kept.rounds = limit.map_or_else(Rounds::default, |limit| Rounds::fitting(limit / FILES));
        narrator.flush()?;
        let files = Self {
            path: path.to_owned(),
            began,
            limit,
            most: limit.map_or(u64::MAX, |limit| limit / FILES),
            since: 0,
            before: 0,
            peak: 0,
            peak_is_kept: false,
            rotations: 0,
            most_on_disk: 0,
            carried: 0,
        };
        Ok((files, narrator))
    }

    /// Whether another file has to follow.
    #[inline]
    pub fn is_full(&self, narrator: &Narrator<File>) -> bool {
        narrator.size_at_most() > self.most || narrator.is_full()
    }

    /// Goes on in a new file. `watch` is told of each point that is reached.
    pub fn rotate(
        &mut self,
        mut narrator: Narrator<File>,
        watch: &mut dyn FnMut(Stage),
    ) -> Result<Narrator<File>> {
        narrator.flush()?;
        watch(Stage::Flushed);
        let size = narrator.size_at_most();
        self.most_on_disk = self.most_on_disk.max(size + self.before + self.peak);
        let has_peak = highest(&narrator.kept).is_some_and(|(_, peak)| peak.after.position > self.since);
        let beside = beside_of(&self.path, if has_peak { "peak" } else { "before" });
        replace::clear(&beside)?;
        *(if has_peak { &mut self.peak } else { &mut self.before }) = 0;
        watch(Stage::Cleared);
        self.peak_is_kept |= has_peak;

        let next = beside_of(&self.path, "next");
        let note = self.note(&narrator.kept);
        let (kept, mut ended) = narrator.into_parts();
        let following = self.retold(&next, kept, &note);
        let mut following = following.inspect_err(|_| {
            // Half a file is of no use, and the disk may be full. That this fails, too, is not the point.
            let _ = fs::remove_file(&next);
        })?;
        watch(Stage::Retold);
        self.carried = following.size_at_most();
        self.most_on_disk = self.most_on_disk.max(size + self.before + self.peak + self.carried);
        ended.take(Event::End)?;
        ended.flush()?;
        watch(Stage::Ended);
        put_aside(&self.path, &beside).map_err(|source| self.failed(source))?;
        watch(Stage::Linked);
        fs::rename(&next, &self.path).map_err(|source| self.failed(source))?;
        watch(Stage::Replaced);
        *(if has_peak { &mut self.peak } else { &mut self.before }) = size;
        self.since = following.kept.last.position;
        self.rotations += 1;
        self.make_room(&mut following)?;
        Ok(following)
    }

    /// Writes what has to be said again into a new file.
    fn retold(&self, next: &Path, kept: Kept, note: &str) -> Result<Narrator<File>> {
        replace::clear(next)?;
        let file = File::create_new(next).map_err(|source| self.failed(source))?;
        // Messages are of the file as people know it.
        let writer = Writer::create(file, &self.path)?.quick()?;
        let mut narrator = Narrator::of(writer, kept)?;
        retell(&mut narrator, &self.path.display().to_string(), self.began, note)?;
        narrator.flush()?;
        Ok(narrator)
    }

    /// A file that begins half full would soon be followed by another, and that one, too. Where what is there takes so
    /// much, files are larger than the limit says, and that is said.
    fn make_room(&mut self, narrator: &mut Narrator<File>) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let needed = self.carried.saturating_mul(2);
        if needed <= self.most {
            return Ok(());
        }
        if self.most == limit / FILES {
            let message = format!(
                "what is in memory takes {} bytes of the recording: more than the limit of {limit} bytes leaves \
                 room for, so the recording is larger. Choose a limit of at least {} bytes",
                self.carried,
                needed.saturating_mul(FILES)
            );
            narrator.take(Event::Warning(Warning { line: None, message }))?;
        }
        self.most = needed;
        Ok(())
    }

    /// What people should know of the file that follows.
    fn note(&self, kept: &Kept) -> String {
        let name = |beside: &str| {
            let path = beside_of(&self.path, beside);
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let mut notes = vec![format!(
            "the recording has reached its limit: of what happened in the first {}, sums, peaks, named moments and \
             what is still there are kept, not every step",
            duration(kept.time)
        )];
        if let Some((pool, peak)) = highest(kept).filter(|_| self.peak_is_kept) {
            let pool = kept.pools.get(pool).map_or("memory", |pool| pool.text.as_str());
            notes.push(format!(
                "who held {pool} when it was highest in that time ({} bytes, after {}) is in {}",
                peak.value,
                duration(peak.after.time),
                name("peak")
            ));
        }
        if kept.looks.gone() > 0 {
            notes.push(format!("{} of the older snapshots are no longer there", kept.looks.gone()));
        }
        notes.push(format!("the time right before may be in {}", name("before")));
        notes.join("; ")
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

/// The pool that was highest, and when.
fn highest(kept: &Kept) -> Option<(usize, Point)> {
    let pools = kept.pools.iter().enumerate().filter(|(_, pool)| pool.level.is_some());
    let peaks = pools.filter_map(|(index, pool)| Some((index, pool.peak()?)));
    peaks.reduce(|peak, next| if next.1.value > peak.1.value { next } else { peak })
}

/// The name of another file of a recording.
pub(super) fn beside_of(path: &Path, what: &str) -> PathBuf {
    path.with_extension(format!("{what}.ttmem"))
}

/// Gives a file another name, and leaves it its own where that is possible: until it is replaced.
fn put_aside(path: &Path, beside: &Path) -> io::Result<()> {
    fs::hard_link(path, beside).or_else(|_| fs::rename(path, beside))
}

/// A time, as people say it.
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
    use crate::live::queue::Record;
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

    /// A program that holds more and more, in steps of 100 bytes, with one of 7000 that comes and goes.
    fn tell(narrator: &mut Narrator<File>, from: u32, count: u32) {
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
            narrator.tell(allocated(place, 100)).unwrap();
        }
        narrator.tell(allocated(from + count, 7000)).unwrap();
        narrator.tell(Record::Freed(Place(from + count))).unwrap();
    }

    /// Whoever kills the program, at whatever point of whatever change of files: the newest file has everything.
    #[test]
    fn a_change_of_files_may_be_interrupted_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let (mut files, mut narrator) = Files::begin(&path, 0, Some(1 << 20)).unwrap();
        narrator.pool(StrId::new(0).unwrap(), "cpu".into(), true).unwrap();
        let mut stages = Vec::new();
        for round in 0..4 {
            tell(&mut narrator, round * 10, 10);
            let total = 1000 * u64::from(round + 1);
            narrator = files
                .rotate(narrator, &mut |stage| {
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
        // The peak is always the last one's here: there is no other before.
        assert!(beside_of(&path, "peak").exists() && !beside_of(&path, "next").exists());
        assert_eq!(held(&read(&beside_of(&path, "peak"))), 4000);
        assert!(read(&beside_of(&path, "peak")).complete);
    }

    /// Where no new file can be made, the old one stays as it is, whole up to there.
    #[test]
    fn a_change_that_fails_leaves_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let (mut files, mut narrator) = Files::begin(&path, 0, Some(1 << 20)).unwrap();
        narrator.pool(StrId::new(0).unwrap(), "cpu".into(), true).unwrap();
        tell(&mut narrator, 0, 10);
        fs::create_dir(beside_of(&path, "next")).unwrap();
        assert!(files.rotate(narrator, &mut |_| {}).is_err());
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
