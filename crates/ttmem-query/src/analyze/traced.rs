//! The weights that a step reads, traced from the arguments of its graph and never guessed from a shape.
//!
//! A step reads a weight if one of its operands is an argument of kind parameter or constant, or was computed from such
//! arguments by a const-eval program, or, inside a const-eval program, by earlier steps. Arguments count wherever they
//! are stored: weights are often passed in host memory, where they are not allocations of the device.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    Argument, Class, Module, ModuleId, Op, OpKind, Profile, Rank, RunId, Step, StepMarks, StrId,
};

/// An argument of a graph that is a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightRef {
    /// The graph that declares the weight.
    pub module: ModuleId,
    /// The index in the graph's arguments.
    pub argument: u32,
}

/// Traces the weights of a rank through its steps.
#[derive(Debug)]
pub struct Traced<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    sets: Sets,
    /// For each graph, the weights that its arguments refer to, by argument number.
    arguments: Vec<Rc<[SetId]>>,
    /// The running programs, innermost last.
    frames: Vec<Frame>,
}

/// A set of weights, by its row in [`Sets`]. Row 0 is the empty set.
type SetId = u32;

#[derive(Debug)]
struct Frame {
    run: Option<RunId>,
    /// The graph of the top-level program; `None` if unknown, and then arguments have no names.
    module: Option<ModuleId>,
    const_eval: bool,
    arguments: Rc<[SetId]>,
    /// The weights that results were computed from, if any.
    names: FxHashMap<StrId, SetId>,
    /// The weights of the last call's operands, which become the arguments of a program that starts now.
    call: Rc<[SetId]>,
}

impl<'a> Traced<'a> {
    /// Prepares to trace the weights of a rank.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let mut sets = Sets::default();
        let modules = rank.modules.iter().enumerate();
        let arguments = modules.map(|(index, module)| by_number(profile, index, module, &mut sets)).collect();
        Self { profile, rank, sets, arguments, frames: Vec::new() }
    }

    /// The weights that a step reads; `None` if its graph is unknown.
    ///
    /// Must be called for the steps in order; steps without results may be skipped.
    pub fn of(&mut self, step: Step, op: &Op) -> Option<&[WeightRef]> {
        self.enter(self.rank.steps.run.get(step as usize).copied().flatten());
        let frame = self.frames.last_mut()?;
        let tensors = op.operands.iter().zip(&op.operand_types).filter(|(_, ty)| ty.is_some());
        let operands: Rc<[SetId]> =
            tensors.map(|(&name, _)| frame.carried(name, self.profile)).collect::<Vec<_>>().into();
        let set = self.sets.union(&operands);
        let marks = self.rank.steps.marks.get(step as usize).copied().unwrap_or_default();
        let is_same_memory = marks.has(StepMarks::VIEW) && operands.len() == 1;
        if set != 0 && (frame.const_eval || op.kind == OpKind::LoadCached || is_same_memory) {
            frame.names.extend(op.results.iter().map(|&name| (name, set)));
        }
        if matches!(op.kind, OpKind::LoadCached | OpKind::Call) {
            frame.call = operands;
        }
        frame.module.map(|_| self.sets.get(set))
    }

    /// Switches to the frame of a run, and drops the frames of runs that have ended.
    fn enter(&mut self, run: Option<RunId>) {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.run == run) {
            self.frames.truncate(depth + 1);
            return;
        }
        let row = run.and_then(|run| self.rank.run(run));
        let parent = row.and_then(|row| row.parent);
        let depth = parent.and_then(|parent| self.frames.iter().rposition(|frame| frame.run == Some(parent)));
        self.frames.truncate(depth.map_or(0, |depth| depth + 1));
        let caller = self.frames.last();
        let module = caller.map_or_else(|| row.and_then(|row| row.module), |caller| caller.module);
        let arguments = match (caller, module) {
            (Some(caller), _) => Rc::clone(&caller.call),
            (None, Some(module)) => self.arguments.get(module.index()).map(Rc::clone).unwrap_or_default(),
            (None, None) => Rc::default(),
        };
        let const_eval =
            row.is_some_and(|row| row.const_eval) || caller.is_some_and(|caller| caller.const_eval);
        let (names, call) = (FxHashMap::default(), Rc::default());
        self.frames.push(Frame { run, module, const_eval, arguments, names, call });
    }
}

impl Frame {
    /// The weights that a name refers to.
    fn carried(&self, name: StrId, profile: &Profile) -> SetId {
        if let Some(&set) = self.names.get(&name) {
            return set;
        }
        argument_number(profile.text(name))
            .and_then(|number| self.arguments.get(number))
            .copied()
            .unwrap_or(0)
    }
}

/// The weights that the arguments of a graph refer to.
fn by_number(profile: &Profile, index: usize, module: &Module, sets: &mut Sets) -> Rc<[SetId]> {
    let mut by_number = Vec::new();
    let Some(id) = ModuleId::new(index) else { return Rc::default() };
    for (place, argument) in (0..).zip(&module.arguments) {
        if argument.kind.class() == Class::Weight
            && let Some(number) = number_of(profile, argument, place)
        {
            by_number.resize(by_number.len().max(number + 1), 0);
            by_number[number] = sets.intern(vec![WeightRef { module: id, argument: place }]);
        }
    }
    by_number.into()
}

/// The number of an argument in its function's signature: the number in its name, or else its index.
pub fn number_of(profile: &Profile, argument: &Argument, place: u32) -> Option<usize> {
    /// Limits the size of tables, because the numbers come from the input.
    const MAX_NUMBER: usize = 1 << 20;
    let named = argument_number(profile.text(argument.ssa));
    named.or(usize::try_from(place).ok()).filter(|number| *number < MAX_NUMBER)
}

/// 7 for `%arg7`.
fn argument_number(name: &str) -> Option<usize> {
    name.strip_prefix("%arg")?.parse().ok()
}

/// Interned sets of weights.
#[derive(Debug)]
struct Sets {
    rows: Vec<Rc<[WeightRef]>>,
    ids: FxHashMap<Rc<[WeightRef]>, SetId>,
    /// The total number of weights in all sets.
    held: usize,
}

/// Maximum number of weights in all sets. Real const-eval programs need fewer; a malicious file could ask for more.
const MAX_HELD: usize = 1 << 23;

impl Default for Sets {
    fn default() -> Self {
        Self { rows: vec![Rc::default()], ids: FxHashMap::default(), held: 0 }
    }
}

impl Sets {
    fn get(&self, id: SetId) -> &[WeightRef] {
        self.rows.get(id as usize).map_or(&[], |row| row)
    }

    fn union(&mut self, ids: &[SetId]) -> SetId {
        let mut full = ids.iter().copied().filter(|id| *id != 0);
        let Some(first) = full.next() else { return 0 };
        if full.all(|id| id == first) {
            return first;
        }
        // In the order of the operands.
        let mut seen = FxHashSet::default();
        let all = ids.iter().flat_map(|&id| self.get(id)).copied();
        let all: Vec<WeightRef> = all.filter(|weight| seen.insert(*weight)).collect();
        self.intern(all)
    }

    fn intern(&mut self, set: Vec<WeightRef>) -> SetId {
        let set: Rc<[WeightRef]> = set.into();
        if let Some(&id) = self.ids.get(&set) {
            return id;
        }
        let Ok(id) = SetId::try_from(self.rows.len()) else { return 0 };
        self.held += set.len();
        if self.held > MAX_HELD {
            return 0;
        }
        self.rows.push(Rc::clone(&set));
        self.ids.insert(set, id);
        id
    }
}
