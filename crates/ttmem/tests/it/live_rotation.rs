//! A recording with a limit: its files stay within it, and what they add up to is what happened.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use ttmem::analyze::peak::peak;
use ttmem::analyze::{Account, Span};
use ttmem::model::{
    Builder, Class, CurveKind, Frame, Holder, LaneId, Moment, Nanoseconds, OpTotals, PoolId, Profile, Rank,
    Reading, ScopeKind, TensorId,
};
use ttmem::query::{Request, memory_profile, summary};
use ttmem::read;
use ttmem::record::frame;
use ttmem::record::live::{
    Allocation, CallRef, Clock, FailedAllocation, ManualClock, Options, Place, Recorder, TypeOf,
};
use ttmem_testkit::sweep;

const POOLS: [&str; 2] = ["cpu", "cuda:0"];
const CLASSES: [Class; 3] = [Class::Parameter, Class::Activation, Class::KvCache];

/// What a program does, on one of two threads.
#[derive(Clone, Debug)]
enum Act {
    Enter(usize, u8),
    Exit(usize),
    Allocate(usize, usize, u64),
    Free(usize, usize),
    Classify(usize, usize),
    Snapshot(bool),
    Read(u64),
    Profiled(u64),
    Flush,
}

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..2_usize, 0..4_u8).prop_map(|(thread, name)| Act::Enter(thread, name)),
        4 => (0..2_usize).prop_map(Act::Exit),
        12 => (0..2_usize, 0..2_usize, 1..9000_u64).prop_map(|(thread, pool, bytes)| Act::Allocate(thread, pool, bytes)),
        11 => (0..2_usize, 0..9_usize).prop_map(|(thread, which)| Act::Free(thread, which)),
        2 => (0..9_usize, 0..3_usize).prop_map(|(which, class)| Act::Classify(which, class)),
        1 => any::<bool>().prop_map(Act::Snapshot),
        1 => (1..1000_u64).prop_map(Act::Read),
        1 => (1..1000_u64).prop_map(Act::Profiled),
        1 => Just(Act::Flush),
    ];
    vec(act, 0..most)
}

/// A program that tells a recorder what it does. A microsecond passes between two things, so each has a time of its own.
struct Program {
    recorder: Recorder,
    clock: ManualClock,
    pools: Vec<PoolId>,
    lanes: [LaneId; 2],
    stacks: [Vec<CallRef>; 2],
    alive: Vec<Place>,
}

impl Program {
    fn new(path: &Path, limit: Option<u64>) -> Self {
        let (clock, manual_clock) = Clock::manual();
        let mut recorder = Recorder::recording_with(path, Options { limit, clock }).unwrap();
        let pools = POOLS.map(|name| recorder.pool(name, false)).to_vec();
        let lanes = [recorder.lane("MainThread"), recorder.lane("Thread-1")];
        Self { recorder, clock: manual_clock, pools, lanes, stacks: Default::default(), alive: Vec::new() }
    }

