//! The commands `ttmem` and `tt-memory-profiler`. They parse arguments, call the library and print; all computation is
//! in the library.
//!
//! Each command takes its arguments and returns its exit code. The callers own the process: the binary `ttmem`, which
//! implements both commands, and the commands of the Python package. The binary `tt-memory-profiler` only runs `ttmem`
//! under its own name.

mod again;
mod args;
mod commands;
mod companions;
mod console;
mod profiler;
mod reading;
mod replacing;

use std::ffi::OsString;
use std::panic::UnwindSafe;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

pub use again::started_by;
pub use companions::{Companion, link};

/// Parses a size as the commands accept it, such as `200MB`, into bytes. The error says what is expected.
pub fn memory_size(text: &str) -> Result<u64, String> {
    text.parse().map(|ttmem::query::MemorySize(bytes)| bytes)
}

/// Checks that a command may write a file: that it does not exist, is an earlier output of ttmem, or may be replaced
/// because of `force`. A log, recording or profile is never replaced.
pub fn check_output(path: &Path, force: bool) -> ttmem::Result<()> {
    replacing::Output::at(path, force, &[] as &[&str]).map(drop)
}

/// Checks and writes a file. If that fails, an existing file stays as it was.
pub fn write_output(path: &Path, content: &[u8], force: bool) -> ttmem::Result<()> {
    replacing::Output::at(path, force, &[] as &[&str])?.write(|out| out.write_all(content))
}

/// Runs the command `ttmem`, or `tt-memory-profiler` if the first word has that name.
pub fn ttmem(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "tt-memory-profiler") {
        return tt_memory_profiler(words);
    }
    run(parse(&words), commands::run)
}

/// Parses the words of `ttmem`. A file may stand in place of a command: `ttmem model.log` is `ttmem summary model.log`,
/// and the options of `summary` may precede it.
fn parse(words: &[OsString]) -> Result<args::Args, clap::Error> {
    let error = match args::Args::try_parse_from(words) {
        Err(error) if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) => {
            error
        }
        parsed => return parsed,
    };
    let is_option = |word: &&OsString| word.len() > 1 && word.as_encoded_bytes().starts_with(b"-");
    let Some(first) = words.iter().skip(1).find(|word| !is_option(word)) else { return Err(error) };
    if first == "help"
        || first.to_str().is_some_and(|word| args::Args::command().find_subcommand(word).is_some())
    {
        return Err(error);
    }
    let mut words = words.to_vec();
    words.insert(1, "summary".into());
    let summary = args::Args::try_parse_from(&words);
    let is_meant = match error.kind() {
        // Otherwise the word is a misspelled command, and the error has a suggestion.
        ErrorKind::InvalidSubcommand => is_file(first),
        _ => summary.is_ok() || words.iter().skip(2).any(is_file),
    };
    match summary {
        _ if !is_meant => Err(error),
        Err(_) if words.iter().any(|word| word == "--llm") => Err(args::Args::command().error(
            ErrorKind::MissingRequiredArgument,
            "--llm reads the file that --logfile names; run `ttmem --llm --logfile FILE`",
        )),
        summary => summary,
    }
}

/// Whether a word names an existing file, or looks like a path.
fn is_file(word: &OsString) -> bool {
    let is_of_path = |byte: &u8| matches!(byte, b'.' | b'/');
    let is_option = word.as_encoded_bytes().starts_with(b"-");
    word == "-" || !is_option && (word.as_encoded_bytes().iter().any(is_of_path) || Path::new(word).exists())
}

/// Runs the command `tt-memory-profiler`.
pub fn tt_memory_profiler(words: impl IntoIterator<Item = OsString>) -> u8 {
    run(profiler::Profiler::try_parse_from(words), profiler::run)
}

/// Runs a command with its arguments, if they are valid; returns the exit code.
fn run<A: UnwindSafe>(
    args: Result<A, clap::Error>,
    run: impl FnOnce(A) -> ttmem::Result<u8> + UnwindSafe,
) -> u8 {
    let args = match args {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    match std::panic::catch_unwind(|| run(args)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => console::fail(&error),
        // The panic hook has printed the location.
        Err(_) => console::bug(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::args::Command;

    fn words(line: &str) -> Vec<OsString> {
        ["ttmem"].into_iter().chain(line.split(' ')).map(OsString::from).collect()
    }

    /// The files of the summary that a line asks for.
    #[track_caller]
    fn files(line: &str) -> Vec<String> {
        match parse(&words(line)).unwrap_or_else(|error| panic!("{line}: {error}")).command {
            Some(Command::Summary(summary)) => summary.files,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        parse(&words(line)).err().unwrap_or_else(|| panic!("{line} is accepted")).to_string()
    }

    #[test]
    fn a_file_is_summarized_without_a_command() {
        for line in [
            "x.log",
            "-q x.log",
            "x.log --json",
            "--top 5 x.log",
            "--at 30 x.log",
            "--run last x.log",
            "--rank 0 x.log",
            "--format tt_log x.log",
            "--markdown --budget 3000 x.log",
            "-o out.txt x.log",
            "x.log -o out.txt --force",
            "-v --full x.log",
        ] {
            assert_eq!(files(line), ["x.log"], "{line}");
        }
        assert_eq!(files("-"), ["-"]);
        assert_eq!(files("a.log b.log --top 3"), ["a.log", "b.log"]);
        // An existing file needs no extension.
        assert_eq!(files("src"), ["src"]);
    }

    #[test]
    fn a_command_takes_precedence_over_a_file() {
        assert!(matches!(parse(&words("list")).unwrap().command, Some(Command::List(_))));
        assert_eq!(files("./list"), ["./list"]);
        assert_eq!(files("--top 5 list"), ["list"]);
        assert!(refused("report x.log --top 5").contains("ttmem report"));
        assert!(refused("--markdown list").contains("'--markdown'"));
    }

    #[test]
    fn a_misspelled_command_has_a_suggestion() {
        for line in ["sumary", "sumary x", "sumary x.log"] {
            let error = refused(line);
            assert!(
                error.contains("unrecognized subcommand") && error.contains("'summary'"),
                "{line}: {error}"
            );
        }
        assert!(refused("xyzzy").contains("unrecognized subcommand"));
        assert!(refused("--topp 5 x.log").contains("'--top'"));
        assert!(refused("--l x.log").contains("unexpected argument '--l'"));
    }

    #[test]
    fn the_file_of_llm_has_an_option() {
        let args = parse(&words("--llm --logfile x.log")).unwrap();
        assert!(args.llm.wanted && args.command.is_none());
        for line in ["x.log --llm", "--llm x.log"] {
            assert!(refused(line).contains("ttmem --llm --logfile FILE"), "{line}: {}", refused(line));
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_an_error() {
        let odd = OsString::from_vec(b"\xff.log".to_vec());
        assert_eq!(parse(&["ttmem".into(), odd]).err().map(|error| error.exit_code()), Some(2));
    }

    #[test]
    fn help_of_a_file_is_that_of_the_summary() {
        assert!(refused("x.log --help").contains("ttmem summary"));
        assert!(refused("--help").contains("Commands:"));
    }
}
