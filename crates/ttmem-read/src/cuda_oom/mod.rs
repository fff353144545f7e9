//! Reads out-of-memory errors of GPU programs in logs: PyTorch, CUDA and its libraries, NCCL, JAX, vLLM, SGLang.
//!
//! `message` parses PyTorch's messages, `cache` those about a KV cache and `library` the others; `amount` parses their sizes, and `advice` skips what
//! PyTorch recommends. `label` separates the ranks of a log, `stream` finds the errors of one rank, `place` the line of the
//! program, `server` the inference server, `progress` whether the program went on, and `startup` what a server reported
//! about its memory before. `log` decides at the end of the log which errors count, and emits them.

mod advice;
mod amount;
mod cache;
mod found;
mod label;
mod library;
mod log;
mod message;
mod place;
mod progress;
mod server;
mod startup;
mod stream;

pub(crate) use log::Log;

use ttmem_model::{Error, Result, Sink, Warning};

use super::lines::each_line;
use super::tt_log::looks_like_text;
use super::tt_log::tables::Tables;
use super::{Input, Reader, Sniff};

/// The name of the format.
pub(crate) const CUDA_OOM: &str = "cuda_oom";

/// The reader of logs with out-of-memory errors of GPU programs.
pub struct CudaOom;

impl Reader for CudaOom {
    fn name(&self) -> &'static str {
        CUDA_OOM
    }

    fn about(&self) -> &'static str {
        "a log with an out-of-memory error on a GPU (PyTorch, CUDA, NCCL, JAX, vLLM, SGLang), or only its message"
    }

    fn capture(&self) -> &'static str {
        "python train.py > train.log 2>&1, until it fails; no settings are needed"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        // The error is usually at the end. If it is not in the first bytes, the reader of `tt_log` looks for it.
        if looks_like_text(head) && is_failure_in(head) { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut tables = Tables::new(sink);
        let mut log = Log::default();
        let warning = each_line(input.stream, input.name, |line| {
            log.line(line.bytes, line.number);
            Ok(())
        })?;
        if let Some(Warning { line, message }) = warning {
            tables.warn(line, message)?;
        }
        if !log.has_failure() {
            let what = "text without an out-of-memory error".to_owned();
            let unknown = || Error::UnknownFormat { file: input.name.into(), what };
            return Err(log.no_memory_data(input.name).unwrap_or_else(unknown));
        }
        log.emit(&mut tables)?;
        tables.end()
    }
}

/// Whether a text has an error that a program printed.
fn is_failure_in(text: &[u8]) -> bool {
    if !stream::is_hinted(text) {
        return false;
    }
    let mut log = Log::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        log.line(line, number);
    }
    log.has_failure()
}
