//! The log of a run, written as it comes.
//!
//! What was read from the pipe is handed to the kernel at once: whoever kills ttmem loses nothing of it. A thread
//! asks the kernel several times a second to put it on the disk, so that a machine that dies takes only the last
//! moment along.

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
    /// There are bytes that nobody has asked to be put on the disk.
    is_fresh: bool,
    sync: Option<SyncSender<()>>,
}

impl Log {
    pub fn new(file: File) -> Self {
        let sync = file.try_clone().and_then(sync_thread).ok();
        Self { file, failed: None, is_fresh: false, sync }
    }

    /// Appends bytes. After the first failure nothing more is written: a log has no holes.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
            self.is_fresh = true;
        }
    }

    /// Has what is new put on the disk, without waiting for it; not while the disk is still busy with what was before.
    pub fn sync(&mut self) {
        if let Some(sync) = self.sync.as_ref().filter(|_| self.is_fresh) {
            self.is_fresh = sync.try_send(()).is_err();
        }
    }

    /// Leaves the log to what still comes out of a pipe: it is written by a process that outlives this one.
    pub fn hand_over(&self, output: PipeReader) -> io::Result<()> {
        let mut cat = Command::new("cat");
        cat.stdin(output).stdout(self.file.try_clone()?).stderr(Stdio::null());
        // Ctrl-C is not meant for it.
        let mut child = cat.process_group(0).spawn()?;
        thread::Builder::new().name("cat".into()).spawn(move || child.wait()).map(drop)
    }

    /// Ends it; what went wrong, if anything did.
    pub fn finish(self) -> Option<io::Error> {
        self.failed
    }
}

/// A thread that syncs the file whenever it is asked to. It ends when nobody can ask any more.
fn sync_thread(file: File) -> io::Result<SyncSender<()>> {
    // Without room: it is asked only when it waits for it.
    let (sender, asked) = sync_channel(0);
    thread::Builder::new().name("log".into()).spawn(move || {
        while asked.recv().is_ok() {
            // Where it cannot be (a pipe, an odd file system), the log is as safe as any other file.
            let _ = file.sync_data();
        }
    })?;
    Ok(sender)
}
