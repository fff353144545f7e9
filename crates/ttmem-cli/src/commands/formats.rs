//! `ttmem formats`: the supported formats, and how to capture each.

use ttmem::{Result, read};

use crate::console;

/// Prints the readers.
pub(crate) fn run() -> Result<()> {
    let width = read::readers().iter().map(|reader| reader.name().len()).max().unwrap_or(0);
    console::print(|out| {
        for reader in read::readers() {
            writeln!(out, "{:<width$}  {}", reader.name(), reader.about())?;
            writeln!(out, "{:<width$}  capture: {}", "", reader.capture())?;
        }
        Ok(())
    })
}
