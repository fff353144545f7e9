//! Recordings that have rotated: the newest file is read, and the tensors live at the peak come from the file next
//! to it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ttmem_model::{Builder, Profile, Warning, frame};

use super::siblings::check_within;
use crate::{classes, history};

/// Restores the tensors live at the peak from the file that contains it, if the newest file no longer has them. Warns
/// if that file is missing or belongs to another recording.
pub(super) fn restore_peak(profile: &mut Profile, path: &Path, within: &[PathBuf]) {
    if is_peak_file(path) || !history::lacks_peak(profile) {
        return;
    }
    let beside = peak_file(path);
    let name = beside.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let problem = match read(&beside, within) {
        Ok(other) => {
            let is_complete = other.complete;
            let problem = restore_from(profile, other).err();
            problem.map(|problem| if is_complete { problem } else { "the file is truncated" }.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("not found".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        let message = format!(
            "cannot use {name} ({problem}); tensors that were live at the peak and have been freed since are recorded \
             only there, so they are unknown"
        );
        profile.warnings.push(Warning { line: None, message });
    }
}

/// Restores the tensors live at the peak from the profile that contains it. The error is the reason why it can't be used.
fn restore_from(profile: &mut Profile, mut other: Profile) -> Result<(), &'static str> {
    let shared = history::Shared::of(profile, &other).ok_or("the file belongs to another recording")?;
    history::place(&mut other);
    classes::complete(&mut other);
    history::restore_peak(profile, &other, shared)
}

fn is_peak_file(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(".peak"))
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
