//! Snapshots of the screens on a test backend, and drawing at any size.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ttmem::query::{Request, Summary};
use ttmem::store::{Store, Stored};

use crate::commands::interactive::app::App;
use crate::commands::interactive::inventory::{Inventory, RecentFile};
use crate::commands::interactive::look::Look;
use crate::commands::interactive::message::{Answer, Effect, Left, Message, Report, RunLog};
use crate::commands::interactive::view;

/// The state, driven by keys, with the answers given by the test.
struct Driven {
    app: App,
    effects: Vec<Effect>,
}

const NOW: u64 = 1_800_000_000;

impl Driven {
    fn new() -> Self {
        // Created once: the list needs no files.
        static REPORTS: OnceLock<Vec<Stored>> = OnceLock::new();
        let reports = REPORTS.get_or_init(|| reports(tempfile::tempdir().unwrap().path())).clone();
        let mut driven = Self { app: App::new(), effects: Vec::new() };
        driven.take(Message::Answer(Answer::Stock(Box::new(inventory(reports)))));
        driven
    }

    fn take(&mut self, message: Message) {
        self.effects.extend(self.app.update(message));
    }

    fn press(mut self, keys: &str) -> Self {
        for letter in keys.chars() {
            let code = match letter {
                '\r' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                letter => KeyCode::Char(letter),
            };
            self.take(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
        self
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.take(Message::Answer(answer));
        self
    }

    /// Answers the last request to read.
    fn read(self, outcome: ttmem::Result<Box<Report>>) -> Self {
        let reading = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Read { progress, .. } => Some(progress.clone()),
            _ => None,
        });
        let progress = reading.expect("something is read");
        self.answer(Answer::Read { progress, outcome })
    }

