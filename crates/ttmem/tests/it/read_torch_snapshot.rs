//! The reader of PyTorch's memory snapshots: real ones compared with the allocator's counters, and every form of the
//! format, written by a model of the allocator that knows its counters after each event.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;
use ttmem::analyze::Account;
use ttmem::model::rules::live::LiveSums;
use ttmem::model::{CallEnd, CallId, CurveKind, Moment, OpId, Profile};
use ttmem::query::{Request, summary};
use ttmem::{Error, Result, read};
use ttmem_testkit::torch::{
    Action, Allocator, Levels, Options, Py, Settings, Snapshot, dict, dump, frames, list, text,
};

const MIB: u64 = 1 << 20;

fn corpus(name: &str) -> String {
    format!("{}/../../corpus/torch_snapshot/{name}.pickle.gz", env!("CARGO_MANIFEST_DIR"))
}

fn opened(bytes: &[u8]) -> Result<Profile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    fs::write(&path, bytes).unwrap();
    read::open(path.to_str().unwrap())
}

fn levels(profile: &Profile, pool: usize, at: Moment) -> Levels {
    let reading = profile.ranks[0].pools[pool].reading(at);
    let value = |value: Option<u64>| value.unwrap_or(0);
    Levels {
        allocated: value(reading.allocated),
        active: value(reading.active),
        reserved: value(reading.reserved),
        requested: value(reading.requested),
    }
}

fn peak(profile: &Profile, kind: CurveKind) -> u64 {
    profile.ranks[0].pools[0].curve(kind).and_then(|curve| curve.value.iter().copied().max()).unwrap_or(0)
}

fn warnings(profile: &Profile) -> Vec<String> {
    profile.warnings.iter().map(|warning| warning.message.clone()).collect()
}

/// What the allocator counted, in bytes.
fn fact(name: &str, key: &str) -> u64 {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/torch_snapshot/facts.jsonl");
    let facts = fs::read_to_string(facts).unwrap();
    let facts = facts.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    facts.into_iter().find(|fact| fact["name"] == name).unwrap()[key].as_u64().unwrap()
}

#[test]
fn real_snapshots_have_the_counters_of_their_allocators() {
    for name in ["train_gpt2_30m", "oom_gpt2_124m", "graph_expandable_pools"] {
        let profile = read::open(&corpus(name)).unwrap();
        assert_eq!(warnings(&profile), [""; 0], "{name}");
        let peaks = [CurveKind::Allocated, CurveKind::Reserved, CurveKind::Requested];
        let wanted = ["peak_allocated", "peak_reserved", "requested_peak"].map(|key| fact(name, key));
        assert_eq!(peaks.map(|kind| peak(&profile, kind)), wanted, "{name}");
        let end = levels(&profile, 0, Moment::NEVER.earlier());
        let wanted = ["allocated", "active", "reserved"].map(|key| fact(name, key));
        assert_eq!([end.allocated, end.active, end.reserved], wanted, "{name}");
    }
}

#[test]
fn a_ring_that_has_overflowed_ends_with_the_counters_of_its_allocator() {
    for name in ["wrapped_ring_gpt2_30m", "cpp_stacks_gpt2_30m"] {
        let profile = read::open(&corpus(name)).unwrap();
        let end = levels(&profile, 0, Moment::NEVER.earlier());
        let wanted = ["allocated", "active", "reserved"].map(|key| fact(name, key));
        assert_eq!([end.allocated, end.active, end.reserved], wanted, "{name}");
        assert!(peak(&profile, CurveKind::Allocated) <= fact(name, "peak_allocated"));
        let warnings = warnings(&profile);
        let Some(warning) = warnings.last() else { panic!("{name}") };
        assert!(warning.contains("the peak before that is unknown"), "{warning}");
    }
}

/// The stacks of made programs.
fn stacks() -> Vec<Py> {
    vec![
        frames(&[
            ("forward", "/lib/python3.12/site-packages/torch/nn/modules/linear.py", 134),
            ("step", "/home/me/train.py", 8),
        ]),
        frames(&[("<module>", "/home/me/train.py", 31)]),
        frames(&[]),
    ]
}

/// What a program does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate { bytes: u64, stream: u64, origin: usize },
    Free { index: usize, is_used: bool },
    Complete { index: usize },
    EmptyCache,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes = prop_oneof![
        4 => 1_u64..4 * MIB,
        2 => 1_u64..64 << 10,
        2 => 1_u64..80 * MIB,
        1 => (0_u64..8).prop_map(|power| MIB << power),
    ];
    let allocate = (bytes, 0_u64..3, 0_usize..3);
    let act = prop_oneof![
        6 => allocate.prop_map(|(bytes, stream, origin)| Act::Allocate { bytes, stream: stream / 2, origin }),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(index, is_used)| Act::Free { index, is_used }),
        2 => any::<usize>().prop_map(|index| Act::Complete { index }),
        1 => Just(Act::EmptyCache),
    ];
    proptest::collection::vec(act, 1..250)
}

fn settings() -> impl Strategy<Value = Settings> {
    let max_split = proptest::option::of((1_u64..64).prop_map(|mib| mib * MIB));
    let divisions = prop_oneof![Just(0), Just(1), Just(2), Just(4), Just(8)];
    (max_split, divisions, any::<bool>()).prop_map(|(max_split, divisions, is_expandable)| Settings {
        max_split: max_split.map(|max| max.max(20 * MIB)).filter(|_| !is_expandable),
        divisions,
        is_expandable,
    })
}

fn run(settings: Settings, acts: &[Act]) -> Allocator {
    let mut allocator = Allocator::new(settings);
    for act in acts {
        let one_of = |all: Vec<u64>, index: usize| (!all.is_empty()).then(|| all[index % all.len()]);
        match *act {
            Act::Allocate { bytes, stream, origin } => {
                allocator.allocate(bytes, stream, origin);
            }
            Act::Free { index, is_used } => {
                if let Some(address) = one_of(allocator.allocated(), index) {
                    allocator.free(address, is_used, 1);
                }
            }
            Act::Complete { index } => {
                if let Some(address) = one_of(allocator.pending(), index) {
                    allocator.complete(address, 2);
                }
            }
            Act::EmptyCache => allocator.empty_cache(),
        }
    }
    allocator
}

