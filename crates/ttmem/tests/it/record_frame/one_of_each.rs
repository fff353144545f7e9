//! One event of every kind, and of every variant of the enums inside them.

// They name nearly all that there is.
#![allow(clippy::wildcard_imports)]

use std::borrow::Cow;

use ttmem::model::*;

use crate::record_frame::Events;
use crate::record_frame::any_event::{ARGUMENT_KINDS, FAULT_KINDS, OP_KINDS};

/// Which of the variants an event is. A new one does not compile here: add it to `event` and `one_of_each` too.
pub fn variant(event: &Event<'_>) -> usize {
    match event {
        Event::Source(_) => 0,
        Event::Text(_) => 1,
        Event::Type(_) => 2,
        Event::Op(_) => 3,
        Event::Rank { .. } => 4,
        Event::Warning(_) => 5,
        Event::SkippedLines(_) => 6,
        Event::SourceText(..) => 7,
        Event::End => 8,
        Event::Frame(_) => 47,
        Event::Stack(_) => 48,
        Event::OpStack(_) => 49,
        Event::Example(_) => 81,
        Event::Of(_, event) => match event {
            RankEvent::Pool { .. } => 9,
            RankEvent::Module { .. } => 10,
            RankEvent::Stage(..) => 11,
            RankEvent::Argument(..) => 12,
            RankEvent::Run(_) => 13,
            RankEvent::RunEnded { .. } => 14,
            RankEvent::RunModule(..) => 15,
            RankEvent::Step(_) => 16,
            RankEvent::Marks(..) => 17,
            RankEvent::State(..) => 18,
            RankEvent::Tensor(_) => 19,
            RankEvent::Dies(..) => 20,
            RankEvent::Classified(..) => 21,
            RankEvent::Alias(_) => 22,
            RankEvent::Derived(_) => 23,
            RankEvent::Phase(_) => 24,
            RankEvent::Fault(_) => 25,
            RankEvent::Unchanged(..) => 26,
            RankEvent::Origin(_) => 27,
            RankEvent::Banks(..) => 28,
            RankEvent::Carried(_) => 29,
            RankEvent::CutOut(_) => 30,
            RankEvent::Session(_) => 31,
            RankEvent::SessionEnded(..) => 32,
            RankEvent::PoolTotals(..) => 33,
            RankEvent::Block(..) => 34,
            RankEvent::Began(_) => 35,
            RankEvent::Lane { .. } => 36,
            RankEvent::Scope(_) => 37,
            RankEvent::Call(_) => 38,
            RankEvent::Returned(..) => 39,
            RankEvent::CallTotals(..) => 40,
            RankEvent::Time(..) => 41,
            RankEvent::Within(..) => 42,
            RankEvent::Snapshot(_) => 43,
            RankEvent::OpTotals(_) => 44,
            RankEvent::Expected(_) => 45,
            RankEvent::RequiresGrad(..) => 46,
            RankEvent::Seen(..) => 50,
            RankEvent::Thinned(_) => 51,
            RankEvent::AllocationTotals(..) => 52,
            RankEvent::StandsFor(..) => 53,
            RankEvent::History(_) => 54,
            RankEvent::Label(_) => 55,
            RankEvent::NotWatched(..) => 56,
            RankEvent::Process(_) => 57,
            RankEvent::Sampled(..) => 58,
            RankEvent::FaultEnded(_) => 59,
            RankEvent::Restored(..) => 60,
            RankEvent::CallsSince(_) => 61,
            RankEvent::CoreMemory(_) => 62,
            RankEvent::Placed(_) => 63,
            RankEvent::ProgramBuffer(_) => 64,
            RankEvent::FaultDetail(..) => 65,
            RankEvent::TtnnPeaks(_) => 66,
            RankEvent::Used(_) => 67,
            RankEvent::BankLayout(..) => 68,
            RankEvent::Ledger(..) => 69,
            RankEvent::ProcessUse(..) => 70,
            RankEvent::ReportedPart(..) => 71,
            RankEvent::MemorySetting(..) => 72,
            RankEvent::AllocatorRules(..) => 73,
            RankEvent::Reserved(_) => 74,
            RankEvent::FailureContext(..) => 75,
            RankEvent::Launch(_) => 76,
            RankEvent::LaunchArgument(_) => 77,
            RankEvent::HeldBy(..) => 78,
            RankEvent::AddressHeldBy(..) => 79,
            RankEvent::SeveralOutputs(_) => 80,
        },
    }
}
pub const VARIANTS: usize = 82;

