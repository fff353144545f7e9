//! The tracker: its figures, its text and its refusals.

use std::thread;

use ttmem::model::{Change, DramUsage, L1Usage, Phase};
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};

const MIB: u64 = 1 << 20;

fn dram(peak: u64, allocations: u64, deallocations: u64) -> DramUsage {
    DramUsage { peak: peak.cast_signed(), total_allocations: allocations, total_deallocations: deallocations }
}

#[test]
fn a_phase_is_what_happened_since_the_one_before() {
    let tracker = MemoryUsageTracker::new();
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_alloc(1, 10 * MIB, Pool::Dram);
    tracker.snapshot("MODEL").unwrap();
    tracker.record_alloc(2, 4 * MIB, Pool::Dram);
    tracker.record_alloc(3, 2 * MIB, Pool::Trace);
    tracker.record_free(2);
    tracker.snapshot("FORWARD").unwrap();
    tracker.record_free(1);
    tracker.end_capture("END").unwrap();

    let all = tracker.get_dram_usage_all();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["MODEL", "FORWARD", "END"]);
    assert_eq!(tracker.get_trace_names(), names);
    assert_eq!(tracker.get_dram_usage("MODEL").unwrap(), dram(10 * MIB, 10 * MIB, 0));
    // Traces lie in DRAM.
    assert_eq!(tracker.get_dram_usage("FORWARD").unwrap(), dram(6 * MIB, 6 * MIB, 4 * MIB));
    assert_eq!(tracker.get_dram_usage("END").unwrap(), dram(0, 0, 10 * MIB));
    drop(guard);
    assert!(tracker.get_trace_names().is_empty(), "a guard clears");
}

#[test]
fn circular_buffers_and_small_buffers_are_of_a_core() {
    let tracker = MemoryUsageTracker::new();
    let _guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_circular_buffer(300, "{[(x=0,y=0) - (x=7,y=7)]}", false);
    tracker.record_circular_buffer(5000, "{[(x=0,y=0) - (x=7,y=7)]}", true);
    tracker.record_alloc(1, 100, Pool::L1);
    tracker.record_circular_buffers_gone();
    tracker.record_circular_buffers_gone();
    tracker.record_alloc(2, 250, Pool::L1Small);
    tracker.record_circular_buffer(20, "{[(x=0,y=0) - (x=0,y=0)]}", false);
    tracker.snapshot("A").unwrap();
    // What is left over from the phase before is no part of this one, as in graph captures.
    tracker.record_circular_buffers_gone();
    tracker.record_free(1);
    tracker.end_capture("B").unwrap();
    assert_eq!(
        tracker.get_l1_usage_all(),
        [
            ("A".to_owned(), L1Usage { peak_cb: 300, peak_buffer: 350, peak_total: 400 }),
            ("B".to_owned(), L1Usage::default()),
        ]
    );
    assert_eq!(tracker.get_l1_usage("A").unwrap().peak_cb, 300);
}

#[test]
fn what_is_odd_is_counted() {
    let tracker = MemoryUsageTracker::new();
    // Before the capture: nobody takes it down.
    tracker.record_alloc(1, 70, Pool::Dram);
    let _guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_free(1);
    tracker.record_free(99);
    tracker.record_alloc(5, 100, Pool::Dram);
    tracker.record_alloc(5, 30, Pool::Dram);
    tracker.end_capture("A").unwrap();
    tracker.record_alloc(6, 1000, Pool::Dram);
    assert_eq!((tracker.unknown_frees(), tracker.repeated_allocations()), (2, 1));
    assert_eq!(tracker.get_dram_usage("A").unwrap(), dram(100, 130, 100));
    tracker.clear();
    assert_eq!((tracker.unknown_frees(), tracker.repeated_allocations()), (0, 0));
}

