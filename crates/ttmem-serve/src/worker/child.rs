//! The worker's end: runs the task and reports progress.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ttmem::model::Profile;
use ttmem::query::{self, Request, RunFilter};
use ttmem::read::{self, Options, Progress};
use ttmem::store::{SourceId, Store, name_of, write_report};
use ttmem::{Error, Result, report};

use super::{Message, Question, SUMMARY, Task};

/// The interval between progress reports.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the task that arrives on standard input. The main function of a worker process.
pub fn work() {
    yield_to_others();
    let mut line = String::new();
    let task = io::stdin().read_line(&mut line).map_err(|error| error.to_string());
    let task = task.and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()));
    end_with_the_server();
    let ended = match task {
        Ok(Task::Report { home, file }) => store(&home, &file).map(Some),
        Ok(Task::Rebuild { memory, stem }) => rebuild(&memory, &stem).map(|()| None),
        Ok(Task::Summarize { evidence, question }) => summarize(&evidence, question).map(|()| None),
        Err(error) => Err(Error::Bug(format!("a worker received an invalid task: {error}"))),
    };
    say(&ended.map_or_else(|error| Message::Failed(error.into()), Message::Done));
}

/// If memory runs out, makes the kernel kill this process rather than the server or another program.
fn yield_to_others() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

/// The server holds the other end of standard input. When it closes, the server has ended.
#[expect(clippy::exit, reason = "the working thread would not notice")]
fn end_with_the_server() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
}

fn say(message: &Message) {
    let mut out = io::stdout().lock();
    // If the server has ended, standard input ends too.
    let _ = serde_json::to_writer(&mut out, message).map_err(io::Error::from).and_then(|()| writeln!(out));
}

/// Stores the report of an upload. Returns its name.
fn store(home: &Path, file: &str) -> Result<String> {
    let mut profile = read_aloud(file)?;
    say(&Message::Writing);
    // An upload comes from another machine, so only its name is known.
    let source = SourceId::of(file).map(|source| SourceId { path: file.to_owned(), ..source });
    Store::at(home).save_from(&mut profile, source.as_ref(), &name_of(file)).map(|stored| stored.name)
}

/// Same as `ttmem report DIR`.
fn rebuild(memory: &Path, stem: &str) -> Result<()> {
    let mut profile = read::open(&memory.to_string_lossy())?;
    write_report(&mut profile, Some(memory), memory.parent().unwrap_or(memory), stem)?;
    Ok(())
}

/// Reads a file and reports progress.
fn read_aloud(file: &str) -> Result<Profile> {
    let progress = Arc::new(Progress::default());
    let options = Options { progress: Some(Arc::clone(&progress)), ..Options::default() };
    let (done, wait) = channel::<()>();
    let telling = thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(PAUSE) {
            say(&Message::Reading(progress.read()));
        }
    });
    let profile = read::open_with(file, &options);
    drop(done);
    let _ = telling.join();
    profile
}

/// Writes the summary to a file.
fn summarize(evidence: &Path, question: Question) -> Result<()> {
    let profile = read::open(&evidence.to_string_lossy())?;
    let run = match question.run.as_str() {
        "all" => RunFilter::All,
        "last" => RunFilter::Last,
        number => {
            RunFilter::Number(number.parse().map_err(|_| Error::NotFound(format!("invalid run {number:?}")))?)
        }
    };
    let request =
        Request { at: question.at, top: question.top, run, rank: question.rank, ..Request::default() };
    let answer = query::summary(&[profile], &request)?;
    let written = File::create(SUMMARY).and_then(|file| {
        let mut out = BufWriter::new(file);
        report::json(&answer, &mut out)?;
        out.flush()
    });
    written.map_err(|source| Error::Write { path: SUMMARY.into(), source })
}
