//! `ttmem` without arguments, on a real pseudo-terminal: every branch of every screen.

#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use ttmem_testkit::privileges::where_permissions_count;
use ttmem_testkit::tt::Scenario;

use crate::pseudo_terminal::{
    BACKSPACE, CTRL_C, CTRL_U, CTRL_W, CTRL_Z, DOWN, END, ENTER, ESCAPE, HOME, LEFT, PAGE_DOWN, PAGE_UP,
    Place, RIGHT, Session, TAB, UP,
};

/// The start of the summary of `vae.log`.
const VAE: &str = "Tenstorrent runtime log, 2 runs, 2 passes, 179 operations";
const OOM: &str = "Tenstorrent runtime log";

// Home.

#[test]
fn home_shows_the_inventory_and_enter_opens_the_newest_log() {
    let place = Place::with_reports();
    let mut session = place.start();
    session.see_no("looking").see("2 recent files").see("2; the newest is vae, just now");
    session.see_chosen("Newest log").send(ENTER).see("Tenstorrent runtime log").see("p page");
    session.send("q").ends_with(0);
}

#[test]
fn the_newest_log_is_found_among_thousands_of_other_files() {
    let place = Place::new();
    for number in 0..2500 {
        place.write(&format!("{number}.txt"), "");
    }
    place.log("vae.log", Scenario::Vae);
    let mut session = place.start();
    session.see_chosen("Newest log").see("vae.log").see_no("Too many").send("q").ends_with(0);
    for number in 0..2500 {
        place.write(&format!("{number}.log"), "");
    }
    let mut session = place.start();
    session.see("Too many logs here to check all of them").send("q").ends_with(0);
}

#[test]
fn home_without_logs_offers_a_path() {
    let place = Place::new();
    let mut session = place.start();
    session.see("No logs found").see("none yet").see_no("Newest log").see_chosen("Choose a log");
    session.send("o").see("No stored reports yet");
    session.send(DOWN).see_no("No stored reports yet").see_chosen("Stored reports");
    session.send("n").send(ENTER).see("No stored reports yet").send("q").ends_with(0);
}

#[test]
fn home_with_only_a_script_offers_to_run_it() {
    let place = Place::new();
    place.write("model.py", "");
    let mut session = place.start();
    session.see("model.py or any command").see_chosen("Run a command");
    session.send(ENTER).see("Command  model.py").send(CTRL_C).ends_with(130);
}

#[test]
fn home_with_only_reports_offers_those() {
    let place = Place::with_reports();
    for log in ["vae.log", "oom.log"] {
        fs::remove_file(place.file(log)).unwrap();
    }
    let mut session = place.start();
    session.see_chosen("Stored reports").send(ENTER).see("written").send("q").ends_with(0);
}

#[test]
fn every_choice_at_home_can_be_reached_by_arrows() {
    let place = Place::with_log();
    let mut session = place.start();
    for choice in ["Newest log", "Choose a log", "Stored reports", "Run a command", "Serve reports", "Quit"] {
        session.see_chosen(choice).send(DOWN);
    }
    session.see_chosen("Newest log").send(UP).see_chosen("Quit");
    session.send(HOME).see_chosen("Newest log").send("j").see_chosen("Choose a log");
    session.send("k").see_chosen("Newest log").send(END).see_chosen("Quit").send(ENTER).ends_with(0);
}

#[test]
fn every_choice_at_home_has_a_letter() {
    let place = Place::with_reports();
    let mut session = place.start();
    for (letter, seen) in
        [("n", "p page"), ("l", "Path"), ("o", "written"), ("r", "Command"), ("s", "serve the reports")]
    {
        session.see("where did the device memory go?").send(letter).see(seen).send(ESCAPE);
    }
    session.see("where did the device memory go?").send("q").ends_with(0);
}

#[test]
fn a_path_can_be_typed_or_pasted_at_home() {
    let place = Place::with_log();
    let path = place.file("vae.log").display().to_string();
    let mut session = place.start();
    session.see("Newest log").paste(&path).see("choose a log").see("vae.log").send(ENTER).see("p page");
    session.send("r").see("Path").send(ESCAPE).see("Newest log");
    session.send(&path).send(ENTER).see("p page").send("q").ends_with(0);
}

// The prompt for a path.

#[test]
fn a_path_is_typed_and_edited() {
    let place = Place::with_log();
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files");
    session.send("XXae.lo").see("Path  XXae.lo");
    session.send(HOME).send(RIGHT).send(BACKSPACE).see("Path  Xae.lo");
    session.send("v").send(RIGHT).send(BACKSPACE).see("Path  vae.lo");
    session
        .send(END)
        .send("gs")
        .see("Path  vae.logs")
        .send(LEFT)
        .send(RIGHT)
        .send(BACKSPACE)
        .see("Path  vae.log");
    session.send(CTRL_W).see_no("Path  v").send("a b/c").see("Path  a b/c").send(CTRL_W).see_no("b/c");
    session.send(CTRL_U).see_no("Path  a").send("./vae.log").send(ENTER).see("p page");
    session.send("q").ends_with(0);
}

#[test]
fn tab_completes_files_and_folders() {
    let place = Place::new();
    place.log("my logs/first model.log", Scenario::Vae);
    place.log("my logs/first try.log", Scenario::Llm);
    place.write("my logs/.hidden.log", "");
    place.write("other.txt", "");
    let mut session = place.start();
    session.see("No logs found").send("l").see("in this folder").see("my logs/").see("other.txt");
    session.send("m").see_no("other.txt").send(TAB).see("Path  my logs/").see("first try.log");
    session.see_no(".hidden").send(".").see("  .hidden.log").send(BACKSPACE).see_no(".hidden");
    // To the common prefix; the next Tab selects an entry, and one more takes it.
    session.send(TAB).see("Path  my logs/first").send(TAB).see_chosen("first model.log");
    session.send(DOWN).see_chosen("first try.log").send(UP).see_chosen("first model.log");
    session.send(TAB).see("Path  my logs/first model.log").send(ENTER).see("p page").see("weights");
    session.send("r").see("Path").send(CTRL_U).send("zz").send(TAB).see("no matching files");
    session.send(CTRL_C).ends_with(130);
}

