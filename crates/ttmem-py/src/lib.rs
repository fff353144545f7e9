//! The module `ttmem._native` of the Python package.
//!
//! Converts arguments, results and errors between Python and Rust. `ttmem` reads and summarizes profiles, `ttmem-cli`
//! has the commands. Users import the package `python/ttmem`, whose `_native.pyi` documents this module.

mod command;
mod config;
mod errors;
mod live;
mod memory_profile;
mod profile;
mod reading;
mod usage;

/// The native part of the package `ttmem`.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::command::{check_output, memory_size, tt_memory_profiler, ttmem, write_output};
    #[pymodule_export]
    use crate::config::tracker_settings;
    #[pymodule_export]
    use crate::errors::{Error, NoMemoryData, UnknownFormat};
    #[pymodule_export]
    use crate::live::{Call, Forward, History, Operations, Watch};
    #[pymodule_export]
    use crate::memory_profile::save_memory_profile;
    #[pymodule_export]
    use crate::profile::Profile;
    #[pymodule_export]
    use crate::reading::{export, load};
    #[pymodule_export]
    use crate::usage::Usage;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name is Python's")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::errors::give_exit_codes(module.py())
    }
}
