//! What is expected of classes, held against what they took: recordings whose truth is known.

use std::path::Path;

use proptest::prelude::*;
use ttmem::model::{Class, Expected, Profile};
use ttmem::query::{self, Expectations, ExpectedSummary, Request, RunFilter};
use ttmem::record::live::{Allocation, Place, Recorder};
use ttmem::{read, report};
use ttmem_testkit::sweep;

/// A program that is recorded.
struct Program {
    recorder: Recorder,
    folder: tempfile::TempDir,
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::recording_to(folder.path().join("live.ttmem")).unwrap();
        Self { recorder, folder }
    }

    fn allocate(&mut self, pool: &str, class: Class, bytes: u64) -> Place {
        let pool = self.recorder.pool(pool, false);
        let name = self.recorder.text("aten::empty");
        let op = self.recorder.op(name, None, None);
        self.recorder.allocated(Allocation { pool, bytes, op, ty: None, class, within: None }).unwrap()
    }

    fn expect(&mut self, class: Class, bytes: u64) {
        let how = self.recorder.text("by hand");
        self.recorder.expected(Expected { class, bytes, how });
    }

    fn profile(mut self) -> Profile {
        self.recorder.finish().unwrap();
        read::open(self.folder.path().join("live.ttmem").to_str().unwrap()).unwrap()
    }
}

fn corpus(name: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name);
    read::open(path.to_str().unwrap()).unwrap()
}

fn request(expect: &str) -> Request {
    Request { expect: Some(expect.parse().unwrap()), ..Request::default() }
}

fn rows(profile: &Profile, request: &Request) -> Vec<ExpectedSummary> {
    let summary = query::summary(std::slice::from_ref(profile), request).unwrap();
    summary.ranks.into_iter().next().unwrap().expected
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(32, 1000), failure_persistence: None, ..ProptestConfig::default() })]

    /// The most that a class took is the most of what it added up to, step by step; others do not matter.
    #[test]
    fn measured_is_the_most_that_a_class_took_at_once(
        acts in prop::collection::vec((any::<bool>(), 0usize..3, 0usize..2, 0u64..1000), 1..60)
    ) {
        const CLASSES: [Class; 3] = [Class::Parameter, Class::KvCache, Class::Temporary];
        let mut program = Program::new();
        let (mut alive, mut now, mut most) = (Vec::new(), [0u64; 3], [None; 3]);
        for (is_free, class, pool, bytes) in acts {
            if is_free && !alive.is_empty() {
                let index = usize::try_from(bytes).unwrap() % alive.len();
                let (place, class, bytes): (Place, usize, u64) = alive.swap_remove(index);
                program.recorder.freed(place, None);
                now[class] -= bytes;
            } else {
                alive.push((program.allocate(["cpu", "cuda:0"][pool], CLASSES[class], bytes), class, bytes));
                now[class] += bytes;
                most[class] = most[class].max(Some(now[class]));
            }
        }
        for class in CLASSES {
            program.expect(class, 500);
        }
        let found = rows(&program.profile(), &Request::default());
        prop_assert_eq!(found.len(), 3);
        for row in found {
            let class = CLASSES.iter().position(|class| *class == row.class).unwrap();
            prop_assert_eq!(row.measured_bytes, most[class]);
            let by_pool = row.measured_by_pool.map(|pools| pools.iter().map(|(_, bytes)| *bytes).sum::<u64>());
            prop_assert_eq!(by_pool, most[class]);
            let difference = most[class].map(|most| i64::try_from(most).unwrap() - 500);
            prop_assert_eq!(row.difference_bytes, difference);
            prop_assert_eq!(row.measured_step.is_some(), most[class].is_some());
            prop_assert_eq!(row.note.is_some(), most[class].is_none());
        }
    }
}

#[test]
fn a_class_is_measured_when_it_was_largest_not_at_the_peak() {
    let mut program = Program::new();
    let cache = program.allocate("cpu", Class::KvCache, 1000);
    program.recorder.freed(cache, None);
    program.allocate("cpu", Class::Activation, 5000);
    program.allocate("cpu", Class::KvCache, 100);
    program.expect(Class::KvCache, 800);
    let (profile, request) = (program.profile(), Request::default());
    let [row] = &rows(&profile, &request)[..] else { panic!() };
    assert_eq!(
        (row.measured_bytes, row.difference_bytes, row.difference_pct),
        (Some(1000), Some(200), Some(25.0))
    );
    let summary = query::summary(std::slice::from_ref(&profile), &request).unwrap();
    assert!(summary.ranks[0].peak.as_ref().unwrap().step > row.measured_step);
}

