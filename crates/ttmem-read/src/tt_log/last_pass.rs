//! Cuts the last pass out of a log: `ttmem last-run`.
//!
//! The log is read twice. The first time shows where the last pass of each rank begins, and which const-eval runs of
//! earlier passes it relies on. The second time the log is understood up to there once more and written as it goes
//! by (`cutter`): module dumps, those const-eval runs without their memory states, then what the reader remembers
//! where the pass begins (`carried`), then the pass itself. So memory grows with steps and distinct texts, never
//! with the log.
//!
//! What a pass is says `analyze::passes`; with a marker, each line that holds it ends one.

mod cutter;

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memchr::memmem::Finder;
use rustc_hash::FxHashMap;

use self::cutter::Cutter;
use super::TtLog;
use super::carried::MARK;
use super::line::split_tag;
use super::rank::At;
use super::streams::{Log, RankLog};
use crate::Reader;
use crate::input::{Packing, Progress, pick};
use crate::lines::{Line, is_damage};
use crate::reread::Reread;
use ttmem_model::rules::passes::Passes;
use ttmem_model::{Builder, Profile, Rank, RunId, Warning};
use ttmem_model::{Error, Result};

/// How a log is to be cut.
#[derive(Clone, Debug, Default)]
pub struct Cutting {
    /// A pass ends at each line with this text, instead of where the sequence of programs repeats.
    pub marker: Option<String>,
    /// Where it is told how far the reading is.
    pub progress: Option<Arc<Progress>>,
}

/// The last pass of a log: found, and ready to be written.
#[derive(Debug)]
pub struct LastPass {
    name: String,
    source: Reread,
    packing: Option<Packing>,
    profile: Profile,
    parts: Vec<Part>,
    /// How many lines the log has.
    lines: u64,
}

/// The last pass of one rank.
#[derive(Clone, Debug)]
struct Part {
    /// The label of its lines.
    label: Option<Vec<u8>>,
    /// Its place among the ranks.
    rank: usize,
    /// Where the lines of its process begin: earlier modules are of others.
    from: u64,
    /// How many passes there are.
    of: usize,
    /// Where it begins; `None`: it is all there is.
    begin: Option<Begin>,
    /// Behind which line it ends, if not with the log.
    end: Option<At>,
    /// The const-eval runs that it relies on, and where they stand, in order.
    const_evals: Vec<(RunId, Range<u64>)>,
}

/// Where a pass begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// With its first run.
    run: At,
    /// Lines of other writers belong to it from here on: a marker ends the pass before, whatever runs.
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
        let mut log = Log::new(name, false, &mut builder);
        let mut markers = Markers::new(cutting.marker.as_deref());
        let mut lines = 0;
        log.read(content.stream, |log, line| {
            lines = line.number;
            markers.look(line, log);
            Ok(())
        })?;
        let courses: Vec<Course> = markers.courses(&mut log);
        let profile = builder.finish();
        let parts = parts(name, &profile, courses, &markers)?;
        Ok(Self { name: name.to_owned(), source, packing: content.packing, profile, parts, lines })
    }

    /// What people should know about the reading.
    pub fn warnings(&self) -> &[Warning] {
        &self.profile.warnings
    }

    /// How many passes each rank has, with its label where lines are tagged.
    pub fn passes(&self) -> impl Iterator<Item = (Option<String>, usize)> {
        self.parts.iter().map(|part| (part.label(), part.of))
    }

    /// Whether there is only one pass, so that nothing is cut away.
    pub fn is_everything(&self) -> bool {
        self.parts.iter().all(|part| part.begin.is_none())
    }

    /// The first and the last line of the pass, and how many lines the log has.
    pub fn lines(&self) -> (u64, u64, u64) {
        let first = self.parts.iter().map(|part| part.begin.map_or(1, |begin| begin.others.line)).min();
        let last = self.parts.iter().map(|part| part.end.map_or(self.lines, |end| end.line)).max();
        (first.unwrap_or(1), last.unwrap_or(self.lines), self.lines)
    }

    /// Writes it as the log is: packed, if that is packed. `path` is for messages only.
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

    /// Writes it, as text. `path` is for messages only.
    pub fn write(&mut self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let content = self.source.content()?;
        if self.is_everything() {
            return copy(content.stream, &self.name, out, path);
        }
        let written = |source| Error::Write { path: path.into(), source };
        writeln!(out, "{}", self.title()).map_err(written)?;
        let mut nothing = Nothing;
        let log = Log::new(&self.name, false, &mut nothing);
        Cutter::new(&self.profile, &self.parts, log, out, path).cut(content.stream, &self.name)
    }

    /// The line that says what a cut-out is.
    fn title(&self) -> String {
        let (first, last, lines) = self.lines();
        let passes: Vec<String> = match self.parts.as_slice() {
            [one, rest @ ..] if rest.iter().all(|part| part.of == one.of) => {
                vec![format!("pass {0} of {0}", one.of)]
            }
            parts => parts.iter().map(Part::title).collect(),
        };
        format!(
            "{}the last pass of {}: {}, lines {first} to {last} of {lines}; cut out by ttmem last-run",
            String::from_utf8_lossy(MARK),
            if self.name == "-" { "standard input".into() } else { self.name.escape_debug().to_string() },
            passes.join(", "),
        )
    }
}

impl Part {
    fn label(&self) -> Option<String> {
        self.label.as_ref().map(|label| String::from_utf8_lossy(label).into_owned())
    }

    fn title(&self) -> String {
        let rank = self.label().map_or_else(String::new, |label| format!(" of rank {label}"));
        format!("pass {0} of {0}{rank}", self.of)
    }
}

/// Takes events and forgets them.
struct Nothing;

