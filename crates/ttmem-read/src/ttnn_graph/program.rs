//! The buffers of the programs that a capture runs.
//!
//! `circular_buffer_deallocate_all` begins a program, and its buffers follow. A capture of a real run contains them only
//! when the program is compiled, not when it comes from the cache; then they are those of the earlier run. It never
//! contains dataflow buffers and scratchpads, so a program without buffers is a program with unknown buffers.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use ttmem_model::{ProgramBufferKind, StrId};

use super::node::Node;
use crate::json::Number;

/// A program that a step runs.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub buffers: Vec<ProgramBuffer>,
    /// The device whose buffers are counted. All devices of a mesh run the same program.
    device: Option<u64>,
    /// Identifies the program among the programs of the capture.
    key: Option<ProgramKey>,
    /// Whether it was executed. Older captures do not say so.
    pub is_executed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramBuffer {
    pub kind: ProgramBufferKind,
    pub bytes: u64,
    pub address: Option<u64>,
    pub cores: StrId,
    pub borrowed: bool,
}

/// A hash of the operation's name, program factory and arguments, which determine its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProgramKey(u64);

impl ProgramKey {
    /// The key of the program that a device operation runs.
    pub fn of(function: &Node<'_>) -> Option<Self> {
        let arguments = function.arguments?.get();
        let params = &function.params;
        let is_device_operation = params.name.0.ends_with("DeviceOperation");
        if !is_device_operation && params.program_factory_type.0.is_empty() {
            return None;
        }
        let mut hasher = FxHasher::default();
        (&params.name.0, &params.program_factory_type.0, arguments).hash(&mut hasher);
        Some(Self(hasher.finish()))
    }
}

impl Program {
    pub fn new(key: Option<ProgramKey>) -> Self {
        Self { key, ..Self::default() }
    }

    /// Adds a buffer. A capture of a mesh repeats it for each device.
    pub fn add(&mut self, buffer: ProgramBuffer, device: Number) {
        let device = device.get().or(self.device);
        self.device = self.device.or(device);
        if self.device == device {
            self.buffers.push(buffer);
        }
    }
}

/// The programs so far.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// The buffers of each program; `None` if several programs have the same key.
    known: FxHashMap<ProgramKey, Option<Vec<ProgramBuffer>>>,
}

impl Programs {
    /// The buffers of a program that began and ended; `None` if they are unknown.
    pub fn buffers(&mut self, program: Program) -> Option<Vec<ProgramBuffer>> {
        let Program { buffers, key, .. } = program;
        if buffers.is_empty() {
            return self.known.get(&key?)?.clone();
        }
        if let Some(key) = key {
            let known = self.known.entry(key).or_insert_with(|| Some(buffers.clone()));
            // Arguments are shortened in a capture, so different programs may look the same.
            if known.as_ref().is_some_and(|known| *known != buffers) {
                *known = None;
            }
        }
        Some(buffers)
    }
}
