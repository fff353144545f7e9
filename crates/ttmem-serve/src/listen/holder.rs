//! Finds the program that listens on a port (Linux only).

use std::fmt;
use std::fs;
use std::path::Path;

/// A program that listens on a port.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A process that may be inspected, usually of the same user.
    Known { name: String, process: u32 },
    /// Another user's process, with the user id.
    Of { user: String },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known { name, process } => write!(f, "{name} (process {process})"),
            Self::Of { user } => write!(f, "a program run by user {user}"),
        }
    }
}

/// The program that listens on a port, if it can be found.
pub(super) fn of(port: u16) -> Option<Holder> {
    let socket = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| listening(&fs::read_to_string(table).ok()?, port))?;
    let known = with_file(&format!("socket:[{}]", socket.inode));
    Some(known.unwrap_or(Holder::Of { user: socket.user }))
}

struct Socket {
    user: String,
    inode: String,
}

/// The row of a socket table that listens on a port.
fn listening(table: &str, port: u16) -> Option<Socket> {
    const LISTENS: &str = "0A";
    let end = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&end) && *fields.get(3)? == LISTENS;
        let socket = Socket { user: (*fields.get(7)?).to_owned(), inode: (*fields.get(9)?).to_owned() };
        is_it.then_some(socket)
    })
}

/// The process that has a file open, among those that may be inspected.
fn with_file(file: &str) -> Option<Holder> {
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    processes.filter(|process| has_open(process, file)).find_map(|process| {
        let number: u32 = process.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(process.join("comm")).ok()?.trim().to_owned();
        Some(Holder::Known { name, process: number })
    })
}

fn has_open(process: &Path, file: &str) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link == Path::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_port_is_known_to_be_ours() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = of(listener.local_addr().unwrap().port()).unwrap();
        assert!(
            matches!(&holder, Holder::Known { process, .. } if *process == std::process::id()),
            "{holder}"
        );
    }

    #[test]
    fn only_the_row_that_listens_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F40 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 11 1\n\
             1: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 12 1\n";
        assert!(listening(table, 8000).is_some_and(|socket| socket.user == "1003" && socket.inode == "12"));
        assert!(listening(table, 8001).is_none());
    }
}
