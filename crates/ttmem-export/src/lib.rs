//! Exports what `ttmem` reads as Parquet files, for SQL questions on many ranks and runs. docs/fleet.md describes the
//! tables.
//!
//! `rows` turns the responses of `ttmem::query` into rows, `table` writes them, and `dataset` decides which files count.
//! Every number comes from `ttmem::query`.

mod arguments;
mod cells;
mod dataset;
mod folder;
mod rows;
mod table;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ttmem::model::Profile;
use ttmem::model::words::{counted, counted_as};
use ttmem::query::{self, Lives};
use ttmem::read::{self, Options, Progress};
use ttmem::{Error, Result, report};

pub use arguments::Request;
use dataset::Export;
use folder::Files;
use rows::Origin;

/// Runs the program with its arguments; returns the exit code.
pub fn run(words: &[OsString]) -> Result<u8> {
    let request = Request::parse(words)?;
    check_some_exist(&request.inputs)?;
    let mut first_error = None;
    let notify = |notice: Notice<'_>| {
        // If standard error is closed, the row in `runs` still has the error.
        let _ = match notice {
            Notice::Failed(error) => {
                first_error.get_or_insert(error.exit_code());
                writeln!(io::stderr(), "ttmem: {error}")
            }
            Notice::LeftOut { .. } if request.quiet => Ok(()),
            Notice::LeftOut { folder, count } => {
                let others =
                    counted_as(count, "recording of another program is", "recordings of other programs are");
                writeln!(
                    io::stderr(),
                    "ttmem: {folder}: {others} not exported; pass their files to export them"
                )
            }
        };
    };
    let done = export(&request, &Arc::default(), notify)?;
    if !request.quiet {
        let errors = match done.errors {
            0 => String::new(),
            1 => "; 1 error recorded as a row of `runs`".to_owned(),
            errors => format!("; {errors} errors recorded as rows of `runs`"),
        };
        let ranks = counted(done.ranks, "rank");
        let inputs = counted(request.inputs.len(), "input");
        // If standard error is closed, the exit code still says that it worked.
        let _ = writeln!(
            io::stderr(),
            "ttmem: exported {ranks} from {inputs} to {}{errors}",
            request.dataset.display()
        );
    }
    Ok(first_error.filter(|_| done.ranks == 0).unwrap_or_default())
}

/// An error if there is none of the inputs: their names are wrong, so that a dataset with their runs would be as well.
fn check_some_exist(inputs: &[String]) -> Result<()> {
    let mut missing = None;
    for input in inputs {
        match fs::symlink_metadata(input) {
            Err(source) if input != "-" && source.kind() == io::ErrorKind::NotFound => {
                missing.get_or_insert(Error::Read { path: input.into(), source });
            }
            _ => return Ok(()),
        }
    }
    missing.map_or(Ok(()), Err)
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of ranks.
    pub ranks: usize,
    /// The number of rows in all tables.
    pub rows: usize,
    /// The number of files that could not be read.
    pub errors: usize,
}

/// What an export reports while it is running.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// A file could not be read.
    Failed(&'a Error),
    /// Recordings of other programs than the newest one in a folder are not exported.
    LeftOut {
        /// The folder.
        folder: &'a str,
        /// The number of recordings.
        count: usize,
    },
}

/// An input and its run.
struct Source {
    run: String,
    input: String,
    path: String,
}

