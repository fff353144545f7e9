//! Records the memory of a running program into a `.ttmem` file.
//!
//! [`tracker`] is for programs that report every buffer themselves, in phases. [`live`] is for bindings to a framework,
//! with calls, source lines and times. Both write events of [`ttmem_model`] through its codec, [`ttmem_model::frame`].

mod level;
pub mod live;
mod replace;
pub mod tracker;
