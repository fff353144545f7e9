//! Tests of the analyses: one file for each file of `analyze` without its own tests.

mod allocator;
mod any_events;
mod axis;
mod caches;
mod contents;
mod diff;
mod effects;
mod expected;
mod growth;
mod held;
mod hot_paths;
mod interleaved;
mod main_pool;
mod names;
mod oom;
mod outside;
mod over_time;
mod overlaps;
mod padding;
mod replay;
mod reshaping;
mod residue;
mod simulation;
mod survivors;
mod traced;
mod weights;

use proptest::collection::vec;
use proptest::prelude::*;
use ttmem_model::{
    Argument, ArgumentKind, Builder, ByteRange, Bytes, Call, CallId, Class, Event, Fault, FaultKind, LaneId,
    Layout, ModuleId, Moment, Nanoseconds, Op, OpId, OpKind, Outcome, PoolId, Position, Profile, Rank,
    RankEvent, RankId, Reading, Run, RunId, Scope, ScopeId, ScopeKind, Sink, Snapshot, Step, StepMarks,
    StepRow, StrId, Tensor, TensorId, TensorType, TypeId,
};

use super::{Account, Span};

/// A name and its type.
pub type Value<'a> = (&'a str, Option<TypeId>);

/// A profile under construction. Events of a rank apply to the rank that was begun last.
pub struct Evidence {
    sink: Builder,
    texts: Vec<String>,
    types: usize,
    ops: Vec<Op>,
    ranks: usize,
    rows: Rows,
    /// The runs that have not ended, the innermost last.
    runs: Vec<RunId>,
}

/// The number of rows of the current rank.
#[derive(Default)]
struct Rows {
    pools: usize,
    modules: usize,
    runs: usize,
    steps: Step,
    tensors: usize,
    lanes: usize,
    scopes: usize,
    calls: usize,
}

impl Evidence {
    /// A profile with one empty rank.
    pub fn new() -> Self {
        let mut evidence = Self {
            sink: Builder::new(),
            texts: Vec::new(),
            types: 0,
            ops: Vec::new(),
            ranks: 0,
            rows: Rows::default(),
            runs: Vec::new(),
        };
        evidence.rank();
        evidence
    }

    /// Begins another rank.
    pub fn rank(&mut self) {
        self.take(Event::Rank { label: None });
        self.ranks += 1;
        (self.rows, self.runs) = (Rows::default(), Vec::new());
    }

    /// Returns the profile. Every event must have been accepted.
    #[track_caller]
    pub fn finish(self) -> Profile {
        let profile = self.sink.finish();
        assert_eq!(profile.warnings, []);
        profile
    }

    fn take(&mut self, event: Event<'_>) {
        self.sink.take(event).unwrap();
    }

    /// Any event of the rank.
    pub fn say(&mut self, event: RankEvent) {
        self.take(Event::Of(RankId::new(self.ranks - 1).unwrap(), event));
    }

