//! Training logs: summaries made from any sequence of allocations and frees, in every form that they are printed in.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ttmem::model::{Phase, Profile, Rank, Session, Totals};
use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};
use ttmem::{Error, Result, query, read};
use ttmem_testkit::random::Random;

const MIB: u64 = 1 << 20;
/// What a printed figure may differ from the true one, and two that follow from each other.
const ROUNDED: u64 = 10_486;

fn opened(log: &[u8]) -> Result<Profile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    fs::write(&path, log).unwrap();
    read::open(path.to_str().unwrap())
}

fn corpus(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_train").join(name))
        .unwrap()
}

fn warnings(profile: &Profile) -> Vec<(Option<u64>, &str)> {
    profile.warnings.iter().map(|warning| (warning.line, warning.message.as_str())).collect()
}

fn phases<'a>(profile: &'a Profile, rank: &'a Rank, session: usize) -> Vec<(&'a str, &'a Phase)> {
    let of_session = rank.phases.iter().filter(move |phase| phase.session.index() == session);
    of_session.map(|phase| (profile.text(phase.name), phase)).collect()
}

// ---------------------------------------------------------------------------------------------- made summaries

/// What a tracker knows of a phase, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truth {
    segment_peak: i64,
    allocations: u64,
    deallocations: u64,
    cumulative_peak: i64,
    cumulative_current: i64,
    l1: [u64; 3],
}

/// Any sequence of allocations and frees, cut into phases.
fn tracked(random: &mut Random, phases: usize) -> Vec<Truth> {
    let (mut current, mut peak) = (0i64, 0i64);
    let mut held: Vec<u64> = Vec::new();
    let mut all = Vec::new();
    for _ in 0..phases {
        let start = current;
        let mut truth = Truth::default();
        for _ in 0..random.between(0, 40) {
            if random.chance(60) || held.is_empty() {
                let bytes = random.between(1, 800 * MIB);
                held.push(bytes);
                truth.allocations += bytes;
                current += bytes.cast_signed();
            } else {
                let at = usize::try_from(random.between(0, held.len() as u64 - 1)).unwrap();
                let bytes = held.swap_remove(at);
                truth.deallocations += bytes;
                current -= bytes.cast_signed();
            }
            truth.segment_peak = truth.segment_peak.max(current - start);
        }
        peak = peak.max(start + truth.segment_peak);
        (truth.cumulative_peak, truth.cumulative_current) = (peak, current);
        let (cb, buffer) = (random.between(0, MIB), random.between(0, MIB));
        truth.l1 = [cb, buffer, cb.max(buffer) + random.between(0, cb.min(buffer))];
        all.push(truth);
    }
    all
}

fn mb(bytes: i64) -> String {
    let hundredths = (i128::from(bytes.unsigned_abs()) * 100 + (1 << 19)) >> 20;
    format!("{}{}.{:02} MB", if bytes < 0 { "-" } else { "" }, hundredths / 100, hundredths % 100)
}

fn print(named: &[(String, Truth)]) -> String {
    let mut text = String::from("=== Memory Usage Summary ===\n\n");
    for (name, truth) in named {
        let change = truth.allocations.cast_signed() - truth.deallocations.cast_signed();
        let sign = if change < 0 { "" } else { "+" };
        let plain = |bytes: u64| mb(bytes.cast_signed());
        writeln!(text, "--- {name} ---").unwrap();
        writeln!(
            text,
            "  DRAM: Segment Peak {}, Allocations {}, Deallocations {}, Segment Change {sign}{}",
            mb(truth.segment_peak),
            plain(truth.allocations),
            plain(truth.deallocations),
            mb(change)
        )
        .unwrap();
        let (peak, current) = (mb(truth.cumulative_peak), mb(truth.cumulative_current));
        writeln!(text, "  DRAM: Cumulative Peak {peak}, Cumulative Current {current}").unwrap();
        let [cb, buffer, total] = truth.l1.map(plain);
        writeln!(text, "  L1: Peak CB {cb}, Peak Buffer {buffer}, Peak Total {total}").unwrap();
    }
    let last = named.last().map(|(_, truth)| *truth).unwrap_or_default();
    let (peak, current) = (mb(last.cumulative_peak), mb(last.cumulative_current));
    write!(text, "\n=== Final Totals ===\nOverall DRAM Peak: {peak}, Final DRAM Usage: {current}\n").unwrap();
    text
}

