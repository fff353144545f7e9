//! `ttmem completions`: what a shell needs to complete the command's words.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use ttmem::Result;

use crate::{args, console};

const EXAMPLES: &str = "\
Examples:
  ttmem completions bash > ~/.local/share/bash-completion/completions/ttmem
  ttmem completions zsh > ~/.zfunc/_ttmem
  ttmem completions fish > ~/.config/fish/completions/ttmem.fish";

/// `ttmem completions`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints them.
pub(crate) fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::Args::command(), "ttmem", &mut script);
    console::print(|out| out.write_all(&script))
}
