//! What front ends must not decide for themselves: how full a pool is, the kind of device, where memory is fragmented.

#![allow(clippy::unwrap_used, reason = "a test that fails is meant to panic")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use flate2::read::ZlibDecoder;
use serde_json::{Value, json};
use ttmem::model::{
    Builder, Event, Moment, PoolId, Profile, RankEvent, RankId, Reading, Sink, Source, StrId,
};
use ttmem::query::{About, DeviceKind, Level, Limits, Request, Summary, Thresholds, summary};
use ttmem::report::{Screen, Style};
use ttmem::store::Stored;
use ttmem::{read, report};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn opened(path: &str) -> Profile {
    read::open(root().join(path).to_str().unwrap()).unwrap()
}

fn profile() -> Profile {
    opened("corpus/tt_log/llm-decode.log")
}

fn answer(profile: &Profile, thresholds: Thresholds) -> Summary {
    summary(std::slice::from_ref(profile), &Request { thresholds, ..Request::default() }).unwrap()
}

/// What each front end shows of the level of DRAM.
#[derive(Debug, PartialEq)]
struct Shown {
    /// The style of the bar on the screen.
    screen: Style,
    /// The word in Markdown.
    markdown: Option<&'static str>,
    /// In the data of the page.
    page: Value,
    /// In the row of the list, which `ttmem list --json` and the server send.
    list: Value,
    /// Whether there is a suggestion.
    suggestion: bool,
}

fn shown(profile: &Profile, thresholds: Thresholds) -> Shown {
    let answer = answer(profile, thresholds);
    let mut markdown = Vec::new();
    report::markdown(&answer, "levels", &mut markdown).unwrap();
    let markdown = String::from_utf8(markdown).unwrap();
    let row = markdown.lines().filter(|line| line.starts_with("| DRAM")).nth(1).unwrap().to_owned();
    Shown {
        screen: screen(&answer),
        markdown: ["(high)", "(full)"].into_iter().find(|word| row.contains(word)),
        page: block_head(profile, &answer, "head")["summary"]["ranks"][0]["pools"]["DRAM"]["level"].clone(),
        list: row_of(profile, &answer)["peak"]["level"].clone(),
        suggestion: answer.ranks[0].suggestions.iter().any(|one| one.rule.starts_with("dram_over_")),
    }
}

fn screen(answer: &Summary) -> Style {
    let text = report::text(answer, Screen::default());
    let line = text.lines().iter().find(|line| line.to_string().contains("DRAM   ")).unwrap();
    line.spans().iter().find(|span| span.text().contains('▓')).unwrap().style()
}

/// The JSON of a block of the page.
fn block_head(profile: &Profile, answer: &Summary, id: &str) -> Value {
    let mut page = Vec::new();
    report::page(profile, answer, "levels", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let text = page.split_once(&format!("id=\"ttmem-{id}\">")).unwrap().1.split_once("</script>").unwrap().0;
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut all = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut all).unwrap();
    let length = u32::from_le_bytes(all[..4].try_into().unwrap()) as usize;
    serde_json::from_slice(&all[4..4 + length]).unwrap()
}

/// The folder of a report.
fn stored_in(home: &Path, profile: &Profile) -> PathBuf {
    let folder = home.join("report");
    fs::create_dir(&folder).unwrap();
    report::files::write(profile, "report", &folder, &[]).unwrap();
    folder
}

/// The row of a list, read from a stored report with what this answer has to say.
fn row_of(profile: &Profile, answer: &Summary) -> Value {
    let home = tempfile::tempdir().unwrap();
    let folder = stored_in(home.path(), profile);
    let about = serde_json::to_vec(&About::of(answer)).unwrap();
    fs::write(folder.join("report_about.json"), about).unwrap();
    serde_json::to_value(Stored::in_folder(&folder).unwrap()).unwrap()
}

