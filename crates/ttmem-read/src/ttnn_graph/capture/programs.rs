//! The programs that a capture runs.

use ttmem_model::{Change, CoreRanges, ProgramBufferKind, Result};

use super::super::node::Params;
use super::super::program::{Program, ProgramBuffer};
use super::{Capture, position};

impl Capture<'_> {
    /// A program begins, which frees the buffers of the previous one. After a program that failed, nothing begins: its
    /// buffers are freed, and no others follow.
    pub(super) fn buffers_gone(&mut self, offset: u64) -> Result<()> {
        self.apply(Change::ProgramBuffersGone);
        let program = self.stretch.as_ref().and_then(|stretch| stretch.program.as_ref());
        if program.is_some_and(|program| !program.buffers.is_empty() && !program.is_executed) {
            self.next_program = Some(offset);
            return Ok(());
        }
        self.program_begins(offset)
    }

    /// A program was executed.
    pub(super) fn program_executed(&mut self) -> Result<()> {
        self.begin_next_program()?;
        if let Some(program) = self.stretch.as_mut().and_then(|stretch| stretch.program.as_mut()) {
            program.is_executed = true;
        }
        Ok(())
    }

    /// Begins a program whose first node was seen before.
    pub(super) fn begin_next_program(&mut self) -> Result<()> {
        match self.next_program.take() {
            Some(offset) => self.program_begins(offset),
            None => Ok(()),
        }
    }

    /// A program begins.
    pub(super) fn program_begins(&mut self, offset: u64) -> Result<()> {
        if self.stretch.as_ref().is_some_and(|stretch| stretch.program.is_some()) {
            self.close()?;
        }
        let key = self.calls.last().and_then(|call| call.program);
        self.touch(true, offset)?.program = Some(Program::new(key));
        Ok(())
    }

    /// A program has a buffer on its cores. A buffer in the memory of a tensor adds nothing.
    pub(super) fn on_cores(
        &mut self,
        index: u64,
        params: &Params<'_>,
        offset: u64,
        kind: ProgramBufferKind,
        borrowed: bool,
    ) -> Result<()> {
        self.begin_next_program()?;
        let Some(bytes) = params.size.get() else {
            self.notes.no_sizes.add(|| position(self.operation, index));
            return Ok(());
        };
        let own = if borrowed { 0 } else { bytes };
        self.apply(match kind {
            ProgramBufferKind::Circular => Change::CircularBuffer(own),
            ProgramBufferKind::Dataflow | ProgramBufferKind::Scratchpad => Change::ProgramBuffer(own),
        });
        let text = &*params.core_range_set.0;
        let cores = CoreRanges::parse(text).map_or_else(|| text.to_owned(), |cores| cores.to_string());
        let cores = self.tables.text(cores.as_bytes())?;
        let address = params.address.get().filter(|address| *address > 0);
        let buffer = ProgramBuffer { kind, bytes, address, cores, borrowed };
        let key = self.calls.last().and_then(|call| call.program);
        let program = &mut self.touch(true, offset)?.program;
        program.get_or_insert_with(|| Program::new(key)).add(buffer, params.device_id);
        Ok(())
    }
}