fn names(random: &mut Random, count: usize) -> Vec<String> {
    let known =
        ["MODEL_CREATION", "OPTIMIZER_CREATION", "FORWARD_PASS", "BACKWARD_PASS", "ENTRY", "my own phase"];
    let name = |index: usize, random: &mut Random| match random.between(0, 3) {
        0 => format!("{}_micro_{index}", random.pick(&known)),
        1 => format!("{}__{index:06}", random.pick(&known)),
        _ => random.pick(&known).to_owned(),
    };
    (0..count).map(|index| name(index, random)).collect()
}

/// A summary with names that may repeat, and its truth.
fn made(random: &mut Random) -> Vec<(String, Truth)> {
    let count = usize::try_from(random.between(1, 12)).unwrap();
    let names = names(random, count);
    names.into_iter().zip(tracked(random, count)).collect()
}

#[track_caller]
fn holds(profile: &Profile, rank: &Rank, session: usize, truth: &[(String, Truth)]) {
    let close = |found: Option<i64>, true_value: i64| found.unwrap().abs_diff(true_value) <= ROUNDED;
    let read = phases(profile, rank, session);
    assert_eq!(read.len(), truth.len());
    for ((name, phase), (true_name, truth)) in read.into_iter().zip(truth) {
        assert_eq!(name, true_name);
        let plain = |bytes: Option<u64>| bytes.map(u64::cast_signed);
        assert!(close(phase.segment_peak, truth.segment_peak), "{name}");
        assert!(close(plain(phase.allocations), truth.allocations.cast_signed()), "{name}");
        assert!(close(plain(phase.deallocations), truth.deallocations.cast_signed()), "{name}");
        assert!(close(phase.cumulative_peak, truth.cumulative_peak), "{name}");
        assert!(close(phase.cumulative_current, truth.cumulative_current), "{name}");
        let l1 = [phase.l1_peak_cb, phase.l1_peak_buffer, phase.l1_peak_total];
        assert!(
            l1.iter().zip(truth.l1).all(|(found, bytes)| close(plain(*found), bytes.cast_signed())),
            "{name}"
        );
    }
}

// ------------------------------------------------------------------------------------------------------- rules

#[test]
fn the_figures_of_the_seed() {
    let profile = opened(corpus("tinyllama.log").as_bytes()).unwrap();
    assert_eq!((profile.source.format.as_str(), warnings(&profile)), ("tt_train", vec![]));
    let [rank] = &profile.ranks[..] else { panic!("one rank") };
    let header = |session: &Session| {
        (session.name.map(|name| profile.text(name)), session.parameters, session.device_memory)
    };
    let expected = |name| (Some(name), Some(969_369_600), Some(12 << 30));
    let headers: Vec<_> = rank.sessions.iter().map(header).collect();
    assert_eq!(headers, [expected("tinyllama (memory_efficient)"), expected("tinyllama (default)")]);
    for (session, peak) in rank.sessions.iter().zip([8278.65, 15666.65]) {
        let found = session.totals.unwrap().peak.unwrap();
        #[allow(clippy::cast_precision_loss, reason = "a peak has few digits")]
        let found = found as f64 / MIB as f64;
        assert!((found - peak).abs() <= 0.02, "{found} is not {peak}");
    }
    let names: Vec<&str> = phases(&profile, rank, 1).into_iter().map(|(name, _)| name).collect();
    let expected =
        ["MODEL_CREATION", "OPTIMIZER_CREATION", "FORWARD_PASS", "BACKWARD_PASS", "FIRST_ITERATION_COMPLETE"];
    assert_eq!(names, expected);
}

