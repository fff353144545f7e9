//! Identifies tensors that could be reshaped (with the same elements) without changing the program's results.
//!
//! A tensor can only be reshaped together with every tensor that an element-wise operation ties it to, and only if no
//! other operation uses or produces any of them: other operations may reduce, broadcast, index or lay out dimensions.
//! The list of operations that are independent of the shape is short; every other operation is reported as one that
//! would have to change too.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Op, OpId, OpKind, Profile, Rank, Step, StepNumber, StrId, TensorId, TypeId};

use super::names::Names;
use super::tiles::friendly_shape;

/// Operations that compute each element of their result from the elements at the same index of their operands. Shapes
/// are checked as well, because operands of different shapes are broadcast.
const ELEMENT_WISE: [&str; 62] = [
    "abs",
    "add",
    "atan",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp_scalar",
    "clamp_tensor",
    "cos",
    "divide",
    "eq",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "from_device",
    "ge",
    "gelu",
    "gt",
    "hardsigmoid",
    "isfinite",
    "le",
    "leaky_relu",
    "log",
    "log1p",
    "logical_and",
    "logical_left_shift",
    "logical_not",
    "logical_or",
    "logical_right_shift",
    "logical_xor",
    "lt",
    "maximum",
    "minimum",
    "mish",
    "multiply",
    "ne",
    "neg",
    "pow_scalar",
    "pow_tensor",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "to_device",
    "to_layout",
    "typecast",
    "where",
];
/// Operations that fill a tensor whose shape is an attribute.
pub const CREATION: [&str; 4] = ["empty", "full", "ones", "zeros"];

/// Whether a tensor can be reshaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Yes: it is only used by element-wise operations.
    Free,
    /// The names of the operations that would also have to change: unique, most frequent first.
    Tied(Vec<StrId>),
    /// A program returns it, or a tensor tied to it, so its callers would have to change.
    Returned,
    /// The operation that produced it fixes its layout (`ttnn.prepare_conv2d_bias`).
    Fixed,
    /// The input does not contain the operations that use it.
    Unknown,
}

/// The padded tensors of a rank that have a better shape, and the tensors tied to them.
#[derive(Debug)]
pub struct Reshaping<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    /// Types that have an alternative shape with less padding.
    padded: FxHashSet<TypeId>,
    groups: Groups,
}