    fn draw(&mut self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let look = Look { has_color: true };
        terminal.draw(|frame| view::draw(&mut self.app, look, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let text =
            |row: &[ratatui::buffer::Cell]| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned() + "\n").collect()
    }
}

fn corpus(name: &str) -> String {
    format!("{}/../../corpus/tt_log/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn reports(home: &std::path::Path) -> Vec<Stored> {
    let store = Store::at(home);
    for log in ["two-graphs.log", "oom-fragmentation.log", "vae-decoder.log"] {
        store.save(&mut ttmem::read::open(&corpus(log)).unwrap(), &corpus(log), None).unwrap();
    }
    let mut reports = store.list().unwrap();
    reports.sort_by(|a, b| b.name.cmp(&a.name));
    for (report, seconds) in reports.iter_mut().zip([60, 7200, 200_000]) {
        report.written = Timestamp::from_second(i64::try_from(NOW - seconds).unwrap()).ok();
        report.bytes = 500_000;
    }
    reports
}

fn inventory(reports: Vec<Stored>) -> Inventory {
    let file = |name: &str, seconds: u64, bytes: u64| RecentFile {
        path: PathBuf::from("/home/me/runs").join(name),
        written: SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - seconds),
        bytes,
    };
    Inventory {
        taken: Timestamp::from_second(i64::try_from(NOW).unwrap()).ok(),
        here: "/home/me/runs".into(),
        home: Some("/home/me".into()),
        host: Some("me@tt-quietbox".into()),
        reports,
        recent: vec![
            file("logs/vae_20261115_081250/vae_profile.log", 300, 319_488),
            file("llm decode.log", 7200, 2_340_000_000),
            file("/home/me/old/first.log", 500_000, 1000),
        ],
        is_cut: false,
        script: Some("model.py".into()),
        problem: None,
    }
}

fn summary(log: &str) -> Summary {
    let mut profile = ttmem::read::open(&corpus(log)).unwrap();
    log.clone_into(&mut profile.source.file);
    let mut summary = ttmem::query::summary(&[profile], &Request::default()).unwrap();
    summary.ranks.iter_mut().for_each(|rank| log.clone_into(&mut rank.file));
    summary
}

fn report() -> Box<Report> {
    Box::new(Report {
        name: "vae-decoder".into(),
        file: "vae-decoder.log".into(),
        summary: summary("vae-decoder.log"),
        profile: Some(Box::new(ttmem::read::open(&corpus("vae-decoder.log")).unwrap())),
        stored: None,
    })
}

fn no_memory() -> ttmem::Error {
    match ttmem::read::open(&corpus("malformed/no-memory-modules.log")) {
        Err(ttmem::Error::NoMemoryData { message, .. }) => {
            ttmem::Error::NoMemoryData { file: "model.log".into(), message }
        }
        other => panic!("{other:?}"),
    }
}

/// Every screen, by name.
fn every_screen() -> Vec<(&'static str, Driven)> {
    let home = Driven::new;
    let listing = || {
        let entry = |name: &str, is_folder| crate::commands::interactive::completion::Entry {
            name: name.into(),
            is_folder,
        };
        Answer::Listed(crate::commands::interactive::completion::Listing {
            folder: ".".into(),
            entries: vec![entry("llm decode.log", false), entry("logs", true), entry("loop.py", false)],
            is_cut: false,
        })
    };
    let page = || PathBuf::from("/home/me/.ttmem/reports/vae-decoder/vae-decoder_report.html");
    vec![
        ("home", home()),
        ("path", home().press("l").answer(listing())),
        ("path-typed", home().press("ll").answer(listing()).press("o")),
        ("path-wrong", home().press("lx.log\r").read(Err(missing("x.log")))),
        ("path-leaving", home().press("lq")),
        ("reading", home().press("n")),
        ("answer", home().press("n").read(Ok(report()))),
        (
            "answer-page",
            home().press("n").read(Ok(report())).answer(Answer::PageShown { page: page(), is_shown: false }),
        ),
        ("answer-markdown", home().press("n").read(Ok(report())).press("m")),
        ("no-memory", home().press("n").read(Err(no_memory()))),
        ("stored", home().press("o")),
        ("stored-search", home().press("o/oo")),
        ("stored-remove", home().press("ox")),
        ("run", home().press("r")),
        (
            "run-not-started",
            home().press("r\r").answer(ran("was not started: ttmem run ended …", Left::Nothing)),
        ),
        ("run-unreported", home().press("r\r").answer(ran("ended with exit code 1", Left::Log(run_log())))),
        (
            "serving",
            home()
                .press("s")
                .answer(Answer::Serving { address: "http://127.0.0.1:8000/?token=5f1c2a".into() })
                .answer(Answer::ServerSaid {
                    line: "From another machine: ssh -L 8000:127.0.0.1:8000 me@tt-quietbox".into(),
                }),
        ),
        (
            "serving-ended",
            home()
                .press("s")
                .answer(Answer::ServerEnded { how: "The server ended with exit code 2.".into() }),
        ),
    ]
}

fn ran(how: &str, left: Left) -> Answer {
    Answer::Ran { how: format!("model.py {how}"), left }
}

fn run_log() -> RunLog {
    let traceback =
        "Traceback (most recent call last):\n  File \"model.py\", line 1, in <module>\n    import nosuch\n";
    let lines: Vec<String> = (1..=20).map(|line| format!("line {line}")).collect();
    let lines = lines.join("\n");
    RunLog {
        why: "logs/model_1/model_profile.log: no output from the Tenstorrent runtime".into(),
        end: format!(
            "{lines}\n{traceback}\u{1b}[31mModuleNotFoundError\u{1b}[0m: No module named 'nosuch'\n"
        ),
    }
}

fn missing(path: &str) -> ttmem::Error {
    ttmem::Error::Read { path: path.into(), source: std::io::ErrorKind::NotFound.into() }
}

#[test]
fn screens_look_as_they_should() {
    let mut settings = insta::Settings::clone_current();
    // The time zone depends on the machine.
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "YYYY-MM-DD HH:MM");
    settings.bind(|| {
        for (name, mut driven) in every_screen() {
            insta::assert_snapshot!(name, driven.draw(80, 24));
        }
    });
}

#[test]
fn screens_are_drawn_at_any_size_with_their_keys() {
    for (name, mut driven) in every_screen() {
        for (width, height) in
            [(1, 1), (39, 9), (40, 10), (41, 16), (60, 12), (80, 24), (120, 40), (300, 100)]
        {
            let drawn = driven.draw(width, height);
            let has_keys =
                drawn.contains("quit") || name == "answer-markdown" && drawn.contains("Enter write");
            assert!(has_keys || width < 40, "{name} at {width}x{height}:\n{drawn}");
            assert_eq!(drawn.contains("ttmem needs 40x10"), width == 39, "{name}:\n{drawn}");
        }
    }
}

