//! A tracker that is told of every buffer, one that is given a graph capture of each phase, and one capture of it all, read
//! as a file: they say the same.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use ttmem::query::{Request, summary};
use ttmem::read::{self, graph_changes};
use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};
use ttmem_testkit::graph::{Buffer, Capture, Memory, Options};
use ttmem_testkit::sweep;

#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate(Memory, u64),
    /// One of those that are there, by chance.
    Free(usize),
    CircularBuffer(u64, bool),
    ProgramsGone,
    Snapshot,
}

fn act() -> impl Strategy<Value = Act> {
    let memory = prop_oneof![
        6 => Just(Memory::Dram),
        3 => Just(Memory::L1),
        1 => Just(Memory::L1Small),
        1 => Just(Memory::Trace),
    ];
    prop_oneof![
        6 => (memory, 1..(1_u64 << 24)).prop_map(|(memory, size)| Act::Allocate(memory, size)),
        4 => any::<usize>().prop_map(Act::Free),
        2 => (1..(1_u64 << 20), any::<bool>()).prop_map(|(size, global)| Act::CircularBuffer(size, global)),
        1 => Just(Act::ProgramsGone),
        1 => Just(Act::Snapshot),
    ]
}

/// What the capture of one phase is told, and what is still there at its end.
struct Phase {
    capture: Capture<Vec<u8>>,
    /// How many of the buffers that are there were made in it.
    own: Vec<u64>,
}

impl Phase {
    fn begin() -> Self {
        Self { capture: Capture::begin(Vec::new(), Options::PLAIN).unwrap(), own: Vec::new() }
    }
}

fn pool(memory: Memory) -> Pool {
    match memory {
        Memory::Dram => Pool::Dram,
        Memory::L1 => Pool::L1,
        Memory::L1Small => Pool::L1Small,
        Memory::Trace => Pool::Trace,
    }
}

/// The bytes that a tracker wants to know: of the device in DRAM, of a core in L1.
fn bytes(buffer: &Buffer) -> u64 {
    match buffer.memory() {
        Memory::Dram | Memory::Trace => buffer.size(),
        Memory::L1 | Memory::L1Small => buffer.per_bank(),
    }
}

/// Does everything three times: call by call, phase by phase, and in one capture.
fn perform(acts: &[Act]) -> (MemoryUsageTracker, MemoryUsageTracker, Vec<u8>) {
    let (told, fed) = (MemoryUsageTracker::new(), MemoryUsageTracker::new());
    let guards = [&told, &fed].map(|tracker| tracker.begin_capture(RunMode::Normal).unwrap());
    let mut whole = Capture::begin(Vec::new(), Options::PLAIN).unwrap();
    let mut phase = Phase::begin();
    // The id, the buffer in the capture of its phase, and in the capture of it all.
    let mut there: Vec<(u64, Buffer, Buffer)> = Vec::new();
    let mut phases = 0;
    for (id, act) in (0_u64..).zip(acts) {
        match *act {
            Act::Allocate(memory, size) => {
                let (own, of_all) =
                    (phase.capture.allocate(memory, size).unwrap(), whole.allocate(memory, size).unwrap());
                told.record_alloc(id, bytes(&own), pool(memory));
                phase.own.push(id);
                there.push((id, own, of_all));
            }
            Act::Free(which) if !there.is_empty() => {
                let (id, own, of_all) = there.swap_remove(which % there.len());
                told.record_free(id);
                whole.free(&of_all).unwrap();
                if phase.own.contains(&id) {
                    phase.capture.free(&own).unwrap();
                } else {
                    phase.capture.free_from_before(own.memory(), own.size()).unwrap();
                }
            }
            Act::Free(_) => {}
            Act::CircularBuffer(size, global) => {
                told.record_circular_buffer(size, "{}", global);
                phase.capture.circular_buffer(size, "{}", global).unwrap();
                whole.circular_buffer(size, "{}", global).unwrap();
            }
            Act::ProgramsGone => {
                told.record_circular_buffers_gone();
                phase.capture.programs_gone().unwrap();
                whole.programs_gone().unwrap();
            }
            Act::Snapshot => {
                let done = std::mem::replace(&mut phase, Phase::begin());
                fed.record_graph(|| graph_changes(done.capture.finish_into().unwrap().as_slice())).unwrap();
                for tracker in [&told, &fed] {
                    tracker.snapshot(&format!("P{phases}")).unwrap();
                }
                phases += 1;
            }
        }
    }
    fed.record_graph(|| graph_changes(phase.capture.finish_into().unwrap().as_slice())).unwrap();
    for (tracker, guard) in [&told, &fed].into_iter().zip(guards) {
        tracker.end_capture("END").unwrap();
        guard.release();
    }
    (told, fed, whole.finish_into().unwrap())
}