impl<'a> Reshaping<'a> {
    /// Examines every step that uses or produces a padded tensor.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let types = (0..profile.types.len()).filter_map(TypeId::new);
        let is_padded = |ty: &TypeId| profile.tensor_type(*ty).is_some_and(|ty| friendly_shape(ty).is_some());
        let padded: FxHashSet<TypeId> = types.filter(is_padded).collect();
        let mut reshaping = Self { profile, rank, padded, groups: Groups::default() };
        reshaping.look();
        reshaping
    }

    /// Whether a tensor can be reshaped.
    pub fn freedom(&self, tensor: TensorId) -> Freedom {
        let Some(group) = self.groups.of(tensor).filter(|_| self.is_padded(tensor)) else {
            return Freedom::Unknown;
        };
        if group.is_fixed {
            Freedom::Fixed
        } else if group.has_cut_uses {
            // Operations outside the cut-out may also tie it.
            Freedom::Unknown
        } else if !group.tied.is_empty() {
            let mut names: Vec<(StrId, usize)> = group.tied.iter().map(|(op, uses)| (*op, *uses)).collect();
            names.sort_by_key(|(op, uses)| (std::cmp::Reverse(*uses), self.profile.text(*op)));
            Freedom::Tied(names.into_iter().map(|(op, _)| op).collect())
        } else if group.is_returned {
            Freedom::Returned
        } else if group.uses == 0 {
            Freedom::Unknown
        } else {
            Freedom::Free
        }
    }

    fn is_padded(&self, tensor: TensorId) -> bool {
        self.rank
            .tensors
            .ty
            .get(tensor.index())
            .copied()
            .flatten()
            .is_some_and(|ty| self.padded.contains(&ty))
    }

    fn look(&mut self) {
        let by_op = self.uses();
        if by_op.is_empty() {
            return;
        }
        let operands: FxHashSet<StrId> = by_op.values().flat_map(|used| &used.op.operands).copied().collect();
        let names = Names::of(self.profile, self.rank, &operands);
        let made = self.made();
        for step in 0..self.rank.end() {
            let Some(used) = self.rank.op_id(step).and_then(|op| by_op.get(&op)) else { continue };
            let operands: Vec<TensorId> =
                used.op.operands.iter().filter_map(|name| names.meant(step, *name)).collect();
            let results = made.get(&step).map_or(&[][..], Vec::as_slice);
            self.record(used, &operands, results);
        }
        for tensor in made.into_values().flatten().filter(|tensor| is_returned(self.rank, *tensor)) {
            self.groups.at(tensor).is_returned = true;
        }
        if self.rank.cut_out.is_some() {
            self.note_cut_uses();
        }
    }

    /// Marks tensors from before a cut-out, which earlier passes used.
    fn note_cut_uses(&mut self) {
        let tensors = (0..self.rank.tensors.len()).filter_map(TensorId::new);
        for tensor in tensors.filter(|tensor| self.rank.tensors.step[tensor.index()].is_none()) {
            if self.is_padded(tensor) {
                self.groups.at(tensor).has_cut_uses = true;
            }
        }
    }

    /// The operations that use or produce a padded tensor, and how.
    fn uses(&self) -> FxHashMap<OpId, Used> {
        let ids = (0..self.profile.ops.len()).filter_map(OpId::new);
        let used = |id: OpId| {
            let op = self.profile.ops.get(id)?;
            let mut types = op.operand_types.iter().chain(&op.result_types).flatten();
            let is_one = types.any(|ty| self.padded.contains(ty));
            // Deallocations, and operations that load a tensor of another program, do not depend on a shape.
            let is_use = matches!(op.kind, OpKind::Compute | OpKind::Call);
            (is_one && is_use).then(|| (id, Used { manner: self.manner(&op), op }))
        };
        ids.filter_map(used).collect()
    }

    fn manner(&self, op: &Op) -> Manner {
        let name = self.profile.text(op.name);
        let Some(name) = name.strip_prefix("ttnn.").filter(|_| op.kind == OpKind::Compute) else {
            return Manner::Other;
        };
        if name.starts_with("prepare_conv") {
            Manner::Fixed
        } else if CREATION.contains(&name) {
            Manner::Creation
        } else if ELEMENT_WISE.contains(&name) && self.is_of_one_shape(op) {
            Manner::ElementWise
        } else {
            Manner::Other
        }
    }

    /// Whether all operands have the shape of the result, or a single element.
    fn is_of_one_shape(&self, op: &Op) -> bool {
        let shape = |ty: &TypeId| self.profile.tensor_type(*ty).map(|ty| ty.shape.as_slice());
        let [Some(result)] = op.result_types[..] else { return false };
        let Some(result) = shape(&result) else { return false };
        op.operand_types
            .iter()
            .flatten()
            .all(|ty| shape(ty).is_some_and(|shape| shape == result || shape.iter().all(|dim| *dim == 1)))
    }

    /// The padded tensors that each step produced.
    fn made(&self) -> FxHashMap<Step, Vec<TensorId>> {
        let mut made: FxHashMap<Step, Vec<TensorId>> = FxHashMap::default();
        let tensors = (0..self.rank.tensors.len()).filter_map(TensorId::new);
        for tensor in tensors.filter(|tensor| self.is_padded(*tensor)) {
            if let Some(step) = self.rank.tensors.step[tensor.index()].map(StepNumber::get) {
                made.entry(step).or_default().push(tensor);
            }
        }
        made
    }

    fn tie(&mut self, op: StrId, tensors: &[TensorId]) {
        for tensor in tensors {
            *self.groups.at(*tensor).tied.entry(op).or_default() += 1;
        }
    }

    /// Records how a step uses the shapes of its tensors.
    fn record(&mut self, used: &Used, operands: &[TensorId], results: &[TensorId]) {
        let is_padded = |tensor: &&TensorId| self.is_padded(**tensor);
        let operands: Vec<TensorId> = operands.iter().filter(is_padded).copied().collect();
        for tensor in &operands {
            self.groups.at(*tensor).uses += 1;
        }
        match used.manner {
            Manner::ElementWise => {
                for pair in operands.iter().chain(results).collect::<Vec<_>>().windows(2) {
                    self.groups.join(*pair[0], *pair[1]);
                }
            }
            Manner::Creation => {
                for tensor in results {
                    self.groups.at(*tensor);
                }
            }
            Manner::Fixed => {
                self.tie(used.op.name, &operands);
                for tensor in results {
                    self.groups.at(*tensor).is_fixed = true;
                }
            }
            Manner::Other => {
                self.tie(used.op.name, &operands);
                self.tie(used.op.name, results);
            }
        }
    }
}