#[test]
fn answers_that_come_late_do_nothing() {
    // After canceling and choosing another log, the answer for the first must not be taken for the second.
    let driven = Driven::new().press("n");
    let Some(Effect::Read { progress: first, .. }) = driven.effects.last() else { panic!("nothing is read") };
    let first = first.clone();
    let mut driven = driven.press("\x1bn").answer(Answer::Read { progress: first, outcome: Ok(report()) });
    assert!(driven.draw(80, 24).contains("ttmem › reading"));
    // A report that was stored for a closed screen.
    let profile = report().profile.unwrap();
    let late = Answer::Stored { file: "other.log".into(), profile, outcome: Err(missing("x")) };
    let mut driven = driven.read(Ok(report())).answer(late);
    assert!(!driven.draw(80, 24).contains("cannot store"));
}

#[test]
fn a_profile_is_stored_once_for_the_page_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let report_of_it = reports(folder.path()).remove(0);
    let driven = Driven::new().press("n").read(Ok(report())).press("pps");
    let stores =
        |driven: &Driven| driven.effects.iter().filter(|e| matches!(e, Effect::Store { .. })).count();
    assert_eq!(stores(&driven), 1, "while it is being stored, it is not stored again");
    let profile = report().profile.unwrap();
    let driven = driven.answer(Answer::Stored {
        file: "vae-decoder.log".into(),
        profile,
        outcome: Ok(Box::new(report_of_it)),
    });
    assert!(matches!(driven.effects.last(), Some(Effect::ShowPage(_))));
    let driven = driven.press("s");
    assert!(matches!(driven.effects.last(), Some(Effect::Serve)));
    assert_eq!(stores(&driven), 1);
}

#[test]
fn a_command_and_how_it_ended_stay_after_it_was_run() {
    let driven = Driven::new().press("r --x\r").answer(ran("ended with exit code 7", Left::Log(run_log())));
    let drawn = driven.press("\x1b").draw(80, 24);
    assert!(drawn.contains("Command  model.py --x"), "{drawn}");
    assert!(drawn.contains("model.py ended with exit code 7"), "{drawn}");
    assert!(!drawn.contains("export TT"), "{drawn}");
}

#[test]
fn a_terminal_that_is_too_small_only_takes_keys_that_quit() {
    let mut driven = Driven::new().press("lva");
    assert!(driven.draw(30, 5).contains("press q"));
    let mut driven = driven.press("e\r");
    driven.take(Message::Paste("other".into()));
    assert!(driven.draw(80, 24).contains("Path  va\n"), "nothing was typed while it was too small");
    driven.draw(30, 5);
    let driven = driven.press("q");
    assert!(matches!(driven.effects.last(), Some(Effect::Quit(0))));
}

#[test]
fn a_cut_list_of_logs_is_marked() {
    let mut known = inventory(Vec::new());
    known.is_cut = true;
    let mut driven = Driven::new().answer(Answer::Stock(Box::new(known)));
    assert!(driven.draw(80, 24).contains("Too many logs here to check all of them"));
    assert!(driven.press("l").draw(80, 24).contains("recent files (incomplete: too many files)"));
}

#[test]
fn the_answer_names_keys_and_no_options() {
    for log in ["vae-decoder.log", "llm-decode.log", "oom-fragmentation.log"] {
        let report = Box::new(Report { summary: summary(log), ..*report() });
        let drawn = Driven::new().press("n").read(Ok(report)).draw(160, 200);
        assert!(!drawn.contains(" (--") && !drawn.contains("shows more"), "{drawn}");
    }
}

#[test]
fn closing_a_screen_stops_its_work() {
    let driven = Driven::new().press("s\x1b");
    assert!(driven.effects.iter().any(|effect| matches!(effect, Effect::StopServing)));
    let driven = Driven::new().press("n\x1b");
    assert!(matches!(driven.effects.last(), Some(Effect::TakeStock)));
}
