//! Checks the `Host` header.
//!
//! Another site can point its own name at this machine (DNS rebinding); its scripts could then talk to this server as
//! if it were theirs. The browser still sends the other site's name in `Host`, so requests with a foreign name are refused,
//! whatever else they contain. Any port is accepted: `ssh -L` may use a different port at its other end.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::refusal::Refusal;

/// The names and addresses of this server.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    bound: IpAddr,
    /// The machine's name. Empty on loopback.
    names: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(bound: IpAddr, machine: Option<&str>) -> Self {
        let machine = machine.filter(|_| !bound.is_loopback()).unwrap_or_default().to_ascii_lowercase();
        let short = machine.split('.').next().unwrap_or_default().to_owned();
        let names = if machine.is_empty() { Vec::new() } else { vec![machine, short] };
        Self { bound, names }
    }

    fn has(&self, authority: &Authority) -> bool {
        // `user@host` has no legitimate use here.
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address.map(|address| address.to_canonical()) {
            // A literal address cannot be rebound.
            Ok(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            Err(_) => host == "localhost" || self.names.contains(&host),
        }
    }
}

/// Rejects requests for another host.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let Some(named) = named(request.headers()) else {
        return Err(Refusal::bad_request("expected exactly one valid `Host` header"));
    };
    let others = request.uri().authority();
    if !app.hosts.has(&named) || others.is_some_and(|other| !app.hosts.has(other)) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host name; use the address that `ttmem serve` printed",
        ));
    }
    Ok(next.run(request).await)
}

/// The host of a request, if there is exactly one.
fn named(headers: &HeaderMap) -> Option<Authority> {
    let mut all = headers.get_all(header::HOST).into_iter();
    let host = all.next()?.to_str().ok()?.parse().ok()?;
    all.next().is_none().then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(hosts: &Hosts, host: &str) -> bool {
        host.parse().is_ok_and(|authority| hosts.has(&authority))
    }

    #[test]
    fn on_loopback_only_loopback_is_meant() {
        let hosts = Hosts::new([127, 0, 0, 1].into(), Some("box.example"));
        for own in [
            "localhost",
            "localhost:8000",
            "LOCALHOST:1",
            "localhost.:80",
            "127.0.0.1:9",
            "[::1]:8000",
            "127.9.9.9",
        ] {
            assert!(allows(&hosts, own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xlocalhost",
            "box.example",
            "box",
            "10.0.0.1",
            "0.0.0.0:8000",
            "[::2]:8000",
            "localhost@evil.example",
            "evil@localhost",
            "2130706433",
            "",
        ] {
            assert!(!allows(&hosts, foreign), "{foreign}");
        }
    }

    #[test]
    fn elsewhere_the_address_and_the_machine_are_meant_too() {
        let hosts = Hosts::new([10, 0, 0, 7].into(), Some("Box.Example"));
        for own in ["10.0.0.7:8000", "box.example:8000", "BOX:8000", "localhost:8000"] {
            assert!(allows(&hosts, own), "{own}");
        }
        for foreign in ["10.0.0.8", "box.evil.example", "example", "evil.example"] {
            assert!(!allows(&hosts, foreign), "{foreign}");
        }
        let everywhere = Hosts::new([0, 0, 0, 0].into(), None);
        assert!(allows(&everywhere, "10.0.0.8:8000") && allows(&everywhere, "[fe80::1]:8000"));
        assert!(!allows(&everywhere, "evil.example"));
    }
}