pub fn s(index: usize) -> StrId {
    StrId::new(index).unwrap()
}

/// One event of every variant, and of every variant of the enums inside them.
pub fn one_of_each() -> Events {
    let mut events = one_of_each_table();
    let rank = RankId::new(0).unwrap();
    events.extend(
        one_of_each_row()
            .into_iter()
            .chain(one_of_each_choice())
            .chain(one_of_each_in_time())
            .chain(one_of_each_on_cores())
            .map(|event| Event::Of(rank, event)),
    );
    events.push(Event::Example(RankId::new(3).unwrap()));
    events.push(Event::End);
    events
}

pub const RANGE: ByteRange = ByteRange { start: 6, end: 700 };

pub fn one_of_each_table() -> Events {
    let ty = TypeId::new(5);
    let layout = Layout {
        buffer: s(1),
        spread: Some(s(2)),
        stored_dtype: s(3),
        tile: Some((32, 16)),
        grid: vec![8, 8],
        shard: vec![2],
        padded_shape: vec![64, 96],
    };
    let mut events = vec![
        Event::Source(Source { format: "tt_log".to_owned(), file: "run.log".to_owned() }),
        Event::Text(Cow::Borrowed("ttnn.matmul")),
        Event::Type(TensorType {
            text: None,
            shape: vec![60, 90],
            dtype: s(4),
            layout: Some(layout),
            declared: Bytes::known(21_600),
            logical: Bytes::known(10_800),
            padded: Bytes::UNKNOWN,
        }),
        Event::Frame(Frame { function: s(1), file: s(2), line: 300 }),
        Event::Stack(Stack { frame: FrameId::new(2).unwrap(), caller: StackId::new(3) }),
        Event::OpStack(OpStack { op: OpId::new(4).unwrap(), stack: StackId::new(5).unwrap() }),
        Event::Rank { label: Some(s(7)) },
        Event::Warning(Warning { line: Some(300), message: "odd".to_owned() }),
        Event::SkippedLines(70_000),
        Event::SourceText(RANGE, Cow::Borrowed("module {}")),
    ];
    events.extend(OP_KINDS.map(|kind| {
        Event::Op(Op {
            name: s(0),
            results: vec![s(1)],
            operands: vec![s(2), s(3)],
            operand_types: vec![ty, None],
            result_types: vec![None],
            attributes: Some(s(4)),
            callee: None,
            loc: Some(s(5)),
            kind,
        })
    }));
    events
}

