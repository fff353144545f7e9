//! Simulates a server's day in minutes: hundreds of millions of allocations and frees on a manual clock, written to a
//! recording with a size limit. Memory use is the kernel's count. `make soak-tracker` runs it.
//!
//! `soak_recorder [EVENTS] [LIMIT]`, both as numbers.

#![allow(clippy::print_stdout, reason = "this is a command-line program")]

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::Instant;

use ttmem::model::{Class, Reading, ScopeKind};
use ttmem::record::live::{Allocation, Clock, Options, Place, Recorder, TypeOf};

const DAY: u64 = 24 * 3600 * 1_000_000_000;
/// The allocations per request. One of them outlives the request in the cache.
const EACH: u64 = 50;
/// The number of allocations in the cache.
const CACHE: usize = 20_000;

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Answer<()> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let events = words.next().transpose()?.unwrap_or(300_000_000);
    let limit = words.next().transpose()?.unwrap_or(64 << 20);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("day.ttmem");
    let (clock, hands) = Clock::manual();
    let mut recorder = Recorder::recording_with(&path, Options { limit: Some(limit), clock })?;
    let (pool, host, lane) =
        (recorder.pool("cuda:0", false), recorder.pool("host", true), recorder.lane("loop"));
    let server = recorder.scope(None, "server", ScopeKind::Operation);
    let root = recorder.enter(server, lane, None, None).ok_or("no call")?;
    let (name, dtype) = (recorder.text("aten::mm"), recorder.text("torch.bfloat16"));
    let op = recorder.op(name, None, None);
    let mut cache: VecDeque<Place> = VecDeque::with_capacity(CACHE + 1);
    let requests = events / (2 * EACH);
    let (start, mut peak_on_disk, mut rss) = (Instant::now(), 0, (0, 0));
    for request in 0..requests {
        let scope =
            recorder.scope(Some(server), &format!("request of kind {}", request % 20), ScopeKind::Operation);
        let call = recorder.enter(scope, lane, Some(root), None).ok_or("no call")?;
        let mut own = Vec::new();
        for number in 0..EACH {
            hands.advance(DAY / requests / EACH);
            let bytes = (1 + (request * 7 + number * 13) % 97) << 12;
            let ty = recorder.tensor_type(TypeOf { shape: &[bytes / 2], dtype, bytes });
            let (class, within) = (Class::Activation, Some(call));
            own.extend(recorder.allocated(Allocation { pool, bytes, op, ty, class, within }));
        }
        cache.extend(own.pop());
        for place in own {
            recorder.freed(place, Some(call));
        }
        if cache.len() > CACHE
            && let Some(oldest) = cache.pop_front()
        {
            recorder.freed(oldest, Some(call));
        }
        recorder.exit(call);
        recorder.release(call);
        if request % (requests / 17_280).max(1) == 0 {
            let resident = resident()?;
            recorder.reading(host, Reading { allocated: Some(resident), ..Reading::default() });
            recorder.snapshot(None);
            // The process may grow during the first tenth.
            let then = if request * 10 < requests { &mut rss.0 } else { &mut rss.1 };
            *then = resident.max(*then);
            peak_on_disk = peak_on_disk.max(on_disk(folder.path())?);
        }
    }
    let elapsed = start.elapsed();
    recorder.finish()?;
    let status = recorder.status().ok_or("no recording")?;
    println!("{events} events of 24 hours, recorded in {elapsed:.1?}, limit {limit} bytes");
    println!(
        "rotations {}, peak on disk {} measured, {} reported",
        status.rotations, peak_on_disk, status.peak_on_disk
    );
    println!("peak resident memory {} in the first tenth, {} after it", rss.0, rss.1);
    println!("{:?}", status.kept);
    if let Some(failure) = recorder.failure() {
        return Err(failure.into());
    }
    if peak_on_disk > limit || status.peak_on_disk > limit {
        return Err("the files exceeded the limit".into());
    }
    if rss.1 > rss.0 + (16 << 20) {
        return Err("the process grew after the first tenth".into());
    }
    Ok(())
}

fn on_disk(folder: &Path) -> Answer<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        // A file may have been deleted since it was listed.
        total += entry?.metadata().map_or(0, |data| data.len());
    }
    Ok(total)
}

/// The process's resident memory, as the kernel counts it.
fn resident() -> Answer<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
