//! Operations as in their texts, and the types of their tensors.

use serde::{Deserialize, Serialize};

use super::{Bytes, OpId, StrId, TypeId};

/// An operation: the contents of one text, with its parts interned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// `ttnn.matmul`, or the printed OpType (`MatmulOp`) if that is all there is.
    pub name: StrId,
    /// The names of its results: `%3`, or `%5#0` and `%5#1`.
    pub results: Vec<StrId>,
    /// The names of its operands, including devices.
    pub operands: Vec<StrId>,
    /// The types of the operands; `None` for non-tensors.
    pub operand_types: Vec<Option<TypeId>>,
    /// The types of the results; `None` for non-tensors.
    pub result_types: Vec<Option<TypeId>>,
    /// The text between `<{` and `}>`.
    pub attributes: Option<StrId>,
    /// The called function.
    pub callee: Option<StrId>,
    /// The complete location text, without the outer `loc( )`; `None` if it is unknown.
    pub loc: Option<StrId>,
    /// The kind of step.
    pub kind: OpKind,
}

impl Op {
    /// An operation with only a name and a kind.
    pub fn new(name: StrId, kind: OpKind) -> Self {
        Self {
            name,
            results: Vec::new(),
            operands: Vec::new(),
            operand_types: Vec::new(),
            result_types: Vec::new(),
            attributes: None,
            callee: None,
            loc: None,
            kind,
        }
    }
}

/// The kind of an operation, by its effect on memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpKind {
    /// Computes something.
    #[default]
    Compute,
    /// Frees memory; not a reported operation.
    Deallocate,
    /// Gets the device; not a reported operation.
    GetDevice,
    /// Returns the results of a const-eval program, computing them the first time.
    LoadCached,
    /// Runs another program of the same graph.
    Call,
}

impl OpKind {
    /// Whether the operations file lists it (`reported` in the summary).
    pub fn is_reported(self) -> bool {
        !matches!(self, Self::Deallocate | Self::GetDevice)
    }
}

/// The operations of a profile, with their lists in one arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops {
    heads: Vec<Head>,
    lists: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    name: StrId,
    attributes: Option<StrId>,
    callee: Option<StrId>,
    loc: Option<StrId>,
    kind: OpKind,
    start: u32,
    results: u16,
    operands: u16,
    result_types: u16,
    operand_types: u16,
}

impl Ops {
    /// Adds an operation; `None` if there are too many, or its lists are too long.
    pub fn push(&mut self, op: &Op) -> Option<OpId> {
        let id = OpId::new(self.heads.len())?;
        let head = Head {
            name: op.name,
            attributes: op.attributes,
            callee: op.callee,
            loc: op.loc,
            kind: op.kind,
            start: u32::try_from(self.lists.len()).ok()?,
            results: u16::try_from(op.results.len()).ok()?,
            operands: u16::try_from(op.operands.len()).ok()?,
            result_types: u16::try_from(op.result_types.len()).ok()?,
            operand_types: u16::try_from(op.operand_types.len()).ok()?,
        };
        let names = op.results.iter().chain(&op.operands).map(|id| pack(Some(id.index())));
        let types = op.result_types.iter().chain(&op.operand_types).map(|id| pack(id.map(TypeId::index)));
        self.lists.extend(names.chain(types));
        self.heads.push(head);
        Some(id)
    }

    /// The operation with that id.
    pub fn get(&self, id: OpId) -> Option<Op> {
        let head = self.heads.get(id.index())?;
        let mut rest = self.lists.get(head.start as usize..)?.iter().copied();
        let mut names = |count: u16| rest.by_ref().take(count.into()).filter_map(unpack).collect::<Vec<_>>();
        let (results, operands) = (names(head.results), names(head.operands));
        let mut types = |count: u16| rest.by_ref().take(count.into()).map(unpack_type).collect::<Vec<_>>();
        let (result_types, operand_types) = (types(head.result_types), types(head.operand_types));
        Some(Op {
            name: head.name,
            results,
            operands,
            operand_types,
            result_types,
            attributes: head.attributes,
            callee: head.callee,
            loc: head.loc,
            kind: head.kind,
        })
    }

