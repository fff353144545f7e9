//! `ttmem FILE --flamegraph OUT`.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn ttmem(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("ttmem").unwrap().current_dir(folder).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A folder with a recording that has call stacks, `run.ttmem`, and a log without, `in.log`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(corpus("guides/batch32.ttmem"), folder.path().join("run.ttmem")).unwrap();
    fs::copy(corpus("tt_log/vae-decoder.log"), folder.path().join("in.log")).unwrap();
    folder
}

/// The bytes of all folded stacks.
fn total(folded: &str) -> u64 {
    let lines = folded.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_flame_graph_comes_with_the_summary() {
    let folder = folder();
    let (_, plain, _) = ttmem(folder.path(), &["run.ttmem"]);
    let (code, out, said) = ttmem(folder.path(), &["run.ttmem", "--flamegraph", "out.svg"]);
    assert_eq!((code, out), (0, plain));
    assert!(said.contains("wrote out.svg"), "{said}");
    let svg = fs::read_to_string(folder.path().join("out.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("cuda:0: live memory at the peak, by call stack"), "{svg:.2000}");
    assert!(svg.contains("forward train.py:28"));
    // It replaces its own output, and no other file.
    assert_eq!(ttmem(folder.path(), &["run.ttmem", "--flamegraph", "out.svg", "--at", "300"]).0, 0);
    let later = fs::read_to_string(folder.path().join("out.svg")).unwrap();
    assert!(later.contains("live memory before step 300, by call stack"));
    fs::write(folder.path().join("out.svg"), "<svg>mine</svg>").unwrap();
    let (code, _, said) = ttmem(folder.path(), &["run.ttmem", "--flamegraph", "out.svg"]);
    assert!(code == 2 && said.contains("--force"), "{said}");
    assert_eq!(ttmem(folder.path(), &["run.ttmem", "--flamegraph", "out.svg", "--force"]).0, 0);
}

#[test]
fn folded_stacks_add_up_to_the_summary() {
    let folder = folder();
    let write = |args: &[&str]| {
        let all = [&["run.ttmem", "--json", "--flamegraph", "out.folded"], args].concat();
        let (code, out, said) = ttmem(folder.path(), &all);
        assert_eq!(code, 0, "{said}");
        let text = fs::read_to_string(folder.path().join("out.folded")).unwrap();
        (serde_json::from_str::<Value>(&out).unwrap(), text)
    };
    let (summary, peak) = write(&[]);
    assert_eq!(Some(total(&peak)), summary["ranks"][0]["peak"]["explained_per_bank"].as_u64());
    assert!(peak.lines().any(|line| line.starts_with("unknown stack ")), "{peak:.500}");
    let (summary, at) = write(&["--at", "1,000"]);
    let pool = &summary["ranks"][0]["at"]["pools"]["cuda:0"];
    assert_eq!(Some(total(&at)), pool["explained_per_bank"].as_u64());
    let (_, allocated) = write(&["--flamegraph-of", "allocated"]);
    assert!(total(&allocated) > total(&peak));
}

#[test]
fn wrong_requests_are_errors() {
    let folder = folder();
    for (args, code, part) in [
        (&["in.log", "--flamegraph", "out.svg"][..], 4, "no call stacks were recorded"),
        (&["run.ttmem", "--flamegraph", "out.png"], 2, "ends with .svg, .folded or .txt"),
        (&["run.ttmem", "--flamegraph-of", "allocated"], 2, "--flamegraph <FILE>"),
        (&["run.ttmem", "--flamegraph", "no/such/folder.svg"], 2, "cannot write no/such/folder.svg"),
        (&["run.ttmem", "--force"], 2, "--flamegraph <FILE>"),
    ] {
        let (found, _, said) = ttmem(folder.path(), args);
        assert!(found == code && said.contains(part), "{args:?}: {found}, {said}");
    }
    assert!(!folder.path().join("out.svg").exists());
}
