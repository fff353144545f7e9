//! What front ends must not decide for themselves: how full a pool is, the kind of device, where memory is fragmented.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use flate2::read::ZlibDecoder;
use serde_json::{Value, json};
use ttmem::model::{
    Builder, Event, Moment, PoolId, Profile, RankEvent, RankId, Reading, Sink, Source, StrId,
};
use ttmem::query::{
    ChartRequest, DeviceKind, Drawn, Extent, Level, Limits, PhasesRequest, Request, Summary, Thresholds,
    chart, phases, summary,
};
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
    /// In the data of the page, which `web/test` compares with what a browser shows.
    page: Value,
    /// In the row of the list, which `ttmem list --json` and the server send.
    list: Value,
    /// Whether there is a suggestion.
    suggestion: bool,
}

/// All but the screen is read from the files of a report.
fn shown(profile: &Profile, thresholds: Thresholds) -> Shown {
    let answer = answer(profile, thresholds);
    let home = tempfile::tempdir().unwrap();
    let folder = stored_in(home.path(), profile, &answer);
    let markdown = fs::read_to_string(folder.join("report_summary.md")).unwrap();
    let row = markdown.lines().filter(|line| line.starts_with("| DRAM")).nth(1).unwrap().to_owned();
    let page = fs::read_to_string(folder.join("report_report.html")).unwrap();
    let list = serde_json::to_value(Stored::in_folder(&folder).unwrap()).unwrap();
    Shown {
        screen: screen(&answer),
        markdown: ["(high)", "(full)"].into_iter().find(|word| row.contains(word)),
        page: block_head(&page, "head")["summary"]["ranks"][0]["pools"]["DRAM"]["level"].clone(),
        list: list["peak"]["level"].clone(),
        suggestion: answer.ranks[0].suggestions.iter().any(|one| one.rule.starts_with("dram_over_")),
    }
}

fn screen(answer: &Summary) -> Style {
    let text = report::text(answer, Screen::default());
    let line = text.lines().iter().find(|line| line.to_string().contains("DRAM   ")).unwrap();
    line.spans().iter().find(|span| span.text().contains('▓')).unwrap().style()
}

