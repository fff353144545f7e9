//! The reader of memory profiles: each rule of the format, each malformed file with its message, and properties.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use ttmem::model::{CallEnd, CallId, Class, CurveKind, Moment, Profile, Rank};
use ttmem::query::{GanttRequest, PoolSummary, Request, gantt, memory_profile, summary};
use ttmem::record::live::{Allocation, Recorder};
use ttmem::report::{Screen, markdown, text};
use ttmem::{Error, Result, read};
use ttmem_testkit::sweep;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

fn corpus(name: &str) -> String {
    format!("{}/../../corpus/memory_profile/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn opened(name: &str) -> Profile {
    read::open(&corpus(name)).unwrap()
}

fn written(value: &Value) -> Result<Profile> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("memory_profile_1.json");
    fs::write(&path, value.to_string()).unwrap();
    read::open(path.to_str().unwrap())
}

fn names(profile: &Profile, rank: &Rank) -> Vec<String> {
    rank.calls.scope.iter().map(|scope| profile.text(rank.scopes.name[scope.index()]).to_owned()).collect()
}

#[test]
fn snapshots_are_readings_of_devices_with_times() {
    let profile = opened("server.json");
    assert_eq!((profile.source.format.as_str(), profile.complete), ("memory_profile", true));
    assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
    let rank = &profile.ranks[0];
    let level = |device: &str, step| {
        let (_, pool) = rank.pool_named(&profile, device).unwrap();
        pool.reading(Moment::after(step)).allocated
    };
    assert_eq!(
        (0..5).map(|step| level("cpu", step)).collect::<Vec<_>>(),
        [64, 64, 64, 80, 80].map(|n| Some(n * MIB))
    );
    // Before it is first named nothing is known of a device; when it is no longer named it holds nothing.
    assert_eq!(level("mps", 0), None);
    assert_eq!(level("mps", 2), Some(2320 * MIB + MIB / 2));
    assert_eq!(level("mps", 4), Some(0));
    assert_eq!(rank.times.value, [0, 5000 * MS, 6250 * MS, 10_000 * MS, 15_000 * MS]);
    let steps: Vec<&str> = (0..5).filter_map(|step| profile.op_name(rank, step)).collect();
    assert_eq!(steps, ["snapshot", "model_forward_pre", "model_forward_post", "snapshot", "after_unload"]);
    assert_eq!(rank.pools[0].quantum, 0, "these sizes are whole bytes");
    assert!(rank.began.is_none(), "nobody knows in which zone that clock was");
    assert_eq!(rank.snapshots.len(), 5);
}

#[test]
fn a_call_without_a_length_has_none() {
    let profile = opened("server.json");
    let rank = &profile.ranks[0];
    assert_eq!(names(&profile, rank), ["model_forward", "model_forward", "preprocessing"]);
    assert_eq!(rank.calls.began, [6250 * MS, 8000 * MS, 8000 * MS]);
    assert!((0..3).all(|call| rank.call_end(call) == CallEnd::Unknown));
    let half = i64::try_from(MIB / 2).unwrap();
    assert_eq!(
        (0..3).map(|call| rank.call_change(call)).collect::<Vec<_>>(),
        [641, -441, 32].map(|n| Some(n * half))
    );
    assert!(rank.calls.outcome.iter().all(Option::is_none), "what was allocated in between was not seen");
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let calls = &answer.ranks[0].calls;
    assert_eq!((calls.ended_ns[0], calls.still_ran[0], calls.allocated[0]), (None, false, None));
    // Two at the same time have places of their own.
    assert_ne!(calls.row[1], calls.row[2]);
}

#[test]
fn framework_operations_are_totals() {
    let profile = opened("server.json");
    let totals = &profile.ranks[0].op_totals;
    assert_eq!(totals.len(), 2);
    assert_eq!((totals[0].count, totals[0].cpu_time, totals[0].device_time), (32, 125 * MS, Some(0)));
    assert_eq!((totals[1].cpu_time, totals[1].device_time, totals[1].device_bytes), (85_000_500, None, None));
    assert_eq!(totals[1].cpu_bytes, -1 << 20);
    assert_eq!(totals[0].shapes.map(|text| profile.text(text)), Some("[[1,512,768],[768,768]]"));
}

