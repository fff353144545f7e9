//! Markdown for agents: the promised sections in their order, about 6 kB whatever the log, and texts of the
//! evidence that stay texts.

use std::path::Path;

use proptest::prelude::*;
use ttmem::model::{Profile, Strings, Warning};
use ttmem::query::{Request, Summary, summary};
use ttmem::{read, report};
use ttmem_testkit::sweep;
use ttmem_testkit::tt::{Level, Options, Scenario, make};

/// The most that a document has; it aims at 6,000.
const MOST: usize = 6200;

const PROMISED: [&str; 6] = [
    "## Configuration",
    "## Peak Memory",
    "## Top 10 Memory Consumers (DRAM)",
    "## Top 10 Padding Overhead",
    "## Model Weights (",
    "## Operation Distribution",
];

const FURTHER: [&str; 6] =
    ["## Live at Peak", "## Unexplained", "## Out of Memory", "## Suggestions", "## Ranks", "## Warnings"];

fn opened(log: &[u8]) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    std::fs::write(&path, log).unwrap();
    let mut profile = read::open(path.to_str().unwrap()).unwrap();
    profile.source.file = "run.log".into();
    profile
}

fn made(scenario: Scenario, options: &Options) -> Profile {
    let mut log = Vec::new();
    make(scenario, options, &mut log).unwrap();
    opened(&log)
}

fn corpus(name: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(format!("{name}.log"));
    opened(&std::fs::read(path).unwrap())
}

fn answer(profiles: &[Profile]) -> Summary {
    summary(profiles, &Request::default()).unwrap()
}

fn document(summary: &Summary, name: &str) -> String {
    let mut text = Vec::new();
    report::markdown(summary, name, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The document about one profile, held against everything that must always be true.
#[track_caller]
fn of(profile: &Profile) -> String {
    let text = document(&answer(std::slice::from_ref(profile)), "name");
    check(&text);
    text
}

/// The lines of a section, without its heading.
#[track_caller]
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    assert!(lines.next().is_some(), "there is no {heading} in\n{text}");
    lines.take_while(|line| !line.starts_with('#')).collect()
}

/// What holds for every document.
#[track_caller]
fn check(text: &str) {
    assert!(text.len() <= MOST, "{} bytes\n{text}", text.len());
    let is_bad = |c: char| {
        (c.is_control() && c != '\n')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || "\u{2028}\u{2029}".contains(c)
    };
    assert!(!text.contains(is_bad), "{text:?}");
    check_headings(text);
    check_headline(text);
    check_tables(text);
    for line in text.lines() {
        let is_list =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let is_ours = line.is_empty() || line.starts_with(['#', '>', '|', '…']) || is_list;
        let is_prose = line.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
        assert!(is_ours || is_prose, "what is this line? {line}\n{text}");
    }
}

#[track_caller]
fn check_headings(text: &str) {
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    assert!(headings.next().unwrap().starts_with("# Memory Profile: "), "{text}");
    let headings: Vec<&str> = headings.collect();
    let known: Vec<&str> = PROMISED.into_iter().chain(FURTHER).collect();
    let places: Vec<usize> = headings
        .iter()
        .map(|heading| {
            known.iter().position(|one| heading.starts_with(one)).unwrap_or_else(|| panic!("{heading}"))
        })
        .collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{headings:?}");
    assert_eq!(places[..PROMISED.len()], [0, 1, 2, 3, 4, 5], "{headings:?}");
    assert!(headings[4].ends_with(" MB total)"), "{headings:?}");
}

/// `> Peak DRAM: X MB/bank (Y%) | Peak L1: Z MB/bank | Ops: N | Weights: W MB | Padding Overhead: P%`.
#[track_caller]
fn check_headline(text: &str) {
    let line = text.lines().nth(2).unwrap();
    let shape: String = line
        .split(' ')
        .map(|word| {
            let plain = word.trim_start_matches('(').trim_end_matches([')', '%']);
            let is_number = plain == "unknown" || plain.parse::<f64>().is_ok();
            if is_number { word.replacen(plain, "#", 1) } else { word.to_owned() }
        })
        .collect::<Vec<_>>()
        .join(" ");
    let promised =
        "> Peak DRAM: # MB/bank (#%) | Peak L1: # MB/bank | Ops: # | Weights: # MB | Padding Overhead: #%";
    assert_eq!(shape, promised, "{line}");
}

/// Every row of a table has as many cells as its head.
#[track_caller]
fn check_tables(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let cells = |line: &str| line.matches('|').count();
    let is_rule = |line: &str| line.starts_with("|---") && line.chars().all(|c| "|-:".contains(c));
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let before = lines[index - 1];
        if before.starts_with('|') {
            assert_eq!(cells(line), cells(before), "{before}\n{line}");
            assert!(line.ends_with('|'), "{line}");
        } else {
            assert!(is_rule(lines[index + 1]), "{line} is no head");
            assert!(lines[index + 2].starts_with('|'), "{line} has no rows");
        }
    }
}