#[test]
fn completion_and_enter_may_be_typed_ahead() {
    let place = Place::new();
    place.log("deep/er/vae.log", Scenario::Vae);
    let mut session = place.start();
    session.see("No logs found").send("ld\t\t\t\r").see("p page").see(VAE).send("q").ends_with(0);
}

#[test]
fn enter_takes_the_only_match() {
    let place = Place::new();
    place.log("deep/vae.log", Scenario::Vae);
    place.log("models/llm_1.log", Scenario::Llm);
    place.log("models/llm_2.log", Scenario::Llm);
    let mut session = place.start();
    // A folder is entered, and its only file is read.
    session.see("No logs found").send("l").see("deep/").send("de").see_chosen("deep/").send(ENTER);
    session.see("Path  deep/").see_chosen("vae.log").send(ENTER).see("p page").see("ttmem › vae");
    // Of several matches none is taken, until only one is left.
    session.send("r").see("Path").send(CTRL_U).send("models/llm").see("llm_2.log").send(ENTER);
    session.see("models/llm: not found").send("_2").see_no("llm_1.log").see_chosen("llm_2.log").send(ENTER);
    session.see("p page").see("models/llm_2.log").send("q").ends_with(0);
}

#[test]
fn enter_takes_the_only_recent_file_that_matches() {
    let place = Place::with_reports();
    fs::create_dir(place.file("elsewhere")).unwrap();
    let log = place.file("elsewhere/unusual.log");
    fs::rename(place.file("oom.log"), &log).unwrap();
    place.ttmem().arg("report").arg(&log).assert().success();
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files").send("unus").see_chosen("elsewhere/unusual.log");
    session.send(ENTER).see("p page").see("ttmem › unusual").send("q").ends_with(0);
}

#[test]
fn the_home_directory_is_expanded() {
    let place = Place::new();
    fs::copy(place.log("vae.log", Scenario::Vae), place.home().join("at home.log")).unwrap();
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files").send("~/").see("in ~/").see("  at home.log");
    session
        .send(CTRL_U)
        .see("recent files")
        .send("~")
        .send(TAB)
        .see("Path  ~/at home.log")
        .send(ENTER)
        .see("p page");
    session.send("q").ends_with(0);
}

#[test]
fn recent_files_come_first_and_are_selected_with_arrows() {
    let place = Place::with_reports();
    place.log("logs/llm_20261115_081250/llm_profile.log", Scenario::Llm);
    // The source of a report in another folder.
    fs::rename(place.file("oom.log"), place.home().join("oom.log")).unwrap();
    place.ttmem().arg("report").arg(place.home().join("oom.log")).assert().success();
    let mut session = place.start();
    session
        .see("Newest log")
        .send("l")
        .see("recent files")
        .see_chosen("logs/llm_20261115_081250/llm_profile.log");
    session.see("~/oom.log").see("  vae.log");
    session.send(DOWN).send(DOWN).send(DOWN).send(UP).send(DOWN).send(PAGE_UP).see_chosen("llm_profile.log");
    session.send(PAGE_DOWN).see_no("p page").send("oom").see_no("llm_profile").see("~/oom.log");
    session.send(DOWN).see_chosen("~/oom.log").send(ENTER).see("p page").see("Tenstorrent runtime log");
    session
        .send(ESCAPE)
        .see("Path")
        .send(CTRL_U)
        .see_chosen("llm_profile.log")
        .send(ENTER)
        .see("Tenstorrent runtime log");
    session.send("q").ends_with(0);
}

#[test]
fn pasted_paths_may_be_quoted_escaped_or_urls() {
    let place = Place::new();
    let path = place.log("my logs/it's (1).log", Scenario::Vae).display().to_string();
    let quoted = path.replace('\'', r"'\''");
    let escaped = path.replace(' ', r"\ ").replace('\'', r"\'").replace('(', r"\(").replace(')', r"\)");
    let address = format!("file://{}", path.replace(' ', "%20").replace('\'', "%27"));
    for pasted in [
        path.clone(),
        format!("{path}\n"),
        format!("'{quoted}' "),
        format!("\"{path}\"\r\n"),
        escaped.clone(),
        address.clone(),
    ] {
        let mut session = place.start_with(200, 24, &[]);
        session.see("No logs found").send("l").see("Path").paste(&pasted).see("it's (1).log");
        session.send(ENTER).see("p page").see("it's (1).log   Tenstorrent");
        session.send("q").ends_with(0);
    }
    // Terminals without bracketed paste send it as keys, and the end of a line as Enter.
    for (typed, enter) in
        [(path.clone(), "\r"), (path, "\n"), (format!("'{quoted}'"), "\r"), (escaped, "\r"), (address, "\r")]
    {
        let mut session = place.start_with(200, 24, &[]);
        session.see("No logs found").send("l").see("Path").send(&typed).send(enter);
        session.see("p page").see("it's (1).log   Tenstorrent").send("q").ends_with(0);
    }
}

