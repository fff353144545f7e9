//! The last pass of a log: `ttmem last-run`.
//!
//! The log is read twice. The first reading builds its profile and finds the lines where the last pass of each rank
//! begins and ends. The second one copies these lines and all module dumps, unchanged (`cutter`). The lines do not
//! contain what was allocated before the pass; the profile of the pass does (`excerpt`).
//!
//! `rules::passes` defines a pass. With a marker, each line that contains the marker ends a pass.

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
use crate::lines::{Line, is_corruption};
use crate::reread::Reread;

/// How to find the last pass, and which parts of it to keep.
#[derive(Clone, Debug, Default)]
pub struct Cutting {
    /// Ends a pass at each line with this text, instead of when the sequence of programs repeats.
    pub marker: Option<String>,
    /// Keep the texts of compiled graphs for [`LastPass::profile`].
    pub keep_texts: bool,
    /// Receives the read progress.
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
    /// The number of lines in the log.
    lines: u64,
}

/// The last pass of one rank.
#[derive(Clone, Debug)]
struct Part {
    /// The label of its lines.
    label: Option<Vec<u8>>,
    /// The index of the rank.
    rank: usize,
    /// The offset where the lines of its process begin. Earlier modules belong to other processes.
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

/// The beginning of a pass.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The first line of its first run.
    run: At,
    /// The first line of other writers during the pass: a marker ends the previous pass, even while a program is
    /// running.
    others: At,
}

