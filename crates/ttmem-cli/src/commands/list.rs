//! `ttmem list`: the stored reports.

use clap::Args;
use jiff::tz::TimeZone;
use ttmem::store::Store;
use ttmem::{Result, report};

use crate::console;

const EXAMPLES: &str = "\
Examples:
  ttmem list                               the newest first
  ttmem list --json                        for scripts: every field is in docs/reports.md";

/// `ttmem list`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Prints them.
pub(crate) fn run(args: &List) -> Result<()> {
    let store = Store::from_env()?;
    let reports = store.list()?;
    if reports.is_empty() {
        console::note(&format!(
            "no report is stored in {} yet: `ttmem report FILE` makes one",
            store.folder().display()
        ));
    }
    if args.json {
        return console::print(|out| report::list_json(&reports, out));
    }
    console::print_text(&report::list(&reports, &TimeZone::system(), console::screen(None).width))
}
