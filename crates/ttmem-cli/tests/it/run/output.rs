//! The command's output: in the log and on the screen.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::{
    Place, assert_same, corpus, find, in_shell, page, program, send, start, text, until, until_there,
};

#[test]
fn arbitrary_bytes_on_both_streams_keep_their_order() {
    for seed in ["1", "2", "3"] {
        let place = Place::new();
        let mut command = place.run();
        command.arg("--log-only").arg(program("write_bytes.py")).arg(place.path("record")).arg(seed);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        place.assert_log_is_record();
        let record = fs::read(place.path("record")).unwrap();
        let shown = find(&output.stderr, &record).expect("it is shown as it came");
        // ttmem's own messages are on separate lines.
        assert!(output.stderr[..shown].ends_with(b"_profile.log\n"));
        assert_same(&output.stderr[shown + record.len()..], b"\n");
    }
}

#[test]
fn a_log_that_starts_with_other_bytes_is_reported() {
    // Zeros, and the magic numbers of gzip and zstd.
    for mut log in [vec![0; 200_000], vec![0x1f, 0x8b, 8], vec![0x28, 0xb5, 0x2f, 0xfd]] {
        let place = Place::new();
        log.push(b'\n');
        log.extend(fs::read(corpus("two-graphs.log")).unwrap());
        log.extend(b"no end");
        fs::write(place.path("all"), &log).unwrap();
        let output = place.run().args(["cat", "all"]).output().unwrap();
        page(&place, &output);
        assert_same(&fs::read(place.log()).unwrap(), &log);
    }
}

/// 100 MB at full speed: shown to a file, to a reader that starts slowly, and not at all.
#[test]
fn large_output_is_complete() {
    const SCRIPT: &str = "yes 'a line of a hundred bytes, give or take, that is printed again and again and again: 0123456789' \
                          | head -c 100000000";
    let all = |bytes: &[u8]| {
        let line = b"a line of a hundred bytes, give or take, that is printed again and again and again: 0123456789\n";
        bytes.len() == 100_000_000 && bytes.chunks(line.len()).all(|chunk| line.starts_with(chunk))
    };
    for how in ["file", "pipe", "quiet"] {
        let place = Place::new();
        let mut command = place.run();
        command.arg("--log-only").args(["-q"].iter().filter(|_| how == "quiet")).args(["sh", "-c", SCRIPT]);
        command.stdout(Stdio::null());
        let shown = place.path("shown");
        let mut run = match how {
            "pipe" => command.stderr(Stdio::piped()).spawn().unwrap(),
            _ => command.stderr(File::create(&shown).unwrap()).spawn().unwrap(),
        };
        if let Some(mut stderr) = run.stderr.take() {
            until("the log to grow", || place.runs().first()?.is_dir().then_some(()));
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            fs::write(&shown, bytes).unwrap();
        }
        assert!(run.wait().unwrap().success());
        assert!(all(&fs::read(place.log()).unwrap()), "{how}");
        let shown = fs::read(shown).unwrap();
        match how {
            "quiet" => assert_same(&shown, b""),
            _ => {
                let head = find(&shown[..1000], b"a line").unwrap();
                let (output, ours) = shown[head..].split_at(100_000_000);
                assert!(all(output) && ours == b"\n", "{how}");
            }
        }
    }
}

#[test]
fn quiet_shows_only_results_and_errors() {
    let place = Place::new();
    let output = place.run().arg("-q").args(["cat"]).arg(corpus("two-graphs.log")).output().unwrap();
    page(&place, &output);
    assert_eq!(text(&output.stderr), "");
    let failed = place.run().args(["-q", "sh", "-c", "echo oh; exit 4"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(4));
    let said = text(&failed.stderr);
    assert!(said.contains("sh ended with exit code 4") && !said.contains("oh\n"), "{said}");
}

#[test]
fn a_closed_stream_stops_nothing() {
    for streams in ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let place = Place::new();
        let shell =
            in_shell(&place, &format!("\"$@\" {streams}"), &place.print_log("two-graphs.log", "3")).output();
        assert_eq!(shell.unwrap().status.code(), Some(3), "{streams}");
        place.assert_log_is_record();
        assert!(place.log().with_file_name("print_log_report.html").is_file(), "{streams}");
    }
}

#[test]
fn a_reader_that_closes_its_end_stops_nothing() {
    let place = Place::new();
    let mut run = start(&mut place.print_log("vae-decoder.log", "3"));
    drop((run.stdout.take(), run.stderr.take()));
    assert_eq!(run.wait().unwrap().code(), Some(3));
    place.assert_log_is_record();
    assert!(place.log().with_file_name("print_log_report.html").is_file());
}

/// A reader that stops reading blocks the command, as a terminal would; signals still arrive.
#[test]
fn a_reader_that_stops_does_not_block_signals() {
    let place = Place::new();
    let mut run = start(place.run().args(["--log-only", "yes"]));
    until("the log to stand still", || {
        let size = || fs::metadata(place.runs().first()?.join("yes_profile.log")).ok().map(|log| log.len());
        let before = size().filter(|size| *size >= 1 << 20)?;
        std::thread::sleep(std::time::Duration::from_millis(100));
        (size() == Some(before)).then_some(())
    });
    send(&run, Signal::TERM);
    let mut stderr = run.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    assert_eq!(run.wait().unwrap().code(), Some(143));
    let (shown, log) = (reading.join().unwrap().unwrap(), fs::read(place.log()).unwrap());
    assert!(find(&shown, &log).is_some(), "the content of the log was shown, too");
}

