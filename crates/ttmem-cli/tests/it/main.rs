//! Tests of the commands, in one program to save link time.

// Clippy's allowance for tests does not cover test helpers.
#![allow(clippy::unwrap_used)]

mod check;
mod companions;
mod config;
mod diff;
mod docs;
mod flame;
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
mod track;
mod typescript;