impl LastPass {
    /// Finds the last pass of a log (`-` is standard input).
    pub fn find(name: &str, cutting: &Cutting) -> Result<Self> {
        let mut source = Reread::open(name, cutting.progress.clone())?;
        let content = source.content()?;
        let (reader, _) = pick(name, &content.head, None)?;
        if reader.name() != TtLog.name() {
            let message =
                format!("{name}: not a log but {}; use `ttmem summary --run last` instead", reader.about());
            return Err(Error::NotFound(message));
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

    /// The number of passes of each rank, with its label if lines are tagged.
    pub fn passes(&self) -> impl Iterator<Item = (Option<String>, usize)> {
        self.parts.iter().map(|part| (part.label(), part.of))
    }

    /// Whether the log has only one pass, so that the pass is the whole log.
    pub fn is_everything(&self) -> bool {
        self.parts.iter().all(|part| part.begin.is_none())
    }

    /// The first and the last line of the pass, and the number of lines in the log.
    pub fn lines(&self) -> (u64, u64, u64) {
        let first = self.parts.iter().map(|part| part.begin.map_or(1, |begin| begin.others.line)).min();
        let last = self.parts.iter().map(|part| part.end.map_or(self.lines, |end| end.line)).max();
        (first.unwrap_or(1), last.unwrap_or(self.lines), self.lines)
    }

    /// The profile of the pass, including tensors allocated before it that are still live.
    pub fn profile(&self) -> Result<Profile> {
        excerpt::profile(&self.name, &self.profile, &self.parts, self.processes.as_ref())
    }

    /// Writes the profile of the pass as a `.ttmem` file. `path` is only used in error messages.
    pub fn write_profile(&self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let mut writer = Writer::create(out, path)?;
        self.profile()?.replay(&mut writer)?;
        writer.finish().map(drop)
    }

    /// Writes the lines of the pass, compressed like the log. `path` is only used in error messages.
    pub fn write_alike(&mut self, out: &mut dyn Write, path: &Path) -> Result<()> {
        let failed = |source| Error::Write { path: path.into(), source };
        match self.packing {
            // The lines of a log of Docker or in UTF-16 are written as text.
            None | Some(Packing::Docker | Packing::Utf16) => self.write(out, path),
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

    /// Writes the lines of the pass as text. `path` is only used in error messages.
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
            // The first reading has already warned about it.
            Err(error) if is_corruption(&error) => 0,
            Err(source) => return Err(Error::Read { path: name.into(), source }),
        };
        if read == 0 {
            return Ok(());
        }
        out.write_all(&block[..read]).map_err(|source| Error::Write { path: path.into(), source })?;
    }
}

/// What the first reading found out about a rank.
struct Course {
    label: Option<Vec<u8>>,
    /// The number of its process, from 1, and the offset where its lines begin.
    process: u32,
    from: u64,
    /// The starts of its top-level runs; without programs, the first activity after each marker.
    begins: Vec<At>,
    /// Whether `begins` are runs.
    has_runs: bool,
}

/// The lines that end passes.
struct Markers {
    finder: Option<Finder<'static>>,
    /// The label and line of each marker.
    found: Vec<(Option<Vec<u8>>, At)>,
    /// For each rank, the first activity outside programs after each marker.
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

    /// Records the first activity since the last marker.
    fn gather(&mut self, log: &mut Log<'_, '_>) {
        self.nameless.resize_with(log.ranks.len(), Vec::new);
        for (rank, begins) in log.ranks.iter_mut().zip(&mut self.nameless) {
            begins.extend(rank.state.take_nameless());
        }
    }

    /// The findings for each rank, after the last line.
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

    /// The markers of a rank: its own and those without a tag, or all markers if it has neither.
    fn of(&self, label: Option<&[u8]>) -> Vec<At> {
        let is_its = |of: &Option<Vec<u8>>| of.is_none() || of.as_deref() == label;
        let any = self.found.iter().any(|(of, _)| is_its(of));
        self.found.iter().filter(|(of, _)| !any || is_its(of)).map(|(_, at)| *at).collect()
    }
}

/// The last passes of all ranks that have any.
fn parts(name: &str, profile: &Profile, courses: Vec<Course>, markers: &Markers) -> Result<Vec<Part>> {
    if markers.finder.is_some() && markers.found.is_empty() {
        return Err(Error::NotFound(format!(
            "{name}: no line contains the --marker text; check its spelling, or omit --marker"
        )));
    }
    let mut parts = Vec::new();
    // The last process of each label has the last pass.
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
        let Some(PassBounds { first, of, begin, end }) = found else { continue };
        parts.push(Part { label: course.label, rank: index, from: course.from, of, first, begin, end });
    }
    if parts.is_empty() {
        return Err(Error::NotFound(format!(
            "{name}: the log does not name programs, so its passes can't be detected; capture with \
             TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG, or pass --marker with text that appears on the last line of each \
             pass"
        )));
    }
    Ok(parts)
}

/// The bounds of a last pass.
struct PassBounds {
    /// The index of its first run.
    first: usize,
    of: usize,
    begin: Option<Begin>,
    end: Option<At>,
}

/// The last pass of a rank, by the repetition of its programs.
fn repeated(rank: &Rank, course: &Course) -> Option<PassBounds> {
    let passes = Passes::of(rank);
    let first = passes.last_begins()?;
    let run = *course.begins.get(first)?;
    let begin = (first > 0 || course.process > 1).then_some(Begin { run, others: run });
    Some(PassBounds { first, of: passes.count(), begin, end: None })
}

/// The last pass of a rank, by markers. A run belongs to the pass that it begins in.
fn marked(rank: &Rank, course: &Course, markers: &[At]) -> Option<PassBounds> {
    let pass_of = |begin: &At| markers.partition_point(|marker| marker.next <= begin.offset);
    let last = pass_of(course.begins.last()?);
    let first = course.begins.partition_point(|begin| pass_of(begin) < last);
    let mut passes: Vec<usize> = course.begins.iter().map(pass_of).collect();
    passes.dedup();
    let run = course.begins[first];
    let others = last.checked_sub(1).map_or(run, |before| line_after(markers[before]));
    // A marker may be printed while the last program is still running; then the pass continues.
    let ended = rank.top_level_runs().last().map_or(0, |(_, run)| run.source.end);
    let end = markers.get(last).copied().filter(|marker| ended <= marker.next);
    let is_cut = first > 0 || course.process > 1;
    Some(PassBounds { first, of: passes.len(), begin: is_cut.then_some(Begin { run, others }), end })
}

fn line_after(line: At) -> At {
    At { line: line.line + 1, offset: line.next, next: line.next }
}
