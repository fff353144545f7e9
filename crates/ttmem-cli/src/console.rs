//! The two streams: results go to standard output, everything else to standard error.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anstyle::{AnsiColor, Style};
use ttmem::model::Warning;
use ttmem::query::{SourceSummary, WarningSummary};
use ttmem::report::{Line, Screen, Style as Meaning, Text, name_of_file};
use ttmem::{Error, Result};
use unicode_width::UnicodeWidthStr;

use crate::args::Verbosity;
use crate::replacing::Output;

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

/// The lines of the terminal that standard error has filled.
static LINES_ABOVE: AtomicUsize = AtomicUsize::new(0);

/// Prints a line on standard error. On a terminal, it is wrapped between words.
pub(crate) fn say(text: &str) {
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    let text = width.map_or_else(|| text.to_owned(), |width| wrapped(text, width));
    LINES_ABOVE.fetch_add(lines_of(&text), Ordering::Relaxed);
    // If standard error is closed, there is no way to report it.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Wraps lines between words, and indents their continuations. Words that are too long for a line are left to the
/// terminal.
fn wrapped(text: &str, width: usize) -> String {
    const INDENT: &str = "  ";
    let visible = |word: &str| anstream::adapter::strip_str(word).to_string().width();
    let mut wrapped = String::new();
    let mut column = 0;
    for (index, word) in text.split_inclusive([' ', '\n']).enumerate() {
        let room = visible(word.trim_end());
        if index > 0 && column > 0 && column + room > width && room + INDENT.len() <= width {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.push_str(INDENT);
            column = INDENT.len();
        }
        wrapped.push_str(word);
        column = if word.ends_with('\n') { 0 } else { column + visible(word) };
    }
    wrapped
}

/// The lines of the terminal that a note fills; 0 if it is not printed on one.
pub(crate) fn lines_of_note(text: &str) -> usize {
    if is_quiet() { 0 } else { lines_of(text) }
}

fn lines_of(text: &str) -> usize {
    let Some((width, _)) = terminal_size::terminal_size_of(io::stderr()) else { return 0 };
    lines_on_screen(&anstream::adapter::strip_str(text).to_string(), width.0.into())
}

/// The lines that a text fills on a terminal, which wraps long lines.
fn lines_on_screen(text: &str, width: usize) -> usize {
    text.split('\n').map(|line| line.chars().count().div_ceil(width.max(1)).max(1)).sum()
}

/// The number of warnings that are printed individually.
const MAX_WARNINGS: usize = 10;

/// Prints the warnings of a summary.
pub(crate) fn warn(source: &SourceSummary) {
    let warnings = source.warnings.iter();
    let warnings = warnings.map(|WarningSummary { file, line, message }| (&**file, *line, &**message));
    warn_each(warnings, "--json");
}

/// Prints the warnings from reading a file.
pub(crate) fn warn_of(file: &str, warnings: &[Warning]) {
    let warnings = warnings.iter().map(|Warning { line, message }| (file, *line, &**message));
    warn_each(warnings, "`ttmem summary --json`");
}

/// Prints the first warnings, and how to see all. On a terminal they leave two thirds of its height to the result.
fn warn_each<'a>(mut warnings: impl ExactSizeIterator<Item = (&'a str, Option<u64>, &'a str)>, option: &str) {
    let height = terminal_size::terminal_size_of(io::stderr()).map(|(_, height)| usize::from(height.0));
    for _ in 0..MAX_WARNINGS {
        let Some((file, line, message)) = warnings.next() else { return };
        warning(file, line, message);
        if height.is_some_and(|height| LINES_ABOVE.load(Ordering::Relaxed) >= height / 3) {
            break;
        }
    }
    if warnings.len() > 0 {
        caution(&format!("{} more; use {option} to see all", warnings.len()));
    }
}

/// Prints a warning about a file.
pub(crate) fn warning(file: &str, line: Option<u64>, message: &str) {
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    caution(&format!("{}{line}: {message}", name_of_file(file)));
}

/// Prints a warning.
pub(crate) fn caution(message: &str) {
    note(&format!("{YELLOW}warning:{YELLOW:#} {message}"));
}

/// The size of the screen on standard output, without the lines that warnings have filled.
pub(crate) fn screen(top: Option<usize>) -> Screen<'static> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let is_shared = device_of(stdout.as_fd()).is_some_and(|device| device_of(stderr.as_fd()) == Some(device));
    let above = if is_shared { LINES_ABOVE.load(Ordering::Relaxed) } else { 0 };
    screen_of(top, stdout.is_terminal(), above)
}

