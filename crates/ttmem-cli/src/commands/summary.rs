//! `ttmem summary`: the answer on one screen.

use std::path::Path;

use ttmem::query::{self, Request};
use ttmem::{Error, Result, read, report};

use crate::args::Summary;
use crate::console;

/// Reads the files and prints the answer. A file that cannot be read is said, and the others are answered.
pub(crate) fn run(args: &Summary) -> Result<u8> {
    if args.files.iter().filter(|file| *file == "-").count() > 1 {
        return Err(Error::NotThere("standard input can be read only once: name `-` once".into()));
    }
    let mut profiles = Vec::new();
    let mut failed = None;
    for file in &args.files {
        match read::open_with(file, args.format.as_deref()) {
            Ok(profile) => profiles.push(profile),
            Err(error) if args.files.len() == 1 => return Err(error),
            Err(error) => {
                console::complain(&error);
                failed = failed.or(Some(error.exit_code()));
            }
        }
    }
    if let (Some(code), true) = (failed, profiles.is_empty()) {
        return Ok(code);
    }
    let request = Request { at: args.at, top: args.top, run: args.run.0, rank: args.rank.clone() };
    let summary = query::summary(&profiles, &request)?;
    console::warn(&summary);
    console::write(args.output.as_deref(), args.force, |out| {
        if args.json {
            report::json(&summary, out)
        } else if args.markdown {
            report::markdown(&summary, &name(&args.files), out)
        } else {
            let screen = console::screen(args.top);
            let colour = screen.colour && args.output.is_none();
            report::text(&summary, report::Screen { colour, ..screen }, out)
        }
    })?;
    Ok(failed.unwrap_or(0))
}

/// What the document is about: the file's name without its ending.
fn name(files: &[String]) -> String {
    match files {
        [file] if file != "-" => {
            let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
            stem.strip_suffix("_profile").unwrap_or(&stem).to_owned()
        }
        [_] => "standard input".into(),
        files => format!("{} files", files.len()),
    }
}
