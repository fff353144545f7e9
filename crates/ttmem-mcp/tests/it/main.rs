//! The program `ttmem-mcp`. `python/tests/test_mcp.py` drives the server with the official client.

use std::process::{Command, Output, Stdio};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ttmem-mcp"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

#[test]
fn it_ends_when_its_input_does() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn options_and_missing_folders_are_errors() {
    for (word, expected) in [("--help", "ttmem mcp --help"), ("does-not-exist", "does-not-exist")] {
        let output = run(&[word]);
        assert_eq!(output.status.code(), Some(2), "{word}: {output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.starts_with("ttmem-mcp: ") && message.contains(expected), "{word}: {message}");
    }
}