/// The counters after each step (an allocation or a free) and the events that follow it until the next step.
fn truth(allocator: &Allocator) -> Vec<Levels> {
    let mut levels: Vec<Levels> = Vec::new();
    for event in &allocator.events {
        match levels.last_mut() {
            _ if matches!(event.action, Action::Alloc | Action::FreeRequested | Action::Oom) => {
                levels.push(event.levels);
            }
            Some(last) => *last = event.levels,
            None => {}
        }
    }
    levels
}

proptest! {
    /// Whatever a program does and whatever the settings are: all four counters are those of the allocator after each
    /// step, and each allocation has its own life.
    #[test]
    fn every_counter_is_that_of_the_allocator(acts in acts(), settings in settings(), protocol in 2_u8..=5) {
        let allocator = run(settings, &acts);
        let options = Options { protocol, ..Options::default() };
        let snapshot = Snapshot::of(&allocator, &stacks(), options);
        if allocator.events.is_empty() {
            return Ok(());
        }
        let profile = opened(&snapshot.pickle()).unwrap();
        prop_assert_eq!(warnings(&profile), Vec::<String>::new());
        let truth = truth(&allocator);
        let rank = &profile.ranks[0];
        prop_assert_eq!(rank.steps.len(), truth.len());
        for (step, wanted) in (0..).zip(&truth) {
            prop_assert_eq!(levels(&profile, 0, Moment::after(step)), *wanted, "after step {}", step);
        }
        prop_assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), allocator.levels());
        let allocations = allocator.events.iter().filter(|event| event.action == Action::Alloc).count();
        prop_assert_eq!(rank.tensors.len(), allocations);
        let live: u64 = rank
            .live(ttmem::model::PoolId::new(0).unwrap(), Moment::NEVER.earlier())
            .map(|tensor| rank.tensors.per_bank[tensor].get().unwrap())
            .sum();
        prop_assert_eq!(live, allocator.levels().allocated);
        // The allocated bytes are used instead of the sums of the tensors.
        let pool = ttmem::model::PoolId::new(0).unwrap();
        let sums = LiveSums::new(rank, pool);
        let account = Account::new(rank, pool).unwrap();
        prop_assert!(account.is_all_explained());
        for step in 0..rank.end() {
            prop_assert_eq!(account.explained(Moment::after(step)), Some(sums.at(Moment::after(step))));
        }
    }

    /// A ring buffer that has lost its beginning: the end is exact, and no level is negative or above the reserved
    /// memory.
    #[test]
    fn a_ring_of_any_length_ends_with_the_counters(acts in acts(), settings in settings(), ring in 1_usize..200) {
        let allocator = run(settings, &acts);
        let snapshot = Snapshot::of(&allocator, &stacks(), Options { ring, ..Options::default() });
        if allocator.events.is_empty() {
            return Ok(());
        }
        let profile = opened(&snapshot.pickle()).unwrap();
        prop_assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), allocator.levels());
        let kept = allocator.events.len().min(ring);
        let first = allocator.events.len() - kept;
        let has_lost = first > 0 && allocator.events[first - 1].levels.active > 0;
        let is_said = warnings(&profile).iter().any(|warning| warning.contains("the peak before that is unknown"));
        prop_assert_eq!(has_lost, is_said);
    }

    /// All forms of a snapshot give the same counters.
    #[test]
    fn all_versions_give_the_same_counters(acts in acts(), has_times in any::<bool>(), has_addresses in any::<bool>(), is_legacy in any::<bool>()) {
        let allocator = run(Settings::default(), &acts);
        if allocator.events.is_empty() {
            return Ok(());
        }
        let wanted = opened(&Snapshot::of(&allocator, &stacks(), Options::default()).pickle()).unwrap();
        let options = Options { has_times, has_addresses, is_legacy, has_frames: !is_legacy, ..Options::default() };
        let found = opened(&Snapshot::of(&allocator, &stacks(), options).pickle()).unwrap();
        let (wanted, found) = (&wanted.ranks[0], &found.ranks[0]);
        prop_assert_eq!(&wanted.pools[0].curves, &found.pools[0].curves);
        prop_assert_eq!(&wanted.tensors.per_bank, &found.tensors.per_bank);
        prop_assert_eq!((&wanted.tensors.born, &wanted.tensors.dies), (&found.tensors.born, &found.tensors.dies));
    }

    /// No file makes the reader panic, and none is read beyond its end.
    #[test]
    fn broken_files_are_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), is_cut in any::<bool>()) {
        let mut bytes = example().pickle();
        let at = at.index(bytes.len());
        if is_cut { bytes.truncate(at) } else { bytes[at] = byte }
        let found = opened(&bytes);
        if is_cut && at > 0 {
            prop_assert!(found.is_err());
        }
        if let Ok(profile) = found {
            let _ = summary(&[profile], &Request::default());
        }
    }
}

/// A program with something of everything.
fn example_allocator() -> Allocator {
    let mut allocator = Allocator::new(Settings::default());
    let weight = allocator.allocate(5 * MIB, 0, 0);
    let kept = allocator.allocate(100, 0, 1);
    let used = allocator.allocate(30 * MIB, 0, 0);
    allocator.free(used, true, 1);
    allocator.free(weight, false, 2);
    allocator.fail(64 * MIB, 3 * MIB, 0);
    allocator.complete(used, 2);
    let _ = kept;
    allocator
}

fn example() -> Snapshot {
    Snapshot::of(&example_allocator(), &stacks(), Options::default())
}

