//! `ttmem` alone: on a terminal it asks what to look at.
//!
//! ```text
//!  keys, signals ─► message ─► app (a stack of screens) ─► effect ─► session ─► work, child
//!                      ▲            │                                              │
//!                      │            └─► view ─► the terminal                       │
//!                      └──────────────────── answer ◄──────────────────────────────┘
//! ```
//!
//! The state (`app`, `screens`) takes messages, says what is to be done, and can be drawn; it touches nothing
//! outside. `session` owns the terminal and does what is to be done: what takes time, on threads (`work`), and
//! other commands of ours as processes (`child`). What comes of it comes back as a message.

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

/// Asks; off a terminal, prints help and exits with 2.
pub(crate) fn run() -> Result<u8> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    // The one kind of terminal on which nothing can be drawn.
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    if !is_terminal || is_dumb {
        console::say(&Args::command().render_help().ansi().to_string());
        return Ok(2);
    }
    session::run()
}
