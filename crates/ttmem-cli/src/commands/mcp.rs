//! `ttmem mcp`: lets agents query profiles, over the Model Context Protocol.

use std::ffi::OsString;

use clap::Args;
use ttmem::Result;

use crate::companions;

const EXAMPLES: &str = "\
Examples:
  ttmem mcp                                read files below the working directory
  ttmem mcp --root logs --root ~/.ttmem    read files below these folders
  claude mcp add ttmem -- ttmem mcp --root /path/to/logs
                                           add the server to Claude Code

An MCP client starts the server and talks to it over standard input and output; it ends when the client closes them. It
writes nothing and does not use the network. See docs/agents.md for the configuration of common clients.

Exit codes: 0 the client is done; 2 wrong usage.";

/// `ttmem mcp`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mcp {
    /// Read only files below this folder; may be repeated [default: the working directory].
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<OsString>,
}

/// Runs `ttmem-mcp`, which serves until standard input is closed.
pub(crate) fn run(args: &Mcp) -> Result<u8> {
    companions::run("ttmem-mcp", &args.roots)
}
