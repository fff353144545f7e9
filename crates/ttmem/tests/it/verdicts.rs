//! The verdict on an error that ended a program: its parts, and that every front end displays them.

use std::path::{Path, PathBuf};

use ttmem::query::{About, Request, Summary, summary};
use ttmem::report::{Screen, json, markdown, text};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log")
}

fn answer(log: &str) -> Summary {
    let profile = ttmem::read::open(&corpus().join(log).display().to_string()).unwrap();
    summary(&[profile], &Request::default()).unwrap()
}

/// The verdict on a log of the corpus: headline, detail, advice, and what was lacking.
fn verdict(log: &str) -> (String, String, String, Option<u64>) {
    let answer = answer(&format!("{log}.log"));
    let oom = answer.ranks[0].oom.clone().unwrap();
    let statement = oom.statement;
    (statement.headline, statement.detail.unwrap(), statement.advice.unwrap(), oom.lacks_per_bank)
}

#[test]
fn a_verdict_has_its_sentences_apart() {
    let (headline, detail, advice, lacks) = verdict("oom-fragmentation");
    assert_eq!(headline, "Out of memory: DRAM is fragmented.");
    assert_eq!(
        detail,
        "Step 107, ttnn.full at \"cache.13\", requested 37.5 MiB in each of 12 banks (450.0 MiB in total); 76.5 MiB per \
         bank was free, but the largest free block was 16.5 MiB, 21.0 MiB short. The requested size matches its result \
         %77, 115200x1024 f32."
    );
    assert!(advice.starts_with("Allocate long-lived tensors (weights, caches)"), "{advice}");
    assert_eq!(lacks, Some(39_321_600 - 17_299_424));
}

/// The text of a screen as one line.
fn screen(answer: &Summary) -> String {
    let shown = text(answer, Screen { width: 100, rows: Some(10), ..Screen::default() }).to_string();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_front_end_displays_the_parts() {
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_none_or(|end| end != "log") {
            continue;
        }
        let answer = answer(&name);
        let Some(oom) = answer.ranks.first().and_then(|rank| rank.oom.as_ref()) else { continue };
        count += 1;
        let said = &oom.statement;
        let (screen, mut page, mut data) = (screen(&answer), Vec::new(), Vec::new());
        markdown(&answer, &name, ttmem::report::MarkdownSize::default(), &mut page).unwrap();
        json(&answer, &mut data).unwrap();
        let page = String::from_utf8(page).unwrap();
        let data: serde_json::Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(About::of(&answer).oom_headline.as_ref(), Some(&said.headline), "{name}");
        assert_eq!(data["ranks"][0]["oom"]["headline"], said.headline, "{name}");
        // Ways out replace general advice.
        let ways = oom.ways_out.iter().map(|way| &way.text);
        let advice = said.advice.as_ref().filter(|_| oom.ways_out.is_empty());
        for part in
            [Some(&said.headline), said.detail.as_ref()].into_iter().flatten().chain(advice).chain(ways)
        {
            assert!(screen.contains(part), "{name}: {part} is not in {screen}");
            assert!(page.contains(part.as_str()), "{name}: {part} is not in {page}");
        }
    }
    assert!(count >= 3, "only {count} logs of the corpus ended with an error");
}
