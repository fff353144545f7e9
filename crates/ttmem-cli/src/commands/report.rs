//! `ttmem report`: the report folder.

use std::fs;
use std::path::{Path, PathBuf};

use ttmem::store::{Store, name_of, write_report};
use ttmem::{Error, Result, read};

use crate::args::Report;
use crate::console;

/// Reads each file, writes its report and says where it is.
pub(crate) fn run(args: &Report) -> Result<()> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Error::NotThere("--name names one report: give one file".into()));
    }
    for file in &args.files {
        let folder = report(file, args)?;
        console::write(None, false, |out| writeln!(out, "{}", folder.display()))?;
    }
    Ok(())
}

fn report(file: &str, args: &Report) -> Result<PathBuf> {
    let source = source_of(file)?;
    let mut profile = read::open_with(&source, args.format.as_deref())?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&source));
    // A report folder is made anew where it is.
    let here = Path::new(file).is_dir().then(|| PathBuf::from(file));
    let folder = match args.output.clone().or(here) {
        Some(folder) => {
            write_report(&mut profile, &folder, &name)?;
            folder
        }
        None => Store::from_env()?.save(&mut profile, &source, Some(&name))?.folder,
    };
    for warning in &profile.warnings {
        console::warning(file, warning.line, &warning.message);
    }
    Ok(folder)
}

/// The file to read: a folder stands for the profile in it.
fn source_of(file: &str) -> Result<String> {
    let path = Path::new(file);
    if !path.is_dir() {
        return Ok(file.to_owned());
    }
    let failed = |source| Error::Read { path: path.into(), source };
    let mut profiles: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ttmem"))
        .collect();
    profiles.sort();
    match profiles.first() {
        Some(profile) => Ok(profile.display().to_string()),
        None => {
            Err(Error::NotThere(format!("{file} holds no profile (.ttmem): name the log it was made from")))
        }
    }
}
