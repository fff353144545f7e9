//! The files of a report folder: what there are, and what stands in each.
//!
//! | file | holds |
//! |---|---|
//! | `<name>.ttmem` | the whole profile, all ranks |
//! | `<name>_summary.md` | the summary as Markdown |
//! | `<name>_summary.json` | the summary as `ttmem summary --json` prints it, all ranks |
//! | `<name>_about.json` | what a list of reports says of this one |
//! | `<name>_report.html` | the page, all ranks |
//! | `<name>_memory.json` | what was in memory before each operation |
//! | `<name>_operations.json` | what each operation is |
//! | `<name>_inputs_registry.json` | the arguments of every graph |
//! | `<name>_ir.json` | the texts of the graphs |
//!
//! The JSON files are of one rank. In a log of several, they are of the rank with the highest peak (of DRAM, as
//! a rule), because that is the one that runs out first; and every rank has files of its own besides,
//! `<name>_rank1-0_memory.json` and so on. Lists are written a row a line.
//!
//! Files are written one after the other into a folder that is there. That the folder is whole or absent for
//! everybody else is the business of [`store`](crate::store).

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use ttmem_model::{Error, Profile, Rank, Result, frame};
use ttmem_query::{About, IrFile, MemoryFile, OperationsFile, RegistryFile, Summary, highest_peak, in_order};

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

/// The files that are of one rank.
const OF_RANK: [&str; 4] = [MEMORY, OPERATIONS, REGISTRY, IR];

/// The files are written through a buffer of this size.
const BUFFER: usize = 256 << 10;

/// Writes all files of a report into a folder.
///
/// `answer` is the summary of the profile. `name` is the beginning of every file's name and must be a plain one. Texts of graphs are those that the
/// profile has taken along. Files that are `kept` are written, too, but not listed as part of the report.
pub fn write(profile: &Profile, answer: &Summary, name: &str, folder: &Path, kept: &[String]) -> Result<()> {
    let page = || {
        write_file(&folder.join(page_of(name)), |out| Ok(super::page(profile, answer, name, out)?))?;
        write_file(&folder.join(format!("{name}{SUMMARY}")), |out| Ok(super::markdown(answer, name, out)?))?;
        write_file(&folder.join(format!("{name}{SUMMARY_JSON}")), |out| Ok(super::json(answer, out)?))?;
        let files = names(profile, name).into_iter().filter(|file| !kept.contains(file)).collect();
        let about = AboutFile { about: About::of(answer), files };
        write_json(&folder.join(name), ABOUT, &about)
    };
    let rest = || {
        write_file(&folder.join(format!("{name}{PROFILE}")), |out| write_profile(profile, out))?;
        write_ranks(profile, name, folder)
    };
    with_threads(|| both(page, rest))
}

/// A report in a few words, and which files it has: who replaces it knows what to remove.
#[derive(Serialize, Deserialize)]
struct AboutFile {
    #[serde(flatten)]
    about: About,
    #[serde(default)]
    files: Vec<String>,
}

/// The files of the report of that name in a folder, as it says itself; `None` where there is no such report.
pub fn listed_in(folder: &Path, name: &str) -> Option<Vec<String>> {
    let text = fs::read(folder.join(about_of(name))).ok()?;
    let about: AboutFile = serde_json::from_slice(&text).ok()?;
    Some(about.files)
}

/// The names of all files of a report.
pub fn names(profile: &Profile, name: &str) -> Vec<String> {
    let of_report = [PROFILE, SUMMARY, SUMMARY_JSON, ABOUT, PAGE].map(|end| format!("{name}{end}"));
    let ranks = ranks(profile);
    let labels = if ranks.len() > 1 { labels(profile, &ranks) } else { Vec::new() };
    let bases = labels.iter().map(|label| format!("{name}_{label}")).chain([name.to_owned()]);
    let of_ranks = bases.filter(|_| !ranks.is_empty()).flat_map(|base| OF_RANK.map(|end| base.clone() + end));
    of_report.into_iter().chain(of_ranks).collect()
}

/// The ranks that have files.
fn ranks(profile: &Profile) -> Vec<&Rank> {
    in_order(profile)
}

fn write_ranks(profile: &Profile, name: &str, folder: &Path) -> Result<()> {
    let ranks = ranks(profile);
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

/// Does two things at once, where there are two cores.
fn both(one: impl FnOnce() -> Result<()> + Send, other: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let (one, other) = rayon::join(one, other);
    one.and(other)
}

/// The rank with the highest peak, of those of the process that comes first; of several, the one with the first label.
fn main_rank<'a>(profile: &Profile, ranks: &[&'a Rank]) -> Option<&'a Rank> {
    let label = |rank: &Rank| rank.label.map(|label| profile.text(label));
    let by_label = |rank: &Rank| Reverse((label(rank).map(str::len), label(rank)));
    let first = ranks.first()?.process;
    let of_first = ranks.iter().copied().filter(|rank| rank.process == first);
    of_first.max_by_key(|rank| (highest_peak(profile, rank), by_label(rank)))
}

/// Whether a file of that name is one of the JSON files of a rank, of a report of that name.
pub fn is_of_rank(name: &str, file: &str) -> bool {
    let Some(rest) = file.strip_prefix(name) else { return false };
    let is_part = rest.starts_with("_rank") || rest.starts_with("_process");
    OF_RANK.contains(&rest) || is_part && OF_RANK.iter().any(|end| rest.ends_with(end))
}

/// The name of the page of a report of that name.
pub fn page_of(name: &str) -> String {
    format!("{name}{PAGE}")
}

/// The name of the profile of a report of that name.
pub fn profile_of(name: &str) -> String {
    format!("{name}{PROFILE}")
}

/// The name of the memory file of a report of that name.
pub fn memory_of(name: &str) -> String {
    format!("{name}{MEMORY}")
}

/// The name of the Markdown of a report of that name.
pub fn markdown_of(name: &str) -> String {
    format!("{name}{SUMMARY}")
}

/// The name of the summary of a report of that name.
pub fn summary_of(name: &str) -> String {
    format!("{name}{SUMMARY_JSON}")
}

/// The name of the few words on a report of that name.
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

/// Ranks as parts of file names, each another: `rank1-0` for `1,0`, `process2` for the second process of a log.
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

/// What can go wrong while a file is filled.
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

/// Compact JSON, with each element of the outermost list on a line of its own.
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
