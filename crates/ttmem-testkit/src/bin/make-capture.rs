//! `make-capture FILE FUNCTIONS [SEED]`: writes a graph capture with that many functions to FILE, and its truth to
//! standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use ttmem_testkit::graph::{Options, random};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (file, functions) = (arguments.next(), arguments.next().and_then(|number| number.parse().ok()));
    let seed = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let (Some(file), Some(functions)) = (file, functions) else {
        let _ = writeln!(io::stderr(), "usage: make-capture FILE FUNCTIONS [SEED]");
        return ExitCode::FAILURE;
    };
    let made = File::create(file)
        .and_then(|file| random(BufWriter::new(file), Options::PLAIN, functions, seed))
        .and_then(|truth| writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&truth)?));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "make-capture: {problem}");
            ExitCode::FAILURE
        }
    }
}
