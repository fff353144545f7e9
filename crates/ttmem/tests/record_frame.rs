//! The `.ttmem` file: what is written comes back, and damage is noticed, said and survived.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ttmem::model::{
    Alias, Argument, ArgumentKind, Block, Builder, ByteRange, Bytes, Carried, Class, CutOut, Derivation,
    Event, Fault, FaultKind, Layout, ModuleId, Moment, Op, OpId, OpKind, Origin, Phase, PoolId, Profile,
    RankEvent, RankId, Reading, Run, RunId, Session, SessionId, Sink, Source, Stage, StepMarks, StepNumber,
    StepRow, StrId, Tensor, TensorId, TensorType, Totals, TypeId, Warning,
};
use ttmem::record::frame::{self, Writer};
use ttmem::{Error, Result};

type Events = Vec<Event<'static>>;

/// Remembers what it takes.
#[derive(Debug, Default)]
struct Taken(Events);

impl Sink for Taken {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.0.push(owned(event));
        Ok(())
    }
}

fn owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Text(text) => Event::Text(Cow::Owned(text.into_owned())),
        Event::SourceText(range, text) => Event::SourceText(range, Cow::Owned(text.into_owned())),
        Event::Source(source) => Event::Source(source),
        Event::Type(ty) => Event::Type(ty),
        Event::Op(op) => Event::Op(op),
        Event::Rank { label } => Event::Rank { label },
        Event::Of(rank, event) => Event::Of(rank, event),
        Event::Warning(warning) => Event::Warning(warning),
        Event::SkippedLines(lines) => Event::SkippedLines(lines),
        Event::End => Event::End,
    }
}

