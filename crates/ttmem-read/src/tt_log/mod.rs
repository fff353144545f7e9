//! Reads the log of the Tenstorrent runtime (tt-mlir with tt-xla or ttrt), as a run prints it.
//!
//! Each line is parsed separately (`line`) and passed to the state machine of the rank and stream that wrote it. From
//! there it goes to the rank's state (`rank`), which tracks programs and determines the effect of each step (`life`).
//! Module dumps (`module`) provide the names of arguments. No code relies on "the next line", because lines of other
//! writers may appear between any two lines. `watch` follows a log that is still being written.

pub(super) mod brackets;
pub(super) mod execution;
mod graphs;
pub mod last_pass;
mod life;
mod line;
mod module;
pub(super) mod operation;
mod processes;
mod rank;
mod streams;
pub(super) mod tables;
pub(super) mod texts;
pub(super) mod types;
pub(super) mod view;
mod watch;

use memchr::memmem;

pub(crate) use streams::TT_METAL_LOG;
pub use watch::{Seen, SeenPool, Watch};

use super::{Input, Reader, Sniff};
use ttmem_model::Result;
use ttmem_model::Sink;

/// The reader of Tenstorrent runtime logs.
pub struct TtLog;

impl Reader for TtLog {
    fn name(&self) -> &'static str {
        streams::TT_LOG
    }

    fn about(&self) -> &'static str {
        "a Tenstorrent runtime log (tt-mlir, tt-xla), or a file written by debug.memory_snapshot"
    }

    fn capture(&self) -> &'static str {
        "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG TT_RUNTIME_MEMORY_LOG_LEVEL=operation TTXLA_LOGGER_LEVEL=DEBUG \
         python model.py > model.log 2>&1, with a debug build"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 4] = [b" memory state", b"RuntimeTT", b"MLIR Module ", b"Executing operation: "];
        if SIGNS.iter().any(|sign| memmem::find(head, sign).is_some()) {
            Sniff::Yes
        } else if looks_like_text(head) {
            // The first lines of a program that has not started its runtime yet.
            Sniff::Maybe
        } else {
            Sniff::No
        }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        streams::read(input, streams::TT_LOG, sink)
    }
}

/// Reads a log whose memory data are errors of tt-metal.
pub(super) fn read_failures(input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
    streams::read(input, TT_METAL_LOG, sink)
}

/// Whether the bytes look like text: no NUL bytes and few other control characters.
pub(super) fn looks_like_text(head: &[u8]) -> bool {
    let control = |byte: &&u8| **byte < 0x20 && !matches!(**byte, b'\n' | b'\r' | b'\t' | 0x1b | 0x08 | 0x0c);
    !head.contains(&0) && head.iter().filter(control).count() * 50 <= head.len()
}
