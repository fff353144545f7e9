//! A number that is shown twice is the same number: text, JSON, Markdown and files of every corpus log.
//!
//! The JSON is the measure. Each number that another form shows is made from the JSON by the rule of that form
//! and must stand there.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use ttmem::query::{Request, summary};
use ttmem::report::{self, Screen};

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| path.display().to_string())
        .collect();
    files.sort();
    assert!(files.len() >= 6, "the corpus is gone");
    files
}

struct Forms {
    json: Value,
    text: String,
    markdown: String,
}

fn forms(file: &str) -> Forms {
    let profile = ttmem::read::open(file).unwrap();
    let answer = summary(&[profile], &Request::default()).unwrap();
    let mut json = Vec::new();
    report::json(&answer, &mut json).unwrap();
    let screen = Screen { width: 400, rows: Some(1000), ..Screen::default() };
    let mut markdown = Vec::new();
    report::markdown(&answer, "name", report::MarkdownSize::default(), &mut markdown).unwrap();
    Forms {
        json: serde_json::from_slice(&json).unwrap(),
        text: report::text(&answer, screen).to_string(),
        markdown: String::from_utf8(markdown).unwrap(),
    }
}

/// MiB with three digits, as the seeds' formats have it.
fn mib(bytes: u64) -> String {
    let thousandths = (u128::from(bytes) * 1000 + (1 << 19)) >> 20;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

/// The number with one digit in the unit that the text chooses for numbers up to `largest`.
fn tenths(bytes: u64, largest: u64) -> String {
    let (shift, unit) = if largest < 16 << 20 { (10, "KiB") } else { (20, "MiB") };
    if bytes > 0 && bytes < (1 << shift) / 20 {
        return format!("<0.1 {unit}");
    }
    let tenths = (u128::from(bytes) * 10 + (1u128 << (shift - 1))) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64()
}

#[test]
fn pools_show_the_same_peaks_everywhere() {
    for file in corpus() {
        let forms = forms(&file);
        for rank in forms.json["ranks"].as_array().unwrap() {
            for (name, pool) in rank["pools"].as_object().unwrap() {
                let (Some(peak), Some(all)) =
                    (number(&pool["peak_per_bank"]), number(&pool["capacity_per_bank"]))
                else {
                    continue;
                };
                let row = format!("| {name} | {} |", mib(peak));
                assert!(forms.markdown.contains(&row), "{file}: {row}");
                if all > 0 {
                    let figure = tenths(peak, all);
                    let figure = figure.split(' ').next().unwrap();
                    let shown = format!("{figure} of {} per bank", tenths(all, all));
                    assert!(forms.text.contains(&shown), "{file}: {name}: {shown}\n{}", forms.text);
                }
                assert_eq!(
                    rank["peaks"][name]["allocated_per_bank"], pool["peak_per_bank"],
                    "{file}: {name}"
                );
                assert_eq!(rank["peaks"][name]["step"], pool["peak_step"], "{file}: {name}");
            }
        }
    }
}

#[test]
fn what_is_alive_is_the_same_everywhere_and_adds_up() {
    for file in corpus() {
        let forms = forms(&file);
        for rank in forms.json["ranks"].as_array().unwrap() {
            let peak = &rank["peak"];
            let Some(live) = peak["live"].as_array() else { continue };
            let sum: u64 = live.iter().filter_map(|tensor| number(&tensor["per_bank"])).sum();
            assert_eq!(Some(sum), number(&peak["explained_per_bank"]), "{file}");
            let classes: u64 =
                peak["by_class_per_bank"].as_object().unwrap().values().filter_map(number).sum();
            assert_eq!(sum, classes, "{file}");
            let allocated = number(&peak["allocated_per_bank"]).unwrap();
            let rest = i64::try_from(allocated).unwrap() - i64::try_from(sum).unwrap();
            assert_eq!(peak["unexplained_per_bank"].as_i64(), Some(rest), "{file}");
            if peak["step"].is_null() {
                continue;
            }
            for (place, bytes) in group_sizes(live).into_iter().take(20).enumerate() {
                // Markdown has at least three of them, however tight it gets.
                let shown = || forms.markdown.contains(&format!("| {} |", mib(bytes)));
                assert!(place >= 3 || shown(), "{file}: {bytes}");
                let largest = allocated.max(sum);
                assert!(forms.text.contains(&tenths(bytes, largest)), "{file}: {bytes}");
            }
        }
    }
}

/// The sizes of tensors that are alike, the largest first.
fn group_sizes(live: &[Value]) -> Vec<u64> {
    let mut groups: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in live {
        let parts =
            ["shape", "dtype", "class", "per_bank", "op", "made_in"].map(|name| tensor[name].to_string());
        let key = format!("{parts:?} {}", tensor["born_step"].is_null());
        *groups.entry(key).or_default() += number(&tensor["per_bank"]).unwrap();
    }
    let mut sizes: Vec<u64> = groups.into_values().collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

#[test]
fn the_files_of_a_report_show_the_same_numbers() {
    for file in corpus() {
        let forms = forms(&file);
        let ranks = forms.json["ranks"].as_array().unwrap();
        // Of several ranks the files are those of the one with the highest peak; all of ours are alike.
        let rank = &ranks[0];
        let folder = tempfile::tempdir().unwrap();
        let mut profile = ttmem::read::open(&file).unwrap();
        ttmem::store::write_report(&mut profile, None, folder.path(), "name").unwrap();
        let read = |ending: &str| -> Value {
            let text = std::fs::read(folder.path().join(format!("name_{ending}.json"))).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let (memory, operations, registry) = (read("memory"), read("operations"), read("inputs_registry"));
        let reported = &rank["operations"]["reported"];
        assert_eq!(&memory["metadata"]["total_operations"], reported, "{file}");
        assert_eq!(number(reported), Some(operations.as_array().unwrap().len() as u64), "{file}");
        for (name, pool) in rank["pools"].as_object().unwrap() {
            assert_eq!(
                memory["metadata"]["memory_config"][name]["num_banks"], pool["banks"],
                "{file}: {name}"
            );
            let at_peak = |row: &&Value| row["step"] == pool["peak_step"];
            if let Some(row) = memory["operations"].as_array().unwrap().iter().find(at_peak) {
                let shown = row["memory"][name]["totalBytesAllocatedPerBank_MB"].as_f64().unwrap();
                assert_eq!(
                    format!("{shown:.3}"),
                    mib(number(&pool["peak_per_bank"]).unwrap()),
                    "{file}: {name}"
                );
            }
        }
        if let Some(bytes) = number(&rank["weights"]["bytes"]) {
            assert_eq!(number(&registry["metadata"]["total_weight_bytes"]), Some(bytes), "{file}");
            assert_eq!(registry["metadata"]["total_weights"], rank["weights"]["count"], "{file}");
        }
        let kept = folder.path().join("name.ttmem").display().to_string();
        let again = summary(&[ttmem::read::open(&kept).unwrap()], &Request::default()).unwrap();
        let again = serde_json::to_value(&again).unwrap();
        assert_eq!(again["ranks"], forms.json["ranks"], "{file}");
    }
}

#[test]
fn counts_weights_and_suspects_are_the_same_everywhere() {
    for file in corpus() {
        let forms = forms(&file);
        for rank in forms.json["ranks"].as_array().unwrap() {
            let reported = number(&rank["operations"]["reported"]).unwrap();
            assert!(forms.markdown.contains(&format!("| Ops: {reported} |")), "{file}");
            let counted: u64 =
                rank["distribution"].as_array().unwrap().iter().filter_map(|row| number(&row["count"])).sum();
            assert_eq!(counted, reported, "{file}");
            if let Some(bytes) = number(&rank["weights"]["bytes"]) {
                let hundredths = (u128::from(bytes) * 100 + (1 << 19)) >> 20;
                let shown = format!("Weights: {}.{:02} MB", hundredths / 100, hundredths % 100);
                assert!(forms.markdown.contains(&shown), "{file}: {shown}");
            }
            for increase in rank["increases"].as_array().unwrap() {
                let shown = format!("| +{} |", mib(number(&increase["added_per_bank"]).unwrap()));
                assert!(forms.markdown.contains(&shown), "{file}: {shown}");
            }
            if let Some(share) = rank["padding"]["overhead_pct"].as_f64() {
                assert!(forms.markdown.contains(&format!("Padding Overhead: {share:.1}%")), "{file}");
            }
        }
    }
}
