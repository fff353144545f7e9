//! All data of a rank over time, as the columns that the page selects, sorts and sums.
//!
//! A column is a named list of numbers; the columns of one table (`steps.…`, `tensors.…`) have the same length. Texts
//! are indices into [`Texts`], which all ranks of a page share. Unknown values are missing, never zero. Columns are
//! computed one at a time and passed on, so that there is never a second copy of a rank of a million steps in memory.
//!
//! | table | row |
//! |---|---|
//! | `steps` | a step |
//! | `ops` | a distinct operation; `results` and `operands` are the number of its entries in the lists of types |
//! | `types` | a distinct type |
//! | `runs` | a program run, as in the profile; steps and tensors outside the cut-out have none |
//! | `tensors` | an allocation; `life` is 0 for tensors that are never freed, otherwise their lifetime in moments + 1 |
//! | `aliases` | another name of a tensor |
//! | `weights` | a weight, largest first |
//! | `l1` | a step: the headroom of L1, the lowest tensor address, the end of the program's buffers; the bits of `flags`: runs a program, with unknown buffers, the headroom may be smaller, the program did not fit |
//! | `programs` | a buffer of the program that a step runs |
//! | `frames` | a distinct source line of a call stack; `library` is 1 for lines outside the user's program |
//! | `stacks` | a line and its caller, an earlier row; `line` is the line to show for a stack that ends here |
//! | `restored` | a tensor whose step is in another file of the recording, and its stack |
//! | `pool.0` | observed and reconstructed values of a pool: curves as changes (`reserved` only if reported), `effect` per step, `run_peak` per run |
//!
//! Moments are numbered as in the profile: position `i` has the sides `2i` and `2i + 1`.

mod cores;

use std::borrow::Cow;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    Class, Curve, CurveKind, Moment, OpId, OpKind, PoolId, Profile, Rank, RunId, StepMarks, StrId, TensorId,
    TensorType, TypeId,
};

pub use self::cores::L1Outline;

use super::about::Extent;
use super::rows::Shape;
use super::summary::residue_note;
use crate::analyze::call_tree::CallTree;
use crate::analyze::fragmentation::{self, Fragmented};
use crate::analyze::reshaping::{Freedom, Reshaping};
use crate::analyze::residue::{self, Who};
use crate::analyze::tiles::friendly_shape;
use crate::analyze::{Account, Span, effects, held, peak, weights};

/// A named list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The table and the column name.
    pub name: String,
    /// The meaning of the numbers.
    pub kind: Kind,
    /// How consecutive numbers relate, which determines how they are packed.
    pub pattern: Pattern,
    /// The numbers, encoded as [`Kind`] describes.
    pub values: Vec<u64>,
}

/// The meaning of the numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers below 2^32.
    Number,
    /// Numbers below 2^32 plus 1; 0 means missing.
    Maybe,
    /// Bytes plus 1; 0 means unknown.
    Size,
    /// Zigzag-encoded differences of bytes plus 1; 0 means unknown.
    Signed,
}

/// How consecutive numbers of a column relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No pattern.
    Scattered,
    /// Small steps, usually upwards.
    Ascending,
    /// Few different values.
    Repeating,
    /// Few different steps.
    RepeatingSteps,
}

/// The texts that columns refer to, without duplicates.
#[derive(Debug)]
pub struct Texts<'a> {
    profile: &'a Profile,
    /// For each text of the profile, its number here plus 1; 0 if it has none yet.
    numbers: Vec<u32>,
    made: FxHashMap<String, u32>,
    list: Vec<Cow<'a, str>>,
}

impl<'a> Texts<'a> {
    /// An empty list of texts.
    pub fn new(profile: &'a Profile) -> Self {
        let numbers = vec![0; profile.strings.len()];
        Self { profile, numbers, made: FxHashMap::default(), list: Vec::new() }
    }

    /// The texts, by number.
    pub fn list(&self) -> &[Cow<'a, str>] {
        &self.list
    }