/// Whether a program returns a tensor, that is, whether the tensor outlives the run that produced it. Const-eval
/// results are excluded: the steps of other programs show how they are used.
fn is_returned(rank: &Rank, tensor: TensorId) -> bool {
    let index = tensor.index();
    let run = rank.tensors.run[index].and_then(|run| rank.run(run));
    run.is_some_and(|run| !run.const_eval && run.finished && rank.tensors.dies[index].position() > run.end)
}

/// An operation that uses or produces a padded tensor.
#[derive(Debug)]
struct Used {
    op: Op,
    manner: Manner,
}

/// How an operation depends on shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    ElementWise,
    Creation,
    Fixed,
    Other,
}

/// Tensors that must have the same shape.
#[derive(Clone, Debug, Default)]
struct Group {
    uses: usize,
    /// The operations that use or produce one of them and are not element-wise, with their counts.
    tied: BTreeMap<StrId, usize>,
    is_fixed: bool,
    is_returned: bool,
    /// Whether operations that are not in the input may have used one of them.
    has_cut_uses: bool,
}

/// Groups of tensors (a union-find structure).
#[derive(Debug, Default)]
struct Groups {
    places: FxHashMap<TensorId, usize>,
    /// For each group, the index of the group it was merged into, or its own index.
    parents: Vec<usize>,
    rows: Vec<Group>,
}

impl Groups {
    fn of(&self, tensor: TensorId) -> Option<&Group> {
        let place = self.root(*self.places.get(&tensor)?);
        self.rows.get(place)
    }

    /// The group of a tensor. Creates one if the tensor has none.
    fn at(&mut self, tensor: TensorId) -> &mut Group {
        let place = self.place(tensor);
        &mut self.rows[place]
    }

    fn place(&mut self, tensor: TensorId) -> usize {
        let next = self.parents.len();
        let place = *self.places.entry(tensor).or_insert(next);
        if place == next {
            self.parents.push(next);
            self.rows.push(Group::default());
        }
        let root = self.root(place);
        self.parents[place] = root;
        root
    }

    fn root(&self, mut place: usize) -> usize {
        while self.parents[place] != place {
            place = self.parents[place];
        }
        place
    }

    fn join(&mut self, one: TensorId, other: TensorId) {
        let (one, other) = (self.place(one), self.place(other));
        if one == other {
            return;
        }
        let (into, from) = (one.min(other), one.max(other));
        self.parents[from] = into;
        let part = std::mem::take(&mut self.rows[from]);
        let whole = &mut self.rows[into];
        whole.uses += part.uses;
        whole.is_fixed |= part.is_fixed;
        for (op, uses) in part.tied {
            *whole.tied.entry(op).or_default() += uses;
        }
    }
}
