//! `ttmem report`: the report folder.

use ttmem::{Error, Result};

use crate::args::Report;

pub(crate) fn run(_args: &Report) -> Result<()> {
    Err(Error::NotThere("not yet".into()))
}