impl ttmem_model::Sink for Nothing {
    fn take(&mut self, _: ttmem_model::Event<'_>) -> Result<()> {
        Ok(())
    }
}

/// Writes a log as it is.
fn copy(mut from: impl io::Read, name: &str, out: &mut dyn Write, path: &Path) -> Result<()> {
    let mut block = vec![0; 256 << 10];
    loop {
        let read = match from.read(&mut block) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The reader has said so.
            Err(error) if is_damage(&error) => 0,
            Err(source) => return Err(Error::Read { path: name.into(), source }),
        };
        if read == 0 {
            return Ok(());
        }
        out.write_all(&block[..read]).map_err(|source| Error::Write { path: path.into(), source })?;
    }
}

/// What the first reading shows of a rank.
struct Course {
    label: Option<Vec<u8>>,
    /// Which process it is, counted from 1, and where its lines begin.
    process: u32,
    from: u64,
    /// Where its runs begin; without programs, where something first begins behind each marker.
    begins: Vec<At>,
    /// Whether these are runs.
    has_runs: bool,
    /// The const-eval runs whose results were asked for later, and by which run at last, from 1.
    asked: Vec<(RunId, usize)>,
}

/// The lines that end passes.
struct Markers {
    finder: Option<Finder<'static>>,
    /// Whose they are, and where they stand.
    found: Vec<(Option<Vec<u8>>, At)>,
    /// For each rank, where something first began behind each marker without a program.
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
        let (tag, text) = split_tag(line.bytes);
        if text.starts_with(MARK) {
            return;
        }
        let label = tag.map(|tag| tag.label());
        self.found.push((label, At { line: line.number, offset: line.offset, next: line.next }));
        self.gather(log);
    }

    /// Takes down where things began since the last marker.
    fn gather(&mut self, log: &mut Log<'_, '_>) {
        self.nameless.resize_with(log.ranks.len(), Vec::new);
        for (rank, begins) in log.ranks.iter_mut().zip(&mut self.nameless) {
            begins.extend(rank.state.take_nameless());
        }
    }

    /// What the log has shown of its ranks, now that it is read.
    fn courses(&mut self, log: &mut Log<'_, '_>) -> Vec<Course> {
        self.gather(log);
        let nameless = std::mem::take(&mut self.nameless);
        let course = |(rank, nameless): (&RankLog, Vec<At>)| {
            let state = &rank.state;
            let has_runs = !state.begins().is_empty();
            let begins = if has_runs { state.begins().to_vec() } else { nameless };
            let (label, process, from) = (rank.label.clone(), rank.process, rank.from);
            Course { label, process, from, begins, has_runs, asked: state.asked().collect() }
        };
        log.ranks.iter().zip(nameless).map(course).collect()
    }

    /// Those that count for a rank: its own and those of nobody; where it has none, all.
    fn of(&self, label: Option<&[u8]>) -> Vec<At> {
        let is_its = |of: &Option<Vec<u8>>| of.is_none() || of.as_deref() == label;
        let any = self.found.iter().any(|(of, _)| is_its(of));
        self.found.iter().filter(|(of, _)| !any || is_its(of)).map(|(_, at)| *at).collect()
    }
}

/// The last passes of all ranks that have any.
fn parts(name: &str, profile: &Profile, courses: Vec<Course>, markers: &Markers) -> Result<Vec<Part>> {
    // A cut-out may end before its marker: it is one pass all the same.
    let is_cut_out = profile.ranks.iter().any(|rank| rank.cut_out.is_some());
    if markers.finder.is_some() && markers.found.is_empty() && !is_cut_out {
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
        let const_evals = begin.map_or_else(Vec::new, |begin| relied_on(rank, &course, first, begin));
        parts.push(Part { label: course.label, rank: index, from: course.from, of, begin, end, const_evals });
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
    /// The place of its first run.
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

/// The last pass of a rank by markers: a run is of the pass in which it begins.
fn marked(rank: &Rank, course: &Course, markers: &[At]) -> Option<Found> {
    let pass_of = |begin: &At| markers.partition_point(|marker| marker.next <= begin.offset);
    let last = pass_of(course.begins.last()?);
    let first = course.begins.partition_point(|begin| pass_of(begin) < last);
    let mut passes: Vec<usize> = course.begins.iter().map(pass_of).collect();
    passes.dedup();
    let run = course.begins[first];
    let others = last.checked_sub(1).map_or(run, |before| behind(markers[before]));
    // A marker may be printed while the last program still runs: then the pass goes on.
    let ended = rank.top_level_runs().last().map_or(0, |(_, run)| run.source.end);
    let end = markers.get(last).copied().filter(|marker| ended <= marker.next);
    let is_cut = first > 0 || course.process > 1;
    Some(Found { first, of: passes.len(), begin: is_cut.then_some(Begin { run, others }), end })
}

/// The place of the line behind another.
fn behind(line: At) -> At {
    At { line: line.line + 1, offset: line.next, next: line.next }
}

/// The const-eval runs before a pass whose results it asks for.
fn relied_on(rank: &Rank, course: &Course, first: usize, begin: Begin) -> Vec<(RunId, Range<u64>)> {
    let asked = course.asked.iter().filter(|(_, number)| *number > first);
    let mut runs: Vec<(RunId, Range<u64>)> = asked
        .filter_map(|(maker, _)| Some((*maker, rank.run(*maker)?.source)))
        .map(|(maker, source)| (maker, source.start..source.end))
        .filter(|(_, source)| source.start < begin.run.offset)
        .collect();
    runs.sort_unstable_by_key(|(_, source)| source.start);
    // One that ran inside of another is told with it.
    let mut end = 0;
    runs.retain(|(_, source)| {
        let apart = source.start >= end;
        end = end.max(source.end);
        apart
    });
    runs
}