#[test]
fn one_threshold_changes_the_screen_markdown_the_page_and_the_list() {
    let profile = profile();
    let pool = &answer(&profile, Thresholds::default()).ranks[0].pools.get("DRAM").unwrap().clone();
    let share = pool.peak_per_bank.unwrap() * 100 / pool.capacity_per_bank.unwrap();
    assert!((2..99).contains(&share), "the log is no example: {share}%");
    let with = |high, full| Thresholds { other: Limits { high, full }, ..Thresholds::default() };
    let expect = |screen, markdown, level: Value, suggestion| Shown {
        screen,
        markdown,
        page: level.clone(),
        list: level,
        suggestion,
    };
    assert_eq!(shown(&profile, with(share + 1, 100)), expect(Style::Good, None, json!("ok"), false));
    assert_eq!(
        shown(&profile, with(share - 1, 100)),
        expect(Style::Warning, Some("(high)"), json!("high"), true)
    );
    assert_eq!(
        shown(&profile, with(1, share - 1)),
        expect(Style::Critical, Some("(full)"), json!("full"), true)
    );
    // L1 has limits of its own.
    let l1 = Thresholds { l1: Limits { high: 0, full: 0 }, ..with(share + 1, 100) };
    assert_eq!(shown(&profile, l1), expect(Style::Good, None, json!("ok"), false));
}

#[test]
fn reports_of_earlier_versions_have_no_level() {
    let profile = profile();
    let home = tempfile::tempdir().unwrap();
    let folder = stored_in(home.path(), &profile);
    let path = folder.join("report_about.json");
    let mut about: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(about["peak"].as_object_mut().unwrap().remove("level").is_some());
    fs::write(&path, serde_json::to_vec(&about).unwrap()).unwrap();
    let stored = Stored::in_folder(&folder).unwrap();
    assert!(stored.peak.is_some());
    assert_eq!(stored.peak.unwrap().level, None);
    assert!(stored.shown.is_some(), "the rest is shown");
}

/// A program with a pool of 1000 MiB, of which so many MiB are allocated.
fn of_pool(name: &str, allocated: u64) -> Profile {
    let mut sink = Builder::new();
    let rank = RankId::new(0).unwrap();
    let (text, pool) = (StrId::new(0).unwrap(), PoolId::new(0).unwrap());
    let reading =
        Reading { allocated: Some(allocated << 20), capacity: Some(1000 << 20), ..Reading::default() };
    for event in [
        Event::Source(Source { format: "recording".into(), file: "pool.ttmem".into() }),
        Event::Rank { label: None },
        Event::Text(name.into()),
        Event::Of(rank, RankEvent::Pool { name: text, banks: Some(1), quantum: 0 }),
        Event::Of(rank, RankEvent::State(pool, Moment::START, reading)),
    ] {
        sink.take(event).unwrap();
    }
    sink.finish()
}

#[test]
fn memory_of_pytorch_is_judged_as_any_other() {
    let judged = |name: &str, allocated| {
        let rank = answer(&of_pool(name, allocated), Thresholds::default()).ranks.remove(0);
        let level = rank.pools.get(name).unwrap().level.unwrap();
        (level, rank.suggestions.first().map(|first| (first.rule, first.message.clone())))
    };
    assert_eq!(judged("cuda:0", 800), (Level::Ok, None));
    let (level, high) = judged("cuda:0", 850);
    assert_eq!((level, high.unwrap().0), (Level::High, "memory_over_80"));
    let (level, full) = judged("cuda:0", 990);
    let (rule, message) = full.unwrap();
    assert_eq!((level, rule), (Level::Full, "memory_over_90"));
    assert!(message.starts_with("cuda:0 is 99.0% full at its peak, 10.0 MiB are left. Risk"), "{message}");
    // The program chooses the size of these regions.
    assert_eq!(judged("TRACE", 1000), (Level::Full, None));
    assert_eq!(judged("L1_SMALL", 1000), (Level::Full, None));
}

