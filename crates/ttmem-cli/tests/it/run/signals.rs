//! Signals sent to ttmem are passed to the running command.

use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Place, in_shell, program, send, start, text, until};

/// `ttmem run catch_signals.py`, once it handles signals.
fn catching(place: &Place, run: impl FnOnce(Command) -> Child) -> Child {
    let mut command = place.run();
    command.arg("--log-only").arg(program("catch_signals.py")).arg(place.path("caught"));
    let run = run(command);
    until_caught(&place.path("caught"), &["ready"]);
    run
}

/// Waits until these signals were caught, and no others.
#[track_caller]
fn until_caught(record: &Path, wanted: &[&str]) {
    let lines = || fs::read_to_string(record).ok().filter(|text| text.lines().count() >= wanted.len());
    let caught = until(&format!("{wanted:?}"), lines);
    assert_eq!(caught.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn each_signal_is_passed_on_once() {
    let place = Place::new();
    let run = catching(&place, |mut command| start(&mut command));
    let mut wanted = vec!["ready"];
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::HUP, "SIGHUP"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::INT, "SIGINT"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::TERM, "SIGTERM"),
    ] {
        send(&run, signal);
        wanted.push(name);
        until_caught(&place.path("caught"), &wanted);
    }
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(5));
    until_caught(&place.path("caught"), &wanted);
}

#[test]
fn a_command_that_signals_its_own_group_gets_it_once() {
    let place = Place::new();
    // A shell that prints a line when interrupted; it interrupts its own group, including ttmem.
    let script = "trap 'echo caught; n=x$n' INT; kill -INT 0; sleep 0.2; echo $n; exit 7";
    let output = place.run().args(["--log-only", "sh", "-c", script]).process_group(0).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(fs::read(place.log()).unwrap(), b"caught\nx\n");
}

#[test]
fn ignored_signals_stay_ignored() {
    let place = Place::new();
    let run = catching(&place, |command| {
        let mut shell = in_shell(&place, "trap '' HUP; exec \"$@\"", &command);
        start(shell.process_group(0))
    });
    // To both at once: both ignore it.
    kill_process_group(Pid::from_child(&run), Signal::HUP).unwrap();
    send(&run, Signal::USR1);
    until_caught(&place.path("caught"), &["ready", "SIGUSR1"]);
    send(&run, Signal::TERM);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(5));
    until_caught(&place.path("caught"), &["ready", "SIGUSR1", "SIGTERM"]);
}

#[test]
fn an_uncaught_signal_ends_the_command_and_the_log_is_reported() {
    for (signal, code) in [(Signal::INT, 130), (Signal::HUP, 129), (Signal::TERM, 143)] {
        let place = Place::new();
        let script = "cat \"$0\"; touch ready; exec sleep 1000";
        let run = start(place.run().args(["sh", "-c", script]).arg(super::corpus("two-graphs.log")));
        super::until_there(&place.path("ready"));
        send(&run, signal);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        super::page(&place, &output);
    }
}

#[test]
fn a_signal_after_the_command_has_ended_ends_ttmem() {
    // Standard output is full, so ttmem blocks while printing the path of the page.
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    while writer.write(&[0]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let place = Place::new();
    let mut command = place.print_log("two-graphs.log", "well");
    let mut run = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    until("the page", || {
        let run = place.runs().into_iter().next()?;
        run.join("print_log_report.html").is_file().then_some(())
    });
    until("the list", || place.path("home/reports").is_dir().then_some(()));
    send(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    drop(reader);
    place.assert_log_is_record();
}
