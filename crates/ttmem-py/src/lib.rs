//! The module `ttmem._native` of the Python package.
//!
//! Here lives nothing but the crossing: objects of Python become Rust's, answers become objects, errors become
//! exceptions. What is answered is `ttmem`'s, what the commands do is `ttmem-cli`'s. What people import is
//! `python/ttmem`; `_native.pyi` there describes what is here.

mod command;
mod config;
mod errors;
mod live;
mod memory_profile;
mod profile;
mod reading;
mod usage;

/// What the package `ttmem` is made of.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::command::{memory_size, tt_memory_profiler, ttmem};
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
    use crate::reading::open;
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
