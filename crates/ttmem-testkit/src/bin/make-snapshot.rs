//! `make-snapshot FILE EVENTS`: writes a memory snapshot of PyTorch with that many events to FILE.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use ttmem_testkit::torch::generation;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (file, events) = (arguments.next(), arguments.next().and_then(|number| number.parse().ok()));
    let (Some(file), Some(events)) = (file, events) else {
        let _ = writeln!(io::stderr(), "usage: make-snapshot FILE EVENTS");
        return ExitCode::FAILURE;
    };
    match File::create(file).and_then(|file| generation(BufWriter::new(file), events)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "make-snapshot: {problem}");
            ExitCode::FAILURE
        }
    }
}
