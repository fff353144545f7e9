//! `ttmem` without arguments: the interactive mode on a terminal.
//!
//! ```text
//!  keys, signals ─► message ─► app (a stack of screens) ─► effect ─► session ─► work, child
//!                      ▲            │                                              │
//!                      │            └─► view ─► the terminal                       │
//!                      └──────────────────── answer ◄──────────────────────────────┘
//! ```
//!
//! The state (`app`, `screens`) takes messages, returns effects, and can be drawn; it has no side effects. `session`
//! owns the terminal and performs the effects: slow work on threads (`work`) and other ttmem commands as processes
//! (`child`). Their results come back as messages.

mod app;
mod child;
mod command_line;
mod completion;
mod field;
mod input;
mod inventory;
mod look;
mod message;
mod paths;
mod screens;
mod scroll;
mod session;
mod terminal;
mod view;
mod work;

use std::io::IsTerminal;

use clap::CommandFactory;
use ttmem::Result;

use crate::args::Args;
use crate::console;

/// Runs the interactive mode; without a terminal, prints help and exits with 2.
pub(crate) fn run() -> Result<u8> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    // A dumb terminal cannot be drawn on.
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    if !is_terminal || is_dumb {
        console::say(&Args::command().render_help().ansi().to_string());
        return Ok(2);
    }
    session::run()
}
