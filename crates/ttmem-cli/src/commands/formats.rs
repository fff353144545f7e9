//! `ttmem formats`: what can be read, and how to make such files.

use ttmem::{Result, read};

use crate::console;

/// Prints the readers.
pub(crate) fn run() -> Result<()> {
    console::write(None, false, |out| {
        for reader in read::readers() {
            writeln!(out, "{:<8} {}", reader.name(), reader.about())?;
            writeln!(out, "{:<8} make one: {}", "", reader.capture())?;
        }
        Ok(())
    })
}
