//! The live recorder: its figures, its calls and its file say the same, whatever a program does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use ttmem::analyze::contents::{Content, contents};
use ttmem::model::{
    Builder, Class, CurveKind, Frame, LaneId, Moment, Outcome, PoolId, Profile, Rank, Reading, ScopeKind,
    TensorId,
};
use ttmem::query::memory_profile;
use ttmem::read;
use ttmem::record::frame;
use ttmem::record::live::{Allocation, CallRef, Place, Recorder, TypeOf};
use ttmem_testkit::sweep;

/// What a program does, on one of two threads.
#[derive(Clone, Debug)]
enum Act {
    Enter(usize, u8),
    Exit(usize),
    Allocate(usize, u64),
    Free(usize, usize),
    Snapshot,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (0..2_usize, 0..3_u8).prop_map(|(thread, name)| Act::Enter(thread, name)),
        2 => (0..2_usize).prop_map(Act::Exit),
        4 => (0..2_usize, 0..9000_u64).prop_map(|(thread, bytes)| Act::Allocate(thread, bytes)),
        3 => (0..2_usize, 0..9_usize).prop_map(|(thread, which)| Act::Free(thread, which)),
        1 => Just(Act::Snapshot),
    ];
    vec(act, 0..120)
}

/// What happened, to be added up the slow way.
#[derive(Clone, Debug)]
enum Logged {
    /// In which calls, and which number the allocation has.
    Allocated(Vec<usize>, usize, u64),
    Freed(Vec<usize>, usize, u64),
    Entered(usize),
    Exited(usize),
}

struct Program {
    recorder: Recorder,
    pool: PoolId,
    lanes: [LaneId; 2],
    stacks: [Vec<(usize, CallRef)>; 2],
    alive: Vec<(usize, Place, u64)>,
    log: Vec<Logged>,
    calls: usize,
    allocations: usize,
    snapshots: usize,
}

impl Program {
    fn new(mut recorder: Recorder) -> Self {
        let pool = recorder.pool("cpu", false);
        let lanes = [recorder.lane("MainThread"), recorder.lane("Thread-1")];
        let (stacks, alive, log) = (Default::default(), Vec::new(), Vec::new());
        Self { recorder, pool, lanes, stacks, alive, log, calls: 0, allocations: 0, snapshots: 0 }
    }

    fn inside(&self, thread: usize) -> Vec<usize> {
        self.stacks[thread].iter().map(|(call, _)| *call).collect()
    }

    fn within(&self, thread: usize) -> Option<CallRef> {
        self.stacks[thread].last().map(|(_, call)| *call)
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Enter(thread, name) => {
                let parent = self.within(thread);
                let outer = self.recorder.scope_of(parent);
                let scope = self.recorder.scope(outer, &format!("op{name}"), ScopeKind::Operation);
                let call = self.recorder.enter(scope, self.lanes[thread], parent, None).unwrap();
                self.stacks[thread].push((self.calls, call));
                self.log.push(Logged::Entered(self.calls));
                self.calls += 1;
            }
            Act::Exit(thread) => {
                let Some((number, call)) = self.stacks[thread].pop() else { return };
                self.recorder.exit(call);
                self.recorder.release(call);
                self.log.push(Logged::Exited(number));
            }
            Act::Allocate(thread, bytes) => {
                let name = self.recorder.text("aten::empty");
                let op = self.recorder.op(name, None, None);
                let (pool, within) = (self.pool, self.within(thread));
                let allocation = Allocation { pool, bytes, op, ty: None, class: Class::Unknown, within };
                let place = self.recorder.allocated(allocation).unwrap();
                self.log.push(Logged::Allocated(self.inside(thread), self.allocations, bytes));
                self.alive.push((self.allocations, place, bytes));
                self.allocations += 1;
            }
            Act::Free(thread, which) => {
                if self.alive.is_empty() {
                    return;
                }
                let (number, place, bytes) = self.alive.swap_remove(which % self.alive.len());
                self.recorder.freed(place, self.within(thread));
                self.log.push(Logged::Freed(self.inside(thread), number, bytes));
            }
            Act::Snapshot => {
                self.recorder.snapshot(Some("look"));
                self.snapshots += 1;
            }
        }
    }

    /// What each call came to, added up from the log.
    fn expected(&self) -> BTreeMap<usize, Outcome> {
        let mut ended = BTreeMap::new();
        let mut open: BTreeMap<usize, (i64, Outcome)> = BTreeMap::new();
        let mut born_in: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for logged in &self.log {
            match logged {
                Logged::Entered(call) => drop(open.insert(*call, (0, Outcome::default()))),
                Logged::Exited(call) => drop(ended.insert(*call, open.remove(call).unwrap().1)),
                Logged::Allocated(inside, number, bytes) => {
                    born_in.insert(*number, inside.clone());
                    for call in inside {
                        let (level, outcome) = open.get_mut(call).unwrap();
                        *level += i64::try_from(*bytes).unwrap();
                        outcome.peak = outcome.peak.max(u64::try_from(*level).unwrap_or(0));
                        outcome.allocated += bytes;
                        outcome.kept += bytes;
                        outcome.allocations += 1;
                    }
                }
                Logged::Freed(inside, number, bytes) => {
                    for call in inside {
                        let (level, outcome) = open.get_mut(call).unwrap();
                        *level -= i64::try_from(*bytes).unwrap();
                        outcome.freed += bytes;
                        outcome.frees += 1;
                    }
                    for call in born_in.remove(number).unwrap() {
                        if let Some((_, outcome)) = open.get_mut(&call) {
                            outcome.kept -= bytes;
                        }
                    }
                }
            }
        }
        ended
    }
}