#[test]
fn what_is_asked_for_goes_before_what_was_recorded_and_the_last_word_counts() {
    let mut program = Program::new();
    program.allocate("cpu", Class::Parameter, 64);
    program.expect(Class::Parameter, 1);
    program.expect(Class::Parameter, 32);
    program.expect(Class::Gradient, 7);
    let profile = program.profile();
    let found = |request: &Request| -> Vec<(Class, u64, &str)> {
        rows(&profile, request).iter().map(|row| (row.class, row.expected_bytes, row.from)).collect()
    };
    let recorded = [(Class::Parameter, 32, "recording"), (Class::Gradient, 7, "recording")];
    assert_eq!(found(&Request::default()), recorded);
    assert_eq!(found(&request("")), recorded);
    // What others call weights are parameters here.
    for asked in ["params=9,dtype=int8", "weight=9"] {
        assert_eq!(found(&request(asked))[0], (Class::Parameter, 9, "request"), "{asked}");
        assert_eq!(found(&request(asked)).len(), 2);
    }
}

#[test]
fn any_evidence_with_tensors_can_be_asked() {
    let profile = corpus("tt_log/vae-decoder.log");
    let [row] = &rows(&profile, &request("params=9462144,dtype=f32"))[..] else { panic!() };
    assert_eq!((row.class, row.from), (Class::Weight, "request"));
    let measured = row.measured_bytes.unwrap();
    assert!(measured >= 9_462_144, "weights take what they were declared as, and padding: {measured}");
    // Of one run it cannot be more than of all.
    let one = Request { run: RunFilter::Number(1), ..request("weight=1") };
    assert!(rows(&profile, &one)[0].measured_bytes.unwrap() <= measured);
    let [row] = &rows(&profile, &request("kv_cache=1GiB"))[..] else { panic!() };
    assert_eq!((row.measured_bytes, row.difference_bytes), (None, None));
    assert!(row.note.unwrap().contains("update_cache"));
}

#[test]
fn expectations_and_suggestions_agree_on_caches() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let mut with_caches = 0;
    for log in std::fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path()) {
        if log.extension().is_none_or(|end| end != "log") {
            continue;
        }
        let profile = read::open(log.to_str().unwrap()).unwrap();
        let summary = query::summary(std::slice::from_ref(&profile), &request("kv_cache=1GiB")).unwrap();
        for rank in &summary.ranks {
            let suggested = rank.suggestions.iter().find(|suggestion| suggestion.rule == "kv_cache");
            let measured = rank.expected[0].measured_bytes;
            let Some(suggested) = suggested else { continue };
            with_caches += 1;
            // Half of the caches is saved, so there is at least twice that.
            let measured = measured.unwrap_or_else(|| panic!("{}: {}", log.display(), suggested.message));
            assert!(measured >= 2 * suggested.saves_bytes.unwrap(), "{}: {measured}", log.display());
        }
    }
    assert!(with_caches > 0);
}

#[test]
fn evidence_without_tensors_measures_nothing() {
    for name in ["tt_train/tinyllama.log", "memory_profile/threads.json"] {
        let [row] = &rows(&corpus(name), &request("parameter=1GiB"))[..] else { panic!() };
        assert_eq!(
            (row.measured_bytes, row.difference_bytes, row.difference_pct),
            (None, None, None),
            "{name}"
        );
        assert!(row.note.unwrap().contains("no tensors"), "{name}");
    }
}

#[test]
fn who_asks_where_nothing_is_expected_is_told() {
    let profile = corpus("tt_log/vae-decoder.log");
    let error = query::summary(std::slice::from_ref(&profile), &request("")).unwrap_err();
    assert!(error.to_string().contains("tracker.expect"), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(rows(&profile, &Request::default()).is_empty());
}

#[test]
fn it_is_shown_with_signs_and_unknown_is_said() {
    let mut program = Program::new();
    program.allocate("cpu", Class::Parameter, 3 << 20);
    program.expect(Class::Parameter, 4 << 20);
    program.expect(Class::KvCache, 1 << 30);
    let profile = program.profile();
    let summary = query::summary(&[profile], &Request::default()).unwrap();
    let text = report::text(&summary, report::Screen::default()).to_string();
    assert!(text.contains("parameter   4.0 MiB   3.0 MiB    −1.0 MiB  −25.0%  by hand"), "{text}");
    assert!(text.contains("kv_cache   1.00 GiB   unknown     unknown          by hand"), "{text}");
    assert!(text.contains("kv_cache: no KV cache was found"), "{text}");
    let mut markdown = Vec::new();
    report::markdown(&summary, "x", report::MarkdownSize::default(), &mut markdown).unwrap();
    let markdown = String::from_utf8(markdown).unwrap();
    assert!(markdown.contains("## Expected and Measured"), "{markdown}");
    assert!(markdown.contains("| parameter | 4.000 | 3.000 | −1.000 | −25.0% | by hand |"), "{markdown}");
    assert!(markdown.contains("| kv_cache | 1024.000 | unknown | unknown | – | by hand |"), "{markdown}");
}

#[test]
fn expectations_add_up_unless_they_contradict() {
    let mut some: Expectations = "gradient=1".parse().unwrap();
    some.extend("optimizer=2".parse().unwrap()).unwrap();
    assert_eq!(some.iter().count(), 2);
    assert!(some.extend("gradient=3".parse().unwrap()).is_err());
    assert!(!some.is_empty() && Expectations::default().is_empty());
}