#[test]
fn any_summary_reads_back() {
    let mut random = Random::new(1);
    for case in 0..200 {
        let truths: Vec<_> = (0..random.between(1, 4)).map(|_| made(&mut random)).collect();
        let text: String = truths.iter().map(|truth| print(truth)).collect();
        let profile = opened(text.as_bytes()).unwrap();
        assert_eq!(warnings(&profile), [], "case {case}: what a tracker prints is consistent");
        let rank = &profile.ranks[0];
        assert_eq!(rank.sessions.len(), truths.len());
        for (session, truth) in truths.iter().enumerate() {
            holds(&profile, rank, session, truth);
            let last = truth.last().unwrap().1;
            let totals = rank.sessions[session].totals.unwrap();
            assert!(totals.peak.unwrap().abs_diff(last.cumulative_peak) <= ROUNDED);
        }
    }
}

/// The list and the headline name the device of a PyTorch program. A log of tt-train is about DRAM.
#[test]
fn the_peak_is_that_of_the_device() {
    let of = |device: &str, title: &str| {
        let log = format!(
            "{title}=== Memory Usage Summary ===\n--- FORWARD ---\n  {device}: Segment Peak 36.00 MiB, Allocations \
             36.00 MiB, Deallocations 0.00 MiB, Segment Change +36.00 MiB\n  {device}: Cumulative Peak 36.00 MiB, \
             Cumulative Current 36.00 MiB\n"
        );
        let profile = opened(log.as_bytes()).unwrap();
        let summary = query::summary(&[profile], &query::Request::default()).unwrap();
        let device = summary.ranks[0].device;
        let peak = query::About::of(&summary).peak.unwrap();
        (peak.pool.clone(), device, ttmem::report::headline(Some(&peak), None))
    };
    let titled = "########\nmy model\n########\n";
    for name in ["cpu", "cuda:0", "xpu:1"] {
        for title in ["", titled] {
            let (pool, device, headline) = of(name, title);
            assert_eq!((pool.as_str(), device), (name, Some(query::DeviceKind::Torch)), "{title}");
            assert_eq!(headline, format!("Peak {name} 36.0 MiB."));
        }
    }
    let profile = opened(corpus("tinyllama.log").as_bytes()).unwrap();
    let summary = query::summary(&[profile], &query::Request::default()).unwrap();
    assert_eq!(query::About::of(&summary).peak.unwrap().pool, "DRAM");
}

/// The text that the tracker prints for devices of PyTorch: sizes from bytes to hundreds of GiB.
#[test]
fn summaries_of_other_devices_read_back() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let tracker = MemoryUsageTracker::new();
        let guard = tracker.begin_capture_on(RunMode::Normal, "cuda:0").unwrap();
        let mut held = 0;
        for number in 0..random.between(1, 8) {
            for _ in 0..random.between(0, 5) {
                let power = random.between(1, 38);
                tracker.record_alloc(held, random.between(1, 1 << power), Pool::Dram);
                held += 1;
            }
            tracker.record_free(random.between(0, held));
            tracker.snapshot(&format!("PHASE_{number}")).unwrap();
        }
        tracker.end_capture("END").unwrap();
        let text = tracker.memory_usage_text();
        assert!(!text.contains("DRAM") && !text.contains("L1") && !text.contains(" MB"), "{text}");
        let profile = opened(text.as_bytes()).unwrap();
        assert_eq!(warnings(&profile), [], "{text}");
        let rank = &profile.ranks[0];
        assert_eq!(profile.text(rank.sessions[0].name.unwrap()), "cuda:0");
        let found = phases(&profile, rank, 0);
        let truth = tracker.get_dram_usage_all();
        assert_eq!(found.len(), truth.len());
        for ((name, phase), (true_name, usage)) in found.into_iter().zip(&truth) {
            assert_eq!(name, true_name);
            // 0.01 MiB, or 0.001 GiB.
            let close =
                |read: i64, is: i64| read.abs_diff(is) <= if is.abs() < 1 << 30 { 5_243 } else { 536_871 };
            assert!(close(phase.segment_peak.unwrap(), usage.peak), "{text}");
            assert!(close(phase.change.unwrap(), usage.change()), "{text}");
            assert_eq!(phase.l1_peak_total, None);
        }
        guard.release();
    }
}