fn profile(path: &Path) -> Profile {
    let mut builder = Builder::new();
    frame::read(&mut fs::read(path).unwrap().as_slice(), "a recording", &mut builder).unwrap();
    builder.finish()
}

/// What is in the only pool at a moment, looked up one by one.
fn slow_content(rank: &Rank, at: Moment, top: usize) -> Vec<Content> {
    let pool = PoolId::new(0).unwrap();
    let size = |tensor: &usize| rank.tensors.per_bank[*tensor].or_zero();
    let mut live: Vec<usize> = rank.live(pool, at).collect();
    live.sort_by_key(|tensor| (Reverse(size(tensor)), *tensor));
    let (bytes, count) = (live.iter().map(size).sum(), live.len() as u64);
    let largest = live.into_iter().take(top).filter_map(TensorId::new).collect();
    let had_any = rank.tensors.born.iter().any(|born| *born <= at);
    had_any.then_some(Content { pool, bytes, count, largest }).into_iter().collect()
}

fn highest(profile: &Profile) -> u64 {
    let curve = profile.ranks[0].pools[0].curve(CurveKind::Allocated).unwrap();
    curve.value.iter().copied().max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sweep::cases(32, 1000)))]

    #[test]
    fn figures_calls_and_file_say_the_same(acts in acts()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let mut program = Program::new(Recorder::recording_to(&path).unwrap());
        for act in &acts {
            program.act(act);
        }
        let figures = program.recorder.pools().next().unwrap().1;
        let totals: u64 = program.recorder.scopes().map(|(_, _, totals)| totals.count).sum();
        program.recorder.finish().unwrap();

        let alive: u64 = program.alive.iter().map(|(_, _, bytes)| bytes).sum();
        prop_assert_eq!((figures.now, figures.count), (alive, program.alive.len() as u64));
        let expected = program.expected();
        prop_assert_eq!(totals, expected.len() as u64);

        let profile = profile(&path);
        prop_assert!(profile.complete && profile.warnings.is_empty());
        let rank = &profile.ranks[0];
        prop_assert_eq!(highest(&profile), figures.peak);
        let last = rank.pools[0].reading(Moment::early(rank.end())).allocated;
        prop_assert_eq!(last, Some(figures.now));
        prop_assert_eq!(rank.snapshots.len(), program.snapshots);
        let held: u64 = rank
            .live(PoolId::new(0).unwrap(), Moment::early(rank.end()))
            .map(|tensor| rank.tensors.per_bank[tensor].or_zero())
            .sum();
        prop_assert_eq!(held, figures.now);
        let moments: Vec<Moment> = rank.snapshots.iter().map(|snapshot| snapshot.at).collect();
        for (at, found) in moments.iter().zip(contents(rank, &moments, 3)) {
            prop_assert_eq!(found, slow_content(rank, *at, 3));
        }
        for (index, call) in rank.calls.iter().enumerate() {
            let expected = expected.get(&index).copied();
            let found = call.outcome.map(|outcome| Outcome { ended: 0, end: 0, ..outcome });
            prop_assert_eq!(found, expected, "call {}", index);
        }
    }

    /// On one thread, a call's effect is the difference of what is there before and after.
    #[test]
    fn alone_the_effect_is_the_difference(acts in acts()) {
        let mut program = Program::new(Recorder::new());
        let mut before = Vec::new();
        for act in &acts {
            let act = match act {
                Act::Enter(_, name) => Act::Enter(0, *name),
                Act::Exit(_) => Act::Exit(0),
                Act::Allocate(_, bytes) => Act::Allocate(0, *bytes),
                Act::Free(_, which) => Act::Free(0, *which),
                Act::Snapshot => Act::Snapshot,
            };
            let now = program.recorder.pools().next().unwrap().1.now;
            match act {
                Act::Enter(..) => before.push(now),
                Act::Exit(_) if !before.is_empty() => {
                    let (number, _) = *program.stacks[0].last().unwrap();
                    let began = before.pop().unwrap();
                    program.act(&act);
                    let change = program.expected()[&number].change();
                    prop_assert_eq!(i128::from(now) - i128::from(began), i128::from(change));
                    continue;
                }
                _ => {}
            }
            program.act(&act);
        }
    }

    /// When all is over, nothing of it is held any more.
    #[test]
    fn nothing_is_held_in_the_end(acts in acts()) {
        let mut program = Program::new(Recorder::new());
        for act in &acts {
            program.act(act);
        }
        while !program.stacks[0].is_empty() || !program.stacks[1].is_empty() {
            program.act(&Act::Exit(0));
            program.act(&Act::Exit(1));
        }
        while !program.alive.is_empty() {
            program.act(&Act::Free(0, 0));
        }
        prop_assert_eq!(program.recorder.held_calls(), 0);
        let figures = program.recorder.pools().next().unwrap().1;
        prop_assert_eq!((figures.now, figures.count), (0, 0));
    }
}