#[test]
fn a_guard_ends_its_own_capture_and_no_other() {
    let tracker = MemoryUsageTracker::new();
    let first = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.end_capture("A").unwrap();
    let second = tracker.begin_capture(RunMode::Normal).unwrap();
    drop(first);
    assert!(tracker.is_capturing());
    second.release();
    assert!(tracker.is_capturing());
    tracker.end_capture("B").unwrap();
    assert_eq!(tracker.get_trace_names(), ["A", "B"], "captures follow each other until they are cleared");
    drop(tracker.begin_capture(RunMode::Normal).unwrap());
    assert!(!tracker.is_capturing() && tracker.get_trace_names().is_empty());
}

#[test]
fn what_is_known_of_an_allocation_outlasts_the_capture_until_it_is_cleared() {
    let tracker = MemoryUsageTracker::new();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    tracker.record_alloc(1, 100, Pool::Dram);
    tracker.end_capture("A").unwrap();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    tracker.record_free(1);
    tracker.end_capture("B").unwrap();
    assert_eq!(tracker.get_dram_usage("B").unwrap(), dram(0, 0, 100));
    tracker.clear();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    tracker.record_free(1);
    assert_eq!(tracker.unknown_frees(), 1);
}

#[test]
fn refusals_say_what_to_do() {
    let tracker = MemoryUsageTracker::new();
    let refused = |error: ttmem::record::tracker::TrackerError| error.to_string();
    assert_eq!(
        refused(tracker.snapshot("A").unwrap_err()),
        "snapshot outside a capture; call begin_capture first and keep its guard while capturing"
    );
    assert!(refused(tracker.end_capture("A").unwrap_err()).starts_with("end_capture outside a capture"));
    assert_eq!(
        refused(tracker.get_dram_usage("A").unwrap_err()),
        "no phase named \"A\"; no phase has been captured yet"
    );
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    assert_eq!(
        refused(tracker.begin_capture(RunMode::Normal).unwrap_err()),
        "a capture is already running; end it with end_capture(NAME) or drop its guard before beginning the next"
    );
    for name in ["A", "B", "A"] {
        tracker.snapshot(name).unwrap();
    }
    assert_eq!(refused(tracker.get_l1_usage("C").unwrap_err()), "no phase named \"C\"; the phases are A, B");
    assert_eq!(
        refused(tracker.get_l1_usage("A").unwrap_err()),
        "2 phases are named \"A\"; get_dram_usage_all() and get_l1_usage_all() return all of them, in order"
    );
    tracker.end_capture("D").unwrap();
    assert_eq!(
        refused(tracker.begin_capture(RunMode::NoDispatch).unwrap_err()),
        "the existing phases were captured in mode NORMAL, so mode NO_DISPATCH is not possible; call clear() first"
    );
    drop(guard);
    tracker.begin_capture(RunMode::NoDispatch).unwrap().release();
}

#[test]
fn the_text_is_that_of_the_tracker_of_tt_train() {
    let tracker = MemoryUsageTracker::new();
    let mut out = Vec::new();
    tracker.print_memory_usage(&mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "WARNING: No traces captured\n");
    let _guard = tracker.begin_capture(RunMode::Normal).unwrap();
    tracker.record_alloc(1, 5 * MIB / 2, Pool::Dram);
    tracker.record_circular_buffer(MIB / 8, "", false);
    tracker.snapshot("MODEL").unwrap();
    tracker.record_free(1);
    tracker.end_capture("END").unwrap();
    let expected = "\
=== Memory Usage Summary ===

--- MODEL ---
  DRAM: Segment Peak 2.50 MB, Allocations 2.50 MB, Deallocations 0.00 MB, Segment Change +2.50 MB
  DRAM: Cumulative Peak 2.50 MB, Cumulative Current 2.50 MB
  L1: Peak CB 0.12 MB, Peak Buffer 0.00 MB, Peak Total 0.12 MB
--- END ---
  DRAM: Segment Peak 0.00 MB, Allocations 0.00 MB, Deallocations 2.50 MB, Segment Change -2.50 MB
  DRAM: Cumulative Peak 2.50 MB, Cumulative Current 0.00 MB
  L1: Peak CB 0.00 MB, Peak Buffer 0.00 MB, Peak Total 0.00 MB

=== Final Totals ===
Overall DRAM Peak: 2.50 MB, Final DRAM Usage: 0.00 MB

";
    assert_eq!(tracker.memory_usage_text(), expected);
}