/// The size of the screen that standard error is on.
pub(crate) fn screen_of_notes() -> Screen<'static> {
    screen_of(None, io::stderr().is_terminal(), 0)
}

/// The number of the device that a stream is on.
fn device_of(stream: BorrowedFd<'_>) -> Option<u64> {
    Some(File::from(stream.try_clone_to_owned().ok()?).metadata().ok()?.rdev())
}

fn screen_of(top: Option<usize>, is_terminal: bool, above: usize) -> Screen<'static> {
    // The command line above the text, and the prompt below it.
    const PROMPTS: usize = 2;
    // Fewer lines have no room for a verdict.
    const MIN_HEIGHT: usize = 10;
    let standard = Screen::default();
    let terminal = terminal_size::terminal_size().filter(|_| is_terminal);
    let width = terminal.map_or(standard.width, |(width, _)| usize::from(width.0));
    let height = |height: u16| usize::from(height).saturating_sub(PROMPTS + above).max(MIN_HEIGHT);
    Screen {
        width: width.clamp(60, 160),
        height: terminal.map(|(_, terminal_size::Height(lines))| height(lines)),
        rows: top,
        ..standard
    }
}

/// Whether standard output is a terminal that shows colors.
pub(crate) fn has_color() -> bool {
    let stdout = io::stdout();
    stdout.is_terminal() && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never
}

/// Prints a text, in colors if standard output supports them.
pub(crate) fn print_text(text: &Text) -> Result<()> {
    if !has_color() {
        return print(|out| write!(out, "{text}"));
    }
    print(|out| text.lines().iter().try_for_each(|line| write_in_colors(line, out)))
}

/// Prints a text on standard error, in colors if it supports them, unless `--quiet` is set.
pub(crate) fn note_text(text: &Text) {
    if !is_quiet() {
        let mut out = anstream::stderr().lock();
        // If standard error is closed, there is no way to report it.
        let _ = text.lines().iter().try_for_each(|line| write_in_colors(line, &mut out));
    }
}

fn write_in_colors(line: &Line, out: &mut dyn Write) -> io::Result<()> {
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
    output.write(render)?;
    let path = output.path();
    detail(|| format!("wrote {}", path.display()));
    Ok(())
}

/// Writes a picture and prints its path.
pub(crate) fn write_picture(output: &Output<'_>, bytes: &[u8]) -> Result<()> {
    write(Some(output), |out| out.write_all(bytes))?;
    note(&format!("wrote {}", output.path().display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_fill_several_lines_of_a_terminal() {
        for (text, lines) in [("", 1), ("12345678", 1), ("123456789", 2), ("a\n\n123456789", 4)] {
            assert_eq!(lines_on_screen(text, 8), lines, "{text:?}");
        }
        assert_eq!(lines_on_screen("ab", 0), 2, "an unknown width");
    }

    #[test]
    fn notes_are_wrapped_between_words() {
        let note = format!("{YELLOW}warning:{YELLOW:#} the ring buffer overflowed");
        assert_eq!(wrapped("one two three", 8), "one two\n  three");
        assert_eq!(wrapped("one two three\nfour", 40), "one two three\nfour");
        assert_eq!(wrapped("page: a-very-long-path and", 8), "page: a-very-long-path\n  and");
        assert_eq!(
            anstream::adapter::strip_str(&wrapped(&note, 16)).to_string(),
            "warning: the\n  ring buffer\n  overflowed"
        );
        assert_eq!(wrapped("", 8), "");
    }

    #[test]
    fn colors_add_nothing_but_escape_sequences() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/oom-capacity.log");
        let profile = ttmem::read::open(file).unwrap();
        let summary = ttmem::query::summary(&[profile], &ttmem::query::Request::default()).unwrap();
        let text = ttmem::report::text(&summary, Screen::default());
        let mut colored = Vec::new();
        text.lines().iter().for_each(|line| write_in_colors(line, &mut colored).unwrap());
        let colored = String::from_utf8(colored).unwrap();
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), text.to_string());
        for part in [
            "\u{1b}[1;31mOut of memory: DRAM is full.",
            "\u{1b}[1mPeak DRAM",
            "\u{1b}[2m  live, largest first",
        ] {
            assert!(colored.contains(part), "{part:?} is not in {colored:?}");
        }
    }
}
