//! Ways out of memory failures in runtime logs, applied to the programs and run by the testkit's model of the runtime. (For
//! captures, `python/ttnn_tests` does the same with real ttnn.)

use std::io::Write as _;

use serde_json::Value;
use ttmem::query::{Request, summary};
use ttmem::{read, report};
use ttmem_testkit::sweep;
use ttmem_testkit::tt::{Change, Chip, ErrorEra, Options, Scenario, Truth, make};

/// The log of a scenario, and its truth.
fn made(scenario: Scenario, options: &Options) -> (Vec<u8>, Truth) {
    let mut log = Vec::new();
    let truth = make(scenario, options, &mut log).unwrap();
    (log, truth)
}

/// The out-of-memory error in the answer to a log.
fn oom(log: &[u8]) -> Value {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(log).unwrap();
    let profile = read::open(file.path().to_str().unwrap()).unwrap();
    let answer = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let mut json = Vec::new();
    report::json(&answer, &mut json).unwrap();
    let mut answer: Value = serde_json::from_slice(&json).unwrap();
    answer["ranks"][0]["oom"].take()
}

fn name(loc: &Value) -> String {
    loc.as_str().unwrap().trim_matches('"').to_owned()
}

/// A way out as a change of the scenario.
fn change(way: &Value, failed: &str) -> Change {
    let tensors = || way["tensors"].as_array().unwrap().iter().map(|tensor| name(&tensor["loc"])).collect();
    let last = Some(failed.to_owned());
    match way["kind"].as_str().unwrap() {
        "bfloat8_b" => Change { narrower: tensors(), last, ..Change::default() },
        "allocate_first" => Change { first: tensors(), last, ..Change::default() },
        "move_to_dram" => Change { in_dram: tensors(), last, ..Change::default() },
        "allocate_in_dram" => Change { in_dram: vec![failed.to_owned()], last, ..Change::default() },
        other => panic!("{other}"),
    }
}

/// The same change for one tensor less.
fn less(change: &Change) -> Option<Change> {
    let mut less = change.clone();
    let is_less = [&mut less.narrower, &mut less.first, &mut less.in_dram]
        .into_iter()
        .any(|tensors| tensors.pop().is_some());
    let is_other = change.in_dram != change.last.iter().cloned().collect::<Vec<_>>();
    (is_less && is_other).then_some(less)
}

#[test]
fn ways_out_work_in_the_runtime_and_less_does_not() {
    let mut kinds: Vec<String> = Vec::new();
    for scenario in [Scenario::OomCapacity, Scenario::OomFragmentation] {
        let chips = [Chip::Wormhole, Chip::BlackholeP150, Chip::BlackholeP100].into_iter().cycle();
        for (seed, chip) in (0..sweep::cases(12, 300)).zip(chips) {
            let options = Options { seed, chip, error_era: ErrorEra::default(), ..Options::default() };
            let (log, truth) = made(scenario, &options);
            assert!(truth.oom.is_some());
            let oom = oom(&log);
            assert_eq!(oom["replay"]["fails"], true, "{scenario:?} {seed} {chip:?}: {oom}");
            let ways = oom["ways_out"].as_array().unwrap();
            assert!(!ways.is_empty(), "{scenario:?} {seed} {chip:?}: {oom}");
            for way in ways {
                kinds.push(way["kind"].as_str().unwrap().to_owned());
                let change = change(way, &name(&oom["loc"]));
                let less = less(&change);
                let (_, truth) = made(scenario, &Options { change, ..options.clone() });
                assert!(truth.oom.is_none(), "{scenario:?} {seed} {chip:?}: {way}");
                if let Some(change) = less {
                    let (_, truth) = made(scenario, &Options { change, ..options.clone() });
                    assert!(truth.oom.is_some(), "{scenario:?} {seed} {chip:?}, one less: {way}");
                }
            }
        }
    }
    for kind in ["bfloat8_b", "allocate_first"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}");
    }
}

#[test]
fn a_clash_in_a_log_names_the_lowest_tensor_only_at_the_address_of_the_message() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/circular-buffers-clash.log");
    let log = std::fs::read_to_string(path).unwrap();
    let clash = &oom(log.as_bytes())["clash"];
    assert!(clash["lowest_tensor"].is_null() && clash["region_start"].is_null(), "{clash}");
    // The only tensor has 32 KiB, below the region for small buffers.
    let possible = log.replace("allocated at 1466368", "allocated at 1433600");
    assert_ne!(possible, log);
    let found = oom(possible.as_bytes());
    assert_eq!(found["clash"]["lowest_tensor"]["name"], "%1", "{found}");
    assert_eq!(found["clash"]["lowest_tensor"]["address"], 1_433_600);
    // It is the operand of the operation that failed, which is left alone.
    assert_eq!(found["ways_out"].as_array().unwrap().len(), 0, "{found}");
}