#[test]
fn unreadable_paths_are_reported_under_the_prompt() {
    let place = Place::new();
    place.write("empty.log", "");
    fs::write(place.file("binary.log"), [0; 100]).unwrap();
    fs::create_dir(place.file("folder")).unwrap();
    let mut session = place.start();
    session.see("Newest log").send("l").see("Path");
    for (path, said) in [
        ("nowhere.log", "nowhere.log: not found"),
        ("nowhere/", "this is a folder; choose"),
        ("empty.log", "empty.log: empty file; capture the output again"),
        ("binary.log", "unknown format"),
        ("/proc/self/mem", "cannot read /proc/self/mem"),
        ("/dev/null", "/dev/null is a device"),
        ("..", "..: folder without a report"),
        ("-", "-: not found"),
        ("  ", "type or paste a path"),
    ] {
        session.send(CTRL_U).send(path).send(ENTER).see(said).see("Path");
    }
    session.send(CTRL_U).see_no("type or paste").send("folder").send(ENTER).see("Path  folder/");
    session.send(ENTER).see("this is a folder; choose a file in it").send(ESCAPE).see("Newest log");
    session.send("q").ends_with(0);
}

#[test]
fn a_file_without_read_permission_is_reported() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::with_log();
    let path = place.file("vae.log");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let mut session = where_permissions_count(|| place.start());
    session.see("Newest log").send(ENTER).see("vae.log: permission denied");
    session.send("q").ends_with(0);
}

const LEAVING: &str = "q: quitting; keep typing for a name that starts with q";

#[test]
fn q_in_an_empty_field_quits_unless_another_key_follows() {
    let place = Place::new();
    place.log("quick.log", Scenario::Vae);
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files").send("q").see(LEAVING);
    session.send("u").see_no(LEAVING).see("Path  qu").send("ick.log").send(ENTER).see("p page");
    session.send("r").see("Path").send(CTRL_U).see("recent files").send("q").see(LEAVING);
    session.send(BACKSPACE).see_no(LEAVING).send("q").see(LEAVING).send(ESCAPE).see("Newest log");
    session.send("l").see("recent files").send("q").see(LEAVING).ends_with(0);
    // With Enter it quits at once: nothing is read.
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files").send("q\r").ends_with(0);
    // Pasted text does not quit.
    let mut session = place.start();
    session.see("Newest log").send("l").see("recent files").paste("q").see("Path  q");
    session.send(ENTER).see("p page").send(CTRL_C).ends_with(130);
}

// Reading.

