//! `ttmem remove`: removes stored reports.

use clap::Args;
use ttmem::Result;

/// `ttmem remove`
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Their names, as `ttmem list` has them.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

/// Removes them.
pub(crate) fn run(_args: &Remove) -> Result<()> {
    Ok(())
}