fn say(events: &[Event<'static>], sink: &mut dyn Sink) {
    for event in events {
        sink.take(event.clone()).unwrap();
    }
}

/// A writer that took events and made a frame of every `each` of them.
fn writer_of<'a>(bytes: &'a mut Vec<u8>, events: &[Event<'static>], each: usize) -> Writer<&'a mut Vec<u8>> {
    let mut writer = Writer::create(bytes, "test.ttmem").unwrap();
    for chunk in events.chunks(each) {
        say(chunk, &mut writer);
        writer.flush().unwrap();
    }
    writer
}

/// A file whose writer was killed after the last flush.
fn killed(events: &[Event<'static>], each: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    drop(writer_of(&mut bytes, events, each));
    bytes
}

fn finished(events: &[Event<'static>], each: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer_of(&mut bytes, events, each).finish().unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Events> {
    let mut taken = Taken::default();
    frame::read(&mut &*bytes, "test.ttmem", &mut taken)?;
    Ok(taken.0)
}

/// The events of a file with a warning about the file itself, and that warning.
fn read_damaged(bytes: &[u8]) -> (Events, String) {
    let mut events = read(bytes).unwrap();
    match events.pop() {
        Some(Event::Warning(Warning { line: None, message })) if message.contains("test.ttmem") => {
            (events, message)
        }
        other => panic!("the last event is no warning: {other:?}"),
    }
}

// What follows makes any event there is. `ids` bounds the ids: they name rows, or are as large as can be.

fn id<T: std::fmt::Debug>(ids: u32, new: fn(usize) -> Option<T>) -> impl Strategy<Value = T> + Clone {
    (0..ids).prop_map(move |index| new(index as usize).unwrap())
}

fn string(ids: u32) -> impl Strategy<Value = StrId> + Clone {
    id(ids, StrId::new)
}

fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..300_u64, any::<u64>()]
}

fn signed() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![-300..300_i64, any::<i64>()]
}

fn bytes() -> impl Strategy<Value = Bytes> + Clone {
    of(number()).prop_map(Bytes::from)
}

fn range() -> impl Strategy<Value = ByteRange> + Clone {
    (number(), number()).prop_map(|(start, end)| ByteRange { start, end })
}

fn moment(ids: u32) -> impl Strategy<Value = Moment> + Clone {
    (0..ids.saturating_mul(3)).prop_map(|index| Moment::from_index(index as usize).unwrap())
}

fn death(ids: u32) -> impl Strategy<Value = Moment> + Clone {
    prop_oneof![moment(ids), Just(Moment::NEVER)]
}

fn marks() -> impl Strategy<Value = StepMarks> + Clone {
    let all = [
        StepMarks::CACHE_HIT,
        StepMarks::CACHE_MISS,
        StepMarks::RETAINED,
        StepMarks::VIEW,
        StepMarks::FAILED,
    ];
    proptest::sample::subsequence(all.to_vec(), 0..=all.len()).prop_map(|chosen| {
        let mut marks = StepMarks::default();
        for mark in chosen {
            marks.add(mark);
        }
        marks
    })
}

fn class() -> impl Strategy<Value = Class> + Clone {
    proptest::sample::select(Class::ALL.to_vec())
}

const OP_KINDS: [OpKind; 5] =
    [OpKind::Compute, OpKind::Deallocate, OpKind::GetDevice, OpKind::LoadCached, OpKind::Call];

const ARGUMENT_KINDS: [ArgumentKind; 4] =
    [ArgumentKind::Input, ArgumentKind::Parameter, ArgumentKind::Constant, ArgumentKind::Default];

const FAULT_KINDS: [FaultKind; 5] = [
    FaultKind::OutOfMemory,
    FaultKind::CircularBuffersClash,
    FaultKind::CircularBuffersTooLarge,
    FaultKind::AddressLimit,
    FaultKind::TraceRegion,
];

fn op(ids: u32) -> impl Strategy<Value = Op> {
    let names = || vec(string(ids), 0..4);
    let types = || vec(of(id(ids, TypeId::new)), 0..4);
    let kind = proptest::sample::select(OP_KINDS.to_vec());
    let texts = (of(string(ids)), of(string(ids)), of(string(ids)));
    (string(ids), names(), names(), types(), types(), texts, kind).prop_map(
        |(name, results, operands, operand_types, result_types, (attributes, callee, loc), kind)| Op {
            name,
            results,
            operands,
            operand_types,
            result_types,
            attributes,
            callee,
            loc,
            kind,
        },
    )
}

fn layout(ids: u32) -> impl Strategy<Value = Layout> {
    let list = || vec(number(), 0..4);
    let tile = of((any::<u32>(), any::<u32>()));
    (string(ids), of(string(ids)), string(ids), tile, list(), list(), list()).prop_map(
        |(buffer, spread, stored_dtype, tile, grid, shard, padded_shape)| Layout {
            buffer,
            spread,
            stored_dtype,
            tile,
            grid,
            shard,
            padded_shape,
        },
    )
}

fn tensor_type(ids: u32) -> impl Strategy<Value = TensorType> {
    (of(string(ids)), vec(number(), 0..5), string(ids), of(layout(ids)), bytes(), bytes(), bytes()).prop_map(
        |(text, shape, dtype, layout, declared, logical, padded)| TensorType {
            text,
            shape,
            dtype,
            layout,
            declared,
            logical,
            padded,
        },
    )
}

fn run(ids: u32) -> impl Strategy<Value = Run> {
    let rows = (string(ids), of(id(ids, RunId::new)), of(id(ids, ModuleId::new)));
    (rows, any::<bool>(), 0..ids, 0..ids, any::<bool>(), range()).prop_map(
        |((program, parent, module), const_eval, first, end, finished, source)| Run {
            program,
            parent,
            module,
            const_eval,
            first,
            end,
            finished,
            source,
        },
    )
}

fn step(ids: u32) -> impl Strategy<Value = StepRow> {
    (id(ids, OpId::new), of(id(ids, RunId::new)), number(), marks())
        .prop_map(|(op, run, offset, marks)| StepRow { op, run, offset, marks })
}

fn reading() -> impl Strategy<Value = Reading> {
    vec(of(number()), 7).prop_map(|values| Reading {
        allocated: values[0],
        active: values[1],
        reserved: values[2],
        requested: values[3],
        free: values[4],
        largest_free: values[5],
        capacity: values[6],
    })
}

fn tensor(ids: u32) -> impl Strategy<Value = Tensor> {
    let life = (moment(ids), death(ids));
    let names =
        (of(id(ids, RunId::new)), of(string(ids)), of((0..ids).prop_map(StepNumber::new)), of(string(ids)));
    (of(id(ids, TypeId::new)), id(ids, PoolId::new), bytes(), life, class(), names).prop_map(
        |(ty, pool, per_bank, (born, dies), class, (run, ssa, step, name))| {
            let step = step.flatten();
            Tensor { ty, pool, per_bank, born, dies, class, run, ssa, step, name }
        },
    )
}

fn argument(ids: u32) -> impl Strategy<Value = Argument> {
    (
        string(ids),
        of(string(ids)),
        proptest::sample::select(ARGUMENT_KINDS.to_vec()),
        of(id(ids, TypeId::new)),
    )
        .prop_map(|(ssa, name, kind, ty)| Argument { ssa, name, kind, ty })
}

fn session(ids: u32) -> impl Strategy<Value = Session> {
    (vec(of(string(ids)), 2), vec(of(number()), 3), number(), any::<bool>(), of(totals())).prop_map(
        |(texts, sizes, quantum, estimated, totals)| Session {
            name: texts[0],
            dtype: texts[1],
            parameters: sizes[0],
            device_memory: sizes[1],
            line: sizes[2],
            quantum,
            estimated,
            totals,
        },
    )
}

fn totals() -> impl Strategy<Value = Totals> {
    (of(signed()), of(signed())).prop_map(|(peak, current)| Totals { peak, current })
}

fn phase(ids: u32) -> impl Strategy<Value = Phase> {
    let place = (id(ids, SessionId::new), string(ids), of((0..ids, 0..ids)), of(number()));
    let figures = (vec(of(signed()), 4), vec(of(number()), 5));
    (place, figures).prop_map(|((session, name, steps, line), (signed, plain))| Phase {
        session,
        name,
        steps,
        line,
        segment_peak: signed[0],
        allocations: plain[0],
        deallocations: plain[1],
        change: signed[1],
        cumulative_peak: signed[2],
        cumulative_current: signed[3],
        l1_peak_cb: plain[2],
        l1_peak_buffer: plain[3],
        l1_peak_total: plain[4],
    })
}

fn fault(ids: u32) -> impl Strategy<Value = Fault> {
    let kind = proptest::sample::select(FAULT_KINDS.to_vec());
    let rows = (of(string(ids)), of(0..ids), of(any::<u32>()), string(ids));
    (kind, rows, vec(of(number()), 8), number(), any::<bool>()).prop_map(
        |(kind, (pool, step, banks, message), sizes, line, ended_program)| Fault {
            kind,
            pool,
            step,
            requested_total: sizes[0],
            requested_per_bank: sizes[1],
            banks,
            bank_size: sizes[2],
            allocated: sizes[3],
            free: sizes[4],
            largest_free: sizes[5],
            region_end: sizes[6],
            limit: sizes[7],
            message,
            line,
            ended_program,
        },
    )
}

fn rank_event(ids: u32) -> BoxedStrategy<RankEvent> {
    let module = || id(ids, ModuleId::new);
    let run_id = || id(ids, RunId::new);
    let tensor_id = || id(ids, TensorId::new);
    let stage =
        (string(ids), range(), number()).prop_map(|(name, source, line)| Stage { name, source, line });
    prop_oneof![
        (string(ids), of(any::<u32>()), number()).prop_map(|(name, banks, quantum)| RankEvent::Pool {
            name,
            banks,
            quantum
        }),
        (id(ids, PoolId::new), any::<u32>()).prop_map(|(pool, banks)| RankEvent::Banks(pool, banks)),
        of(string(ids)).prop_map(|name| RankEvent::Module { name }),
        (module(), stage).prop_map(|(module, stage)| RankEvent::Stage(module, stage)),
        (module(), argument(ids)).prop_map(|(module, argument)| RankEvent::Argument(module, argument)),
        run(ids).prop_map(RankEvent::Run),
        (run_id(), 0..ids, any::<bool>(), number()).prop_map(|(run, end, finished, source_end)| {
            RankEvent::RunEnded { run, end, finished, source_end }
        }),
        (run_id(), module()).prop_map(|(run, module)| RankEvent::RunModule(run, module)),
        step(ids).prop_map(RankEvent::Step),
        (0..ids, marks()).prop_map(|(step, marks)| RankEvent::Marks(step, marks)),
        (id(ids, PoolId::new), moment(ids), reading())
            .prop_map(|(pool, at, reading)| RankEvent::State(pool, at, reading)),
        (id(ids, PoolId::new), moment(ids)).prop_map(|(pool, at)| RankEvent::Unchanged(pool, at)),
        tensor(ids).prop_map(RankEvent::Tensor),
        (tensor_id(), death(ids)).prop_map(|(tensor, at)| RankEvent::Dies(tensor, at)),
        (tensor_id(), class(), of(string(ids)))
            .prop_map(|(tensor, class, name)| RankEvent::Classified(tensor, class, name)),
        (tensor_id(), of(run_id()), string(ids)).prop_map(|(tensor, run, ssa)| RankEvent::Alias(Alias {
            tensor,
            run,
            ssa
        })),
        (tensor_id(), tensor_id())
            .prop_map(|(tensor, source)| RankEvent::Derived(Derivation { tensor, source })),
        (tensor_id(), module(), any::<u32>()).prop_map(|(tensor, module, argument)| {
            RankEvent::Origin(Origin { tensor, module, argument })
        }),
        (tensor_id(), string(ids), of(string(ids)), of(string(ids)))
            .prop_map(|(tensor, program, op, loc)| RankEvent::Carried(Carried { tensor, program, op, loc })),
        (any::<u32>(), any::<u32>(), 0..ids).prop_map(|(pass, of, first)| RankEvent::CutOut(CutOut {
            pass,
            of,
            first
        })),
        session(ids).prop_map(RankEvent::Session),
        phase(ids).prop_map(RankEvent::Phase),
        (id(ids, SessionId::new), totals())
            .prop_map(|(session, totals)| RankEvent::SessionEnded(session, totals)),
        (id(ids, PoolId::new), moment(ids), any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
            |(pool, at, address, size, allocated)| {
                let block = Block { address: address.into(), size: size.into(), allocated };
                RankEvent::Block(pool, at, block)
            }
        ),
        (id(ids, PoolId::new), totals()).prop_map(|(pool, totals)| RankEvent::PoolTotals(pool, totals)),
        fault(ids).prop_map(RankEvent::Fault),
    ]
    .boxed()
}

/// Any event but `End`.
fn event(ids: u32) -> BoxedStrategy<Event<'static>> {
    let text = || ".{0,20}".prop_map(Cow::Owned);
    prop_oneof![
        1 => (".{0,9}", ".{0,9}").prop_map(|(format, file)| Event::Source(Source { format, file })),
        1 => text().prop_map(Event::Text),
        1 => tensor_type(ids).prop_map(Event::Type),
        1 => op(ids).prop_map(Event::Op),
        1 => of(string(ids)).prop_map(|label| Event::Rank { label }),
        1 => (of(number()), ".{0,9}").prop_map(|(line, message)| Event::Warning(Warning { line, message })),
        1 => number().prop_map(Event::SkippedLines),
        1 => (range(), text()).prop_map(|(range, text)| Event::SourceText(range, text)),
        20 => (id(ids, RankId::new), rank_event(ids)).prop_map(|(rank, event)| Event::Of(rank, event)),
    ]
    .boxed()
}

