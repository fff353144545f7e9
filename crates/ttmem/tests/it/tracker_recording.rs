//! Recordings of the tracker: they say what it says, and survive what happens to files and programs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use ttmem::model::Profile;
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};

const POOLS: [Pool; 4] = [Pool::Dram, Pool::L1, Pool::L1Small, Pool::Trace];

#[derive(Clone, Copy, Debug)]
enum Call {
    Alloc(u64, u64, Pool),
    Free(u64),
    CircularBuffer(u64, bool),
    CircularBuffersGone,
    Snapshot,
}

fn call() -> impl Strategy<Value = Call> {
    let bytes = prop_oneof![0u64..5000, 0u64..(1 << 22), 0u64..(1 << 33)];
    prop_oneof![
        6 => (0u64..12, bytes.clone(), 0usize..4).prop_map(|(id, bytes, pool)| Call::Alloc(id, bytes, POOLS[pool])),
        // Some ids are never allocated.
        4 => (0u64..14).prop_map(Call::Free),
        1 => (bytes, any::<bool>()).prop_map(|(bytes, global)| Call::CircularBuffer(bytes, global)),
        1 => Just(Call::CircularBuffersGone),
        1 => Just(Call::Snapshot),
    ]
}

/// Does what the calls say; phases are called `P0`, `P1` …
fn perform(tracker: &MemoryUsageTracker, calls: &[Call], with_snapshots: bool) {
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    let mut phases = 0;
    for call in calls {
        match *call {
            Call::Alloc(id, bytes, pool) => tracker.record_alloc(id, bytes, pool),
            Call::Free(id) => tracker.record_free(id),
            Call::CircularBuffer(bytes, global) => {
                tracker.record_circular_buffer(bytes, "{[(x=0,y=0) - (x=7,y=7)]}", global);
            }
            Call::CircularBuffersGone => tracker.record_circular_buffers_gone(),
            Call::Snapshot if with_snapshots => {
                tracker.snapshot(&format!("P{phases}")).unwrap();
                phases += 1;
            }
            Call::Snapshot => {}
        }
    }
    tracker.end_capture(&format!("P{phases}")).unwrap();
    guard.release();
}

/// What must come out, counted in the plainest way.
#[derive(Default)]
struct Truth {
    live: HashMap<u64, (u64, Pool)>,
    now: [u64; 4],
    circular: u64,
    /// The highest of each pool, and the phase in which it was first reached.
    peak: [(u64, usize); 4],
    phase: usize,
    unknown_frees: u64,
    repeated: u64,
}

impl Truth {
    fn of(calls: &[Call]) -> Self {
        let mut truth = Self::default();
        for call in calls {
            truth.take(*call);
            for pool in 0..4 {
                if truth.now[pool] > truth.peak[pool].0 {
                    truth.peak[pool] = (truth.now[pool], truth.phase);
                }
            }
        }
        truth
    }

    fn take(&mut self, call: Call) {
        match call {
            Call::Alloc(id, bytes, pool) => {
                if let Some((bytes, pool)) = self.live.insert(id, (bytes, pool)) {
                    self.now[pool as usize] -= bytes;
                    self.repeated += 1;
                }
                self.now[pool as usize] += bytes;
            }
            Call::Free(id) => match self.live.remove(&id) {
                Some((bytes, pool)) => self.now[pool as usize] -= bytes,
                None => self.unknown_frees += 1,
            },
            Call::CircularBuffer(bytes, false) => {
                self.circular += bytes;
                self.now[Pool::L1 as usize] += bytes;
            }
            Call::CircularBuffer(_, true) => {}
            Call::CircularBuffersGone => {
                self.now[Pool::L1 as usize] -= std::mem::take(&mut self.circular);
            }
            Call::Snapshot => self.phase += 1,
        }
    }
}

fn answer(profile: &Profile) -> Value {
    let answer = summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    serde_json::to_value(answer).unwrap()["ranks"][0].clone()
}

fn recorded(calls: &[Call], path: &Path) -> MemoryUsageTracker {
    let tracker = MemoryUsageTracker::recording_to(path).unwrap();
    perform(&tracker, calls, true);
    tracker.finish().unwrap();
    tracker
}