#[test]
fn compressed_snapshots_of_all_protocols_are_the_same() {
    let pickle = |protocol| {
        Snapshot::of(&example_allocator(), &stacks(), Options { protocol, ..Options::default() }).pickle()
    };
    let wanted = opened(&pickle(4)).unwrap();
    let same = |bytes: &[u8]| {
        let mut found = opened(bytes).unwrap();
        found.source = wanted.source.clone();
        assert_eq!(found, wanted);
    };
    for protocol in [2, 3, 5] {
        same(&pickle(protocol));
    }
    for protocol in [2, 4, 5] {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&pickle(protocol)).unwrap();
        same(&packed.finish().unwrap());
        same(&zstd::encode_all(pickle(protocol).as_slice(), 1).unwrap());
    }
    // `_format_viz` pads its input with zeros.
    same(&[pickle(4), vec![0; 7]].concat());
}

#[test]
fn a_list_of_segments_has_no_history() {
    let allocator = example_allocator();
    for bytes in [
        example().pickle_of_segments(),
        Snapshot { traces: vec![], ..example() }.pickle(),
        Snapshot { traces: vec![vec![]], ..example() }.pickle(),
    ] {
        let profile = opened(&bytes).unwrap();
        assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), allocator.levels());
        assert_eq!(profile.ranks[0].steps.len(), 0);
        assert!(warnings(&profile)[0].contains("cuda:0 has no history"), "{:?}", profile.warnings);
        assert!(summary(&[profile], &Request::default()).is_ok());
    }
}

#[test]
fn a_trace_of_the_fourth_device_only_belongs_to_it() {
    let options = Options { device: 3, ..Options::default() };
    let profile = opened(&Snapshot::of(&example_allocator(), &stacks(), options).pickle()).unwrap();
    assert_eq!(pool_names(&profile), ["cuda:3"]);
    assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), example_allocator().levels());
}

fn pool_names(profile: &Profile) -> Vec<&str> {
    profile.ranks[0].pools.iter().map(|pool| profile.text(pool.name)).collect()
}

/// `allocator_settings` with some keys.
fn settings_with(keys: &[&str]) -> Py {
    Py::Dict(keys.iter().map(|key| (text(key), Py::Int(-1))).collect())
}

#[test]
fn xpu_devices_are_known_by_their_settings_or_stacks() {
    let xpu = settings_with(&["PYTORCH_ALLOC_CONF", "expandable_segments"]);
    for device in [0, 1] {
        let options = Options { device, ..Options::default() };
        let snapshot = Snapshot::of(&example_allocator(), &stacks(), options);
        let profile = opened(&snapshot.with("allocator_settings", xpu.clone()).pickle()).unwrap();
        assert_eq!(pool_names(&profile), [format!("xpu:{device}")]);
        assert_eq!(warnings(&profile), [""; 0]);
        assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), example_allocator().levels());
    }
    for line in [
        ("empty_cache", "/lib/python3.12/site-packages/torch/xpu/memory.py", 25),
        ("c10::xpu::XPUCachingAllocator::NativeCachingAllocator::allocate(unsigned long)", "??", 0),
    ] {
        let mut snapshot = example();
        snapshot.shared[1] = frames(&[line, ("<module>", "/home/me/train.py", 31)]);
        assert_eq!(pool_names(&opened(&snapshot.pickle()).unwrap()), ["xpu:0"], "{line:?}");
    }
    // Newer versions of CUDA's allocator, and versions before 2.3, which have no settings.
    let cuda = settings_with(&["PYTORCH_ALLOC_CONF", "expandable_segments", "max_split_size"]);
    for settings in [cuda, dict([])] {
        let snapshot = example().with("allocator_settings", settings);
        assert_eq!(pool_names(&opened(&snapshot.pickle()).unwrap()), ["cuda:0"]);
    }
}

/// The example with other pools of segments.
fn with_segment_pools(pool: Option<&Py>) -> Profile {
    let mut snapshot = example();
    for segment in &mut snapshot.segments {
        let Py::Dict(items) = segment else { panic!("a segment") };
        items.retain(|(key, _)| *key != text("segment_pool_id"));
        items.extend(pool.map(|pool| (text("segment_pool_id"), pool.clone())));
    }
    opened(&snapshot.pickle()).unwrap()
}

#[test]
fn segments_have_private_pools_the_default_pool_or_an_unknown_pool() {
    let pair = |a, b| Py::Tuple(vec![Py::Int(a), Py::Int(b)]);
    for (pool, private) in [(pair(0, 0), None), (pair(1, 0), Some((1, 0))), (pair(0, 7), Some((0, 7)))] {
        let profile = with_segment_pools(Some(&pool));
        let reserved = &profile.ranks[0].reserved.private_pool;
        assert!(!reserved.is_empty() && reserved.iter().all(|found| *found == private), "{private:?}");
        assert_eq!(warnings(&profile), [""; 0]);
    }
    let unknown = [None, Some(Py::None), Some(Py::Int(1)), Some(Py::Tuple(vec![Py::Int(1)]))];
    for pool in unknown {
        let profile = with_segment_pools(pool.as_ref());
        assert!(profile.ranks[0].reserved.private_pool.iter().all(Option::is_none), "{pool:?}");
        let count = profile.ranks[0].reserved.len();
        let wanted = format!("{count} segments of cuda:0 have no segment_pool_id");
        assert!(warnings(&profile)[0].starts_with(&wanted), "{pool:?}: {:?}", profile.warnings);
    }
}

#[test]
fn entries_have_private_pools_the_default_pool_or_an_unknown_pool() {
    let pair = |a, b| Py::Tuple(vec![Py::Int(a), Py::Int(b)]);
    let wanted = "private pool: (0, 7)";
    for (pool, has_attribute) in
        [(Some(pair(0, 7)), true), (Some(pair(0, 0)), false), (Some(Py::None), false), (None, false)]
    {
        let mut snapshot = example();
        let Py::Dict(first) = &mut snapshot.traces[0][1] else { panic!("an entry") };
        first.extend(pool.clone().map(|pool| (text("pool_id"), pool)));
        let profile = opened(&snapshot.pickle()).unwrap();
        let ops = (0..profile.ops.len()).filter_map(OpId::new);
        let attributes: Vec<&str> =
            ops.filter_map(|op| profile.ops.get(op)?.attributes).map(|text| profile.text(text)).collect();
        assert_eq!(attributes.contains(&wanted), has_attribute, "{pool:?}: {attributes:?}");
        assert!(has_attribute || attributes.is_empty(), "{pool:?}: {attributes:?}");
    }
}