#[test]
fn phases_of_different_devices_are_not_added_up() {
    let tracker = MemoryUsageTracker::new();
    tracker.begin_capture_on(RunMode::Normal, "cuda:0").unwrap().release();
    tracker.end_capture("A").unwrap();
    for (error, wanted) in [
        (tracker.begin_capture_on(RunMode::Normal, "cpu").unwrap_err(), "cpu"),
        (tracker.begin_capture(RunMode::Normal).unwrap_err(), "a Tenstorrent device"),
    ] {
        assert_eq!(
            error.to_string(),
            format!(
                "the existing phases were captured on cuda:0, so {wanted} is not possible; call clear() first"
            )
        );
    }
    tracker.clear();
    tracker.begin_capture(RunMode::Normal).unwrap().release();
    tracker.end_capture("A").unwrap();
    assert!(tracker.memory_usage_text().contains("  DRAM: Segment Peak 0.00 MB"));
}

/// Colors, CR LF, a prefix, lines of others, and pages of output before the first summary change nothing.
#[test]
fn what_stands_around_a_summary_changes_nothing() {
    let mut random = Random::new(2);
    for case in 0..60 {
        let truth = made(&mut random);
        let plain = print(&truth);
        let noise = [
            "step 1 loss 10.98",
            "",
            "2026-11-15 INFO something",
            "Compiling kernels",
            "trainable params  0",
        ];
        let mut text = "before\n".repeat(usize::try_from(random.between(0, 40_000)).unwrap());
        let prefix = random.pick(&["", "", "INFO:root:", "\u{1b}[32mINFO\u{1b}[0m "]);
        for line in plain.lines() {
            let line = if line.is_empty() { String::new() } else { format!("{prefix}{line}") };
            text += &line;
            text += random.pick(&["\n", "\n", "\r\n"]);
            if random.chance(20) {
                writeln!(text, "{}", random.pick(&noise)).unwrap();
            }
        }
        let profile = opened(text.as_bytes()).unwrap();
        assert_eq!(warnings(&profile), [], "case {case}");
        holds(&profile, &profile.ranks[0], 0, &truth);
    }
}

#[test]
fn ranks_are_told_apart_however_their_lines_are_mixed() {
    let mut random = Random::new(3);
    for case in 0..60 {
        let truths: Vec<_> = (0..3).map(|_| made(&mut random)).collect();
        let mut left: Vec<Vec<String>> = truths
            .iter()
            .enumerate()
            .map(|(rank, truth)| {
                let line = |line: &str| format!("[1,{rank}]<stdout>:{line}\n");
                print(truth).lines().rev().map(line).collect()
            })
            .collect();
        let mut text = String::new();
        while left.iter().any(|lines| !lines.is_empty()) {
            let rank = usize::try_from(random.between(0, 2)).unwrap();
            text += &left[rank].pop().unwrap_or_default();
        }
        let profile = opened(text.as_bytes()).unwrap();
        assert_eq!(warnings(&profile), [], "case {case}");
        for rank in &profile.ranks {
            let number: usize =
                profile.text(rank.label.unwrap()).strip_prefix("1,").unwrap().parse().unwrap();
            holds(&profile, rank, 0, &truths[number]);
        }
    }
}

#[test]
fn a_summary_that_is_cut_off_is_said_with_its_line() {
    let text = corpus("tinyllama.log");
    let lines: Vec<&str> = text.lines().collect();
    let first = 1 + lines.iter().position(|line| line.contains("=== Memory Usage Summary")).unwrap();
    for end in first..=lines.len() {
        let cut = lines[..end].join("\n") + "\n";
        let answered = opened(cut.as_bytes());
        let Ok(profile) = answered else {
            assert!(matches!(answered, Err(Error::NoMemoryData { .. })), "no phase yet in {end} lines");
            continue;
        };
        let sessions = &profile.ranks[0].sessions;
        let open: Vec<&Session> = sessions.iter().filter(|session| session.totals.is_none()).collect();
        let cut_off: Vec<Option<u64>> = warnings(&profile)
            .into_iter()
            .filter_map(|(line, message)| message.contains("truncated").then_some(line))
            .collect();
        assert_eq!(cut_off, open.iter().map(|session| session.line).collect::<Vec<_>>(), "{end} lines");
    }
}

