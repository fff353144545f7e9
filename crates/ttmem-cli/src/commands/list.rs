//! `ttmem list`: the stored reports.

use clap::Args;
use ttmem::Result;
use ttmem::store::Store;

use crate::console;

/// `ttmem list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Prints them.
pub(crate) fn run(_args: &List) -> Result<()> {
    let reports = Store::from_env()?.list()?;
    console::write(None, false, |out| {
        for report in &reports {
            writeln!(out, "{}", report.name)?;
        }
        Ok(())
    })
}