    /// The name of an operation, without reading its operands and types.
    pub fn name(&self, id: OpId) -> Option<StrId> {
        self.heads.get(id.index()).map(|head| head.name)
    }

    /// The location of an operation, like [`Ops::name`].
    pub fn loc(&self, id: OpId) -> Option<StrId> {
        self.heads.get(id.index()).and_then(|head| head.loc)
    }

    /// The type of an operation's first result, like [`Ops::name`].
    pub fn result_type(&self, id: OpId) -> Option<TypeId> {
        let head = self.heads.get(id.index()).filter(|head| head.result_types > 0)?;
        let types = head.start as usize + usize::from(head.results) + usize::from(head.operands);
        self.lists.get(types).and_then(|packed| unpack_type(*packed))
    }

    /// The kind of an operation, like [`Ops::name`].
    pub fn kind(&self, id: OpId) -> OpKind {
        self.heads.get(id.index()).map_or(OpKind::Compute, |head| head.kind)
    }

    /// Sets the kind of an operation.
    pub fn set_kind(&mut self, id: OpId, kind: OpKind) {
        if let Some(head) = self.heads.get_mut(id.index()) {
            head.kind = kind;
        }
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// Ids in the arena are shifted by one; 0 means none.
fn pack(index: Option<usize>) -> u32 {
    index.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
}

fn unpack(packed: u32) -> Option<StrId> {
    (packed as usize).checked_sub(1).and_then(StrId::new)
}

fn unpack_type(packed: u32) -> Option<TypeId> {
    (packed as usize).checked_sub(1).and_then(TypeId::new)
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorType {
    /// The complete text, if the input has it.
    pub text: Option<StrId>,
    /// The logical shape; empty for a scalar.
    pub shape: Vec<u64>,
    /// The logical element type: `bf16`, `si32`, `torch.float32` …
    pub dtype: StrId,
    /// The memory layout.
    pub layout: Option<Layout>,
    /// The size of the elements in the declared type.
    pub declared: Bytes,
    /// The size of the elements in the stored type, without padding.
    pub logical: Bytes,
    /// The size of the whole tensor with padding, on one device.
    pub padded: Bytes,
}

/// The memory layout of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The buffer type: `dram`, `l1`, `l1_small`, `trace`, `system_memory`.
    pub buffer: StrId,
    /// The memory layout: `interleaved`, `height_sharded` …
    pub spread: Option<StrId>,
    /// The stored element type, which may differ from the logical one.
    pub stored_dtype: StrId,
    /// The height and width of a tile, if it is tiled.
    pub tile: Option<(u32, u32)>,
    /// The grid of cores or banks.
    pub grid: Vec<u64>,
    /// The shard on each of them, in tiles or elements.
    pub shard: Vec<u64>,
    /// The padded logical shape.
    pub padded_shape: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_comes_back_as_it_went_in() {
        let s = |index| StrId::new(index).unwrap();
        let t = |index| TypeId::new(index);
        let op = Op {
            name: s(0),
            results: vec![s(1), s(2)],
            operands: vec![s(3), s(4), s(3)],
            operand_types: vec![t(0), None, t(1)],
            result_types: vec![t(2), t(2)],
            attributes: Some(s(5)),
            callee: None,
            loc: Some(s(6)),
            kind: OpKind::Call,
        };
        let bare = Op {
            operands: vec![],
            results: vec![],
            operand_types: vec![],
            result_types: vec![],
            ..op.clone()
        };
        let mut ops = Ops::default();
        let (a, b) = (ops.push(&op).unwrap(), ops.push(&bare).unwrap());
        assert_eq!((ops.result_type(a), ops.result_type(b)), (t(2), None));
        assert_eq!((ops.get(a), ops.get(b)), (Some(op), Some(bare)));
    }
}