    fn act(&mut self, act: &Act) {
        self.clock.advance(1_000);
        let recorder = &mut self.recorder;
        match *act {
            Act::Enter(thread, name) => {
                let parent = self.stacks[thread].last().copied();
                let outer = recorder.scope_of(parent);
                let scope = recorder.scope(outer, &format!("op{name}"), ScopeKind::Operation);
                self.stacks[thread].extend(recorder.enter(scope, self.lanes[thread], parent, None));
            }
            Act::Exit(thread) => {
                let Some(call) = self.stacks[thread].pop() else { return };
                if thread == 1 {
                    recorder.several_outputs(call);
                }
                recorder.exit(call);
                recorder.release(call);
            }
            Act::Allocate(thread, pool, bytes) => {
                let (name, file) = (recorder.text("aten::empty"), recorder.text("serve.py"));
                let line = u32::try_from(bytes % 50).unwrap();
                let frame = recorder.frame(Frame { function: name, file, line });
                let stack = recorder.stack(frame, None);
                let op = recorder.op(name, Some(stack), None);
                let dtype = recorder.text("torch.float32");
                let ty = recorder.tensor_type(TypeOf { shape: &[bytes % 30], dtype, bytes });
                let within = self.stacks[thread].last().copied();
                let (pool, class) = (self.pools[pool], Class::Unknown);
                self.alive.extend(recorder.allocated(Allocation { pool, bytes, op, ty, class, within }));
            }
            Act::Free(thread, which) if !self.alive.is_empty() => {
                let place = self.alive.swap_remove(which % self.alive.len());
                recorder.freed(place, self.stacks[thread].last().copied());
            }
            Act::Classify(which, class) if !self.alive.is_empty() => {
                let name = recorder.text(&format!("layer{which}.weight"));
                let place = self.alive[which % self.alive.len()];
                recorder.classify(place, CLASSES[class], Some(name));
                recorder.requires_grad(place, class == 0);
                let chain = recorder.text(&format!("list `kept{which}` → `[*]`"));
                recorder.held_by(place, Holder { chain, time: recorder.now() });
            }
            Act::Snapshot(is_named) => recorder.snapshot(is_named.then_some("look")),
            Act::Read(bytes) => {
                let host = recorder.pool("host", true);
                recorder.reading(host, Reading { allocated: Some(bytes << 20), ..Reading::default() });
                // Who reads does so for a snapshot.
                recorder.snapshot(None);
            }
            Act::Profiled(count) => {
                let name = recorder.text("aten::linear");
                let (cpu_time, cpu_bytes) = (count * 7, 1);
                let (device_time, device_bytes, shapes) = (None, None, None);
                let totals = OpTotals { name, count, cpu_time, device_time, cpu_bytes, device_bytes, shapes };
                recorder.op_totals(totals);
            }
            Act::Flush => recorder.flush(),
            Act::Free(..) | Act::Classify(..) => {}
        }
    }
}

fn profile(path: &Path) -> Profile {
    let mut builder = Builder::new();
    frame::read(&mut fs::read(path).unwrap().as_slice(), "a recording", &mut builder).unwrap();
    builder.finish()
}

fn beside(path: &Path, what: &str) -> PathBuf {
    path.with_extension(format!("{what}.ttmem"))
}

