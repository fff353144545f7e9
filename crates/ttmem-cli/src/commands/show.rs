//! `ttmem show`: shows a stored report.

use clap::Args;
use ttmem::Result;
use ttmem::query::{self, Request};
use ttmem::store::Store;

use super::report::show_page;
use super::summary::{self, Form, Limits};
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem show vae-decoder                   print its summary
  ttmem show vae-decoder --full            print all lines of it
  ttmem show vae-decoder --open            also open its page in a browser";

/// `ttmem show`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Name of the report, as in `ttmem list`.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Open the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// The output format.
    #[command(flatten)]
    pub form: Form,

    /// How much is printed.
    #[command(flatten)]
    pub limits: Limits,
}

/// Prints the summary and the path of the page.
pub(crate) fn run(args: &Show) -> Result<()> {
    let stored = Store::from_env()?.find(&args.name)?;
    let file = stored.profile().unwrap_or_else(|| stored.folder.clone());
    let profile = reading::open(&file.to_string_lossy(), None)?;
    let top = args.limits.top_of_request(args.form);
    let answer = query::summary(&[profile], &Request { top, ..Request::default() })?;
    console::warn(&answer.source);
    let page = stored.page();
    let note = page.as_ref().map(|page| format!("page: {}", page.display()));
    summary::print(&answer, &stored.name, args.form, args.limits, None, note.as_deref())?;
    if let Some((page, note)) = page.zip(note) {
        console::note(&note);
        if args.open {
            show_page(&page);
        }
    }
    Ok(())
}
