//! What is learned afterwards, from an allocator's history, comes out as if it had been seen as it happened.

use std::path::Path;

use proptest::prelude::*;
use ttmem::analyze::outcomes::outcomes;
use ttmem::model::*;
use ttmem::read;
use ttmem::record::live::{Allocation, CallRef, Options, Place, Recorder};
use ttmem_testkit::sweep;

/// What a program does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter(u8),
    Exit,
    Allocate(u16),
    /// One of those that are there.
    Free(u8),
}

fn program() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        // Not the last kind: operations of the framework are never entered as they happen.
        2 => (0_u8..4).prop_map(Act::Enter),
        2 => Just(Act::Exit),
        4 => (1_u16..5000).prop_map(Act::Allocate),
        3 => any::<u8>().prop_map(Act::Free),
    ];
    proptest::collection::vec(act, 1..80)
}

/// Tells a recorder what the calls do, and gives what happens to memory to `memory`.
fn run(recorder: &mut Recorder, acts: &[Act], mut memory: impl FnMut(&mut Recorder, Act, Option<CallRef>)) {
    let lane = recorder.lane("main");
    let mut open: Vec<CallRef> = Vec::new();
    for &act in acts {
        let within = open.last().copied();
        match act {
            Act::Enter(kind) => {
                let kind = ScopeKind::ALL[usize::from(kind) % ScopeKind::ALL.len()];
                let outer = recorder.scope_of(within);
                let scope = recorder.scope(outer, kind.as_str(), kind);
                open.extend(recorder.enter(scope, lane, within, None));
            }
            Act::Exit => {
                if let Some(call) = open.pop() {
                    recorder.exit(call);
                    recorder.release(call);
                }
            }
            Act::Allocate(_) | Act::Free(_) => memory(recorder, act, within),
        }
    }
    while let Some(call) = open.pop() {
        recorder.exit(call);
        recorder.release(call);
    }
    recorder.snapshot(Some("end"));
}

fn op(recorder: &mut Recorder, name: &str) -> OpId {
    let name = recorder.text(name);
    recorder.op(name, None, None)
}

fn seen_as_it_happens(path: &Path, acts: &[Act]) -> Profile {
    let mut recorder = Recorder::recording_to(path).unwrap();
    let pool = recorder.pool("cuda:0", false);
    let mut there: Vec<Place> = Vec::new();
    run(&mut recorder, acts, |recorder, act, within| match act {
        Act::Allocate(bytes) => {
            let op = op(recorder, "alloc");
            let class = match recorder.kind_of(within) {
                Some(ScopeKind::Forward) => Class::Activation,
                Some(ScopeKind::Backward | ScopeKind::Optimizer) => Class::Temporary,
                _ => Class::Unknown,
            };
            let bytes = u64::from(bytes);
            there.extend(recorder.allocated(Allocation { pool, bytes, op, ty: None, class, within }));
        }
        Act::Free(which) if !there.is_empty() => {
            recorder.freed(there.remove(usize::from(which) % there.len()), within);
        }
        _ => {}
    });
    recorder.finish().unwrap();
    read::open(path.to_str().unwrap()).unwrap()
}

/// The clock of the history counts in steps of `coarse` nanoseconds.
fn learned_afterwards(path: &Path, acts: &[Act], coarse: u64) -> Profile {
    let mut recorder = Recorder::recording_to(path).unwrap();
    let pool = recorder.pool("cuda:0", true);
    let (mut rows, mut there, mut next) = (Vec::new(), Vec::new(), 0_u64);
    run(&mut recorder, acts, |recorder, act, within| {
        let time = recorder.now() / coarse * coarse;
        let (during, call) = (During::NoCall, within.and_then(|call| recorder.call_number(call)));
        let row = match act {
            Act::Allocate(bytes) => {
                next += 1;
                there.push((next, u64::from(bytes)));
                let op = op(recorder, "alloc");
                (HistoryAction::Allocated, next, u64::from(bytes), op)
            }
            Act::Free(which) if !there.is_empty() => {
                let (address, bytes) = there.remove(usize::from(which) % there.len());
                (HistoryAction::Freed, address, bytes, OpId::new(0).unwrap())
            }
            _ => return,
        };
        let (action, address, bytes, op) = row;
        let block = Bytes::known(bytes);
        rows.push((HistoryRow { pool, action, address, bytes, block, op, during, time }, call));
    });
    for (row, call) in rows {
        recorder.history(row, call);
    }
    recorder.finish().unwrap();
    read::open(path.to_str().unwrap()).unwrap()
}