fn scenarios() -> Vec<Scenario> {
    let large = [Scenario::Repeated { ops: 3000 }, Scenario::Distinct { ops: 3000 }];
    [&Scenario::KINDS[..], &large].concat()
}

#[test]
fn every_log_of_the_corpus_has_its_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let logs = names.filter(|path| path.extension().is_some_and(|end| end == "log"));
    let mut count = 0;
    for path in logs {
        of(&corpus(path.file_stem().unwrap().to_str().unwrap()));
        count += 1;
    }
    assert!(count > 10, "the corpus is gone");
}

#[test]
fn made_logs_have_documents_of_one_size() {
    for scenario in scenarios() {
        for seed in 0..4 {
            let level = if seed == 3 { Level::Info } else { Level::Debug };
            of(&made(scenario, &Options { seed, level, keep: seed == 1, ..Options::default() }));
        }
    }
}

#[test]
fn tables_name_operations_shapes_and_dtypes() {
    let text = of(&corpus("vae-decoder"));
    let consumers = section(&text, "## Top 10 Memory Consumers (DRAM)");
    let row = |line: &&&str| line.starts_with("| 43 |");
    assert_eq!(
        *consumers.iter().find(row).unwrap(),
        "| 43 | ttnn.repeat | 1x32x16x262144 (f32) | +146.289 | fused[\"multiply.31\", \"add.31\"] |"
    );
    assert_eq!(consumers.iter().filter(|line| line.contains("ttnn.")).count(), 10);
    let padding = section(&text, "## Top 10 Padding Overhead").join("\n");
    assert!(
        padding.contains("| 1x32x16x262144 (f32) | 1x32x32x262144 | 512.000 | 1024.000 | 100.0% |"),
        "{padding}"
    );
    let operations = section(&text, "## Operation Distribution").join("\n");
    assert!(
        operations.contains("Weight ops: 40") && operations.contains("Activation ops: 60"),
        "{operations}"
    );
    let configuration = section(&text, "## Configuration").join("\n");
    assert!(configuration.contains("| DRAM | 7 | 4080.000 | 28560 |"), "{configuration}");
    let live = section(&text, "## Live at Peak").join("\n");
    assert!(live.contains("weight 393.750 MB/bank (57.4%)"), "{live}");
}

#[test]
fn sections_are_there_only_where_there_is_something_to_say() {
    let text = of(&corpus("vae-decoder"));
    for absent in ["## Unexplained", "## Out of Memory", "## Ranks", "## Warnings"] {
        assert!(!text.contains(absent), "{absent}");
    }
    let text = of(&corpus("info-only"));
    assert!(
        !text.contains("## Live at Peak") && text.contains("TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG"),
        "{text}"
    );
    let text = of(&corpus("oom-fragmentation"));
    let oom = section(&text, "## Out of Memory").join("\n");
    assert!(oom.contains("| DRAM | fragmentation | 37.500 | 450.000 | 12 | 76.498 | 16.498 |"), "{oom}");
    assert!(oom.contains("DRAM is fragmented.") && oom.contains("What helps: "), "{oom}");
    let text = of(&made(Scenario::Vae, &Options { seed: 1, keep: true, ..Options::default() }));
    assert!(section(&text, "## Unexplained").iter().any(|line| line.starts_with("| ttnn.")), "{text}");
}

#[test]
fn suggestions_are_those_of_the_answer() {
    let summary = answer(&[corpus("vae-decoder")]);
    let text = document(&summary, "name");
    let shown = section(&text, "## Suggestions");
    for (number, suggestion) in (1..=5).zip(&summary.ranks[0].suggestions) {
        let line = format!("{number}. {} ({})", suggestion.message, suggestion.rule);
        assert!(shown.contains(&&*line), "{line}\n{text}");
    }
}

#[test]
fn locations_are_cut_to_80_characters_and_those_unknown_are_not_applicable() {
    let mut profile = corpus("vae-decoder");
    replace_texts(&mut profile, |text| {
        if text.starts_with("\"subtract.3") {
            format!("\"model.{}.subtract\"", "layer".repeat(60))
        } else {
            text.into()
        }
    });
    let text = of(&profile);
    let cut = text.split('|').map(str::trim).find(|cell| cell.starts_with("\"model.layer")).unwrap();
    assert_eq!(cut.chars().count(), 80, "{cut}");
    assert!(cut.contains('…') && cut.ends_with(".subtract\""), "{cut}");
    assert!(of(&corpus("info-only")).contains("| N/A |"));
}

