//! Checks which site sent a request.
//!
//! A browser reports the site of the page that sends a request. API requests from other sites are refused, so that they
//! can neither upload logs nor keep the machine busy, even without a token. Programs send no such header and pass.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::refusal::Refusal;

/// Rejects API requests from other sites. Pages may be linked to from anywhere.
pub(crate) async fn check(request: Request, next: Next) -> Result<Response, Refusal> {
    if request.uri().path().starts_with("/api") && is_foreign(request.headers()) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "requests from other sites are not allowed"));
    }
    Ok(next.run(request).await)
}

fn is_foreign(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(header::HeaderValue::as_bytes).unwrap_or_default();
    let is_ours =
        |origin: &[u8]| origin.strip_prefix(b"http://").is_some_and(|it| it.eq_ignore_ascii_case(host));
    let foreign_origin =
        headers.get_all(header::ORIGIN).into_iter().any(|origin| !is_ours(origin.as_bytes()));
    let site = headers.get("sec-fetch-site").map(header::HeaderValue::as_bytes);
    foreign_origin || site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(pairs: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:8000".parse().unwrap());
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        is_foreign(&headers)
    }

    #[test]
    fn the_same_scheme_host_and_port_is_ours() {
        assert!(!foreign(&[]));
        assert!(!foreign(&[("origin", "http://localhost:8000")]));
        assert!(!foreign(&[("origin", "http://LOCALHOST:8000"), ("sec-fetch-site", "same-origin")]));
        assert!(!foreign(&[("sec-fetch-site", "none")]));
        for origin in [
            "http://localhost:8001",
            "http://localhost",
            "https://localhost:8000",
            "http://evil.example",
            "null",
            "",
        ] {
            assert!(foreign(&[("origin", origin)]), "{origin}");
        }
        assert!(foreign(&[("origin", "http://localhost:8000"), ("origin", "http://evil.example")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site")]));
        assert!(foreign(&[("sec-fetch-site", "same-site")]));
    }
}