fn on_disk(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// An allocation, without the numbers of its rows.
type Row = (
    String,
    u64,
    Option<Nanoseconds>,
    Class,
    Option<String>,
    Option<Vec<u64>>,
    Option<String>,
    Option<bool>,
    Option<String>,
    Option<(String, Nanoseconds)>,
);

/// What is there at a moment, row by row; those that stand for others are left out.
fn alive(profile: &Profile, at: Moment) -> Vec<Row> {
    let rank = &profile.ranks[0];
    let tensors = &rank.tensors;
    let row = |index: usize| {
        let id = TensorId::new(index).unwrap();
        let step = tensors.step[index].unwrap().get();
        let call = rank.within.get(step).flatten().and_then(|call| rank.calls.get(call.index()));
        let scope = call.map(|call| rank.scopes.get(call.scope.index()).unwrap());
        let lines = rank.op_id(step).and_then(|op| profile.stacks.of_op(op));
        let lines =
            lines.map(|stack| profile.stacks.lines(stack).map(|frame| u64::from(frame.line)).collect());
        (
            profile.text(rank.pools[tensors.pool[index].index()].name).to_owned(),
            tensors.per_bank[index].or_zero(),
            rank.time_of(tensors.born[index]),
            tensors.class[index],
            tensors.name[index].map(|name| profile.text(name).to_owned()),
            lines,
            profile.made(rank, id).op.map(str::to_owned),
            rank.requires_grad.get(&id).copied(),
            scope.map(|scope| profile.text(scope.name).to_owned()),
            rank.holders.get(&id).map(|holder| (profile.text(holder.chain).to_owned(), holder.time)),
        )
    };
    let is_one = |index: &usize| !rank.stands_for.contains_key(&TensorId::new(*index).unwrap());
    let pools = (0..rank.pools.len()).filter_map(PoolId::new);
    let mut rows: Vec<Row> = pools.flat_map(|pool| rank.live(pool, at)).filter(is_one).map(row).collect();
    rows.sort();
    rows
}

/// The highest level of each pool, and when that was.
fn peaks(rank: &Rank) -> Vec<Option<(u64, Option<Nanoseconds>)>> {
    let pools = (0..rank.pools.len()).map(|pool| PoolId::new(pool).unwrap());
    let pools = pools.map(|pool| Account::new(rank, pool).unwrap());
    pools.map(|account| peak(&account, Span::whole(rank)).map(|p| (p.per_bank, rank.time_of(p.at)))).collect()
}

/// The level of a pool at every time at which it changes: what its tensors add up to.
fn levels(rank: &Rank, pool: PoolId) -> BTreeMap<Nanoseconds, u64> {
    let mut changes: Vec<(Moment, i64)> = Vec::new();
    for index in (0..rank.tensors.len()).filter(|index| rank.tensors.pool[*index] == pool) {
        let bytes = i64::try_from(rank.tensors.per_bank[index].or_zero()).unwrap();
        changes.push((rank.tensors.born[index], bytes));
        changes.push((rank.tensors.dies[index], -bytes));
    }
    changes.retain(|(at, _)| *at != Moment::NEVER);
    changes.sort_unstable();
    let mut level = 0;
    let mut levels = BTreeMap::new();
    for (at, by) in changes {
        level += by;
        levels.insert(rank.time_of(at).unwrap(), u64::try_from(level).unwrap_or(0));
    }
    levels
}

fn level_at(levels: &BTreeMap<Nanoseconds, u64>, time: Nanoseconds) -> u64 {
    levels.range(..=time).next_back().map_or(0, |(_, level)| *level)
}

/// What the JSON says that must not depend on the limit.
fn json_totals(profile: &Profile) -> Value {
    let json = serde_json::to_value(memory_profile(profile, false).unwrap()).unwrap();
    let parts = ["operation_summary", "operation_tree", "pytorch_operations", "device_totals"];
    parts
        .iter()
        .map(|part| ((*part).to_owned(), json[*part].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The snapshots of the JSON, by time: totals and counts.
fn json_snapshots(profile: &Profile) -> BTreeMap<u64, Value> {
    let json = serde_json::to_value(memory_profile(profile, false).unwrap()).unwrap();
    let row = |row: &Value| {
        let devices = row["device_breakdown"].as_object().unwrap();
        let devices: Vec<Value> = devices
            .iter()
            .filter(|(_, device)| device["count"] != 0)
            .map(|(name, device)| serde_json::json!([name, device["total_bytes"], device["count"]]))
            .collect();
        let kept =
            ["checkpoint_name", "total_bytes", "tensor_count", "host_bytes"].map(|key| row[key].clone());
        (row["time_ns"].as_u64().unwrap(), serde_json::json!([kept, devices]))
    };
    json["snapshots"].as_array().unwrap().iter().map(row).collect()
}

/// Tells the same to a recorder with a limit and to one without, and holds one file against the other.
fn compare(acts: &[Act], limit: u64) -> Result<u64, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let (whole, small) = (folder.path().join("whole"), folder.path().join("small"));
    fs::create_dir(&whole).unwrap();
    fs::create_dir(&small).unwrap();
    let (whole, path) = (whole.join("live.ttmem"), small.join("live.ttmem"));
    let mut programs = [Program::new(&whole, None), Program::new(&path, Some(limit))];
    for program in &mut programs {
        for act in acts {
            program.act(act);
        }
    }
    let [unlimited, limited] = &mut programs;
    let figures: Vec<_> =
        limited.recorder.pools().map(|(name, figures)| (name.to_owned(), figures)).collect();
    let same: Vec<_> = unlimited.recorder.pools().map(|(name, figures)| (name.to_owned(), figures)).collect();
    prop_assert_eq!(&figures, &same);
    unlimited.recorder.finish().unwrap();
    limited.recorder.finish().unwrap();
    prop_assert_eq!(limited.recorder.failure(), None);
    let status = limited.recorder.status().unwrap();

    let whole_path = whole.clone();
    let (whole, last) = (profile(&whole), profile(&path));
    let notes: Vec<&str> = last.warnings.iter().map(|warning| warning.message.as_str()).collect();
    prop_assert!(last.complete, "{notes:?}");
    let is_thinned = status.rotations > 0;
    let said = notes.iter().filter(|note| note.contains("has reached its limit")).count();
    prop_assert_eq!(said, usize::from(is_thinned), "{:?}", notes);
    prop_assert!(!notes.iter().any(|note| note.contains("to missing rows")), "{notes:?}");
    let is_larger = notes.iter().any(|note| note.contains("the recording exceeds its limit"));
    if !is_larger {
        prop_assert!(status.peak_on_disk <= limit, "{status:?}");
        prop_assert!(on_disk(&small) <= limit);
    }

    let (a, b) = (&whole.ranks[0], &last.ranks[0]);
    prop_assert_eq!(json_totals(&last), json_totals(&whole));
    prop_assert_eq!(peaks(b), peaks(a));
    let (end_a, end_b) = (Moment::early(a.end()), Moment::early(b.end()));
    let (found, truth) = (alive(&last, end_b), alive(&whole, end_a));
    let other = found.iter().zip(&truth).find(|(found, truth)| found != truth);
    prop_assert!(other.is_none() && found.len() == truth.len(), "{other:?}");
    for pool in (0..POOLS.len()).filter_map(PoolId::new) {
        let truth = levels(a, pool);
        // At every moment that is kept, rows and readings are what they were.
        for (time, level) in levels(b, pool) {
            prop_assert_eq!(level, level_at(&truth, time), "pool {:?} at {}", pool, time);
        }
        let readings = b.pools[pool.index()].curve(CurveKind::Allocated).unwrap();
        for (at, level) in readings.changes() {
            let time = b.time_of(at).unwrap();
            prop_assert_eq!(level, level_at(&truth, time), "reading of {:?} at {}", pool, time);
        }
    }
    let truth = json_snapshots(&whole);
    let kept = json_snapshots(&last);
    prop_assert!(kept.len() == truth.len() || truth.len() > 1000);
    for (time, row) in kept {
        prop_assert_eq!(Some(&row), truth.get(&time), "the snapshot at {}", time);
    }
    let open = |rank: &Rank| {
        let mut open: Vec<_> = rank
            .calls
            .iter()
            .filter(|call| call.outcome.is_none())
            .map(|call| (call.began, call.scope))
            .collect();
        open.sort_unstable();
        open
    };
    prop_assert_eq!(open(b), open(a));
    prop_assert_eq!(&b.several_outputs, &a.several_outputs);
    if beside(&path, "peak").exists() {
        compare_peak(&whole, &profile(&beside(&path, "peak")), b)?;
    }
    prop_assert_eq!(at_the_peak(&path), at_the_peak(&whole_path));
    Ok(status.rotations)
}

fn answered(path: &Path) -> Value {
    let profile = read::open(path.to_str().unwrap()).unwrap();
    serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap()
}

/// What the answer says of the pool that was highest, at its peak: the level, what is explained, and who held it.
fn at_the_peak(path: &Path) -> (Value, Value, Vec<String>) {
    let answer = answered(path);
    let peaks = answer["ranks"][0]["peaks"].as_object().unwrap();
    let of_tensors = POOLS.iter().filter_map(|pool| peaks.get(*pool));
    let level = |peak: &Value| peak["allocated_per_bank"].as_u64();
    let most = of_tensors.reduce(|most, next| if level(next) > level(most) { next } else { most }).unwrap();
    // What a tensor was found to be later is not in the file with the peak.
    let row = |row: &Value| {
        ["per_bank", "op", "loc", "made_in", "shape", "dtype"].map(|key| row[key].to_string()).join(" ")
    };
    let mut rows: Vec<String> = most["live"].as_array().into_iter().flatten().map(row).collect();
    rows.sort();
    (most["allocated_per_bank"].clone(), most["explained_per_bank"].clone(), rows)
}

/// The file with the peak has everybody who held memory then, unless the peak is in the newest.
fn compare_peak(whole: &Profile, kept: &Profile, last: &Rank) -> Result<(), TestCaseError> {
    let (a, b) = (&whole.ranks[0], &kept.ranks[0]);
    let highest = |rank: &Rank| {
        let peaks = peaks(rank).into_iter().take(POOLS.len()).flatten();
        peaks.reduce(|peak, next| if next.0 > peak.0 { next } else { peak }).unwrap()
    };
    let (bytes, time) = highest(a);
    if time.unwrap() >= last.thinned.unwrap().since {
        return Ok(());
    }
    prop_assert_eq!(highest(b), (bytes, time));
    let moment =
        |rank: &Rank| (1..=rank.end()).map(Moment::early).find(|at| rank.time_of(*at) == time).unwrap();
    // What was learned of them later is not in that file.
    let bare = |rows: Vec<Row>| {
        rows.into_iter().map(|row| (row.0, row.1, row.2, row.5, row.6, row.8)).collect::<Vec<_>>()
    };
    let (mut held, mut truth) = (bare(alive(kept, moment(b))), bare(alive(whole, moment(a))));
    held.sort();
    truth.sort();
    prop_assert_eq!(held, truth);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sweep::cases(16, 1000)))]

    #[test]
    fn totals_do_not_depend_on_the_limit(acts in acts(2000), limit in 9_000..50_000_u64) {
        compare(&acts, limit)?;
    }
}