fn page_of(profile: &Profile, answer: &Summary) -> String {
    let mut page = Vec::new();
    report::page(profile, answer, "levels", &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// The JSON of a block of a page.
fn block_head(page: &str, id: &str) -> Value {
    let text = page.split_once(&format!("id=\"ttmem-{id}\">")).unwrap().1.split_once("</script>").unwrap().0;
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut all = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut all).unwrap();
    let length = u32::from_le_bytes(all[..4].try_into().unwrap()) as usize;
    serde_json::from_slice(&all[4..4 + length]).unwrap()
}

/// The folder of a report with that answer.
fn stored_in(home: &Path, profile: &Profile, answer: &Summary) -> PathBuf {
    let folder = home.join("report");
    fs::create_dir(&folder).unwrap();
    report::files::write(profile, answer, "report", &folder, &[], report::files::JsonFiles::Always).unwrap();
    folder
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

/// A training session has a level of its own, which the summary, the list and `ttmem phases` show.
#[test]
fn one_threshold_changes_the_level_of_a_session_wherever_it_is_shown() {
    let profile = opened("corpus/tt_train/tinyllama.log");
    let shown = |high, full| {
        let thresholds = Thresholds { other: Limits { high, full }, ..Thresholds::default() };
        let answer = answer(&profile, thresholds);
        let request = PhasesRequest { thresholds, ..PhasesRequest::default() };
        let phases = phases(std::slice::from_ref(&profile), &request).unwrap();
        let text = report::phases(&phases, 100);
        let verdict = text.lines().iter().find(|line| line.to_string().contains("the peak is")).unwrap();
        let style = verdict.spans().iter().find(|span| span.text().contains("peak")).unwrap().style();
        let session = &answer.ranks[0].sessions[0];
        let home = tempfile::tempdir().unwrap();
        let stored = Stored::in_folder(&stored_in(home.path(), &profile, &answer)).unwrap();
        (
            phases.sessions[0].level.unwrap(),
            session.level.unwrap(),
            stored.peak.unwrap().level.unwrap(),
            style,
        )
    };
    let all = |level, style| (level, level, level, style);
    // The list shows the highest session, which does not fit.
    assert_eq!(shown(1000, 1000), all(Level::Ok, Style::Good));
    assert_eq!(shown(1, 1000), all(Level::High, Style::Warning));
    assert_eq!(shown(1, 2), all(Level::Full, Style::Critical));
}

#[test]
fn reports_of_earlier_versions_get_the_same_level_and_headline() {
    let profile = opened("corpus/tt_log/oom-fragmentation.log");
    let home = tempfile::tempdir().unwrap();
    let folder = stored_in(home.path(), &profile, &answer(&profile, Thresholds::default()));
    let now = Stored::in_folder(&folder).unwrap();
    let path = folder.join("report_about.json");
    let mut about: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(about.as_object_mut().unwrap().remove("oom_headline").is_some());
    for added in ["level", "of", "capacity_total"] {
        assert!(about["peak"].as_object_mut().unwrap().remove(added).is_some());
    }
    fs::write(&path, serde_json::to_vec(&about).unwrap()).unwrap();
    let then = Stored::in_folder(&folder).unwrap();
    assert_eq!(then.peak.unwrap().level, Some(Level::Full));
    assert_eq!(then.oom_headline.as_deref(), Some("Out of memory: DRAM is fragmented."));
    assert_eq!((then.oom_headline, then.shown), (now.oom_headline, now.shown));
}

/// A program with a pool of 1000 MiB, of which so many MiB are allocated.
fn of_pool(name: &str, allocated: u64) -> Profile {
    of_pool_in(name, Some(1), allocated)
}

fn of_pool_in(name: &str, banks: Option<u32>, allocated: u64) -> Profile {
    let mut sink = Builder::new();
    let rank = RankId::new(0).unwrap();
    let (text, pool) = (StrId::new(0).unwrap(), PoolId::new(0).unwrap());
    let reading =
        Reading { allocated: Some(allocated << 20), capacity: Some(1000 << 20), ..Reading::default() };
    for event in [
        Event::Source(Source { format: "recording".into(), file: "pool.ttmem".into() }),
        Event::Rank { label: None },
        Event::Text(name.into()),
        Event::Of(rank, RankEvent::Pool { name: text, banks, quantum: 0 }),
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
    assert!(
        message.starts_with("cuda:0 is 99.0% full at its peak; 10.0 MiB is free. The program may"),
        "{message}"
    );
    // The program chooses the size of these regions.
    assert_eq!(judged("TRACE", 1000), (Level::Full, None));
    assert_eq!(judged("L1_SMALL", 1000), (Level::Full, None));
    assert_eq!(judged("CB", 1000), (Level::Full, None));
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
        let head = block_head(&page_of(&profile, &answer), "rank-0");
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

/// The unit of sizes is `pool.extent`: on the screen, in Markdown, in suggestions and in charts.
#[test]
fn the_unit_of_a_pool_is_the_same_everywhere() {
    let markdown = |profile: &Profile| {
        let mut out = Vec::new();
        report::markdown(
            &answer(profile, Thresholds::default()),
            "units",
            report::MarkdownSize::default(),
            &mut out,
        )
        .unwrap();
        String::from_utf8(out).unwrap()
    };
    let svg = |profile: &Profile| match chart(profile, &ChartRequest::default()).unwrap() {
        Drawn::Steps(drawn) => report::chart::over_time(&drawn, None).svg(),
        Drawn::Phases(_) => panic!("it has steps"),
    };
    // Totals of a device.
    let device = opened("corpus/ttmem/0.1.0/phases.ttmem");
    let text = markdown(&device);
    assert!(text.contains("> Peak DRAM: 228.375 MB ("), "{text}");
    assert!(text.contains("| Memory | Peak MiB |"), "{text}");
    assert!(!svg(&device).contains("bank"));

    // L1 of evidence that does not say in how many banks it lies.
    let core = of_pool_in("L1", None, 960);
    let text = markdown(&core);
    assert!(text.contains("| Peak L1: 960.000 MB/core |"), "{text}");
    assert!(text.contains("| Memory | Peak MiB/core |"), "{text}");
    let suggestion = &answer(&core, Thresholds::default()).ranks[0].suggestions[0];
    assert!(suggestion.message.contains("40.0 MiB/core is free"), "{}", suggestion.message);
    assert!(svg(&core).contains("per core"));
    let screen = report::text(&answer(&core, Thresholds::default()), Screen::default()).to_string();
    assert!(screen.contains("MiB per core") && !screen.contains("bank"), "{screen}");

    // In a table of pools that differ, each row says what it is of.
    let mixed = opened("corpus/ttnn_graph/linear-old.json");
    let rank = &answer(&mixed, Thresholds::default()).ranks[0];
    let extents: Vec<Extent> = rank.pools.iter().map(|(_, pool)| pool.extent).collect();
    assert!(extents.contains(&Extent::Device) && extents.contains(&Extent::Core), "{extents:?}");
    let text = markdown(&mixed);
    assert!(text.contains("| Memory | Peak MiB |"), "{text}");
    assert!(text.contains("\n| DRAM (device) | ") && text.contains("\n| L1 (per core) | "), "{text}");
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
    for front_end in ["ttmem-report", "ttmem-serve", "ttmem-mcp", "ttmem-cli", "ttmem-py"] {
        files.extend(sources(&root().join("crates").join(front_end).join("src"), "rs"));
    }
    files.extend(sources(&root().join("python/ttmem"), "py"));
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
