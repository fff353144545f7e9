//! Iterations that were recorded without modules and stacks have the same details as if they had been recorded with them.

use std::path::Path;

use proptest::prelude::*;
use ttmem::model::*;
use ttmem::query::{Request, memory_profile, summary};
use ttmem::read;
use ttmem::record::live::{CallRef, Options, Recorder, RecordingStatus};
use ttmem_testkit::sweep;

/// What an iteration does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A module of the model, or a part of the backward pass.
    Enter(u8),
    Exit,
    Allocate(u16),
    /// One of those that are there.
    Free(u8),
}

/// The acts of a forward pass, of the code after it, and of a backward pass.
#[derive(Clone, Debug)]
struct Iteration {
    forward: Vec<Act>,
    between: Vec<Act>,
    backward: Vec<Act>,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (0_u8..6).prop_map(Act::Enter),
        2 => Just(Act::Exit),
        4 => (1_u16..5000).prop_map(Act::Allocate),
        2 => any::<u8>().prop_map(Act::Free),
    ];
    proptest::collection::vec(act, 1..40)
}

fn iteration() -> impl Strategy<Value = Iteration> {
    (acts(), acts(), acts()).prop_map(|(forward, between, backward)| Iteration { forward, between, backward })
}

struct Program {
    recorder: Recorder,
    /// One per device. Allocations alternate between them.
    pools: Vec<PoolId>,
    lane: LaneId,
    rows: Vec<(HistoryRow, Option<u64>)>,
    there: Vec<(u64, u64)>,
    next: u64,
    /// The sum of those that are there, and its maximum.
    level: (u64, u64),
    number: u64,
    /// Whether modules and stacks are recorded.
    is_full: bool,
    /// The row before which the peak is reported, although it is read at the end.
    peak_before: Option<usize>,
}

impl Program {
    fn new(path: &Path) -> Self {
        Self::with_limit(path, None, 1)
    }

    fn with_limit(path: &Path, limit: Option<u64>, devices: usize) -> Self {
        let mut recorder = Recorder::recording_with(path, Options { limit, ..Options::default() }).unwrap();
        let pools = (0..devices).map(|device| recorder.pool(&format!("cuda:{device}"), true)).collect();
        let lane = recorder.lane("main");
        // The first operation is that of rows without one.
        let name = recorder.text("free");
        recorder.op(name, None, None);
        Self {
            recorder,
            pools,
            lane,
            rows: Vec::new(),
            there: Vec::new(),
            next: 0,
            level: (0, 0),
            number: 0,
            is_full: true,
            peak_before: None,
        }
    }

    fn enter(&mut self, name: &str, kind: ScopeKind, within: Option<CallRef>) -> CallRef {
        let outer = self.recorder.scope_of(within);
        let scope = self.recorder.scope(outer, name, kind);
        self.recorder.enter(scope, self.lane, within, None).unwrap()
    }

    fn exit(&mut self, call: CallRef) {
        self.recorder.exit(call);
        self.recorder.release(call);
    }

    /// An operation of the line that does the n-th act of an iteration.
    fn op(&mut self) -> OpId {
        if !self.is_full {
            let name = self.recorder.text("alloc");
            return self.recorder.op(name, None, None);
        }
        let (function, file) = (self.recorder.text("forward"), self.recorder.text("model.py"));
        let line = u32::try_from(self.number).unwrap();
        let frame = self.recorder.frame(Frame { function, file, line });
        let stack = self.recorder.stack(frame, None);
        let name = self.recorder.text("model.forward");
        self.recorder.op(name, Some(stack), None)
    }

