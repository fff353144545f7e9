//! What comes in and what goes out: messages that change the state, and effects that the state asks for.

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

/// Something happened.
#[derive(Debug)]
pub(super) enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(String),
    /// The terminal has another size.
    Resized,
    /// Time went by.
    Tick,
    /// The process got a signal of that number.
    Signal(i32),
    /// The terminal is gone.
    Gone,
    /// An effect came to something.
    Answer(Answer),
}

/// What an effect came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// What there is to look at.
    Stock(Box<Inventory>),
    /// What lies in a folder.
    Listed(Listing),
    /// Evidence was read, or not. The progress tells which reading it was.
    Read { progress: Arc<Progress>, outcome: Result<Box<Report>> },
    /// The report of a file was stored, or not. The profile comes back.
    Stored { file: String, profile: Box<Profile>, outcome: Result<Box<Stored>> },
    /// A browser was started, or none could be.
    PageShown { page: PathBuf, is_shown: bool },
    /// A file was written, or not.
    Written { path: PathBuf, outcome: Result<()> },
    /// A report was removed, or not.
    Removed { name: String, outcome: Result<()> },
    /// The server said where it is.
    Serving { address: String },
    /// The server said something else.
    ServerSaid { line: String },
    /// The server ended on its own.
    ServerEnded { how: String },
    /// A command was run, or could not be.
    Ran { how: String, left: Left },
    /// A thread of ours panicked.
    Bug,
}

/// Something to be done outside of the state.
#[derive(Debug)]
pub(super) enum Effect {
    /// Look at what there is.
    TakeStock,
    /// Look into a folder.
    List(PathBuf),
    /// Read evidence and answer the question.
    Read { evidence: Evidence, progress: Arc<Progress> },
    /// Store the report of a profile that was read from a file.
    Store { profile: Box<Profile>, file: String },
    /// Show a page in a browser.
    ShowPage(PathBuf),
    /// Write a file; one that is there only if it may be replaced.
    Write { path: PathBuf, content: Vec<u8>, may_replace: bool },
    /// Remove a stored report.
    Remove(String),
    /// Start the server.
    Serve,
    /// Stop the server.
    StopServing,
    /// Run a command on the terminal.
    Run(CommandLine),
    /// Draw all of the screen, whatever is on it.
    Redraw,
    /// Go to the background, as other programs do at Ctrl-Z.
    Suspend,
    /// End, with an exit code.
    Quit(u8),
    /// End, because of a bug.
    GiveUp,
}

/// What can be read.
#[derive(Clone, Debug)]
pub(super) enum Evidence {
    /// A file, in the ways its name may be meant.
    File(Vec<String>),
    /// A stored report.
    Report(Box<Stored>),
}

impl Evidence {
    /// A file whose name is known.
    pub fn file(name: impl Into<String>) -> Self {
        Self::File(vec![name.into()])
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::File(readings) => readings.last().map_or("", String::as_str),
            Self::Report(report) => &report.name,
        }
    }
}

/// What a command has left behind.
#[derive(Debug)]
pub(super) enum Left {
    /// Nothing: it was never started.
    Nothing,
    /// The report of its run.
    Report(Evidence),
    /// A log without a report.
    Log(RunLog),
}

/// The log of a run that has no report.
#[derive(Debug)]
pub(super) struct RunLog {
    /// Why it has none.
    pub why: String,
    /// The last lines of the log.
    pub end: String,
}

/// Evidence that was read, and its answer.
#[derive(Debug)]
pub(super) struct Report {
    /// What it is called.
    pub name: String,
    /// The file it was read from.
    pub file: String,
    /// The answer.
    pub summary: Summary,
    /// All that is known; not kept where the report is stored.
    pub profile: Option<Box<Profile>>,
    /// The stored report, where there is one.
    pub stored: Option<Stored>,
}
