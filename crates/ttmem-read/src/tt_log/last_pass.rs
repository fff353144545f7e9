//! The last pass of a log: `ttmem last-run`.
//!
//! The log is read twice. The first reading builds its profile and finds the lines at which the last pass of each rank
//! begins and ends. The second copies these lines and all module dumps, unchanged (`cutter`). They do not say what was
//! allocated before the pass: the profile of the pass does (`excerpt`).
//!
//! `rules::passes` says what a pass is; with a marker, each line that contains it ends one.

mod cutter;
mod excerpt;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use memchr::memmem::Finder;
use rustc_hash::FxHashMap;
use ttmem_model::frame::Writer;
use ttmem_model::rules::passes::Passes;
use ttmem_model::{Builder, Error, Event, Profile, Rank, Result, Sink, Source, Warning};

use self::cutter::Cutter;
use super::TtLog;
use super::line::split_tag;
use super::rank::At;
use super::streams::{Log, RankLog};
use crate::Reader;
use crate::input::{Packing, Progress, pick};
use crate::lines::{Line, is_damage};
use crate::reread::Reread;

/// How the last pass is found, and what of it is needed.
#[derive(Clone, Debug, Default)]
pub struct Cutting {
    /// A pass ends at each line with this text, instead of where the sequence of programs repeats.
    pub marker: Option<String>,
    /// Keep the texts of compiled graphs for [`LastPass::profile`].
    pub keep_texts: bool,
    /// Counts the bytes that were read.
    pub progress: Option<Arc<Progress>>,
}

/// The last pass of a log.
#[derive(Debug)]
pub struct LastPass {
    name: String,
    source: Reread,
    packing: Option<Packing>,
    profile: Profile,
    parts: Vec<Part>,
    /// The warning that several processes wrote the log.
    processes: Option<Warning>,
    /// The number of lines of the log.
    lines: u64,
}

/// The last pass of one rank.
#[derive(Clone, Debug)]
struct Part {
    /// The label of its lines.
    label: Option<Vec<u8>>,
    /// The index of the rank.
    rank: usize,
    /// The offset at which the lines of its process begin: earlier modules belong to other processes.
    from: u64,
    /// The number of passes.
    of: usize,
    /// The index of its first top-level run.
    first: usize,
    /// Where it begins; `None` if it is the whole log.
    begin: Option<Begin>,
    /// Its last line, unless it ends with the log.
    end: Option<At>,
}

/// Where a pass begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The first line of its first run.
    run: At,
    /// The first line that others wrote during the pass: a marker ends the pass before, even while a program runs.
    others: At,
}

impl LastPass {
    /// Finds the last pass of a log (`-` is standard input).
    pub fn find(name: &str, cutting: &Cutting) -> Result<Self> {
        let mut source = Reread::open(name, cutting.progress.clone())?;
        let content = source.content()?;
        let (reader, _) = pick(name, &content.head, None)?;
        if reader.name() != TtLog.name() {
            let message = format!("{name} is {}: only logs have passes to cut out", reader.about());
            return Err(Error::NotThere(message));
        }
        let mut builder = Builder::new();
        builder.take(Event::Source(Source { format: reader.name().into(), file: name.into() }))?;
        let mut log = Log::new(name, cutting.keep_texts, &mut builder);
        let mut markers = Markers::new(cutting.marker.as_deref());
        let mut lines = 0;
        log.read(content.stream, |log, line| {
            lines = line.number;
            markers.look(line, log);
            Ok(())
        })?;
        let courses = markers.courses(&mut log);
        let processes = log.processes_warning();
        let profile = builder.finish();
        let parts = parts(name, &profile, courses, &markers)?;
        Ok(Self { name: name.to_owned(), source, packing: content.packing, profile, parts, processes, lines })
    }

    /// The warnings about the log.
    pub fn warnings(&self) -> &[Warning] {
        &self.profile.warnings
    }

    /// The number of passes of each rank, with its label where lines are tagged.
    pub fn passes(&self) -> impl Iterator<Item = (Option<String>, usize)> {
        self.parts.iter().map(|part| (part.label(), part.of))
    }

    /// Whether there is only one pass, so that nothing is cut away.
    pub fn is_everything(&self) -> bool {
        self.parts.iter().all(|part| part.begin.is_none())
    }