/// Changes that come to the figures of a phase.
fn changes_of(phase: &Phase) -> Vec<Change> {
    let peak = phase.segment_peak.unwrap().unsigned_abs();
    let (mut to_allocate, mut to_free) = (phase.allocations.unwrap(), phase.deallocations.unwrap());
    let mut level = 0;
    let mut changes = Vec::new();
    while to_allocate > 0 || to_free > 0 {
        let up = to_allocate.min(peak.saturating_sub(level));
        changes.push(Change::DramAllocated(up));
        (level, to_allocate) = (level + up, to_allocate - up);
        // What is freed beyond what is there was allocated before the phase.
        let down = if to_allocate > 0 { to_free.min(level) } else { to_free };
        changes.push(Change::DramFreed(down));
        (level, to_free) = (level.saturating_sub(down), to_free - down);
        assert!(up + down > 0, "the figures of {phase:?} contradict each other");
    }
    let (buffer, total) = (phase.l1_peak_buffer.unwrap(), phase.l1_peak_total.unwrap());
    changes.extend([
        Change::CircularBuffer(phase.l1_peak_cb.unwrap()),
        Change::ProgramBuffersGone,
        Change::L1Allocated(buffer),
        Change::ProgramBuffer(total - buffer),
        Change::ProgramBuffersGone,
        Change::L1Freed(buffer),
    ]);
    changes
}

#[test]
fn the_summaries_of_a_training_log_come_out_as_they_are_printed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_train/tinyllama.log");
    let text = std::fs::read_to_string(path).unwrap();
    let profile = read::open(path).unwrap();
    let rank = &profile.ranks[0];
    for session in 0..rank.sessions.len() {
        let tracker = MemoryUsageTracker::new();
        let _guard = tracker.begin_capture(RunMode::Normal).unwrap();
        for phase in rank.phases.iter().filter(|phase| phase.session.index() == session) {
            tracker.record_changes(changes_of(phase));
            tracker.snapshot(profile.text(phase.name)).unwrap();
        }
        let printed = tracker.memory_usage_text();
        let block = text.split_inclusive("=== Memory Usage Summary ===\n").nth(session + 1).unwrap();
        let (totals, _) = block.split_at(block.find("Overall").unwrap());
        let overall = block[totals.len()..].split_inclusive('\n').take(2).collect::<String>();
        assert_eq!(printed, format!("=== Memory Usage Summary ===\n{totals}{overall}"));
    }
    assert_eq!(rank.sessions.len(), 2);
}

#[test]
fn threads_share_a_tracker() {
    const THREADS: u64 = 4;
    const EACH: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.ttmem");
    let tracker = MemoryUsageTracker::recording_to(&path).unwrap();
    let guard = tracker.begin_capture(RunMode::Normal).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let tracker = tracker.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    tracker.record_alloc(thread << 32 | number, 64, Pool::Dram);
                    if number % 2 == 0 {
                        tracker.record_free(thread << 32 | number);
                    }
                }
            });
        }
    });
    tracker.end_capture("ALL").unwrap();
    let usage = tracker.get_dram_usage("ALL").unwrap();
    assert_eq!(usage.total_allocations, THREADS * EACH * 64);
    assert_eq!(usage.total_deallocations, THREADS * EACH * 32);
    guard.release();
    drop(tracker);
    let profile = read::open(path.to_str().unwrap()).unwrap();
    assert!(profile.complete && profile.warnings.is_empty(), "{:?}", profile.warnings);
    assert_eq!(profile.ranks[0].steps.len() as u64, THREADS * EACH * 3 / 2);
    // The recording was written in several batches; the peak is in one of them.
    let answer = summary(&[profile], &Request::default()).unwrap();
    let dram = answer.ranks[0].pools.get("DRAM").unwrap();
    assert_eq!(dram.peak_total, u64::try_from(usage.peak).ok());
    assert_eq!(dram.final_total, Some(usage.change()));
}
