//! Operations as their texts say them, and the types of the tensors they name.

use serde::{Deserialize, Serialize};

use super::{Bytes, OpId, StrId, TypeId};

/// An operation: everything that one text says, with its parts interned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// `ttnn.matmul`; the OpType as printed (`MatmulOp`) where that is all there is.
    pub name: StrId,
    /// The names of its results: `%3`, or `%5#0` and `%5#1`.
    pub results: Vec<StrId>,
    /// The names of its operands, devices included.
    pub operands: Vec<StrId>,
    /// The types of the operands, as far as they are tensors.
    pub operand_types: Vec<Option<TypeId>>,
    /// The types of the results, as far as they are tensors.
    pub result_types: Vec<Option<TypeId>>,
    /// What stands between `<{` and `}>`.
    pub attributes: Option<StrId>,
    /// The function that it calls.
    pub callee: Option<StrId>,
    /// The location's text, whole, without the outer `loc( )`; `None` where it is unknown.
    pub loc: Option<StrId>,
    /// What kind of step it is, for the questions that ask.
    pub kind: OpKind,
}

impl Op {
    /// An operation of which only the name and the kind are known.
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

/// What an operation is to the accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpKind {
    /// It computes something.
    #[default]
    Compute,
    /// It gives memory back; left out of the reported operations.
    Deallocate,
    /// It names the device; left out of the reported operations.
    GetDevice,
    /// It brings the results of a const-eval program, computing them the first time.
    LoadCached,
    /// It runs another program of the same graph.
    Call,
}

impl OpKind {
    /// Whether the seeds' files list it (`reported` in the summary).
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
    /// Adds an operation; `None` when there are too many, or its lists are absurdly long.
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

    /// The name alone.
    pub fn name(&self, id: OpId) -> Option<StrId> {
        self.heads.get(id.index()).map(|head| head.name)
    }

    /// The location alone.
    pub fn loc(&self, id: OpId) -> Option<StrId> {
        self.heads.get(id.index()).and_then(|head| head.loc)
    }

    /// The kind alone.
    pub fn kind(&self, id: OpId) -> OpKind {
        self.heads.get(id.index()).map_or(OpKind::Compute, |head| head.kind)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// Ids in the arena are shifted by one; 0 is "none".
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
    /// The whole text, where the evidence has one.
    pub text: Option<StrId>,
    /// The logical shape; empty for a scalar.
    pub shape: Vec<u64>,
    /// The logical element: `bf16`, `si32`, `torch.float32` …
    pub dtype: StrId,
    /// How it lies in memory.
    pub layout: Option<Layout>,
    /// The bytes of the elements as declared, whatever they are stored as.
    pub declared: Bytes,
    /// The bytes of the elements as they are stored, without padding.
    pub logical: Bytes,
    /// The bytes of one whole tensor with all its padding, on one device.
    pub padded: Bytes,
}

/// How a tensor lies in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Where: `dram`, `l1`, `l1_small`, `trace`, `system_memory`.
    pub buffer: StrId,
    /// How it is spread: `interleaved`, `height_sharded` …
    pub spread: Option<StrId>,
    /// The element that is stored, which may differ from the logical one.
    pub stored_dtype: StrId,
    /// Height and width of a tile, where it is tiled.
    pub tile: Option<(u32, u32)>,
    /// The cores or banks that it is spread over.
    pub grid: Vec<u64>,
    /// The piece on each of them, in tiles or elements.
    pub shard: Vec<u64>,
    /// The logical shape, padded.
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
        assert_eq!((ops.get(a), ops.get(b)), (Some(op), Some(bare)));
    }
}