#[test]
fn a_task_that_outlives_its_call_belongs_to_the_call_around() {
    let mut recorder = Recorder::new();
    let (lane, pool) = (recorder.lane("loop"), recorder.pool("cpu", false));
    let outer_scope = recorder.scope(None, "server", ScopeKind::Operation);
    let inner_scope = recorder.scope(Some(outer_scope), "request", ScopeKind::Operation);
    let outer = recorder.enter(outer_scope, lane, None, None).unwrap();
    let inner = recorder.enter(inner_scope, lane, Some(outer), None).unwrap();
    recorder.exit(inner);
    // The task still holds `inner`, and allocates.
    let name = recorder.text("aten::empty");
    let op = recorder.op(name, None, None);
    let within = Some(inner);
    recorder.allocated(Allocation { pool, bytes: 64, op, ty: None, class: Class::Unknown, within });
    recorder.release(inner);
    recorder.exit(outer);
    let totals: Vec<_> = recorder.scopes().map(|(_, _, totals)| totals.allocated).collect();
    assert_eq!(totals, [64, 0]);
}

#[test]
fn lines_types_names_and_readings_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let pool = recorder.pool("cpu", false);
    let host = recorder.pool("host", true);
    let (main, model, file) = (recorder.text("main"), recorder.text("forward"), recorder.text("train.py"));
    let outer = recorder.frame(Frame { function: main, file, line: 40 });
    let inner = recorder.frame(Frame { function: model, file, line: 7 });
    let caller = recorder.stack(outer, None);
    let stack = recorder.stack(inner, Some(caller));
    let (name, loc) = (recorder.text("aten::mm"), recorder.text("train.py:7"));
    let op = recorder.op(name, Some(stack), Some(loc));
    assert_eq!(recorder.op(name, Some(stack), Some(loc)), op);
    let dtype = recorder.text("torch.float32");
    let ty = recorder.tensor_type(TypeOf { shape: &[2, 3], dtype, bytes: 24 });
    let allocation = Allocation { pool, bytes: 64, op, ty, class: Class::Activation, within: None };
    let place = recorder.allocated(allocation).unwrap();
    let weight = recorder.text("fc.weight");
    recorder.classify(place, Class::Parameter, Some(weight));
    recorder.requires_grad(place, true);
    recorder.reading(host, Reading { allocated: Some(5000), ..Reading::default() });
    let (scope, lane) = (recorder.scope(None, "layers.0", ScopeKind::Forward), recorder.lane("main"));
    for _ in 0..2 {
        let call = recorder.enter(scope, lane, None, None).unwrap();
        recorder.several_outputs(call);
        recorder.exit(call);
    }
    recorder.finish().unwrap();

    let profile = profile(&path);
    let rank = &profile.ranks[0];
    assert_eq!(rank.several_outputs, [scope].into());
    assert_eq!(rank.tensors.class, [Class::Parameter]);
    assert_eq!(rank.tensors.name[0].map(|name| profile.text(name)), Some("fc.weight"));
    assert_eq!(profile.types[0].shape, [2, 3]);
    let op = rank.op_id(0).unwrap();
    let lines: Vec<u32> = profile.stacks.lines(profile.stacks.of_op(op).unwrap()).map(|f| f.line).collect();
    assert_eq!(lines, [7, 40]);
    assert_eq!(profile.op_loc(rank, 0), Some("train.py:7"));
    assert_eq!(rank.pools[1].reading(Moment::early(1)).allocated, Some(5000));
    assert!(rank.began.is_some() && rank.times.get(0).is_some());
    assert_eq!(rank.requires_grad.values().collect::<Vec<_>>(), [&true]);
}

