//! `make-report FILE MEGABYTES [SEED]`: writes a detailed ttnn report of about that size to FILE, and its truth to
//! standard output.
//!
//! The parts have the proportions of the reports that large models have: 1% graph, 63% buffers after each operation and
//! 36% pages, indented as ttnn writes them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use ttmem_testkit::graph::{Options, Truth, random};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (file, megabytes) = (arguments.next(), arguments.next().and_then(|number| number.parse().ok()));
    let seed = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let (Some(file), Some(megabytes)) = (file, megabytes) else {
        let _ = writeln!(io::stderr(), "usage: make-report FILE MEGABYTES [SEED]");
        return ExitCode::FAILURE;
    };
    let made = File::create(file)
        .and_then(|file| report(&mut BufWriter::with_capacity(1 << 20, file), megabytes, seed))
        .and_then(|truth| writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&truth)?));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "make-report: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the report. Keys are in alphabetical order, as in ttnn's reports.
fn report(out: &mut impl Write, megabytes: u64, seed: u64) -> io::Result<Truth> {
    /// A function takes about this many bytes in the graph.
    const FUNCTION: u64 = 1700;
    let percent = megabytes * 10_000;
    let mut graph = Vec::new();
    let options = Options { report: true, ..Options::PLAIN };
    let truth = random(&mut graph, options, percent / FUNCTION, seed)?;
    let rest = graph.strip_prefix(b"{").and_then(|rest| rest.trim_ascii_end().strip_suffix(b"}"));
    write!(out, "{{\n  \"buffer_pages\": [")?;
    let page = write_until(out, 36 * percent, |out, index| {
        let comma = if index > 0 { "," } else { "" };
        let (bank, address) = (index % 64, 1_368_064 + index % 65_536);
        write!(
            out,
            "{comma}\n    {{\n      \"address\": {address},\n      \"bank_id\": {bank},\n      \"buffer_type\": 1,\n      \
             \"core_x\": {},\n      \"core_y\": {},\n      \"device_id\": 1,\n      \"page_address\": {address},\n      \
             \"page_index\": {index},\n      \"page_size\": 2048\n    }}",
            bank % 8,
            bank / 8,
        )
    });
    page?;
    write!(out, "\n  ],\n  ")?;
    out.write_all(rest.unwrap_or_default())?;
    // No snapshot of the first functions: nothing existed before the capture.
    write!(out, ",\n  \"per_operation_buffers\": {{")?;
    let snapshots = write_until(out, 63 * percent, |out, index| {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}\n    \"{}\": [", u64::from(u32::MAX) + index)?;
        for buffer in 0..1500_u64 {
            let comma = if buffer > 0 { "," } else { "" };
            write!(
                out,
                "{comma}\n      {{\n        \"address\": {},\n        \"buffer_layout\": 0,\n        \"buffer_type\": {},\n        \
                 \"device_id\": 1,\n        \"max_size_per_bank\": {}\n      }}",
                1_048_640 + buffer * 2048,
                buffer % 2,
                2048 + index % 8 * 32,
            )?;
        }
        write!(out, "\n    ]")
    });
    snapshots?;
    write!(out, "\n  }}\n}}\n")?;
    out.flush()?;
    Ok(truth)
}

/// Writes elements until there are that many bytes.
fn write_until<W: Write>(
    out: &mut W,
    bytes: u64,
    element: impl Fn(&mut Counted<'_, W>, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut counted = Counted { out, bytes: 0 };
    let mut index = 0;
    while counted.bytes < bytes {
        element(&mut counted, index)?;
        index += 1;
    }
    Ok(())
}

struct Counted<'a, W> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
