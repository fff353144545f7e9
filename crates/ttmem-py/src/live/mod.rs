//! Tracks a PyTorch program while it runs: tensors by their storages, calls by their contexts.
//!
//! - `watch` is called for every operation; `tensors` finds new storages; `state` passes them to `ttmem`'s recorder.
//! - `forward` is called for every module that runs.
//! - `passing` passes the running call to allocators with a history; `snapshot` parses their history, and `history`
//!   records it.
//! - `feed` receives the actions of CUDA's allocator as they happen.
//! - `operations` records the events of PyTorch's profiler.
//! - `failures` records failed allocations and the exception that ends the program.
//! - `call` is the running call of a context; `lines` has the Python stack.
//!
//! `python/ttmem` decides which hooks are installed, and when.
//!
//! A tracker must not change the program: its errors are counted, the first is logged, and none reaches the program.

mod call;
mod failures;
mod feed;
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