pub fn one_of_each_row() -> Vec<RankEvent> {
    let (module, run, pool) = (ModuleId::new(1).unwrap(), RunId::new(2).unwrap(), PoolId::new(3).unwrap());
    let (tensor, at) = (TensorId::new(4).unwrap(), Moment::after(3));
    vec![
        RankEvent::Pool { name: s(1), banks: Some(12), quantum: 1049 },
        RankEvent::Module { name: Some(s(2)) },
        RankEvent::Stage(module, Stage { name: s(3), source: RANGE, line: 9 }),
        RankEvent::Run(Run {
            program: s(4),
            parent: None,
            module: Some(module),
            const_eval: true,
            first: 1,
            end: 5,
            finished: false,
            source: RANGE,
        }),
        RankEvent::RunEnded { run, end: 6, finished: true, source_end: 900 },
        RankEvent::RunModule(run, module),
        RankEvent::State(
            pool,
            at,
            Reading {
                allocated: Some(1),
                active: Some(2),
                reserved: Some(3),
                requested: None,
                free: Some(5),
                largest_free: Some(6),
                capacity: Some(7),
            },
        ),
        RankEvent::Unchanged(pool, at),
        RankEvent::Banks(pool, 8),
        RankEvent::Dies(tensor, Moment::NEVER),
        RankEvent::Alias(Alias { tensor, run: Some(run), ssa: s(5) }),
        RankEvent::Derived(Derivation { tensor, source: TensorId::new(2).unwrap() }),
        RankEvent::Origin(Origin { tensor, module, argument: 7 }),
        RankEvent::Carried(Carried { tensor, program: s(4), op: Some(s(5)), loc: None }),
        RankEvent::CutOut(CutOut { pass: 2, of: 3, first: 300 }),
        RankEvent::Process(2),
        RankEvent::Session(Session {
            name: Some(s(5)),
            parameters: Some(969_369_600),
            dtype: None,
            device_memory: Some(12 << 30),
            quantum: 10_486,
            estimated: true,
            line: Some(6),
            totals: None,
        }),
        RankEvent::SessionEnded(SessionId::new(1).unwrap(), Totals { peak: Some(8), current: Some(-7) }),
        RankEvent::PoolTotals(PoolId::new(3).unwrap(), Totals { peak: None, current: Some(5) }),
        RankEvent::Block(
            PoolId::new(3).unwrap(),
            Moment::late(4),
            Block { address: 1024, size: 64, allocated: true },
        ),
        RankEvent::Phase(Phase {
            session: SessionId::new(1).unwrap(),
            name: s(6),
            steps: Some((3, 9)),
            line: Some(8),
            segment_peak: Some(-1),
            allocations: Some(2),
            deallocations: Some(3),
            change: Some(-4),
            cumulative_peak: Some(5),
            cumulative_current: None,
            l1_peak_cb: Some(7),
            l1_peak_buffer: Some(8),
            l1_peak_total: Some(9),
        }),
    ]
}

pub fn one_of_each_choice() -> Vec<RankEvent> {
    let (module, run, pool) = (ModuleId::new(1).unwrap(), RunId::new(2).unwrap(), PoolId::new(3).unwrap());
    let (tensor, ty) = (TensorId::new(4).unwrap(), TypeId::new(5).unwrap());
    let mut said = Vec::new();
    let marks = [
        StepMarks::CACHE_HIT,
        StepMarks::CACHE_MISS,
        StepMarks::RETAINED,
        StepMarks::VIEW,
        StepMarks::FAILED,
    ];
    said.extend(marks.map(|mark| RankEvent::Marks(7, mark)));
    said.push(RankEvent::Step(StepRow {
        op: OpId::new(8).unwrap(),
        run: Some(run),
        offset: 1000,
        marks: marks[3],
    }));
    said.extend(ARGUMENT_KINDS.map(|kind| {
        RankEvent::Argument(module, Argument { ssa: s(6), name: Some(s(7)), kind, ty: Some(ty) })
    }));
    // Version 1.1 has added workspaces.
    let classes = Class::ALL.into_iter().filter(|class| *class != Class::Workspace);
    said.extend(classes.map(|class| RankEvent::Classified(tensor, class, Some(s(8)))));
    said.push(RankEvent::Tensor(Tensor {
        ty: Some(ty),
        pool,
        per_bank: Bytes::known(2048),
        born: Moment::before(1),
        dies: Moment::after(3),
        class: Class::Activation,
        run: Some(run),
        ssa: Some(s(9)),
        step: StepNumber::new(2),
        name: None,
    }));
    said.extend(FAULT_KINDS.map(|kind| {
        RankEvent::Fault(Fault {
            kind,
            pool: Some(s(1)),
            step: Some(2),
            requested_total: Some(3),
            requested_per_bank: Some(4),
            banks: Some(5),
            bank_size: Some(6),
            allocated: Some(7),
            free: Some(8),
            largest_free: Some(9),
            region_end: None,
            limit: Some(11),
            message: s(12),
            line: 13,
            ended_program: true,
        })
    }));
    said
}

