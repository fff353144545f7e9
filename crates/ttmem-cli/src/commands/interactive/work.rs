//! Slow work, done on threads: reading, storing, writing, starting a browser.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use ttmem::query::{self, Request};
use ttmem::read::{self, Options, Progress};
use ttmem::store::{Store, Stored, name_of};
use ttmem::{Error, Result};

use super::message::{Answer, Input, Message, Report};
use crate::console;
use crate::replacing::Output;

/// Runs work on a thread; its answer, or a panic, arrives as a message.
pub(super) fn start(
    sender: &Sender<Message>,
    work: impl FnOnce() -> Answer + Send + 'static,
) -> JoinHandle<()> {
    let sender = sender.clone();
    thread::spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // The session may have ended meanwhile.
        let _ = sender.send(Message::Answer(done.unwrap_or(Answer::Bug)));
    })
}

/// Reads an input and summarizes it.
pub(super) fn read(input: Input, progress: Arc<Progress>) -> Result<Box<Report>> {
    let (file, stored) = match input {
        Input::File(readings) => (file_meant(&readings)?, None),
        Input::Report(stored) => (profile_of(&stored)?, Some(*stored)),
    };
    let options = Options { progress: Some(progress), ..Options::default() };
    let profile = read::open_with(&file, &options)?;
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
    let name = stored.as_ref().map_or_else(|| name_of(&file), |stored| stored.name.clone());
    let profile = stored.is_none().then(|| Box::new(profile));
    Ok(Box::new(Report { name, file, summary, profile, stored }))
}

/// The first reading of a name that exists, otherwise the last one.
fn file_meant(readings: &[String]) -> Result<String> {
    let is_there = |name: &&String| fs::metadata(name).is_ok();
    let name = readings.iter().find(is_there).or(readings.last()).cloned().unwrap_or_default();
    if is_device(Path::new(&name)) {
        return Err(Error::NotFound(format!("{name} is a device; choose a file")));
    }
    // `-` would be standard input, where the keys come from.
    Ok(if name == "-" { "./-".into() } else { name })
}

fn is_device(path: &Path) -> bool {
    let is_device = |kind: fs::FileType| kind.is_char_device() || kind.is_block_device();
    fs::metadata(path).is_ok_and(|metadata| is_device(metadata.file_type()))
}

fn profile_of(stored: &Stored) -> Result<String> {
    let name = &stored.name;
    match stored.profile() {
        Some(profile) => Ok(profile.display().to_string()),
        None if stored.folder.is_dir() => Err(Error::NotFound(format!(
            "{name}: no profile, because another tool wrote the report; read its log instead"
        ))),
        None => Err(Error::NotFound(format!("{name}: the report no longer exists"))),
    }
}

/// Removes a stored report.
pub(super) fn remove(store: &Result<Store>, name: &str) -> Result<()> {
    store.as_ref().map_err(again)?.remove(name)
}

/// Stores the report of a profile.
pub(super) fn store(
    store: &Result<Store>,
    profile: &mut ttmem::model::Profile,
    file: &str,
) -> Result<Box<Stored>> {
    store.as_ref().map_err(again)?.save(profile, file, None).map(Box::new)
}

/// A copy of an error.
fn again(error: &Error) -> Error {
    Error::NotFound(error.to_string())
}

/// Writes a file; an existing one is replaced only if `may_replace` is set.
pub(super) fn write(path: &Path, content: &[u8], may_replace: bool) -> Result<()> {
    // Checked before asking whether to replace it.
    if path.is_dir() {
        return Err(Error::NotFound(format!("{} is a folder; choose a file in it", path.display())));
    }
    let output = Output::at::<&str>(path, may_replace, &[])?;
    console::write(Some(&output), |out| out.write_all(content))
}

/// Opens a page in a browser; returns whether that worked.
pub(super) fn show(page: &Path) -> bool {
    may_have_a_browser() && open::that_detached(page).is_ok()
}

/// Without a display, only a text browser could start, but the terminal is in use.
fn may_have_a_browser() -> bool {
    const SIGNS: [&str; 4] = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(target_os = "linux") || SIGNS.iter().any(is_set)
}