/// A busy program, not chosen by chance: it must rotate often, or the property above says nothing.
#[test]
fn a_busy_program_rotates_often() {
    let mut acts = vec![Act::Enter(0, 0), Act::Enter(1, 1)];
    for number in 0..30_000_u64 {
        let which = usize::try_from(number % 7).unwrap();
        acts.push(Act::Allocate(which % 2, which % 2, 1 + number * 37 % 5000));
        acts.push(Act::Classify(which, which % 3));
        if number % 5 == 0 {
            acts.extend([Act::Enter(0, 2), Act::Allocate(0, 0, 77), Act::Exit(0), Act::Read(number % 90)]);
        }
        if number % 400 == 0 {
            acts.push(Act::Snapshot(number % 800 == 0));
        }
        if number > 40 {
            acts.push(Act::Free(1, which));
        }
        if number % 6 == 0 {
            acts.push(Act::Free(0, 3));
        }
    }
    assert!(compare(&acts, 90_000).unwrap() > 5);
}

/// A day of a server: requests that are numbered, a cache, snapshots every five seconds, checkpoints every hour. Disk and
/// memory stay within their limits all the time, and the sums are those of the whole day.
#[test]
fn a_day_fits_into_a_limit() {
    const REQUESTS: u64 = 48_000;
    const LIMIT: u64 = 900_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.ttmem");
    let mut program = Program::new(&path, Some(LIMIT));
    let server = program.recorder.scope(None, "server", ScopeKind::Operation);
    let root = program.recorder.enter(server, program.lanes[0], None, None).unwrap();
    let (mut allocated, mut allocations, mut rotations) = (0, 0, 0);
    for request in 0..REQUESTS {
        program.clock.advance(24 * 3600 * 1_000_000_000 / REQUESTS);
        program.stacks[0] = vec![root];
        program.act(&Act::Enter(0, u8::try_from(request % 4).unwrap()));
        for number in 0..6 {
            let bytes =
                1 + (request * 31 + number * 17) % 400 * 10 + if request == 9_999 { 90_000 } else { 0 };
            program.act(&Act::Allocate(0, 1, bytes));
            (allocated, allocations) = (allocated + bytes, allocations + 1);
        }
        while program.alive.len() > 100 {
            program.act(&Act::Free(0, 0));
        }
        program.act(&Act::Exit(0));
        if request % 10 == 0 {
            program.act(&Act::Read(1 + request % 50));
        }
        if request % (REQUESTS / 24) == 0 {
            program.recorder.snapshot(Some(&format!("hour {}", request / (REQUESTS / 24))));
        }
        if request % 50 == 0 {
            program.recorder.flush();
            let status = program.recorder.status().unwrap();
            assert!(on_disk(folder.path()) <= LIMIT && status.peak_on_disk <= LIMIT, "{status:?}");
            let kept = status.kept;
            assert!(kept.allocations <= 110 && kept.calls <= 210, "{status:?}");
            assert!(kept.points <= 3 * 512 && kept.snapshots <= 1024, "{status:?}");
            assert!(kept.name_bytes < 20_000 && status.carried < LIMIT / 6, "{status:?}");
            rotations = status.rotations;
        }
    }
    assert!(rotations > 10, "{rotations}");
    program.recorder.exit(root);
    program.recorder.finish().unwrap();

    let last = profile(&path);
    let rank = &last.ranks[0];
    let totals = &json_totals(&last)["device_totals"]["cuda:0"];
    assert_eq!(
        (&totals["allocations"], &totals["allocated_bytes"]),
        (&allocations.into(), &allocated.into())
    );
    assert_eq!(totals["frees"], allocations - 100);
    let summary = &json_totals(&last)["operation_summary"];
    assert_eq!(summary["server"]["invocation_count"], 1);
    assert_eq!(summary["op1"]["invocation_count"], REQUESTS / 4);
    // Every hour is still there by its name, and the highest use by who held it.
    let named = rank.snapshots.iter().filter_map(|snapshot| snapshot.name.map(|name| last.text(name)));
    assert_eq!(named.filter(|name| name.starts_with("hour ")).count(), 24);
    let (highest, time) = peaks(rank)[1].unwrap();
    assert!(highest > 540_000 && time.unwrap() < rank.thinned.unwrap().since);
    let at_peak = profile(&beside(&path, "peak"));
    assert_eq!(peaks(&at_peak.ranks[0])[1], Some((highest, time)));
}

