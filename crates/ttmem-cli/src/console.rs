//! The two streams: results go to standard output, everything else to standard error.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use ttmem::model::Warning;
use ttmem::query::{SourceSummary, WarningSummary};
use ttmem::report::{Line, Screen, Style as Meaning, Text};
use ttmem::{Error, Result};

use crate::args::Verbosity;
use crate::replacing::{Output, is_device};

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity, once, at the start.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    // Only the first call has an effect.
    let _ = VERBOSITY.set(verbosity);
}

/// Whether only results and errors are printed.
pub(crate) fn is_quiet() -> bool {
    VERBOSITY.get().is_some_and(|verbosity| verbosity.quiet)
}

/// Prints a detail, with `--verbose` only.
pub(crate) fn detail(text: impl FnOnce() -> String) {
    if VERBOSITY.get().is_some_and(|verbosity| verbosity.verbose) {
        say(&text());
    }
}

/// Prints something that is neither a result nor an error, unless `--quiet` is set.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say(text);
    }
}

/// Prints the error that ends the command; returns its exit code.
pub(crate) fn fail(error: &Error) -> u8 {
    complain(error);
    error.exit_code()
}

/// Prints an error that does not end the command.
pub(crate) fn complain(error: &Error) {
    say(&format!("{RED}ttmem:{RED:#} {error}"));
}

/// Prints that this is a bug in ttmem; returns the exit code.
pub(crate) fn bug() -> u8 {
    say(&format!(
        "{RED}ttmem:{RED:#} this is a bug in ttmem, not in your log; please report it with the lines above"
    ));
    70
}

/// Prints an error in the arguments, or help and version, which are results. Returns the exit code.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    let is_answer = !error.use_stderr();
    match error.print() {
        // The reader closed the pipe.
        Err(error) if is_answer && error.kind() != io::ErrorKind::BrokenPipe => {
            fail(&Error::Write { path: "standard output".into(), source: error })
        }
        _ if is_answer => 0,
        _ => 2,
    }
}

/// Prints a line on standard error.
pub(crate) fn say(text: &str) {
    // If standard error is closed, there is no way to report it.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// The number of warnings that are printed individually.
const MAX_WARNINGS: usize = 10;

/// Prints the warnings of a summary.
pub(crate) fn warn(source: &SourceSummary) {
    let warnings = &source.warnings;
    for WarningSummary { file, line, message } in warnings.iter().take(MAX_WARNINGS) {
        warning(file, *line, message);
    }
    more_warnings(warnings.len(), "--json");
}

/// Prints the warnings from reading a file.
pub(crate) fn warn_of(file: &str, warnings: &[Warning]) {
    for Warning { line, message } in warnings.iter().take(MAX_WARNINGS) {
        warning(file, *line, message);
    }
    more_warnings(warnings.len(), "`ttmem summary --json`");
}

fn more_warnings(all: usize, option: &str) {
    if let Some(more) = all.checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
        note(&format!("{YELLOW}warning:{YELLOW:#} {more} more; use {option} to see all"));
    }
}

/// Prints a warning about a file.
pub(crate) fn warning(file: &str, line: Option<u64>, message: &str) {
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    caution(&format!("{file}{line}: {message}"));
}

/// Prints a warning.
pub(crate) fn caution(message: &str) {
    note(&format!("{YELLOW}warning:{YELLOW:#} {message}"));
}

/// The size of the screen on standard output.
pub(crate) fn screen(top: Option<usize>) -> Screen {
    screen_of(top, io::stdout().is_terminal())
}

/// The size of the screen that standard error is on.
pub(crate) fn screen_of_notes() -> Screen {
    screen_of(None, io::stderr().is_terminal())
}

fn screen_of(top: Option<usize>, is_terminal: bool) -> Screen {
    // The command line above the text, and the prompt below it.
    const PROMPTS: usize = 2;
    let standard = Screen::default();
    let terminal = terminal_size::terminal_size().filter(|_| is_terminal);
    let width = terminal.map_or(standard.width, |(width, _)| usize::from(width.0));
    Screen {
        width: width.clamp(60, 160),
        height: terminal.map(|(_, height)| usize::from(height.0).saturating_sub(PROMPTS)),
        rows: top.unwrap_or(standard.rows),
        ..standard
    }
}

/// Whether standard output is a terminal that shows colours.
pub(crate) fn has_colour() -> bool {
    let stdout = io::stdout();
    stdout.is_terminal() && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never
}

/// Prints a text, in colours if standard output supports them.
pub(crate) fn print_text(text: &Text) -> Result<()> {
    if !has_colour() {
        return print(|out| write!(out, "{text}"));
    }
    print(|out| text.lines().iter().try_for_each(|line| write_in_colours(line, out)))
}

/// Prints a text on standard error, in colours if it supports them, unless `--quiet` is set.
pub(crate) fn note_text(text: &Text) {
    if !is_quiet() {
        let mut out = anstream::stderr().lock();
        // If standard error is closed, there is no way to report it.
        let _ = text.lines().iter().try_for_each(|line| write_in_colours(line, &mut out));
    }
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

/// The parameters of the escape sequence for a style: a single sequence, while `anstyle` would write two.
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
        // The reader closed the pipe.
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

/// Writes a picture and prints its path.
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
            "\u{1b}[2m  live, largest first",
        ] {
            assert!(coloured.contains(part), "{part:?} is not in {coloured:?}");
        }
    }
}
