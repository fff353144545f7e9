//! Call stacks: source lines, each with its caller.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{FrameId, OpId, StackId, StrId};

/// A source line in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function.
    pub function: StrId,
    /// The file, as the program names it.
    pub file: StrId,
    /// The line number, counted from 1; 0 if unknown.
    pub line: u32,
}

columns! {
    /// A stack: its innermost line, and the calling stack.
    row Stack;
    /// All stacks. Common parts are shared: a caller is always an earlier row.
    table StackRows;
    /// The innermost line.
    frame: FrameId,
    /// The calling stack; `None` for the outermost line.
    caller: Option<StackId>,
}

columns! {
    /// The call stack of an operation.
    row OpStack;
    /// The known call stacks of operations, in the order of operations.
    table OpStacks;
    /// The operation.
    op: OpId,
    /// The stack.
    stack: StackId,
}

/// The stacks of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// All lines.
    pub frames: Vec<Frame>,
    /// All stacks.
    pub rows: StackRows,
    /// The stacks of operations.
    pub of_ops: OpStacks,
}

impl Stacks {
    /// Adds a stack; `None` if it refers to a missing row.
    pub(super) fn push(&mut self, stack: Stack) -> Option<()> {
        self.frames.get(stack.frame.index())?;
        if let Some(caller) = stack.caller {
            self.rows.get(caller.index())?;
        }
        self.rows.push(stack);
        Some(())
    }

    /// Assigns a stack to an operation; `None` if it refers to a missing row, or a later operation already has one.
    pub(super) fn give(&mut self, row: OpStack) -> Option<()> {
        self.rows.get(row.stack.index())?;
        if self.of_ops.op.last().is_some_and(|last| *last >= row.op) {
            return None;
        }
        self.of_ops.push(row);
        Some(())
    }

    /// The call stack of an operation.
    pub fn of_op(&self, op: OpId) -> Option<StackId> {
        let row = self.of_ops.op.binary_search(&op).ok()?;
        self.of_ops.stack.get(row).copied()
    }

    /// The lines of a stack, innermost first.
    pub fn lines(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let stack = next.and_then(|id| self.rows.get(id.index()))?;
            // A caller is always an earlier row, so this ends.
            next = stack.caller;
            self.frames.get(stack.frame.index()).copied()
        })
    }
}
