//! On a terminal, the summary fits its height; without one, it is complete.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::pseudo_terminal::{Place, Shown};

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

/// A place with the corpus, under a short path.
fn place() -> Place {
    let place = Place::new();
    symlink(super::corpus(".."), place.file("corpus")).unwrap();
    place
}

/// Tenstorrent logs, recordings of PyTorch programs, and a training log.
fn files(place: &Place) -> Vec<String> {
    let named = |folder: &str, end: &str| -> Vec<String> {
        let entries = fs::read_dir(place.file("corpus").join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(end)).map(|name| format!("corpus/{folder}/{name}")).collect()
    };
    let mut files = [named("tt_log", ".log"), named("guides", ".ttmem"), named("tt_train", ".log")].concat();
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    files
}

/// The lines of the summary, without the warnings above it.
fn summary_of(shown: &Shown) -> Vec<&str> {
    let mut is_warning = false;
    let mut is_shown = |line: &&str| {
        is_warning = line.starts_with("warning:") || is_warning && line.starts_with("  ");
        !is_warning
    };
    shown.lines.iter().map(String::as_str).filter(|line| is_shown(line)).collect()
}

/// The number of lines that the last line says are hidden, if it does.
fn hidden(lines: &[&str]) -> Option<usize> {
    let number = lines.last()?.strip_prefix("… ")?.strip_suffix(" more lines (--full shows them)")?;
    Some(number.parse().unwrap())
}

#[test]
fn a_summary_fits_the_height_and_counts_the_hidden_lines() {
    let place = place();
    for size in SIZES {
        let mut cut = 0;
        for file in files(&place) {
            let (brief, full) = (place.show(&[&file], size), place.show(&[&file, "--full"], size));
            assert_eq!(brief.scrolled, 0, "{file} does not fit {size:?}:\n{}", brief.lines.join("\n"));
            let (brief, full) = (summary_of(&brief), summary_of(&full));
            assert_eq!(hidden(&full), None);
            match hidden(&brief) {
                Some(hidden) => {
                    cut += 1;
                    assert_eq!(
                        brief.len() - 1 + hidden,
                        full.len(),
                        "{file}, {size:?}:\n{}",
                        brief.join("\n")
                    );
                }
                None => assert_eq!(brief, full, "{file}, {size:?}"),
            }
        }
        assert!(cut > 3, "at {size:?}, only {cut} summaries are longer than the terminal");
    }
}

#[test]
fn the_verdict_and_what_to_change_come_first() {
    let place = place();
    let (mut verdicts, mut changes) = (0, 0);
    for file in files(&place) {
        let output = place.ttmem().args(["--json", &file]).assert().success().get_output().clone();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rank = &answer["ranks"][0];
        let is_change = |one: &Value| ["risk", "change"].contains(&one["urgency"].as_str().unwrap());
        let has_changes = rank["suggestions"].as_array().unwrap().iter().any(is_change);
        for size in SIZES {
            let shown = place.show(&[&file], size);
            let lines = summary_of(&shown);
            let text = lines.join("\n");
            // The first paragraph is the file.
            let mut paragraphs = text.split("\n\n").skip(1);
            if answer["ranks"].as_array().unwrap().len() > 1 {
                paragraphs.next();
            }
            if let Some(headline) = rank["oom"]["headline"].as_str() {
                verdicts += 1;
                let first = paragraphs.next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(first.starts_with(headline), "{file}, {size:?}:\n{text}");
            }
            let mut next = paragraphs.next().unwrap();
            // The two sides of a clash, and ways out.
            while next.starts_with("  program buffers")
                || next.contains(" way out\n")
                || next.starts_with("Ways out ")
            {
                assert!(
                    !rank["oom"]["clash"].is_null()
                        || !rank["oom"]["ways_out"].as_array().unwrap().is_empty()
                );
                next = paragraphs.next().unwrap();
            }
            if next.starts_with("  The program ended with ") {
                assert!(rank["ended_by"].is_string());
                next = paragraphs.next().unwrap();
            }
            let starts = |heading: &str| next.starts_with(&format!("{heading}\n  1. "));
            let is_first = starts("What to change") || starts("What to change (savings overlap)");
            assert_eq!(is_first, has_changes, "{file}, {size:?}:\n{text}");
            changes += usize::from(has_changes);
        }
    }
    assert!(verdicts >= 10 && changes >= 20, "{verdicts} verdicts, {changes} with changes");
}

#[test]
fn without_a_terminal_the_summary_is_complete() {
    let place = place();
    for file in files(&place) {
        let output = place.ttmem().arg(&file).assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        // The width of a summary without a terminal.
        let full = place.show(&[&file, "--full"], (120, 24));
        assert_eq!(lines, summary_of(&full), "{file}");
        assert!(!text.contains("--full"), "{text}");
    }
}

/// The terminal wraps a long path, and warnings are above the summary.
#[test]
fn a_summary_with_long_lines_and_warnings_fits_the_height() {
    let place = place();
    let folder = ["a folder with a long name"; 7].join("/");
    fs::create_dir_all(place.file(&folder)).unwrap();
    let logs = ["vae-decoder.log", "llm-decode.log", "malformed/cut-in-line.log"];
    let copies: Vec<String> = (0..3)
        .flat_map(|number| logs.map(|log| (number, log)))
        .map(|(number, log)| {
            let copy = format!("{folder}/{number}-{}", log.replace('/', "-"));
            fs::copy(super::corpus(log), place.file(&copy)).unwrap();
            copy
        })
        .collect();
    for size in SIZES {
        for copy in &copies[..3] {
            let shown = place.show(&[copy], size);
            assert_eq!(shown.scrolled, 0, "{size:?}:\n{}", shown.screen);
            let full = place.show(&[copy, "--full"], size);
            let (lines, all) = (summary_of(&shown), summary_of(&full));
            let shown_lines = lines.len() - usize::from(hidden(&lines).is_some());
            assert_eq!(shown_lines + hidden(&lines).unwrap_or(0), all.len(), "{size:?}:\n{}", shown.screen);
        }
        // More warnings than fit are counted, too.
        let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
        let shown = place.show(&copies, size);
        assert_eq!(shown.scrolled, 0, "{size:?}:\n{}", shown.screen);
        let warnings: Vec<&String> = shown.lines.iter().filter(|line| line.starts_with("warning:")).collect();
        assert!(warnings.last().unwrap().ends_with(" more; use --json to see all"), "{warnings:#?}");
    }
}
