//! Call stacks: lines of the program, each with the line that called it.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{FrameId, OpId, StackId, StrId};

/// A line of the program, in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function.
    pub function: StrId,
    /// Its file, as the program knows it.
    pub file: StrId,
    /// The line, from 1; 0 where it is not known.
    pub line: u32,
}

columns! {
    /// A stack: its innermost line, and the stack that called it.
    row Stack;
    /// All stacks. They share what they have in common: a caller is always an earlier row.
    table StackRows;
    /// The innermost line.
    frame: FrameId,
    /// The rest; `None` for the outermost line.
    caller: Option<StackId>,
}

columns! {
    /// Where an operation is called from.
    row OpStack;
    /// Where operations are called from, in their order, as far as that is known.
    table OpStacks;
    /// The operation.
    op: OpId,
    /// Where from.
    stack: StackId,
}

/// The stacks of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// All lines.
    pub frames: Vec<Frame>,
    /// All stacks.
    pub rows: StackRows,
    /// Which operations have which.
    pub of_ops: OpStacks,
}

impl Stacks {
    /// Adds a stack; `None` when it names what is not there.
    pub(super) fn push(&mut self, stack: Stack) -> Option<()> {
        self.frames.get(stack.frame.index())?;
        if let Some(caller) = stack.caller {
            self.rows.get(caller.index())?;
        }
        self.rows.push(stack);
        Some(())
    }

    /// Gives a stack to an operation; `None` when it names what is not there, or a later operation has one already.
    pub(super) fn give(&mut self, row: OpStack) -> Option<()> {
        self.rows.get(row.stack.index())?;
        if self.of_ops.op.last().is_some_and(|last| *last >= row.op) {
            return None;
        }
        self.of_ops.push(row);
        Some(())
    }

    /// Where an operation is called from.
    pub fn of_op(&self, op: OpId) -> Option<StackId> {
        let row = self.of_ops.op.binary_search(&op).ok()?;
        self.of_ops.stack.get(row).copied()
    }

    /// The lines of a stack, innermost first.
    pub fn lines(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let stack = next.and_then(|id| self.rows.get(id.index()))?;
            // A caller is always an earlier row: this ends.
            next = stack.caller;
            self.frames.get(stack.frame.index()).copied()
        })
    }
}
