//! A rank told by hand: tensors that come and go in steps, and the states that the device would print of them.

use std::borrow::Cow;
use std::collections::HashMap;

use ttmem::model::{
    Alias, Argument, ArgumentKind, Builder, ByteRange, Bytes, Class, Derivation, Event, Fault, FaultKind,
    Layout, ModuleId, Moment, Op, OpId, OpKind, Origin, PoolId, Profile, RankEvent, RankId, Reading, Run,
    RunId, Sink, Source, Step, StepMarks, StepNumber, StepRow, StrId, Tensor, TensorId, TensorType, TypeId,
};
use ttmem::query::{Request, Suggestion, summary};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// The banks of DRAM.
pub const BANKS: u32 = 8;
/// What each of them has.
pub const BANK: u64 = 1000 * MIB;
/// What each of the 64 banks of L1 has.
pub const L1_BANK: u64 = 1000 * KIB;

/// A tensor as a step makes it.
#[derive(Clone, Debug)]
pub struct Of {
    pub class: Class,
    /// Shape and what is stored; without it, nothing but bytes are known.
    pub ty: Option<(Vec<u64>, &'static str)>,
    /// For those without a type.
    pub per_bank: u64,
    pub l1: bool,
}

/// A tensor of which nothing is known but its size.
pub fn bytes(per_bank: u64) -> Of {
    Of { class: Class::Activation, ty: None, per_bank, l1: false }
}

/// A tensor in tiles.
pub fn tiled(shape: &[u64], stored: &'static str) -> Of {
    Of { class: Class::Activation, ty: Some((shape.to_vec(), stored)), per_bank: 0, l1: false }
}

impl Of {
    pub fn class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    pub fn in_l1(self) -> Self {
        Self { l1: true, ..self }
    }
}

/// A rank that is being told.
pub struct Scene {
    sink: Builder,
    texts: HashMap<String, StrId>,
    types: usize,
    ops: usize,
    runs: Vec<RunId>,
    run_count: usize,
    modules: usize,
    steps: Step,
    tensors: Vec<(usize, u64, Moment, Moment)>,
    /// Bytes of DRAM that no tensor explains, from a position on.
    hidden: Vec<(u32, u64)>,
    /// The largest free piece of DRAM from the first step on; all that is free, unless said.
    pub largest_piece: Option<u64>,
}

impl Scene {
    pub fn new() -> Self {
        let mut scene = Self {
            sink: Builder::new(),
            texts: HashMap::new(),
            types: 0,
            ops: 0,
            runs: Vec::new(),
            run_count: 0,
            modules: 0,
            steps: 0,
            tensors: Vec::new(),
            hidden: Vec::new(),
            largest_piece: None,
        };
        scene.say(Event::Source(Source { format: "tt_log".into(), file: "scene.log".into() }));
        scene.say(Event::Rank { label: None });
        for (name, banks) in [("DRAM", BANKS), ("L1", 64)] {
            let name = scene.text(name);
            scene.of_rank(RankEvent::Pool { name, banks: Some(banks), quantum: 0 });
        }
        scene.enter("main", false);
        scene
    }

    fn say(&mut self, event: Event<'_>) {
        self.sink.take(event).unwrap();
    }

    fn of_rank(&mut self, event: RankEvent) {
        self.say(Event::Of(RankId::new(0).unwrap(), event));
    }

    pub fn text(&mut self, text: &str) -> StrId {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        self.say(Event::Text(Cow::Borrowed(text)));
        let id = StrId::new(self.texts.len()).unwrap();
        self.texts.insert(text.to_owned(), id);
        id
    }

    /// A program begins, inside the one that runs.
    pub fn enter(&mut self, program: &str, const_eval: bool) {
        let run = Run {
            program: self.text(program),
            parent: self.runs.last().copied(),
            module: None,
            const_eval,
            first: self.steps,
            end: self.steps,
            finished: false,
            source: ByteRange::default(),
        };
        self.of_rank(RankEvent::Run(run));
        self.runs.push(RunId::new(self.run_count).unwrap());
        self.run_count += 1;
    }

    /// The program that runs ends.
    pub fn leave(&mut self) {
        let run = self.runs.pop().unwrap();
        let end = self.steps;
        self.of_rank(RankEvent::RunEnded { run, end, finished: true, source_end: 0 });
    }