/// Rounds that each leave something behind, with temporaries in them; one of them takes much more for a while.
fn growing(path: &Path, limit: Option<u64>, rounds: u64) -> u64 {
    let mut program = Program::new(path, limit);
    for round in 0..rounds {
        program.act(&Act::Enter(0, 0));
        let temporaries = if round == rounds / 3 { 4_000 } else { 400 };
        for number in 0..temporaries {
            let bytes = if number == 20 { 100_000 } else { 5_000 + number };
            program.act(&Act::Allocate(0, 0, bytes));
            if number == 20 {
                let made = program.alive.pop().unwrap();
                program.alive.insert(0, made);
            }
        }
        // All but one of each round are gone.
        while program.alive.len() as u64 > round + 1 {
            let last = program.alive.len() - 1;
            program.act(&Act::Free(0, last));
        }
        program.act(&Act::Exit(0));
    }
    program.recorder.finish().unwrap();
    program.recorder.status().map_or(0, |status| status.rotations)
}

fn growth(answer: &Value) -> Vec<Value> {
    let suggestions = answer["ranks"][0]["suggestions"].as_array().unwrap();
    let grows = suggestions.iter().filter(|suggestion| suggestion["rule"] == "grows");
    grows.map(|suggestion| suggestion["message"].clone()).collect()
}

