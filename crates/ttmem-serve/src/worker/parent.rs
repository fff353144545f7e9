//! The server's end: starts a worker, reads its messages, and stops it.

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
    /// A program that calls [`work`](super::work) when it is started with these arguments.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, variables: Vec::new() }
    }

    /// Sets an environment variable of the worker.
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
        // Ctrl-C is for the server, which stops its workers itself.
        #[cfg(unix)]
        command.process_group(0);
        let mut text = serde_json::to_vec(task)?;
        text.push(b'\n');
        let mut child = command.spawn()?;
        let id = child.id().unwrap_or_default();
        let missing = || io::Error::other("cannot open the worker's pipes");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        // Before the task is sent, so that the worker has not written anything yet.
        room.note_worker(id);
        // If the worker has already ended, its exit status is read later.
        let _ = input.write_all(&text).await;
        let lines = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Working { child, id, lines, _lifeline: input })
    }
}

/// A running worker. It is killed on drop.
pub(crate) struct Working {
    child: Child,
    id: u32,
    lines: Lines<BufReader<ChildStdout>>,
    _lifeline: ChildStdin,
}

impl Working {
    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Reads the worker's messages until it ends. Returns the report's name, if it stored one.
    pub(crate) async fn hear_out(
        &mut self,
        mut heard: impl FnMut(Message),
    ) -> Result<Option<String>, Failure> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Message::Done(report)) => return Ok(report),
                Ok(Message::Failed(failure)) => return Err(failure),
                Ok(message) => heard(message),
                // Output of something else, such as a library.
                Err(_) => {}
            }
        }
        let status = self.child.wait().await;
        Err(Failure { kind: FailureKind::Ended, exit_code: 70, message: exit_message(status) })
    }

    /// Kills the worker and waits until it has ended.
    pub(crate) async fn end(mut self) {
        let _ = self.child.kill().await;
    }
}

fn exit_message(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) if status.code().is_none() => {
            format!("the worker process was killed ({status}); the machine may have run out of memory")
        }
        Ok(status) => {
            format!("the worker process exited unexpectedly ({status}); this is a bug in ttmem")
        }
        Err(error) => format!("the worker process's exit status is unknown: {error}"),
    }
}
