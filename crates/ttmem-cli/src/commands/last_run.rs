//! `ttmem last-run`: extracts the last pass of a log, without warm-up.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use tempfile::NamedTempFile;
use ttmem::read::{Cutting, LastPass, Progress};
use ttmem::{Error, Result};

use crate::replacing::{Output, beside, is_device, is_same_place, write_error};
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem last-run model.log -o last.log --profile last.ttmem
                                                    extract the lines and the exact profile
  ttmem summary last.ttmem                          same as `ttmem summary model.log --run last`
  ttmem last-run model.log --marker 'Got output shape:' -o last.log
                                                    end passes where the program prints this
  ttmem last-run model.log --in-place --profile last.ttmem
                                                    shorten the log to its last pass

The profile includes memory allocated before the pass; the lines do not.

Exit codes: 0 success; 2 wrong usage, unreadable input or no separate passes; 4 no memory data.";

/// `ttmem last-run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("file").args(["output", "profile"]).multiple(true)))]
pub(crate) struct LastRun {
    /// Log, optionally compressed (gzip, zstd); `-` is standard input.
    #[arg(value_name = "LOG")]
    pub log: String,

    /// Write the lines to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the profile of the pass, including tensors allocated before it.
    #[arg(long, value_name = "FILE.ttmem")]
    pub profile: Option<PathBuf>,

    /// End passes at lines with this text, instead of where the program sequence repeats.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub marker: Option<String>,

    /// Replace the log itself, atomically; requires --profile. A compressed log stays compressed.
    #[arg(long, conflicts_with = "output")]
    pub in_place: bool,

    /// Replace existing files, unless they are logs, recordings or profiles.
    #[arg(long, requires = "file")]
    pub force: bool,
}

impl LastRun {
    fn check(&self) -> Result<()> {
        let profile = self.profile.as_deref();
        let message = if profile == Some(Path::new("-")) {
            "--profile needs a file name; standard output is used for the lines"
        } else if self.in_place && profile.is_none_or(is_device) {
            "--in-place requires --profile FILE.ttmem, because the remaining lines do not show memory allocated \
             before the last pass"
        } else if profile
            .zip(self.output.as_deref())
            .is_some_and(|(profile, output)| is_same_place(profile, output))
        {
            "--output and --profile name the same file"
        } else {
            return Ok(());
        };
        Err(Error::Usage(message.into()))
    }
}

/// The destination of the lines.
enum Target<'a> {
    StandardOutput,
    File(Output<'a>),
    Log(Replaced),
}

/// Extracts the last pass. Nothing is written before it is found, and files are renamed only after all are complete.
pub(crate) fn run(args: &LastRun) -> Result<()> {
    args.check()?;
    let inputs = [&args.log];
    let target = match Output::option(args.output.as_deref(), args.force, &inputs)? {
        Some(output) => Target::File(output),
        None if args.in_place => Target::Log(Replaced::find(&args.log)?),
        None => Target::StandardOutput,
    };
    let profile = args.profile.as_deref().map(|path| Output::at(path, args.force, &inputs)).transpose()?;
    let progress = Arc::new(Progress::default());
    let cutting = Cutting {
        marker: args.marker.clone(),
        keep_texts: profile.is_some(),
        progress: Some(Arc::clone(&progress)),
    };
    let mut pass = reading::with_bar(&progress, &args.log, || LastPass::find(&args.log, &cutting))?;
    print_notes(args, &pass);
    let profile = match &profile {
        Some(output) => Staged::write(output, |out| pass.write_profile(out, output.path()))?,
        None => None,
    };
    match target {
        Target::StandardOutput => {
            Staged::keep_all(profile)?;
            to_standard_output(&mut pass)
        }
        Target::File(output) => {
            let write = || Staged::write(&output, |out| pass.write(out, output.path()));
            let lines = reading::with_bar(&progress, &args.log, write)?;
            Staged::keep_all(profile.into_iter().chain(lines))
        }
        Target::Log(_) if pass.is_everything() => Staged::keep_all(profile),
        Target::Log(log) => {
            let lines = reading::with_bar(&progress, &args.log, || log.stage(&mut pass))?;
            Staged::keep_all(profile)?;
            log.replace(lines)
        }
    }
}

