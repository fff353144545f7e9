//! A session with one client: the roots and the open profiles.

use std::sync::Arc;

use serde_json::{Map, Value};
use ttmem::read::Progress;

use crate::answer::{Answer, Failure};
use crate::arguments::Arguments;
use crate::profiles::{Opened, Profiles};
use crate::roots::Roots;
use crate::tools::Tool;

/// A session with one client.
pub(crate) struct Session {
    pub roots: Roots,
    pub profiles: Profiles,
}

/// A call of a tool.
pub(crate) struct Call<'a> {
    pub session: &'a Session,
    pub arguments: Arguments<'a>,
    /// Stops a file from being read if the call is canceled.
    pub progress: &'a Arc<Progress>,
}

impl Session {
    pub fn new(roots: Roots) -> Self {
        Self { roots, profiles: Profiles::default() }
    }

    /// Calls a tool.
    pub fn call(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        progress: &Arc<Progress>,
    ) -> Result<Answer, Failure> {
        let arguments = Arguments::new(tool, arguments)?;
        (tool.call)(&Call { session: self, arguments, progress })
    }
}

impl Call<'_> {
    /// The profile with the handle in an argument.
    pub fn profile(&self, name: &str) -> Result<Arc<Opened>, Failure> {
        self.session.profiles.get(self.arguments.required(name)?)
    }
}
