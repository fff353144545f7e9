//! What a tool returns.

use serde_json::Value;

/// The response of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// An object with the names and numbers of `--json`.
    pub structured: Value,
    /// The same in a few lines.
    pub text: String,
}

/// Why a call failed, and what to do: a message for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub String);

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<ttmem::Error> for Failure {
    fn from(error: ttmem::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("this is a bug in ttmem: {error}"))
    }
}