    /// The number of a text of the profile, if it has one.
    pub fn find(&self, id: StrId) -> Option<u32> {
        self.numbers.get(id.index())?.checked_sub(1)
    }

    /// The number of a text of the profile. Assigns one if it has none.
    pub(super) fn number(&mut self, id: StrId) -> u64 {
        if let Some(number) = self.find(id) {
            return number.into();
        }
        let number = self.push(Cow::Borrowed(self.profile.text(id)));
        if let Some(known) = self.numbers.get_mut(id.index()) {
            *known = number + 1;
        }
        number.into()
    }

    fn made(&mut self, text: String) -> u64 {
        if let Some(number) = self.made.get(&text) {
            return (*number).into();
        }
        let number = self.push(Cow::Owned(text.clone()));
        self.made.insert(text, number);
        number.into()
    }

    fn push(&mut self, text: Cow<'a, str>) -> u32 {
        self.list.push(text);
        u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Facts about a rank that are not columns.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankOutline {
    /// The number of steps.
    pub steps: u32,
    /// Whether the input has tensors.
    pub has_tensors: bool,
    /// The classes, indexed by the numbers in `tensors.class`.
    pub classes: Vec<&'static str>,
    /// The pools, by number.
    pub pools: Vec<PoolOutline>,
    /// The layout of a core's L1.
    pub l1: Option<L1Outline>,
    /// Whether there are tables of call stacks.
    pub has_stacks: bool,
}

/// Facts about a pool that are not columns.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolOutline {
    /// The name of the pool.
    pub name: String,
    /// The unit that its sizes refer to.
    pub extent: Extent,
    /// The granularity that the input rounds to.
    pub quantum: u64,
    /// The moment when its peak was first reached; null if nothing was ever allocated.
    pub peak_moment: Option<usize>,
    /// Whether the input has the bytes that the allocator reserved.
    pub has_reserved: bool,
    /// The moments of the worst fragmentation, worst first; empty if the free memory was always contiguous, null if the
    /// input does not contain it.
    pub fragmented: Option<Vec<FragmentedMoment>>,
}

/// The free bytes and the largest free block of a bank at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FragmentedMoment {
    /// The moment.
    pub moment: usize,
    /// The free bytes.
    pub free: u64,
    /// The largest free block.
    pub largest_free: u64,
}

/// Maximum number of fragmentation moments in a response.
const MAX_FRAGMENTED: usize = 10;

fn fragmented(found: &Fragmented) -> FragmentedMoment {
    FragmentedMoment { moment: found.at.index(), free: found.free, largest_free: found.largest_free }
}

/// A rank, ready to be written as columns.
#[derive(Debug)]
pub struct Timeline<'a> {
    accounts: Vec<Account<'a>>,
    tables: Tables<'a>,
}

/// All tables except those of the pools.
#[derive(Debug)]
struct Tables<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    ops: Numbering<OpId>,
    types: Numbering<TypeId>,
    /// The stacks of the operations and of restored tensors.
    stacks: CallTree,
}

