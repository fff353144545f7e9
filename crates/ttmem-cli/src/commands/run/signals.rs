//! Signals: while a command runs, they are passed to the command.
//!
//! A signal sent to ttmem is passed on. One that the terminal sends (Ctrl-C) has already reached the command, because
//! both are in the terminal's foreground group, and must not arrive twice. ttmem itself survives them, so that it can
//! write the report. After the command has ended, signals have their default effect.

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

/// Suppresses the default effect of signals until dropped.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    default_action: Arc<AtomicBool>,
}

impl Signals {
    /// Suppresses signals from now on.
    pub fn hold() -> Result<Self> {
        Self::try_hold().map_err(|error| Error::Bug(format!("cannot catch signals: {error}")))
    }

    fn try_hold() -> io::Result<Self> {
        // Ignored signals (`nohup`) stay ignored, here and in the command; a handler would change that.
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let ours: Vec<i32> = PASSED_ON.into_iter().filter(|signal| !ignored(*signal)).collect();
        let default_action = default_action(&ours)?;
        default_action.store(false, Ordering::SeqCst);
        let (read, write) = UnixStream::pair()?;
        let signals = ours.iter().copied().chain([SIGCHLD]);
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)?;
        Ok(Self { delivery, default_action })
    }

    /// A stream that becomes readable when a signal arrives.
    pub fn waker(&self) -> &UnixStream {
        self.delivery.get_read()
    }

    /// The signals to pass on. SIGCHLD only wakes the loop.
    pub fn take(&mut self) -> impl Iterator<Item = Origin> + use<> {
        self.delivery.pending().filter(|origin| origin.signal != SIGCHLD)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.default_action.store(true, Ordering::SeqCst);
    }
}

/// A switch for the default effect of signals. Handlers cannot be removed, so the process has a single one.
fn default_action(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    static DEFAULT_ACTION: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(default_action) = DEFAULT_ACTION.get() {
        return Ok(Arc::clone(default_action));
    }
    let default_action = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register_conditional_default(*signal, Arc::clone(&default_action))?;
    }
    Ok(Arc::clone(DEFAULT_ACTION.get_or_init(|| default_action)))
}

/// Whether a signal was ignored when ttmem was started, from `/proc/self/status`.
fn ignored(status: &str) -> impl Fn(i32) -> bool + use<> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

/// Passes a signal on to the running command, unless the command already received it.
pub(super) fn pass_on(origin: &Origin, child: &Child) {
    let pid = Pid::from_child(child);
    let has_it = match &origin.process {
        // The terminal sent it to the whole group.
        None => getpgid(Some(pid)).is_ok_and(|group| group == getpgrp()),
        // The command itself sent it.
        Some(sender) => sender.pid == pid.as_raw_nonzero().get(),
    };
    if let Some(signal) = Signal::from_named_raw(origin.signal).filter(|_| !has_it) {
        // The command may have just ended.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let is_ignored = ignored("Name:\tttmem\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert!(is_ignored(SIGHUP));
        assert!(!is_ignored(SIGINT) && !is_ignored(SIGTERM));
        for unknown in ["", "SigIgn:\tno number\n"] {
            assert!(!ignored(unknown)(SIGHUP));
        }
    }
}
