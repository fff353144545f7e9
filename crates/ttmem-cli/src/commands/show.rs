//! `ttmem show`: a stored report.

use clap::Args;
use ttmem::Result;

/// `ttmem show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its name, as `ttmem list` has it.
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Shows it.
pub(crate) fn run(_args: &Show) -> Result<()> {
    Ok(())
}