impl<'a> Timeline<'a> {
    /// Prepares a rank.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let ids: Vec<PoolId> = (0..rank.pools.len()).filter_map(PoolId::new).collect();
        let mut ops = Numbering::new(profile.ops.len(), OpId::index);
        for op in &rank.steps.op {
            ops.number(*op);
        }
        let restored = rank.restored.values().filter_map(|restored| restored.op);
        let made = ops.list.iter().copied().chain(restored);
        let stacks = CallTree::new(profile, made.filter_map(|op| profile.stacks.of_op(op)));
        let types = Numbering::new(profile.types.len(), TypeId::index);
        Self {
            accounts: ids.par_iter().filter_map(|id| Account::new(rank, *id)).collect(),
            tables: Tables { profile, rank, ops, types, stacks },
        }
    }

    /// The facts that are not columns.
    pub fn outline(&self) -> RankOutline {
        let Tables { profile, rank, .. } = self.tables;
        let pool = |account: &Account<'_>| PoolOutline {
            name: profile.text(account.pool.name).to_owned(),
            extent: Extent::of(profile.text(account.pool.name), account.pool.banks),
            quantum: account.pool.quantum,
            peak_moment: peak::peak(account, Span::whole(rank))
                .filter(|peak| peak.position().is_some())
                .map(|peak| peak.at.index()),
            has_reserved: account.pool.curve(CurveKind::Reserved).is_some(),
            fragmented: fragmentation::worst_moments(account, Span::recorded(rank), MAX_FRAGMENTED)
                .map(|moments| moments.iter().map(fragmented).collect()),
        };
        RankOutline {
            steps: rank.end(),
            has_tensors: rank.has_tensors(),
            classes: Class::ALL.iter().map(|class| class.as_str()).collect(),
            pools: self.accounts.iter().map(pool).collect(),
            l1: cores::outline(profile, rank),
            has_stacks: !self.tables.stacks.nodes.is_empty(),
        }
    }

    /// The row of an operation in the table `ops`, if it ran.
    pub fn op_number(&self, op: OpId) -> Option<u32> {
        self.tables.ops.find(op)
    }

    /// Computes all columns and passes each one on as soon as it is complete. Parts are computed in parallel: one for
    /// all tables, then one for each pool.
    pub fn columns<Part: Default + Send>(
        &mut self,
        texts: &mut Texts<'a>,
        add: impl Fn(&mut Part, Column) + Sync,
    ) -> Vec<Part> {
        let Self { accounts, tables } = self;
        let notes = RESIDUE.map(|who| texts.made(residue_note(who).to_owned()));
        let dram = tables.rank.pool_named(tables.profile, "DRAM").map_or(0, |(id, _)| id.index());
        let profile = tables.profile;
        let of_tables = || {
            let mut part = Part::default();
            tables.columns(accounts.get(dram), texts, &mut |column| add(&mut part, column));
            part
        };
        let of_pools = || {
            accounts
                .par_iter()
                .map(|account| {
                    let mut part = Part::default();
                    pool(profile, account, &notes, &mut |column| add(&mut part, column));
                    part
                })
                .collect::<Vec<Part>>()
        };
        let (first, rest) = rayon::join(of_tables, of_pools);
        std::iter::once(first).chain(rest).collect()
    }
}

impl<'a> Tables<'a> {
    fn columns(&mut self, dram: Option<&Account<'_>>, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        self.steps(emit);
        self.operations(texts, emit);
        self.runs(texts, emit);
        self.tensors(texts, emit);
        self.weights(dram, texts, emit);
        cores::columns(self.profile, self.rank, texts, emit);
        self.stacks(texts, emit);
        // Last, because the other tables determine the types.
        self.types(texts, emit);
    }

    fn steps(&self, emit: &mut impl FnMut(Column)) {
        let steps = &self.rank.steps;
        emit(numbers("steps.op", steps.op.iter().map(|op| self.ops.find(*op).unwrap_or(0).into())));
        emit(ascending_maybe("steps.run", steps.run.iter().map(self.run_row())));
        emit(numbers("steps.marks", (0..steps.len()).map(|step| self.marks(step))));
    }

    /// The flags of a step, as bits that the page understands.
    fn marks(&self, step: usize) -> u64 {
        let (steps, rank) = (&self.rank.steps, self.rank);
        let in_const_eval = steps.run[step].and_then(|run| rank.run(run)).is_some_and(|run| run.const_eval);
        let is_weight = in_const_eval || self.profile.ops.kind(steps.op[step]) == OpKind::LoadCached;
        let has = |mark| steps.marks[step].has(mark);
        [
            is_weight,
            has(StepMarks::FAILED),
            has(StepMarks::VIEW),
            has(StepMarks::CACHE_MISS),
            has(StepMarks::RETAINED),
        ]
        .iter()
        .rev()
        .fold(0, |bits, mark| bits << 1 | u64::from(*mark))
    }