/// Which of the variants an event is. A new one does not compile here: add it to `event` and `one_of_each` too.
fn variant(event: &Event<'_>) -> usize {
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
        },
    }
}
const VARIANTS: usize = 35;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_come_back_as_they_went_in(
        mut events in vec(event(u32::MAX), 0..60),
        complete in any::<bool>(),
        each in 1..60_usize,
    ) {
        if complete {
            events.push(Event::End);
        }
        prop_assert_eq!(&read(&finished(&events, each)).unwrap(), &events);
        let mut framed = read(&killed(&events, each)).unwrap();
        if !complete {
            prop_assert!(matches!(framed.pop(), Some(Event::Warning(_))), "no end, no finish: cut off");
        }
        prop_assert_eq!(framed, events);
    }

    #[test]
    fn a_profile_comes_back_equal(events in consistent_events(), each in 1..60_usize) {
        let mut builder = Builder::new();
        say(&events, &mut builder);
        let profile = builder.finish();

        let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
        profile.replay(&mut writer).unwrap();
        let file = writer.finish().unwrap();
        prop_assert_eq!(&profile_of(&file), &profile);

        // As they came, not as they are replayed, and in frames of any size.
        prop_assert_eq!(profile_of(&finished(&events, each)), profile);
    }

    #[test]
    fn nothing_in_a_sound_frame_panics(kind in 0..60_u32, content in vec(any::<u8>(), 0..80)) {
        let mut file = Forged::new(1, 0);
        file.frame(&stored(&event_bytes(kind, &content)));
        read(&file.0).unwrap();
        let mut newer = Forged::new(1, 1);
        newer.frame(&stored(&content));
        read(&newer.0).unwrap();
    }
}