#[test]
fn a_stack_without_python_lines_is_named_after_the_caller_of_the_allocator() {
    let mut snapshot = example();
    snapshot.shared[1] = frames(&[
        ("torch::unwind::unwind()", "??", 0),
        ("c10::cuda::CUDACachingAllocator::Native::malloc(void**, unsigned long)", "x.cpp", 0),
        ("c10d::ProcessGroupNCCL::initNCCLComm(std::string const&)", "??", 0),
        ("main", "??", 0),
    ]);
    let profile = opened(&snapshot.pickle()).unwrap();
    let ops = (0..profile.ops.len()).filter_map(OpId::new);
    let op = ops.into_iter().find(|op| {
        profile.ops.name(*op).is_some_and(|name| profile.text(name) == "c10d::ProcessGroupNCCL::initNCCLComm")
    });
    assert_eq!(op.map(|op| profile.ops.loc(op)), Some(None));
}

#[test]
fn two_devices_are_ordered_by_time() {
    let mut snapshot = example();
    let other = Snapshot::of(&example_allocator(), &stacks(), Options { device: 1, ..Options::default() });
    snapshot.segments.extend(other.segments);
    snapshot.traces.push(other.traces[1].clone());
    let profile = opened(&snapshot.pickle()).unwrap();
    for pool in 0..2 {
        assert_eq!(levels(&profile, pool, Moment::NEVER.earlier()), example_allocator().levels());
    }
    let times: Vec<u64> = profile.ranks[0].times.value.clone();
    assert!(times.is_sorted());
}

#[test]
fn host_memory_is_a_pool_of_its_own() {
    let host = example();
    let snapshot = example()
        .with("host_segments", list(host.segments.clone()))
        .with("host_traces", list(host.traces[0].clone()));
    let profile = opened(&snapshot.pickle()).unwrap();
    let names: Vec<&str> = profile.ranks[0].pools.iter().map(|pool| profile.text(pool.name)).collect();
    assert_eq!(names, ["cuda:0", "pinned"]);
    assert_eq!(levels(&profile, 1, Moment::NEVER.earlier()), example_allocator().levels());
}

#[test]
fn unknown_actions_and_keys_are_counted() {
    let mut snapshot = example();
    snapshot.traces[0].push(dict([
        ("action", text("workspace_snapshot")),
        ("addr", Py::Int(1)),
        ("new", Py::None),
    ]));
    snapshot.traces[0].push(dict([("action", text("snapshot")), ("addr", Py::Int(0)), ("size", Py::Int(0))]));
    let profile = opened(&snapshot.with("new_key", list([Py::Int(1)])).pickle()).unwrap();
    assert_eq!(warnings(&profile), ["1 event \"workspace_snapshot\" of cuda:0 is unknown and skipped"]);
    assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), example_allocator().levels());
}

/// The annotations of a profile: name, start and end.
fn ranges(profile: &Profile) -> Vec<(String, u64, Option<u64>)> {
    let rank = &profile.ranks[0];
    (0..rank.calls.len())
        .map(|call| {
            let scope = rank.calls.scope[call];
            let ended = match rank.call_end(CallId::new(call).unwrap().index()) {
                CallEnd::At(time) => Some(time),
                _ => None,
            };
            (profile.text(rank.scopes.name[scope.index()]).to_owned(), rank.calls.began[call], ended)
        })
        .collect()
}

#[test]
fn annotations_of_all_versions_are_the_same_ranges() {
    const START: i128 = 1_794_702_759_000_000;
    let rows = [
        ("START", "outer", 0),
        ("START", "inner", 1),
        ("END", "inner", 2),
        ("END", "lost", 2),
        ("END", "outer", 3),
    ];
    let annotation = |(stage, name, time): (&str, &str, i128)| {
        dict([
            ("stage", text(stage)),
            ("name", text(name)),
            ("device", Py::Int(0)),
            ("time_us", Py::Int(START + time)),
        ])
    };
    let new = example().with("external_annotations", list(rows.map(annotation)));
    let mut old = example();
    old.traces[0].extend(rows.map(|(stage, name, time)| {
        dict([
            ("action", text("user_defined")),
            ("addr", Py::Int(0)),
            ("size", Py::Int(0)),
            ("time_us", Py::Int(START + time)),
            ("frames", frames(&[(stage, name, 0)])),
        ])
    }));
    for snapshot in [new, old] {
        let profile = opened(&snapshot.pickle()).unwrap();
        assert_eq!(
            ranges(&profile),
            [("outer".to_owned(), 500, Some(3500)), ("inner".to_owned(), 1500, Some(2500))]
        );
        assert_eq!(warnings(&profile), ["1 annotated range began before the history and was skipped"]);
    }
    // The first event is at 0, so nothing is known about the memory of a range before it.
    let rows = [("START", "early", -9), ("END", "early", -8), ("START", "late", -7), ("END", "late", 1)];
    let snapshot = example().with("external_annotations", list(rows.map(annotation)));
    let profile = opened(&snapshot.pickle()).unwrap();
    assert_eq!(ranges(&profile), [("late".to_owned(), 2500, Some(10_500))]);
    assert_eq!(warnings(&profile), ["1 annotated range ended before the history and was skipped"]);
}

/// The classes at the peak of a real snapshot, in tenths of MiB.
fn classes(name: &str) -> Vec<(String, u64)> {
    let answer = summary(&[read::open(&corpus(name)).unwrap()], &Request::default()).unwrap();
    let classes = &answer.ranks[0].peak.as_ref().unwrap().by_class_per_bank;
    let tenths = |bytes: u64| (bytes * 10 + MIB / 2) / MIB;
    classes
        .iter()
        .flat_map(ttmem::query::Named::iter)
        .map(|(name, bytes)| (name.to_owned(), tenths(*bytes)))
        .collect()
}