/// The phases as the tracker itself says them, in the fields of the summary.
fn phases_of(tracker: &MemoryUsageTracker) -> Vec<Value> {
    let (mut peak, mut current) = (0, 0);
    let all = tracker.get_dram_usage_all().into_iter().zip(tracker.get_l1_usage_all());
    all.map(|((name, dram), (_, l1))| {
        // The three relations.
        let change = dram.total_allocations.cast_signed() - dram.total_deallocations.cast_signed();
        assert_eq!(dram.change(), change);
        peak = peak.max(current + dram.peak);
        current += change;
        json!({
            "name": name,
            "segment_peak_bytes": dram.peak,
            "allocations_bytes": dram.total_allocations,
            "deallocations_bytes": dram.total_deallocations,
            "change_bytes": change,
            "cumulative_peak_bytes": peak,
            "cumulative_current_bytes": current,
            "l1_peak_cb_bytes": l1.peak_cb,
            "l1_peak_buffer_bytes": l1.peak_buffer,
            "l1_peak_total_bytes": l1.peak_total,
        })
    })
    .collect()
}

const FIGURES: [&str; 9] = [
    "segment_peak_bytes",
    "allocations_bytes",
    "deallocations_bytes",
    "change_bytes",
    "cumulative_peak_bytes",
    "cumulative_current_bytes",
    "l1_peak_cb_bytes",
    "l1_peak_buffer_bytes",
    "l1_peak_total_bytes",
];