    fn operations(&mut self, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let rows = self.ops.list.len();
        let mut names = Vec::with_capacity(rows);
        let mut locs = Vec::with_capacity(rows);
        let mut kinds = Vec::with_capacity(rows);
        let (mut results, mut result_types) = (Vec::with_capacity(rows), Vec::new());
        let (mut operands, mut operand_types) = (Vec::with_capacity(rows), Vec::new());
        for id in &self.ops.list {
            let Some(op) = self.profile.ops.get(*id) else { continue };
            names.push(texts.number(op.name));
            locs.push(op.loc.map_or(0, |loc| texts.number(loc) + 1));
            kinds.push(kind_number(op.kind));
            let mut types = |types: &[Option<TypeId>], counts: &mut Vec<u64>, list: &mut Vec<u64>| {
                counts.push(types.iter().flatten().count() as u64);
                list.extend(types.iter().flatten().map(|ty| u64::from(self.types.number(*ty)) + 1));
            };
            types(&op.result_types, &mut results, &mut result_types);
            types(&op.operand_types, &mut operands, &mut operand_types);
        }
        let mut emit =
            |name: &str, kind, pattern, values| emit(Column { name: name.into(), kind, pattern, values });
        emit("ops.name", Kind::Number, Pattern::Scattered, names);
        emit("ops.loc", Kind::Maybe, Pattern::Ascending, locs);
        emit("ops.kind", Kind::Number, Pattern::Scattered, kinds);
        emit("ops.results", Kind::Number, Pattern::Scattered, results);
        emit("ops.result_types", Kind::Maybe, Pattern::Scattered, result_types);
        emit("ops.operands", Kind::Number, Pattern::Scattered, operands);
        emit("ops.operand_types", Kind::Maybe, Pattern::Scattered, operand_types);
    }

    /// The call stacks, if there are any.
    fn stacks(&self, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let CallTree { frames, origins, nodes, .. } = &self.stacks;
        if nodes.is_empty() {
            return;
        }
        let place = |number: u32| number as usize;
        emit(ascending("frames.function", frames.iter().map(|frame| texts.number(frame.function))));
        emit(ascending("frames.file", frames.iter().map(|frame| texts.number(frame.file))));
        emit(numbers("frames.line", frames.iter().map(|frame| frame.line.into())));
        emit(numbers("frames.library", origins.iter().map(|origin| origin.is_library().into())));
        emit(ascending("stacks.frame", nodes.iter().map(|node| node.frame.into())));
        emit(ascending_maybe("stacks.caller", nodes.iter().map(|node| node.caller.map(place))));
        emit(ascending("stacks.line", nodes.iter().map(|node| node.line.into())));
        let of_op = |op: OpId| self.stacks.node_of(self.profile.stacks.of_op(op)?).map(place);
        emit(ascending_maybe("ops.stack", self.ops.list.iter().map(|op| of_op(*op))));
        let restored = || self.rank.restored.iter();
        emit(ascending("restored.tensor", restored().map(|(tensor, _)| tensor.index() as u64)));
        emit(ascending_maybe("restored.stack", restored().map(|(_, row)| of_op(row.op?))));
    }

    /// The row of a run in the table `runs`, which starts after the runs outside the cut-out.
    fn run_row(&self) -> impl Fn(&Option<RunId>) -> Option<usize> + use<> {
        let first = self.rank.earlier_runs();
        move |run| run.and_then(|run| run.index().checked_sub(first))
    }

    fn runs(&self, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let first = self.rank.earlier_runs();
        let runs = &self.rank.runs[first..];
        emit(numbers("runs.program", runs.iter().map(|run| texts.number(run.program))));
        let row = self.run_row();
        emit(ascending_maybe("runs.parent", runs.iter().map(|run| row(&run.parent))));
        let modules = runs.iter().map(|run| run.module.map(ttmem_model::ModuleId::index));
        emit(ascending_maybe("runs.module", modules));
        let run_numbers = self.rank.run_numbers().into_iter().skip(first);
        emit(ascending("runs.number", run_numbers.map(|number| number as u64)));
        emit(numbers("runs.const_eval", runs.iter().map(|run| run.const_eval.into())));
        emit(ascending("runs.first", runs.iter().map(|run| run.first.into())));
        emit(ascending("runs.end", runs.iter().map(|run| run.end.into())));
        emit(numbers("runs.finished", runs.iter().map(|run| run.finished.into())));
    }