    /// The acts inside a call, or outside all calls. Sizes grow by `more`.
    fn run(&mut self, acts: &[Act], outer: Option<(CallRef, ScopeKind)>, more: u64) {
        let mut open: Vec<CallRef> = Vec::new();
        for &act in acts {
            self.number += 1;
            let within = open.last().copied().or(outer.map(|(call, _)| call));
            match (act, outer) {
                (Act::Enter(module), Some((_, kind))) if self.is_full => {
                    open.push(self.enter(&format!("layers.{module}"), kind, within));
                }
                (Act::Exit, _) => {
                    if let Some(call) = open.pop() {
                        self.exit(call);
                    }
                }
                (Act::Allocate(bytes), _) => {
                    let (address, bytes) = (self.next * (1 << 20), u64::from(bytes) + more);
                    self.next += 1;
                    self.there.push((address, bytes));
                    self.row(HistoryAction::Allocated, address, bytes, within);
                }
                (Act::Free(which), _) if !self.there.is_empty() => {
                    let (address, bytes) = self.there.remove(usize::from(which) % self.there.len());
                    self.row(HistoryAction::Freed, address, bytes, within);
                }
                _ => {}
            }
        }
        while let Some(call) = open.pop() {
            self.exit(call);
        }
    }

    fn row(&mut self, action: HistoryAction, address: u64, bytes: u64, within: Option<CallRef>) {
        let (op, time) = (self.op(), self.recorder.now());
        let call = within.and_then(|call| self.recorder.call_number(call));
        let (block, during) = (Bytes::known(bytes), During::ByTime);
        let is_new = action == HistoryAction::Allocated;
        self.level.0 = if is_new { self.level.0 + bytes } else { self.level.0 - bytes };
        self.level.1 = self.level.1.max(self.level.0);
        let op = if is_new { op } else { OpId::new(0).unwrap() };
        let pool = self.pools[usize::try_from(address >> 20).unwrap() % self.pools.len()];
        let row = HistoryRow { pool, action, address, bytes, block, op, during, time };
        self.rows.push((row, call));
    }

    fn iteration(&mut self, iteration: &Iteration, more: u64) {
        self.number = 0;
        let model = self.enter("model", ScopeKind::Forward, None);
        self.run(&iteration.forward, Some((model, ScopeKind::Forward)), more);
        self.exit(model);
        self.run(&iteration.between, None, more);
        let backward = self.enter("backward", ScopeKind::Backward, None);
        self.run(&iteration.backward, Some((backward, ScopeKind::Backward)), more);
        self.exit(backward);
        // What an iteration leaves behind, the next one does not free: each begins with the same memory.
        for (address, bytes) in std::mem::take(&mut self.there) {
            self.row(HistoryAction::Freed, address, bytes, None);
        }
    }

    /// Labels the allocations of an iteration, as gradients of parameters.
    fn label(&mut self, from: usize) {
        let found: Vec<HistoryRow> = self.rows[from..].iter().map(|(row, _)| *row).collect();
        for row in found.iter().filter(|row| row.action == HistoryAction::Allocated && row.bytes % 3 == 0) {
            let name = Some(self.recorder.text(&format!("{}.grad", row.address >> 20)));
            let (ty, class, requires_grad) = (None, Class::Gradient, None);
            let HistoryRow { pool, address, bytes, time, .. } = *row;
            let label = Label { pool, address, bytes, time: time + 1, ty, class, name, requires_grad };
            self.recorder.label(label);
        }
    }

    /// Reports the rows so far, as the tracker does: one device after another.
    fn report(&mut self) {
        self.rows.sort_by_key(|(row, _)| row.pool);
        self.recorder.history_rows(std::mem::take(&mut self.rows));
    }

    fn finish(mut self, path: &Path) -> Profile {
        let peak_before = self.peak_before.map(|row| row % (self.rows.len() + 1));
        for (index, (row, call)) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            if peak_before == Some(index) {
                self.recorder.highest(self.pools[0], 1);
            }
            self.recorder.history(row, call);
        }
        self.recorder.finish().unwrap();
        read::open(path.to_str().unwrap()).unwrap()
    }
}

/// A program that repeats an iteration, of which only the first ones have details.
fn recorded(
    path: &Path,
    iteration: &Iteration,
    full: usize,
    grows: bool,
    peak_before: Option<usize>,
) -> Profile {
    let mut program = Program::new(path);
    program.peak_before = peak_before;
    for number in 0..6 {
        program.is_full = number < full;
        let more = if grows { number as u64 * 3000 } else { 0 };
        program.iteration(iteration, more);
    }
    program.finish(path)
}

