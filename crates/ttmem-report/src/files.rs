//! The files of a report folder and their contents.
//!
//! | file | contents |
//! |---|---|
//! | `<name>.ttmem` | the whole profile, all ranks |
//! | `<name>_summary.md` | the summary as Markdown |
//! | `<name>_summary.json` | the summary as `ttmem summary --json` prints it, all ranks |
//! | `<name>_about.json` | the report's entry in the list of reports |
//! | `<name>_report.html` | the page, all ranks |
//! | `<name>_memory.json` | the memory contents before each operation |
//! | `<name>_operations.json` | the operations |
//! | `<name>_inputs_registry.json` | the arguments of every graph |
//! | `<name>_ir.json` | the texts of the graphs |
//!
//! The JSON files cover one rank. If a log has several, it is the rank with the highest peak (usually of DRAM), because
//! that one runs out of memory first; every rank also has its own files, `<name>_rank1-0_memory.json` and so on. Lists
//! are written with one row per line.
//!
//! Files are written one after another into an existing folder. [`store`](crate::store) makes the replacement of a
//! whole report atomic.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use ttmem_model::{Error, Profile, Rank, Result, frame};
use ttmem_query::{
    About, DeviceKind, IrFile, MemoryFile, OperationsFile, RankOrder, RegistryFile, Summary, highest_peak,
    in_order,
};

use super::threads::with_threads;

const PROFILE: &str = ".ttmem";
const SUMMARY: &str = "_summary.md";
const SUMMARY_JSON: &str = "_summary.json";
const ABOUT: &str = "_about.json";
const PAGE: &str = "_report.html";
const MEMORY: &str = "_memory.json";
const OPERATIONS: &str = "_operations.json";
const REGISTRY: &str = "_inputs_registry.json";
const IR: &str = "_ir.json";

/// The files that cover one rank.
const OF_RANK: [&str; 4] = [MEMORY, OPERATIONS, REGISTRY, IR];

/// The size of the write buffer.
const BUFFER: usize = 256 << 10;

/// When the four JSON files of a rank are written. They have the format of Tenstorrent's tools. For a PyTorch program
/// they can be many times as large as its recording, and no tool reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonFiles {
    /// For ranks that ran on Tenstorrent devices, or whose device is unknown.
    #[default]
    IfUseful,
    /// For all ranks.
    Always,
}

impl JsonFiles {
    fn covers(self, profile: &Profile, rank: &Rank) -> bool {
        self == Self::Always || DeviceKind::of(profile, rank) != Some(DeviceKind::Torch)
    }
}

/// Writes all files of a report into a folder.
///
/// `answer` is the summary of the profile. `name` is the prefix of all file names and must be a plain name. Graph texts
/// are those embedded in the profile. Files in `kept` are written too, but not listed as part of the report.
pub fn write(
    profile: &Profile,
    answer: &Summary,
    name: &str,
    folder: &Path,
    kept: &[String],
    json: JsonFiles,
) -> Result<()> {
    let page = || {
        write_file(&folder.join(page_of(name)), |out| Ok(super::page(profile, answer, name, out)?))?;
        write_file(&folder.join(format!("{name}{SUMMARY}")), |out| {
            Ok(super::markdown(answer, name, super::MarkdownSize::default(), out)?)
        })?;
        write_file(&folder.join(format!("{name}{SUMMARY_JSON}")), |out| Ok(super::json(answer, out)?))?;
        let files = names(profile, name, json).into_iter().filter(|file| !kept.contains(file)).collect();
        let about = AboutFile { about: About::of(answer), files };
        write_json(&folder.join(name), ABOUT, &about)
    };
    let rest = || {
        write_file(&folder.join(format!("{name}{PROFILE}")), |out| write_profile(profile, out))?;
        write_ranks(profile, name, folder, json)
    };
    with_threads(|| both(page, rest))
}

/// A report's entry in the list of reports, and its files: the next report in the folder removes them.
#[derive(Serialize, Deserialize)]
struct AboutFile {
    #[serde(flatten)]
    about: About,
    #[serde(default)]
    files: Vec<String>,
}

/// The files of the named report in a folder, as listed in its own entry; `None` if there is no such report.
pub fn listed_in(folder: &Path, name: &str) -> Option<Vec<String>> {
    let text = fs::read(folder.join(about_of(name))).ok()?;
    let about: AboutFile = serde_json::from_slice(&text).ok()?;
    Some(about.files)
}

/// The names of all files of a report.
pub fn names(profile: &Profile, name: &str, json: JsonFiles) -> Vec<String> {
    let of_report = [PROFILE, SUMMARY, SUMMARY_JSON, ABOUT, PAGE].map(|end| format!("{name}{end}"));
    let ranks = ranks(profile, json);
    let labels = if ranks.len() > 1 { labels(profile, &ranks) } else { Vec::new() };
    let bases = labels.iter().map(|label| format!("{name}_{label}")).chain([name.to_owned()]);
    let of_ranks = bases.filter(|_| !ranks.is_empty()).flat_map(|base| OF_RANK.map(|end| base.clone() + end));
    of_report.into_iter().chain(of_ranks).collect()
}

/// The ranks with their own files.
fn ranks(profile: &Profile, json: JsonFiles) -> Vec<&Rank> {
    in_order(profile).into_iter().filter(|rank| json.covers(profile, rank)).collect()
}