#[test]
fn more_than_the_queue_holds_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut program = Program::new(Recorder::recording_to(&path).unwrap());
    for number in 0..100_000 {
        program.act(&Act::Allocate(0, 1 + number % 7));
        program.act(&Act::Free(0, 0));
    }
    program.recorder.finish().unwrap();
    let rank = &profile(&path).ranks[0];
    assert_eq!((rank.steps.len(), rank.tensors.len()), (200_000, 100_000));
    assert!(rank.tensors.dies.iter().all(|dies| *dies != Moment::NEVER));
}

#[test]
fn what_happened_is_in_the_file_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut program = Program::new(Recorder::recording_to(&path).unwrap());
    program.act(&Act::Allocate(0, 4096));
    program.recorder.flush();
    // As if the program were killed here.
    let killed = profile(&path);
    assert_eq!(killed.ranks[0].tensors.len(), 1);
    assert!(!killed.complete);
    assert_eq!(highest(&killed), 4096);
}

#[test]
fn names_that_a_program_makes_up_end_in_one() {
    let mut recorder = Recorder::new();
    for number in 0..70_000 {
        recorder.scope(None, &format!("request {number}"), ScopeKind::Operation);
    }
    let names: Vec<_> = recorder.scopes().map(|(_, scope, _)| recorder.text_of(scope.name)).collect();
    assert_eq!(names.len(), (1 << 16) + 1);
    assert_eq!(names.last(), Some(&"(further names)"));
}

#[test]
fn what_is_gone_before_its_call_returns_is_temporary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut program = Program::new(Recorder::recording_to(&path).unwrap());
    program.act(&Act::Enter(0, 0));
    program.act(&Act::Allocate(0, 100));
    program.act(&Act::Allocate(0, 200));
    program.act(&Act::Free(0, 0));
    program.act(&Act::Exit(0));
    program.act(&Act::Free(0, 0));
    program.recorder.finish().unwrap();
    assert_eq!(profile(&path).ranks[0].tensors.class, [Class::Temporary, Class::Unknown]);
}

/// What a program that was watched leaves behind as JSON is read back: the same calls, and the same totals.
#[test]
fn the_json_of_a_recording_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut program = Program::new(Recorder::recording_to(&path).unwrap());
    for act in [
        Act::Enter(0, 0),
        Act::Allocate(0, 5000),
        Act::Enter(1, 1),
        Act::Allocate(1, 700),
        Act::Enter(0, 2),
        Act::Free(0, 0),
        Act::Snapshot,
        Act::Exit(0),
        Act::Exit(1),
        Act::Exit(0),
        Act::Snapshot,
    ] {
        program.act(&act);
    }
    program.recorder.finish().unwrap();
    let recorded = profile(&path);
    let json = folder.path().join("memory_profile_1.json");
    fs::write(&json, serde_json::to_vec(&memory_profile(&recorded, false).unwrap()).unwrap()).unwrap();
    let read = read::open(json.to_str().unwrap()).unwrap();

    let calls = |profile: &Profile| -> Vec<_> {
        let rank = &profile.ranks[0];
        let name = |scope: ttmem::model::ScopeId| profile.text(rank.scopes.name[scope.index()]).to_owned();
        let row = |call: ttmem::model::Call| {
            let outcome = call.outcome.map(|outcome| Outcome { end: 0, ..outcome });
            (name(call.scope), call.began, outcome)
        };
        let mut calls: Vec<_> = rank.calls.iter().map(row).collect();
        calls.sort_by_key(|call| call.1);
        calls
    };
    assert_eq!(calls(&read), calls(&recorded));
    let times = |profile: &Profile| profile.ranks[0].snapshots.iter().map(|s| s.time).collect::<Vec<_>>();
    assert_eq!(times(&read), times(&recorded));
    assert_eq!(read.ranks[0].began, recorded.ranks[0].began);
}
