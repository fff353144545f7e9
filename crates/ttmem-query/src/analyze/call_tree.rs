//! The call stacks of allocations as a tree of source lines, each line once under its caller.

use rustc_hash::FxHashMap;
use ttmem_model::rules::FrameOrigin;
use ttmem_model::{Frame, Profile, Rank, StackId, TensorId};

/// Maximum depth of a stack. Lines below it count for their callers.
///
/// Python stops at 1,000 calls by default, so only corrupt files have deeper stacks.
const MAX_DEPTH: u32 = 1000;

/// The distinct stacks of some operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    /// The distinct lines.
    pub frames: Vec<Frame>,
    /// The origin of each line.
    pub origins: Vec<FrameOrigin>,
    /// The nodes; a caller precedes the lines that it calls.
    pub nodes: Vec<CallNode>,
    /// For each stack of the profile, its node plus 1; 0 for stacks that are not used.
    of_stack: Vec<u32>,
}

/// A line, called from the line of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// The line, as an index into [`CallTree::frames`].
    pub frame: u32,
    /// The node that calls it; `None` for an outermost line.
    pub caller: Option<u32>,
    /// The line to show for a stack that ends here: the innermost one of the user's program, or else of an installed
    /// package, or else of all.
    pub line: u32,
    /// The number of callers.
    pub depth: u32,
}

impl CallTree {
    /// The tree of some stacks and their callers.
    pub fn new(profile: &Profile, used: impl Iterator<Item = StackId>) -> Self {
        let rows = &profile.stacks.rows;
        let mut is_used = vec![false; rows.len()];
        for stack in used {
            let mut next = Some(stack);
            while let Some(stack) = next.filter(|stack| is_used.get(stack.index()) == Some(&false)) {
                is_used[stack.index()] = true;
                next = rows.caller[stack.index()];
            }
        }
        let mut tree = Self { of_stack: vec![0; rows.len()], ..Self::default() };
        let mut frames: FxHashMap<Frame, u32> = FxHashMap::default();
        let mut nodes: FxHashMap<(Option<u32>, u32), u32> = FxHashMap::default();
        for row in (0..rows.len()).filter(|row| is_used[*row]) {
            let Some(frame) = profile.stacks.frames.get(rows.frame[row].index()) else { continue };
            let caller = rows.caller[row].and_then(|caller| tree.node_of(caller));
            let frame = *frames.entry(*frame).or_insert_with(|| {
                tree.frames.push(*frame);
                tree.origins.push(FrameOrigin::of(profile.text(frame.file)));
                count(tree.frames.len()) - 1
            });
            let node = *nodes.entry((caller, frame)).or_insert_with(|| tree.push(frame, caller));
            tree.of_stack[row] = node + 1;
        }
        tree
    }

    fn push(&mut self, frame: u32, caller: Option<u32>) -> u32 {
        let above = caller.and_then(|caller| self.nodes.get(caller as usize)).copied();
        if let (Some(above), Some(caller)) = (above, caller)
            && above.depth + 1 >= MAX_DEPTH
        {
            return caller;
        }
        let origin = |frame: u32| self.origins.get(frame as usize).copied();
        let line = above.map(|above| above.line).filter(|line| origin(*line) < origin(frame));
        let depth = above.map_or(0, |above| above.depth + 1);
        self.nodes.push(CallNode { frame, caller, line: line.unwrap_or(frame), depth });
        count(self.nodes.len()) - 1
    }

    /// The node of a stack, if the tree has it.
    pub fn node_of(&self, stack: StackId) -> Option<u32> {
        self.of_stack.get(stack.index())?.checked_sub(1)
    }
}

fn count(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// The call stack of an allocation: that of the operation that made it, here or in an earlier file of the recording.
pub fn stack_of(profile: &Profile, rank: &Rank, tensor: TensorId) -> Option<StackId> {
    profile.stacks.of_op(rank.made_by(tensor)?)
}