#[test]
fn nearly_all_memory_of_real_snapshots_has_a_class() {
    let of =
        |name: &str, class: &str| classes(name).iter().find(|(have, _)| have == class).map(|(_, size)| *size);
    // The loss is computed outside the model, and autograd keeps its input.
    assert_eq!(of("train_gpt2_30m", "activation"), Some(6885));
    assert_eq!(of("train_gpt2_30m", "unknown"), Some(0));
    // The gradients of the step before, which nothing has freed: as large as the parameters.
    assert_eq!((of("oom_gpt2_124m", "parameter"), of("oom_gpt2_124m", "gradient")), (Some(6235), Some(6306)));
    assert_eq!(of("oom_gpt2_124m", "unknown"), Some(0));
    // Workspaces from before the history.
    assert_eq!(of("wrapped_ring_gpt2_30m", "workspace"), Some(650));
    assert_eq!(of("wrapped_ring_gpt2_30m", "unknown"), Some(0));
}

#[test]
fn the_peak_of_an_incomplete_history_is_a_lower_bound() {
    for (name, source) in [("train_gpt2_30m", None), ("wrapped_ring_gpt2_30m", Some("recorded"))] {
        let answer = summary(&[read::open(&corpus(name)).unwrap()], &Request::default()).unwrap();
        assert_eq!(answer.ranks[0].pools.get("cuda:0").unwrap().peak_source, source, "{name}");
    }
    let segments = opened(&example().pickle_of_segments()).unwrap();
    let answer = summary(&[segments], &Request::default()).unwrap();
    assert_eq!(answer.ranks[0].pools.get("cuda:0").unwrap().peak_source, Some("recorded"));
}

#[test]
fn allocations_without_python_code_are_named_by_their_autograd_node() {
    let profile = read::open(&corpus("cpp_stacks_gpt2_30m")).unwrap();
    let ops = (0..profile.ops.len()).filter_map(OpId::new).filter_map(|op| profile.ops.name(op));
    let names: Vec<&str> = ops.map(|name| profile.text(name)).collect();
    assert!(names.contains(&"EmbeddingBackward0"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("unwind")), "{names:?}");
}

#[test]
fn labels_and_metadata_are_kept() {
    let mut snapshot = example();
    let Py::Dict(first) = &mut snapshot.traces[0][1] else { panic!("an entry") };
    assert_eq!(first[0].1, text("alloc"));
    first.push((text("user_metadata"), text("{\"layer\": 3}")));
    first.push((text("compile_context"), text("0/1")));
    first.push((text("pool_id"), Py::Tuple(vec![Py::Int(1), Py::Int(0)])));
    let address = first[1].1.clone();
    snapshot.traces[0].insert(
        2,
        dict([
            ("action", text("annotate")),
            ("addr", address),
            ("size", Py::Int(0)),
            ("time_us", Py::Int(1_794_702_759_000_000)),
            ("user_metadata", text("kv cache")),
        ]),
    );
    // A pair that restores the state of a graph's pool.
    for action in ["alloc", "free_requested", "free_completed"] {
        snapshot.traces[0].push(dict([
            ("action", text(action)),
            ("addr", Py::Int(77)),
            ("size", Py::Int(512)),
            ("time_us", Py::Int(1_794_702_760_000_000)),
            ("internal_metadata", text("mallocWithAddress")),
        ]));
    }
    let profile = opened(&snapshot.pickle()).unwrap();
    let rank = &profile.ranks[0];
    assert_eq!(rank.tensors.len(), 3);
    assert_eq!(rank.tensors.name[0].map(|name| profile.text(name)), Some("kv cache"));
    let op = profile.op_of(rank, 0).unwrap();
    let attributes = profile.text(op.attributes.unwrap());
    assert_eq!(attributes, "metadata: {\"layer\": 3}; compiled: 0/1; private pool: (1, 0)");
    assert_eq!(
        warnings(&profile),
        ["3 events of cuda:0 that restore the state of a CUDA graph are not counted as allocations"]
    );
}

#[test]
fn stacks_name_operations_and_lines() {
    let profile = opened(&example().pickle()).unwrap();
    let rank = &profile.ranks[0];
    assert_eq!(profile.op_name(rank, 0), Some("linear.forward"));
    assert_eq!(profile.op_loc(rank, 0), Some("/home/me/train.py:8"));
    let stack = profile.stacks.of_op(rank.op_id(0).unwrap()).unwrap();
    let lines: Vec<(&str, u32)> =
        profile.stacks.lines(stack).map(|frame| (profile.text(frame.function), frame.line)).collect();
    assert_eq!(lines, [("forward", 134), ("step", 8)]);
}

/// An expandable segment grows in two steps and loses its middle, so that the snapshot has two segments.
#[test]
fn the_middle_of_an_expandable_segment_can_be_unmapped() {
    const PAGE: u64 = 20 * MIB;
    let start = 1_u64 << 40;
    let entry = |time: u64, action: &str, page: u64, pages: u64| {
        dict([
            ("action", text(action)),
            ("addr", Py::Int((start + page * PAGE).into())),
            ("size", Py::Int((pages * PAGE).into())),
            ("stream", Py::Int(0)),
            ("time_us", Py::Int((1000 + time).into())),
        ])
    };
    let trace = [
        entry(0, "segment_map", 0, 1),
        entry(1, "alloc", 0, 1),
        entry(2, "segment_map", 1, 2),
        entry(3, "alloc", 1, 1),
        entry(4, "alloc", 2, 1),
        entry(5, "free_requested", 1, 1),
        entry(6, "free_completed", 1, 1),
        entry(7, "segment_unmap", 1, 1),
    ];
    let segment = |page: u64| {
        let address = Py::Int((start + page * PAGE).into());
        let size = Py::Int(PAGE.into());
        let block = [
            ("address", address.clone()),
            ("size", size.clone()),
            ("requested_size", size.clone()),
            ("state", text("active_allocated")),
        ];
        dict([
            ("device", Py::Int(0)),
            ("address", address),
            ("total_size", size),
            ("stream", Py::Int(0)),
            ("segment_type", text("large")),
            ("segment_pool_id", Py::Tuple(vec![Py::Int(0), Py::Int(0)])),
            ("is_expandable", Py::Bool(true)),
            ("blocks", list([dict(block)])),
        ])
    };
    let settings = dict([("expandable_segments", Py::Bool(true)), ("max_split_size", Py::Int(-1))]);
    let root = dict([
        ("segments", list([segment(0), segment(2)])),
        ("device_traces", list([list(trace)])),
        ("allocator_settings", settings),
    ]);
    let profile = opened(&dump(&root, &[], 4)).unwrap();
    assert_eq!(warnings(&profile), [""; 0]);
    let curve = profile.ranks[0].pools[0].curve(CurveKind::Reserved).unwrap();
    let mut reserved: Vec<u64> = curve.value.iter().map(|bytes| bytes / PAGE).collect();
    reserved.dedup();
    assert_eq!(reserved, [1, 3, 2]);
    assert_eq!(peak(&profile, CurveKind::Allocated), 3 * PAGE);
    let end = levels(&profile, 0, Moment::NEVER.earlier());
    assert_eq!([end.allocated, end.active, end.reserved], [2 * PAGE; 3]);
}