    fn tensors(&mut self, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let tensors = &self.rank.tensors;
        let types = tensors.ty.iter().map(|ty| ty.map(|ty| self.types.number(ty) as usize));
        emit(maybe("tensors.type", types));
        emit(numbers("tensors.pool", tensors.pool.iter().map(|pool| pool.index() as u64)));
        let bytes = tensors.per_bank.iter().map(|bytes| bytes.get());
        emit(sizes("tensors.per_bank", Pattern::Repeating, bytes));
        emit(ascending("tensors.born", tensors.born.iter().map(|born| born.index() as u64)));
        let life = |(born, dies): (&Moment, &Moment)| match *dies {
            Moment::NEVER => 0,
            dies => dies.index().saturating_sub(born.index()) as u64 + 1,
        };
        emit(numbers("tensors.life", tensors.born.iter().zip(&tensors.dies).map(life)));
        let number = |class: &Class| Class::ALL.iter().position(|known| known == class).unwrap_or(0) as u64;
        emit(numbers("tensors.class", tensors.class.iter().map(number)));
        emit(ascending_maybe("tensors.run", tensors.run.iter().map(self.run_row())));
        let mut text =
            |id: &Option<StrId>| id.map(|id| usize::try_from(texts.number(id)).unwrap_or(usize::MAX));
        emit(ascending_maybe("tensors.ssa", tensors.ssa.iter().map(&mut text)));
        emit(ascending_maybe("tensors.name", tensors.name.iter().map(&mut text)));
        let made_in = |index: usize| {
            let scope = self.rank.made_in(TensorId::new(index)?)?;
            self.rank.scopes.name.get(scope.index()).copied()
        };
        emit(maybe("tensors.made_in", (0..tensors.len()).map(|index| text(&made_in(index)))));
        let steps = tensors.step.iter().map(|step| step.map(|step| step.get() as usize));
        emit(ascending_maybe("tensors.step", steps));
        let aliases = &self.rank.aliases;
        emit(ascending("aliases.tensor", aliases.tensor.iter().map(|tensor| tensor.index() as u64)));
        emit(ascending("aliases.ssa", aliases.ssa.iter().map(|ssa| texts.number(*ssa))));
    }

    fn weights(&mut self, dram: Option<&Account<'_>>, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let peak =
            dram.and_then(|account| Some((account.id, peak::peak(account, Span::whole(self.rank))?.at)));
        let twice = peak.and_then(|(id, at)| weights::kept_twice(self.rank, id, at));
        let list = weights::by_size(self.profile, self.rank, twice.as_deref());
        let name = |weight: &weights::Weight<'_>| weight.argument.name.unwrap_or(weight.argument.ssa);
        emit(numbers("weights.name", list.iter().map(|weight| texts.number(name(weight)))));
        let types = list.iter().map(|weight| weight.argument.ty.map(|ty| self.types.number(ty) as usize));
        emit(maybe("weights.type", types));
        let bytes =
            |weight: &weights::Weight<'_>| self.profile.tensor_type(weight.argument.ty?)?.declared.get();
        emit(sizes("weights.bytes", Pattern::Scattered, list.iter().map(bytes)));
        emit(maybe("weights.kept_twice", list.iter().map(|weight| weight.kept_twice.map(usize::from))));
    }

    /// The types whose tensors can all be reshaped.
    fn free_types(&self) -> FxHashSet<TypeId> {
        let reshaping = Reshaping::new(self.profile, self.rank);
        let (mut free, mut tied) = (FxHashSet::default(), FxHashSet::default());
        for tensor in (0..self.rank.tensors.len()).filter_map(TensorId::new) {
            let Some(ty) = self.rank.tensors.ty[tensor.index()] else { continue };
            let is_free = reshaping.freedom(tensor) == Freedom::Free;
            if is_free {
                free.insert(ty)
            } else {
                tied.insert(ty)
            };
        }
        free.retain(|ty| !tied.contains(ty));
        free
    }

