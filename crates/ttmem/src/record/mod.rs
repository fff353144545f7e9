//! Recordings: events on their way to a file, and back; and what makes them of a program that runs.
//!
//! Here lives what makes or continues a `.ttmem` file: [`frame`], the codec; [`tracker`], for programs that say of every
//! buffer what becomes of it, in phases; and [`live`], for bindings to a framework, with calls, lines and times. What
//! events mean is the business of [`model`](crate::model), and readers of other people's formats live in `read`.

pub mod frame;
mod level;
pub mod live;
mod replace;
pub mod tracker;
