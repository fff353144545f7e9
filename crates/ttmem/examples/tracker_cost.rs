//! Measures the tracker's overhead in nanoseconds per allocation or free, compared with a hash map in the same run.
//! `bench/tracker.sh` runs it.

#![allow(clippy::print_stdout, reason = "this is a command-line program")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};

/// The number of measured events; half of them are frees.
const EVENTS: u64 = 4_000_000;
/// The number of live allocations.
const LIVE: u64 = 10_000;
const THREADS: u64 = 4;
const ROUNDS: usize = 5;
/// The number of events between two pauses, such as a training iteration.
const BURST: u64 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let map = best(|| Ok(hash_map()))?;
    let report = |what: &str, each: f64| {
        println!("{what:<44} {each:>7.1} ns/event {:>6.2} x hash map", each / map);
    };
    report("std HashMap, insert or remove", map);
    let off = best(|| {
        let tracker = MemoryUsageTracker::new();
        Ok(time(|| churn(&tracker, 0)))
    })?;
    report("tracker, outside a capture", off);
    report("tracker, figures only", best(|| captured(&MemoryUsageTracker::new(), 1))?);
    let path = folder.path().join("cost.ttmem");
    report("tracker, recording to a file", best(|| bursts(&path))?);
    report("  the same, without a pause", best(|| recorded(&path, 1, false))?);
    report("  the same, until the file is complete", best(|| recorded(&path, 1, true))?);
    let size = std::fs::metadata(&path)?.len();
    report("tracker, figures only, 4 threads", best(|| captured(&MemoryUsageTracker::new(), THREADS))?);
    report("tracker, recording, 4 threads without a pause", best(|| recorded(&path, THREADS, false))?);
    #[allow(clippy::cast_precision_loss)]
    let each = size as f64 / EVENTS as f64;
    println!("a recording takes {each:.1} bytes per event");
    Ok(())
}

/// The best of several rounds, in nanoseconds per event: disturbances only make a round longer.
fn best(
    mut round: impl FnMut() -> Result<Duration, Box<dyn std::error::Error>>,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        #[allow(clippy::cast_precision_loss)]
        let each = round()?.as_nanos() as f64 / EVENTS as f64;
        best = best.min(each);
    }
    Ok(best)
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Ids that look like addresses, reused after twice the number of live allocations.
fn id(number: u64, thread: u64) -> u64 {
    ((number % (2 * LIVE)) << 11) | thread << 40
}

fn size(number: u64) -> u64 {
    (number % 61 + 1) << 11
}

fn hash_map() -> Duration {
    let mut map = HashMap::new();
    time(|| {
        for number in 0..EVENTS / 2 {
            map.insert(id(number, 0), size(number));
            if number >= LIVE {
                black_box(map.remove(&id(number - LIVE, 0)));
            }
        }
        black_box(&map);
    })
}

fn churn(tracker: &MemoryUsageTracker, thread: u64) {
    churn_some(tracker, thread, EVENTS / 2);
}

fn churn_some(tracker: &MemoryUsageTracker, thread: u64, pairs: u64) {
    for number in 0..pairs {
        tracker.record_alloc(id(number, thread), size(number), Pool::Dram);
        if number >= LIVE {
            tracker.record_free(id(number - LIVE, thread));
        }
    }
}

fn captured(tracker: &MemoryUsageTracker, threads: u64) -> Result<Duration, Box<dyn std::error::Error>> {
    let guard = tracker.begin_capture(RunMode::Normal)?;
    let took = time(|| {
        thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || churn_some(tracker, thread, EVENTS / 2 / threads));
            }
        });
    });
    drop(guard);
    Ok(took)
}

/// Measures only the calls. In the pauses between bursts, the queued events are written.
fn bursts(path: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let tracker = MemoryUsageTracker::recording_to(path)?;
    let guard = tracker.begin_capture(RunMode::Normal)?;
    let mut took = Duration::ZERO;
    for burst in 0..EVENTS / BURST {
        // Each burst has its own ids, so its remaining allocations stay live.
        took += time(|| churn_some(&tracker, burst, BURST / 2));
        tracker.snapshot("BURST")?;
    }
    drop(guard);
    tracker.finish()?;
    Ok(took)
}

fn recorded(path: &Path, threads: u64, whole: bool) -> Result<Duration, Box<dyn std::error::Error>> {
    let tracker = MemoryUsageTracker::recording_to(path)?;
    let start = Instant::now();
    let took = captured(&tracker, threads)?;
    tracker.finish()?;
    Ok(if whole { start.elapsed() } else { took })
}
