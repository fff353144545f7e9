//! Reads a log and writes only its page. `make bench-page` compares this with `ttmem summary`.
//!
//! `cargo run --release --example page -- LOG OUT.html` prints the duration of each part.

#![allow(clippy::print_stderr, reason = "this is a command-line program")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use mimalloc::MiMalloc;
use ttmem::query::{Request, summary};
use ttmem::{Error, Result, read, report};

/// The same allocator as in the command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log, page] = &arguments[..] else {
        return Err(Error::NotFound("expected a log and an output file".into()));
    };
    let mut profile = timed("read", || read::open(log))?;
    let answer = timed("summary", || summary(std::slice::from_ref(&profile), &Request::default()))?;
    timed("texts", || read::embed_texts(&mut profile));
    let failed = |source| Error::Write { path: page.into(), source };
    timed("page", || {
        let mut out = BufWriter::new(File::create(page)?);
        report::page(&profile, &answer, "page", &mut out)?;
        out.flush()
    })
    .map_err(failed)
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    eprintln!("{what} {} ms", start.elapsed().as_millis());
    done
}
