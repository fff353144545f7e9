//! The user's folder for reports and the configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `TTMEM_HOME`, or `~/.ttmem` by default. `None` if there is no home directory.
pub fn home_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    set("TTMEM_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").or_else(|| set("USERPROFILE")).map(|home| Path::new(&home).join(".ttmem")))
}
