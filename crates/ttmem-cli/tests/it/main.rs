//! The tests of the commands, in one program: linking is what takes time.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

mod config;
mod docs;
mod gantt;
mod interactive;
mod last_run;
mod manners;
mod outputs;
mod phases;
mod progress;
mod pseudo_terminal;
mod report;
mod reports;
mod run;
mod seeds;
mod serve;
mod summary;
mod typescript;
