//! `ttmem last-run`: the last pass of a log, warm-up removed.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ttmem::read::{Cutting, LastPass, Progress};
use ttmem::{Error, Result};

use crate::replacing::{Output, beside, is_device, plainly};
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem last-run model_profile.log -o last.log      the last pass, in a log of its own
  ttmem last-run model.log | ttmem summary -        straight into an answer
  ttmem last-run model.log --marker 'Got output shape:' -o last.log
                                                    passes end where the program prints this
  ttmem last-run model.log --in-place               keep nothing but the last pass

`ttmem summary --run last` answers the same without a second log.

Exit codes: 0 written; 2 wrong usage, unreadable input, or no passes to tell apart; 4 no memory data in it.";

/// `ttmem last-run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LastRun {
    /// The log; `-` is standard input. A packed one (gzip, zstd) is unpacked.
    #[arg(value_name = "LOG")]
    pub log: String,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// A pass ends at each line with this text, instead of where the sequence of programs repeats.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub marker: Option<String>,

    /// Replace the log itself, all at once. A packed log stays packed.
    #[arg(long, conflicts_with = "output")]
    pub in_place: bool,

    /// Replace an existing file, unless it is a log, recording or profile.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Cuts the last pass out. Nothing is written before it is found.
pub(crate) fn run(args: &LastRun) -> Result<()> {
    let inputs = [&args.log];
    let output = Output::option(args.output.as_deref(), args.force, &inputs)?;
    let replaced = if args.in_place { Some(Replaced::find(&args.log)?) } else { None };
    let progress = Arc::new(Progress::default());
    let cutting = Cutting { marker: args.marker.clone(), progress: Some(Arc::clone(&progress)) };
    let mut pass = reading::with_bar(&progress, &args.log, || LastPass::find(&args.log, &cutting))?;
    tell(args, &pass);
    match (output, replaced) {
        (None, None) => to_standard_output(&mut pass),
        (Some(output), _) => reading::with_bar(&progress, &args.log, || to_file(&mut pass, &output)),
        (None, Some(_)) if pass.is_everything() => Ok(()),
        (None, Some(log)) => reading::with_bar(&progress, &args.log, || log.replace(&mut pass)),
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

/// Writes to a file: all of it, or nothing.
fn to_file(pass: &mut LastPass, output: &Output<'_>) -> Result<()> {
    let path = output.path();
    let failed = |source| Error::Write { path: path.into(), source };
    // A device or a pipe is no file that could be replaced.
    if is_device(path) {
        let out = OpenOptions::new().write(true).open(path).map_err(failed)?;
        return written(out, path, |out| pass.write(out, path)).map(|_| ());
    }
    let beside = beside(path, fs::metadata(path).ok().as_ref()).map_err(plainly(path))?;
    let file = beside.as_file().try_clone().map_err(failed)?;
    written(file, path, |out| pass.write(out, path))?;
    let kept = if output.replaces()? { beside.persist(path) } else { beside.persist_noclobber(path) };
    kept.map(|_| ()).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
        _ => failed(error.error),
    })
}

/// Writes to an open file, to its end.
fn written(file: File, path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<File> {
    let failed = |source| Error::Write { path: path.into(), source };
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(|error| failed(error.into_error()))
}

/// A log that gives way to its last pass.
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
            return Err(Error::NotThere(format!(
                "{log} is no file that could be replaced: leave --in-place out"
            )));
        }
        Ok(Self { path, metadata })
    }

    fn replace(&self, pass: &mut LastPass) -> Result<()> {
        let path = self.path.as_path();
        let failed = |source| Error::Write { path: path.into(), source };
        let beside = beside(path, Some(&self.metadata)).map_err(plainly(path))?;
        let file = beside.as_file().try_clone().map_err(failed)?;
        let file = written(file, path, |out| pass.write_alike(out, path))?;
        // The log is all there is of the run: it gives way only to what is on the disk.
        file.sync_all().map_err(failed)?;
        let now = fs::metadata(path).map_err(failed)?;
        if now.len() != self.metadata.len() || now.modified().ok() != self.metadata.modified().ok() {
            let message = format!("{} changed while it was cut, so it is left as it is", path.display());
            return Err(Error::NotThere(message));
        }
        beside.persist(path).map(|_| ()).map_err(|error| failed(error.error))
    }
}