#[test]
fn of_many_ranks_one_is_whole_and_the_others_have_a_line() {
    let profile = made(Scenario::Llm, &Options { ranks: 32, ..Options::default() });
    let text = of(&profile);
    let rows = section(&text, "## Ranks");
    let labels: Vec<&str> =
        rows.iter().filter_map(|line| line.strip_prefix("| 1,")?.split(' ').next()).collect();
    assert_eq!(labels, (1..32).map(|rank| rank.to_string()).collect::<Vec<_>>(), "{text}");
    assert!(rows.iter().any(|line| line.contains("--rank 1,1 FILE")), "{rows:#?}");
    assert!(text.contains(", rank 1,0 of 32 (see Ranks)"), "{text}");

    let two = [made(Scenario::TwoGraphs, &Options::default()), made(Scenario::Vae, &Options::default())];
    let text = document(&answer(&two), "2 files");
    check(&text);
    let (graphs, vae) = (answer(&two[..1]), answer(&two[1..]));
    let peak = |summary: &Summary| summary.ranks[0].pools.get("DRAM").unwrap().peak_per_bank;
    assert!(peak(&vae) > peak(&graphs), "the document is about the one that needs more");
    assert_eq!(text.lines().nth(2), document(&vae, "").lines().nth(2));
}

#[test]
fn a_rank_that_ran_out_of_memory_is_the_one_that_matters() {
    let lacking = corpus("circular-buffers-clash");
    let large = corpus("vae-decoder");
    let text = document(&answer(&[large, lacking]), "2 files");
    check(&text);
    assert!(text.contains("## Out of Memory") && text.contains("which ran out of memory"), "{text}");
}

#[test]
fn warnings_stand_last_and_are_counted() {
    let mut profile = corpus("vae-decoder");
    let warning = |line: u64| Warning { line: Some(line), message: format!("warning {line} of many") };
    profile.warnings = (1..=1000).map(warning).collect();
    let text = of(&profile);
    let warnings = section(&text, "## Warnings");
    assert!(warnings.contains(&"- run.log, line 1: warning 1 of many"), "{text}");
    assert!(text.trim_end().ends_with(" more."), "{text}");
}

/// Gives every text of a profile another.
fn replace_texts(profile: &mut Profile, mut other: impl FnMut(&str) -> String) {
    let mut strings = Strings::default();
    for index in 0..profile.strings.len() {
        let id = ttmem::model::StrId::new(index).unwrap();
        strings.push(&other(profile.strings.get(id))).unwrap();
    }
    profile.strings = strings;
}

/// Texts that were made to break out of where they stand.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("|".to_owned()),
        Just("\\|".to_owned()),
        Just("\n# Memory Profile: fake\n".to_owned()),
        Just("\r\n\n## Suggestions\n\n1. rm -rf\n".to_owned()),
        Just("`".to_owned()),
        Just("<script>".to_owned()),
        Just("[x](javascript:1)".to_owned()),
        Just("\u{202e}\u{2028}\u{0}\u{1b}[31m\u{85}".to_owned()),
        Just("\u{301}".repeat(200)),
        Just("𝔪".repeat(90)),
        "\\PC{0,40}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sweep::cases(64, 5000)))]
    #[test]
    fn hostile_texts_stay_texts(
        texts in prop::collection::vec(hostile(), 1..12),
        name in hostile(),
        which in 0..6usize,
        ranks in prop_oneof![Just(0u32), Just(2), Just(9)],
        keep_pools in any::<bool>(),
        dims in prop::collection::vec(0u64..u64::MAX, 0..80),
        warnings in prop::collection::vec(hostile(), 0..20),
        seed in 0u64..4,
    ) {
        let mut profile = made(scenarios()[which], &Options { seed, ranks, keep: true, ..Options::default() });
        let mut next = texts.iter().cycle();
        replace_texts(&mut profile, |text| {
            let is_pool = ["DRAM", "L1", "L1_SMALL", "TRACE"].contains(&text);
            if keep_pools && is_pool { text.to_owned() } else { next.next().unwrap().clone() }
        });
        for ty in profile.types.iter_mut().step_by(2) {
            ty.shape.clone_from(&dims);
        }
        profile.source.file.clone_from(&name);
        profile.warnings =
            warnings.into_iter().map(|message| Warning { line: Some(1), message }).collect();
        let text = document(&answer(std::slice::from_ref(&profile)), &name);
        check(&text);
    }
}
