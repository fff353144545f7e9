//! The command `ttmem`: it reads arguments, asks the library and prints. It computes nothing.

mod args;
mod commands;
mod console;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    match commands::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::fail(&error),
    }
}
