//! Histories of real allocators, taken from an H200, against what the allocators counted themselves.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use ttmem::history::Contents;
use ttmem::history::snapshot::*;
use ttmem::model::{CurveKind, Profile};
use ttmem::read;
use ttmem::record::live::Recorder;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/torch_snapshot")
}

fn snapshot(name: &str) -> Value {
    let file = File::open(corpus().join(format!("{name}.json.gz"))).unwrap();
    serde_json::from_reader(GzDecoder::new(file)).unwrap()
}

/// What the allocator counted, in bytes.
fn fact(name: &str, key: &str) -> u64 {
    let facts = std::fs::read_to_string(corpus().join("facts.jsonl")).unwrap();
    let facts = facts.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    facts.into_iter().find(|fact| fact["name"] == name).unwrap()[key].as_u64().unwrap()
}

struct JsonTrace<'a>(&'a [Value]);

impl Trace for JsonTrace<'_> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn time_us(&self, index: usize) -> Result<u64, Infallible> {
        Ok(self.0[index]["time_us"].as_u64().unwrap())
    }

    fn fingerprint(&self, index: usize) -> Result<Fingerprint, Infallible> {
        let entry = &self.0[index];
        let number = |key: &str| entry[key].as_u64().unwrap_or(0);
        Ok(Fingerprint::new(entry["action"].as_str().unwrap(), number("addr"), number("size")))
    }
}

impl JsonTrace<'_> {
    fn entries(&self, first: usize) -> Entries<LiveOrigin> {
        let mut entries = Entries::default();
        for entry in &self.0[first..] {
            let Some(action) = action_of(entry["action"].as_str().unwrap()) else { continue };
            let key = match AddressKey::of(action) {
                AddressKey::Addr => "addr",
                AddressKey::DeviceFree => "device_free",
            };
            entries.push(Entry {
                action,
                address: entry[key].as_u64().unwrap(),
                bytes: entry["size"].as_u64().unwrap(),
                time_us: entry["time_us"].as_u64().unwrap(),
                origin: LiveOrigin {
                    stack: None,
                    within: Within::new(entry["user_metadata"].as_str(), false),
                },
            });
        }
        entries
    }
}

fn contents(snapshot: &Value) -> Contents {
    let mut segments = Segments::default();
    for segment in snapshot["segments"].as_array().unwrap() {
        segments.segment(Segment {
            address: segment["address"].as_u64().unwrap(),
            total_size: segment["total_size"].as_u64().unwrap(),
            is_expandable: segment["is_expandable"].as_bool().unwrap(),
        });
        for block in segment["blocks"].as_array().unwrap() {
            segments.block(SegmentBlock {
                address: block["address"].as_u64(),
                size: block["size"].as_u64().unwrap(),
                requested_size: block["requested_size"].as_u64(),
                state: BlockState::new(block["state"].as_str().unwrap()),
                origin: None,
            });
        }
    }
    segments.finish()
}

fn trace(snapshot: &Value) -> JsonTrace<'_> {
    JsonTrace(snapshot["device_traces"][0].as_array().unwrap())
}

/// What a recording says that takes the history down in one piece.
fn recorded(name: &str) -> Profile {
    let snapshot = snapshot(name);
    let trace = trace(&snapshot);
    let mut progress = HistoryCursor::default();
    let (Ok(first), Ok(mark)) = (progress.first_new(&trace), Mark::end_of(&trace));
    let update = progress.advance(trace.entries(first), contents(&snapshot), mark, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let pool = recorder.pool("cuda:0", true);
    let [other, allocation] = [OTHER, ALLOCATION].map(|name| {
        let name = recorder.text(name);
        recorder.op(name, None, None)
    });
    let began = trace.time_us(0).map(|first| first * 1000).unwrap();
    for row in update.into_rows(RowContext { pool, allocation, other, began, now: 0 }) {
        let (row, call) = row.in_call();
        recorder.history(row, call);
    }
    recorder.finish().unwrap();
    read::open(path.to_str().unwrap()).unwrap()
}

/// The highest and the last value of a curve.
fn levels(profile: &Profile, kind: CurveKind) -> (u64, u64) {
    let curve = profile.ranks[0].pools[0].curve(kind).unwrap();
    (curve.value.iter().copied().max().unwrap(), curve.value.last().copied().unwrap())
}

#[test]
fn levels_are_those_of_the_allocator() {
    for name in ["train_gpt2_30m", "graph_expandable_pools", "oom_gpt2_124m"] {
        let profile = recorded(name);
        let fact = |key| fact(name, key);
        assert_eq!(
            levels(&profile, CurveKind::Allocated),
            (fact("peak_allocated"), fact("allocated")),
            "{name}"
        );
        assert_eq!(
            levels(&profile, CurveKind::Reserved),
            (fact("peak_reserved"), fact("reserved")),
            "{name}"
        );
        assert_eq!(levels(&profile, CurveKind::Requested).0, fact("requested_peak"), "{name}");
        assert!(profile.warnings.is_empty(), "{name}: {:?}", profile.warnings);
    }
}

#[test]
fn a_ring_that_has_lost_its_beginning_is_followed_from_its_end() {
    let name = "wrapped_ring_gpt2_30m";
    let profile = recorded(name);
    let (highest, last) = levels(&profile, CurveKind::Allocated);
    assert_eq!(last, fact(name, "allocated"));
    assert!(highest <= fact(name, "peak_allocated"));
    assert_eq!(levels(&profile, CurveKind::Reserved).1, fact(name, "reserved"));
}

#[test]
fn a_trace_that_is_read_in_pieces_is_as_one() {
    let snapshot = snapshot("train_gpt2_30m");
    let whole = trace(&snapshot);
    let all = whole.entries(0);
    let mut progress = HistoryCursor::default();
    let mut pieces = Entries::default();
    let mut counts = BTreeMap::new();
    for until in [1, 40, 41, 1000, 2999, whole.0.len(), whole.0.len()] {
        // The ring has forgotten what was read long ago.
        let part = JsonTrace(&whole.0[until.saturating_sub(2500)..until]);
        let (Ok(first), Ok(mark)) = (progress.first_new(&part), Mark::end_of(&part));
        let new = part.entries(first);
        new.iter().for_each(|&entry| pieces.push(entry));
        counts.insert(until, new.len());
        let update = progress.advance(new, Contents::default(), mark, None);
        assert_eq!(update.len(), counts[&until]);
    }
    assert_eq!(counts[&whole.0.len()], 0, "the same snapshot once more has nothing new");
    assert!(pieces.iter().eq(all.iter()));
}