/// Another process may have made a shared stream non-blocking; ttmem waits for it.
#[test]
fn a_non_blocking_stream_gets_all_output() {
    let place = Place::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut command = place.run();
    command.args(["--log-only", "seq", "200000"]).stdout(Stdio::null()).stderr(writer);
    let mut run = command.spawn().unwrap();
    drop(command);
    until("more than the stream holds", || {
        let log = fs::metadata(place.runs().first()?.join("seq_profile.log")).ok()?;
        (log.len() > 200_000).then_some(())
    });
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).unwrap();
    assert!(run.wait().unwrap().success());
    assert!(shown.ends_with(&fs::read(place.log()).unwrap()));
}

#[test]
fn output_is_in_the_log_at_once_even_if_ttmem_is_killed() {
    let place = Place::new();
    let mut run = start(&mut place.print_log("two-graphs.log", "wait"));
    let pid: i32 = until_there(&place.path("record.ready")).parse().unwrap();
    let record = fs::read(place.path("record")).unwrap();
    until("the log to be complete", || (fs::read(place.log()).ok()? == record).then_some(()));
    send(&run, Signal::KILL);
    run.wait().unwrap();
    place.assert_log_is_record();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    // The log can be reported later.
    let page = place.ttmem().arg("report").arg(place.log()).output().unwrap();
    assert!(page.status.success(), "{}", text(&page.stderr));
}

#[test]
fn background_processes_are_not_waited_for() {
    let place = Place::new();
    let script = "cat \"$0\"; echo before; sleep 1000 & echo $! >pid; exit 3";
    let run = start(place.run().args(["sh", "-c", script]).arg(corpus("two-graphs.log")));
    let output = run.wait_with_output().unwrap();
    let pid: i32 = until_there(&place.path("pid")).trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(output.status.code(), Some(3));
    page(&place, &output);
    let said = text(&output.stderr);
    assert!(said.contains("a process that the command started is still running"), "{said}");
    assert!(text(&fs::read(place.log()).unwrap()).ends_with("\nbefore\n"));
}

/// A closed pipe does not end it, and its output is still logged, also with --quiet.
#[test]
fn background_processes_continue_to_write_to_the_log() {
    let place = Place::new();
    let script = "(while ! [ -e go ]; do sleep 0.1; done; echo later; echo last >done) & cat \"$0\"";
    let output = place.run().args(["-q", "sh", "-c", script]).arg(corpus("two-graphs.log")).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("goes to the log, but not into the report"));
    let captured = fs::read(place.log()).unwrap();
    assert_same(&captured, &fs::read(corpus("two-graphs.log")).unwrap());
    fs::write(place.path("go"), "").unwrap();
    until_there(&place.path("done"));
    until("the log goes on", || fs::read(place.log()).unwrap().ends_with(b"later\n").then_some(()));
}

#[test]
fn early_output_of_background_processes_is_captured() {
    let place = Place::new();
    let script = "(sleep 0.1; echo after) & echo before";
    let output = place.run().args(["--log-only", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read(place.log()).unwrap(), b"before\nafter\n");
    assert!(!text(&output.stderr).contains("still running"));
}

#[test]
fn a_command_that_closes_its_streams_is_waited_for() {
    let place = Place::new();
    let script = "echo before; exec >&- 2>&-; sleep 0.2; exit 6";
    let output = place.run().args(["--log-only", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(fs::read(place.log()).unwrap(), b"before\n");
}

/// A full disk, simulated by a limit on the file size.
#[test]
fn a_log_that_cannot_be_written_is_an_error_and_the_command_continues() {
    let place = Place::new();
    let script = "head -c 3000000 /dev/zero; echo done >&2";
    let mut command = place.run();
    command.args(["--log-only", "sh", "-c", script]);
    let limited = in_shell(&place, "trap '' XFSZ; ulimit -f 1024; exec \"$@\"", &command).output().unwrap();
    assert_eq!(limited.status.code(), Some(2), "the command itself ended with 0");
    let said = text(&limited.stderr);
    assert!(said.contains("done\n"), "everything is shown");
    assert!(
        said.contains("cannot write ") && said.contains("the log is incomplete"),
        "{}",
        &said[said.len() - 300..]
    );
    let log = fs::read(place.log()).unwrap();
    assert!(!log.is_empty() && log.len() < 3_000_000 && log.iter().all(|byte| *byte == 0));
}

#[test]
fn standard_input_is_passed_to_the_command() {
    let place = Place::new();
    let mut run = start(place.run().args(["--log-only", "cat"]).stdin(Stdio::piped()));
    run.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    assert!(run.wait_with_output().unwrap().status.success());
    assert_eq!(fs::read(place.log()).unwrap(), b"typed\n");
}