fn profile_of(file: &[u8]) -> Profile {
    let mut builder = Builder::new();
    frame::read(&mut &*file, "test.ttmem", &mut builder).unwrap();
    builder.finish()
}

/// Events whose ids name rows, for the greater part, and whose readings are in order of time.
fn consistent_events() -> impl Strategy<Value = Events> {
    let ids = 3;
    let rows = (
        vec(".{0,9}".prop_map(|text| Event::Text(Cow::Owned(text))), 3),
        vec(tensor_type(ids).prop_map(Event::Type), 3),
        vec(op(ids).prop_map(Event::Op), 3),
    );
    let ranks = vec(of(string(ids)).prop_map(|label| Event::Rank { label }), 3);
    let few = |strategy: BoxedStrategy<RankEvent>| {
        vec((id(3, RankId::new), strategy).prop_map(|(rank, event)| Event::Of(rank, event)), 6..20)
    };
    let pool = (string(ids), of(any::<u32>()), number()).prop_map(|(name, banks, quantum)| RankEvent::Pool {
        name,
        banks,
        quantum,
    });
    let module = of(string(ids)).prop_map(|name| RankEvent::Module { name });
    let tables = (
        few(pool.boxed()),
        few(module.boxed()),
        few(run(ids).prop_map(RankEvent::Run).boxed()),
        few(step(ids).prop_map(RankEvent::Step).boxed()),
        few(tensor(ids).prop_map(RankEvent::Tensor).boxed()),
    );
    (rows, ranks, tables, vec(event(ids), 0..120), any::<bool>()).prop_map(
        |(rows, ranks, (pools, modules, runs, steps, tensors), rest, complete)| {
            let mut events =
                [rows.0, rows.1, rows.2, ranks, pools, modules, runs, steps, tensors, rest].concat();
            order_readings(&mut events);
            events.extend(complete.then_some(Event::End));
            events
        },
    )
}

/// Readings of a pool come in order of time, and always say the same things.
fn order_readings(events: &mut Events) {
    let mut last = HashMap::new();
    for event in events {
        let Event::Of(rank, RankEvent::State(pool, at, reading)) = event else { continue };
        let last = last.entry((*rank, *pool)).or_insert((*at, *reading));
        *at = last.0.max(*at);
        last.0 = *at;
        let first = last.1;
        let like = |value: Option<u64>, first: Option<u64>| first.map(|first| value.unwrap_or(first));
        *reading = Reading {
            allocated: like(reading.allocated, first.allocated),
            active: like(reading.active, first.active),
            reserved: like(reading.reserved, first.reserved),
            requested: like(reading.requested, first.requested),
            free: like(reading.free, first.free),
            largest_free: like(reading.largest_free, first.largest_free),
            capacity: like(reading.capacity, first.capacity),
        };
    }
}

#[test]
fn the_strategies_make_every_variant() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [false; VARIANTS];
    seen[variant(&Event::End)] = true;
    for _ in 0..2000 {
        let event = event(9).new_tree(&mut runner).unwrap().current();
        seen[variant(&event)] = true;
    }
    assert_eq!(seen, [true; VARIANTS]);
}

// One file, cut and flipped.

fn s(index: usize) -> StrId {
    StrId::new(index).unwrap()
}

/// One event of every variant, and of every variant of the enums inside them.
fn one_of_each() -> Events {
    let mut events = one_of_each_table();
    let rank = RankId::new(0).unwrap();
    events.extend(
        one_of_each_row().into_iter().chain(one_of_each_choice()).map(|event| Event::Of(rank, event)),
    );
    events.push(Event::End);
    events
}

const RANGE: ByteRange = ByteRange { start: 6, end: 700 };