#[test]
fn the_kind_of_device_is_part_of_the_answer() {
    let device = |path: &str| answer(&opened(path), Thresholds::default()).ranks[0].device;
    for tenstorrent in [
        "corpus/tt_log/vae-decoder.log",
        "corpus/tt_log/info-only.log",
        "corpus/tt_json/small_model",
        "corpus/ttnn_db/db.sqlite",
        "corpus/ttnn_graph/linear-old.json",
        "corpus/tt_train/tinyllama.log",
    ] {
        assert_eq!(device(tenstorrent), Some(DeviceKind::Tenstorrent), "{tenstorrent}");
    }
    for torch in ["corpus/memory_profile/threads.json", "web/test/browser/recordings/train.ttmem"] {
        assert_eq!(device(torch), Some(DeviceKind::Torch), "{torch}");
    }
}

#[test]
fn the_page_lists_the_worst_fragmentation_of_the_summary_first() {
    let mut fragmented = 0;
    for log in ["oom-fragmentation", "vae-decoder", "llm-decode", "info-only", "memory-snapshot"] {
        let profile = opened(&format!("corpus/tt_log/{log}.log"));
        let answer = answer(&profile, Thresholds::default());
        let head = block_head(&profile, &answer, "rank-0");
        for pool in head["pools"].as_array().unwrap() {
            let name = pool["name"].as_str().unwrap();
            let Some(worst) = answer.ranks[0].fragmentation.get(name) else {
                // Not stated, or always in one piece.
                assert!(pool["fragmented"].as_array().is_none_or(Vec::is_empty), "{log} {name}");
                continue;
            };
            fragmented += 1;
            let listed = pool["fragmented"].as_array().unwrap();
            let first = &listed[0];
            assert_eq!(first["free"], json!(worst.free_per_bank), "{log} {name}");
            assert_eq!(first["largest_free"], json!(worst.largest_free_per_bank), "{log} {name}");
            assert_eq!(first["moment"].as_u64().unwrap() / 2, u64::from(worst.step), "{log} {name}");
            assert!(listed.len() <= 10, "{log} {name}");
        }
    }
    assert!(fragmented >= 3, "the logs are no examples");
}

/// Files below a folder, with their texts.
fn sources(folder: &Path, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path, extension));
        } else if path.extension().is_some_and(|have| have == extension) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// No front end may compare a share with a limit of its own. This finds the forms that such limits have had here: two of
/// them in a list, one in a comparison, and names of pools that begin with `L1`.
#[test]
fn no_front_end_has_thresholds() {
    let mut files = sources(&root().join("web/src"), "ts");
    for folder in ["crates/ttmem-report/src", "crates/ttmem-serve/src", "crates/ttmem-cli/src"] {
        files.extend(sources(&root().join(folder), "rs"));
    }
    assert!(files.len() > 100, "the sources are gone");
    for (path, text) in files {
        for line in text.lines() {
            assert!(!has_threshold(line), "{}: {line}", path.display());
        }
    }
    for limit in ["(90, 95)", "[0.8, 0.9]", "share >= 0.95", "peak * 100 > all * 80", "starts_with(\"L1\")"] {
        assert!(has_threshold(limit), "{limit}");
    }
}

fn has_threshold(line: &str) -> bool {
    const LIMITS: [&str; 8] = ["80", "90", "95", "0.8", "0.9", "0.95", "0.80", "0.90"];
    let words = |text: &str| -> Vec<String> {
        let is_between = |c: char| !c.is_ascii_alphanumeric() && c != '.';
        text.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let is_limit = |word: &String| LIMITS.contains(&word.as_str());
    let is_pair = |pair: &[String]| pair.iter().all(is_limit) && pair[0] != pair[1];
    let is_compared =
        |operator: &str| line.split(operator).skip(1).any(|right| words(right).iter().any(is_limit));
    words(line).windows(2).any(is_pair)
        || [" < ", " <= ", " > ", " >= "].into_iter().any(is_compared)
        || ["starts_with(\"L1\")", "startsWith(\"L1\")"].iter().any(|guess| line.contains(guess))
}