pub fn one_of_each_in_time() -> Vec<RankEvent> {
    let (scope, call) = (ScopeId::new(2).unwrap(), CallId::new(3).unwrap());
    let outcome = Outcome {
        ended: 1_000_000,
        end: 7,
        allocated: 4096,
        freed: 1024,
        peak: 3072,
        kept: 3000,
        allocations: 5,
        frees: 4,
    };
    let mut said = vec![
        RankEvent::Began(1_763_200_000_000_000_000),
        RankEvent::Lane { name: s(1) },
        RankEvent::Call(Call {
            scope,
            lane: LaneId::new(1).unwrap(),
            parent: Some(call),
            op: OpId::new(6),
            began: 900,
            first: 4,
            outcome: None,
        }),
        RankEvent::Returned(call, outcome),
        RankEvent::CallTotals(
            scope,
            CallTotals {
                count: 1,
                time: 2,
                longest: 3,
                allocated: 4,
                freed: 5,
                kept: 6,
                largest_change: -7,
                peak: 8,
            },
        ),
        RankEvent::Time(3, 70_000),
        RankEvent::Within(4, Some(call)),
        RankEvent::Snapshot(Snapshot { name: Some(s(3)), at: Moment::late(4), time: 800 }),
        RankEvent::OpTotals(OpTotals {
            name: s(4),
            count: 32,
            cpu_time: 125_000,
            device_time: Some(6),
            cpu_bytes: -7,
            device_bytes: None,
            shapes: Some(s(5)),
        }),
        RankEvent::Expected(Expected { class: Class::KvCache, bytes: 1 << 30, how: s(6) }),
        RankEvent::RequiresGrad(TensorId::new(4).unwrap(), true),
        RankEvent::Seen(call, Seen { ended: Some(2_000_000), change: Some(-4096) }),
        RankEvent::Thinned(Thinned { since: 3_000_000, until: 2, steps: 1 << 40 }),
        RankEvent::AllocationTotals(
            PoolId::new(0).unwrap(),
            AllocationTotals { allocations: 5, allocated: 500, frees: 4, freed: 400 },
        ),
        RankEvent::StandsFor(TensorId::new(4).unwrap(), 3),
    ];
    said.push(RankEvent::Label(Label {
        pool: PoolId::new(1).unwrap(),
        address: 0x7f00_0000_0200,
        bytes: 4096,
        time: 900,
        ty: TypeId::new(2),
        class: Class::Gradient,
        name: Some(s(7)),
        requires_grad: Some(false),
    }));
    let durings = [During::Call(call), During::NoCall, During::ByTime].into_iter().cycle();
    said.extend(HistoryAction::ALL.into_iter().zip(durings).map(|(action, during)| {
        RankEvent::History(HistoryRow {
            pool: PoolId::new(1).unwrap(),
            action,
            address: 0x7f00_0000_0200,
            bytes: 4000,
            block: Bytes::known(4096),
            op: OpId::new(2).unwrap(),
            during,
            time: 901,
        })
    }));
    said.push(RankEvent::NotWatched(PoolId::new(0).unwrap(), s(8)));
    said.push(RankEvent::FaultEnded(0));
    said.push(RankEvent::CallsSince(77));
    let made = Restored { op: OpId::new(1), scope: Some(scope) };
    said.push(RankEvent::Restored(TensorId::new(0).unwrap(), made));
    said.extend([None, Some(7)].map(|peak| RankEvent::Sampled(PoolId::new(0).unwrap(), peak)));
    said.extend(ScopeKind::ALL.map(|kind| RankEvent::Scope(Scope { name: s(2), parent: Some(scope), kind })));
    said
}