/// A session that reads from a pipe with some data and no end yet.
fn reading(place: &Place) -> (Session, fs::File) {
    let pipe = place.file("pipe.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut session = place.start();
    session.see("No logs found").send("lpipe.log\r");
    let mut writer = fs::File::options().write(true).open(&pipe).unwrap();
    writer.write_all(&[b'\n'; 3 << 10]).unwrap();
    session.see("ttmem › reading").see("pipe.log").see("3.0 KiB read");
    (session, writer)
}

#[test]
fn reading_shows_its_progress_and_can_be_canceled() {
    let place = Place::new();
    let (mut session, mut writer) = reading(&place);
    writer.write_all(&[b'\n'; 2 << 10]).unwrap();
    session.see("5.0 KiB read").send(ESCAPE).see("Reading canceled").see("Path");
    session.send(ESCAPE).see("No logs found").send("q").ends_with(0);
}

#[test]
fn a_pipe_is_summarized_at_its_end() {
    let place = Place::new();
    let log = fs::read(place.log("elsewhere/vae.txt", Scenario::Vae)).unwrap();
    let (mut session, mut writer) = reading(&place);
    writer.write_all(&log).unwrap();
    drop(writer);
    session.see("Tenstorrent runtime log").send("q").ends_with(0);
}

#[test]
fn quitting_while_reading() {
    let place = Place::new();
    let (mut session, _writer) = reading(&place);
    session.send("q").ends_with(0);
    let place = Place::new();
    let (mut session, _writer) = reading(&place);
    session.send(CTRL_C).ends_with(130);
}

// The summary.

fn answered(place: &Place) -> Session {
    let mut session = place.start();
    session.see("Newest log").send("l").see("Path").send("vae.log\r").see(VAE).see("p page");
    session
}

#[test]
fn the_summary_scrolls() {
    let place = Place::with_log();
    let mut session = answered(&place);
    session.see("lines 1–");
    session
        .send(DOWN)
        .see("lines 2–")
        .send("j")
        .see("lines 3–")
        .send("k")
        .see("lines 2–")
        .send(UP)
        .see("lines 1–");
    session.send(PAGE_DOWN).see_no("lines 1–").send(PAGE_UP).see("lines 1–");
    session.send(END).see("DRAM at the end").send(HOME).see("lines 1–").see(VAE);
    session.send("G").see("DRAM at the end").send("g").see(VAE).send(" ").see_no("lines 1–").send("g");
    // Tables that are too wide scroll sideways.
    session
        .send(PAGE_DOWN)
        .send(PAGE_DOWN)
        .see("allocated by")
        .send(RIGHT)
        .send(RIGHT)
        .send(RIGHT)
        .see("freed by")
        .send(LEFT)
        .send(LEFT)
        .send(LEFT)
        .see("live, largest first");
    session.send("q").ends_with(0);
}

#[test]
fn the_screen_has_the_same_summary_as_the_command() {
    let place = Place::with_log();
    let mut session = place.start_with(140, 60, &[]);
    session.see("Newest log").send(ENTER).see(VAE);
    let output = place.ttmem().args(["summary", "vae.log"]).output().unwrap();
    // Without a terminal the width differs; sentences and numbers are the same.
    let summary = String::from_utf8(output.stdout).unwrap();
    // The hints differ: options here, keys on the screen.
    let plain = summary.replace("(--top shows more)", "").replace("(--markdown shows more)", "");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let wanted: Vec<String> =
        words(&plain).into_iter().filter(|word| !word.contains(['▓', '░', '…'])).collect();
    session.wait_until(&summary, |screen| {
        let seen = words(screen);
        wanted.iter().all(|word| seen.contains(word))
    });
    session.send("q").ends_with(0);
}

#[test]
fn all_rows_are_shown_on_request() {
    let place = Place::with_log();
    // More than ten groups of tensors.
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/llm-decode.log");
    fs::copy(log, place.file("llm.log")).unwrap();
    let mut session = place.start_with(140, 60, &[]);
    session.see("Newest log").send("l").see("Path").send("llm.log\r").see("p page");
    session.see("all rows").see("more, ").see("(press a for all)");
    session.send("a").see("top rows").see_no("(press a for all)");
    session.send("a").see("all rows").see("(press a for all)").send("q").ends_with(0);
}

#[test]
fn markdown_is_saved_and_nothing_is_replaced_without_asking() {
    let place = Place::with_log();
    let mut session = answered(&place);
    session.send("m").see("Save Markdown as  vae.md").send(ESCAPE).see_no("Save Markdown").see("p page");
    session.send("m").see("vae.md").send(ENTER).see("Wrote vae.md");
    let saved = fs::read_to_string(place.file("vae.md")).unwrap();
    let output = place.ttmem().args(["summary", "--markdown", "vae.log"]).output().unwrap();
    assert_eq!(saved, String::from_utf8(output.stdout).unwrap());
    place.write("vae.md", "mine");
    session.send("m").see("Save Markdown as").send(ENTER).see("vae.md already exists. Replace it? y/n");
    session.send("x").send("n").see("Save Markdown as  vae.md");
    assert_eq!(fs::read_to_string(place.file("vae.md")).unwrap(), "mine");
    session.send(CTRL_U).send(ENTER).see("type a file name");
    session
        .send("nowhere/x.md")
        .send(ENTER)
        .see("cannot write nowhere/x.md")
        .see("Save Markdown as  nowhere/x.md");
    fs::create_dir(place.file("folder")).unwrap();
    session.send(CTRL_U).send("folder").send(ENTER).see("folder is a folder; choose a file in it");
    session.send(CTRL_U).paste("my notes.md\n").send(ENTER).see("Wrote my notes.md");
    assert_eq!(fs::read_to_string(place.file("my notes.md")).unwrap(), saved);
    session.send("m").see("Save Markdown as").send(ENTER).see("Replace it?").send("y").see("Wrote vae.md");
    assert_eq!(fs::read_to_string(place.file("vae.md")).unwrap(), saved);
    session.send("q").ends_with(0);
}

#[test]
fn the_name_of_the_markdown_may_start_with_q() {
    let place = Place::with_log();
    let mut session = answered(&place);
    session.send("m").see("vae.md").send(CTRL_U).see_no("vae.md").send("q").see("q: quitting");
    session.send(".md\r").see("Wrote q.md").send("m").see("vae.md").send("q").see("vae.mdq").send(CTRL_U);
    session.see_no("vae.mdq").send("q").see("q: quitting").ends_with(0);
}

#[test]
fn the_page_is_stored_and_without_a_browser_there_are_instructions() {
    let place = Place::with_log();
    let mut session = place.start_with(160, 24, &[("USER", "me")]);
    session.see("Newest log").send(ENTER).see("p page").send("p");
    let page = place.reports().join("vae/vae_report.html");
    session.see("Page written:").see(&page.display().to_string()).see("Cannot start a browser here");
    session.see("Press s to serve the page").see("scp me@").see("vae_report.html .");
    assert!(page.is_file());
    // It is stored now, so the second time it is only shown.
    fs::write(&page, "as it is").unwrap();
    session.send(DOWN).see_no("scp").send("p").see("scp me@");
    assert_eq!(fs::read_to_string(&page).unwrap(), "as it is");
    session.send("r").see("1; the newest is vae").send("q").ends_with(0);
}

/// A session whose report cannot be written before the lock is dropped, with a partly written report.
fn writing(place: &Place) -> (Session, fs::File, PathBuf) {
    let locks = place.reports().join(".locks");
    fs::create_dir_all(&locks).unwrap();
    let lock = fs::File::create(locks.join("vae")).unwrap();
    lock.lock().unwrap();
    let mut session = answered(place);
    let staged = place.reports().join(format!("other/.ttmem-staged-{}-7", session.id()));
    fs::create_dir_all(&staged).unwrap();
    session.send("p").see("Writing the report");
    (session, lock, staged)
}

#[test]
fn quitting_waits_for_a_report_that_is_being_written() {
    let place = Place::with_log();
    let (mut session, lock, staged) = writing(&place);
    session.send("q").see("the report is still being written");
    drop(lock);
    session.ends_with(0);
    assert!(place.reports().join("vae/vae_report.html").is_file());
    assert!(!staged.exists());
}

#[test]
fn an_abandoned_report_leaves_no_files() {
    let place = Place::with_log();
    let (mut session, lock, staged) = writing(&place);
    session.send("q").see("the report is still being written").send(CTRL_C).ends_with(130);
    assert!(!staged.exists());
    drop(lock);
    let (mut session, _lock, staged) = writing(&place);
    session.send(CTRL_C).ends_with(130);
    assert!(!staged.exists());
}

#[test]
fn the_page_is_opened_in_a_browser() {
    let place = Place::with_log();
    place.program("xdg-open", "#!/bin/sh\nprintf %s \"$1\" >\"$HOME/opened\"\n");
    let mut session = place.start_with(160, 24, &[("DISPLAY", ":0")]);
    session.see("Newest log").send(ENTER).see("p page").send("p").see("Opened in your browser:");
    let page = place.reports().join("vae/vae_report.html");
    session.wait_until("an opened page", |_| {
        fs::read_to_string(place.home().join("opened"))
            .is_ok_and(|opened| opened == page.display().to_string())
    });
    session.send("q").ends_with(0);
}

#[test]
fn a_report_that_cannot_be_stored_is_an_error() {
    let place = Place::with_log();
    let mut session = place.start_with(160, 24, &[("TTMEM_HOME", "/proc/self")]);
    session
        .see("Newest log")
        .send(ENTER)
        .see("p page")
        .send("p")
        .see("cannot store the report: cannot write");
    session.send("q").ends_with(0);
}

#[test]
fn warnings_are_shown_with_the_summary() {
    let place = Place::new();
    let log = place.log("cut.log", Scenario::Vae);
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, &text[..text.len() * 2 / 3]).unwrap();
    let mut session = place.start();
    session.see("Newest log").send(ENTER).see("p page").see("warning").send(END).see("warning: cut.log");
    session.send("q").ends_with(0);
}