#[test]
fn one_address_used_many_times_is_many_allocations() {
    const COUNT: usize = 100_000;
    let mut allocator = Allocator::new(Settings::default());
    for _ in 0..COUNT {
        let address = allocator.allocate(MIB, 0, 0);
        allocator.free(address, false, 1);
    }
    let profile = opened(&Snapshot::of(&allocator, &stacks(), Options::default()).pickle()).unwrap();
    let rank = &profile.ranks[0];
    assert_eq!((rank.tensors.len(), rank.steps.len()), (COUNT, 2 * COUNT));
    assert!(
        rank.tensors
            .born
            .iter()
            .zip(&rank.tensors.dies)
            .all(|(born, dies)| dies.position() == born.position() + 1)
    );
    assert_eq!(peak(&profile, CurveKind::Allocated), MIB);
}

#[test]
fn a_kind_of_event_that_was_skipped_is_named() {
    let mut allocator = Allocator::new(Settings::default());
    for _ in 0..200 {
        let address = allocator.allocate(3 * MIB, 0, 0);
        allocator.free(address, false, 1);
    }
    let last = allocator.allocate(MIB, 0, 0);
    for (skipped, word) in [
        (Action::Alloc, "alloc"),
        (Action::FreeRequested, "free_requested"),
        (Action::FreeCompleted, "free_completed"),
    ] {
        let options = Options { skipped: Some(skipped), ..Options::default() };
        let profile = opened(&Snapshot::of(&allocator, &stacks(), options).pickle()).unwrap();
        let warnings = warnings(&profile);
        assert!(warnings.iter().any(|one| one.contains(&format!("has no {word} events"))), "{warnings:?}");
        assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), allocator.levels(), "{word}");
        if skipped != Action::Alloc {
            assert_eq!(peak(&profile, CurveKind::Allocated), 3 * MIB, "{word}");
        }
    }
    let _ = last;
}

#[test]
fn failed_allocations_have_what_was_free() {
    let profile = opened(&example().pickle()).unwrap();
    let [fault] = profile.ranks[0].faults.as_slice() else { panic!("one fault") };
    assert_eq!(fault.requested_total, Some(64 * MIB));
    let mut allocator = example_allocator();
    allocator.fail(65 * MIB, 3 * MIB, 0);
    let profile = opened(&Snapshot::of(&allocator, &stacks(), Options::default()).pickle()).unwrap();
    let requested: Vec<_> = profile.ranks[0].faults.iter().map(|fault| fault.requested_total).collect();
    assert_eq!(requested, [Some(64 * MIB), Some(65 * MIB)]);
}

/// The cause of a request that failed although this many bytes of the device were free.
fn cause_of(requested: u64, device_free: u64) -> (String, String) {
    let mut allocator = example_allocator();
    allocator.fail(requested, device_free, 0);
    let profile = opened(&Snapshot::of(&allocator, &stacks(), Options::default()).pickle()).unwrap();
    let oom = summary(&[profile], &Request::default()).unwrap().ranks.remove(0).oom.unwrap();
    (oom.cause.to_owned(), oom.statement.detail.clone().unwrap_or_default())
}

#[test]
fn a_request_that_the_device_had_room_for_reached_a_limit_of_the_program() {
    const GIB: u64 = 1 << 30;
    let (cause, detail) = cause_of(GIB, 100 * GIB);
    assert_eq!(cause, "memory_limit", "{detail}");
    assert!(detail.contains("so PyTorch refused it: the limit is less than"), "{detail}");
    let (cause, detail) = cause_of(GIB, GIB / 2);
    assert_eq!(cause, "capacity", "{detail}");
    // The driver needs some memory itself.
    let (cause, detail) = cause_of(GIB, GIB + GIB / 4);
    assert_eq!(cause, "unknown", "{detail}");
}

/// What to do if a request fails because the free memory is in blocks between others.
fn advice_if_fragmented(is_expandable: bool) -> String {
    let mut allocator = Allocator::new(Settings { is_expandable, ..Settings::default() });
    let blocks: Vec<u64> = (0..20).map(|_| allocator.allocate(20 * MIB, 0, 0)).collect();
    blocks.iter().step_by(2).for_each(|block| allocator.free(*block, false, 1));
    allocator.fail(100 * MIB, MIB, 0);
    let profile = opened(&Snapshot::of(&allocator, &stacks(), Options::default()).pickle()).unwrap();
    let oom = summary(&[profile], &Request::default()).unwrap().ranks.remove(0).oom.unwrap();
    assert_eq!(oom.cause, "fragmentation");
    oom.statement.advice.unwrap_or_default()
}

