//! The watcher of a log that is being written, held against the reader: both must come to the same numbers, whatever
//! the log looks like, however it is cut into pieces, and wherever it ends.

use std::fs;
use std::path::{Path, PathBuf};

use ttmem::query::{Request, summary};
use ttmem::read::{self, Seen, SeenPool, Watch};
use ttmem_testkit::random::Random;
use ttmem_testkit::tt::{Chip, Level, MemoryLevel, Modules, Options, Scenario, make};

/// The step in which the log rounds.
const QUANTUM: u64 = 1049;

/// What the reader finds: the most operations of a rank, the highest peak, the largest capacity. `None` for a log
/// that it refuses.
fn read(log: &[u8]) -> Option<(u64, Option<(u64, u64)>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fs::write(&path, log).unwrap();
    let profile = read::open(path.to_str().unwrap()).ok()?;
    let answer = summary(&[profile], &Request::default()).unwrap();
    let operations = answer.ranks.iter().map(|rank| u64::from(rank.operations.total)).max().unwrap_or(0);
    let dram = answer.ranks.iter().filter_map(|rank| {
        let pool = rank.pools.get("DRAM")?;
        Some((pool.peak_per_bank?, pool.capacity_per_bank?))
    });
    Some((operations, dram.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)))))
}

/// What the watcher finds in a log that comes in pieces.
fn watch(log: &[u8], mut piece: impl FnMut() -> usize) -> Seen {
    let mut watch = Watch::default();
    let mut rest = log;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(piece().clamp(1, rest.len()));
        watch.feed(head);
        rest = tail;
    }
    watch.finish();
    watch.seen()
}

fn assert_same(log: &[u8], random: &mut Random, what: &str) -> bool {
    let Some((operations, dram)) = read(log) else { return false };
    let whole = watch(log, || usize::MAX);
    assert_eq!(whole.operations, operations, "operations of {what}");
    assert_eq!(whole.dram.map(|dram| dram.peak_per_bank), dram.map(|(peak, _)| peak), "peak of {what}");
    // An error tells the reader a bank's size to the byte; the states are rounded.
    if let (Some(seen), Some((_, capacity))) = (whole.dram, dram) {
        assert!(seen.capacity_per_bank.abs_diff(capacity) <= QUANTUM, "capacity of {what}");
    }
    let longest = random.pick(&[3, 100, 5000, 100_000]);
    let pieces = watch(log, || usize::try_from(random.between(1, longest)).unwrap());
    assert_eq!(pieces, whole, "pieces of up to {longest} of {what}");
    true
}

fn logs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
    logs.sort();
    logs
}

#[test]
fn the_logs_of_the_corpus_show_what_the_reader_finds() {
    let mut random = Random::new(1);
    let mut held = 0;
    for path in logs("").into_iter().chain(logs("malformed")) {
        let log = fs::read(&path).unwrap();
        held += usize::from(assert_same(&log, &mut random, &path.display().to_string()));
    }
    assert!(held >= 15, "only {held} logs were read");
}

/// A log of any kind, and what it was made by.
fn draw(random: &mut Random) -> (Vec<u8>, String) {
    let scenario = random.pick(&Scenario::KINDS);
    let options = Options {
        seed: random.draw(),
        chip: random.pick(&[Chip::Wormhole, Chip::BlackholeP150]),
        color: random.chance(70),
        noise: random.pick(&[0, 10, 40]),
        ranks: random.pick(&[0, 0, 1, 3]),
        split_streams: random.chance(50),
        prefix: random.pick(&["", "", "(EngineCore_DP0 pid=230) "]).to_owned(),
        level: random.pick(&[Level::Debug, Level::Debug, Level::Info]),
        memory: random.pick(&[MemoryLevel::Operation, MemoryLevel::Any, MemoryLevel::Program]),
        states_at_deallocations: random.chance(60),
        modules: random.pick(&[Modules::Full, Modules::None]),
        crlf: random.chance(20),
        ..Options::default()
    };
    let mut log = Vec::new();
    make(scenario, &options, &mut log).unwrap();
    (log, format!("{scenario:?} {options:?}"))
}

#[test]
fn any_log_shows_what_the_reader_finds() {
    let mut random = Random::new(2);
    for case in 0..60 {
        let (log, what) = draw(&mut random);
        assert!(
            assert_same(&log, &mut random, &format!("case {case}: {what}")),
            "case {case}: not read: {what}"
        );
    }
}

#[test]
fn a_log_that_ends_anywhere_shows_what_the_reader_finds() {
    let mut random = Random::new(3);
    let mut held = 0;
    for case in 0..30 {
        let (log, what) = draw(&mut random);
        for _ in 0..5 {
            let end = random.index(log.len());
            held +=
                usize::from(assert_same(&log[..end], &mut random, &format!("case {case}, to {end}: {what}")));
        }
    }
    assert!(held >= 100, "only {held} logs were read");
}

const DRAM: &str = "Always | INFO | Device DRAM memory state: MemoryView{numBanks: 12, totalBytesPerBank: 1024.000 \
                    MB, totalBytesAllocatedPerBank: 8.000 MB, totalBytesFreePerBank: 1016.000 MB, \
                    largestContiguousBytesFreePerBank: 1016.000 MB}\n";

#[test]
fn what_is_not_known_is_not_zero() {
    assert_eq!(watch(b"", || 1), Seen::default());
    let seen = watch(b"hello\n\x00\xff\x1b[", || 1);
    assert_eq!(seen, Seen { operations: 0, dram: None });
}

#[test]
fn a_peak_stays_when_memory_is_freed_and_the_highest_rank_counts() {
    let state = |rank: u32, mib: u32| {
        let line = DRAM.replace(" 8.000", &format!(" {mib}.000"));
        format!("[1,{rank}]<stdout>:{line}")
    };
    let log = [state(0, 100), state(1, 300), state(1, 20), state(0, 90)].concat();
    let mib = |count: u64| count << 20;
    let dram = SeenPool { current_per_bank: mib(90), peak_per_bank: mib(300), capacity_per_bank: mib(1024) };
    assert_eq!(watch(log.as_bytes(), || 7), Seen { operations: 0, dram: Some(dram) });
}

#[test]
fn a_line_without_end_is_passed_over_in_bounded_memory_and_the_next_is_read() {
    let mut watch = Watch::default();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..40 {
        watch.feed(&piece);
    }
    watch.feed(b"\n");
    watch.feed(DRAM.as_bytes());
    assert_eq!(watch.seen().dram.map(|dram| dram.peak_per_bank), Some(8 << 20));
}