// Stored reports.

fn stored(place: &Place) -> Session {
    let mut session = place.start();
    session.see("2; the newest is vae").send("o").see("written").see("tt_log");
    session
}

#[test]
fn stored_reports_are_listed_found_and_shown() {
    let place = Place::with_reports();
    let mut session = stored(&place);
    session.see("2 reports").see("OOM").see_chosen("vae");
    session.send(DOWN).see_chosen("oom").send(DOWN).see_chosen("oom").send(HOME).see_chosen("vae");
    session.send(END).see_chosen("oom").send(PAGE_UP).see_chosen("vae").send(PAGE_DOWN).see_chosen("oom");
    session.send(UP).see_chosen("vae").send("j").see_chosen("oom").send("k").see_chosen("vae");
    session.send("/").see("Search").send("OO").see("1 of 2").see_chosen("oom").send(ENTER).see(OOM);
    session.send("r").see("Search  OO").send(ESCAPE).see("2 reports");
    session.send("/").send("nothing").see("No matching reports").send(ENTER).see("Search  nothing");
    session
        .send("/")
        .send(ESCAPE)
        .see("2 reports")
        .send("/")
        .see("Search")
        .paste("vae")
        .see("1 of 2")
        .send(DOWN)
        .send(ENTER)
        .see(VAE);
    session.send(ESCAPE).see("written").send(ESCAPE).see("2 reports").send(ESCAPE).see("Newest log");
    session.send("q").ends_with(0);
}

#[test]
fn a_stored_report_is_removed_only_after_confirmation() {
    let place = Place::with_reports();
    let mut session = stored(&place);
    session.send("x").see("Remove the report vae and its files").send("z").see("Remove the report vae");
    session.send("n").see("Kept vae.").send("x").see("Remove the").send(ESCAPE).see("Kept vae.");
    assert!(place.reports().join("vae").is_dir());
    session.send("x").see("Remove the").send("y").see("Removed vae.").see("1 report").see_chosen("oom");
    assert!(!place.reports().join("vae").exists());
    session.send("x").see("Remove the report oom").send("y").see("Removed oom.").see("No stored reports.");
    session.send("x").send(ENTER).see_no("Remove").send(ESCAPE).see("none yet").send("q").ends_with(0);
    assert!(place.file("vae.log").is_file() && place.file("oom.log").is_file());
}

#[test]
fn a_report_that_another_process_removed_is_an_error() {
    let place = Place::with_reports();
    let mut session = stored(&place);
    fs::remove_dir_all(place.reports().join("vae")).unwrap();
    session.send("x").see("Remove the report vae").send("y").see("no report named \"vae\"");
    session.send(ENTER).see("vae: the report no longer exists").send("q").ends_with(0);
}

#[test]
fn a_run_is_only_removed_from_the_list() {
    use std::os::unix::fs::symlink;

    let place = Place::with_reports();
    let folder = place.file("logs/vae_20261115_081250");
    place.ttmem().args(["report", "vae.log", "-o"]).arg(&folder).assert().success();
    symlink(&folder, place.reports().join("vae_20261115_081250")).unwrap();
    let mut session = place.start();
    session
        .see("3; the newest is vae_2026")
        .send("o")
        .see("stored reports")
        .see_chosen("_20261115_081250")
        .send("x");
    session
        .see("Remove the run vae_20261115_081250 from the list?")
        .send("y")
        .see("Removed vae_2")
        .see("2 reports");
    assert!(folder.join("vae.ttmem").is_file());
    session.send("q").ends_with(0);
}

// No memory data.

const BLOCK: [&str; 4] = [
    "export TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG",
    "export TT_RUNTIME_MEMORY_LOG_LEVEL=any",
    "export TTXLA_LOGGER_LEVEL=DEBUG",
    "ttmem run your_model.py",
];

fn without_memory(place: &Place) -> Session {
    place.log_without_memory("bare.log");
    let mut session = place.start();
    session.see("Newest log").send("l").see("Path").send("bare.log\r").see("no memory data in this log");
    for line in BLOCK {
        session.see(line);
    }
    session.see("bare.log: no memory data; the log has");
    session
}

/// Whether the block is on the normal screen, each line complete and separate.
fn has_block(screen: &str) -> bool {
    BLOCK.iter().all(|wanted| screen.lines().any(|line| line == *wanted))
}

#[test]
fn a_log_without_memory_data_prints_the_settings_again_at_the_end() {
    let place = Place::new();
    for keys in ["q", CTRL_C] {
        let mut session = without_memory(&place);
        let screen = session.send(keys).ends_with(if keys == "q" { 0 } else { 130 });
        assert!(has_block(&screen), "{screen}");
    }
    let mut session = without_memory(&place);
    session.send("j").send(ESCAPE).see("Path").send(ESCAPE).see("Newest log");
    let screen = session.send("q").ends_with(0);
    assert!(has_block(&screen), "{screen}");
}