    fn types(&self, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
        let types = || self.types.list.iter().filter_map(|id| self.profile.tensor_type(*id));
        let mut shape = |shape: &[u64]| texts.made(Shape(shape).to_string());
        emit(numbers("types.shape", types().map(|ty| shape(&ty.shape))));
        let padded = types().map(|ty| Some(index(shape(&ty.layout.as_ref()?.padded_shape))));
        emit(maybe("types.padded_shape", padded));
        let free = self.free_types();
        let friendly = self.types.list.iter().filter_map(|id| Some((id, self.profile.tensor_type(*id)?)));
        let friendly =
            friendly.map(|(id, ty)| Some(index(shape(&friendly_shape(ty).filter(|_| free.contains(id))?))));
        emit(maybe("types.friendly", friendly));
        emit(numbers("types.dtype", types().map(|ty| texts.number(ty.dtype))));
        let layouts = types().map(|ty| Some(index(texts.made(layout_text(self.profile, ty)?))));
        emit(maybe("types.layout", layouts));
        emit(sizes("types.logical", Pattern::Scattered, types().map(|ty| ty.logical.get())));
        emit(sizes("types.padded", Pattern::Scattered, types().map(|ty| ty.padded.get())));
    }
}

fn pool(profile: &Profile, account: &Account<'_>, notes: &[u64; 3], emit: &mut impl FnMut(Column)) {
    let table = format!("pool.{}", account.id.index());
    let mut curve = |name: &str, curve: Option<&Curve>| {
        let (at, value) = curve.map_or((&[][..], &[][..]), |curve| (&curve.at, &curve.value));
        emit(ascending(&format!("{table}.{name}_at"), at.iter().map(|at| at.index() as u64)));
        let bytes = value.iter().copied().map(Some);
        emit(sizes(&format!("{table}.{name}"), Pattern::RepeatingSteps, bytes));
    };
    curve("held", Some(&held::over_time(account)));
    curve("free", account.pool.curve(CurveKind::Free));
    curve("largest_free", account.pool.curve(CurveKind::LargestFree));
    curve("capacity", account.pool.curve(CurveKind::Capacity));
    if let reserved @ Some(_) = account.pool.curve(CurveKind::Reserved) {
        curve("reserved", reserved);
    }
    let observed = account.pool.observed.iter().map(|at| at.index() as u64);
    emit(ascending(&format!("{table}.observed"), observed));
    let peaks: Vec<Option<peak::Peak>> = run_peaks(account);
    let at = peaks.iter().map(|peak| peak.map(|peak| peak.at.index()));
    emit(ascending_maybe(&format!("{table}.run_peak_at"), at));
    let bytes = peaks.iter().map(|peak| peak.map(|peak| peak.per_bank));
    emit(sizes(&format!("{table}.run_peak"), Pattern::RepeatingSteps, bytes));
    let effects = effects::effects(account, Span::whole(account.rank)).map(|(_, effect)| effect);
    emit(signed(&format!("{table}.effect"), effects));
    let changes = residue::changes(profile, account, Moment::NEVER);
    let at = changes.iter().map(|change| change.at.index() as u64);
    emit(ascending(&format!("{table}.residue_at"), at));
    emit(signed(&format!("{table}.residue"), changes.iter().map(|change| Some(change.per_bank))));
    let step = |change: &residue::Change| match change.who {
        Who::Step(step) => Some(step as usize),
        _ => None,
    };
    emit(ascending_maybe(&format!("{table}.residue_step"), changes.iter().map(step)));
    let same_note = |a: Who, b: Who| residue_note(a) == residue_note(b);
    let place = |who: Who| RESIDUE.iter().position(|known| same_note(*known, who)).unwrap_or(0);
    let who = changes.iter().map(|change| notes[place(change.who)]);
    emit(numbers(&format!("{table}.residue_who"), who));
}

/// The peak of each top-level run, in order; `None` if the pool was not observed during the run.
fn run_peaks(account: &Account<'_>) -> Vec<Option<peak::Peak>> {
    let runs = account.rank.top_level_runs();
    runs.map(|(id, _)| peak::peak(account, Span::of_run(account.rank, id)?)).collect()
}

