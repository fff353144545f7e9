//! Recordings with a limit: a full file is followed by another.
//!
//! `files` replaces one file by the next, so that a program can be killed at any time. `opening` writes the beginning
//! of the next file: the live state from `kept`, the `past` in a limited number of points, the last `rounds` of the
//! program, and complete iterations as `examples` of those that were recorded without details.

mod examples;
mod files;
pub(super) mod kept;
mod opening;
mod past;
mod rounds;

pub(super) use files::Files;