    fn define(&mut self, of: &Of) -> (Option<TypeId>, u64) {
        let Some((shape, stored)) = &of.ty else { return (None, of.per_bank) };
        let tile = match *stored {
            "f32" => 4096,
            "bf16" => 2048,
            "bfp_bf8" => 1088,
            other => panic!("{other} has no tile"),
        };
        let (rows, columns) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        let outer: u64 = shape[..shape.len() - 2].iter().product();
        let tiles = outer * rows.div_ceil(32) * columns.div_ceil(32);
        let dtype = self.text(stored);
        let buffer = self.text(if of.l1 { "l1" } else { "dram" });
        let logical = shape.iter().product::<u64>() * tile / 1024;
        let mut padded_shape = shape.clone();
        let dims = padded_shape.len();
        padded_shape[dims - 2] = rows.next_multiple_of(32);
        padded_shape[dims - 1] = columns.next_multiple_of(32);
        self.say(Event::Type(TensorType {
            text: None,
            shape: shape.clone(),
            dtype,
            layout: Some(Layout {
                buffer,
                spread: None,
                stored_dtype: dtype,
                tile: Some((32, 32)),
                grid: vec![],
                shard: vec![],
                padded_shape,
            }),
            declared: Bytes::known(logical),
            logical: Bytes::known(logical),
            padded: Bytes::known(tiles * tile),
        }));
        self.types += 1;
        (TypeId::new(self.types - 1), tiles.div_ceil(u64::from(BANKS)) * tile)
    }

    fn allocate(
        &mut self,
        name: &str,
        of: &Of,
        ty: Option<TypeId>,
        per_bank: u64,
        step: Option<Step>,
    ) -> TensorId {
        let ssa = self.text(name);
        let pool = usize::from(of.l1);
        let born = step.map_or(Moment::START, Moment::after);
        let tensor = Tensor {
            ty,
            pool: PoolId::new(pool).unwrap(),
            per_bank: Bytes::known(per_bank),
            born,
            dies: Moment::NEVER,
            class: of.class,
            run: self.runs.last().copied(),
            ssa: Some(ssa),
            step: step.and_then(StepNumber::new),
            name: None,
        };
        self.of_rank(RankEvent::Tensor(tensor));
        self.tensors.push((pool, per_bank, born, Moment::NEVER));
        TensorId::new(self.tensors.len() - 1).unwrap()
    }

    /// What is there before the program.
    pub fn argument(&mut self, name: &str, of: &Of) -> TensorId {
        let (ty, per_bank) = self.define(of);
        self.allocate(name, of, ty, per_bank, None)
    }

    fn op(
        &mut self,
        name: &str,
        kind: OpKind,
        operands: &[&str],
        result: Option<(&str, Option<TypeId>)>,
    ) -> Step {
        let operands: Vec<(&str, Option<TypeId>)> = operands.iter().map(|name| (*name, None)).collect();
        self.typed_op(name, kind, &operands, result)
    }

    fn typed_op(
        &mut self,
        name: &str,
        kind: OpKind,
        operands: &[(&str, Option<TypeId>)],
        result: Option<(&str, Option<TypeId>)>,
    ) -> Step {
        let op = Op {
            results: result.iter().map(|(name, _)| self.text(name)).collect(),
            operands: operands.iter().map(|(name, _)| self.text(name)).collect(),
            operand_types: operands.iter().map(|(_, ty)| *ty).collect(),
            result_types: result.iter().map(|(_, ty)| *ty).collect(),
            ..Op::new(self.text(name), kind)
        };
        self.say(Event::Op(op));
        let op = OpId::new(self.ops).unwrap();
        self.ops += 1;
        let run = self.runs.last().copied();
        self.of_rank(RankEvent::Step(StepRow { op, run, offset: 0, marks: StepMarks::default() }));
        self.steps += 1;
        self.steps - 1
    }

    /// A step that makes a tensor.
    pub fn make(&mut self, op: &str, operands: &[&str], name: &str, of: &Of) -> TensorId {
        let (ty, per_bank) = self.define(of);
        let step = self.op(op, OpKind::Compute, operands, Some((name, ty)));
        self.allocate(name, of, ty, per_bank, Some(step))
    }

    /// A step that makes a tensor of others, whose types it knows.
    pub fn compute(&mut self, op: &str, operands: &[(&str, &Of)], name: &str, of: &Of) -> TensorId {
        let operands: Vec<(&str, Option<TypeId>)> =
            operands.iter().map(|(name, of)| (*name, self.define(of).0)).collect();
        let (ty, per_bank) = self.define(of);
        let step = self.typed_op(op, OpKind::Compute, &operands, Some((name, ty)));
        self.allocate(name, of, ty, per_bank, Some(step))
    }

    /// A step that writes over a tensor, element by element.
    pub fn touch(&mut self, name: &str, of: &Of) {
        let ty = self.define(of).0;
        self.typed_op("ttnn.relu", OpKind::Compute, &[(name, ty)], Some((name, ty)));
    }

    /// A step that makes nothing of operands whose types it knows.
    pub fn use_typed(&mut self, op: &str, operands: &[(&str, &Of)]) {
        let operands: Vec<(&str, Option<TypeId>)> =
            operands.iter().map(|(name, of)| (*name, self.define(of).0)).collect();
        self.typed_op(op, OpKind::Compute, &operands, None);
    }

    /// A step that makes nothing.
    pub fn run(&mut self, op: &str, operands: &[&str]) -> Step {
        self.op(op, OpKind::Compute, operands, None)
    }

    /// A step that loads what the const-eval program made that ran before.
    pub fn load_cached(&mut self, name: &str, tensor: TensorId) -> Step {
        let step = self.op("ttcore.load_cached", OpKind::LoadCached, &[], Some((name, None)));
        self.alias(name, tensor);
        step
    }

