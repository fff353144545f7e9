//! The two streams: results go to standard output, everything else to standard error.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use ttmem::model::Warning;
use ttmem::query::{SourceSummary, WarningSummary};
use ttmem::report::{Line, Screen, Style as Meaning, Text};
use ttmem::{Error, Result};

use crate::args::Loudness;
use crate::replacing::{Output, is_device};

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();

static LOUDNESS: OnceLock<Loudness> = OnceLock::new();

/// Sets how much is said, once, at the start.
pub(crate) fn set_loudness(loudness: Loudness) {
    // The first setting holds.
    let _ = LOUDNESS.set(loudness);
}

/// Whether only results and errors are wanted.
pub(crate) fn is_quiet() -> bool {
    LOUDNESS.get().is_some_and(|loudness| loudness.quiet)
}

/// Says something for those who want to know more.
pub(crate) fn detail(text: impl FnOnce() -> String) {
    if LOUDNESS.get().is_some_and(|loudness| loudness.verbose) {
        say(&text());
    }
}

/// Says something that is neither result nor error, unless only those are wanted.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say(text);
    }
}

/// Says why there is no answer; returns the exit code.
pub(crate) fn fail(error: &Error) -> u8 {
    complain(error);
    error.exit_code()
}

/// Says an error, and goes on.
pub(crate) fn complain(error: &Error) {
    say(&format!("{RED}ttmem:{RED:#} {error}"));
}

/// Says that it is our fault; returns the exit code.
pub(crate) fn bug() -> u8 {
    say(&format!(
        "{RED}ttmem:{RED:#} this is a bug in ttmem, not in your log; please report it with the lines above"
    ));
    70
}

/// Says what is wrong with the arguments; help and version are answers. Returns the exit code.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    let is_answer = !error.use_stderr();
    match error.print() {
        // Whoever reads has seen enough.
        Err(error) if is_answer && error.kind() != io::ErrorKind::BrokenPipe => {
            fail(&Error::Write { path: "standard output".into(), source: error })
        }
        _ if is_answer => 0,
        _ => 2,
    }
}

/// Says something on standard error.
pub(crate) fn say(text: &str) {
    // Nobody can be told that standard error is closed.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// How many warnings are said one by one.
const MOST_WARNINGS: usize = 10;

/// Says the warnings of an answer.
pub(crate) fn warn(source: &SourceSummary) {
    let warnings = &source.warnings;
    for WarningSummary { file, line, message } in warnings.iter().take(MOST_WARNINGS) {
        warning(file, *line, message);
    }
    more_warnings(warnings.len(), "--json");
}

/// Says the warnings about the reading of a file.
pub(crate) fn warn_of(file: &str, warnings: &[Warning]) {
    for Warning { line, message } in warnings.iter().take(MOST_WARNINGS) {
        warning(file, *line, message);
    }
    more_warnings(warnings.len(), "`ttmem summary --json`");
}

fn more_warnings(all: usize, has_all: &str) {
    if let Some(more) = all.checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        note(&format!("{YELLOW}warning:{YELLOW:#} {more} more; {has_all} has all"));
    }
}

/// Says one warning about a file.
pub(crate) fn warning(file: &str, line: Option<u64>, message: &str) {
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    caution(&format!("{file}{line}: {message}"));
}

/// Says one warning.
pub(crate) fn caution(message: &str) {
    note(&format!("{YELLOW}warning:{YELLOW:#} {message}"));
}

/// The screen that standard output is.
pub(crate) fn screen(top: Option<usize>) -> Screen {
    let standard = Screen::default();
    let terminal = io::stdout().is_terminal();
    let width = terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| usize::from(width.0));
    Screen {
        width: width.unwrap_or(standard.width).clamp(60, 160),
        rows: top.unwrap_or(standard.rows),
        ..standard
    }
}

/// Whether standard output is a terminal that shows colours.
pub(crate) fn has_colour() -> bool {
    let stdout = io::stdout();
    stdout.is_terminal() && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never
}

/// Prints a text, in colours where standard output has them.
pub(crate) fn print_text(text: &Text) -> Result<()> {
    if !has_colour() {
        return print(|out| write!(out, "{text}"));
    }
    print(|out| text.lines().iter().try_for_each(|line| write_in_colours(line, out)))
}

fn write_in_colours(line: &Line, out: &mut dyn Write) -> io::Result<()> {
    for span in line.spans() {
        match escape_code(span.style()) {
            Some(code) => write!(out, "\u{1b}[{code}m{}\u{1b}[0m", span.text())?,
            None => write!(out, "{}", span.text())?,
        }
    }
    writeln!(out)
}

/// The parameters of the escape sequence for a style. They come in one sequence, where `anstyle` would write two.
fn escape_code(meaning: Meaning) -> Option<&'static str> {
    match meaning {
        Meaning::Plain => None,
        Meaning::Heading => Some("1"),
        Meaning::TableHead => Some("2"),
        Meaning::Failure => Some("1;31"),
        Meaning::Good => Some("32"),
        Meaning::Warning => Some("33"),
        Meaning::Critical => Some("31"),
    }
}

/// Writes a result to standard output.
pub(crate) fn print(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match render(&mut out).and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Error::Write { path: "standard output".into(), source }),
    }
}

/// Writes a result to a file, or to standard output.
pub(crate) fn write(
    output: Option<&Output<'_>>,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let Some(output) = output else { return print(render) };
    let path = output.path();
    let mut options = OpenOptions::new();
    options.write(true).truncate(true).create(true);
    if !output.replaces()? && !is_device(path) {
        options.create_new(true);
    }
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
        _ => Error::Write { path: path.into(), source },
    };
    let mut file = BufWriter::new(options.open(path).map_err(failed)?);
    render(&mut file).and_then(|()| file.flush()).map_err(failed)?;
    detail(|| format!("wrote {}", path.display()));
    Ok(())
}

/// Writes a picture, and says where.
pub(crate) fn write_picture(output: &Output<'_>, bytes: &[u8]) -> Result<()> {
    write(Some(output), |out| out.write_all(bytes))?;
    note(&format!("drew {}", output.path().display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_add_nothing_but_escape_sequences() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/oom-capacity.log");
        let profile = ttmem::read::open(file).unwrap();
        let summary = ttmem::query::summary(&[profile], &ttmem::query::Request::default()).unwrap();
        let text = ttmem::report::text(&summary, Screen::default());
        let mut coloured = Vec::new();
        text.lines().iter().for_each(|line| write_in_colours(line, &mut coloured).unwrap());
        let coloured = String::from_utf8(coloured).unwrap();
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), text.to_string());
        for part in [
            "\u{1b}[1;31mOut of memory: DRAM is full.",
            "\u{1b}[1mPeak DRAM",
            "\u{1b}[2m  alive, largest first",
        ] {
            assert!(coloured.contains(part), "{part:?} is not in {coloured:?}");
        }
    }
}
