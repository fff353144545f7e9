//! A Model Context Protocol server on standard input and output: lets agents query profiles.
//!
//! `server` speaks the protocol and runs each call in its own thread. `session` has the open profiles and passes calls to
//! `tools`, one file per tool. A tool takes responses of `query` and returns them as JSON with the names and numbers of
//! `--json`, and as a short text. `roots` decides which files may be read, `list` cuts long lists into pages.
//!
//! Nothing but the protocol is written to standard output.

mod answer;
mod arguments;
mod link;
mod list;
mod profiles;
mod roots;
mod server;
mod session;
mod text;
mod tools;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use ttmem::Result;

/// What the server may read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The folders that files must be in.
    pub roots: Vec<PathBuf>,
}

/// Serves files below the folders in `words`, or below the working directory, until standard input is closed. Returns the
/// exit code.
pub fn run(words: &[OsString]) -> Result<u8> {
    let given: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
    let roots = if given.is_empty() { vec![PathBuf::from(".")] } else { given };
    serve(&Config { roots }).map(|()| 0)
}

/// Serves until standard input is closed.
pub fn serve(config: &Config) -> Result<()> {
    let roots = roots::Roots::new(&config.roots)?;
    let session = session::Session::new(roots);
    let failed = |source: io::Error| ttmem::Error::Read { path: "standard input".into(), source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(server::MAX_THREADS)
        .enable_all()
        .build()
        .map_err(failed)?;
    let done = runtime.block_on(server::serve(session));
    // A file that is still being read must not delay the exit.
    runtime.shutdown_background();
    done
}
