//! Security headers of every response: no framing, no content sniffing, no loading from other sites, no embedding, and
//! no caching unless the response allows it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::pages;
use crate::refusal::Refusal;

const ALWAYS: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

/// Defaults that a response may override.
const OTHERWISE: [(HeaderName, HeaderValue); 2] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Adds the headers. For a browser that asks for a page, turns a refusal into a page.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let person = !request.uri().path().starts_with("/api") && wants_page(request.headers());
    let mut response = next.run(request).await;
    if person && let Some(refusal) = response.extensions().get::<Refusal>() {
        response = pages::refused(&refusal.clone(), response.headers().clone());
    }
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, value);
    }
    for (name, value) in OTHERWISE {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}
