//! Several writers of stored reports at once, and what those leave who are killed.

use std::fs;
use std::path::Path;
use std::thread;

use tempfile::tempdir;
use ttmem::read;
use ttmem::store::{SourceId, Store, replace_files};

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name).display().to_string()
}

fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<String> = store.list().unwrap().into_iter().map(|report| report.name).collect();
    names.sort();
    names
}

#[test]
fn two_sources_of_one_name_at_the_same_moment_get_two_reports() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let logs = ["vae-decoder.log", "info-only.log", "trace.log"].map(corpus);
    thread::scope(|scope| {
        for log in logs.iter().chain(&logs) {
            let store = &store;
            scope.spawn(move || store.save(&mut read::open(log).unwrap(), log, Some("same")).unwrap());
        }
    });
    assert_eq!(names(&store), ["same", "same-2", "same-3"]);
}

#[test]
fn a_source_that_has_no_place_here_is_known_by_its_name_and_content() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let save = |log: &str, path: &str| {
        let source = SourceId { path: path.to_owned(), ..SourceId::of(log).unwrap() };
        store.save_from(&mut read::open(log).unwrap(), Some(&source), "up_load").unwrap()
    };
    let first = save(&corpus("trace.log"), "up.log");
    assert_eq!((first.name.as_str(), first.source.unwrap().path.as_str()), ("up-load", "up.log"));
    // The same from another place, as an upload lies each time.
    let copy = home.path().join("copy");
    fs::copy(corpus("trace.log"), &copy).unwrap();
    assert_eq!(save(copy.to_str().unwrap(), "up.log").name, "up-load");
    assert_eq!(save(copy.to_str().unwrap(), "other.log").name, "up-load-2");
    assert_eq!(save(&corpus("info-only.log"), "up.log").name, "up-load-3");
}

#[test]
fn what_a_killed_process_left_is_swept_and_what_others_have_stays() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let log = corpus("trace.log");
    store.save(&mut read::open(&log).unwrap(), &log, None).unwrap();
    let half = |folder: &str, process: u32| {
        let staged = store.folder().join(folder).join(format!(".ttmem-staged-{process}-0"));
        fs::create_dir_all(&staged).unwrap();
        fs::write(staged.join("half.ttmem"), "half").unwrap();
        staged
    };
    let (alone, beside) = (half("new", 12), half("trace", 12));
    let others = [half("other", 123), half("trace", 1)];
    store.sweep_after(12);
    assert!(!alone.parent().unwrap().exists() && !beside.exists());
    assert!(others.iter().all(|staged| staged.exists()));
    assert_eq!(names(&store), ["trace"]);
}

/// Whoever is killed between the commit and the moves has a report all the same, and the same source replaces it.
#[test]
fn what_was_committed_counts_when_a_name_is_looked_for() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let log = corpus("trace.log");
    let save = || store.save(&mut read::open(&log).unwrap(), &log, None).unwrap();
    let folder = save().folder;
    let commit = folder.join(".ttmem-commit");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::create_dir(&commit).unwrap();
    for file in files {
        fs::rename(&file, commit.join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(save().name, "trace");
    assert_eq!(names(&store), ["trace"]);
}

#[test]
fn what_a_killed_writer_left_is_removed_by_the_next_who_looks() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let log = corpus("trace.log");
    let save = || store.save(&mut read::open(&log).unwrap(), &log, None).unwrap();
    save();
    let left = |folder: &str, process: u32| {
        let staged = store.folder().join(folder).join(format!(".ttmem-staged-{process}-0"));
        fs::create_dir_all(&staged).unwrap();
        fs::write(staged.join("x.ttmem"), "half").unwrap();
        staged
    };
    // Beside a report, and of one that never was. Process 1 is alive, but has not left it: numbers are used again.
    for process in [4_194_999, 1] {
        let (beside, alone) = (left("trace", process), left("new", process));
        assert_eq!(names(&store), ["trace"]);
        assert!(!beside.exists() && !alone.parent().unwrap().exists(), "{process}");
        let beside = left("trace", process);
        save();
        assert!(!beside.exists(), "{process}");
    }
}

#[test]
fn what_a_living_writer_has_staged_stays() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    let folder = store.folder().join("new");
    let written = replace_files(&folder, |staged| {
        assert_eq!(names(&store), Vec::<String>::new());
        assert!(staged.is_dir(), "a list removes nothing of a writer at work");
        fs::write(staged.join("x.ttmem"), "whole").unwrap();
        Ok(())
    });
    assert_eq!(written.unwrap(), [folder.join("x.ttmem")]);
}