proptest! {
    #[test]
    fn cutting_into_phases_changes_no_total(calls in vec(call(), 0..120)) {
        let (cut, whole) = (MemoryUsageTracker::new(), MemoryUsageTracker::new());
        perform(&cut, &calls, true);
        perform(&whole, &calls, false);
        let phases = phases_of(&cut);
        let one = whole.get_dram_usage("P0").unwrap();
        let last = phases.last().unwrap();
        prop_assert_eq!(&last["cumulative_peak_bytes"], &json!(one.peak));
        prop_assert_eq!(&last["cumulative_current_bytes"], &json!(one.change()));
        let sum = |field: &str| phases.iter().map(|phase| phase[field].as_u64().unwrap()).sum::<u64>();
        prop_assert_eq!(sum("allocations_bytes"), one.total_allocations);
        prop_assert_eq!(sum("deallocations_bytes"), one.total_deallocations);
        let truth = Truth::of(&calls);
        let in_use = truth.now[Pool::Dram as usize] + truth.now[Pool::Trace as usize];
        prop_assert_eq!(one.change(), in_use.cast_signed());
        prop_assert_eq!((cut.unknown_frees(), cut.repeated_allocations()), (truth.unknown_frees, truth.repeated));
    }

    #[test]
    fn a_recording_says_what_the_tracker_says(calls in vec(call(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ttmem");
        let tracker = recorded(&calls, &path);
        let profile = read::open(path.to_str().unwrap()).unwrap();
        prop_assert!(profile.complete);
        let answer = answer(&profile);
        let (said, expected) = (answer["phases"].as_array().unwrap(), phases_of(&tracker));
        prop_assert_eq!(said.len(), expected.len());
        let mut step = 0;
        for (said, expected) in said.iter().zip(&expected) {
            prop_assert_eq!(&said["name"], &expected["name"]);
            for field in FIGURES {
                prop_assert_eq!(&said[field], &expected[field], "{}", field);
            }
            prop_assert_eq!(&said["first_step"], &json!(step));
            step = said["end_step"].as_u64().unwrap();
        }
        prop_assert_eq!(&answer["operations"]["total"], &json!(step));
        let last = expected.last().unwrap();
        prop_assert_eq!(&answer["sessions"][0]["peak_bytes"], &last["cumulative_peak_bytes"]);
        prop_assert_eq!(&answer["sessions"][0]["final_bytes"], &last["cumulative_current_bytes"]);

        let truth = Truth::of(&calls);
        for pool in POOLS {
            let (peak, phase) = truth.peak[pool as usize];
            let Some(found) = answer["pools"].get(pool.name()) else {
                prop_assert_eq!(peak, 0);
                continue;
            };
            prop_assert_eq!(&found["peak_per_bank"], &json!(peak), "{:?}", pool);
            prop_assert_eq!(&found["final_per_bank"], &json!(truth.now[pool as usize]), "{:?}", pool);
            let moment = &answer["peaks"][pool.name()];
            if peak > 0 {
                prop_assert_eq!(&moment["unexplained_per_bank"], &json!(0), "{:?}", pool);
                prop_assert_eq!(&moment["phase"], &json!(format!("P{phase}")));
            }
        }
        prop_assert_eq!(&answer["pools"]["DRAM"]["peak_total"], &json!(truth.peak[0].0));
        let warnings = usize::from(truth.unknown_frees > 0) + usize::from(truth.repeated > 0);
        prop_assert!(profile.warnings.len() >= warnings);
        prop_assert_eq!(profile.warnings.is_empty(), warnings == 0, "{:?}", profile.warnings);
    }

    #[test]
    fn sessions_of_a_recording_do_not_touch_each_other(sessions in vec(vec(call(), 0..60), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ttmem");
        let tracker = MemoryUsageTracker::recording_to(&path).unwrap();
        let mut expected = Vec::new();
        for calls in &sessions {
            perform(&tracker, calls, true);
            expected.push(phases_of(&tracker));
            tracker.clear();
        }
        drop(tracker);
        let profile = read::open(path.to_str().unwrap()).unwrap();
        prop_assert!(profile.complete);
        let rejected = profile.warnings.iter().any(|warning| warning.message.contains("to missing rows"));
        prop_assert!(!rejected, "{:?}", profile.warnings);
        let answer = answer(&profile);
        for (index, expected) in expected.iter().enumerate() {
            let said = answer["phases"].as_array().unwrap().iter().filter(|phase| phase["session"] == index);
            let said: Vec<&Value> = said.collect();
            prop_assert_eq!(said.len(), expected.len());
            for (said, expected) in said.iter().zip(expected) {
                prop_assert!(FIGURES.iter().all(|field| said[*field] == expected[*field]), "{said} {expected}");
            }
        }
        for pool in POOLS {
            let truths = || sessions.iter().map(|calls| Truth::of(calls));
            let peak = truths().map(|truth| truth.peak[pool as usize].0).max().unwrap_or(0);
            let last = truths().next_back().map_or(0, |truth| truth.now[pool as usize]);
            if let Some(found) = answer["pools"].get(pool.name()) {
                prop_assert_eq!(&found["peak_per_bank"], &json!(peak), "{:?}", pool);
                prop_assert_eq!(&found["final_per_bank"], &json!(last), "{:?}", pool);
            }
        }
    }

    #[test]
    fn the_text_is_read_back_within_its_rounding(calls in vec(call(), 0..60)) {
        let tracker = MemoryUsageTracker::new();
        perform(&tracker, &calls, true);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.log");
        std::fs::write(&path, tracker.memory_usage_text()).unwrap();
        let profile = read::open(path.to_str().unwrap()).unwrap();
        prop_assert_eq!(&profile.warnings, &[]);
        let answer = answer(&profile);
        let (said, expected) = (answer["phases"].as_array().unwrap(), phases_of(&tracker));
        prop_assert_eq!(said.len(), expected.len());
        for (said, expected) in said.iter().zip(&expected) {
            prop_assert_eq!(&said["name"], &expected["name"]);
            for field in FIGURES {
                let (said, expected) = (said[field].as_i64().unwrap(), expected[field].as_i64().unwrap());
                prop_assert!(said.abs_diff(expected) <= (2 << 20) / 100, "{field}: {said} {expected}");
            }
        }
    }
}

/// A recording with everything in it that a recording may have.
fn example(path: &Path) -> Vec<u8> {
    let calls = [
        Call::Alloc(1, 5000, Pool::Dram),
        Call::CircularBuffer(300, false),
        Call::Snapshot,
        Call::Alloc(2, 700, Pool::L1),
        Call::Alloc(1, 4000, Pool::Dram),
        Call::CircularBuffersGone,
        Call::Snapshot,
        Call::Free(2),
        Call::Free(77),
    ];
    recorded(&calls, path);
    std::fs::read(path).unwrap()
}

/// Reads what may be corrupt; the summary may be refused, too, but with a reason.
fn read_corrupt(path: &Path, bytes: &[u8]) -> Option<Profile> {
    std::fs::write(path, bytes).unwrap();
    let profile = read::open(path.to_str().unwrap()).ok()?;
    let _ = summary(std::slice::from_ref(&profile), &Request::default()).map(|answer| answer.ranks.len());
    Some(profile)
}

#[test]
fn a_recording_cut_anywhere_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.ttmem");
    let whole = example(&path);
    let mut most = 0;
    for length in 1..whole.len() {
        let Some(profile) = read_corrupt(&path, &whole[..length]) else { continue };
        assert!(!profile.complete && !profile.warnings.is_empty(), "cut at {length}");
        let phases = profile.ranks.first().map_or(0, |rank| rank.phases.len());
        assert!(phases >= most, "cut at {length}: {phases} phases, and {most} were there before");
        most = phases;
    }
    assert_eq!(most, 3, "every phase was flushed by itself");
}

#[test]
fn a_recording_with_any_byte_changed_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.ttmem");
    let whole = example(&path);
    let warnings = read_corrupt(&path, &whole).unwrap().warnings.len();
    for at in 0..whole.len() {
        for bit in [0, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            if let Some(profile) = read_corrupt(&path, &bytes) {
                let said_so = !profile.complete && !profile.warnings.is_empty();
                assert!(said_so || profile.warnings.len() > warnings, "byte {at}, bit {bit}");
            }
        }
    }
}

const CHILD: &str = "TTMEM_TEST_RECORDING";

/// Runs in a process of its own, which is killed: see below.
#[test]
fn records_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let tracker = MemoryUsageTracker::recording_to(path).unwrap();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    tracker.record_alloc(1, 1000, Pool::Dram);
    tracker.snapshot("FIRST").unwrap();
    tracker.record_alloc(2, 500, Pool::Dram);
    tracker.record_free(1);
    writeln!(std::io::stdout(), "\nready").unwrap();
    loop {
        thread::park();
    }
}