#[test]
fn figures_that_do_not_follow_are_said_with_their_line() {
    let text = corpus("tinyllama.log");
    for (from, to, line, what) in [
        ("Segment Change +192.95", "Segment Change +192.97", None, ""),
        ("Segment Change +192.95", "Segment Change +193.95", Some(16), "Segment Change"),
        ("Cumulative Current 5764.96", "Cumulative Current 5774.96", Some(16), "Cumulative Current"),
        ("Cumulative Peak 6568.36", "Cumulative Peak 6569.36", Some(16), "Cumulative Peak"),
        ("Overall DRAM Peak: 8278.65", "Overall DRAM Peak: 8279.65", Some(30), "totals"),
    ] {
        let profile = opened(text.replacen(from, to, 1).as_bytes()).unwrap();
        let said = warnings(&profile);
        match line {
            None => assert_eq!(said, [], "{to}"),
            Some(line) => assert!(
                said.iter().any(|(at, message)| *at == Some(line) && message.contains(what)),
                "{to}: {said:?}"
            ),
        }
    }
}

#[test]
fn torn_lines_are_counted_and_what_they_said_is_not_known() {
    let text = corpus("tinyllama.log");
    let torn = text.replacen("Allocations 22140.61 MB, Dealloc", "Allocations 22140.6", 1);
    let profile = opened(torn.as_bytes()).unwrap();
    assert_eq!(profile.skipped_lines, 1);
    let rank = &profile.ranks[0];
    let (_, forward) = phases(&profile, rank, 0)[2];
    assert_eq!((forward.allocations, forward.segment_peak), (None, None));
    assert!(forward.cumulative_peak.is_some());
    let said = warnings(&profile);
    assert!(
        said.iter().any(|(line, message)| *line == Some(16) && message.contains("no line for Segment Peak"))
    );
}

#[test]
fn headers_belong_to_the_summary_below_them() {
    let mut random = Random::new(4);
    let summary = print(&made(&mut random));
    let text = format!(
        "########\nfirst\nTotal parameters: 1,000\n   memory  100 MB\n{summary}\n\
         trainable params  7\nused memory 5 MB\n{summary}\n   params  9,000,000,000\n{summary}"
    );
    let profile = opened(text.as_bytes()).unwrap();
    let rank = &profile.ranks[0];
    let known: Vec<_> =
        rank.sessions.iter().map(|session| (session.parameters, session.device_memory)).collect();
    assert_eq!(known, [(Some(1000), Some(100 * MIB)), (None, None), (Some(9_000_000_000), None)]);
    assert_eq!(rank.sessions[1].name, None);
}

#[test]
fn what_a_tracker_lost_and_what_it_never_had_is_said() {
    let text = format!("WARNING: Snapshot 'X' already exists, overwriting\n{}", corpus("tinyllama.log"));
    let profile = opened(text.as_bytes()).unwrap();
    assert!(warnings(&profile).iter().any(|(line, message)| *line == Some(1) && message.contains("phase X")));
    let error = opened(b"=== Memory Usage Summary ===\nWARNING: No traces captured\n").unwrap_err();
    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("snapshot"), "{error}");
}

#[test]
fn totals_are_those_of_the_last_phase() {
    let mut random = Random::new(5);
    for _ in 0..50 {
        let truth = made(&mut random);
        let profile = opened(print(&truth).as_bytes()).unwrap();
        let session = profile.ranks[0].sessions[0];
        let last = phases(&profile, &profile.ranks[0], 0).last().unwrap().1;
        let totals = Totals { peak: last.cumulative_peak, current: last.cumulative_current };
        assert_eq!(session.totals, Some(totals));
    }
}
