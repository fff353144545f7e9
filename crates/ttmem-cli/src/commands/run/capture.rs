//! The loop that runs while a command runs: it waits for output, signals and the next tick.
//!
//! Output goes to the log first, then to the screen. The loop ends when both the command and its output have ended.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use ttmem::read::{Seen, Watch};
use ttmem::{Error, Result, report};

use super::log::Log;
use super::screen::Screen;
use super::signals::{Signals, pass_on};
use crate::console;

/// The largest read: the size of the pipe.
const PIECE: usize = 1 << 20;
/// The interval of redrawing the status line and syncing the log.
const TICK: Duration = Duration::from_millis(200);
/// The interval of polling a slow screen for room.
const SHORT: Duration = Duration::from_millis(10);
/// The status line is shown only after this time.
const STATUS_DELAY: Duration = Duration::from_secs(1);
/// The wait for other processes that hold the pipe after the command has ended.
const GRACE: Duration = Duration::from_secs(2);

/// The result of a capture.
#[derive(Debug)]
pub(super) struct Captured {
    /// How the command ended.
    pub status: ExitStatus,
    /// The memory data in its output.
    pub seen: Seen,
    /// What happens to the output of processes that it started and that are still running.
    pub others: Option<Others>,
    /// Why the log ends early, if it does.
    pub log_error: Option<io::Error>,
}

/// Captures the output of a command until it has ended.
pub(super) fn capture(child: Child, output: PipeReader, log: File, signals: Signals) -> Result<Captured> {
    let lost = |source| Error::Read { path: "the output of the command".into(), source };
    let begun = Instant::now();
    let capture = Capture {
        child,
        output: Some(output),
        signals,
        log: Log::new(log),
        watch: Watch::default(),
        screen: Screen::new(console::is_quiet()),
        begun,
        next_tick: begun + TICK,
        ended: None,
        others: None,
    };
    capture.run().map_err(lost)
}

struct Capture {
    child: Child,
    /// The command's output, until it ends.
    output: Option<PipeReader>,
    signals: Signals,
    log: Log,
    watch: Watch,
    screen: Screen,
    begun: Instant,
    next_tick: Instant,
    /// How and when the command ended.
    ended: Option<(ExitStatus, Instant)>,
    others: Option<Others>,
}

/// What happens to the output of other processes after the command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// The output is still written to the log.
    Logged,
    /// The output is discarded, because the reading end of the pipe is closed.
    Lost,
}

impl fmt::Display for Others {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Logged => "goes to the log, but not into the report",
            Self::Lost => "is discarded, and writing may terminate the process",
        })
    }
}

/// The event sources that are ready.
struct Ready {
    signals: bool,
    output: bool,
}

impl Capture {
    fn run(mut self) -> io::Result<Captured> {
        let mut piece = vec![0; PIECE];
        let status = loop {
            if let (Some((status, _)), None) = (self.ended, &self.output) {
                break status;
            }
            let ready = self.wait()?;
            if ready.output {
                self.read(&mut piece);
            }
            if ready.signals {
                self.take_signals()?;
            }
            self.give_up_waiting(&mut piece);
            self.tick();
        };
        self.watch.finish();
        let (seen, others) = (self.watch.seen(), self.others);
        Ok(Captured { status, seen, others, log_error: self.log.finish() })
    }

    /// Waits until there is something to do, at most until the next tick.
    fn wait(&self) -> io::Result<Ready> {
        // After the command has ended, the rest is read at once: a slow screen no longer holds it up.
        let listens = self.screen.has_room() || self.ended.is_some();
        let output = self.output.as_ref().filter(|_| listens);
        let until_tick = self.next_tick.saturating_duration_since(Instant::now());
        let timeout = if listens { until_tick } else { until_tick.min(SHORT) };
        let mut fds = vec![PollFd::new(self.signals.waker(), PollFlags::IN)];
        fds.extend(output.map(|output| PollFd::new(output, PollFlags::IN)));
        match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) => {
                let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
                Ok(Ready { signals: is_ready(fds.first()), output: is_ready(fds.get(1)) })
            }
            Err(Errno::INTR) => Ok(Ready { signals: true, output: false }),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a piece of the output and returns its length. Closes the pipe at its end.
    fn read(&mut self, piece: &mut [u8]) -> usize {
        let Some(output) = &mut self.output else { return 0 };
        match output.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Ok(0) | Err(_) => {
                self.output = None;
                0
            }
            Ok(read) => {
                self.log.write(&piece[..read]);
                self.screen.show(&piece[..read]);
                self.watch.feed(&piece[..read]);
                read
            }
        }
    }

    /// Passes signals on, and notices when the command has ended.
    fn take_signals(&mut self) -> io::Result<()> {
        for origin in self.signals.take() {
            match &mut self.ended {
                None => pass_on(&origin, &self.child),
                // The command has ended, so the signal means: stop waiting for other processes.
                Some((_, at)) => *at = at.checked_sub(GRACE).unwrap_or(*at),
            }
        }
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?.map(|status| (status, Instant::now()));
        }
        Ok(())
    }

    /// Stops waiting for other processes that still hold the pipe after the grace period, once its content is read.
    fn give_up_waiting(&mut self, piece: &mut [u8]) {
        let is_over = self.ended.is_some_and(|(_, at)| at.elapsed() >= GRACE);
        let Some(output) = self.output.as_ref().filter(|_| is_over) else { return };
        let mut left = rustix::io::ioctl_fionread(output).unwrap_or(0);
        while left > 0 && self.output.is_some() {
            left = left.saturating_sub(self.read(piece) as u64);
        }
        // If the pipe were closed, SIGPIPE would end them at their next line.
        let hand_over =
            |output| if self.log.hand_over(output).is_ok() { Others::Logged } else { Others::Lost };
        self.others = self.output.take().map(hand_over);
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.log.sync();
        let passed = now - self.begun;
        if passed >= STATUS_DELAY {
            self.screen.live(|| report::live(passed.as_secs(), &self.watch.seen()));
        }
    }
}
