//! Recordings that have rotated: the newest file is read, and the tensors live at the peak come from the file next
//! to it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ttmem_model::{Builder, Profile, Warning, frame};

use super::siblings::check_within;
use crate::history;

/// Restores the tensors live at the peak from the file that contains it, if the newest file no longer has them. Warns
/// if that file is missing or belongs to another recording.
pub(super) fn restore_peak(profile: &mut Profile, path: &Path, within: &[PathBuf]) {
    if !history::lacks_peak(profile) {
        return;
    }
    let beside = peak_file(path);
    let name = beside.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let problem = match read(&beside, within) {
        Ok(other) => {
            let problem = history::restore_peak(profile, &other).err();
            problem.map(|problem| if other.complete { problem } else { "the file is truncated" }.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("not found".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        let message = format!(
            "cannot use {name} ({problem}); tensors that were live at the peak and have been freed since are recorded \
             only there, so they appear as one row of class unknown"
        );
        profile.warnings.push(Warning { line: None, message });
    }
}

/// The file with the peak, next to the newest file or the one before it.
fn peak_file(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let stem = stem.strip_suffix(".before").unwrap_or(&stem);
    path.with_file_name(format!("{stem}.peak.ttmem"))
}

fn read(path: &Path, within: &[PathBuf]) -> io::Result<Profile> {
    check_within(path, within)?;
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut builder = Builder::new();
    let label = path.display().to_string();
    frame::read(&mut file, &label, &mut builder).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(builder.finish())
}