#[test]
fn expandable_segments_are_not_advised_where_they_are_enabled() {
    assert!(advice_if_fragmented(false).contains("expandable_segments:True"));
    assert!(advice_if_fragmented(true).starts_with("Expandable segments are enabled already."));
    let advised = |name: &str| {
        let ranks = summary(&[read::open(&corpus(name)).unwrap()], &Request::default()).unwrap().ranks;
        ranks[0].suggestions.iter().any(|one| one.rule == "reserved_unallocated")
    };
    assert!(advised("train_gpt2_30m"));
    // They are enabled; the next two histories begin late.
    for name in ["graph_expandable_pools", "wrapped_ring_gpt2_30m", "cpp_stacks_gpt2_30m"] {
        assert!(!advised(name), "{name}");
    }
}

fn message(bytes: &[u8]) -> String {
    match opened(bytes) {
        Err(error @ (Error::Corrupt { .. } | Error::UnknownFormat { .. } | Error::Empty { .. })) => {
            assert_eq!(error.exit_code(), 2);
            error.to_string().rsplit_once("snapshot.pickle: ").unwrap().1.to_owned()
        }
        Err(error @ Error::NoMemoryData { .. }) => {
            assert_eq!(error.exit_code(), 4);
            error.to_string().rsplit_once("snapshot.pickle: ").unwrap().1.to_owned()
        }
        other => panic!("{other:?}"),
    }
}

/// A pickle that begins like a snapshot.
fn hostile(rest: &[u8]) -> Vec<u8> {
    [b"\x80\x04}\x94\x8c\x08segments\x94".as_slice(), rest].concat()
}

#[test]
fn hostile_files_are_refused_with_their_position() {
    let code = "makes Python call code; a memory snapshot never contains it, so the file is refused";
    assert_eq!(message(&hostile(b"cos\nsystem\n")), format!("byte 16: opcode 'c' {code}"));
    assert_eq!(message(&hostile(b"\x8c\x02os\x8c\x06system\x93")), format!("byte 28: opcode 0x93 {code}"));
    assert_eq!(message(&hostile(b")R.")), format!("byte 17: opcode 'R' {code}"));
    assert_eq!(message(&hostile(b"h\xff")), "byte 17: memo 255 does not exist");
    assert_eq!(message(&hostile(b"]r\xff\xff\xff\xff")), "byte 21: memo 4294967295 is out of order");
    assert_eq!(message(&hostile(b"\x8a\x0a")), "byte 17: a number of 10 bytes");
    assert_eq!(
        message(&hostile(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f")),
        "byte 24: a text of 9223372036854775807 bytes is too long for a snapshot"
    );
    assert_eq!(message(&hostile(&b"(".repeat(2000))), "byte 1016: too deeply nested for a snapshot");
    assert_eq!(message(&hostile(b"u")), "byte 16: values without a mark");
    assert_eq!(message(&hostile(b".")), "byte 16: the pickle ends without a single value");
    assert_eq!(message(&hostile(b"")), "byte 15: the file ends inside the pickle; write the snapshot again");
    assert!(message(&[]).starts_with("empty file"));
    assert_eq!(
        message(&hostile(b"K\x01s.")),
        "the snapshot has no segments and no events; call _record_memory_history() before the program uses the device"
    );
    let other = dump(&dict([("weights", list([text("segments")]))]), &[], 4);
    assert!(message(&other).starts_with("unknown format (a pickle without `segments` and `device_traces`)"));
    // A list that contains itself.
    let cyclic = hostile(b"]\x94(h\x02h\x02esu.");
    assert!(opened(&cyclic).is_err());
}

/// A dictionary with another value of a key.
fn with(of: &Py, key: &str, value: Option<Py>) -> Py {
    let Py::Dict(items) = of else { panic!("{of:?}") };
    let others = items.iter().filter(|(have, _)| *have != text(key)).cloned();
    Py::Dict(others.chain(value.map(|value| (text(key), value))).collect())
}

const IMPOSSIBLE: [Option<Py>; 6] = [
    Some(Py::Int(-1)),
    Some(Py::Int(-(1 << 62))),
    Some(Py::Int((1 << 60) + 1)),
    Some(Py::Int((1 << 64) - 1)),
    Some(Py::Float(1e300)),
    None,
];

#[test]
fn events_with_impossible_numbers_are_counted() {
    let skipped = "1 event of cuda:0 has an impossible size or address, or none, and was skipped, so usage may be wrong";
    let entry = |address: &str, action: &str| {
        dict([
            ("action", text(action)),
            (address, Py::Int(1 << 40)),
            ("size", Py::Int(512)),
            ("stream", Py::Int(0)),
        ])
    };
    let (alloc, oom) = (entry("addr", "alloc"), entry("device_free", "oom"));
    let mut hostile: Vec<Py> = Vec::new();
    for value in IMPOSSIBLE.into_iter().chain([Some(text("512"))]) {
        hostile.push(with(&alloc, "size", value.clone()));
        hostile.push(with(&oom, "size", value.clone()));
        hostile.push(with(&oom, "device_free", value));
    }
    for value in [Some(Py::Int(-1)), Some(Py::Int((1 << 64) - 511)), Some(text("0x7f")), None] {
        hostile.push(with(&alloc, "addr", value));
    }
    for entry in hostile {
        for protocol in [2, 4] {
            let mut snapshot = Snapshot { protocol, ..example() };
            snapshot.traces[0].push(entry.clone());
            let profile = opened(&snapshot.pickle()).unwrap();
            assert_eq!(warnings(&profile), [skipped], "{entry:?}");
            assert_eq!(levels(&profile, 0, Moment::NEVER.earlier()), example_allocator().levels());
        }
    }
}

/// Usual entries are read by another way.
#[test]
fn impossible_events_among_many_usual_ones_are_counted() {
    let mut allocator = Allocator::new(Settings::default());
    for _ in 0..2000 {
        let address = allocator.allocate(MIB, 0, 0);
        allocator.free(address, true, 1);
    }
    let snapshot = Snapshot::of(&allocator, &stacks(), Options::default());
    let impossible = [Py::Int(1 << 61), Py::Int(i64::MAX.into()), Py::Int(-MIB_SIGNED), text("1 MiB")];
    let mut hostile = snapshot.clone();
    for (index, size) in (0..).zip(&impossible) {
        let at = 1000 + 500 * index;
        let entry = with(&hostile.traces[0][at], "size", Some(size.clone()));
        let entry = with(&entry, "addr", Some(Py::Int(1 << 40)));
        hostile.traces[0].insert(at, with(&entry, "action", Some(text("alloc"))));
    }
    let (usual, found) = (opened(&snapshot.pickle()).unwrap(), opened(&hostile.pickle()).unwrap());
    assert_eq!(
        warnings(&found),
        [
            "4 events of cuda:0 have an impossible size or address, or none, and were skipped, so usage may be wrong"
        ]
    );
    assert_eq!(peak(&found, CurveKind::Allocated), peak(&usual, CurveKind::Allocated));
    assert_eq!(found.ranks[0].tensors.len(), usual.ranks[0].tensors.len());
}

const MIB_SIGNED: i128 = 1 << 20;

#[test]
fn impossible_segments_and_blocks_are_counted() {
    let example = example();
    let is_used = |block: &&Py| matches!(block, Py::Dict(items) if items.contains(&(text("state"), text("active_allocated"))));
    let used = |segment: &Py| blocks_of(segment).iter().find(is_used).cloned();
    let (segment, block) =
        example.segments.iter().find_map(|segment| Some((segment.clone(), used(segment)?))).unwrap();
    let with_block = |block: Py| {
        let rest = blocks_of(&segment).iter().filter(|block| !is_used(block)).cloned();
        with(&segment, "blocks", Some(list(rest.chain([block]))))
    };
    let mut hostile: Vec<Py> = Vec::new();
    for value in IMPOSSIBLE.into_iter().chain([Some(text("512"))]) {
        hostile.push(with(&segment, "total_size", value.clone()));
        hostile.push(with_block(with(&block, "size", value.clone())));
        if value.is_some() {
            hostile.push(with_block(with(&block, "requested_size", value)));
        }
    }
    for value in [Py::Int(-1), Py::Int(0), Py::Int(1), text("0x7f")] {
        hostile.push(with_block(with(&block, "address", Some(value))));
    }
    hostile.push(with(&segment, "address", Some(Py::Int(-1))));
    hostile.push(with(&segment, "device", Some(Py::Int(-1))));
    hostile.push(with(&segment, "device", Some(text("cuda:0"))));
    for segment in hostile {
        let snapshot = Snapshot { segments: vec![segment.clone()], ..example.clone() };
        let profile = opened(&snapshot.pickle()).unwrap();
        let warning = "1 segment or block with an impossible address or size, or none, was skipped, so memory at the time of \
                       the snapshot is missing";
        assert!(
            warnings(&profile).iter().any(|found| found == warning),
            "{segment:?}: {:?}",
            profile.warnings
        );
        assert!(summary(&[profile], &Request::default()).is_ok());
    }
}

fn blocks_of(segment: &Py) -> &[Py] {
    let Py::Dict(items) = segment else { panic!("{segment:?}") };
    let blocks = items.iter().find(|(key, _)| *key == text("blocks"));
    match blocks {
        Some((_, Py::List(blocks))) => blocks,
        _ => &[],
    }
}

/// A small file can have the same long list in many segments.
#[test]
fn a_list_of_blocks_belongs_to_one_segment() {
    const COUNT: i128 = 2000;
    let block = |index: i128| {
        let address = Py::Int((1 << 40) + 512 * index);
        dict([("address", address), ("size", Py::Int(512)), ("state", text("active_allocated"))])
    };
    let blocks = list((0..COUNT).map(block));
    let segment = dict([
        ("device", Py::Int(0)),
        ("address", Py::Int(1 << 40)),
        ("total_size", Py::Int(512 * COUNT)),
        ("segment_pool_id", Py::Tuple(vec![Py::Int(0), Py::Int(0)])),
        ("blocks", Py::Shared(0)),
    ]);
    let root = dict([("segments", list((0..COUNT).map(|_| segment.clone())))]);
    let profile = opened(&dump(&root, &[blocks], 4)).unwrap();
    let skipped =
        format!("{} segments or blocks with an impossible address or size, or none, were skipped", COUNT - 1);
    assert!(warnings(&profile).iter().any(|found| found.starts_with(&skipped)), "{:?}", profile.warnings);
}

/// A compressed file can be a thousand times as long as on disk.
#[test]
fn a_file_of_nothing_but_values_is_refused() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&hostile(b"]\x94(")).unwrap();
    let values = vec![b'N'; 1 << 20];
    for _ in 0..65 {
        packed.write_all(&values).unwrap();
    }
    assert!(message(&packed.finish().unwrap()).ends_with("too many values"));
}