/// What grows from round to round is found with a limit as without, and so is who held memory at the peak.
#[test]
fn growth_and_the_peak_do_not_depend_on_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, small) = (folder.path().join("whole.ttmem"), folder.path().join("small.ttmem"));
    growing(&whole, None, 120);
    assert!(growing(&small, Some(400_000), 120) > 2);
    let (a, b) = (answered(&whole), answered(&small));
    assert_eq!(growth(&a).len(), 1, "{}", a["ranks"][0]["suggestions"]);
    assert_eq!(growth(&b), growth(&a));
    assert_eq!(at_the_peak(&small), at_the_peak(&whole));
    let told_apart = |answer: &Value| !answer.to_string().contains("(freed earlier)");
    assert!(told_apart(&a) && told_apart(&b));
    // A profile that is made of both has it, too, wherever it is read.
    let profile = read::open(small.to_str().unwrap()).unwrap();
    let away = folder.path().join("away");
    fs::create_dir(&away).unwrap();
    let copy = away.join("copy.ttmem");
    let mut writer = frame::Writer::create(fs::File::create(&copy).unwrap(), &copy).unwrap();
    profile.replay(&mut writer).unwrap();
    writer.finish().unwrap();
    assert_eq!(at_the_peak(&copy), at_the_peak(&whole));
}

