//! Reads memory errors of tt-metal, wherever a program prints them: logs of ttnn programs, pytest, vLLM and
//! tt-inference-server.
//!
//! `failure` parses the text of an error, `refusal` the checks of operations, and `backtrace` the frames of an exception.
//! `sightings` finds errors in the lines of a stream. The lines of a log are read by `tt_log::streams`: only at the end of a log is it known whether it also has
//! the lines of tt-mlir's runtime.

mod backtrace;
mod failure;
mod numbers;
mod refusal;
mod sightings;

pub(crate) use failure::Failure;
pub(crate) use sightings::{Exception, Sightings, is_of_the_end};

use super::tt_log::{TT_METAL_LOG, looks_like_text, read_failures};
use super::{Input, Reader, Sniff};
use ttmem_model::{Result, Sink};

/// The reader of logs whose only memory data are errors.
pub struct TtMetalLog;

impl Reader for TtMetalLog {
    fn name(&self) -> &'static str {
        TT_METAL_LOG
    }

    fn about(&self) -> &'static str {
        "a log with a memory error of tt-metal (ttnn, pytest, vLLM, tt-inference-server)"
    }

    fn capture(&self) -> &'static str {
        "python model.py > model.log 2>&1, until it fails; no settings are needed"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        if !looks_like_text(head) {
            Sniff::No
        } else if sightings::has_failure(head) {
            Sniff::Yes
        } else {
            // The error is usually at the end.
            Sniff::Maybe
        }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        read_failures(input, sink)
    }
}