#[test]
fn enormous_memory_is_no_error() {
    let mut snapshot = example();
    for index in 0..40_i128 {
        let (start, bytes) = (index << 56, Py::Int(1 << 48));
        let block =
            [("address", Py::Int(start)), ("size", bytes.clone()), ("state", text("active_allocated"))];
        let segment =
            [("address", Py::Int(start)), ("total_size", bytes.clone()), ("blocks", list([dict(block)]))];
        snapshot.segments.push(dict(segment));
        let entry = [("action", text("segment_alloc")), ("addr", Py::Int(start)), ("size", bytes.clone())];
        snapshot.traces[0].push(dict(entry));
        snapshot.traces[0].push(dict([("action", text("alloc")), ("addr", Py::Int(start)), ("size", bytes)]));
    }
    let profile = opened(&snapshot.pickle()).unwrap();
    let answer = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    assert!(!ttmem::report::text(&answer, ttmem::report::Screen::default()).to_string().is_empty());
    ttmem::report::markdown(&answer, "x", ttmem::report::MarkdownSize::default(), &mut Vec::new()).unwrap();
}

#[test]
fn real_snapshots_survive_being_cut() {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(corpus("graph_expandable_pools")).unwrap()).read_to_end(&mut bytes).unwrap();
    for at in (1..bytes.len()).step_by(bytes.len() / 50) {
        assert!(opened(&bytes[..at]).is_err(), "{at}");
    }
}