/// Exports all inputs. Each run becomes visible as a whole. A file that cannot be read is a row of `runs` with its error,
/// which is also passed to `notify`. If `progress` is stopped, the current run is not exported.
pub fn export(
    request: &Request,
    progress: &Arc<Progress>,
    mut notify: impl FnMut(Notice<'_>),
) -> Result<Exported> {
    if request.run.is_none() && request.inputs.iter().any(|input| input == "-") {
        return Err(Error::Usage("-: standard input has no name; pass --run NAME".into()));
    }
    let sources: Vec<Source> = request.inputs.iter().map(|input| Source::of(input, request)).collect();
    let mut runs: Vec<&str> = Vec::new();
    for source in &sources {
        if !runs.contains(&source.run.as_str()) {
            runs.push(&source.run);
        }
    }
    let mut exporting = Exporting { request, progress, notify: &mut notify, done: Exported::default() };
    for run in runs {
        let of_run: Vec<&Source> = sources.iter().filter(|source| source.run == run).collect();
        exporting.run(run, &of_run)?;
    }
    Ok(exporting.done)
}

/// A call of [`export`].
struct Exporting<'a> {
    request: &'a Request,
    progress: &'a Arc<Progress>,
    notify: &'a mut dyn FnMut(Notice<'_>),
    done: Exported,
}

impl Exporting<'_> {
    fn run(&mut self, run: &str, sources: &[&Source]) -> Result<()> {
        let request = self.request;
        let host = request.host.clone().unwrap_or_else(dataset::host);
        let id = |source: &&Source| {
            let key = format!("{run}\n{host}\n{}", source.path);
            format!("{:016x}", xxhash_rust::xxh3::xxh3_64(key.as_bytes()))
        };
        let mut ids: Vec<String> = sources.iter().map(id).collect();
        let mut export = Export::start(&request.dataset, run, &ids)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for (index, source) in sources.iter().enumerate() {
            // The same input twice is one source.
            let id = std::mem::take(&mut ids[index]);
            if sources[..index].iter().any(|earlier| earlier.path == source.path) {
                continue;
            }
            let origin = Origin {
                run,
                source_id: &id,
                source: &source.path,
                source_host: &host,
                labels: &request.labels,
                exported_ns: i64::try_from(now).unwrap_or(i64::MAX),
            };
            let Files { files, left_out: count } = Files::of(&source.input);
            if count > 0 {
                (self.notify)(Notice::LeftOut { folder: &source.input, count });
            }
            for (file, path) in files.iter().enumerate() {
                self.file(&mut export, &origin, (file, path))?;
            }
        }
        self.done.rows += export.rows();
        export.commit()
    }

    fn file(
        &mut self,
        export: &mut Export<'_>,
        origin: &Origin<'_>,
        (file, path): (usize, &str),
    ) -> Result<()> {
        let progress = Some(Arc::clone(self.progress));
        let options = Options { format: self.request.format.clone(), progress, ..Options::default() };
        let ask = query::Request::default();
        let read = read::open_with(path, &options).and_then(|profile| {
            let profiles = [profile];
            let summary = query::summary(&profiles, &ask)?;
            Ok((profiles, summary))
        });
        if self.progress.is_stopped() {
            let source = io::ErrorKind::Interrupted.into();
            return Err(Error::Write { path: self.request.dataset.clone(), source });
        }
        let (profiles, summary): ([Profile; 1], query::Summary) = match read {
            Ok(read) => read,
            Err(error @ Error::NoSuchFormat { .. }) => return Err(error),
            Err(error) => {
                (self.notify)(Notice::Failed(&error));
                self.done.errors += 1;
                return rows::failed(export, origin, (file, path), &error);
            }
        };
        for index in 0..summary.ranks.len() {
            let lives = Lives::new(&profiles, index, &ask)?;
            rows::rank(export, origin, file, (&summary, index), &lives)?;
            self.done.ranks += 1;
        }
        Ok(())
    }
}

impl Source {
    fn of(input: &str, request: &Request) -> Self {
        let path = if input == "-" { PathBuf::from(input) } else { absolute(Path::new(input)) };
        let name = || {
            let folder =
                path.file_name().filter(|_| path.is_dir()).map(|name| name.to_string_lossy().into_owned());
            folder.unwrap_or_else(|| report::title_of(&path.to_string_lossy()))
        };
        Self {
            run: request.run.clone().unwrap_or_else(name),
            input: input.to_owned(),
            path: path.to_string_lossy().into_owned(),
        }
    }
}

/// The path without links. A missing file has none, and is still a source with an error.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