/// All of a call but its times. What happened in the microsecond of its end may be on either side of it.
fn plain(outcome: Option<Outcome>, coarse: u64) -> Option<Outcome> {
    let Outcome { allocated, freed, allocations, frees, .. } = outcome?;
    let sums = Outcome { allocated, freed, allocations, frees, ..Outcome::default() };
    outcome.map(|outcome| if coarse == 1 { Outcome { ended: 0, ..outcome } } else { sums })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(32, 1000), ..ProptestConfig::default() })]

    #[test]
    fn learned_afterwards_or_seen_is_the_same(acts in program(), coarse in prop_oneof![Just(1_u64), Just(1000)]) {
        let folder = tempfile::tempdir().unwrap();
        let seen = seen_as_it_happens(&folder.path().join("a.ttmem"), &acts);
        let learned = learned_afterwards(&folder.path().join("b.ttmem"), &acts, coarse);
        let (a, b) = (&seen.ranks[0], &learned.ranks[0]);
        prop_assert!(b.history.is_empty() && learned.warnings.is_empty());
        prop_assert_eq!(a.steps.len(), b.steps.len());
        prop_assert_eq!(&a.tensors.born, &b.tensors.born);
        prop_assert_eq!(&a.tensors.dies, &b.tensors.dies);
        prop_assert_eq!(&a.tensors.step, &b.tensors.step);
        prop_assert_eq!(&a.tensors.per_bank, &b.tensors.per_bank);
        for step in 0..a.end() {
            prop_assert_eq!(a.within.get(step).flatten(), b.within.get(step).flatten());
        }
        let outcomes_of = |rank: &Rank| rank.calls.outcome.iter().map(|o| plain(*o, coarse)).collect::<Vec<_>>();
        prop_assert_eq!(outcomes_of(a), outcomes_of(b));
        if coarse == 1 {
            prop_assert_eq!(&a.calls.first, &b.calls.first);
            prop_assert_eq!(&a.tensors.class, &b.tensors.class);
        }
        prop_assert_eq!(a.snapshots[0].at, b.snapshots[0].at);
        let end = Moment::early(a.end());
        if !b.steps.is_empty() {
            prop_assert_eq!(a.pools[0].reading(end).allocated, b.pools[0].reading(end).allocated);
            prop_assert_eq!(b.pools[0].reading(end).requested, b.pools[0].reading(end).active);
        }
    }

    #[test]
    fn what_calls_came_to_follows_from_the_tensors(acts in program()) {
        let folder = tempfile::tempdir().unwrap();
        let profile = seen_as_it_happens(&folder.path().join("a.ttmem"), &acts);
        prop_assert_eq!(outcomes(&profile.ranks[0]).calls, profile.ranks[0].calls.outcome.clone());
    }
}

/// A recording with rows that somebody made up: whatever they say, it is read.
#[test]
fn rows_that_make_no_sense_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let (pool, other) = (recorder.pool("cuda:0", true), op(&mut recorder, "odd"));
    for (number, action) in HistoryAction::ALL.into_iter().cycle().take(60).enumerate() {
        let (number, during) = (number as u64, During::ByTime);
        let (address, bytes) = (number % 7 * 512, u64::MAX - number);
        let (block, time) = (Bytes::UNKNOWN, u64::MAX - number % 5);
        recorder.history(HistoryRow { pool, action, address, bytes, block, op: other, during, time }, None);
    }
    recorder.finish().unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    assert!(
        profile.warnings.iter().any(|warning| warning.message.contains("inconsistent with earlier events"))
    );
}

#[test]
fn a_line_that_always_makes_the_same_type_makes_it_also_where_nobody_looked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("types.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let (pool, made) = (recorder.pool("cuda:0", true), op(&mut recorder, "linear.forward"));
    let dtype = recorder.text("torch.float32");
    let of = ttmem::record::live::TypeOf { shape: &[2, 64], dtype, bytes: 512 };
    let ty = recorder.tensor_type(of).unwrap();
    for number in 0..3 {
        let (action, during, block) = (HistoryAction::Allocated, During::NoCall, Bytes::UNKNOWN);
        let (address, bytes, time) = (number * 512, 512, number * 10);
        recorder.history(HistoryRow { pool, action, address, bytes, block, op: made, during, time }, None);
    }
    let (class, name, requires_grad) = (Class::Activation, None, None);
    let label = Label { pool, address: 512, bytes: 512, time: 100, ty: Some(ty), class, name, requires_grad };
    recorder.label(label);
    recorder.finish().unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    assert!(profile.ranks[0].tensors.ty.iter().eq(&[Some(ty); 3]));
    assert_eq!(profile.ranks[0].tensors.class, [Class::Unknown, Class::Activation, Class::Unknown]);
}