/// Prints warnings, and what was found.
fn print_notes(args: &LastRun, pass: &LastPass) {
    console::warn_of(&args.log, pass.warnings());
    if pass.is_everything() {
        let hint = if args.marker.is_none() { "; to split it, pass --marker TEXT" } else { "" };
        console::note(&format!("{}: the log has a single pass, which is copied whole{hint}", args.log));
        return;
    }
    console::detail(|| {
        let (first, last, lines) = pass.lines();
        let of_rank = |(rank, of): (Option<String>, usize)| match rank {
            Some(rank) => format!("pass {of} of {of} of rank {rank}"),
            None => format!("pass {of} of {of}"),
        };
        let passes: Vec<String> = pass.passes().map(of_rank).collect();
        format!("{}: {}, lines {first} to {last} of {lines}", args.log, passes.join(", "))
    });
}

fn to_standard_output(pass: &mut LastPass) -> Result<()> {
    let path = Path::new("standard output");
    let mut out = BufWriter::new(io::stdout().lock());
    let flushed = |mut out: BufWriter<io::StdoutLock<'_>>| {
        out.flush().map_err(|source| Error::Write { path: path.into(), source })
    };
    match pass.write(&mut out, path).and_then(|()| flushed(out)) {
        // The reader closed the pipe.
        Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A complete temporary file in the folder of the output that it becomes.
struct Staged<'a> {
    output: &'a Output<'a>,
    file: NamedTempFile,
}

impl<'a> Staged<'a> {
    /// Writes a file and syncs it. `None` for a device or a pipe, which is written directly.
    fn write(
        output: &'a Output<'a>,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<Option<Self>> {
        let path = output.path();
        if is_device(path) {
            let failed = |source| Error::Write { path: path.into(), source };
            let out = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return filled(out, path, write).map(|_| None);
        }
        let file = write_beside(path, fs::metadata(path).ok().as_ref(), write)?;
        Ok(Some(Self { output, file }))
    }

    /// Renames the files; all of them are checked before the first is renamed.
    fn keep_all(staged: impl IntoIterator<Item = Self>) -> Result<()> {
        let staged: Vec<Self> = staged.into_iter().collect();
        let replaces = staged.iter().map(Self::replaces).collect::<Result<Vec<bool>>>()?;
        staged.into_iter().zip(replaces).try_for_each(|(file, replaces)| file.keep(replaces))
    }

    /// Whether it replaces an existing file.
    fn replaces(&self) -> Result<bool> {
        let path = self.output.path();
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Error::Directory { path: path.into() });
        }
        self.output.replaces()
    }

    fn keep(self, replaces: bool) -> Result<()> {
        let path = self.output.path();
        let kept = if replaces { self.file.persist(path) } else { self.file.persist_noclobber(path) };
        kept.map(|_| ()).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
            _ => Error::Write { path: path.into(), source: error.error },
        })
    }
}

/// Writes a temporary file in the folder of `path` and syncs it.
fn write_beside(
    path: &Path,
    like: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<NamedTempFile> {
    let failed = |source| Error::Write { path: path.into(), source };
    let beside = beside(path, like).map_err(write_error(path))?;
    let file = filled(beside.as_file().try_clone().map_err(failed)?, path, write)?;
    file.sync_all().map_err(failed)?;
    Ok(beside)
}

/// Writes the content of an open file.
fn filled(file: File, path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<File> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(|error| Error::Write { path: path.into(), source: error.into_error() })
}

/// A log that is replaced by its last pass.
struct Replaced {
    path: PathBuf,
    metadata: Metadata,
}

impl Replaced {
    /// The file that a name refers to, with symbolic links resolved.
    fn find(log: &str) -> Result<Self> {
        if log == "-" {
            let message = "standard input cannot be replaced; omit --in-place or pass a file";
            return Err(Error::NotFound(message.into()));
        }
        let failed = |source| Error::Read { path: log.into(), source };
        let path = fs::canonicalize(log).map_err(failed)?;
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::Directory { path });
        }
        if !metadata.is_file() {
            return Err(Error::NotFound(format!("{log}: not a regular file; omit --in-place")));
        }
        Ok(Self { path, metadata })
    }

    /// Writes the lines to a temporary file next to the log. An error if the log has changed meanwhile.
    fn stage(&self, pass: &mut LastPass) -> Result<NamedTempFile> {
        let path = self.path.as_path();
        let staged = write_beside(path, Some(&self.metadata), |out| pass.write_alike(out, path))?;
        let now = fs::metadata(path).map_err(|source| Error::Write { path: path.into(), source })?;
        if now.len() != self.metadata.len() || now.modified().ok() != self.metadata.modified().ok() {
            let message = format!("{}: changed while being read; not replaced", path.display());
            return Err(Error::NotFound(message));
        }
        Ok(staged)
    }

    fn replace(&self, lines: NamedTempFile) -> Result<()> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        lines.persist(&self.path).map(|_| ()).map_err(|error| failed(error.error))
    }
}