fn one_of_each_table() -> Events {
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

fn one_of_each_row() -> Vec<RankEvent> {
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

fn one_of_each_choice() -> Vec<RankEvent> {
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
    said.extend(Class::ALL.map(|class| RankEvent::Classified(tensor, class, Some(s(8)))));
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

/// A small file with stored and with compressed frames, its events, and where its frames begin.
fn small_file() -> (Vec<u8>, Events, Vec<usize>) {
    let events = one_of_each();
    let bytes = killed(&events, 9);
    let starts = frame_starts(&bytes);
    let codecs: Vec<u8> = starts[..starts.len() - 1].iter().map(|&start| bytes[start + 8]).collect();
    assert!(codecs.contains(&0) && codecs.contains(&1), "both codecs: {codecs:?}");
    (bytes, events, starts)
}

/// Where each frame begins, and where the last one ends.
fn frame_starts(file: &[u8]) -> Vec<usize> {
    let mut starts = vec![16];
    while let Some(at) = starts.last().copied().filter(|&at| at < file.len()) {
        let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        starts.push(at + 8 + length as usize);
    }
    starts
}

/// How many events the frames before `at` hold, at 9 a frame.
fn events_before(at: usize, starts: &[usize]) -> usize {
    starts.iter().skip(1).filter(|&&end| end <= at).count() * 9
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let (bytes, events, starts) = small_file();
    assert_eq!(read(&bytes).unwrap(), events);
    assert!(matches!(read(&[]), Err(Error::Empty { .. })));
    for cut in 1..bytes.len() {
        let (read, message) = read_damaged(&bytes[..cut]);
        assert_eq!(read, events[..events_before(cut, &starts)], "cut at {cut}");
        assert!(message.contains(&format!("{} events", read.len())), "{message}");
        let start = starts.iter().rev().find(|&&start| start <= cut).copied().unwrap_or(0);
        assert!(message.contains(&format!("byte {start}")), "cut at {cut}: {message}");
    }
}

#[test]
fn a_file_with_a_byte_changed_is_read_up_to_there() {
    let (bytes, events, starts) = small_file();
    for at in 0..bytes.len() {
        for pattern in [1, 2, 4, 8, 16, 32, 64, 128, 255_u8] {
            let mut bytes = bytes.clone();
            bytes[at] ^= pattern;
            if at < 8 {
                // Nobody would take it for ours.
                assert!(!frame::is_ttmem(&bytes));
                assert!(matches!(read(&bytes), Err(Error::UnknownFormat { .. })));
                continue;
            }
            let (read, message) = read_damaged(&bytes);
            assert_eq!(read, events[..events_before(at, &starts)], "byte {at} changed by {pattern}");
            assert!(message.contains("damaged at byte") || message.contains("breaks off"), "{message}");
        }
    }
}

#[test]
fn a_frame_left_out_doubled_or_swapped_is_noticed() {
    let (bytes, events, starts) = small_file();
    let frame = |index: usize| &bytes[starts[index]..starts[index + 1]];
    let (head, last) = (&bytes[..16], starts.len() - 2);
    let without: Vec<&[u8]> = [head, frame(0)].into_iter().chain((2..=last).map(frame)).collect();
    let doubled: Vec<&[u8]> = [head, frame(0), frame(0)].into_iter().chain((1..=last).map(frame)).collect();
    let swapped: Vec<&[u8]> =
        [head, frame(0), frame(2), frame(1)].into_iter().chain((3..=last).map(frame)).collect();
    for file in [without, doubled, swapped] {
        let (read, message) = read_damaged(&file.concat());
        assert_eq!(read, events[..9]);
        assert!(message.contains("checksum"), "{message}");
    }
    // A tail of zeros, as a machine that went down leaves it.
    let (read, _) = read_damaged(&[&bytes[..starts[2]], &[0; 5000]].concat());
    assert_eq!(read, events[..18]);
}

#[test]
fn frames_are_cut_as_events_come() {
    let events: Events = (0..100_000).map(|n| text(&format!("text {n}"))).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::create(&mut bytes, "test.ttmem").unwrap();
    say(&events, &mut writer);
    drop(writer);
    let starts = frame_starts(&bytes);
    assert!((4..=6).contains(&(starts.len() - 1)), "{starts:?}");
    let (read, _) = read_damaged(&bytes);
    assert!(read.len() > 70_000 && read.len() < events.len(), "{}: what was not flushed is lost", read.len());
    assert_eq!(read, events[..read.len()]);
}

/// The bytes of an event, whichever way its frame is stored.
fn written(event: &Event<'static>) -> Vec<u8> {
    let file = killed(std::slice::from_ref(event), 1);
    match file[24] {
        0 => file[25..].to_vec(),
        _ => zstd::bulk::decompress(&file[29..], 1 << 20).unwrap(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// What version 1.0 writes for `one_of_each`. NEVER CHANGE a line: such files are out there. If this test
/// fails, a change in `model` changed the format, and either the change or the major version has to go.
#[test]
fn the_bytes_of_version_1_0() {
    let events = one_of_each();
    let lines: Vec<String> = events.iter().map(|event| hex(&written(event))).collect();
    assert_eq!(lines, VERSION_1_0);
    assert!((0..VARIANTS).all(|wanted| events.iter().any(|event| variant(event) == wanted)));
    let mut file = Forged::new(1, 0);
    file.frame(&stored(&unhex(&VERSION_1_0.concat())));
    assert_eq!(read(&file.0).unwrap(), events);
    // And a whole file, as it lies on the disk.
    let whole = "8954544d454d0d0a01000000f04bcddb07000000513eb9a800020201610900";
    assert_eq!(hex(&killed(&[text("a"), Event::End], 9)), whole);
}

const VERSION_1_0: [&str; 60] = [
    "010f0674745f6c6f670772756e2e6c6f67",
    "020c0b74746e6e2e6d61746d756c",
    "032400023c5a0501020103040120100208080102024060e0a801b054ffffffffffffffffff01",
    "05020108",
    "060701ac02036f6464",
    "0703f0a204",
    "080d06bc05096d6f64756c65207b7d",
    "0412010102020304020106000100010500010600",
    "0412010102020304020106000100010500010601",
    "0412010102020304020106000100010500010602",
    "0412010102020304020106000100010500010603",
    "0412010102020304020106000100010500010604",
    "20060102010c9908",
    "2103010103",
    "220701020406bc0509",
    "240c01050001020101050006bc05",
    "2506010306018407",
    "2603010302",
    "291001040801010102010300010501060107",
    "3103010408",
    "3303010408",
    "2b070105ffffffff0f",
    "2d050105010306",
    "2e03010503",
    "320401050207",
    "3406010505010600",
    "3505010203ac02",
    "36160101060180d09dce0300018080808030f65101010600",
    "380601020110010d",
    "3905010400010a",
    "3a0701040980084001",
    "371901020701030901080101010201030107010a00010701080109",
    "2803010701",
    "2803010702",
    "2803010704",
    "2803010708",
    "2803010710",
    "270701090103e80708",
    "23080102070108000106",
    "23080102070108010106",
    "23080102070108020106",
    "23080102070108030106",
    "2c050105000109",
    "2c050105010109",
    "2c050105020109",
    "2c050105030109",
    "2c050105040109",
    "2c050105050109",
    "2c050105060109",
    "2c050105070109",
    "2c050105080109",
    "2c050105090109",
    "2c0501050a0109",
    "2a100101060480100308030103010a010300",
    "301a010001020102010301040105010601070108010900010b0d0d01",
    "301a010101020102010301040105010601070108010900010b0d0d01",
    "301a010201020102010301040105010601070108010900010b0d0d01",
    "301a010301020102010301040105010601070108010900010b0d0d01",
    "301a010401020102010301040105010601070108010900010b0d0d01",
    "0900",
];

// Files that our writer does not write.

struct Forged(Vec<u8>, u32);

impl Forged {
    fn new(major: u16, minor: u16) -> Self {
        let head = [b"\x89TTMEM\r\n".as_slice(), &major.to_le_bytes(), &minor.to_le_bytes()].concat();
        let crc = crc32fast::hash(&head);
        Self([head, crc.to_le_bytes().to_vec()].concat(), crc)
    }

    fn frame(&mut self, payload: &[u8]) {
        self.frame_claiming(u32::try_from(payload.len()).unwrap(), payload);
    }

    fn frame_claiming(&mut self, length: u32, payload: &[u8]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.1);
        hasher.update(&length.to_le_bytes());
        hasher.update(payload);
        self.1 = hasher.finalize();
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(&self.1.to_le_bytes());
        self.0.extend_from_slice(payload);
    }
}

fn event_bytes(kind: u32, content: &[u8]) -> Vec<u8> {
    [postcard::to_stdvec(&(kind, content.len())).unwrap(), content.to_vec()].concat()
}

fn stored(events: &[u8]) -> Vec<u8> {
    [&[0], events].concat()
}

fn compressed(events: &[u8], claimed: u32) -> Vec<u8> {
    [&[1], claimed.to_le_bytes().as_slice(), &zstd::bulk::compress(events, 3).unwrap()].concat()
}

fn text(text: &str) -> Event<'static> {
    Event::Text(Cow::Owned(text.to_owned()))
}

const TEXT_A: &[u8] = b"\x02\x02\x01a";
const END: &[u8] = b"\x09\x00";
const CLOSED: &[u8] = b"\x0a\x00";

#[test]
fn a_newer_minor_is_read_without_what_is_not_known() {
    let mut file = Forged::new(1, 7);
    // Two events of unknown kinds, and a string with something behind it that only the newer version knows.
    let more = [b"\x02\x05\x01a???".as_slice(), &event_bytes(5000, b"whatever"), &event_bytes(12, b""), END];
    file.frame(&stored(&more.concat()));
    let events = read(&file.0).unwrap();
    let [first, Event::Warning(warning), Event::End] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(*first, text("a"));
    assert!(warning.message.contains("2 events") && warning.message.contains("1.7"), "{}", warning.message);
}

#[test]
fn an_unknown_kind_of_our_own_version_is_passed_over_and_said() {
    let mut file = Forged::new(1, 0);
    file.frame(&stored(&[TEXT_A, &event_bytes(31, &[0; 300]), TEXT_A, &event_bytes(0, b""), END].concat()));
    let events = read(&file.0).unwrap();
    let [a, b, Event::Warning(warning), Event::End] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((a, b), (&text("a"), &text("a")));
    assert!(warning.message.contains("2 events"), "{}", warning.message);
}

#[test]
fn another_major_is_refused() {
    for (major, age) in [(0_u16, "an older"), (2, "a newer"), (u16::MAX, "a newer")] {
        let error = read(&Forged::new(major, 3).0).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("{major}.3")) && message.contains("1.0"), "{message}");
        assert!(message.contains(age) && message.contains("convert it"), "{message}");
        assert_eq!(error.exit_code(), 2);
    }
    assert!(frame::is_ttmem(&Forged::new(2, 0).0), "still ours: it is for us to say why not");
}

#[test]
fn what_is_behind_the_end_is_left_out_and_said() {
    for tail in [TEXT_A, CLOSED, END] {
        for end in [END, CLOSED] {
            let mut same_frame = Forged::new(1, 0);
            same_frame.frame(&stored(&[TEXT_A, end, tail].concat()));
            let mut next_frame = Forged::new(1, 0);
            next_frame.frame(&stored(&[TEXT_A, end].concat()));
            let mut garbage = next_frame.0.clone();
            garbage.push(b'x');
            next_frame.frame(&stored(tail));
            for file in [same_frame.0, next_frame.0, garbage] {
                let mut events = read(&file).unwrap();
                if end == END {
                    assert_eq!(events.pop(), Some(Event::End), "the end comes last");
                }
                let [first, Event::Warning(warning)] = events.as_slice() else { panic!("{events:?}") };
                assert_eq!(*first, text("a"));
                assert!(warning.message.contains("behind the end"), "{}", warning.message);
            }
        }
    }
}

#[test]
fn an_event_that_is_none_stops_the_reading() {
    let hopeless: [&[u8]; 9] = [
        b"\x02\x02\x09a",                                    // a string that is longer than its event
        b"\x02\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // … by far
        b"\x02\x02\x01\xff",                                 // no UTF-8
        b"\x02\x03\x01a?",                                   // more than a string
        b"\x02\x7fa",                                        // longer than its frame
        b"\x02",                                             // no length
        b"\x21\x02\x00\x00",                                 // rank 0: ids begin at 1
        b"\x03\x0a\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f", // a shape of 2^63 numbers
        b"\xff\xff\xff\xff\xff\x01",                         // a kind beyond 32 bits
    ];
    for event in hopeless {
        let mut file = Forged::new(1, 0);
        file.frame(&stored(&[TEXT_A, event].concat()));
        file.frame(&stored(TEXT_A));
        let (events, message) = read_damaged(&file.0);
        assert_eq!(events, [text("a")], "{event:x?}");
        assert!(message.contains("at byte 16") && message.contains("cannot be decoded"), "{message}");
    }
}

/// Gives bytes, and remembers the largest buffer that it was asked to fill.
struct Watched<'a>(&'a [u8], usize);

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1.max(buffer.len());
        self.0.read(buffer)
    }
}

