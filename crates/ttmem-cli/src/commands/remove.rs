//! `ttmem remove`: removes stored reports, after confirmation.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use ttmem::store::{Kind, Store, Stored};
use ttmem::{Error, Result, report};

use crate::console;

const EXAMPLES: &str = "\
Examples:
  ttmem remove vae-decoder                 ask, then remove
  ttmem remove --yes old-1 old-2           remove without asking";

/// `ttmem remove`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Remove {
    /// Names of the reports, as in `ttmem list`.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
}

/// Removes the reports. If one of the names does not exist, none is removed.
pub(crate) fn run(args: &Remove) -> Result<()> {
    let store = Store::from_env()?;
    let mut reports: Vec<Stored> = Vec::new();
    for name in &args.names {
        let report = store.find(name)?;
        // A name may be given twice.
        if reports.iter().all(|known| known.name != report.name) {
            reports.push(report);
        }
    }
    if !args.yes && !io::stdin().is_terminal() {
        return Err(Error::Usage("stdin is not a terminal; pass --yes".into()));
    }
    for report in &reports {
        if args.yes || is_confirmed(report)? {
            store.remove(&report.name)?;
            console::note(&format!("removed {}{}", report.name, kept_folder(report)));
        } else {
            console::note(&format!("kept {}", report.name));
        }
    }
    Ok(())
}

/// Asks for confirmation; anything but `y` or `yes` means no.
fn is_confirmed(report: &Stored) -> Result<bool> {
    let failed = |source| Error::Read { path: "standard input".into(), source };
    let what = match report.kind {
        Kind::Report => format!("{} ({})", report.name, report::size(report.bytes)),
        Kind::Run => format!("{} from the list", report.name),
    };
    let mut out = anstream::stderr();
    // If the prompt cannot be printed, the answer is not a yes.
    let _ = write!(out, "remove {what}{}? [y/N] ", kept_folder(report)).and_then(|()| out.flush());
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// A note for runs, which are only removed from the list.
fn kept_folder(report: &Stored) -> String {
    match report.kind {
        Kind::Report => String::new(),
        Kind::Run => format!(" (its folder is kept: {})", report.folder.display()),
    }
}
