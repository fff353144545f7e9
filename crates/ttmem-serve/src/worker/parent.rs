//! The end of the server: starts a worker, hears what it says, and ends it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Failure, FailureKind, Message, Task};
use crate::space::Room;

/// How a worker is started.
#[derive(Clone, Debug)]
pub struct Worker {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl Worker {
    /// A program which calls [`work`](super::work) when it is started with these arguments.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, variables: Vec::new() }
    }

    /// The same, with a variable in its environment.
    #[must_use]
    pub fn with(mut self, variable: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((variable.into(), value.into()));
        self
    }

    /// Starts a worker in a room.
    pub(crate) async fn start(&self, task: &Task, room: &Room) -> io::Result<Working> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(room.folder());
        command.envs(self.variables.iter().map(|(variable, value)| (variable, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C is meant for the server, which ends its workers itself.
        #[cfg(unix)]
        command.process_group(0);
        let mut text = serde_json::to_vec(task)?;
        text.push(b'\n');
        let mut child = command.spawn()?;
        let id = child.id().unwrap_or_default();
        let missing = || io::Error::other("the worker has no pipes");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        // Before it is told: it has written nothing yet.
        room.note_worker(id);
        // One that is gone already cannot be told; how it ended is heard later.
        let _ = input.write_all(&text).await;
        let lines = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Working { child, id, lines, _lifeline: input })
    }
}

/// A worker at work. Whoever drops it ends it.
pub(crate) struct Working {
    child: Child,
    id: u32,
    lines: Lines<BufReader<ChildStdout>>,
    _lifeline: ChildStdin,
}

impl Working {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Hears it out: the name of the report, if it made one.
    pub(crate) async fn hear_out(
        &mut self,
        mut heard: impl FnMut(Message),
    ) -> Result<Option<String>, Failure> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Message::Done(report)) => return Ok(report),
                Ok(Message::Failed(failure)) => return Err(failure),
                Ok(message) => heard(message),
                // Words of others, such as of a library: not meant for us.
                Err(_) => {}
            }
        }
        let status = self.child.wait().await;
        Err(Failure { kind: FailureKind::Ended, exit_code: 70, message: last_words(status) })
    }

    /// Ends it, and waits until it is gone.
    pub(crate) async fn end(mut self) {
        let _ = self.child.kill().await;
    }
}

fn last_words(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) if status.code().is_none() => {
            format!("the process that read it was ended ({status}): perhaps the machine ran out of memory")
        }
        Ok(status) => {
            format!("the process that read it ended unexpectedly ({status}); this is a bug in ttmem")
        }
        Err(error) => format!("the process that read it is lost: {error}"),
    }
}
