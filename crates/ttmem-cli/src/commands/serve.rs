//! `ttmem serve`: serves stored reports to a browser, with log upload.

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
  ttmem serve                              serve locally and print the address
  ttmem serve --port 9000 --no-open        use port 9000; do not open a browser
  ttmem serve --max-upload 500MB           reject larger uploads

Over SSH: run `ttmem serve` on the remote machine, run the printed `ssh -L` command on your machine,
and open the printed address there. For the HTTP API, see docs/http.md.";

/// The hidden option that starts a worker.
const WORKER: &str = "--worker";

/// `ttmem serve`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Listen on this port [default: the first free port, 8000 or higher].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Listen on this address; any address but loopback requires the token.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: IpAddr,

    /// Do not open a browser.
    #[arg(long)]
    pub no_open: bool,

    /// Do not require a token (loopback only): every user of this machine can read and upload.
    #[arg(long)]
    pub no_token: bool,

    /// Limit the size of uploads: bytes, or a number with a unit (500MB, 8GiB).
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub max_upload: Size,

    /// Run one task for a server, which sends it on standard input.
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// The defaults of the options.
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
            return Err("expected a whole number of bytes, or one with a unit (500MB, 8GiB)".into());
        };
        let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
        bytes.map(Self).ok_or_else(|| "the size is too large".into())
    }
}

/// Serves until stopped.
pub(crate) fn run(args: &Serve) -> Result<()> {
    if args.worker {
        ttmem_serve::work();
        return Ok(());
    }
    serve(args, None)
}

/// This program as the server's worker process. It returns freed memory to the system at once, which costs a little
/// time and saves a quarter of the memory.
fn worker() -> io::Result<Worker> {
    let (program, before) = again::program()?;
    let arguments = before.iter().cloned().chain(["serve", WORKER].map(OsString::from));
    Ok(Worker::new(program, arguments).with("MIMALLOC_PURGE_DELAY", "0"))
}

/// Serves until stopped. Prints and opens the address of a report, or of the list.
pub(crate) fn serve(args: &Serve, report: Option<&str>) -> Result<()> {
    let failed = |source| Error::Read { path: "the path of this program".into(), source };
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

/// The last line printed. The interactive screens skip it, because they stop the server with another key.
pub(crate) const HOW_TO_STOP: &str = "Press Ctrl-C to stop.";

/// Prints how to connect from another machine, and how to stop the server.
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
            "From another machine, run this command there and open {address} in its browser:\n  \
             ssh -L {port}:{}:{port} {user}{machine}",
            server.host()
        ));
    } else {
        console::note(
            "Anyone on the network with the address can read and upload, and the connection is not encrypted.\n\
             `ttmem serve` without --bind, with `ssh -L`, is safer.",
        );
    }
    console::note(HOW_TO_STOP);
}

/// Whether a browser window would be visible: not over SSH, and not without a display.
fn has_screen() -> bool {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_far = ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(set);
    let needs_display = cfg!(all(unix, not(target_os = "macos")));
    !is_far && (!needs_display || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(set))
}

/// Opens the address in a browser, through a file that redirects there: every user of the machine can see a program's
/// arguments, and the address contains the token.
fn show(server: &Server, address: &str) {
    let opened = server.way_in(address).is_ok_and(|file| open::that_detached(file).is_ok());
    if !opened {
        console::note("Cannot start a browser; open the address in one.");
    }
}

/// The host name of this machine.
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
    fn the_default_is_that_of_the_command_line() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            serve: Serve,
        }

        let parsed = Line::parse_from(["x"]).serve;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", Serve::default()));
    }
}