fn read_whole(bytes: &[u8]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.json");
    std::fs::write(&path, bytes).unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap()["ranks"][0].take()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(48, 1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tracker_its_captures_and_one_capture_agree(acts in vec(act(), 0..80)) {
        let (told, fed, whole) = perform(&acts);
        prop_assert_eq!(told.get_usage_all(), fed.get_usage_all());
        prop_assert_eq!(told.memory_usage_text(), fed.memory_usage_text());

        let phases = told.get_dram_usage_all();
        let (mut peak, mut current) = (0, 0);
        for (_, phase) in &phases {
            peak = peak.max(current + phase.peak);
            current += phase.change();
        }
        let answer = read_whole(&whole);
        prop_assert_eq!(&answer["pools"]["DRAM"]["peak_total"], &json!(peak));
        prop_assert_eq!(&answer["pools"]["DRAM"]["final_total"], &json!(current));
        let sum = |part: fn(&ttmem::model::DramUsage) -> u64| phases.iter().map(|(_, phase)| part(phase)).sum::<u64>();
        let phase = &answer["phases"][0];
        prop_assert_eq!(&phase["allocations_bytes"], &json!(sum(|usage| usage.total_allocations)));
        prop_assert_eq!(&phase["deallocations_bytes"], &json!(sum(|usage| usage.total_deallocations)));
    }
}

#[test]
fn a_capture_that_cannot_be_read_is_an_error_and_changes_nothing() {
    let tracker = MemoryUsageTracker::new();
    // Outside of a capture nothing is looked at.
    tracker.record_graph(|| graph_changes(b"nonsense".as_slice())).unwrap();
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    let mut capture = Capture::begin(Vec::new(), Options::PLAIN).unwrap();
    capture.allocate(Memory::Dram, 4096).unwrap();
    let whole = capture.finish_into().unwrap();
    let cut = &whole[..whole.len() - 20];
    let out_of_order = String::from_utf8(whole.clone()).unwrap().replace("\"counter\":3", "\"counter\":7");
    for json in [b"nonsense".as_slice(), b"{\"a\": 1}", b"[]", b"[1, 2]", cut, out_of_order.as_bytes()] {
        let error = tracker.record_graph(|| graph_changes(json)).unwrap_err().to_string();
        assert!(error.contains("the graph was not recorded"), "{error}");
    }
    tracker.record_graph(|| graph_changes(whole.as_slice())).unwrap();
    tracker.end_capture("ALL").unwrap();
    guard.release();
    assert_eq!(tracker.get_dram_usage("ALL").unwrap().peak, 4096);
}

/// Captures of ttnn 0.81.1, in which the first and the last node have null for parameters.
#[test]
fn real_captures_are_recorded() {
    for name in ["sample-n150-report.json", "sample-n150-no-dispatch.json", "sample-p150.json"] {
        let path = format!("{}/../../corpus/ttnn_graph/{name}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).unwrap();
        let tracker = MemoryUsageTracker::new();
        let guard = tracker.begin_capture(RunMode::Normal).unwrap();
        tracker.record_graph(|| graph_changes(bytes.as_slice())).unwrap();
        tracker.end_capture("ALL").unwrap();
        guard.release();
        let (dram, l1) = (tracker.get_dram_usage("ALL").unwrap(), tracker.get_l1_usage("ALL").unwrap());
        assert_eq!(
            (dram.peak, dram.total_allocations, dram.total_deallocations),
            (65_536, 65_536, 0),
            "{name}"
        );
        assert_eq!(l1.peak_buffer, 4816, "{name}");
    }
}
