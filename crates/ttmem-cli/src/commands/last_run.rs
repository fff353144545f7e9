//! `ttmem last-run`: the last pass of a log, warm-up removed.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use tempfile::NamedTempFile;
use ttmem::read::{Cutting, LastPass, Progress};
use ttmem::{Error, Result};

use crate::replacing::{Output, beside, is_device, is_same_place, plainly};
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem last-run model.log -o last.log --profile last.ttmem
                                                    the lines of the last pass, and its exact profile
  ttmem summary last.ttmem                          what `ttmem summary model.log --run last` reports
  ttmem last-run model.log --marker 'Got output shape:' -o last.log
                                                    passes end where the program prints this
  ttmem last-run model.log --in-place --profile last.ttmem
                                                    shorten the log to its last pass

The lines do not say what was allocated before the pass; the profile does.

Exit codes: 0 written; 2 wrong usage, unreadable input, or no passes to tell apart; 4 no memory data in it.";

/// `ttmem last-run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("file").args(["output", "profile"]).multiple(true)))]
pub(crate) struct LastRun {
    /// The log; `-` is standard input. A packed one (gzip, zstd) is unpacked.
    #[arg(value_name = "LOG")]
    pub log: String,

    /// Write the lines to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the profile of the pass, with the tensors that were alive before it.
    #[arg(long, value_name = "FILE.ttmem")]
    pub profile: Option<PathBuf>,

    /// A pass ends at each line with this text, instead of where the sequence of programs repeats.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub marker: Option<String>,

    /// Replace the log itself, atomically; requires --profile. A packed log stays packed.
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
            "--profile needs the name of a file: standard output is for the lines"
        } else if self.in_place && profile.is_none_or(is_device) {
            "--in-place requires --profile FILE.ttmem: the lines that remain do not say what was allocated before the last \
             pass"
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

/// Where the lines of the pass go.
enum Target<'a> {
    StandardOutput,
    File(Output<'a>),
    Log(Replaced),
}

/// Cuts the last pass out. Nothing is written before it is found, and no file takes its place before all are complete.
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
    tell(args, &pass);
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

/// Says what was found, as far as people must know it.
fn tell(args: &LastRun, pass: &LastPass) {
    console::warn_of(&args.log, pass.warnings());
    if pass.is_everything() {
        let hint = if args.marker.is_none() { "; --marker TEXT ends passes at a line instead" } else { "" };
        console::note(&format!("{}: there is only one pass, all of it is kept{hint}", args.log));
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
        // Whoever reads has seen enough.
        Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A file that is complete, beside the place that it takes.
struct Staged<'a> {
    output: &'a Output<'a>,
    file: NamedTempFile,
}

impl<'a> Staged<'a> {
    /// Writes a file, up to the disk. `None` for a device or a pipe, which cannot be replaced: it gets all of it now.
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

    /// Renames the files to their places: all of them are checked before the first is renamed.
    fn keep_all(staged: impl IntoIterator<Item = Self>) -> Result<()> {
        let staged: Vec<Self> = staged.into_iter().collect();
        let replaces = staged.iter().map(Self::replaces).collect::<Result<Vec<bool>>>()?;
        staged.into_iter().zip(replaces).try_for_each(|(file, replaces)| file.keep(replaces))
    }

    /// Whether it takes the place of an existing file.
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

/// Writes a file beside another, up to the disk.
fn write_beside(
    path: &Path,
    like: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<NamedTempFile> {
    let failed = |source| Error::Write { path: path.into(), source };
    let beside = beside(path, like).map_err(plainly(path))?;
    let file = filled(beside.as_file().try_clone().map_err(failed)?, path, write)?;
    file.sync_all().map_err(failed)?;
    Ok(beside)
}

/// Fills an open file.
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
    /// The file behind a name; a link stays a link.
    fn find(log: &str) -> Result<Self> {
        if log == "-" {
            let message = "standard input cannot be replaced: leave --in-place out, or name the file";
            return Err(Error::NotThere(message.into()));
        }
        let failed = |source| Error::Read { path: log.into(), source };
        let path = fs::canonicalize(log).map_err(failed)?;
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::Directory { path });
        }
        if !metadata.is_file() {
            return Err(Error::NotThere(format!("{log} is not a regular file: leave --in-place out")));
        }
        Ok(Self { path, metadata })
    }

    /// Writes the lines of the pass beside the log. An error if the log has changed meanwhile.
    fn stage(&self, pass: &mut LastPass) -> Result<NamedTempFile> {
        let path = self.path.as_path();
        let staged = write_beside(path, Some(&self.metadata), |out| pass.write_alike(out, path))?;
        let now = fs::metadata(path).map_err(|source| Error::Write { path: path.into(), source })?;
        if now.len() != self.metadata.len() || now.modified().ok() != self.metadata.modified().ok() {
            let message = format!("{} changed while it was cut, so it is left as it is", path.display());
            return Err(Error::NotThere(message));
        }
        Ok(staged)
    }

    fn replace(&self, lines: NamedTempFile) -> Result<()> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        lines.persist(&self.path).map(|_| ()).map_err(|error| failed(error.error))
    }
}