/// For each tensor: its operation, with its line, and the part of the program that allocated it.
fn details(profile: &Profile) -> Vec<(String, Option<u32>, Option<String>, Class)> {
    details_where(profile, |_| true)
}

fn details_on(profile: &Profile, device: usize) -> Vec<(String, Option<u32>, Option<String>, Class)> {
    details_where(profile, |tensor| profile.ranks[0].tensors.pool[tensor.index()].index() == device)
}

fn details_where(
    profile: &Profile,
    is_wanted: impl Fn(&TensorId) -> bool,
) -> Vec<(String, Option<u32>, Option<String>, Class)> {
    let rank = &profile.ranks[0];
    let of = |tensor: TensorId| {
        let op = rank.made_by(tensor).unwrap();
        let line = profile.stacks.of_op(op).and_then(|stack| profile.stacks.lines(stack).next());
        let scope =
            rank.made_in(tensor).map(|scope| profile.text(rank.scopes.name[scope.index()]).to_owned());
        let name = profile.text(profile.ops.name(op).unwrap()).to_owned();
        (name, line.map(|line| line.line), scope, rank.tensors.class[tensor.index()])
    };
    (0..rank.tensors.len()).filter_map(TensorId::new).filter(is_wanted).map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(32, 1000), ..ProptestConfig::default() })]

    #[test]
    fn iterations_without_details_are_like_the_ones_before(
        iteration in iteration(),
        full in 1_usize..4,
        grows in any::<bool>(),
        peak_before in proptest::option::of(0_usize..1000),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let all = recorded(&folder.path().join("all.ttmem"), &iteration, 6, grows, None);
        let some = recorded(&folder.path().join("some.ttmem"), &iteration, full, grows, peak_before);
        prop_assert!(some.warnings.is_empty(), "{:?}", some.warnings);
        prop_assert_eq!(details(&all), details(&some));
        let (a, b) = (&all.ranks[0], &some.ranks[0]);
        prop_assert_eq!(&a.tensors.per_bank, &b.tensors.per_bank);
        prop_assert_eq!(&a.tensors.dies, &b.tensors.dies);
        prop_assert!(b.calls.began.is_sorted());
        for call in 0..b.calls.len() {
            // Calls are inside their parents.
            if let Some(parent) = b.calls.parent[call] {
                prop_assert!(parent.index() < call);
                prop_assert!(b.calls.began[parent.index()] <= b.calls.began[call]);
            }
        }
    }

    /// Whatever comes after a complete iteration, nothing is attributed to a module that is not part of it.
    #[test]
    fn another_iteration_is_not_given_details_that_it_does_not_have(one in iteration(), other in iteration()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.ttmem");
        let mut program = Program::new(&path);
        program.iteration(&one, 0);
        program.is_full = false;
        // No size occurs in the first iteration.
        program.iteration(&other, 7000);
        let in_acts = |acts: &[Act]| acts.iter().filter(|act| matches!(act, Act::Allocate(_))).count();
        let in_passes = |one: &Iteration| in_acts(&one.forward) + in_acts(&one.backward);
        let in_all = |one: &Iteration| in_passes(one) + in_acts(&one.between);
        let (first, second) = (in_all(&one), in_all(&other));
        let profile = program.finish(&path);
        if first > 0 && second > 0 && first != second {
            let wanted = usize::from(in_passes(&other) > 0);
            prop_assert_eq!(profile.warnings.len(), wanted, "{:?}", profile.warnings);
            let found = details(&profile);
            prop_assert!(found[first..].iter().all(|(_, line, ..)| line.is_none()), "{found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(6, 200), ..ProptestConfig::default() })]

    /// The complete iterations are in the first of several files.
    #[test]
    fn iterations_in_later_files_are_like_the_ones_in_the_first(
        iterations in proptest::collection::vec(iteration(), 1..3),
        delay in 0_usize..3,
        devices in 1_usize..3,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let recorded = |name: &str, limit: Option<u64>, full: usize| {
            let path = folder.path().join(name).join("live.ttmem");
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            let mut program = Program::with_limit(&path, limit, devices);
            for pool in program.pools.clone() {
                program.recorder.allocator_rules(pool, AllocatorRules::default());
            }
            let mut from = 0;
            for number in 0..600 * iterations.len() {
                program.is_full = number < full * iterations.len();
                program.iteration(&iterations[number % iterations.len()], 0);
                if program.is_full {
                    program.label(from);
                }
                // A thread reports the rows, up to some iterations later.
                if number % 3 == delay {
                    program.report();
                }
                from = program.rows.len();
            }
            program.report();
            program.recorder.flush();
            let status = program.recorder.status().unwrap();
            (program.finish(&path), status)
        };
        let (all_profile, _) = recorded("all", None, 600);
        let (some_profile, status) = recorded("some", Some(900_000), 3);
        let notes: Vec<&str> = some_profile.warnings.iter().map(|warning| warning.message.as_str()).collect();
        prop_assert_eq!(status.forgotten, 0, "{:?}", status);
        let in_acts = |acts: &[Act]| acts.iter().filter(|act| matches!(act, Act::Allocate(_))).count();
        let of = |one: &Iteration| in_acts(&one.forward) + in_acts(&one.between) + in_acts(&one.backward);
        let once = iterations.iter().map(of).sum::<usize>();
        for device in 0..devices {
            let (all, some) = (details_on(&all_profile, device), details_on(&some_profile, device));
            // Files change between two iterations, so that the first one is whole.
            prop_assert_eq!(&all[all.len() - some.len()..], &some, "device {}: {:?}", device, notes);
        }
        let times = |profile: &Profile| {
            let json = serde_json::to_value(memory_profile(profile, false).unwrap()).unwrap();
            ["model", "backward"].map(|name| json["operation_summary"][name]["invocation_count"].clone())
        };
        prop_assert_eq!(times(&all_profile), times(&some_profile));
        if once >= 20 {
            prop_assert!(status.rotations > 0, "{status:?}");
        }
    }
}

/// An iteration of many allocations in modules, all of which it frees.
fn of_many(modules: u8, each: usize) -> Iteration {
    let of_module = |module: u8| {
        let allocates = (0..each)
            .map(move |at| Act::Allocate(u16::from(module) * 7 + u16::try_from(at % 90).unwrap() + 1));
        [Act::Enter(module)].into_iter().chain(allocates).chain([Act::Exit])
    };
    let forward: Vec<Act> = (0..modules).flat_map(of_module).collect();
    Iteration {
        forward,
        between: vec![Act::Allocate(4000)],
        backward: vec![Act::Free(0), Act::Allocate(100)],
    }
}

/// Runs an iteration many times, with growing sizes, and reports some rows at once. With a limit, only the first three have
/// details.
fn repeated(
    path: &Path,
    limit: Option<u64>,
    iteration: &Iteration,
    sizes: &[u64],
) -> (Profile, RecordingStatus) {
    const ROWS: usize = 333;
    let mut program = Program::with_limit(path, limit, 1);
    program.recorder.allocator_rules(program.pools[0], AllocatorRules::default());
    program.recorder.readings_are_steps();
    let mut highest = 0;
    for (number, more) in sizes.iter().enumerate() {
        program.is_full = limit.is_none() || number < 3;
        program.iteration(iteration, *more);
        if program.level.1 > highest {
            highest = program.level.1;
            program.recorder.highest(program.pools[0], highest);
        }
        if number % 50 == 0 {
            let reading = Reading { allocated: Some(program.level.0), ..Reading::default() };
            program.recorder.reading(program.pools[0], reading);
        }
        while program.rows.len() >= ROWS {
            let rest = program.rows.split_off(ROWS);
            program.recorder.history_rows(std::mem::replace(&mut program.rows, rest));
        }
    }
    program.report();
    program.recorder.flush();
    let status = program.recorder.status().unwrap();
    (program.finish(path), status)
}

/// The tensors at the peak: operations, lines and modules.
fn at_peak(profile: &Profile) -> (serde_json::Value, Vec<serde_json::Value>) {
    let summary = summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    let found = serde_json::to_value(summary).unwrap();
    let peak = &found["ranks"][0]["peak"];
    assert_eq!((&peak["unexplained_per_bank"], &peak["residue"]), (&0.into(), &serde_json::json!([])));
    let row = |row: &serde_json::Value| {
        ["per_bank", "op", "loc", "made_in", "class"].iter().map(|key| row[key].clone()).collect()
    };
    (peak["allocated_per_bank"].clone(), peak["live"].as_array().unwrap().iter().map(row).collect())
}

#[test]
fn the_peak_of_an_earlier_file_has_details() {
    let folder = tempfile::tempdir().unwrap();
    // The highest iteration has no details, and a file of its own that begins with examples.
    let (iteration, mut sizes) = (of_many(5, 10), vec![0; 2000]);
    sizes[1000] = 50_000;
    let (all, _) = repeated(&folder.path().join("all.ttmem"), None, &iteration, &sizes);
    let path = folder.path().join("some.ttmem");
    let (some, status) = repeated(&path, Some(900_000), &iteration, &sizes);
    assert!(status.rotations > 3 && status.forgotten == 0, "{status:?}");
    assert!(path.with_extension("peak.ttmem").exists());
    let (level, live) = at_peak(&all);
    assert!(live.iter().any(|row| row[3] == "layers.4"), "{live:?}");
    // The newest file names it.
    let notes: Vec<&str> = some.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(
        notes.iter().any(|note| note.contains("cuda:0 peak") && note.contains("some.peak.ttmem")),
        "{notes:?}"
    );
    let of_peak = read::open(path.with_extension("peak.ttmem").to_str().unwrap()).unwrap();
    assert_eq!((level.clone(), live.clone()), at_peak(&of_peak));
    // They are also part of the newest file's profile.
    assert_eq!((level, live), at_peak(&some));
}

/// Such an iteration is too long to be taken along, and does not end before a file is full.
#[test]
fn an_iteration_in_two_files_has_no_wrong_details() {
    let folder = tempfile::tempdir().unwrap();
    let (iteration, sizes) = (of_many(5, 200), [0; 120]);
    let (all, _) = repeated(&folder.path().join("all.ttmem"), None, &iteration, &sizes);
    let (some, status) = repeated(&folder.path().join("some.ttmem"), Some(900_000), &iteration, &sizes);
    assert!(status.rotations > 2 && status.forgotten > 0, "{status:?}");
    let (all, some) = (details(&all), details(&some));
    for (wanted, found) in all[all.len() - some.len()..].iter().zip(&some) {
        assert!(found.1.is_none() || found == wanted, "{found:?} instead of {wanted:?}");
    }
}

#[test]
fn labels_are_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.ttmem");
    let iteration = Iteration {
        forward: vec![Act::Enter(1), Act::Allocate(300), Act::Exit, Act::Allocate(200)],
        between: vec![Act::Allocate(100)],
        backward: vec![Act::Enter(1), Act::Allocate(600), Act::Free(0)],
    };
    let mut program = Program::new(&path);
    program.iteration(&iteration, 0);
    program.label(0);
    program.is_full = false;
    program.iteration(&iteration, 0);
    let profile = program.finish(&path);
    let tensors = &profile.ranks[0].tensors;
    let named = |index: usize| tensors.name[index].map(|name| profile.text(name).to_owned());
    let labeled = (Class::Gradient, Some("0.grad".to_owned()));
    assert_eq!((tensors.class[0], named(0)), labeled);
    assert_eq!((tensors.class[4], named(4)), labeled);
    assert_eq!((tensors.class[7], named(7)), (Class::Gradient, Some("3.grad".to_owned())));
    assert_eq!((tensors.class[5], named(5)), (Class::Activation, None));
}
