//! The program `ttmem-mcp`, which `ttmem mcp` runs. Its arguments are the folders that may be read.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let has_options = words.iter().any(|word| word.as_encoded_bytes().starts_with(b"-"));
    let (code, message) = if has_options {
        (2, "this program is run by `ttmem mcp` and has no options; see `ttmem mcp --help`".to_owned())
    } else {
        match ttmem_mcp::run(&words) {
            Ok(code) => return code.into(),
            Err(error) => (error.exit_code(), error.to_string()),
        }
    };
    // If standard error is closed, only the exit code remains.
    let _ = writeln!(io::stderr(), "ttmem-mcp: {message}");
    code.into()
}