/// The causes of unexplained bytes, one for each note.
const RESIDUE: [Who; 3] = [Who::Before, Who::Outside, Who::OneOf(0, 0)];

/// Numbers ids in the order of their first use.
#[derive(Debug)]
pub(super) struct Numbering<Id> {
    index: fn(Id) -> usize,
    /// The number of each id plus 1; 0 if it has none.
    numbers: Vec<u32>,
    /// The ids, by number.
    pub list: Vec<Id>,
}

impl<Id: Copy> Numbering<Id> {
    pub fn new(most: usize, index: fn(Id) -> usize) -> Self {
        Self { index, numbers: vec![0; most], list: Vec::new() }
    }

    fn find(&self, id: Id) -> Option<u32> {
        self.numbers.get((self.index)(id))?.checked_sub(1)
    }

    /// The number of an id. Assigns one if it has none.
    pub fn number(&mut self, id: Id) -> u32 {
        if let Some(number) = self.find(id) {
            return number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if let Some(known) = self.numbers.get_mut((self.index)(id)) {
            *known = number + 1;
            self.list.push(id);
        }
        number
    }
}

fn kind_number(kind: OpKind) -> u64 {
    match kind {
        OpKind::Compute => 0,
        OpKind::Deallocate => 1,
        OpKind::GetDevice => 2,
        OpKind::LoadCached => 3,
        OpKind::Call => 4,
    }
}

/// `dram interleaved, tiles of 32x32, bfp_bf8`
fn layout_text(profile: &Profile, ty: &TensorType) -> Option<String> {
    let layout = ty.layout.as_ref()?;
    let text = |id| profile.text(id);
    let spread = layout.spread.map_or_else(String::new, |spread| format!(" {}", text(spread)));
    let tile = layout.tile.map_or_else(String::new, |(height, width)| format!(", tiles of {height}x{width}"));
    let stored =
        (layout.stored_dtype != ty.dtype).then(|| format!(", stored as {}", text(layout.stored_dtype)));
    Some(format!("{}{spread}{tile}{}", text(layout.buffer), stored.unwrap_or_default()))
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Maximum size in bytes (four pebibytes). A larger size is due to a corrupt log and would break the following numbers:
/// browsers count exactly only up to 2^53, and differences take one bit.
const LARGEST: u64 = 1 << 52;

pub(super) fn numbers(name: &str, values: impl Iterator<Item = u64>) -> Column {
    column(name, Kind::Number, Pattern::Scattered, values)
}

pub(super) fn ascending(name: &str, values: impl Iterator<Item = u64>) -> Column {
    column(name, Kind::Number, Pattern::Ascending, values)
}

pub(super) fn maybe(name: &str, values: impl Iterator<Item = Option<usize>>) -> Column {
    column(
        name,
        Kind::Maybe,
        Pattern::Scattered,
        values.map(|value| value.map_or(0, |value| value as u64 + 1)),
    )
}

pub(super) fn ascending_maybe(name: &str, values: impl Iterator<Item = Option<usize>>) -> Column {
    Column { pattern: Pattern::Ascending, ..maybe(name, values) }
}

pub(super) fn sizes(name: &str, pattern: Pattern, values: impl Iterator<Item = Option<u64>>) -> Column {
    let packed = |value: u64| value.min(LARGEST) + 1;
    column(name, Kind::Size, pattern, values.map(|value| value.map_or(0, packed)))
}

pub(super) fn signed(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    let most = LARGEST.cast_signed() / 2;
    let zigzag = |value: i64| {
        let value = value.clamp(-most, most);
        (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
    };
    let values = values.map(|value| value.map_or(0, |value| zigzag(value).saturating_add(1)));
    column(name, Kind::Signed, Pattern::Repeating, values)
}

fn column(name: &str, kind: Kind, pattern: Pattern, values: impl Iterator<Item = u64>) -> Column {
    Column { name: name.to_owned(), kind, pattern, values: values.collect() }
}
