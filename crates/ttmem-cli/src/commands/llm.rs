//! `ttmem --llm --logfile F`: prints Markdown for an agent and stores the report.

use ttmem::Result;
use ttmem::query::{self, Request};
use ttmem::report;
use ttmem::store::{Store, name_of};

use crate::args::Llm;
use crate::replacing::Output;
use crate::{console, reading};

/// Prints the Markdown and stores the report. If the report cannot be stored (the home is not writable), the error is
/// printed and the command still succeeds.
pub(crate) fn run(args: &Llm) -> Result<u8> {
    let file = args.logfile.as_deref().unwrap_or("-");
    let inputs = [file];
    let output = Output::option(args.output.as_deref(), args.force, &inputs)?;
    let mut profile = reading::open(file, None)?;
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
    console::warn(&summary.source);
    console::write(output.as_ref(), |out| {
        report::markdown(&summary, &name_of(file), report::MarkdownSize::default(), out)
    })?;
    match Store::from_env().and_then(|store| store.save(&mut profile, file, None)) {
        Ok(stored) => console::note(&format!("stored the report in {}", stored.folder.display())),
        Err(error) => console::complain(&error),
    }
    Ok(0)
}
