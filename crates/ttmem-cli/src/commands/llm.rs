//! `ttmem --llm --logfile F`: Markdown for an agent, and the report stored besides.

use ttmem::Result;
use ttmem::query::{self, Request};
use ttmem::report;
use ttmem::store::{Store, name_of};

use crate::args::Llm;
use crate::replacing::Output;
use crate::{console, reading};

/// Prints the Markdown. That the report cannot be stored (a home that is not ours to write) is said, and no
/// reason to keep the answer back.
pub(crate) fn run(args: &Llm) -> Result<u8> {
    let file = args.logfile.as_deref().unwrap_or("-");
    let inputs = [file];
    let output = Output::option(args.output.as_deref(), args.force, &inputs)?;
    let mut profile = reading::open(file, None)?;
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
    console::warn(&summary.source);
    console::write(output.as_ref(), |out| report::markdown(&summary, &name_of(file), out))?;
    match Store::from_env().and_then(|store| store.save(&mut profile, file, None)) {
        Ok(stored) => console::note(&format!("the whole report is in {}", stored.folder.display())),
        Err(error) => console::complain(&error),
    }
    Ok(0)
}