fn one_of_each_on_cores() -> Vec<RankEvent> {
    let tensor = TensorId::new(0).unwrap();
    let memory = CoreMemory { size: 1_499_136, reserved: 105_824, small: 16_384, grid: Some((8, 8)) };
    let detail = FaultDetail { op: Some(s(1)), program: Some(3), is_refusal: true, ..FaultDetail::default() };
    let mut said = vec![
        RankEvent::CoreMemory(memory),
        RankEvent::Placed(Placement { tensor, address: 1_400_832, order: 7, cores: Some(s(2)) }),
        RankEvent::FaultDetail(0, detail),
        RankEvent::Used(Usage { tensor, last_use: StepNumber::new(3) }),
        RankEvent::BankLayout(PoolId::new(0).unwrap(), BankLayout { start: 1_048_640, alignment: 32 }),
        RankEvent::TtnnPeaks(TtnnPeaks { circular: 1, total: 300, device: 70_000, ..TtnnPeaks::default() }),
    ];
    let kinds = [ProgramBufferKind::Circular, ProgramBufferKind::Dataflow, ProgramBufferKind::Scratchpad];
    said.extend(kinds.map(|kind| {
        let address = Some(105_824);
        RankEvent::ProgramBuffer(ProgramBuffer {
            step: 0,
            kind,
            bytes: 4096,
            address,
            cores: s(2),
            borrowed: false,
        })
    }));
    said.push(RankEvent::Classified(tensor, Class::Workspace, Some(s(8))));
    let pool = PoolId::new(0).unwrap();
    let divisions = [4; ROUNDING_CLASSES];
    let (max_split, limit) = (Some(128 << 20), Some(1 << 30));
    let rules = AllocatorRules { max_split, is_expandable: true, divisions, limit };
    said.push(RankEvent::AllocatorRules(pool, rules));
    said.push(RankEvent::Reserved(ReservedSegment {
        pool,
        address: 0x7f00_0000_0000,
        bytes: 20 << 20,
        allocated: 5 << 20,
        active: 6 << 20,
        largest_free: 14 << 20,
        free_blocks: 1,
        stream: 7,
        private_pool: Some((1, 0)),
        is_small: false,
        is_expandable: true,
    }));
    let amount = Amount { bytes: 300, quantum: 7 };
    let ledger =
        Ledger { source: Some(s(1)), requested: Some(amount), other: Some(amount), ..Ledger::default() };
    let context = FailureContext {
        server: Some(s(1)),
        activity: Some(s(2)),
        repeated: 7,
        has_continued: true,
        needed_tokens: Some(300),
        possible_tokens: None,
    };
    said.extend([
        RankEvent::Ledger(0, ledger),
        RankEvent::ProcessUse(0, ProcessUse { pid: 4242, amount }),
        RankEvent::ReportedPart(0, ReportedPart { name: s(2), label: None, amount, line: 9 }),
        RankEvent::MemorySetting(0, MemorySetting { name: s(1), value: s(2) }),
        RankEvent::FailureContext(0, context),
    ]);
    let versions = (Some(s(2)), Some(s(3)), Some(s(4)), Some(s(5)));
    let (python, torch, runtime, driver) = versions;
    let (pid, rank, local_rank, world_size) = (Some(4242), Some(3), Some(1), Some(4));
    let (label, host) = (Some(s(0)), Some(s(1)));
    let launch = Launch { label, pid, rank, local_rank, world_size, host, python, torch, runtime, driver };
    said.extend([RankEvent::Launch(launch), RankEvent::LaunchArgument(s(6))]);
    let holder = Holder { chain: s(3), time: 9_000 };
    said.push(RankEvent::HeldBy(TensorId::new(0).unwrap(), holder));
    said.push(RankEvent::AddressHeldBy(PoolId::new(0).unwrap(), 512, holder));
    said.push(RankEvent::SeveralOutputs(ScopeId::new(2).unwrap()));
    said
}