    /// A step that frees a tensor.
    pub fn free(&mut self, tensor: TensorId) {
        let step = self.op("ttnn.deallocate", OpKind::Deallocate, &[], None);
        self.of_rank(RankEvent::Dies(tensor, Moment::after(step)));
        self.tensors[tensor.index()].3 = Moment::after(step);
    }

    /// A further name of a tensor.
    pub fn alias(&mut self, name: &str, tensor: TensorId) {
        let (ssa, run) = (self.text(name), self.runs.last().copied());
        self.of_rank(RankEvent::Alias(Alias { tensor, run, ssa }));
    }

    pub fn derived(&mut self, tensor: TensorId, source: TensorId) {
        self.of_rank(RankEvent::Derived(Derivation { tensor, source }));
    }

    /// That a tensor goes back to an argument of a graph, of that type.
    pub fn origin(&mut self, tensor: TensorId, of: &Of) {
        let (ty, _) = self.define(of);
        let module = ModuleId::new(self.modules).unwrap();
        self.modules += 1;
        let ssa = self.text("%arg0");
        self.of_rank(RankEvent::Module { name: None });
        let argument = Argument { ssa, name: None, kind: ArgumentKind::Parameter, ty };
        self.of_rank(RankEvent::Argument(module, argument));
        self.of_rank(RankEvent::Origin(Origin { tensor, module, argument: 0 }));
    }

    /// From here on so many bytes of DRAM are nobody's.
    pub fn hide(&mut self, per_bank: u64) {
        self.hidden.push((self.steps, per_bank));
    }

    /// The next step finds no memory.
    pub fn fail(&mut self, op: &str, pool: &str, fill: impl FnOnce(&mut Fault)) {
        self.fail_with(op, &[], pool, fill);
    }

    /// The same with operands.
    pub fn fail_with(&mut self, op: &str, operands: &[&str], pool: &str, fill: impl FnOnce(&mut Fault)) {
        let step = self.run(op, operands);
        let (pool, message) = (self.text(pool), self.text("Out of Memory"));
        let mut fault = Fault {
            kind: FaultKind::OutOfMemory,
            pool: Some(pool),
            step: Some(step),
            requested_total: None,
            requested_per_bank: None,
            banks: None,
            bank_size: None,
            allocated: None,
            free: None,
            largest_free: None,
            region_end: None,
            limit: None,
            message,
            line: 1,
            ended_program: true,
        };
        fill(&mut fault);
        self.of_rank(RankEvent::Fault(fault));
    }

    /// Says what the device would have said before every step and at the end.
    fn states(&mut self) {
        for position in 0..=self.steps {
            let at = Moment::late(position);
            for (pool, bank) in [BANK, L1_BANK].into_iter().enumerate() {
                let alive = |row: &&(usize, u64, Moment, Moment)| row.0 == pool && row.2 <= at && at < row.3;
                let tensors: u64 = self.tensors.iter().filter(alive).map(|row| row.1).sum();
                let hidden = self.hidden.iter().rfind(|(from, _)| pool == 0 && *from <= position);
                let allocated = tensors + hidden.map_or(0, |(_, bytes)| *bytes);
                let free = bank - allocated;
                let reading = Reading {
                    allocated: Some(allocated),
                    free: Some(free),
                    largest_free: Some(
                        self.largest_piece.filter(|_| pool == 0 && position > 0).unwrap_or(free),
                    ),
                    capacity: Some(bank),
                    ..Reading::default()
                };
                self.of_rank(RankEvent::State(PoolId::new(pool).unwrap(), at, reading));
            }
        }
    }

    pub fn finish(mut self) -> Profile {
        while !self.runs.is_empty() {
            self.leave();
        }
        self.states();
        self.say(Event::End);
        self.sink.finish()
    }

    /// What is suggested of it.
    pub fn suggestions(self) -> Vec<Suggestion> {
        let profile = self.finish();
        summary(&[profile], &Request::default()).unwrap().ranks.remove(0).suggestions
    }

    /// What a rule suggests of it.
    pub fn of_rule(self, rule: &str) -> Vec<Suggestion> {
        self.suggestions().into_iter().filter(|suggestion| suggestion.rule == rule).collect()
    }

    /// The one thing that a rule suggests of it.
    #[track_caller]
    pub fn only(self, rule: &str) -> Suggestion {
        let mut all = self.suggestions();
        let rules: Vec<&str> = all.iter().map(|one| one.rule).collect();
        let index = rules.iter().position(|one| *one == rule).unwrap_or_else(|| panic!("only {rules:?}"));
        assert_eq!(rules.iter().filter(|one| **one == rule).count(), 1, "{rules:?}");
        all.swap_remove(index)
    }

    /// Asserts that a rule has nothing to say.
    #[track_caller]
    pub fn silent(self, rule: &str) {
        assert_eq!(self.of_rule(rule), [], "{rule} was not to fire");
    }
}
