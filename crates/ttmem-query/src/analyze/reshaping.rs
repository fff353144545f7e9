//! Which tensors could have another shape of the same elements without changing what a program computes.
//!
//! A tensor is free to change its shape only together with every tensor that an element-wise operation ties it to, and only
//! if nothing else uses or makes any of them: any other operation reduces, broadcasts, indexes or lays out dimensions, or
//! may do so. So the list of operations that do not care about a shape is short, and whatever is not on it is named as an
//! operation that would have to change, too.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Op, OpId, OpKind, Profile, Rank, Step, StepNumber, StrId, TensorId, TypeId};

use super::names::Names;
use super::tiles::friendly_shape;

/// Operations that compute each element of their result from the elements at the same place of their operands. (Shapes are
/// checked besides: with operands of different shapes they broadcast.)
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
const CREATION: [&str; 4] = ["empty", "full", "ones", "zeros"];

/// What speaks against another shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Nothing: it is only used element by element.
    Free,
    /// These operations would have to change, too: their names, each once, those that use most of it first.
    Tied(Vec<StrId>),
    /// A program returns it, or something tied to it, so its callers would have to change.
    Returned,
    /// The layout is fixed by the operation that made it (`ttnn.prepare_conv2d_bias`).
    Fixed,
    /// The evidence does not say which operations use it.
    Unknown,
}

/// The tensors of a rank that a better shape could be proposed for, with what is tied to them.
#[derive(Debug)]
pub struct Reshaping<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    /// Types for which there is a shape with less padding.
    padded: FxHashSet<TypeId>,
    groups: Groups,
}

impl<'a> Reshaping<'a> {
    /// Looks at every step that uses or makes a tensor with padding.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let types = (0..profile.types.len()).filter_map(TypeId::new);
        let is_padded = |ty: &TypeId| profile.tensor_type(*ty).is_some_and(|ty| friendly_shape(ty).is_some());
        let padded: FxHashSet<TypeId> = types.filter(is_padded).collect();
        let mut reshaping = Self { profile, rank, padded, groups: Groups::default() };
        reshaping.look();
        reshaping
    }

    /// What speaks against another shape of a tensor.
    pub fn freedom(&self, tensor: TensorId) -> Freedom {
        let Some(group) = self.groups.of(tensor).filter(|_| self.is_padded(tensor)) else {
            return Freedom::Unknown;
        };
        if group.is_fixed {
            Freedom::Fixed
        } else if group.has_cut_uses {
            // Operations that were cut away may tie it, too.
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
            self.take(used, &operands, results);
        }
        for tensor in made.into_values().flatten().filter(|tensor| is_returned(self.rank, *tensor)) {
            self.groups.at(tensor).is_returned = true;
        }
        if self.rank.cut_out.is_some() {
            self.note_cut_uses();
        }
    }

    /// What was there before a cut-out begins was used by passes that are not in it.
    fn note_cut_uses(&mut self) {
        let tensors = (0..self.rank.tensors.len()).filter_map(TensorId::new);
        for tensor in tensors.filter(|tensor| self.rank.tensors.step[tensor.index()].is_none()) {
            if self.is_padded(tensor) {
                self.groups.at(tensor).has_cut_uses = true;
            }
        }
    }

    /// The operations that use or make a tensor with padding, and how.
    fn uses(&self) -> FxHashMap<OpId, Used> {
        let ids = (0..self.profile.ops.len()).filter_map(OpId::new);
        let used = |id: OpId| {
            let op = self.profile.ops.get(id)?;
            let mut types = op.operand_types.iter().chain(&op.result_types).flatten();
            let is_one = types.any(|ty| self.padded.contains(ty));
            // What gives memory back, and what brings a tensor that another program made, uses no shape.
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

    /// The tensors with padding that each step made.
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

    /// Takes down what a step does to the shapes of its tensors.
    fn take(&mut self, used: &Used, operands: &[TensorId], results: &[TensorId]) {
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

/// Whether a tensor is what a program returns: it outlives the run that made it. What a const-eval program keeps is used by
/// other programs, whose steps say how.
fn is_returned(rank: &Rank, tensor: TensorId) -> bool {
    let index = tensor.index();
    let run = rank.tensors.run[index].and_then(|run| rank.run(run));
    run.is_some_and(|run| !run.const_eval && run.finished && rank.tensors.dies[index].position() > run.end)
}

/// An operation that uses or makes a tensor with padding.
#[derive(Debug)]
struct Used {
    op: Op,
    manner: Manner,
}

/// What an operation does to shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    ElementWise,
    Creation,
    Fixed,
    Other,
}

/// Tensors that must have one shape.
#[derive(Clone, Debug, Default)]
struct Group {
    uses: usize,
    /// What uses or makes one of them otherwise than element by element, and how often.
    tied: BTreeMap<StrId, usize>,
    is_fixed: bool,
    is_returned: bool,
    /// Operations that are not in the evidence may have used one of them.
    has_cut_uses: bool,
}

/// Groups, found by their tensors.
#[derive(Debug, Default)]
struct Groups {
    places: FxHashMap<TensorId, usize>,
    /// By place: the place of the group that this one has become a part of, or its own.
    parents: Vec<usize>,
    rows: Vec<Group>,
}

impl Groups {
    fn of(&self, tensor: TensorId) -> Option<&Group> {
        let place = self.root(*self.places.get(&tensor)?);
        self.rows.get(place)
    }

    /// The group of a tensor, which is new if nothing is known of it yet.
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