    /// The first and the last line of the pass, and the number of lines of the log.
    pub fn lines(&self) -> (u64, u64, u64) {
        let first = self.parts.iter().map(|part| part.begin.map_or(1, |begin| begin.others.line)).min();
        let last = self.parts.iter().map(|part| part.end.map_or(self.lines, |end| end.line)).max();
        (first.unwrap_or(1), last.unwrap_or(self.lines), self.lines)
    }

    /// The profile of the pass, with the tensors that were alive before it.
    pub fn profile(&self) -> Result<Profile> {
        excerpt::profile(&self.name, &self.profile, &self.parts, self.processes.as_ref())
    }

    /// Writes the profile of the pass as a `.ttmem` file. `path` is for messages only.
    pub fn write_profile(&self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let mut writer = Writer::create(out, path)?;
        self.profile()?.replay(&mut writer)?;
        writer.finish().map(drop)
    }

    /// Writes the lines of the pass, compressed if the log is. `path` is for messages only.
    pub fn write_alike(&mut self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let failed = |source| Error::Write { path: path.into(), source };
        match self.packing {
            None => self.write(out, path),
            Some(Packing::Gzip) => {
                let mut packed = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                self.write(&mut packed, path)?;
                packed.finish().map(|_| ()).map_err(failed)
            }
            Some(Packing::Zstd) => {
                let mut packed = zstd::stream::write::Encoder::new(out, 0).map_err(failed)?;
                self.write(&mut packed, path)?;
                packed.finish().map(|_| ()).map_err(failed)
            }
        }
    }

    /// Writes the lines of the pass, as text. `path` is for messages only.
    pub fn write(&mut self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let content = self.source.content()?;
        if self.is_everything() {
            return copy(content.stream, &self.name, out, path);
        }
        Cutter::new(&self.parts, out, path).cut(content.stream, &self.name)
    }
}

impl Part {
    fn label(&self) -> Option<String> {
        self.label.as_ref().map(|label| String::from_utf8_lossy(label).into_owned())
    }
}

/// Copies a log.
fn copy(mut from: impl io::Read, name: &str, out: &mut dyn Write, path: &Path) -> Result<()> {
    let mut block = vec![0; 256 << 10];
    loop {
        let read = match from.read(&mut block) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The first reading has warned of it.
            Err(error) if is_damage(&error) => 0,
            Err(source) => return Err(Error::Read { path: name.into(), source }),
        };
        if read == 0 {
            return Ok(());
        }
        out.write_all(&block[..read]).map_err(|source| Error::Write { path: path.into(), source })?;
    }
}

/// What the first reading found of a rank.
struct Course {
    label: Option<Vec<u8>>,
    /// Which process it is, counted from 1, and the offset at which its lines begin.
    process: u32,
    from: u64,
    /// Where its top-level runs begin; without programs, where the first activity after each marker begins.
    begins: Vec<At>,
    /// Whether these are runs.
    has_runs: bool,
}

/// The lines that end passes.
struct Markers {
    finder: Option<Finder<'static>>,
    /// The label of each, and its line.
    found: Vec<(Option<Vec<u8>>, At)>,
    /// For each rank, where the first activity outside programs began after each marker.
    nameless: Vec<Vec<At>>,
}

impl Markers {
    fn new(text: Option<&str>) -> Self {
        let finder = text.map(|text| Finder::new(text).into_owned());
        Self { finder, found: Vec::new(), nameless: Vec::new() }
    }

    fn look(&mut self, line: &Line<'_>, log: &mut Log<'_, '_>) {
        let Some(finder) = &self.finder else { return };
        if finder.find(line.bytes).is_none() {
            return;
        }
        let label = split_tag(line.bytes).0.map(|tag| tag.label());
        self.found.push((label, At { line: line.number, offset: line.offset, next: line.next }));
        self.gather(log);
    }

    /// Records where activity began since the last marker.
    fn gather(&mut self, log: &mut Log<'_, '_>) {
        self.nameless.resize_with(log.ranks.len(), Vec::new);
        for (rank, begins) in log.ranks.iter_mut().zip(&mut self.nameless) {
            begins.extend(rank.state.take_nameless());
        }
    }