#[test]
fn after_a_log_without_memory_data_another_can_be_chosen() {
    let place = Place::with_log();
    let mut session = without_memory(&place);
    session.send("l").see("recent files").send("vae.log\r").see(VAE);
    let screen = session.send("q").ends_with(0);
    assert!(!has_block(&screen), "{screen}");
    let mut session = without_memory(&place);
    session.send(ENTER).see("Path").see_no("export").send(CTRL_C).ends_with(130);
}

// Quitting, and the state of the terminal afterwards.

type Way = fn(&Place) -> Session;

/// The way to every screen, and whether `q` there is a letter in a field that is not empty.
fn every_screen() -> Vec<(Way, bool)> {
    /// Sends keys, and waits for what they lead to: a key that is sent while a file is read does nothing.
    fn at(place: &Place, steps: &[(&str, &str)]) -> Session {
        let mut session = place.start();
        session.see("2; the newest is vae");
        for (keys, seen) in steps {
            session.send(keys).see(seen);
        }
        session
    }
    vec![
        (|place| at(place, &[("", "Newest log")]), false),
        (|place| at(place, &[("l", "recent files")]), false),
        (|place| at(place, &[("lva", "Path  va")]), true),
        (|place| at(place, &[("lnowhere\r", "not found"), (CTRL_U, "Path")]), false),
        (|place| at(place, &[("lvae.log\r", VAE)]), false),
        (|place| at(place, &[("lvae.log\r", VAE), ("m", "Save Markdown as")]), true),
        (
            |place| {
                place.write("vae.md", "");
                at(place, &[("lvae.log\r", VAE), ("m\r", "Replace it?")])
            },
            false,
        ),
        (|place| at(place, &[("o", "written")]), false),
        (|place| at(place, &[("o", "written"), ("/", "Search")]), false),
        (|place| at(place, &[("o", "written"), ("x", "Remove the report")]), false),
        (without_memory, false),
        (|place| at(place, &[("r", "Command")]), false),
        (|place| at(place, &[("s", "serve the reports")]), false),
    ]
}

#[test]
fn ctrl_c_quits_every_screen_and_restores_the_terminal() {
    for (go, _) in every_screen() {
        go(&Place::with_reports()).send(CTRL_C).ends_with(130);
    }
}

#[test]
fn q_quits_every_screen() {
    for (go, is_letter) in every_screen() {
        let mut session = go(&Place::with_reports());
        if is_letter {
            session.send("q").see("q").send(CTRL_U).see_no("quitting");
        }
        session.send("q").ends_with(0);
    }
}

#[test]
fn signals_and_a_lost_terminal_end_it() {
    let place = Place::with_log();
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::USR1, 138),
        (Signal::USR2, 140),
        (Signal::ALARM, 142),
    ] {
        let mut session = place.start();
        session.see_chosen("Newest log").signal(signal).ends_with(code);
    }
    let mut session = place.start();
    session.see_chosen("Newest log");
    assert_eq!(session.hang_up(), 129);
    let place = Place::new();
    let (session, _writer) = reading(&place);
    assert_eq!(session.hang_up(), 129);
}

#[test]
fn ctrl_l_redraws_the_screen() {
    let place = Place::with_log();
    let mut session = place.start();
    session.see_chosen("Newest log");
    session.scribble("\x1b[H\x1b[2JThe system goes down for maintenance.").see_no("Newest log");
    session.send("\x0c").see_chosen("Newest log").see_no("maintenance").send("q").ends_with(0);
}

#[test]
fn ctrl_z_without_a_shell_does_nothing() {
    let place = Place::with_log();
    let mut session = place.start();
    session.see_chosen("Newest log").send(CTRL_Z).see_chosen("Newest log").send("l").see("recent files");
    session.signal(Signal::TSTP).see("recent files").send("vae").see("Path  vae");
    session.send(CTRL_C).ends_with(130);
}