#[test]
fn counted_times_give_lengths_threads_and_nesting() {
    let profile = opened("threads.json");
    assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
    let rank = &profile.ranks[0];
    assert_eq!(rank.began, Some(1_736_762_400_000_000_000));
    let found: Vec<(String, u64, CallEnd)> = names(&profile, rank)
        .into_iter()
        .enumerate()
        .map(|(call, name)| (name, rank.calls.began[call] / MS, rank.call_end(call)))
        .collect();
    assert_eq!(found[0], ("request".into(), 100, CallEnd::At(500 * MS)));
    assert_eq!(found[2], ("prefetch".into(), 150, CallEnd::At(450 * MS)));
    let parents: Vec<Option<usize>> =
        rank.calls.parent.iter().map(|parent| parent.map(CallId::index)).collect();
    assert_eq!(parents, [None, Some(0), None, Some(0), None, None, Some(5), Some(5), None]);
    assert_eq!(
        rank.lanes.iter().map(|lane| profile.text(*lane)).collect::<Vec<_>>(),
        ["MainThread", "Thread-1"]
    );
    let outcome = rank.calls.outcome[0].unwrap();
    assert_eq!(
        (outcome.allocated, outcome.freed, outcome.peak, outcome.kept),
        (40 * MIB, 32 * MIB, 36 * MIB, 8 * MIB)
    );
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let [rank] = &answer.ranks[..] else { panic!("one rank is expected") };
    assert_eq!(rank.outline.lanes.iter().map(|lane| lane.rows).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(rank.memory[0].at_ns, [0, 500 * MS, 1200 * MS]);
}

#[test]
fn what_came_before_corruption_is_answered() {
    let profile = opened("malformed/cut.json");
    assert!(!profile.complete);
    assert!(
        profile.warnings.iter().any(|warning| warning.message.contains("corrupt")),
        "{:?}",
        profile.warnings
    );
    assert_eq!(profile.ranks[0].calls.len(), 6);
}

#[test]
fn malformed_files_say_what_is_wrong() {
    let message = |name: &str| match read::open(&corpus(name)) {
        Err(error) => (error.exit_code(), error.to_string()),
        Ok(profile) => {
            (0, profile.warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>().join("; "))
        }
    };
    let (code, empty) = message("malformed/empty.json");
    assert!(code == 4 && empty.contains("no snapshots and no timed operations"), "{code} {empty}");
    let (code, no_times) = message("malformed/no-times.json");
    assert_eq!(code, 4, "{no_times}");
    let (code, wrong) = message("malformed/wrong-parts.json");
    assert_eq!(code, 0);
    assert!(
        wrong.contains("3 values of the wrong type were") && wrong.contains("1 framework operation without"),
        "{wrong}"
    );
    let (code, other) = message("malformed/another.json");
    assert!(code == 2 && other.contains("trace"), "{other}");
}

#[test]
fn rounded_sizes_have_a_quantum() {
    let profile = written(&json!({
        "metadata": {"operation_tracking_enabled": true},
        "snapshots": [{"timestamp": "2025-01-13T10:00:00", "total_mb": 12.34, "tensor_count": 1}],
    }))
    .unwrap();
    let rank = &profile.ranks[0];
    assert_eq!(profile.text(rank.pools[0].name), "all devices");
    assert_eq!(rank.pools[0].quantum, 10_486);
    let curve = rank.pools[0].curve(CurveKind::Allocated).unwrap();
    assert!(curve.value[0].abs_diff(12_939_428) <= 1);
}

#[test]
fn without_snapshots_operations_say_what_was_there() {
    let profile = written(&json!({
        "metadata": {"operation_tracking_enabled": true}, "snapshots": [],
        "operation_allocations": {"load": [
            {"timestamp": "2025-01-13T10:00:01", "post_total_mb": 8.0, "memory_delta_mb": 8.0},
            {"timestamp": "2025-01-13T10:00:00", "post_total_mb": 2.0, "memory_delta_mb": 2.0}]},
        "operation_summary": {"load": {"invocation_count": 5}},
    }))
    .unwrap();
    let rank = &profile.ranks[0];
    assert_eq!(rank.pools[0].curve(CurveKind::Allocated).unwrap().value, [2 * MIB, 8 * MIB]);
    assert_eq!(rank.calls.began, [0, 1000 * MS], "in order of time, not of the file");
    assert!(
        profile.warnings[0].message.contains("ran 5 times, but only 2 calls are listed"),
        "{:?}",
        profile.warnings
    );
}

fn pool_of(profile: &Profile, name: &str) -> PoolSummary {
    let answer = summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    answer.ranks[0].pools.get(name).unwrap().clone()
}

fn on_screen(profile: Profile) -> String {
    let answer = summary(&[profile], &Request::default()).unwrap();
    text(&answer, Screen::default()).to_string()
}

fn two_snapshots(device_totals: &Value) -> Value {
    let snapshot = |time: u64, bytes: u64| {
        json!({"time_ns": time, "total_bytes": bytes, "total_mb": 0.0,
        "device_breakdown": {"cpu": {"total_bytes": bytes, "total_mb": 0.0}}})
    };
    json!({
        "metadata": {"operation_tracking_enabled": true, "began_unix_ns": 5},
        "snapshots": [snapshot(0, 0), snapshot(MS, 72 * MIB)],
        "device_totals": device_totals,
    })
}

#[test]
fn the_peak_is_what_the_file_states_not_its_highest_snapshot() {
    let profile = written(&two_snapshots(&json!({"cpu": {"peak_bytes": 128 * MIB}}))).unwrap();
    let pool = pool_of(&profile, "cpu");
    assert_eq!((pool.peak_per_bank, pool.peak_total), (Some(128 * MIB), Some(128 * MIB)));
    assert_eq!((pool.peak_source, pool.highest_sample_per_bank), (Some("counted"), Some(72 * MIB)));
    assert_eq!((pool.peak_step, pool.caused_by_step), (None, None), "nobody knows when that was");
    let screen = on_screen(profile);
    assert!(screen.contains("128.0 MiB at the peak"), "{screen}");
    assert!(screen.contains("at an unknown time") && screen.contains("snapshot has 72.0 MiB"), "{screen}");
    assert!(!screen.contains("never used"), "{screen}");
    // A snapshot that reaches the peak says when it was.
    let profile = written(&two_snapshots(&json!({"cpu": {"peak_bytes": 72 * MIB}}))).unwrap();
    assert_eq!(pool_of(&profile, "cpu").peak_step, Some(2));
    // A device of which no snapshot was taken has its peak, too.
    let profile = written(&two_snapshots(&json!({"cuda:0": {"peak_bytes": 9}}))).unwrap();
    assert_eq!(pool_of(&profile, "cuda:0").peak_per_bank, Some(9));
}

#[test]
fn a_peak_that_is_only_sampled_is_labeled() {
    for totals in [json!({}), json!({"cpu": {"peak_bytes": null}}), json!(null)] {
        let profile = written(&two_snapshots(&totals)).unwrap();
        let pool = pool_of(&profile, "cpu");
        assert_eq!((pool.peak_per_bank, pool.peak_source), (Some(72 * MIB), Some("sampled")));
        let answer = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
        let json = serde_json::to_value(&answer).unwrap();
        assert_eq!(json["ranks"][0]["pools"]["cpu"]["peak_source"], "sampled");
        let mut document = Vec::new();
        markdown(&answer, "x", ttmem::report::MarkdownSize::default(), &mut document).unwrap();
        let document = String::from_utf8(document).unwrap();
        assert!(document.contains("sampled: a lower bound"), "{document}");
        let screen = on_screen(profile);
        assert!(screen.contains("at least 72.0 MiB at the peak (sampled)"), "{screen}");
    }
}

#[test]
fn other_json_is_not_taken() {
    for other in
        [json!({"snapshots": [{"id": 1}], "metadata": {}}), json!([1]), json!({"operation_summary": {}})]
    {
        assert!(matches!(written(&other), Err(Error::UnknownFormat { .. })), "{other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sweep::cases(24, 1000)))]

    /// The JSON beside a recording has the same peaks, however few snapshots were taken.
    #[test]
    fn the_json_and_its_recording_agree_on_peaks(
        acts in proptest::collection::vec((0..8_usize, 0..2_usize, 1..9_000_u64), 1..80),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory_profile_1.ttmem");
        let mut recorder = Recorder::recording_to(&path).unwrap();
        let pools = ["cpu", "cuda:0"].map(|name| recorder.pool(name, false));
        let name = recorder.text("aten::empty");
        let op = recorder.op(name, None, None);
        let mut alive = Vec::new();
        recorder.snapshot(None);
        for (what, which, bytes) in acts {
            match what {
                0 => recorder.snapshot(None),
                1..=4 => {
                    let allocation =
                        Allocation { pool: pools[which], bytes, op, ty: None, class: Class::Unknown, within: None };
                    alive.extend(recorder.allocated(allocation));
                }
                _ if alive.is_empty() => {}
                _ => recorder.freed(alive.swap_remove(usize::try_from(bytes).unwrap() % alive.len()), None),
            }
        }
        recorder.finish().unwrap();
        let recording = read::open(path.to_str().unwrap()).unwrap();
        let json = serde_json::to_value(memory_profile(&recording, false).unwrap()).unwrap();
        let json = written(&json).unwrap();
        for name in ["cpu", "cuda:0"] {
            let truth = pool_of(&recording, name).peak_per_bank.filter(|peak| *peak > 0);
            let answer = summary(std::slice::from_ref(&json), &Request::default()).unwrap();
            prop_assert_eq!(answer.ranks[0].pools.get(name).and_then(|pool| pool.peak_per_bank), truth);
        }
    }

    /// Whatever stands in the fields, nothing panics, and calls stay in order, each behind its parent.
    #[test]
    fn any_fields_are_survived(
        rows in proptest::collection::vec(
            (0..4_usize, any::<u64>(), any::<u64>(), 0..5_usize, any::<f64>(), 0..3_usize), 0..30),
    ) {
        let mut operations = serde_json::Map::new();
        for (name, start, duration, parent, delta, thread) in rows {
            let row = json!({
                "start_ns": start, "duration_ns": duration, "parent": format!("op{parent}"), "memory_delta_mb": delta,
                "thread": thread, "timestamp": "2025-01-13T10:00:00+01:00", "post_total_mb": delta,
            });
            let list = operations.entry(format!("op{name}")).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(row);
        }
        let count: usize = operations.values().map(|list| list.as_array().unwrap().len()).sum();
        let profile = written(&json!({"metadata": {"began_unix_ns": 5}, "operation_allocations": operations}));
        if count == 0 {
            prop_assert!(profile.is_err());
            return Ok(());
        }
        let profile = profile.unwrap();
        let rank = &profile.ranks[0];
        prop_assert!(profile.complete && rank.calls.len() == count);
        prop_assert!(rank.calls.began.is_sorted());
        for (call, parent) in rank.calls.parent.iter().enumerate() {
            if let Some(parent) = parent.map(CallId::index) {
                let CallEnd::At(end) = rank.call_end(parent) else { panic!("a mark has nothing inside") };
                prop_assert!(parent < call && rank.calls.began[call] < end);
            }
        }
        let answer = gantt(&profile, &GanttRequest::default()).unwrap();
        prop_assert!(serde_json::to_string(&answer).is_ok());
    }
}

#[test]
fn the_accelerator_is_explained_and_unknown_times_are_not_zero() {
    let profile = opened("server.json");
    let answer = summary(&[profile], &Request::default()).unwrap();
    let rank = &answer.ranks[0];
    assert_eq!(rank.peak.as_ref().unwrap().pool, "mps");
    assert!(rank.ran.iter().all(|ran| ran.calls > 0 && ran.time_ns.is_none() && ran.longest_ns.is_none()));
    let mut document = Vec::new();
    markdown(&answer, "server", ttmem::report::MarkdownSize::default(), &mut document).unwrap();
    let screen = text(&answer, Screen::default()).to_string();
    for shown in [screen, String::from_utf8(document).unwrap()] {
        assert!(!shown.contains("0 µs") && !shown.contains("totals only"), "{shown}");
    }
    // Where every call has a length, so has their sum.
    let answer = summary(&[opened("threads.json")], &Request::default()).unwrap();
    assert!(answer.ranks[0].ran.iter().all(|ran| ran.time_ns.is_some() && ran.longest_ns.is_some()));
}

#[test]
fn the_processor_is_explained_where_no_accelerator_was_used() {
    let snapshot = |cpu: u64, mps: u64| {
        json!({ "timestamp": "2025-01-13T10:29:40", "total_bytes": cpu + mps, "device_breakdown": {
            "cpu": { "total_bytes": cpu }, "mps": { "total_bytes": mps } } })
    };
    for (mps, main) in [(0, "cpu"), (1, "mps")] {
        let profile = written(&json!({ "snapshots": [snapshot(5 * MIB, mps)],
            "metadata": { "operation_tracking_enabled": true } }));
        let answer = summary(&[profile.unwrap()], &Request::default()).unwrap();
        assert_eq!(answer.ranks[0].peak.as_ref().unwrap().pool, main);
    }
}
