//! Measures the live recorder's overhead in nanoseconds per allocation or free, compared with a hash map in the same
//! run. `bench/tracker.sh` runs it.

#![allow(clippy::print_stdout, reason = "this is a command-line program")]

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ttmem::model::{Class, ScopeKind};
use ttmem::record::live::{Allocation, Place, Recorder};

/// The number of measured events; half of them are frees.
const EVENTS: u64 = 2_000_000;
/// The number of live allocations.
const LIVE: usize = 1_000;
const ROUNDS: usize = 7;
/// The number of events between two pauses.
const BURST: u64 = 4_000;

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Answer<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cost.ttmem");
    let map = best(|| Ok(hash_map()))?;
    let report = |what: &str, each: f64| {
        println!("{what:<44} {each:>7.1} ns/event {:>6.2} x hash map", each / map);
    };
    report("std HashMap, insert or remove", map);
    report("recorder, figures only", best(|| Ok(churn(&mut Recorder::new(), EVENTS, false)))?);
    report("recorder, to a file, in bursts", best(|| bursts(&path))?);
    report("  the same, without a pause", best(|| written(&path))?);
    let size = std::fs::metadata(&path)?.len();
    #[allow(clippy::cast_precision_loss)]
    let each = size as f64 / EVENTS as f64;
    println!("a recording takes {each:.1} bytes per event");
    Ok(())
}

/// The best of several rounds, in nanoseconds per event: disturbances only make a round longer.
fn best(mut round: impl FnMut() -> Answer<Duration>) -> Answer<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        #[allow(clippy::cast_precision_loss)]
        let each = round()?.as_nanos() as f64 / EVENTS as f64;
        best = best.min(each);
    }
    Ok(best)
}

fn hash_map() -> Duration {
    let mut map = HashMap::new();
    let start = Instant::now();
    for number in 0..EVENTS / 2 {
        map.insert(number << 6, number);
        if number >= LIVE as u64 {
            black_box(map.remove(&((number - LIVE as u64) << 6)));
        }
    }
    black_box(&map);
    start.elapsed()
}

/// Allocates and frees inside calls, and measures only that. With pauses, the recorder writes its queue in them.
fn churn(recorder: &mut Recorder, events: u64, has_pauses: bool) -> Duration {
    let (pool, lane) = (recorder.pool("cpu", false), recorder.lane("MainThread"));
    let name = recorder.text("aten::empty");
    let op = recorder.op(name, None, None);
    let scope = recorder.scope(None, "request", ScopeKind::Operation);
    let mut alive: VecDeque<Place> = VecDeque::with_capacity(LIVE);
    let (mut took, mut written) = (Duration::ZERO, 0);
    while written < events {
        let call = recorder.enter(scope, lane, None, None);
        let start = Instant::now();
        for number in 0..BURST / 2 {
            let (bytes, class) = ((number % 61 + 1) << 11, Class::Unknown);
            let allocation = Allocation { pool, bytes, op, ty: None, class, within: call };
            alive.extend(recorder.allocated(allocation));
            if alive.len() > LIVE
                && let Some(place) = alive.pop_front()
            {
                recorder.freed(place, call);
            }
        }
        took += start.elapsed();
        written += BURST;
        if let Some(call) = call {
            recorder.exit(call);
            recorder.release(call);
        }
        if has_pauses {
            recorder.flush();
        }
    }
    took
}

fn bursts(path: &Path) -> Answer<Duration> {
    let mut recorder = Recorder::recording_to(path)?;
    let took = churn(&mut recorder, EVENTS, true);
    recorder.finish()?;
    Ok(took)
}

fn written(path: &Path) -> Answer<Duration> {
    let mut recorder = Recorder::recording_to(path)?;
    let took = churn(&mut recorder, EVENTS, false);
    recorder.finish()?;
    Ok(took)
}
