//! The token: without it, a request gets nothing, not even whether something exists.
//!
//! The token is part of the address that `ttmem serve` prints. Opening that address stores it in a cookie and removes
//! it from the address bar, so that it does not end up in shared links or screenshots. Programs send it as
//! `Authorization: Bearer TOKEN`.
//!
//! The cookie is limited to this site (`SameSite=Strict`: no other site can make the browser send it) and hidden from
//! scripts (`HttpOnly`). Such a cookie is not sent on a redirect that began on another site, for example in a web-based
//! terminal. So signing in responds with a page that navigates on its own: then the request comes from this site.
//! Browsers send cookies to all ports of a host, so the cookie's name contains the port to keep two servers apart.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::pages;
use crate::random;
use crate::refusal::Refusal;

/// A 128-bit secret, new for each server.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new() -> io::Result<Self> {
        random::secret().map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token, compared in constant time.
    fn is(&self, given: &str) -> bool {
        let ours = self.0.as_bytes();
        let given = given.as_bytes();
        let differ = ours.iter().zip(given).fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
        given.len() == ours.len() && black_box(differ) == 0
    }
}

/// Rejects requests without the token, and signs in browsers that open a page with the token in its address.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let Some(token) = &app.token else { return Ok(next.run(request).await) };
    let cookie = cookie_name(request.headers());
    if let Some(page) = signing_in(token, &request) {
        return Ok(pages::signed_in(&page, &format!("{cookie}={}", token.as_str())));
    }
    let headers = request.headers();
    if bearer(headers).is_some_and(|given| token.is(given))
        || cookies(headers, &cookie).any(|given| token.is(given))
    {
        return Ok(next.run(request).await);
    }
    Err(Refusal::new(
        StatusCode::UNAUTHORIZED,
        "missing or wrong token; open the address that `ttmem serve` printed, or send its token as \
         `Authorization: Bearer TOKEN`",
    ))
}

/// The page to open, if the request is for a page and has the token in its address.
fn signing_in(token: &Token, request: &Request) -> Option<String> {
    let uri: &Uri = request.uri();
    let is_page = uri.path() == "/" || uri.path().starts_with("/reports/");
    let given = uri.query()?.split('&').find_map(|part| part.strip_prefix("token="))?;
    (is_page && matches!(*request.method(), Method::GET | Method::HEAD) && token.is(given))
        .then(|| uri.path().into())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The cookie's name. It contains the port that the browser uses, which may be a different one at this end of `ssh -L`.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
    let port: String = port.chars().filter(char::is_ascii_digit).collect();
    format!("ttmem-{port}")
}

fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::new().unwrap();
        assert_eq!(token.as_str().len(), 32, "128 bits");
        assert!(token.is(token.as_str()));
        let text = token.as_str().to_owned();
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] ^= 1;
            assert!(!token.is(std::str::from_utf8(&wrong).unwrap()));
            assert!(!token.is(&text[..at]), "a prefix of the token");
        }
        assert!(!token.is(&format!("{text}0")));
        assert!(!token.is(&text.to_uppercase()) || text.bytes().all(|byte| byte.is_ascii_digit()));
        assert_ne!(Token::new().unwrap().as_str(), text);
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=1; ttmem-8000=x;ttmem-80=y".parse().unwrap());
        headers.append(header::COOKIE, "xttmem-8000=z; ttmem-8000=w".parse().unwrap());
        assert_eq!(cookies(&headers, "ttmem-8000").collect::<Vec<_>>(), ["x", "w"]);
        headers.insert(header::HOST, "[::1]:8000".parse().unwrap());
        assert_eq!(cookie_name(&headers), "ttmem-8000");
    }
}
