//! Strategies that make any event there is. `ids` bounds the ids: they name rows, or are as large as can be.

// They name nearly all that there is.
#![allow(clippy::wildcard_imports)]

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ttmem::model::*;

use crate::record_frame::any_event_in_time::{event_in_time, stack_event};

pub fn id<T: std::fmt::Debug>(ids: u32, new: fn(usize) -> Option<T>) -> impl Strategy<Value = T> + Clone {
    (0..ids).prop_map(move |index| new(index as usize).unwrap())
}

pub fn string(ids: u32) -> impl Strategy<Value = StrId> + Clone {
    id(ids, StrId::new)
}

pub fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..300_u64, any::<u64>()]
}

pub fn signed() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![-300..300_i64, any::<i64>()]
}

pub fn bytes() -> impl Strategy<Value = Bytes> + Clone {
    of(number()).prop_map(Bytes::from)
}

pub fn range() -> impl Strategy<Value = ByteRange> + Clone {
    (number(), number()).prop_map(|(start, end)| ByteRange { start, end })
}

pub fn moment(ids: u32) -> impl Strategy<Value = Moment> + Clone {
    (0..ids.saturating_mul(3)).prop_map(|index| Moment::from_index(index as usize).unwrap())
}

pub fn death(ids: u32) -> impl Strategy<Value = Moment> + Clone {
    prop_oneof![moment(ids), Just(Moment::NEVER)]
}

pub fn marks() -> impl Strategy<Value = StepMarks> + Clone {
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

pub fn class() -> impl Strategy<Value = Class> + Clone {
    proptest::sample::select(Class::ALL.to_vec())
}

pub const OP_KINDS: [OpKind; 5] =
    [OpKind::Compute, OpKind::Deallocate, OpKind::GetDevice, OpKind::LoadCached, OpKind::Call];

pub const ARGUMENT_KINDS: [ArgumentKind; 4] =
    [ArgumentKind::Input, ArgumentKind::Parameter, ArgumentKind::Constant, ArgumentKind::Default];

pub const FAULT_KINDS: [FaultKind; 6] = [
    FaultKind::OutOfMemory,
    FaultKind::CircularBuffersClash,
    FaultKind::CircularBuffersTooLarge,
    FaultKind::AddressLimit,
    FaultKind::TraceRegion,
    FaultKind::Exception,
];

pub fn op(ids: u32) -> impl Strategy<Value = Op> {
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

pub fn layout(ids: u32) -> impl Strategy<Value = Layout> {
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

pub fn tensor_type(ids: u32) -> impl Strategy<Value = TensorType> {
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

pub fn run(ids: u32) -> impl Strategy<Value = Run> {
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

pub fn step(ids: u32) -> impl Strategy<Value = StepRow> {
    (id(ids, OpId::new), of(id(ids, RunId::new)), number(), marks())
        .prop_map(|(op, run, offset, marks)| StepRow { op, run, offset, marks })
}

pub fn reading() -> impl Strategy<Value = Reading> {
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

pub fn tensor(ids: u32) -> impl Strategy<Value = Tensor> {
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

pub fn argument(ids: u32) -> impl Strategy<Value = Argument> {
    (
        string(ids),
        of(string(ids)),
        proptest::sample::select(ARGUMENT_KINDS.to_vec()),
        of(id(ids, TypeId::new)),
    )
        .prop_map(|(ssa, name, kind, ty)| Argument { ssa, name, kind, ty })
}

pub fn session(ids: u32) -> impl Strategy<Value = Session> {
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

pub fn totals() -> impl Strategy<Value = Totals> {
    (of(signed()), of(signed())).prop_map(|(peak, current)| Totals { peak, current })
}

pub fn phase(ids: u32) -> impl Strategy<Value = Phase> {
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

pub fn fault(ids: u32) -> impl Strategy<Value = Fault> {
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

pub fn rank_event(ids: u32) -> BoxedStrategy<RankEvent> {
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
        any::<u32>().prop_map(RankEvent::Process),
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
        event_in_time(ids),
    ]
    .boxed()
}

/// Any event but `End`.
pub fn event(ids: u32) -> BoxedStrategy<Event<'static>> {
    let text = || ".{0,20}".prop_map(Cow::Owned);
    prop_oneof![
        1 => (".{0,9}", ".{0,9}").prop_map(|(format, file)| Event::Source(Source { format, file })),
        1 => text().prop_map(Event::Text),
        1 => tensor_type(ids).prop_map(Event::Type),
        1 => op(ids).prop_map(Event::Op),
        1 => stack_event(ids),
        1 => of(string(ids)).prop_map(|label| Event::Rank { label }),
        1 => id(ids, RankId::new).prop_map(Event::Example),
        1 => (of(number()), ".{0,9}").prop_map(|(line, message)| Event::Warning(Warning { line, message })),
        1 => number().prop_map(Event::SkippedLines),
        1 => (range(), text()).prop_map(|(range, text)| Event::SourceText(range, text)),
        20 => (id(ids, RankId::new), rank_event(ids)).prop_map(|(rank, event)| Event::Of(rank, event)),
    ]
    .boxed()
}
