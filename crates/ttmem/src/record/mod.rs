//! Recordings: events on their way to a file, and back.
//!
//! Here lives what makes or continues a `.ttmem` file: [`frame`], the codec. What events mean is the business
//! of [`model`](crate::model), and readers of other people's formats live in `read`.

pub mod frame;