/// A file with the peak that is missing, of another recording or cut off is reported, and not used.
#[test]
fn a_file_with_the_peak_that_is_not_right_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (small, other) = (folder.path().join("small.ttmem"), folder.path().join("other.ttmem"));
    growing(&small, Some(400_000), 120);
    growing(&other, Some(400_000), 120);
    let right = fs::read(beside(&small, "peak")).unwrap();
    let said = |words: &str| {
        let profile = read::open(small.to_str().unwrap()).unwrap();
        let warnings: Vec<_> = profile.warnings.iter().map(|warning| warning.message.clone()).collect();
        let reported =
            warnings.iter().filter(|message| message.starts_with("cannot use small.peak.ttmem (")).count();
        assert!(reported == 1 && warnings.iter().any(|message| message.contains(words)), "{warnings:?}");
        assert!(answered(&small).to_string().contains("(freed earlier)"));
    };
    fs::copy(beside(&other, "peak"), beside(&small, "peak")).unwrap();
    said("another recording");
    fs::write(beside(&small, "peak"), &right[..right.len() / 8]).unwrap();
    said("truncated");
    fs::write(beside(&small, "peak"), b"something else").unwrap();
    said("cannot use small.peak.ttmem");
    fs::remove_file(beside(&small, "peak")).unwrap();
    said("not found");
    fs::write(beside(&small, "peak"), &right).unwrap();
    assert!(!answered(&small).to_string().contains("(freed earlier)"));
}

/// What went wrong is in the newest file, however many followed.
#[test]
fn failures_do_not_depend_on_the_limit() {
    let faults = |limit: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.ttmem");
        let mut program = Program::new(&path, limit);
        for number in 0..6000 {
            program.act(&Act::Allocate(0, 0, 1 + number % 70));
            program.act(&Act::Free(0, 0));
            if number % 1500 == 700 {
                program.act(&Act::Allocate(0, 0, 100));
                let name = program.recorder.text("aten::zeros");
                let op = Some(program.recorder.op(name, None, None));
                let (bytes, free, within) = (Some(number << 40), Some(9), None);
                let message = "can't allocate memory";
                let failed = FailedAllocation { pool: "cpu", bytes, free, op, within, message };
                program.recorder.allocation_failed(failed);
            }
        }
        program.recorder.last_failure_ended_program();
        program.recorder.ended_by("ValueError: x (train.py:3 in main)");
        program.recorder.finish().unwrap();
        let rotations = program.recorder.status().unwrap().rotations;
        let mut answer = answered(&path)["ranks"][0].take();
        // Steps have other numbers.
        for fault in answer["faults"].as_array_mut().unwrap() {
            assert_eq!(fault["step"].take().is_null(), fault["kind"] == "exception");
        }
        assert!(answer["oom"]["step"].take().is_number());
        assert!(answer["oom"]["detail"].take().is_string());
        assert_eq!(answer["ended_by"], "The program ended with ValueError: x (train.py:3 in main)");
        (rotations, answer["faults"].take(), answer["oom"].take())
    };
    let ((rotations, limited, oom), (_, whole, whole_oom)) = (faults(Some(40_000)), faults(None));
    assert!(rotations > 2);
    assert_eq!((&limited, &oom), (&whole, &whole_oom));
    assert_eq!(limited.as_array().unwrap().len(), 5);
    assert_eq!((&oom["op"], &oom["requested_total"]), (&"aten::zeros".into(), &(5200_u64 << 40).into()));
    assert!(oom["allocated_per_bank"].as_u64() >= Some(100) && oom["cause"] == "capacity", "{oom}");
}

/// A recording that cannot go on says so at once, while the program runs on with the right figures.
#[test]
fn a_recording_that_fails_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    let mut program = Program::new(&path, Some(20_000));
    // Where the next file goes there is something that cannot be replaced.
    fs::create_dir(beside(&path, "next")).unwrap();
    for number in 0..4000 {
        program.act(&Act::Allocate(0, 0, 1 + number % 70));
    }
    program.recorder.flush();
    let failure = program.recorder.failure().unwrap().to_owned();
    assert!(failure.starts_with("the recording stopped: cannot write"), "{failure}");
    program.act(&Act::Allocate(0, 0, 5));
    assert_eq!(program.recorder.pools().next().unwrap().1.allocations, 4001);
    assert!(program.recorder.finish().is_err());
    assert!(!profile(&path).ranks[0].tensors.is_empty());
}
