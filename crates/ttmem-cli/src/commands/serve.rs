//! `ttmem serve`: stored reports in a browser, with upload.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::{env, io};

use clap::Args;
use ttmem::store::Store;
use ttmem::{Error, Result};
use ttmem_serve::{Config, Limits, Server, Worker};

use crate::{again, console};

const EXAMPLES: &str = "\
Examples:
  ttmem serve                              on this machine; the address is printed
  ttmem serve --port 9000 --no-open        on that port, without a browser
  ttmem serve --max-upload 500MB           no log larger than that

Over SSH: start it there, run the line with `ssh -L` that it prints here, and open its address here.
Programs can ask it, too: docs/http.md.";

/// How a worker is told that it is one.
const WORKER: &str = "--worker";

/// `ttmem serve`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The port, instead of the first that is free from 8000 up.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// The address to listen on; others than loopback always need the token.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: IpAddr,

    /// Start no browser.
    #[arg(long)]
    pub no_open: bool,

    /// Ask for no token (on loopback only): everybody on this machine may read and upload.
    #[arg(long)]
    pub no_token: bool,

    /// The largest upload: bytes, or with a unit as in 500MB or 8GiB.
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub max_upload: Size,

    /// Do one task for a server, which says what on standard input.
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// What the command does without options.
impl Default for Serve {
    fn default() -> Self {
        Self {
            port: None,
            bind: Ipv4Addr::LOCALHOST.into(),
            no_open: false,
            no_token: false,
            max_upload: Size(Limits::default().upload_bytes),
            worker: false,
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub u64);

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let (false, Some(factor)) = (number.is_empty(), factor) else {
            return Err("a whole number of bytes is wanted, or one with a unit: 500MB, 8GiB".into());
        };
        let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
        bytes.map(Self).ok_or_else(|| "that is more than any disk holds".into())
    }
}

/// Serves until it is stopped.
pub(crate) fn run(args: &Serve) -> Result<()> {
    if args.worker {
        ttmem_serve::work();
        return Ok(());
    }
    serve(args, None)
}

/// This program as the server's second process. What it frees goes back to the system at once: that takes it a little
/// longer, and a quarter less memory.
fn worker() -> io::Result<Worker> {
    let (program, before) = again::program()?;
    let arguments = before.iter().cloned().chain(["serve", WORKER].map(OsString::from));
    Ok(Worker::new(program, arguments).with("MIMALLOC_PURGE_DELAY", "0"))
}

/// Serves until it is stopped; the address that is printed and opened is that of a report, or of the list.
pub(crate) fn serve(args: &Serve, report: Option<&str>) -> Result<()> {
    let failed = |source| Error::Read { path: "the name of this program".into(), source };
    let machine = machine();
    let server = Server::new(Config {
        store: Store::from_env()?,
        bind: args.bind,
        port: args.port,
        token: !args.no_token,
        machine: machine.clone(),
        worker: worker().map_err(failed)?,
        limits: Limits { upload_bytes: args.max_upload.0, ..Limits::default() },
    })?;
    server.run(|server| {
        let address = server.address(report);
        console::print(|out| writeln!(out, "{address}"))?;
        explain(server, machine.as_deref(), report);
        if !args.no_open && has_screen() {
            show(server, &address);
        }
        Ok(())
    })
}

/// Said last. Who starts it as a process of their own has another way.
pub(crate) const HOW_TO_STOP: &str = "Ctrl-C stops it.";

/// Says how to come here from elsewhere, and how to end it.
fn explain(server: &Server, machine: Option<&str>, report: Option<&str>) {
    let port = server.port();
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok()).filter(|user| !user.is_empty());
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
    let machine = machine.unwrap_or("HOST");
    if server.is_local() {
        let (here, there) = (server.address(report), server.far_address(report));
        let address = if here == there { "the address" } else { &there };
        console::note(&format!(
            "From another machine: run this there, then open {address} there\n  \
             ssh -L {port}:{}:{port} {user}{machine}",
            server.host()
        ));
    } else {
        console::note(
            "Everybody in the network who has the address can read and upload, and it is not encrypted:\n\
             `ttmem serve` without --bind, and `ssh -L`, is safer.",
        );
    }
    console::note(HOW_TO_STOP);
}

/// Whether a browser would be seen: not at the far end of SSH, and not without a screen.
fn has_screen() -> bool {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_far = ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(set);
    let needs_display = cfg!(all(unix, not(target_os = "macos")));
    !is_far && (!needs_display || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(set))
}

/// Shows the list in a browser. It is given a file that leads there: everybody on the machine can see the arguments
/// of a program, and the address has the token in it.
fn show(server: &Server, address: &str) {
    let opened = server.way_in(address).is_ok_and(|file| open::that_detached(file).is_ok());
    if !opened {
        console::note("No browser could be started: open the address in one.");
    }
}

/// What this machine is called.
#[cfg(unix)]
fn machine() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    Some(name).filter(|name| !name.is_empty() && name != "localhost" && name != "(none)")
}

#[cfg(not(unix))]
fn machine() -> Option<String> {
    env::var("COMPUTERNAME").ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1234", 1234),
            ("12b", 12),
            ("500MB", 500_000_000),
            ("500 mb", 500_000_000),
            ("8GiB", 8 << 30),
            ("1kb", 1000),
            ("1KiB", 1024),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for wrong in [
            "",
            "GiB",
            "1.5GiB",
            "-1",
            "8G",
            "8 GiB x",
            "0x10",
            "1_000",
            "18446744073709551616",
            "99999999TiB",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_is_what_the_command_line_says_it_is() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            serve: Serve,
        }

        let parsed = Line::parse_from(["x"]).serve;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", Serve::default()));
    }
}
