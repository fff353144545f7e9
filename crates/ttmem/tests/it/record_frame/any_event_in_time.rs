//! Strategies that make the events of programs in time: stacks, scopes, calls, snapshots.

// They name nearly all that there is.
#![allow(clippy::wildcard_imports)]

use proptest::option::of;
use proptest::prelude::*;
use ttmem::model::*;

use crate::record_frame::any_event::{class, id, moment, number, signed, string};

pub fn stack_event(ids: u32) -> impl Strategy<Value = Event<'static>> {
    let frame = (string(ids), string(ids), any::<u32>())
        .prop_map(|(function, file, line)| Event::Frame(Frame { function, file, line }));
    let stack = (id(ids, FrameId::new), of(id(ids, StackId::new)))
        .prop_map(|(frame, caller)| Event::Stack(Stack { frame, caller }));
    let of_op = (id(ids, OpId::new), id(ids, StackId::new))
        .prop_map(|(op, stack)| Event::OpStack(OpStack { op, stack }));
    prop_oneof![frame, stack, of_op]
}

pub fn scope(ids: u32) -> impl Strategy<Value = Scope> {
    let kind = proptest::sample::select(ScopeKind::ALL.to_vec());
    (string(ids), of(id(ids, ScopeId::new)), kind).prop_map(|(name, parent, kind)| Scope {
        name,
        parent,
        kind,
    })
}

fn outcome(ids: u32) -> impl Strategy<Value = Outcome> {
    let bytes = (number(), number(), number(), number());
    (number(), 0..ids, bytes, number(), number()).prop_map(
        |(ended, end, (allocated, freed, peak, kept), allocations, frees)| Outcome {
            ended,
            end,
            allocated,
            freed,
            peak,
            kept,
            allocations,
            frees,
        },
    )
}

pub fn call(ids: u32) -> impl Strategy<Value = Call> {
    let rows =
        (id(ids, ScopeId::new), id(ids, LaneId::new), of(id(ids, CallId::new)), of(id(ids, OpId::new)));
    (rows, number(), 0..ids, of(outcome(ids))).prop_map(
        |((scope, lane, parent, op), began, first, outcome)| Call {
            scope,
            lane,
            parent,
            op,
            began,
            first,
            outcome,
        },
    )
}

fn call_totals() -> impl Strategy<Value = CallTotals> {
    let times = (number(), number(), number());
    (times, number(), number(), number(), signed(), number()).prop_map(
        |((count, time, longest), allocated, freed, kept, largest_change, peak)| CallTotals {
            count,
            time,
            longest,
            allocated,
            freed,
            kept,
            largest_change,
            peak,
        },
    )
}

fn op_totals(ids: u32) -> impl Strategy<Value = OpTotals> {
    let times = (number(), of(number()));
    (string(ids), number(), times, signed(), of(signed()), of(string(ids))).prop_map(
        |(name, count, (cpu_time, device_time), cpu_bytes, device_bytes, shapes)| OpTotals {
            name,
            count,
            cpu_time,
            device_time,
            cpu_bytes,
            device_bytes,
            shapes,
        },
    )
}

fn history_row(ids: u32) -> impl Strategy<Value = HistoryRow> {
    let action = proptest::sample::select(HistoryAction::ALL.to_vec());
    let during =
        prop_oneof![Just(During::NoCall), Just(During::ByTime), id(ids, CallId::new).prop_map(During::Call),];
    let sizes = (number(), number(), of(number()));
    (id(ids, PoolId::new), action, sizes, id(ids, OpId::new), during, number()).prop_map(
        |(pool, action, (address, bytes, block), op, during, time)| HistoryRow {
            pool,
            action,
            address,
            bytes,
            block: Bytes::from(block),
            op,
            during,
            time,
        },
    )
}

fn label(ids: u32) -> impl Strategy<Value = Label> {
    let sizes = (number(), number(), number());
    (id(ids, PoolId::new), sizes, of(id(ids, TypeId::new)), class(), of(string(ids)), of(any::<bool>()))
        .prop_map(|(pool, (address, bytes, time), ty, class, name, requires_grad)| Label {
            pool,
            address,
            bytes,
            time,
            ty,
            class,
            name,
            requires_grad,
        })
}

