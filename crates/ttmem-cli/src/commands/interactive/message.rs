//! Messages, which change the state, and effects, which the state requests.

use std::path::PathBuf;
use std::sync::Arc;

use crossterm::event::KeyEvent;
use ttmem::Result;
use ttmem::model::Profile;
use ttmem::query::Summary;
use ttmem::read::Progress;
use ttmem::store::Stored;

use super::command_line::CommandLine;
use super::completion::Listing;
use super::inventory::Inventory;

/// An event that the program waits for.
#[derive(Debug)]
pub(super) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal was resized.
    Resized,
    /// The timeout passed without a message.
    Tick,
    /// The process received a signal.
    Signal(i32),
    /// The terminal is gone.
    Gone,
    /// The result of an effect.
    Answer(Answer),
}

/// The result of an effect.
#[derive(Debug)]
pub(super) enum Answer {
    /// The inventory.
    Stock(Box<Inventory>),
    /// The entries of a folder.
    Listed(Listing),
    /// An input was read, or not. `progress` identifies the request.
    Read { progress: Arc<Progress>, outcome: Result<Box<Report>> },
    /// The report of a file was stored, or not. The profile is returned.
    Stored { file: String, profile: Box<Profile>, outcome: Result<Box<Stored>> },
    /// A browser was started, or could not be.
    PageShown { page: PathBuf, is_shown: bool },
    /// A file was written, or not.
    Written { path: PathBuf, outcome: Result<()> },
    /// A report was removed, or not.
    Removed { name: String, outcome: Result<()> },
    /// The server printed its address.
    Serving { address: String },
    /// The server printed another line.
    ServerSaid { line: String },
    /// The server ended without being stopped.
    ServerEnded { how: String },
    /// A command was run, or could not be.
    Ran { how: String, left: Left },
    /// A thread panicked.
    Bug,
}

/// An action outside the state.
#[derive(Debug)]
pub(super) enum Effect {
    /// Take the inventory.
    TakeStock,
    /// List a folder.
    List(PathBuf),
    /// Read an input and summarize it.
    Read { input: Input, progress: Arc<Progress> },
    /// Store the report of a profile that was read from a file.
    Store { profile: Box<Profile>, file: String },
    /// Open a page in a browser.
    ShowPage(PathBuf),
    /// Write a file; an existing one is replaced only if `may_replace` is set.
    Write { path: PathBuf, content: Vec<u8>, may_replace: bool },
    /// Remove a stored report.
    Remove(String),
    /// Start the server.
    Serve,
    /// Stop the server.
    StopServing,
    /// Run a command on the terminal.
    Run(CommandLine),
    /// Redraw the whole screen.
    Redraw,
    /// Suspend, as Ctrl-Z does in other programs.
    Suspend,
    /// Quit with an exit code.
    Quit(u8),
    /// Quit because of a bug.
    GiveUp,
}

/// An input to read.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// A file: the possible readings of its name.
    File(Vec<String>),
    /// A stored report.
    Report(Box<Stored>),
}

impl Input {
    /// A file with a known name.
    pub fn file(name: impl Into<String>) -> Self {
        Self::File(vec![name.into()])
    }

    /// The name to show.
    pub fn name(&self) -> &str {
        match self {
            Self::File(readings) => readings.last().map_or("", String::as_str),
            Self::Report(report) => &report.name,
        }
    }
}

/// What a command left behind.
#[derive(Debug)]
pub(super) enum Left {
    /// Nothing, because it was never started.
    Nothing,
    /// The report of its run.
    Report(Input),
    /// A log without a report.
    Log(RunLog),
}

/// The log of a run that has no report.
#[derive(Debug)]
pub(super) struct RunLog {
    /// Why there is no report.
    pub why: String,
    /// The last lines of the log.
    pub end: String,
}

/// An input that was read, and its summary.
#[derive(Debug)]
pub(super) struct Report {
    /// The name of the report.
    pub name: String,
    /// The file it was read from.
    pub file: String,
    /// The summary.
    pub summary: Summary,
    /// The full profile; `None` if the report is stored.
    pub profile: Option<Box<Profile>>,
    /// The stored report, if there is one.
    pub stored: Option<Stored>,
}