#[test]
fn lengths_that_ask_for_the_world_get_nothing() {
    let nothing = vec![0; 300 << 20];
    let bomb = zstd::bulk::compress(&nothing, 1).unwrap();
    let huge = u32::try_from(nothing.len()).unwrap();
    drop(nothing);
    let bomb_claiming = |length: u32| [&[1], length.to_le_bytes().as_slice(), &bomb].concat();

    let mut files = Vec::new();
    for claimed in [u32::MAX, huge, (256 << 20) + 65, 256 << 20, 0] {
        let mut file = Forged::new(1, 0);
        file.frame_claiming(claimed, TEXT_A);
        files.push(file);
    }
    // 300 MiB in some 10 KiB: called what it is, or less.
    for claimed in [huge, u32::MAX, 200 << 20, 4 << 20, 10, 0] {
        let mut file = Forged::new(1, 0);
        file.frame(&bomb_claiming(claimed));
        files.push(file);
    }
    // Less than claimed, no zstd at all, no codec, nothing.
    let odd = [
        compressed(&TEXT_A.repeat(99), 400),
        b"\x01\xff\x00\x00\x00zstd?".to_vec(),
        b"\x02aaa".to_vec(),
        b"\x01".to_vec(),
    ];
    for payload in odd {
        let mut file = Forged::new(1, 0);
        file.frame(&payload);
        files.push(file);
    }
    for file in files {
        let start = Instant::now();
        let (mut taken, mut watched) = (Taken::default(), Watched(&file.0, 0));
        frame::read(&mut watched, "test.ttmem", &mut taken).unwrap();
        assert!(matches!(taken.0.as_slice(), [Event::Warning(_)]), "{:?}", taken.0);
        assert!(watched.1 <= 1 << 20, "a buffer of {} bytes", watched.1);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

#[test]
fn a_large_text_has_its_own_frame() {
    let line =
        "%0 = \"ttnn.matmul\"(%arg0, %arg1) : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32>\n";
    let lines = (0..120_000).map(|n| format!("{n}: {line}")).collect::<Vec<_>>().concat();
    let zeros = "\0".repeat(9 << 20); // above 256 to 1: stored as it is
    let events = [text("a"), text(&lines), text("b"), text(&zeros), text("c"), Event::End];
    let file = finished(&events, 9);
    assert_eq!(read(&file).unwrap(), events);
    let starts = frame_starts(&file);
    assert_eq!(starts.len(), 6, "five frames");
    assert!(starts[2] - starts[1] < lines.len() / 8);
    assert!(starts[4] - starts[3] > zeros.len());
}

#[test]
fn an_event_that_is_too_large_is_refused_and_the_writer_goes_on() {
    let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
    writer.take(text("a")).unwrap();
    let shape = vec![u64::MAX; 500_000];
    let (text_id, layout, logical) = (None, None, Bytes::UNKNOWN);
    let ty =
        TensorType { text: text_id, shape, dtype: s(0), layout, declared: logical, logical, padded: logical };
    let error = writer.take(Event::Type(ty)).unwrap_err().to_string();
    assert!(error.contains("test.ttmem") && error.contains("4 MiB"), "{error}");
    writer.take(text("b")).unwrap();
    writer.take(Event::End).unwrap();
    assert_eq!(read(&writer.finish().unwrap()).unwrap(), [text("a"), text("b"), Event::End]);
}

#[test]
fn nothing_is_taken_after_the_end() {
    let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
    writer.take(Event::End).unwrap();
    assert!(matches!(writer.take(text("late")), Err(Error::Bug(_))));
    assert_eq!(read(&writer.finish().unwrap()).unwrap(), [Event::End]);
}

/// A disk that is full after some bytes, and has room again later.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = bytes.len().min(self.1);
        self.1 -= room;
        self.0.extend_from_slice(&bytes[..room]);
        if room > 0 { Ok(room) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_written_behind_a_write_that_failed() {
    let mut disk = Full(Vec::new(), 16 + 13 + 5);
    let mut writer = Writer::create(&mut disk, "test.ttmem").unwrap();
    writer.take(text("a")).unwrap();
    writer.flush().unwrap();
    writer.take(text("b")).unwrap();
    assert!(matches!(writer.flush(), Err(Error::Write { .. })));
    let error = writer.take(text("c")).unwrap_err().to_string();
    assert!(error.contains("test.ttmem") && error.contains("earlier write failed"), "{error}");
    assert!(writer.flush().is_err() && writer.finish().is_err());
    assert_eq!(read_damaged(&disk.0).0, [text("a")]);
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_recording_that_was_cut_anywhere_goes_on() {
    let (bytes, events, starts) = small_file();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.ttmem");
    // The last frame has the end; without it, all others are there.
    for cut in 0..starts[starts.len() - 2] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let mut known = Taken::default();
        let mut writer = frame::append(open(&path), &path, &mut known).unwrap();
        say(&[text("more"), Event::End], &mut writer);
        writer.finish().unwrap();

        let mut again = read(&std::fs::read(&path).unwrap()).unwrap();
        let tail = again.split_off(again.len() - 2);
        assert_eq!(tail, [text("more"), Event::End]);
        assert_eq!(again, known.0, "the producer knows what is in the file");
        if cut >= 16 {
            let Some(Event::Warning(Warning { message, .. })) = again.pop() else { panic!("cut at {cut}") };
            assert!(message.contains("interrupted"), "{message}");
        }
        assert_eq!(again, events[..events_before(cut, &starts)], "cut at {cut}");
    }
}

#[test]
fn a_recording_with_damage_further_up_goes_on_from_there() {
    let (mut bytes, events, starts) = small_file();
    bytes[starts[2] + 9] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.ttmem");
    std::fs::write(&path, &bytes).unwrap();
    let mut known = Taken::default();
    frame::append(open(&path), &path, &mut known).unwrap().finish().unwrap();
    let read = read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(read, known.0);
    assert_eq!(read[..18], events[..18]);
    let [Event::Warning(warning)] = &read[18..] else { panic!("{read:?}") };
    let lost = format!("{} bytes", bytes.len() - starts[2]);
    assert!(warning.message.contains(&lost), "{}", warning.message);
}

#[test]
fn what_must_not_be_continued_is_left_as_it_is() {
    let (ended, ..) = small_file();
    let closed = finished(&[text("a")], 1);
    let mut newer = Forged::new(1, 1);
    newer.frame(&stored(TEXT_A));
    let mut unknown = Forged::new(1, 0);
    unknown.frame(&stored(&event_bytes(31, b"")));
    let mut undecodable = Forged::new(1, 0);
    undecodable.frame(&stored(b"\x02\x02\x09a"));
    let mut bad_header = ended.clone();
    bad_header[13] ^= 1;
    let files = [
        (ended, "finished"),
        (closed, "finished"),
        (newer.0, "1.1"),
        (unknown.0, "does not know"),
        (undecodable.0, "cannot be decoded"),
        (bad_header, "header"),
        (Forged::new(2, 0).0, "2.0"),
        (b"Always | INFO | something else".to_vec(), "no .ttmem file"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.ttmem");
    for (bytes, why) in files {
        std::fs::write(&path, &bytes).unwrap();
        let error = frame::append(open(&path), &path, &mut Taken::default()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("other.ttmem"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// A source that ends in an error, as a cut gzip file does.
struct Broken<'a>(&'a [u8], io::ErrorKind);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(self.1.into()) } else { self.0.read(buffer) }
    }
}

#[test]
fn a_cut_archive_is_a_cut_file_and_a_broken_disk_is_an_error() {
    let (bytes, events, starts) = small_file();
    for cut in [starts[2], starts[2] + 3, starts[2] + 20] {
        let mut taken = Taken::default();
        let mut source = Broken(&bytes[..cut], io::ErrorKind::UnexpectedEof);
        frame::read(&mut source, "test.ttmem", &mut taken).unwrap();
        assert!(matches!(taken.0.pop(), Some(Event::Warning(_))));
        assert_eq!(taken.0, events[..18]);

        let mut source = Broken(&bytes[..cut], io::ErrorKind::PermissionDenied);
        let error = frame::read(&mut source, "test.ttmem", &mut Taken::default()).unwrap_err();
        assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("test.ttmem"));
    }
}

/// Refuses the third event.
struct Picky(usize);

impl Sink for Picky {
    fn take(&mut self, _: Event<'_>) -> Result<()> {
        self.0 += 1;
        if self.0 < 3 { Ok(()) } else { Err(Error::NotThere("enough".to_owned())) }
    }
}

#[test]
fn what_the_sink_says_counts() {
    let (bytes, ..) = small_file();
    let mut picky = Picky(0);
    let error = frame::read(&mut &*bytes, "test.ttmem", &mut picky).unwrap_err();
    assert_eq!((error.to_string().as_str(), picky.0), ("enough", 3));
}