fn reserved(ids: u32) -> impl Strategy<Value = ReservedSegment> {
    let bytes = (number(), number(), number(), number(), number());
    let rest = (any::<u32>(), number(), of((number(), number())), any::<bool>(), any::<bool>());
    (id(ids, PoolId::new), bytes, rest).prop_map(|(pool, bytes, rest)| {
        let (address, bytes, allocated, active, largest_free) = bytes;
        let (free_blocks, stream, private_pool, is_small, is_expandable) = rest;
        ReservedSegment {
            pool,
            address,
            bytes,
            allocated,
            active,
            largest_free,
            free_blocks,
            stream,
            private_pool,
            is_small,
            is_expandable,
        }
    })
}

pub fn event_in_time(ids: u32) -> impl Strategy<Value = RankEvent> {
    let expected = (class(), number(), string(ids))
        .prop_map(|(class, bytes, how)| RankEvent::Expected(Expected { class, bytes, how }));
    let snapshot = (of(string(ids)), moment(ids), number())
        .prop_map(|(name, at, time)| RankEvent::Snapshot(Snapshot { name, at, time }));
    let thinned = (number(), 0..ids, number())
        .prop_map(|(since, until, steps)| RankEvent::Thinned(Thinned { since, until, steps }));
    let totals =
        (number(), number(), number(), number()).prop_map(|(allocations, allocated, frees, freed)| {
            AllocationTotals { allocations, allocated, frees, freed }
        });
    let thinned = prop_oneof![
        thinned,
        (id(ids, PoolId::new), totals).prop_map(|(pool, totals)| RankEvent::AllocationTotals(pool, totals)),
        (id(ids, TensorId::new), number()).prop_map(|(tensor, count)| RankEvent::StandsFor(tensor, count)),
    ];
    prop_oneof![
        thinned,
        number().prop_map(RankEvent::Began),
        string(ids).prop_map(|name| RankEvent::Lane { name }),
        scope(ids).prop_map(RankEvent::Scope),
        call(ids).prop_map(RankEvent::Call),
        (id(ids, CallId::new), outcome(ids)).prop_map(|(call, outcome)| RankEvent::Returned(call, outcome)),
        (id(ids, CallId::new), of(number()), of(signed()))
            .prop_map(|(call, ended, change)| RankEvent::Seen(call, Seen { ended, change })),
        (id(ids, ScopeId::new), call_totals())
            .prop_map(|(scope, totals)| RankEvent::CallTotals(scope, totals)),
        (0..ids, number()).prop_map(|(step, time)| RankEvent::Time(step, time)),
        (0..ids, of(id(ids, CallId::new))).prop_map(|(step, call)| RankEvent::Within(step, call)),
        snapshot,
        op_totals(ids).prop_map(RankEvent::OpTotals),
        history_row(ids).prop_map(RankEvent::History),
        label(ids).prop_map(RankEvent::Label),
        (id(ids, PoolId::new), of(number()), any::<bool>(), any::<[u16; ROUNDING_CLASSES]>(), of(number()))
            .prop_map(|(pool, max_split, is_expandable, divisions, limit)| {
                let rules = AllocatorRules { max_split, is_expandable, divisions, limit };
                RankEvent::AllocatorRules(pool, rules)
            }),
        reserved(ids).prop_map(RankEvent::Reserved),
        launch(ids),
        expected,
        (id(ids, PoolId::new), string(ids)).prop_map(|(pool, what)| RankEvent::NotWatched(pool, what)),
        (id(ids, PoolId::new), of(number())).prop_map(|(pool, peak)| RankEvent::Sampled(pool, peak)),
        (0..ids).prop_map(RankEvent::FaultEnded),
        number().prop_map(RankEvent::CallsSince),
        id(ids, ScopeId::new).prop_map(RankEvent::SeveralOutputs),
        on_cores(ids),
        in_ledger(ids),
        (id(ids, TensorId::new), of(id(ids, OpId::new)), of(id(ids, ScopeId::new)))
            .prop_map(|(tensor, op, scope)| RankEvent::Restored(tensor, Restored { op, scope })),
        (id(ids, TensorId::new), any::<bool>())
            .prop_map(|(tensor, does)| RankEvent::RequiresGrad(tensor, does)),
    ]
}

