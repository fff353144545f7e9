//! What happens while a command runs: one loop that waits for its output, for signals and for the time to pass.
//!
//! Output goes into the log first, then to the screen. The loop ends when the command has ended and its output, too.

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

/// What is read at a time: all that the pipe can hold.
const PIECE: usize = 1 << 20;
/// How often the line on the terminal is drawn anew, and the log is put on the disk.
const TICK: Duration = Duration::from_millis(200);
/// How soon it is looked again whether a slow screen has room.
const SHORT: Duration = Duration::from_millis(10);
/// What is over sooner needs no line.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long others that hold the pipe are waited for when the command itself has ended.
const GRACE: Duration = Duration::from_secs(2);

/// What was captured.
#[derive(Debug)]
pub(super) struct Captured {
    /// How the command ended.
    pub status: ExitStatus,
    /// What its output said of memory.
    pub seen: Seen,
    /// What becomes of the output of something that it started and that still runs.
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

/// What becomes of what others print when the command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// It still goes into the log.
    Logged,
    /// It goes nowhere.
    Lost,
}

impl fmt::Display for Others {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Logged => "goes into the log, but not into the report",
            Self::Lost => "is lost, and may end it",
        })
    }
}

/// What there is to do.
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
        // When the command has ended what is left is read at once: nobody is held up any more.
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

    /// Reads a piece of the output; says how long it is. At the end the pipe is closed.
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
                // There is nobody to pass it on to: whoever sent it does not want to wait for others.
                Some((_, at)) => *at = at.checked_sub(GRACE).unwrap_or(*at),
            }
        }
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?.map(|status| (status, Instant::now()));
        }
        Ok(())
    }

    /// Leaves the pipe to others when the command ended a while ago and they still hold it, after reading what is in
    /// it.
    fn give_up_waiting(&mut self, piece: &mut [u8]) {
        let is_over = self.ended.is_some_and(|(_, at)| at.elapsed() >= GRACE);
        let Some(output) = self.output.as_ref().filter(|_| is_over) else { return };
        let mut left = rustix::io::ioctl_fionread(output).unwrap_or(0);
        while left > 0 && self.output.is_some() {
            left = left.saturating_sub(self.read(piece) as u64);
        }
        // Were the pipe closed, the system would end them at the next line they print.
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
        if passed >= PATIENCE {
            self.screen.live(|| report::live(passed.as_secs(), &self.watch.seen()));
        }
    }
}
