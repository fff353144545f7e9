//! Generates inputs with known truth for the tests and benchmarks of ttmem.
//!
//! A profiler can only be trusted on logs with known results. Real logs have none, so this crate runs small models of
//! the runtimes, prints what they would print, and records the truth at the same time. Nothing here reads a log, and
//! nothing here depends on ttmem: a mistake in one cannot hide a mistake in the other.
//!
//! - [`tt`]: the Tenstorrent runtime (tt-mlir and tt-xla).
//! - [`graph`]: ttnn graph captures.
//! - [`privileges`]: tests of file permissions that run as root.
//! - [`programs`]: programs that tests write and start.
//! - [`random`]: a seeded random generator for tests that draw their own cases.
//! - [`torch`]: the caching allocator of PyTorch, and its snapshots.
//! - [`sweep`]: the number of cases that a test tries.

pub mod graph;
#[cfg(unix)]
pub mod privileges;
#[cfg(unix)]
pub mod programs;
pub mod random;
pub mod sweep;
pub mod torch;
pub mod tt;
