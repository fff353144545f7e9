//! The tracker for programs in C and C++.
//!
//! Here lives nothing but the crossing: pointers and numbers of C become Rust's, errors become numbers and words. What a
//! tracker does is `ttmem`'s `record::tracker`. `include/ttmem.h` is made from this crate; a test compares them.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]

mod capture;
mod crossing;
mod usage;

pub use capture::*;
pub use crossing::{ttmem_last_error, ttmem_status, ttmem_string_free, ttmem_tracker};
pub use usage::*;
