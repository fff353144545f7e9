//! Recordings: events on their way to a file, and back; and the tracker, which makes them of a program that runs.
//!
//! Here lives what makes or continues a `.ttmem` file: [`frame`], the codec, and [`tracker`]. What events mean is the
//! business of [`model`](crate::model), and readers of other people's formats live in `read`.

pub mod frame;
pub mod tracker;
