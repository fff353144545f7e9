//! `ttmem`

use std::process::ExitCode;

fn main() -> ExitCode {
    ttmem_cli::ttmem()
}
