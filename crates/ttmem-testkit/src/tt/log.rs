//! The runtime's logger: its prefix, colors and level.

use std::io::{self, Write};

use super::options::{Level, Options};
use super::sink::Sink;
use crate::random::Random;

/// The writer of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The runtime, and everything else on standard output.
    Runtime,
    /// The compiler, dumping a module.
    Module,
    /// Python, printing an exception.
    Exception,
}

/// The second column of the runtime's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Debug,
    Info,
}

/// Prints lines in the runtime's format.
pub struct Log<'w> {
    sink: Sink<'w>,
    level: Level,
    ttnn: String,
    always: [String; 2],
    line: Vec<u8>,
}

impl<'w> Log<'w> {
    pub fn new(out: &'w mut dyn Write, options: &Options, random: Random) -> Self {
        let prefix = |channel, severity| prefix(channel, severity, options.color);
        Self {
            sink: Sink::new(out, options, random),
            level: options.level,
            ttnn: prefix("RuntimeTTNN", Severity::Debug),
            always: [Severity::Debug, Severity::Info].map(|severity| prefix("Always", severity)),
            line: Vec::new(),
        }
    }

    /// A line about programs and operations, from the parts of its text.
    pub fn ttnn(&mut self, text: &[&str]) -> io::Result<()> {
        if self.level == Level::Info {
            return Ok(());
        }
        self.line.clear();
        self.line.extend_from_slice(self.ttnn.as_bytes());
        self.end_line(text)
    }

    /// A line about anything else.
    pub fn always(&mut self, severity: Severity, text: &[&str]) -> io::Result<()> {
        if severity == Severity::Debug && self.level == Level::Info {
            return Ok(());
        }
        self.line.clear();
        self.line.extend_from_slice(self.always[severity as usize].as_bytes());
        self.end_line(text)
    }

    fn end_line(&mut self, text: &[&str]) -> io::Result<()> {
        for piece in text {
            self.line.extend_from_slice(piece.as_bytes());
        }
        self.sink.line(Source::Runtime, &self.line)
    }

    /// A line that does not come from the runtime's logger.
    pub fn raw(&mut self, source: Source, line: &str) -> io::Result<()> {
        self.sink.line(source, line.as_bytes())
    }

    /// Writes the remaining lines.
    pub fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}

/// Two columns, with the runtime's layout and colors.
fn prefix(channel: &str, severity: Severity, colored: bool) -> String {
    let (name, color) = match severity {
        Severity::Debug => ("DEBUG", 240),
        Severity::Info => ("INFO", 69),
    };
    if colored {
        format!("\x1b[32m{channel:>23}\x1b[0m | \x1b[1m\x1b[38;5;{color}m{name:>8}\x1b[0m | ")
    } else {
        format!("{channel:>23} | {name:>8} | ")
    }
}