    pub fn text(&mut self, text: &str) -> StrId {
        let known = self.texts.iter().position(|known| known == text);
        let index = known.unwrap_or_else(|| {
            self.take(Event::Text(text.into()));
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        StrId::new(index).unwrap()
    }

    /// A pool with 8 banks and exact readings.
    pub fn pool(&mut self, name: &str) -> PoolId {
        self.pool_of(name, Some(8), 0)
    }

    pub fn pool_of(&mut self, name: &str, banks: Option<u32>, quantum: u64) -> PoolId {
        let name = self.text(name);
        self.say(RankEvent::Pool { name, banks, quantum });
        self.rows.pools += 1;
        PoolId::new(self.rows.pools - 1).unwrap()
    }

    /// A state of a pool: the allocated bytes per bank.
    pub fn state(&mut self, pool: PoolId, at: Moment, allocated: u64) {
        self.reading(pool, at, Reading { allocated: Some(allocated), ..Reading::default() });
    }

    pub fn reading(&mut self, pool: PoolId, at: Moment, reading: Reading) {
        self.say(RankEvent::State(pool, at, reading));
    }

    /// A type with sizes but without a layout.
    pub fn sized(&mut self, declared: Option<u64>, logical: Option<u64>, padded: Option<u64>) -> TypeId {
        let dtype = self.text("bf16");
        self.ty(TensorType {
            text: None,
            shape: Vec::new(),
            dtype,
            layout: None,
            declared: declared.into(),
            logical: logical.into(),
            padded: padded.into(),
        })
    }

    /// A type of bf16 in tiles of 32x32.
    pub fn tiled(&mut self, shape: &[u64]) -> TypeId {
        self.ty(tiled(shape))
    }

    pub fn ty(&mut self, ty: TensorType) -> TypeId {
        self.take(Event::Type(ty));
        self.types += 1;
        TypeId::new(self.types - 1).unwrap()
    }

    /// Begins a program, nested in the one that runs.
    pub fn run(&mut self, program: &str) -> RunId {
        self.run_of(program, None, false)
    }

    /// Begins a const-eval program, nested in the one that runs.
    pub fn const_eval(&mut self, program: &str) -> RunId {
        self.run_of(program, None, true)
    }

    pub fn run_of(&mut self, program: &str, module: Option<ModuleId>, const_eval: bool) -> RunId {
        let (program, first) = (self.text(program), self.rows.steps);
        let (parent, source) = (self.runs.last().copied(), ByteRange::default());
        let run = Run { program, parent, module, const_eval, first, end: first, finished: false, source };
        self.say(RankEvent::Run(run));
        self.rows.runs += 1;
        let id = RunId::new(self.rows.runs - 1).unwrap();
        self.runs.push(id);
        id
    }

    /// Ends the program that runs.
    pub fn end_run(&mut self) {
        let (run, end) = (self.runs.pop().unwrap(), self.rows.steps);
        self.say(RankEvent::RunEnded { run, end, finished: true, source_end: 0 });
    }

    /// A step without operands and results.
    pub fn step(&mut self, name: &str) -> Step {
        self.op(OpKind::Compute, name, &[], &[])
    }

    pub fn steps(&mut self, count: Step, name: &str) {
        for _ in 0..count {
            self.step(name);
        }
    }

    /// A step with operands and results. Equal operations share an id.
    pub fn op(&mut self, kind: OpKind, name: &str, operands: &[Value<'_>], results: &[Value<'_>]) -> Step {
        let op = Op {
            operands: operands.iter().map(|(name, _)| self.text(name)).collect(),
            operand_types: operands.iter().map(|(_, ty)| *ty).collect(),
            results: results.iter().map(|(name, _)| self.text(name)).collect(),
            result_types: results.iter().map(|(_, ty)| *ty).collect(),
            ..Op::new(self.text(name), kind)
        };
        let known = self.ops.iter().position(|known| *known == op);
        let index = known.unwrap_or_else(|| {
            self.take(Event::Op(op.clone()));
            self.ops.push(op);
            self.ops.len() - 1
        });
        let (op, run) = (OpId::new(index).unwrap(), self.runs.last().copied());
        self.say(RankEvent::Step(StepRow { op, run, offset: 0, marks: StepMarks::default() }));
        self.rows.steps += 1;
        self.rows.steps - 1
    }

    /// An allocation; [`tensor`] has the usual one.
    pub fn tensor(&mut self, tensor: Tensor) -> TensorId {
        self.say(RankEvent::Tensor(tensor));
        self.rows.tensors += 1;
        TensorId::new(self.rows.tensors - 1).unwrap()
    }

    /// A graph with arguments: the name in the program, the readable name, the kind and the type of each.
    pub fn module(&mut self, arguments: &[(&str, Option<&str>, ArgumentKind, Option<TypeId>)]) -> ModuleId {
        self.say(RankEvent::Module { name: None });
        self.rows.modules += 1;
        let module = ModuleId::new(self.rows.modules - 1).unwrap();
        for &(ssa, name, kind, ty) in arguments {
            let (ssa, name) = (self.text(ssa), name.map(|name| self.text(name)));
            self.say(RankEvent::Argument(module, Argument { ssa, name, kind, ty }));
        }
        module
    }

    pub fn lane(&mut self, name: &str) -> LaneId {
        let name = self.text(name);
        self.say(RankEvent::Lane { name });
        self.rows.lanes += 1;
        LaneId::new(self.rows.lanes - 1).unwrap()
    }

    pub fn scope(&mut self, name: &str) -> ScopeId {
        let (name, parent, kind) = (self.text(name), None, ScopeKind::Operation);
        self.say(RankEvent::Scope(Scope { name, parent, kind }));
        self.rows.scopes += 1;
        ScopeId::new(self.rows.scopes - 1).unwrap()
    }

    /// A call that has not ended.
    pub fn open_call(
        &mut self,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallId>,
        began: Nanoseconds,
    ) -> CallId {
        let first = self.rows.steps;
        self.say(RankEvent::Call(Call { scope, lane, parent, op: None, began, first, outcome: None }));
        self.rows.calls += 1;
        CallId::new(self.rows.calls - 1).unwrap()
    }

    /// A call with its begin and end, nested in another call if there is a parent.
    pub fn call(
        &mut self,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallId>,
        (began, ended): (Nanoseconds, Nanoseconds),
    ) -> CallId {
        let call = self.open_call(scope, lane, parent, began);
        self.say(RankEvent::Returned(call, Outcome { ended, end: self.rows.steps, ..Outcome::default() }));
        call
    }

    pub fn snapshot(&mut self, at: Moment, time: Nanoseconds) {
        self.say(RankEvent::Snapshot(Snapshot { name: None, at, time }));
    }

    /// A fault with a kind and no figures.
    pub fn fault(&mut self, kind: FaultKind) -> Fault {
        Fault {
            kind,
            pool: None,
            step: None,
            requested_total: None,
            requested_per_bank: None,
            banks: None,
            bank_size: None,
            allocated: None,
            free: None,
            largest_free: None,
            region_end: None,
            limit: None,
            message: self.text("message"),
            line: 1,
            ended_program: false,
        }
    }
}

/// A tensor with a size per bank, live from `born` until before `dies`.
pub fn tensor(pool: PoolId, per_bank: u64, born: Moment, dies: Moment) -> Tensor {
    Tensor {
        ty: None,
        pool,
        per_bank: Bytes::known(per_bank),
        born,
        dies,
        class: Class::Activation,
        run: None,
        ssa: None,
        step: None,
        name: None,
    }
}

/// A type of bf16 in tiles of 32x32: 2048 bytes per tile.
pub fn tiled(shape: &[u64]) -> TensorType {
    let text = StrId::new(0).unwrap();
    let (rows, columns) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let outer: u64 = shape[..shape.len() - 2].iter().product();
    let bytes = Bytes::known(shape.iter().product::<u64>() * 2);
    TensorType {
        text: None,
        shape: shape.to_vec(),
        dtype: text,
        layout: Some(Layout {
            buffer: text,
            spread: None,
            stored_dtype: text,
            tile: Some((32, 32)),
            grid: Vec::new(),
            shard: Vec::new(),
            padded_shape: Vec::new(),
        }),
        declared: bytes,
        logical: bytes,
        padded: Bytes::known(outer * rows.div_ceil(32) * columns.div_ceil(32) * 2048),
    }
}

pub const START: Moment = Moment::START;
pub const NEVER: Moment = Moment::NEVER;

pub fn before(step: Step) -> Moment {
    Moment::before(step)
}

pub fn after(step: Step) -> Moment {
    Moment::after(step)
}

/// The first rank.
pub fn first(profile: &Profile) -> &Rank {
    &profile.ranks[0]
}

/// The account of a pool of the first rank.
pub fn account(profile: &Profile, pool: PoolId) -> Account<'_> {
    Account::new(first(profile), pool).unwrap()
}

/// All of the first rank.
pub fn whole(profile: &Profile) -> Span {
    Span::whole(first(profile))
}

pub fn tensor_id(index: usize) -> TensorId {
    TensorId::new(index).unwrap()
}

/// All moments of a rank, in order.
pub fn moments(rank: &Rank) -> impl Iterator<Item = Moment> + use<> {
    (0..=Moment::late(rank.end()).index()).filter_map(Moment::from_index)
}

/// The steps of [`Memory`].
pub const STEPS: Position = 12;

/// Tensors in two pools and readings of the first pool at any moments of two programs. The second program begins at
/// step 5.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The pool, bytes, birth and death of each tensor.
    lives: Vec<(usize, u64, Moment, Moment)>,
    /// The moments when the pool was observed, each with its new value if that changed.
    readings: Vec<(Moment, Option<u64>)>,
    quantum: u64,
}

