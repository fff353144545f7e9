//! Watching a PyTorch program while it runs: tensors by their storages, calls by their contexts.
//!
//! `watch` is told of every operation, and `tensors` sees which storages are new; `state` gives what it sees to the recorder
//! of `ttmem`. `forward` is told of every module that runs. Allocators that write down themselves what they do are told by `passing` what runs; `snapshot` reads what
//! they have written, and `history` takes it down; `failures` takes down what went wrong; `operations` does so for PyTorch's profiler. `call` is what a context holds while an operation runs; `lines` says
//! where the program is. What is installed where, and when, is decided in `python/ttmem`.
//!
//! A watcher must not change what it watches: its errors are counted and said once, and never reach the program.

mod call;
mod failures;
mod forward;
mod gil_cell;
mod history;
mod lines;
mod operations;
mod passing;
mod snapshot;
mod state;
mod tensors;
mod watch;

pub(crate) use call::Call;
pub(crate) use forward::Forward;
pub(crate) use history::History;
pub(crate) use operations::Operations;
pub(crate) use watch::Watch;
