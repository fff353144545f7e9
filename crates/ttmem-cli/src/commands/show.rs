//! `ttmem show`: a stored report.

use clap::Args;
use ttmem::Result;
use ttmem::query::{self, Request};
use ttmem::store::Store;

use super::report::show_page;
use super::summary::{self, Form};
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem show vae-decoder                   its summary
  ttmem show vae-decoder --open            and its page in a browser";

/// `ttmem show`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Its name, as `ttmem list` has it.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Show the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// How it is shown.
    #[command(flatten)]
    pub form: Form,
}

/// Prints its summary, and says where its page is.
pub(crate) fn run(args: &Show) -> Result<()> {
    let stored = Store::from_env()?.find(&args.name)?;
    let file = stored.profile().unwrap_or_else(|| stored.folder.clone());
    let profile = reading::open(&file.to_string_lossy(), None)?;
    let answer = query::summary(&[profile], &Request::default())?;
    console::warn(&answer.source);
    summary::print(&answer, &stored.name, args.form, None, None)?;
    if let Some(page) = stored.page() {
        console::note(&format!("page: {}", page.display()));
        if args.open {
            show_page(&page);
        }
    }
    Ok(())
}
