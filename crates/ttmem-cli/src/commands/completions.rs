//! `ttmem completions`: generates shell completions.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use ttmem::Result;

use crate::{args, console};

const EXAMPLES: &str = "\
Examples:
  ttmem completions bash > ~/.local/share/bash-completion/completions/ttmem
  ttmem completions zsh > ~/.zfunc/_ttmem
  ttmem completions fish > ~/.config/fish/completions/ttmem.fish

Create the folders first:
  mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions";

/// `ttmem completions`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell to generate completions for.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the completion script.
pub(crate) fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::Args::command(), "ttmem", &mut script);
    if args.shell == Shell::Bash {
        script = files_first(&String::from_utf8_lossy(&script)).into_bytes();
    }
    console::print(|out| out.write_all(&script))
}

/// Changes the bash script so that Tab completes files after a command that takes files. `clap_complete` offers
/// options, even for a word that does not start with a dash.
fn files_first(script: &str) -> String {
    const OFFER: &str = "COMPREPLY=( $(compgen -W \"${opts}\" -- \"${cur}\") )";
    let mut has_subcommands = false;
    let mut is_option = false;
    let mut changed = String::with_capacity(script.len());
    for line in script.split_inclusive('\n') {
        if let Some(words) = line.trim().strip_prefix("opts=\"") {
            let mut words = words.trim_end_matches('"').split_whitespace();
            has_subcommands = words.any(|word| word.starts_with(char::is_alphabetic));
        }
        match line.split_once(" || ${COMP_CWORD} -eq ") {
            Some((before, _)) if !has_subcommands => {
                changed.push_str(before);
                changed.push_str(" ]] ; then\n");
                is_option = true;
            }
            None if !has_subcommands && line.trim() == OFFER && !is_option => {}
            _ => {
                is_option &= line.trim() != OFFER;
                changed.push_str(line);
            }
        }
    }
    changed
}