/// A holder belongs to the block that is at its address at that time, not to an earlier or a later one.
#[test]
fn what_holds_an_address_holds_the_block_at_that_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let (pool, made) = (recorder.pool("cuda:0", true), op(&mut recorder, "alloc"));
    for (time, action) in [
        (10, HistoryAction::Allocated),
        (20, HistoryAction::Freed),
        (30, HistoryAction::Allocated),
        (50, HistoryAction::Freed),
        (60, HistoryAction::Allocated),
    ] {
        let (address, bytes, during, block) = (1024, 512, During::NoCall, Bytes::UNKNOWN);
        recorder.history(HistoryRow { pool, action, address, bytes, block, op: made, during, time }, None);
    }
    let chain = recorder.text("list `kept` → `[*]`");
    recorder.address_held_by(pool, 1024, Holder { chain, time: 40 });
    recorder.address_held_by(pool, 4096, Holder { chain, time: 40 });
    recorder.finish().unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let rank = &profile.ranks[0];
    let held: Vec<(usize, &str)> =
        rank.holders.iter().map(|(tensor, holder)| (tensor.index(), profile.text(holder.chain))).collect();
    assert_eq!(held, [(1, "list `kept` → `[*]`")]);
    assert!(rank.address_holders.is_empty());
}

/// A history that is longer than the files it is in: what is there, and what it is, is the same in the last of them.
#[test]
fn a_history_goes_on_in_the_next_file() {
    let folder = tempfile::tempdir().unwrap();
    let told = |name: &str, limit: Option<u64>| {
        let path = folder.path().join(name);
        let options = Options { limit, ..Options::default() };
        let mut recorder = Recorder::recording_with(&path, options).unwrap();
        let (pool, made) = (recorder.pool("cuda:0", true), op(&mut recorder, "alloc"));
        let rules = AllocatorRules { limit: Some(1 << 50), max_split: Some(1 << 26), ..Default::default() };
        recorder.allocator_rules(pool, rules);
        let lane = recorder.lane("main");
        let scope = recorder.scope(None, "step", ScopeKind::Operation);
        let call = recorder.enter(scope, lane, None, None).unwrap();
        let (number, start) = (recorder.call_number(call), recorder.now());
        let (ty, requires_grad, name) = (None, None, Some(recorder.text("fc.weight")));
        let (address, bytes, time, class) = (0, 512, start + 5, Class::Parameter);
        recorder.label(Label { pool, address, bytes, time, ty, class, name, requires_grad });
        let chain = recorder.text("Model `model` of module `__main__` → `.fc.weight`");
        recorder.address_held_by(pool, address, Holder { chain, time });
        for number_of_row in 0..200_000_u64 {
            // Every address is taken, and given back when it comes round again; the first one never is.
            let (action, address) = match (number_of_row / 64 % 2, number_of_row % 64) {
                (_, 0) if number_of_row > 0 => continue,
                (0, address) => (HistoryAction::Allocated, address * 1024),
                (_, address) => (HistoryAction::Freed, address * 1024),
            };
            let (bytes, block, during) = (100 + address % 900, Bytes::UNKNOWN, During::ByTime);
            let row = HistoryRow {
                pool,
                action,
                address,
                bytes,
                block,
                op: made,
                during,
                time: start + number_of_row,
            };
            recorder.history(row, number);
            if number_of_row == 1000 {
                recorder.highest(pool, 1 << 40);
            }
        }
        recorder.exit(call);
        recorder.release(call);
        recorder.flush();
        let rotations = recorder.status().map_or(0, |status| status.rotations);
        recorder.finish().unwrap();
        (read::open(path.to_str().unwrap()).unwrap(), rotations)
    };
    let ((whole, _), (cut, rotations)) = (told("whole.ttmem", None), told("cut.ttmem", Some(1 << 20)));
    assert!(rotations > 0);
    let (a, b) = (&whole.ranks[0], &cut.ranks[0]);
    assert!(a.pools[0].rules.is_some_and(|rules| rules.limit == Some(1 << 50)));
    assert_eq!(a.pools[0].rules, b.pools[0].rules);
    assert_eq!(a.pools[0].reading(Moment::early(a.end())), b.pools[0].reading(Moment::early(b.end())));
    let parameters =
        |rank: &Rank| rank.tensors.class.iter().filter(|class| **class == Class::Parameter).count();
    assert_eq!((parameters(a), parameters(b)), (1, 1));
    let held = |profile: &Profile| -> Vec<(Class, String)> {
        let rank = &profile.ranks[0];
        let one = |(tensor, holder): (&TensorId, &Holder)| {
            (rank.tensors.class[tensor.index()], profile.text(holder.chain).to_owned())
        };
        rank.holders.iter().map(one).collect()
    };
    let holder = "Model `model` of module `__main__` → `.fc.weight`".to_owned();
    assert_eq!(
        (held(&whole), held(&cut)),
        (vec![(Class::Parameter, holder.clone())], vec![(Class::Parameter, holder)])
    );
    let most = |rank: &Rank| rank.pools[0].curve(CurveKind::Allocated).unwrap().value.iter().max().copied();
    assert_eq!((most(a), most(b)), (Some(1 << 40), Some(1 << 40)), "what a counter said stays");
    assert!(whole.warnings.is_empty());
    assert!(
        cut.warnings.iter().all(|warning| warning.message.contains("reached its limit")),
        "{:?}",
        cut.warnings
    );
    assert!(b.within.iter().any(|(_, call)| call.is_some()), "the call that still runs is known");
}