fn write_ranks(profile: &Profile, name: &str, folder: &Path, json: JsonFiles) -> Result<()> {
    let ranks = ranks(profile, json);
    let Some(main) = main_rank(profile, &ranks) else { return Ok(()) };
    if let [only] = ranks[..] {
        return write_rank(profile, only, &folder.join(name));
    }
    for (rank, label) in ranks.iter().zip(labels(profile, &ranks)) {
        let base = folder.join(format!("{name}_{label}"));
        write_rank(profile, rank, &base)?;
        if std::ptr::eq(*rank, main) {
            copy_rank(&base, &folder.join(name))?;
        }
    }
    Ok(())
}

/// Runs two closures in parallel if there are two cores.
fn both(one: impl FnOnce() -> Result<()> + Send, other: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let (one, other) = rayon::join(one, other);
    one.and(other)
}

/// The rank with the highest peak among those of the first process; on a tie, the first by label.
fn main_rank<'a>(profile: &Profile, ranks: &[&'a Rank]) -> Option<&'a Rank> {
    let by_label = |rank: &Rank| Reverse(rank.label.map(|label| RankOrder::of(profile.text(label))));
    let first = ranks.first()?.process;
    let of_first = ranks.iter().copied().filter(|rank| rank.process == first);
    of_first.max_by_key(|rank| (highest_peak(profile, rank), by_label(rank)))
}

/// Whether a file is one of the per-rank JSON files of the named report.
pub fn is_of_rank(name: &str, file: &str) -> bool {
    let Some(rest) = file.strip_prefix(name) else { return false };
    let is_part = rest.starts_with("_rank") || rest.starts_with("_process");
    OF_RANK.contains(&rest) || is_part && OF_RANK.iter().any(|end| rest.ends_with(end))
}

/// The file name of a report's page.
pub fn page_of(name: &str) -> String {
    format!("{name}{PAGE}")
}

/// The file name of a report's profile.
pub fn profile_of(name: &str) -> String {
    format!("{name}{PROFILE}")
}

/// The file name of a report's memory file.
pub fn memory_of(name: &str) -> String {
    format!("{name}{MEMORY}")
}

/// The file name of a report's Markdown.
pub fn markdown_of(name: &str) -> String {
    format!("{name}{SUMMARY}")
}

/// The file name of a report's summary.
pub fn summary_of(name: &str) -> String {
    format!("{name}{SUMMARY_JSON}")
}

/// The file name of a report's entry in the list of reports.
pub fn about_of(name: &str) -> String {
    format!("{name}{ABOUT}")
}

fn write_rank(profile: &Profile, rank: &Rank, base: &Path) -> Result<()> {
    let span = ttmem_query::analyze::Span::whole(rank);
    both(
        || write_json(base, MEMORY, &MemoryFile { profile, rank, span }),
        || {
            write_json(base, OPERATIONS, &OperationsFile { profile, rank, span })?;
            write_json(base, REGISTRY, &RegistryFile { profile, rank })?;
            write_json(base, IR, &IrFile { profile, rank })
        },
    )
}

fn copy_rank(from: &Path, to: &Path) -> Result<()> {
    for end in OF_RANK {
        let to = with_end(to, end);
        fs::copy(with_end(from, end), &to).map_err(|source| Error::Write { path: to, source })?;
    }
    Ok(())
}

fn with_end(base: &Path, end: &str) -> std::path::PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Ranks as unique parts of file names: `rank1-0` for `1,0`, `process2` for the second process in a log.
fn labels(profile: &Profile, ranks: &[&Rank]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (number, rank) in ranks.iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '@');
        let label = rank.label.map_or("", |label| profile.text(label));
        let label: String = label.chars().take(40).map(|c| if is_plain(c) { c } else { '-' }).collect();
        let mut part = match (label.is_empty(), rank.process) {
            (true, Some(process)) => format!("process{process}"),
            (false, Some(process)) => format!("rank{label}_process{process}"),
            (_, None) => format!("rank{label}"),
        };
        if part == "rank" || labels.contains(&part) {
            part = format!("{part}.{number}");
        }
        labels.push(part);
    }
    labels
}

/// An error while writing a file.
enum Failure {
    Write(io::Error),
    Other(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn write_profile(profile: &Profile, out: &mut dyn Write) -> Result<(), Failure> {
    let mut writer = frame::Writer::create(out, PROFILE)?;
    profile.replay(&mut writer)?;
    writer.finish()?;
    Ok(())
}

fn write_json(base: &Path, end: &str, content: &impl Serialize) -> Result<()> {
    write_file(&with_end(base, end), |out| {
        content.serialize(&mut Serializer::with_formatter(&mut *out, RowsOnLines::default()))?;
        Ok(out.write_all(b"\n")?)
    })
}

fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut out = BufWriter::with_capacity(BUFFER, File::create(path).map_err(failed)?);
    match fill(&mut out) {
        Ok(()) => out.into_inner().map(drop).map_err(|error| failed(error.into_error())),
        Err(Failure::Write(source) | Failure::Other(Error::Write { source, .. })) => Err(failed(source)),
        Err(Failure::Other(error)) => Err(error),
    }
}

/// Compact JSON with one line per element of the outermost list.
#[derive(Default)]
struct RowsOnLines {
    lists: usize,
}

impl Formatter for RowsOnLines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists -= 1;
        out.write_all(if self.lists == 0 { b"\n]" } else { b"]" })
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match (first, self.lists) {
            (true, 1) => out.write_all(b"\n"),
            (false, 1) => out.write_all(b",\n"),
            (true, _) => Ok(()),
            (false, _) => out.write_all(b","),
        }
    }
}
