//! The log of a run, written while the command runs.
//!
//! Bytes read from the pipe are written to the file at once, so nothing is lost if ttmem is killed. A thread syncs the
//! file several times a second, so a crash of the machine loses only the last moment.

use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The log of a run.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    failed: Option<io::Error>,
    /// Whether bytes were written since the last sync request.
    is_fresh: bool,
    sync: Option<SyncSender<()>>,
}

impl Log {
    pub fn new(file: File) -> Self {
        let sync = file.try_clone().and_then(sync_thread).ok();
        Self { file, failed: None, is_fresh: false, sync }
    }

    /// Appends bytes. After the first failure nothing more is written, so that the log has no gaps.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
            self.is_fresh = true;
        }
    }

    /// Requests a sync without waiting for it; skipped while the previous sync is running.
    pub fn sync(&mut self) {
        if let Some(sync) = self.sync.as_ref().filter(|_| self.is_fresh) {
            self.is_fresh = sync.try_send(()).is_err();
        }
    }

    /// Starts a process that copies the rest of the pipe to the log and outlives this one.
    pub fn hand_over(&self, output: PipeReader) -> io::Result<()> {
        let mut cat = Command::new("cat");
        cat.stdin(output).stdout(self.file.try_clone()?).stderr(Stdio::null());
        // In its own process group, so that Ctrl-C does not end it.
        let mut child = cat.process_group(0).spawn()?;
        thread::Builder::new().name("cat".into()).spawn(move || child.wait()).map(drop)
    }

    /// Closes the log and returns the error that ended it early, if any.
    pub fn finish(self) -> Option<io::Error> {
        self.failed
    }
}

/// Starts a thread that syncs the file on request and ends when the sender is dropped.
fn sync_thread(file: File) -> io::Result<SyncSender<()>> {
    // Without a buffer: a request succeeds only while the thread is idle.
    let (sender, asked) = sync_channel(0);
    thread::Builder::new().name("log".into()).spawn(move || {
        while asked.recv().is_ok() {
            // If the file cannot be synced (a pipe, an unusual file system), it is as safe as any other file.
            let _ = file.sync_data();
        }
    })?;
    Ok(sender)
}
