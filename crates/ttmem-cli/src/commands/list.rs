//! `ttmem list`: lists stored reports.

use clap::Args;
use jiff::tz::TimeZone;
use ttmem::store::Store;
use ttmem::{Result, report};

use crate::console;

const EXAMPLES: &str = "\
Examples:
  ttmem list                               list reports, newest first
  ttmem list --json                        print JSON (see docs/reports.md)";

/// `ttmem list`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Prints the list.
pub(crate) fn run(args: &List) -> Result<()> {
    let store = Store::from_env()?;
    let reports = store.list()?;
    if reports.is_empty() {
        console::note(&format!(
            "no reports in {}; create one with `ttmem report FILE`",
            store.folder().display()
        ));
    }
    if args.json {
        return console::print(|out| report::list_json(&reports, out));
    }
    // In a pipe, names are complete: they are the arguments of `ttmem show`.
    let screen = console::screen(None);
    let width = if screen.height.is_some() { screen.width } else { usize::MAX };
    console::print_text(&report::list(&reports, &TimeZone::system(), width))
}
