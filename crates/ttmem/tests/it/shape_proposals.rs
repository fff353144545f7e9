//! The shapes that are proposed for the logs of the corpus, and those that are not, each with its reason.

#[path = "../../examples/list_shape_proposals.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod list_shape_proposals;

use std::path::Path;

use ttmem::query::timeline::{Column, Texts, Timeline};

/// The page shows a shape for a type only where every tensor of it may have it.
#[test]
fn the_page_shows_no_shape_that_is_not_proposed() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/vae-decoder.log");
    let profile = ttmem::read::open(log.to_str().unwrap()).unwrap();
    let mut texts = Texts::new(&profile);
    let mut timeline = Timeline::new(&profile, &profile.ranks[0]);
    let parts = timeline.columns(&mut texts, |part: &mut Vec<Column>, column| part.push(column));
    let columns: Vec<Column> = parts.into_iter().flatten().collect();
    let friendly = columns.iter().find(|column| column.name == "types.friendly").unwrap();
    // 0 is missing.
    assert!(!friendly.values.is_empty() && friendly.values.iter().all(|value| *value == 0), "{friendly:?}");
}

#[test]
fn every_proposal_of_the_corpus_is_as_listed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut files: Vec<_> =
        std::fs::read_dir(corpus.join("tt_log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "log"));
    files.extend(
        ["ttrt_memory/memory_results.json", "ttnn_db/db.sqlite", "ttnn_graph/linear-report.json"]
            .map(|file| corpus.join(file)),
    );
    files.sort();
    let listed: String = files
        .iter()
        .map(|file| {
            let profile = ttmem::read::open(file.to_str().unwrap()).unwrap();
            list_shape_proposals::listed(file.file_name().unwrap().to_str().unwrap(), &profile)
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shape_proposals.txt");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &listed).unwrap();
    }
    assert_eq!(listed, std::fs::read_to_string(&path).unwrap(), "if that is right: make bless");
}
