//! A model of the Tenstorrent runtime (tt-mlir, tt-xla) that generates its logs.
//!
//! A [`Scenario`] builds programs and runs them on a device whose banks are allocated in lock step. The log is what the
//! runtime would print, written as it happens; the [`Truth`] is recorded at the same time.
//!
//! ```
//! use ttmem_testkit::tt::{Options, Scenario, make};
//!
//! let mut log = Vec::new();
//! let truth = make(Scenario::Vae, &Options { seed: 7, ..Options::default() }, &mut log)?;
//! assert!(truth.live_sum_per_bank == truth.pools["DRAM"].peak_per_bank);
//! # Ok::<(), std::io::Error>(())
//! ```

mod allocator;
mod chip;
mod device;
mod dialect;
mod dump;
mod ledger;
mod log;
mod memory_view;
mod noise;
mod oom;
mod options;
mod print;
mod program;
mod residue;
mod runtime;
mod scenarios;
mod sink;
mod tensor;
mod truth;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::random::Random;
use log::Log;
use runtime::{Runtime, Stop};

pub use chip::Chip;
pub use dialect::LayoutEra;
pub use oom::ErrorEra;
pub use options::{Change, Level, MemoryLevel, Modules, Options};
pub use scenarios::{Layers, Scenario};
pub use truth::{Alias, Gap, LiveTensor, OutOfMemory, PoolTruth, RegisteredArgument, Truth, View};

/// Writes the log of a scenario and returns its truth.
///
/// The log is streamed: memory use does not grow with its length.
pub fn make(scenario: Scenario, options: &Options, out: &mut dyn Write) -> io::Result<Truth> {
    let mut random = Random::new(options.seed);
    let log = Log::new(out, options, random.fork());
    let mut runtime = Runtime::new(log, options);
    match scenario.play(&mut runtime, &mut random, options) {
        Ok(()) | Err(Stop::OutOfMemory) => runtime.finish(scenario.name()),
        Err(Stop::Io(error)) => Err(error),
    }
}
