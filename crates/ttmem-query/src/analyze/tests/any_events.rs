//! Input may be corrupt or malicious: no analysis may panic, whatever the events are.

use proptest::sample::select;
use ttmem_model::{Alias, CallTotals, Carried, CutOut, Derivation, Origin, Seen, StepNumber};

use super::*;
use crate::analyze::{
    caches, chain, clock, contents, effects, expected, fragmentation, held, hot_paths, interleaved, lanes,
    main_pool, names, oom, outside, over_time, overlaps, padding, peak, reshaping, residue, scopes,
    simulation, tiles, traced, weights,
};

/// The number of ids of each table that events use. Not all of these rows exist.
const ROWS: usize = 3;

const TEXTS: [&str; 12] = [
    "DRAM",
    "cpu",
    "%arg0",
    "%arg1",
    "%0",
    "ttnn.add",
    "ttnn.update_cache",
    "ttnn.scaled_dot_product_attention_decode",
    "ttnn.prepare_conv2d_bias",
    "layers.0.mlp",
    "main",
    "",
];

const OPS: [(OpKind, &str); 7] = [
    (OpKind::Compute, TEXTS[5]),
    (OpKind::Compute, TEXTS[6]),
    (OpKind::Compute, TEXTS[7]),
    (OpKind::Compute, TEXTS[8]),
    (OpKind::LoadCached, TEXTS[5]),
    (OpKind::Call, TEXTS[5]),
    (OpKind::Deallocate, TEXTS[5]),
];

fn id<T: std::fmt::Debug + Clone + 'static>(new: fn(usize) -> Option<T>) -> impl Strategy<Value = T> + Clone {
    (0..ROWS).prop_map(move |index| new(index).unwrap())
}

fn text() -> impl Strategy<Value = StrId> + Clone {
    (0..TEXTS.len()).prop_map(|index| StrId::new(index).unwrap())
}

/// Small numbers and the largest ones.
fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![3 => 0..50_u64, 1 => select(vec![u64::MAX, u64::MAX - 1, 1 << 63])]
}

fn moment() -> impl Strategy<Value = Moment> + Clone {
    (0..12_usize).prop_map(|index| Moment::from_index(index).unwrap()).boxed().prop_union(Just(NEVER).boxed())
}