#[test]
fn it_can_be_suspended_and_continued() {
    let place = Place::with_log();
    let mut shell = place.start_in_shell();
    // By Ctrl-Z, and by a signal from another process.
    shell.send("sh -c 'echo $$ >pid; exec ttmem'; echo code $?\r").see_chosen("Newest log");
    shell.send(CTRL_Z).see("Stopped").see_no("Newest log");
    shell.send("fg\r").see_chosen("Newest log").send("l").see("recent files");
    let id: i32 = fs::read_to_string(place.file("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), Signal::TSTP).unwrap();
    shell.see_no("recent files").see("Stopped");
    // Typed text is echoed, so the terminal was restored.
    shell.send("echo as it was\r").see("$ echo as it was").send("fg\r").see("recent files");
    shell.send("vae.log\r").see(VAE).send("q").see_no("p page");
    // Keys that are typed before the shell reads again would be lost.
    shell.wait_until("the prompt", |screen| screen.trim_end().ends_with("\n$"));
    shell.send("exit\r").ends_with(0);
}

#[test]
fn a_command_is_suspended_together_with_ttmem() {
    let place = Place::new();
    script(&place, Some(Scenario::Vae), "echo it waits\nread line\necho it got $line");
    let mut shell = place.start_in_shell();
    shell.send("ttmem\r");
    run(&mut shell, "sh model.sh", "it waits");
    shell.send(CTRL_Z).see("Stopped").send("fg\r").see("fg\nttmem\n").send("that\r").see("p page");
    shell.send("q").see_no("p page").send("exit\r").ends_with(0);
}

// Only debug builds have a key that panics.
#[cfg(debug_assertions)]
#[test]
fn a_panic_restores_the_terminal() {
    let place = Place::with_log();
    let mut session = place.start();
    session.see_chosen("Newest log").send("\x1c");
    let screen = session.ends_with(70);
    assert!(screen.contains("this is a bug in ttmem"), "{screen}");
}

// The terminal itself.

#[test]
fn a_resized_terminal_is_redrawn() {
    let place = Place::with_reports();
    let mut session = place.start_with(100, 30, &[]);
    session.see("2; the newest is vae").resize(60, 12).see("n l o r s shortcuts").see_chosen("Newest log");
    session.resize(30, 5).see("ttmem needs 40x10").see("30x5").resize(40, 10).see_chosen("Newest log");
    session.send("l").see("recent files").resize(120, 40).see("q quit if empty");
    session.send("vae").see("Path  vae").resize(50, 12).see("Path  vae").send(".log\r").see("Tenstorrent");
    session
        .resize(40, 10)
        .see("lines 1–")
        .resize(140, 50)
        .see(VAE)
        .see("What to change")
        .send("r")
        .see("Path");
    session
        .send(ESCAPE)
        .see("Stored reports")
        .send("o")
        .see("format")
        .resize(40, 10)
        .see_no("format")
        .see("peak");
    session.send("x").see("Remove the").resize(90, 20).see("Remove the report vae and its files").send("n");
    session.see("Kept vae").send(ESCAPE).see("Newest log").send("lvae").see("Path  vae");
    // Keys are ignored while the terminal is too small. The two resizes show that the key was read.
    session.resize(30, 5).see("ttmem needs").send("x").resize(31, 5).see("31x5").resize(32, 5).see("32x5");
    session.resize(90, 20).see("Path  vae\n");
    session.resize(20, 4).see("ttmem needs").send("q").ends_with(0);
}

#[test]
fn every_screen_can_be_read_on_a_small_terminal() {
    let place = Place::with_reports();
    place.log_without_memory("bare.log");
    let mut session = place.start_with(40, 10, &[]);
    session.see("Newest log").see("q quit").send("l").see("Path").see("Enter read").send(ESCAPE);
    session
        .see("Newest log")
        .send("o")
        .see("peak")
        .see("x remove")
        .send("x")
        .see("Remove the report")
        .see("y/n");
    session.send("n").see("Kept").send(ENTER).see("lines 1–").see("q quit").send("m").see("Save Markdown as");
    session.send(ESCAPE).see("p page").send("p").see("Page written").see("q quit").send("r").see("peak");
    session
        .send(ESCAPE)
        .see("Newest log")
        .send("r")
        .see("Command")
        .see("Enter run")
        .send(ESCAPE)
        .see("Newest log");
    session
        .send("l")
        .see("Path")
        .send("bare.log\r")
        .see("export")
        .see("q quit")
        .send(END)
        .see("first submit");
    session.send("q").ends_with(0);
}

/// Whether anything on the screen has a color.
fn has_color(session: &Session) -> bool {
    session.with_emulator(|screen| {
        let (rows, columns) = screen.size();
        let row = |row| (0..columns.get()).filter_map(move |column| screen.cell(row, column));
        (0..rows.get())
            .flat_map(row)
            .any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
    })
}

#[test]
fn colors_are_used_unless_disabled() {
    let place = Place::with_reports();
    for (environment, wanted) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let mut session = place.start_with(80, 24, environment);
        session.see("Newest log").send("loom.log\r").see(OOM);
        assert_eq!(has_color(&session), wanted, "the answer");
        session.send("r").see("Path").send(ESCAPE).see("Stored").send("o").see("OOM");
        assert_eq!(has_color(&session), wanted, "the list");
        session.send("q").ends_with(0);
    }
}

#[test]
fn without_a_terminal_help_is_printed() {
    let place = Place::with_log();
    let output = place.ttmem().assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: ttmem"));
    let mut session = place.start_with(80, 24, &[("TERM", "dumb")]);
    assert!(session.ends_with(2).contains("choose a log or report interactively"));
}

#[test]
fn an_unknown_home_does_not_prevent_reading() {
    let place = Place::with_log();
    let mut session = place.start_with(100, 24, &[("HOME", "")]);
    session.see("no home directory").send("l").see("recent files").send("vae.log\r").see(VAE);
    session.send("p").see("cannot store the report").send("q").ends_with(0);
}

// Other commands: `ttmem run` and `ttmem serve`, as processes.

/// Writes a script that prints a log and then does something.
fn script(place: &Place, scenario: Option<Scenario>, then: &str) {
    let printed = match scenario {
        Some(scenario) => format!("cat '{}'", place.log("elsewhere/printed.txt", scenario).display()),
        None => "echo nothing of the runtime".to_owned(),
    };
    place.write("model.sh", &format!("{printed}\n{then}\n"));
}

/// Types the command, and waits until the screen shows a text.
fn run(session: &mut Session, command: &str, seen: &str) {
    session.see("Run a command").send("r").see("Command").send(CTRL_U).send(command).send(ENTER).see(seen);
}

#[test]
fn a_command_is_run_and_its_result_is_shown() {
    let place = Place::new();
    script(&place, Some(Scenario::Vae), "");
    let mut session = place.start();
    run(&mut session, "sh model.sh", "p page");
    session.see("sh model.sh ended with exit code 0").see("weights").send("r");
    // The command stays in the field, to be run again.
    session.see("Command  sh model.sh").see("ended with exit code 0").send(ESCAPE).see("1; the newest is");
    // The log is offered, but not its profile.
    session.see("sh_profile.log").see("1 recent file").send("q").ends_with(0);
}

#[test]
fn a_command_that_fails_is_reported_with_its_exit_code() {
    let place = Place::new();
    script(&place, Some(Scenario::OomCapacity), "exit 3");
    let mut session = place.start();
    run(&mut session, "sh model.sh", "p page");
    session.see("sh model.sh ended with exit code 3").see("DRAM").send(CTRL_C).ends_with(130);
}

#[test]
fn a_command_without_memory_data_says_how_it_ended_and_what_it_printed_last() {
    let place = Place::new();
    let mut session = place.start();
    for (then, ended, printed) in [
        ("", "ended with exit code 0", "nothing of the runtime"),
        ("echo Traceback >&2\nexit 1", "ended with exit code 1", "Traceback"),
        ("kill -9 $$", "was killed by signal 9 (SIGKILL)", "nothing of the runtime"),
    ] {
        script(&place, None, then);
        run(&mut session, "sh model.sh", "no report for this run");
        session.see(&format!("sh model.sh {ended}")).see(printed).see("no output from");
        session.see_no("export").send(ESCAPE).see("Command  sh model.sh").see(ended).send(ESCAPE);
    }
    for (command, ended) in [("true", "ended with exit code 0"), ("sh -c 'exit 7'", "ended with exit code 7")]
    {
        run(&mut session, command, "no report for this run");
        session
            .see(&format!("{command} {ended}"))
            .see("The command printed nothing.")
            .send(ESCAPE)
            .see("Command");
        session.send(ESCAPE);
    }
    session.see("where did").send("q").ends_with(0);
}

#[test]
fn the_result_is_that_of_the_command_even_if_others_run_here() {
    let place = Place::new();
    // Another run that starts and ends while the command runs, and is the newest.
    let other = place.log("elsewhere/other.txt", Scenario::Llm);
    let ttmem = assert_cmd::cargo::cargo_bin("ttmem");
    let other =
        format!("'{}' run --name other -- cat '{}' >/dev/null 2>&1", ttmem.display(), other.display());
    script(&place, Some(Scenario::Vae), &other);
    let mut session = place.start();
    run(&mut session, "sh model.sh", "p page");
    session.see("ttmem › sh_").see("Tenstorrent runtime log").send("r").see("Command").send(ESCAPE);
    session.see("2; the newest is").see("where did");
    script(&place, None, &other);
    run(&mut session, "sh model.sh", "no report for this run");
    session.see("sh model.sh ended with exit code 0").see("nothing of the runtime").send("q").ends_with(0);
}

#[test]
fn the_error_of_a_missing_command_stays_until_enter() {
    let place = Place::new();
    let mut session = place.start();
    run(&mut session, "nosuch.py", "Press Enter to go back");
    session.see("nosuch.py: not found").send(ENTER).see("nosuch.py was not started").see("exit code 2");
    session.see("Command  nosuch.py").send(CTRL_C).ends_with(130);
}

#[test]
fn ctrl_c_while_a_command_runs_is_for_the_command() {
    let place = Place::new();
    script(&place, Some(Scenario::Vae), "echo it waits\nexec sleep 600");
    let mut session = place.start();
    run(&mut session, "sh model.sh", "it waits");
    session.send(CTRL_C).see("p page").see("sh model.sh").send("q").ends_with(0);
}

#[test]
fn a_signal_while_a_command_runs_ends_both() {
    let place = Place::new();
    script(&place, None, "echo $$ >pid\necho it waits\nexec sleep 600");
    let mut session = place.start();
    run(&mut session, "sh model.sh", "it waits");
    session.signal(Signal::TERM).ends_with(143);
    let id = fs::read_to_string(place.file("pid")).unwrap();
    let process = format!("/proc/{}", id.trim());
    session.wait_until("the end of the command", |_| !std::path::Path::new(&process).exists());
}

#[test]
fn an_invalid_command_line_is_reported_under_the_prompt() {
    let place = Place::new();
    place.write("my model.sh", "");
    place.write("my other.txt", "");
    let mut session = place.start();
    session.see("Run a command").send("r").see("Command").send(ENTER).see("type a script or command");
    for (command, said) in
        [("a | b", "`|` needs a shell"), ("echo hi>out.txt", "`>` needs a shell"), ("'a", "unclosed quote")]
    {
        session.send(CTRL_U).send(command).send(ENTER).see(said).see("Command");
    }
    session
        .send(CTRL_U)
        .send("sh my")
        .send(TAB)
        .see("Command  sh my\\ ")
        .see("my model.sh")
        .see("my other.txt");
    session.send(CTRL_U).send("sh zz").send(TAB).see("no matching files");
    session
        .send(CTRL_U)
        .send("q")
        .see("q: quitting")
        .send("x")
        .see("Command  qx")
        .send(ESCAPE)
        .see("Run a command");
    session.send("q").ends_with(0);
}

/// Opens the screen of the server; returns its address.
fn serving(session: &mut Session) -> String {
    session.see("s").send("s").see("serve the reports").see("http://localhost:");
    let screen = session.screen();
    let (_, rest) = screen.split_once("http://").unwrap();
    rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || ".:".contains(*letter)).collect()
}

fn is_served(address: &str) -> bool {
    std::net::TcpStream::connect(address).is_ok()
}

#[test]
fn reports_are_served_until_the_screen_is_closed() {
    let place = Place::with_reports();
    let mut session = place.start();
    session.see("2; the newest is vae");
    let address = serving(&mut session);
    session.see("ssh -L").see("stop and go back").see_no("Press Ctrl-C to stop");
    assert!(is_served(&address));
    session.send(ESCAPE).see("Newest log");
    assert!(!is_served(&address), "it is stopped before the next screen is drawn");
    for (keys, code) in [("q", 0), (CTRL_C, 130)] {
        session.see("Newest log");
        let address = serving(&mut session);
        assert!(is_served(&address));
        session.send(keys).ends_with(code);
        assert!(!is_served(&address));
        session = place.start();
    }
    session.see("Newest log").send("q").ends_with(0);
}

#[test]
fn a_report_is_stored_before_it_is_served() {
    let place = Place::with_log();
    let mut session = answered(&place);
    serving(&mut session);
    assert!(place.reports().join("vae/vae_report.html").is_file());
    session.send(ESCAPE).see("p page").see(VAE).send("q").ends_with(0);
}