fn launch(ids: u32) -> impl Strategy<Value = RankEvent> {
    let facts = (of(string(ids)), of(any::<u32>()), of(any::<u32>()), of(string(ids)));
    prop_oneof![
        facts.prop_map(|(text, pid, rank, host)| RankEvent::Launch(Launch {
            label: text,
            pid,
            rank,
            host,
            driver: text,
            ..Launch::default()
        })),
        string(ids).prop_map(RankEvent::LaunchArgument),
        (id(ids, TensorId::new), holder(ids)).prop_map(|(tensor, holder)| RankEvent::HeldBy(tensor, holder)),
        (id(ids, PoolId::new), number(), holder(ids))
            .prop_map(|(pool, address, holder)| RankEvent::AddressHeldBy(pool, address, holder)),
    ]
}

fn holder(ids: u32) -> impl Strategy<Value = Holder> {
    (string(ids), number()).prop_map(|(chain, time)| Holder { chain, time })
}

fn on_cores(ids: u32) -> impl Strategy<Value = RankEvent> {
    let kind = prop::sample::select(vec![
        ProgramBufferKind::Circular,
        ProgramBufferKind::Dataflow,
        ProgramBufferKind::Scratchpad,
    ]);
    let placement = (id(ids, TensorId::new), number(), any::<u32>(), of(string(ids))).prop_map(
        |(tensor, address, order, cores)| RankEvent::Placed(Placement { tensor, address, order, cores }),
    );
    let buffer = (0..ids, kind.clone(), number(), of(number()), string(ids), any::<bool>()).prop_map(
        |(step, kind, bytes, address, cores, borrowed)| {
            RankEvent::ProgramBuffer(ProgramBuffer { step, kind, bytes, address, cores, borrowed })
        },
    );
    let memory = (number(), number(), number(), of((any::<u32>(), any::<u32>()))).prop_map(
        |(size, reserved, small, grid)| RankEvent::CoreMemory(CoreMemory { size, reserved, small, grid }),
    );
    let detail = (0..ids, of(string(ids)), of(number()), of(kind), of(number()), any::<bool>()).prop_map(
        |(fault, text, program, buffers, placeable, is_refusal)| {
            let (windows, largest_placeable) = (placeable, placeable);
            let detail = FaultDetail {
                op: text,
                loc: text,
                first_step: StepNumber::new(fault),
                program,
                buffers,
                cores: text,
                placeable,
                windows,
                largest_placeable,
                is_refusal,
            };
            RankEvent::FaultDetail(fault, detail)
        },
    );
    let peaks = (number(), number()).prop_map(|(total, device)| {
        RankEvent::TtnnPeaks(TtnnPeaks { total, device, ..TtnnPeaks::default() })
    });
    let usage = (id(ids, TensorId::new), of(0..ids)).prop_map(|(tensor, last)| {
        RankEvent::Used(Usage { tensor, last_use: last.and_then(StepNumber::new) })
    });
    let layout = (id(ids, PoolId::new), number(), number())
        .prop_map(|(pool, start, alignment)| RankEvent::BankLayout(pool, BankLayout { start, alignment }));
    prop_oneof![placement, buffer, memory, detail, peaks, usage, layout]
}

fn in_ledger(ids: u32) -> impl Strategy<Value = RankEvent> {
    let amount = || (number(), number()).prop_map(|(bytes, quantum)| Amount { bytes, quantum });
    let ledger =
        (0..ids, of(string(ids)), of(amount()), of(amount())).prop_map(|(fault, text, one, other)| {
            let ledger =
                Ledger { source: text, platform: text, requested: one, free: other, ..Ledger::default() };
            RankEvent::Ledger(fault, ledger)
        });
    let process = (0..ids, number(), amount())
        .prop_map(|(fault, pid, amount)| RankEvent::ProcessUse(fault, ProcessUse { pid, amount }));
    let part = (0..ids, string(ids), of(string(ids)), amount(), number()).prop_map(
        |(fault, name, label, amount, line)| {
            RankEvent::ReportedPart(fault, ReportedPart { name, label, amount, line })
        },
    );
    let setting = (0..ids, string(ids), string(ids))
        .prop_map(|(fault, name, value)| RankEvent::MemorySetting(fault, MemorySetting { name, value }));
    let context =
        (0..ids, of(string(ids)), number(), of(number())).prop_map(|(fault, server, count, tokens)| {
            let repeated = u32::try_from(count).unwrap_or(0);
            let has_continued = count % 2 == 0;
            let context = FailureContext {
                server,
                repeated,
                has_continued,
                needed_tokens: tokens,
                ..FailureContext::default()
            };
            RankEvent::FailureContext(fault, context)
        });
    prop_oneof![ledger, context, process, part, setting]
}
