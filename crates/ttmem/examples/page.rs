//! Reads a log and writes its page, nothing else: what `make bench-page` holds against `ttmem summary`.
//!
//! `cargo run --release --example page -- LOG OUT.html` says how long each part took.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use ttmem::query::{Request, summary};
use ttmem::{Result, read, report};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log, page] = &arguments[..] else {
        panic!("a log and the page to write are wanted");
    };
    let start = Instant::now();
    let mut profile = read::open_with(log, None)?;
    let read = start.elapsed();
    let answer = summary(std::slice::from_ref(&profile), &Request::default())?;
    let answered = start.elapsed();
    read::embed_texts(&mut profile);
    let embedded = start.elapsed();
    let mut out = BufWriter::new(File::create(page).expect("the page can be written"));
    report::page(&profile, &answer, "page", &mut out).and_then(|()| out.flush()).expect("written");
    let written = start.elapsed();
    let times = [read, answered - read, embedded - answered, written - embedded].map(|time| time.as_millis());
    eprintln!("read {} ms, summary {} ms, texts {} ms, page {} ms", times[0], times[1], times[2], times[3]);
    Ok(())
}
