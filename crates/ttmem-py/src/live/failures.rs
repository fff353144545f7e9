//! Failed CPU allocations, and the exception that ends the program.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use ttmem::record::live::FailedAllocation;

use super::watch::{Watch, Within};

/// The name of the CPU's allocator in its messages.
const ALLOCATOR: &str = "DefaultCPUAllocator";
const REQUESTED: &str = "you tried to allocate ";
const CPU: &str = "cpu";

impl Watch {
    /// Records an operation that failed because there was no memory for its result. Ignores other errors.
    pub(super) fn operation_failed(&self, py: Python<'_>, func: &Bound<'_, PyAny>, error: &PyErr) {
        if !error.is_instance_of::<PyRuntimeError>(py) {
            return;
        }
        let message = error.value(py).to_string();
        if !message.contains(ALLOCATOR) {
            return;
        }
        let op = match self.op(py, func) {
            Ok(op) => Some(op),
            Err(error) => {
                self.failed(py, error);
                None
            }
        };
        let within = self.within(py);
        self.state.with(py, |state| {
            let within = within.as_ref().map(Within::at);
            let (bytes, free) = (requested(&message), available());
            let failed = FailedAllocation { pool: CPU, bytes, free, op, within, message: &message };
            state.recorder.allocation_failed(failed);
            state.failed_allocation = Some(message);
        });
    }

    /// Records the exception that ended the program: `text` describes it; `messages` are those of its chain of causes.
    pub(super) fn program_ended_by(&self, py: Python<'_>, text: &str, messages: &[String]) {
        self.state.with(py, |state| {
            if state.failed_allocation.as_ref().is_some_and(|failed| messages.contains(failed)) {
                state.recorder.last_failure_ended_program();
            } else if let Some(message) = messages.iter().find(|message| message.contains(ALLOCATOR)) {
                // No tracked operation raised it.
                let (bytes, free) = (requested(message), available());
                let failed =
                    FailedAllocation { pool: CPU, bytes, free, op: None, within: None, message: text };
                state.recorder.allocation_failed(failed);
                state.recorder.last_failure_ended_program();
            } else {
                state.recorder.ended_by(text);
            }
        });
    }
}

/// The requested bytes, parsed from the message.
fn requested(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once(REQUESTED)?;
    rest.split(' ').next()?.parse().ok()
}

/// The memory that the system has available.
fn available() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_read_from_the_message() {
        let message = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you \
                       tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)";
        assert_eq!(requested(message), Some(1 << 50));
        assert_eq!(requested("DefaultCPUAllocator: not enough memory"), None);
        assert_eq!(requested("you tried to allocate many bytes"), None);
    }
}
