//! Makes evidence with known truth, for the tests and benchmarks of ttmem.
//!
//! A profiler can only be trusted on logs whose answer is known. Real logs do not come with one, so this
//! crate runs small models of the runtimes, prints what they would print, and writes the truth down while
//! doing so. Nothing here reads a log, and nothing here depends on ttmem: a mistake in one cannot hide a
//! mistake in the other.
//!
//! - [`tt`]: the Tenstorrent runtime (tt-mlir and tt-xla).
//! - [`graph`]: the graph captures of ttnn.
//! - [`privileges`]: tests of permissions, as root.
//! - [`random`]: chance that a seed names, for tests that draw their own cases.
//! - [`sweep`]: how many cases a test tries.

pub mod graph;
#[cfg(unix)]
pub mod privileges;
pub mod random;
pub mod sweep;
pub mod tt;
