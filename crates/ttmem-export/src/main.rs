//! The program `ttmem-export`, which `ttmem export` runs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match ttmem_export::run(&words) {
        Ok(code) => code.into(),
        Err(error) => {
            // If standard error is closed, only the exit code remains.
            let _ = writeln!(io::stderr(), "ttmem: {error}");
            error.exit_code().into()
        }
    }
}