#[test]
fn what_a_killed_program_recorded_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.ttmem");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tracker_recording::records_until_it_is_killed", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    let read = || read::open(path.to_str().unwrap()).unwrap();
    // A phase is there when `snapshot` has returned; what came after it, soon.
    assert_eq!(read().ranks[0].phases.len(), 1);
    let patience = Instant::now();
    while read().ranks[0].steps.len() < 3 && patience.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let profile = read();
    assert!(!profile.complete);
    assert!(profile.warnings[0].message.contains("was killed or is still running"), "{:?}", profile.warnings);
    let answer = answer(&profile);
    assert_eq!(answer["operations"]["total"], 3);
    assert_eq!(answer["pools"]["DRAM"]["peak_total"], 1500);
    assert_eq!(answer["pools"]["DRAM"]["final_total"], 500);
    assert_eq!(answer["phases"][0]["name"], "FIRST");
    assert_eq!(answer["sessions"][0]["finished"], false);
}

#[test]
fn a_second_session_begins_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.ttmem");
    let tracker = MemoryUsageTracker::recording_to(&path).unwrap();
    for (mode, bytes) in [(RunMode::NoDispatch, 900), (RunMode::Normal, 400)] {
        let _guard = tracker.begin_capture(mode).unwrap();
        tracker.record_alloc(1, bytes, Pool::Dram);
        tracker.record_circular_buffer(10, "", false);
        tracker.end_capture("ONLY").unwrap();
    }
    tracker.finish().unwrap();
    let answer = answer(&read::open(path.to_str().unwrap()).unwrap());
    assert_eq!(answer["sessions"][0]["estimated"], true);
    assert_eq!(answer["sessions"][1]["estimated"], false);
    assert_eq!(answer["sessions"][1]["peak_bytes"], 400);
    assert_eq!(answer["pools"]["DRAM"]["peak_total"], 900);
    assert_eq!(answer["pools"]["DRAM"]["final_total"], 400);
    assert_eq!(answer["pools"]["L1"]["final_per_bank"], 10);
    assert_eq!(answer["pools"]["DRAM"]["banks"], 1);
    assert_eq!(answer["pools"]["L1"]["banks"], Value::Null);
    assert_eq!(answer["peak"]["unexplained_per_bank"], 0);
}

