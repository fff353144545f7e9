//! The file that ttnn writes next to a report (`report.python_io.json`): the calls from Python, with their source lines
//! and errors. An operation that failed has its error only there.

use std::borrow::Cow;
use std::io::Read;

use serde::Deserialize;
use ttmem_model::Result;

use crate::json::{self, Corruption, Json, JsonError, Stop};
use crate::python_stack::user_line;

/// How far a call is searched in the list. Some calls are in only one of the two files.
const WINDOW: usize = 256;

/// The calls from Python, in order.
#[derive(Debug, Default)]
pub(crate) struct Sidecar {
    calls: Vec<PythonCall>,
    next: usize,
    /// Failed calls before `next` that no function belongs to.
    skipped: Vec<PythonCall>,
    /// The elements that are not calls.
    pub unreadable: u64,
}

/// A call of an operation from Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonCall {
    pub name: String,
    /// The line of the user's program.
    pub line: Option<String>,
    /// The message of the exception that ended it.
    pub error: Option<String>,
    /// Whether it is the last call.
    pub is_last: bool,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    python_stack_trace: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow, default)]
    error: Option<EntryError<'a>>,
}

#[derive(Deserialize)]
struct EntryError<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

impl Sidecar {
    /// Reads the file. If it is corrupt, the calls before the corruption are kept.
    pub fn read(stream: impl Read) -> Result<(Self, Option<Corruption>)> {
        let mut sidecar = Self::default();
        let corruption = json::read(stream, |json| sidecar.walk(json))?;
        if let Some(last) = sidecar.calls.last_mut() {
            last.is_last = true;
        }
        Ok((sidecar, corruption))
    }

    /// A list of calls, or an object with the list as `python_io`.
    fn walk(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        if json.peek()? == Some(b'[') {
            return self.list(json);
        }
        let is_object =
            json.object(|json, key| if key == "python_io" { self.list(json) } else { Ok(json.skip()?) })?;
        if is_object { Ok(()) } else { Err(JsonError::Syntax("expected a list or an object").into()) }
    }

    fn list(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        json.list(|json| -> Result<(), Stop> {
            match serde_json::from_slice::<Entry<'_>>(json.value()?) {
                Ok(entry) => self.calls.push(PythonCall {
                    name: entry.name.into_owned(),
                    line: entry
                        .python_stack_trace
                        .and_then(|stack| user_line(stack.iter().map(|line| &**line))),
                    error: entry.error.map(|error| error.message.into_owned()),
                    is_last: false,
                }),
                Err(_) => self.unreadable += 1,
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Adds a call.
    #[cfg(feature = "sqlite")]
    pub fn push(&mut self, call: PythonCall) {
        self.calls.push(call);
    }

    /// The call that a function of the capture belongs to. Functions must be passed in order.
    pub fn call_of(&mut self, function: &str) -> Option<&PythonCall> {
        let window = self.calls.get(self.next..)?.iter().take(WINDOW);
        let found = self.next + window.enumerate().find(|(_, call)| call.name == function)?.0;
        self.skipped.extend(self.calls[self.next..found].iter().filter(|call| call.error.is_some()).cloned());
        self.next = found + 1;
        self.calls.get(found)
    }

    /// The failed calls that no function of the capture belongs to.
    pub fn rest(&self) -> impl Iterator<Item = &PythonCall> {
        let after = self.calls.get(self.next..).unwrap_or_default().iter();
        self.skipped.iter().chain(after.filter(|call| call.error.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &str = r#"[
        {"name": "ttnn.empty", "arguments": {}, "python_stack_trace":
            ["  File \"/home/me/model.py\", line 10, in forward\n    x = ttnn.empty()\n", "  File \"/usr/lib/python3.10/runpy.py\", line 1, in run\n"]},
        7,
        {"name": "ttnn.softmax", "error": {"type": "RuntimeError", "message": "TT_FATAL @ x"}}
    ]"#;

    #[test]
    fn calls_are_found_in_order() {
        for text in [CALLS.to_owned(), format!("{{\"version\": 1, \"python_io\": {CALLS}}}")] {
            let (mut sidecar, corruption) = Sidecar::read(text.as_bytes()).unwrap();
            assert!(corruption.is_none() && sidecar.unreadable == 1);
            assert_eq!(sidecar.call_of("Tensor::deallocate"), None);
            let empty = sidecar.call_of("ttnn.empty").unwrap();
            assert_eq!((empty.line.as_deref(), &empty.error), (Some("/home/me/model.py:10"), &None));
            let softmax = sidecar.call_of("ttnn.softmax").unwrap();
            assert_eq!((softmax.error.as_deref(), softmax.is_last), (Some("TT_FATAL @ x"), true));
            assert_eq!(sidecar.call_of("ttnn.softmax"), None);
        }
    }

    #[test]
    fn a_cut_file_keeps_its_beginning() {
        for end in 0..CALLS.len() {
            let (sidecar, corruption) = Sidecar::read(&CALLS.as_bytes()[..end]).unwrap();
            assert!(corruption.is_some() && sidecar.calls.len() <= 2);
        }
    }
}
