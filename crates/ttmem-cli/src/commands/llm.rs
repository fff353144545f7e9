//! `ttmem --llm --logfile F`: Markdown for an agent, and the report stored besides.

use ttmem::Result;

use crate::args::Llm;

/// Prints the Markdown.
pub(crate) fn run(_args: &Llm) -> Result<u8> {
    Ok(0)
}