#[test]
fn other_devices_have_pools_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("devices.ttmem");
    let tracker = MemoryUsageTracker::recording_to(&path).unwrap();
    for (device, bytes) in [("cuda:0", 900), ("cpu", 400), ("cuda:0", 1000)] {
        let _guard = tracker.begin_capture_on(RunMode::Normal, device).unwrap();
        tracker.record_alloc(1, bytes, Pool::Dram);
        tracker.end_capture("ONLY").unwrap();
    }
    tracker.finish().unwrap();
    let answer = answer(&read::open(path.to_str().unwrap()).unwrap());
    assert_eq!(answer["pools"].as_object().unwrap().len(), 2);
    for (pool, peak, at_end) in [("cuda:0", 1000, 1000), ("cpu", 400, 0)] {
        assert_eq!(answer["pools"][pool]["peak_total"], peak);
        assert_eq!(answer["pools"][pool]["final_total"], at_end);
        assert_eq!(answer["pools"][pool]["extent"], "device");
    }
    assert_eq!(answer["sessions"][1]["name"], "cpu");
    assert_eq!(answer["phases"][0]["segment_peak_bytes"], 900);
    assert_eq!(answer["phases"][0]["l1_peak_total_bytes"], Value::Null);
}

#[test]
fn a_session_that_is_cleared_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cleared.ttmem");
    let tracker = MemoryUsageTracker::recording_to(&path).unwrap();
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_alloc(1, 900, Pool::Dram);
    tracker.snapshot("A").unwrap();
    tracker.clear();
    // A guard has nothing more to end.
    drop(guard);
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_alloc(1, 100, Pool::Dram);
    // A guard ends the last phase, where nobody else does.
    drop(guard);
    drop(tracker);
    let answer = answer(&read::open(path.to_str().unwrap()).unwrap());
    assert_eq!(answer["sessions"][0]["finished"], false);
    assert_eq!(answer["sessions"][1]["finished"], true);
    assert_eq!(answer["phases"][1]["name"], "END_TRACE");
    assert_eq!(answer["pools"]["DRAM"]["final_total"], 100);
}

#[test]
fn a_recording_replaces_only_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ttmem");
    example(&path);
    example(&path);
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "mine").unwrap();
    let refused = MemoryUsageTracker::recording_to(&notes).unwrap_err().to_string();
    assert!(refused.contains("the file exists and is not a recording; choose another name"), "{refused}");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
    let nowhere = MemoryUsageTracker::recording_to(folder.path().join("no/where.ttmem")).unwrap_err();
    assert!(nowhere.to_string().contains("cannot write"), "{nowhere}");
    assert!(MemoryUsageTracker::recording_to(folder.path()).is_err());
}

const FULL: &str = "TTMEM_TEST_FULL_DISK";

/// Runs in a process of its own, which may write no large files: see below.
#[test]
fn records_until_the_disk_is_full() {
    const EVENTS: u64 = 50_000;
    let Some(path) = std::env::var_os(FULL) else { return };
    let tracker = MemoryUsageTracker::recording_to(path).unwrap();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    for id in 0..EVENTS {
        tracker.record_alloc(id, id % 977, Pool::Dram);
    }
    tracker.snapshot("A").unwrap();
    tracker.record_alloc(EVENTS, 1, Pool::Dram);
    tracker.end_capture("B").unwrap();
    let expected: u64 = (0..EVENTS).map(|id| id % 977).sum();
    assert_eq!(tracker.get_dram_usage("A").unwrap().total_allocations, expected);
    let failed = tracker.finish().unwrap_err().to_string();
    assert!(failed.contains("cannot write"), "{failed}");
    writeln!(std::io::stdout(), "\nsaid so").unwrap();
}

#[test]
fn a_recording_that_cannot_be_written_does_not_disturb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.ttmem");
    // A file that would be larger is refused, as by a disk that is full.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact tracker_recording::records_until_the_disk_is_full --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("said so"), "{said}");
    // What was written before is there.
    let profile = read::open(path.to_str().unwrap()).unwrap();
    assert!(!profile.complete && !profile.ranks.is_empty());
}
