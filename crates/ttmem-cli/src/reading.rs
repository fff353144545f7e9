//! Reading with a progress bar: on a terminal, and only if it takes more than a second.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use ttmem::model::{Profile, Warning};
use ttmem::read::{self, Options, Progress};
use ttmem::{Error, Result};

use crate::console;

/// The bar is drawn only after this time.
const BAR_DELAY: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Reads a file (`-` is standard input) into a profile.
pub(crate) fn open(file: &str, format: Option<&str>) -> Result<Profile> {
    open_with(file, Options { format: format.map(str::to_owned), ..Options::default() })
}

/// Like [`open`], with options.
pub(crate) fn open_with(file: &str, options: Options) -> Result<Profile> {
    let begun = Instant::now();
    let progress = Arc::new(Progress::default());
    let options = Options { progress: Some(Arc::clone(&progress)), ..options };
    let profile = with_bar(&progress, file, || read::open_with(file, &options))?;
    console::detail(|| {
        let seconds = begun.elapsed().as_secs_f64();
        format!("{file}: read as {} in {seconds:.3} s ({} bytes)", profile.source.format, progress.read())
    });
    Ok(profile)
}

/// Reads two files at the same time. Only the first has a progress bar.
pub(crate) fn open_both(files: [&str; 2], format: Option<&str>) -> Result<[Profile; 2]> {
    thread::scope(|scope| {
        let options = Options { format: format.map(str::to_owned), ..Options::default() };
        let second = scope.spawn(move || read::open_with(files[1], &options));
        let first = open(files[0], format);
        let second = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok([first?, second?])
    })
}

/// The profiles of several files.
pub(crate) struct Opened {
    /// The profiles of the files that could be read.
    pub profiles: Vec<Profile>,
    /// The files that could not be read, with the errors.
    pub unreadable: Vec<(String, String)>,
    /// 0, or the exit code for the first file that could not be read.
    pub exit_code: u8,
}

impl Opened {
    fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        if let Some(first) = self.profiles.first_mut() {
            first.warnings.extend(warnings);
        }
        self
    }
}

/// Opens the files of inputs: a folder stands for the memory snapshots or recordings of its ranks. A warning of the first
/// profile says which files of a folder are not included.
pub(crate) fn open_inputs(inputs: &[&str], open: impl Fn(&str) -> Result<Profile>) -> Result<Opened> {
    let (files, warnings) = expanded(inputs);
    Ok(open_each(&files, open)?.with_warnings(warnings))
}

/// Like [`open_inputs`], but the error of an only file is printed as well.
pub(crate) fn open_readable_inputs(
    inputs: &[&str],
    open: impl Fn(&str) -> Result<Profile>,
) -> Result<Opened> {
    let (files, warnings) = expanded(inputs);
    Ok(open_readable(&files, open)?.with_warnings(warnings))
}

/// The files of inputs, and warnings about those that are not included.
fn expanded(inputs: &[&str]) -> (Vec<String>, Vec<Warning>) {
    let (mut files, mut warnings) = (Vec::new(), Vec::new());
    for input in inputs {
        let ranks = read::ranks_in(Path::new(input));
        warnings.extend(ranks.warnings(Path::new(input)));
        let is_one = ranks.files.is_empty();
        files.extend(ranks.files.iter().map(|path| path.to_string_lossy().into_owned()));
        files.extend(is_one.then(|| (*input).to_owned()));
    }
    (files, warnings)
}

/// Opens several files. An error is printed, so that the other files are still reported; the error of an only file is
/// returned.
pub(crate) fn open_each<F: AsRef<str>>(
    files: &[F],
    open: impl Fn(&str) -> Result<Profile>,
) -> Result<Opened> {
    if let [file] = files {
        let profiles = vec![open(file.as_ref())?];
        return Ok(Opened { profiles, unreadable: Vec::new(), exit_code: 0 });
    }
    open_readable(files, open)
}

/// Opens several files. Every error is printed; it may be that none is readable.
fn open_readable<F: AsRef<str>>(files: &[F], open: impl Fn(&str) -> Result<Profile>) -> Result<Opened> {
    if files.iter().filter(|file| file.as_ref() == "-").count() > 1 {
        return Err(Error::Usage("standard input can be read only once; pass `-` once".into()));
    }
    let mut opened = Opened { profiles: Vec::new(), unreadable: Vec::new(), exit_code: 0 };
    for file in files {
        match open(file.as_ref()) {
            Ok(profile) => opened.profiles.push(profile),
            Err(error) => {
                console::complain(&error);
                opened.unreadable.push((file.as_ref().to_owned(), error.to_string()));
                if opened.exit_code == 0 {
                    opened.exit_code = error.exit_code();
                }
            }
        }
    }
    Ok(opened)
}

/// Runs work that counts its bytes, with a bar if standard error is a terminal.
pub(crate) fn with_bar<T>(progress: &Arc<Progress>, file: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() || console::is_quiet() {
        return work();
    }
    let (done, wait) = channel::<()>();
    let watched = Arc::clone(progress);
    let label = if file == "-" { "standard input".to_owned() } else { file.to_owned() };
    let drawing = thread::spawn(move || draw(&watched, &label, &wait));
    let result = work();
    drop(done);
    // If the bar cannot be drawn, the work is still done.
    let _ = drawing.join();
    result
}

/// Draws the bar until the sender is dropped.
fn draw(progress: &Progress, label: &str, wait: &Receiver<()>) {
    let begun = Instant::now();
    let mut pause = BAR_DELAY;
    let mut bar: Option<ProgressBar> = None;
    while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(pause) {
        pause = REDRAW_INTERVAL;
        let bar = bar.get_or_insert_with(|| new_bar(progress.size(), label, begun.elapsed()));
        bar.set_position(progress.read());
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar(size: Option<u64>, label: &str, elapsed: Duration) -> ProgressBar {
    let template = match size {
        Some(_) => "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}{left}",
        None => "{msg} {spinner} {binary_bytes}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // The bar's own estimate ignores the time before it was first drawn.
    let style = style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
        if let Some(left) = state.len().and_then(|all| time_left(state.pos(), all, state.elapsed())) {
            // A failure to draw is harmless.
            let _ = write!(out, ", {:#} left", HumanDuration(left));
        }
    });
    ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr())
        .with_style(style)
        .with_message(label.to_owned())
        .with_elapsed(elapsed)
}

/// The remaining time at the average speed so far; `None` before anything is read.
fn time_left(read: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let rest = u128::from(all.saturating_sub(read));
    let millis = elapsed.as_millis().checked_mul(rest)?.checked_div(u128::from(read))?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_counts_from_the_beginning() {
        let after_two_seconds = |read, all| time_left(read, all, Duration::from_secs(2));
        assert_eq!(after_two_seconds(1 << 30, 5 << 30), Some(Duration::from_secs(8)));
        assert_eq!(after_two_seconds(5, 5), Some(Duration::ZERO));
        assert_eq!(after_two_seconds(6, 5), Some(Duration::ZERO), "a file that grew");
        assert_eq!(after_two_seconds(0, 5), None);
        assert_eq!(time_left(1, u64::MAX, Duration::MAX), None, "overflow");
    }
}