fn maybe<T: Clone + std::fmt::Debug>(
    of: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Option<T>> {
    prop::option::of(of)
}

fn step() -> impl Strategy<Value = Step> + Clone {
    prop_oneof![9 => 0..6_u32, 1 => Just(u32::MAX)]
}

fn of_memory() -> BoxedStrategy<RankEvent> {
    let reading = (maybe(number()), maybe(number()), maybe(number()), maybe(number())).prop_map(
        |(allocated, free, largest_free, capacity)| Reading {
            allocated,
            free,
            largest_free,
            capacity,
            ..Reading::default()
        },
    );
    let class = select(Class::ALL.to_vec());
    let tensor = (maybe(id(TypeId::new)), id(PoolId::new), maybe(number()), moment(), moment(), class)
        .prop_flat_map(|(ty, pool, per_bank, born, dies, class)| {
            (maybe(id(RunId::new)), maybe(text()), maybe(step())).prop_map(move |(run, ssa, step)| Tensor {
                ty,
                pool,
                per_bank: per_bank.into(),
                born,
                dies,
                class,
                run,
                ssa,
                step: step.and_then(StepNumber::new),
                name: None,
            })
        });
    let banks = select(vec![None, Some(0), Some(1), Some(8), Some(u32::MAX)]);
    prop_oneof![
        1 => (text(), banks, number()).prop_map(|(name, banks, quantum)| RankEvent::Pool { name, banks, quantum }),
        4 => (id(PoolId::new), moment(), reading)
            .prop_map(|(pool, at, reading)| RankEvent::State(pool, at, reading)),
        1 => (id(PoolId::new), moment()).prop_map(|(pool, at)| RankEvent::Unchanged(pool, at)),
        6 => tensor.prop_map(RankEvent::Tensor),
        1 => (id(TensorId::new), moment()).prop_map(|(tensor, at)| RankEvent::Dies(tensor, at)),
        1 => (id(TensorId::new), number()).prop_map(|(tensor, count)| RankEvent::StandsFor(tensor, count)),
        1 => (id(TensorId::new), maybe(id(RunId::new)), text())
            .prop_map(|(tensor, run, ssa)| RankEvent::Alias(Alias { tensor, run, ssa })),
        1 => (id(TensorId::new), id(TensorId::new))
            .prop_map(|(tensor, source)| RankEvent::Derived(Derivation { tensor, source })),
        1 => (id(TensorId::new), id(ModuleId::new), 0..3_u32)
            .prop_map(|(tensor, module, argument)| RankEvent::Origin(Origin { tensor, module, argument })),
        1 => (id(TensorId::new), text()).prop_map(|(tensor, program)| RankEvent::Carried(Carried {
            tensor,
            program,
            op: None,
            loc: None
        })),
    ]
    .boxed()
}

fn of_programs() -> BoxedStrategy<RankEvent> {
    let kind = select(vec![ArgumentKind::Input, ArgumentKind::Parameter, ArgumentKind::Constant]);
    let argument = (text(), maybe(text()), kind, maybe(id(TypeId::new)))
        .prop_map(|(ssa, name, kind, ty)| Argument { ssa, name, kind, ty });
    let run = (text(), maybe(id(RunId::new)), maybe(id(ModuleId::new)), any::<bool>(), step(), step())
        .prop_map(|(program, parent, module, const_eval, first, end)| {
            let source = ByteRange::default();
            RankEvent::Run(Run { program, parent, module, const_eval, first, end, finished: true, source })
        });
    let op = (0..OPS.len()).prop_map(|index| OpId::new(index).unwrap());
    let row = (op, maybe(id(RunId::new)), any::<bool>()).prop_map(|(op, run, is_view)| {
        let marks = if is_view { StepMarks::VIEW } else { StepMarks::default() };
        StepRow { op, run, offset: 0, marks }
    });
    prop_oneof![
        1 => Just(RankEvent::Module { name: None }),
        1 => (id(ModuleId::new), argument).prop_map(|(module, argument)| RankEvent::Argument(module, argument)),
        2 => run,
        4 => row.prop_map(RankEvent::Step),
        1 => step().prop_map(|first| RankEvent::CutOut(CutOut { pass: 1, of: 2, first })),
    ]
    .boxed()
}

fn of_time() -> BoxedStrategy<RankEvent> {
    let call = (id(ScopeId::new), id(LaneId::new), maybe(id(CallId::new)), number()).prop_map(
        |(scope, lane, parent, began)| Call { scope, lane, parent, op: None, began, first: 0, outcome: None },
    );
    let outcome = (number(), number(), number()).prop_map(|(ended, allocated, freed)| Outcome {
        ended,
        allocated,
        freed,
        ..Outcome::default()
    });
    let totals = (number(), number(), number(), number()).prop_map(|(count, time, allocated, freed)| {
        CallTotals { count, time, allocated, freed, ..CallTotals::default() }
    });
    let kind = select(ScopeKind::ALL.to_vec());
    prop_oneof![
        1 => text().prop_map(|name| RankEvent::Lane { name }),
        1 => (text(), kind).prop_map(|(name, kind)| RankEvent::Scope(Scope { name, parent: None, kind })),
        4 => call.prop_map(RankEvent::Call),
        2 => (id(CallId::new), outcome).prop_map(|(call, outcome)| RankEvent::Returned(call, outcome)),
        1 => (id(CallId::new), maybe(number())).prop_map(|(call, ended)| {
            RankEvent::Seen(call, Seen { ended, change: Some(i64::MIN) })
        }),
        1 => (id(ScopeId::new), totals).prop_map(|(scope, totals)| RankEvent::CallTotals(scope, totals)),
        1 => (step(), number()).prop_map(|(step, time)| RankEvent::Time(step, time)),
        1 => (moment(), number()).prop_map(|(at, time)| RankEvent::Snapshot(Snapshot { name: None, at, time })),
    ]
    .boxed()
}

fn fault() -> impl Strategy<Value = RankEvent> {
    let numbers = (maybe(number()), maybe(number()), maybe(number()), maybe(number()), maybe(number()));
    (maybe(text()), maybe(step()), numbers, any::<bool>()).prop_map(|(pool, step, numbers, clash)| {
        let kind = if clash { FaultKind::CircularBuffersClash } else { FaultKind::OutOfMemory };
        let (requested_total, requested_per_bank, free, region_end, limit) = numbers;
        RankEvent::Fault(Fault {
            pool,
            step,
            requested_total,
            requested_per_bank,
            free,
            region_end,
            limit,
            ended_program: true,
            ..Evidence::new().fault(kind)
        })
    })
}

/// Types with ordinary and extreme shapes, and operations over them.
fn defined() -> Evidence {
    let mut evidence = Evidence::new();
    for text in TEXTS {
        evidence.text(text);
    }
    let huge = TensorType { shape: vec![u64::MAX, 2, u64::MAX], ..tiled(&[32, 32]) };
    let empty = TensorType { shape: Vec::new(), padded: Bytes::known(u64::MAX - 1), ..tiled(&[32, 32]) };
    for ty in [tiled(&[1024, 1]), tiled(&[32, 32]), tiled(&[0, 0]), huge, empty] {
        evidence.ty(ty);
    }
    evidence.sized(None, None, None);
    for name in ["DRAM", "cpu"] {
        evidence.pool(name);
        evidence.lane(name);
        evidence.scope(name);
        evidence.module(&[]);
    }
    let ty = TypeId::new;
    for (index, (kind, name)) in OPS.into_iter().enumerate() {
        let values = [("%arg0", ty(index)), ("%arg1", ty(0)), ("%0", ty(3))];
        let op = Op {
            operands: values.iter().map(|(name, _)| evidence.text(name)).collect(),
            operand_types: values.iter().map(|(_, ty)| *ty).collect(),
            results: vec![evidence.text("%0")],
            result_types: vec![ty(index)],
            ..Op::new(evidence.text(name), kind)
        };
        evidence.take(Event::Op(op));
    }
    evidence
}

/// Runs every analysis.
fn ask(profile: &Profile, rank: &Rank, span: Span) {
    let all: Vec<Moment> = moments(rank).collect();
    let pools: Vec<PoolId> = (0..rank.pools.len()).filter_map(PoolId::new).collect();
    for &pool in &pools {
        let account = Account::new(rank, pool).unwrap();
        effects::largest(&effects::added(&account, span), 3);
        held::over_time(&account);
        clock::held_in_time(&account);
        outside::gaps(&account, span);
        residue::by_operation(profile, &account, NEVER);
        let peak = peak::peak(&account, span);
        peak.map(|peak| peak::cause(profile, &account, peak.at));
        if let Some(worst) = fragmentation::worst(&account, span) {
            fragmentation::severity(&account, span, &worst);
        }
        fragmentation::worst_moments(&account, span, 3);
        let tensors = (0..rank.tensors.len()).filter_map(TensorId::new);
        let change = |(index, tensor)| match index % 3 {
            0 => simulation::Change::Smaller(tensor, u64::MAX),
            1 => simulation::Change::AllocatedAt(tensor, Moment::START),
            _ => simulation::Change::Away(tensor, NEVER, Moment::START),
        };
        let changes: Vec<_> = tensors.enumerate().map(change).collect();
        simulation::Simulation::new(&account, span, &changes).saving(&changes);
        let mut sums = over_time::PaddingOverTime::new(profile, rank, pool);
        for &at in &all {
            sums.at(at);
            padding::padding(profile, rank, pool, at, 3);
            let twice = weights::kept_twice(rank, pool, at);
            weights::by_size(profile, rank, twice.as_deref());
            weights::declared_bytes(profile, rank, twice.as_deref().unwrap_or_default());
        }
    }
    contents::contents(rank, &all, 3);
    contents::totals(rank);
    caches::key_value_caches(profile, rank, span);
    for class in Class::ALL {
        expected::taken(profile, rank, class, span);
    }
    main_pool::main_pool(profile, rank, |pool| Some(pool.index() as u64));
    weights::total(profile, rank, &weights::WEIGHTS);
    oom::fatal(rank).map(|fault| oom::verdict(profile, rank, fault).lacks());
    let (reshaping, mut traced) =
        (reshaping::Reshaping::new(profile, rank), traced::Traced::new(profile, rank));
    (0..rank.tensors.len()).for_each(|index| _ = reshaping.freedom(tensor_id(index)));
    for step in 0..rank.end() {
        profile.op_of(rank, step).map(|op| traced.of(step, &op).map(<[_]>::len));
    }
    let wanted = (0..TEXTS.len()).filter_map(StrId::new).collect();
    let names = names::Names::of(profile, rank, &wanted);
    (0..rank.end() + 2).for_each(|step| _ = names.meant(step, StrId::new(2).unwrap()));
    for ty in &profile.types {
        let shape = tiles::friendly_shape(ty);
        if let Some(interleaved) = interleaved::Interleaved::new(ty, 2048, 8) {
            shape.and_then(|shape| interleaved.saved_as(ty, &shape));
        }
    }
    chain::longest_chain(rank);
    hot_paths::hot_paths(rank);
    lanes::pack(rank);
    overlaps::overlaps(rank);
    scopes::totals(rank);
    let alike = scopes::Alike::new(profile, rank);
    (0..rank.scopes.len()).filter_map(ScopeId::new).for_each(|scope| _ = alike.name(scope));
}

proptest! {
    #[test]
    fn no_analysis_panics_on_any_events(
        events in vec(prop_oneof![3 => of_memory(), 3 => of_programs(), 3 => of_time(), 1 => fault()], 0..150),
    ) {
        let mut evidence = defined();
        for event in events {
            evidence.say(event);
        }
        let profile = evidence.sink.finish();
        let rank = first(&profile);
        ask(&profile, rank, Span::recorded(rank));
        let runs = (0..rank.runs.len()).filter_map(RunId::new);
        runs.filter_map(|run| Span::of_run(rank, run)).for_each(|span| ask(&profile, rank, span));
    }

    #[test]
    fn any_events_can_be_compared(
        before in vec(prop_oneof![3 => of_memory(), 3 => of_programs(), 3 => of_time()], 0..100),
        after in vec(prop_oneof![3 => of_memory(), 3 => of_programs(), 3 => of_time()], 0..100),
    ) {
        let [before, after] = [before, after].map(|events| {
            let mut evidence = defined();
            for event in events {
                evidence.say(event);
            }
            evidence.sink.finish()
        });
        let of_itself = crate::diff(&before, &before, &crate::DiffRequest::default());
        if let Ok(diff) = of_itself {
            prop_assert!(diff.ranks.iter().all(|rank| rank.changes.is_empty()), "{diff:?}");
        }
        // Some have no content; an error is fine.
        let _ = crate::diff(&before, &after, &crate::DiffRequest::default());
    }
}
