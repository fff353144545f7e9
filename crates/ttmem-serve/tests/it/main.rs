//! The tests of the server, in one program: linking is what takes time.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

mod answers;
mod connections;
mod docs;
mod load;
mod refusals;
mod support;
mod uploads;
