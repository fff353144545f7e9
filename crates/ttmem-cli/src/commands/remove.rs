//! `ttmem remove`: removes stored reports, after asking.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use ttmem::store::{Kind, Store, Stored};
use ttmem::{Error, Result, report};

use crate::console;

const EXAMPLES: &str = "\
Examples:
  ttmem remove vae-decoder                 asks first
  ttmem remove --yes old-1 old-2           for scripts";

/// `ttmem remove`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Remove {
    /// Their names, as `ttmem list` has them.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
}

/// Removes them, one after the other. If one of the names is not there, none is removed.
pub(crate) fn run(args: &Remove) -> Result<()> {
    let store = Store::from_env()?;
    let mut reports: Vec<Stored> = Vec::new();
    for name in &args.names {
        let report = store.find(name)?;
        // Whoever names it twice wants it gone once.
        if reports.iter().all(|known| known.name != report.name) {
            reports.push(report);
        }
    }
    if !args.yes && !io::stdin().is_terminal() {
        return Err(Error::Usage("there is nobody to ask: --yes removes without asking".into()));
    }
    for report in &reports {
        if args.yes || is_meant(report)? {
            store.remove(&report.name)?;
            console::note(&format!("removed {}{}", report.name, what_stays(report)));
        } else {
            console::note(&format!("kept {}", report.name));
        }
    }
    Ok(())
}

/// Asks; anything but a yes is a no.
fn is_meant(report: &Stored) -> Result<bool> {
    let failed = |source| Error::Read { path: "standard input".into(), source };
    let what = match report.kind {
        Kind::Report => format!("{} ({})", report.name, report::size(report.bytes)),
        Kind::Run => format!("{} from the list", report.name),
    };
    let mut out = anstream::stderr();
    // If the question cannot be seen, the answer will hardly be a yes.
    let _ = write!(out, "remove {what}{}? [y/N] ", what_stays(report)).and_then(|()| out.flush());
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// The folder of a run is only taken off the list.
fn what_stays(report: &Stored) -> String {
    match report.kind {
        Kind::Report => String::new(),
        Kind::Run => format!(" (its folder stays: {})", report.folder.display()),
    }
}