    /// What was found of each rank, after the last line.
    fn courses(&mut self, log: &mut Log<'_, '_>) -> Vec<Course> {
        self.gather(log);
        let nameless = std::mem::take(&mut self.nameless);
        let course = |(rank, nameless): (&RankLog, Vec<At>)| {
            let runs = rank.state.begins();
            let has_runs = !runs.is_empty();
            let begins = if has_runs { runs.to_vec() } else { nameless };
            Course { label: rank.label.clone(), process: rank.process, from: rank.from, begins, has_runs }
        };
        log.ranks.iter().zip(nameless).map(course).collect()
    }

    /// The markers of a rank: its own and those without a tag; all of them where there are none of these.
    fn of(&self, label: Option<&[u8]>) -> Vec<At> {
        let is_its = |of: &Option<Vec<u8>>| of.is_none() || of.as_deref() == label;
        let any = self.found.iter().any(|(of, _)| is_its(of));
        self.found.iter().filter(|(of, _)| !any || is_its(of)).map(|(_, at)| *at).collect()
    }
}

/// The last passes of all ranks that have any.
fn parts(name: &str, profile: &Profile, courses: Vec<Course>, markers: &Markers) -> Result<Vec<Part>> {
    if markers.finder.is_some() && markers.found.is_empty() {
        return Err(Error::NotThere(format!("no line of {name} has the marker's text")));
    }
    let mut parts = Vec::new();
    // Of the processes of a label, the last one has the last pass.
    let mut last: FxHashMap<Option<Vec<u8>>, u32> = FxHashMap::default();
    for course in &courses {
        last.insert(course.label.clone(), course.process);
    }
    let is_last = |course: &Course| last.get(&course.label) == Some(&course.process);
    let all = courses.into_iter().zip(&profile.ranks).enumerate();
    for (index, (course, rank)) in all.filter(|(_, (course, _))| is_last(course)) {
        let found = match &markers.finder {
            Some(_) => marked(rank, &course, &markers.of(course.label.as_deref())),
            None if course.has_runs => repeated(rank, &course),
            None => None,
        };
        let Some(Found { first, of, begin, end }) = found else { continue };
        parts.push(Part { label: course.label, rank: index, from: course.from, of, first, begin, end });
    }
    if parts.is_empty() {
        return Err(Error::NotThere(format!(
            "{name} names no programs, so that its passes cannot be told apart: capture with \
             TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG, or name a text that stands on the last line of each pass \
             with --marker"
        )));
    }
    Ok(parts)
}

/// A last pass.
struct Found {
    /// The index of its first run.
    first: usize,
    of: usize,
    begin: Option<Begin>,
    end: Option<At>,
}

/// The last pass of a rank by the sequence of its programs.
fn repeated(rank: &Rank, course: &Course) -> Option<Found> {
    let passes = Passes::of(rank);
    let first = passes.last_begins()?;
    let run = *course.begins.get(first)?;
    let begin = (first > 0 || course.process > 1).then_some(Begin { run, others: run });
    Some(Found { first, of: passes.count(), begin, end: None })
}

/// The last pass of a rank by markers: a run belongs to the pass in which it begins.
fn marked(rank: &Rank, course: &Course, markers: &[At]) -> Option<Found> {
    let pass_of = |begin: &At| markers.partition_point(|marker| marker.next <= begin.offset);
    let last = pass_of(course.begins.last()?);
    let first = course.begins.partition_point(|begin| pass_of(begin) < last);
    let mut passes: Vec<usize> = course.begins.iter().map(pass_of).collect();
    passes.dedup();
    let run = course.begins[first];
    let others = last.checked_sub(1).map_or(run, |before| line_after(markers[before]));
    // A marker may be printed while the last program still runs: then the pass goes on.
    let ended = rank.top_level_runs().last().map_or(0, |(_, run)| run.source.end);
    let end = markers.get(last).copied().filter(|marker| ended <= marker.next);
    let is_cut = first > 0 || course.process > 1;
    Some(Found { first, of: passes.len(), begin: is_cut.then_some(Begin { run, others }), end })
}

fn line_after(line: At) -> At {
    At { line: line.line + 1, offset: line.next, next: line.next }
}
