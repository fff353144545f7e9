//! Signals: while a command runs they are the command's.
//!
//! A signal that is sent to ttmem is passed on. One that the terminal sends (Ctrl-C) has reached the command already,
//! for both are in the terminal's foreground group; it must not come twice. ttmem itself survives all of them, so
//! that the report is made. When the command is over, signals do what they always do.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use ttmem::{Error, Result};

/// The signals that are passed on.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Holds back what signals do otherwise, until it is dropped.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    usual: Arc<AtomicBool>,
}

impl Signals {
    /// From here on signals are held back.
    pub fn hold() -> Result<Self> {
        Self::try_hold().map_err(|error| Error::Bug(format!("signals cannot be caught: {error}")))
    }

    fn try_hold() -> io::Result<Self> {
        // What is ignored (`nohup`) stays ignored, here and in the command: a handler would end that.
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let ours: Vec<i32> = PASSED_ON.into_iter().filter(|signal| !ignored(*signal)).collect();
        let usual = usual(&ours)?;
        usual.store(false, Ordering::SeqCst);
        let (read, write) = UnixStream::pair()?;
        let signals = ours.iter().copied().chain([SIGCHLD]);
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)?;
        Ok(Self { delivery, usual })
    }

    /// What becomes readable when there is a signal.
    pub fn waker(&self) -> &UnixStream {
        self.delivery.get_read()
    }

    /// The signals that have come and are to be passed on. (That a command has ended only wakes us.)
    pub fn take(&mut self) -> impl Iterator<Item = Origin> + use<> {
        self.delivery.pending().filter(|origin| origin.signal != SIGCHLD)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.usual.store(true, Ordering::SeqCst);
    }
}

/// A switch for what signals do otherwise. The handlers of a process cannot be taken off again, so there is one.
fn usual(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    static USUAL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(usual) = USUAL.get() {
        return Ok(Arc::clone(usual));
    }
    let usual = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register_conditional_default(*signal, Arc::clone(&usual))?;
    }
    Ok(Arc::clone(USUAL.get_or_init(|| usual)))
}

/// Whether a signal was ignored when we were started, from the kernel's account of this process.
fn ignored(status: &str) -> impl Fn(i32) -> bool + use<> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

/// Passes a signal on to a command that runs, unless the command has it already.
pub(super) fn pass_on(origin: &Origin, child: &Child) {
    let pid = Pid::from_child(child);
    let has_it = match &origin.process {
        // The terminal sent it to the whole group.
        None => getpgid(Some(pid)).is_ok_and(|group| group == getpgrp()),
        // The command itself did: it need not come back.
        Some(sender) => sender.pid == pid.as_raw_nonzero().get(),
    };
    if let Some(signal) = Signal::from_named_raw(origin.signal).filter(|_| !has_it) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_is_ignored() {
        let is_ignored = ignored("Name:\tttmem\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert!(is_ignored(SIGHUP));
        assert!(!is_ignored(SIGINT) && !is_ignored(SIGTERM));
        for unknown in ["", "SigIgn:\tno number\n"] {
            assert!(!ignored(unknown)(SIGHUP));
        }
    }
}