impl Memory {
    pub fn any() -> impl Strategy<Value = Self> {
        let moment =
            || (0..=Moment::late(STEPS).index()).prop_map(|index| Moment::from_index(index).unwrap());
        let dies = prop_oneof![moment(), Just(NEVER)];
        let lives = vec((0..2_usize, 0..100_u64, moment(), dies), 0..12);
        let readings = vec((moment(), prop::option::of(0..300_u64)), 0..20);
        (lives, readings, 0..20_u64).prop_map(|(lives, mut readings, quantum)| {
            readings.sort_by_key(|(at, _)| *at);
            Self { lives, readings, quantum }
        })
    }

    /// The profile, and the pool that was read.
    pub fn profile(&self) -> (Profile, PoolId) {
        let mut evidence = Evidence::new();
        let pools = [evidence.pool_of("DRAM", Some(8), self.quantum), evidence.pool("L1")];
        for steps in [5, STEPS - 5] {
            evidence.run("main");
            evidence.steps(steps - 1, "ttnn.add");
            evidence.step("ttnn.matmul");
            evidence.end_run();
        }
        for &(pool, bytes, born, dies) in &self.lives {
            evidence.tensor(tensor(pools[pool], bytes, born, dies));
        }
        for &(at, allocated) in &self.readings {
            match allocated {
                Some(allocated) => evidence.state(pools[0], at, allocated),
                None => evidence.say(RankEvent::Unchanged(pools[0], at)),
            }
        }
        (evidence.finish(), pools[0])
    }
}
