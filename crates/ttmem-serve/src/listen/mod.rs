//! The addresses and the port that the server listens on.
//!
//! `localhost` resolves to two addresses, 127.0.0.1 and ::1, and a client may use either, even through `ssh -L`. If the
//! server held only one, another user of the machine could take the other and receive the token. So a server on
//! loopback takes both addresses, or tries the next port.

mod holder;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use ttmem::{Error, Result};

/// The first port to try.
const FIRST: u16 = 8000;

/// Listens on `port`; without one, on the first free port, 8000 or higher; with 0, on any free port.
pub(crate) fn listen(bind: IpAddr, port: Option<u16>) -> Result<Vec<TcpListener>> {
    match port {
        Some(port) => {
            let failed = |error: io::Error| refused(bind, port, &error);
            if port == 0 { on_any(bind).map_err(failed) } else { on(bind, port).map_err(failed) }
        }
        None => on_first(bind),
    }
}

fn on_first(bind: IpAddr) -> Result<Vec<TcpListener>> {
    for port in FIRST..=u16::MAX {
        match on(bind, port) {
            Ok(listeners) => return Ok(listeners),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(refused(bind, port, &error)),
        }
    }
    Err(Error::NotFound(format!("{bind}: no free port at {FIRST} or above; pass one with --port")))
}

/// Lets the system choose a port for one address, and retries if it is taken on the other.
fn on_any(bind: IpAddr) -> io::Result<Vec<TcpListener>> {
    const TRIES: usize = 100;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let port = TcpListener::bind((bind, 0))?.local_addr()?.port();
        match on(bind, port) {
            Ok(listeners) => return Ok(listeners),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn on(bind: IpAddr, port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = vec![TcpListener::bind((bind, port))?];
    match twin(bind).map(|twin| TcpListener::bind((twin, port))) {
        Some(Ok(listener)) => listeners.push(listener),
        Some(Err(error)) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        // This machine does not have the other address.
        Some(Err(_)) | None => {}
    }
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    Ok(listeners)
}

/// The other address of `localhost`.
fn twin(bind: IpAddr) -> Option<IpAddr> {
    match bind {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Some(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(Ipv4Addr::LOCALHOST.into()),
        _ => None,
    }
}

fn refused(bind: IpAddr, port: u16, error: &io::Error) -> Error {
    let address = SocketAddr::from((bind, port));
    let message = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder =
                holder::of(port).map_or_else(|| "another program".to_owned(), |holder| holder.to_string());
            format!("port {port} is in use by {holder}; stop it, choose another with --port, or omit --port")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine does not have that address")
        }
        io::ErrorKind::PermissionDenied => {
            format!("cannot listen on {address}: {error}; use port 1024 or higher")
        }
        _ => format!("cannot listen on {address}: {error}"),
    };
    Error::NotFound(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_port_that_is_taken_on_either_address_is_taken() {
        for other in [LOOPBACK, Ipv6Addr::LOCALHOST.into()] {
            let Ok(taken) = TcpListener::bind((other, 0)) else { continue };
            let port = taken.local_addr().unwrap().port();
            let error = listen(LOOPBACK, Some(port)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with(&format!("port {port} is in use by ")), "{error}");
        }
    }

    #[test]
    fn without_a_port_the_first_free_one_is_taken() {
        let first = listen(LOOPBACK, None).unwrap();
        let second = listen(LOOPBACK, None).unwrap();
        let port = |listeners: &[TcpListener]| listeners[0].local_addr().unwrap().port();
        assert!(port(&first) >= FIRST && port(&second) > port(&first));
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let error = listen([192, 0, 2, 1].into(), Some(8000)).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1:8000"), "{error}");
    }
}
