//! The tracker for C and C++ programs.
//!
//! This crate only converts between C and Rust: pointers and numbers, errors to status codes and messages. `ttmem`'s
//! `record::tracker` implements the tracker. `include/ttmem.h` is generated from this crate; a test checks that it is
//! up to date.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]

mod capture;
mod crossing;
mod usage;

pub use capture::*;
pub use crossing::{ttmem_last_error, ttmem_status, ttmem_string_free, ttmem_tracker};
pub use usage::*;
