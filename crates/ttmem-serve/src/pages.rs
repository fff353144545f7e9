//! What people look at: the list, the page of a report, the page that signs in, and the page of a refusal.
//!
//! The list is built from `web/` into one file, as the page of a report is. Its own script and style are told by a number
//! that is new in each answer: whatever else got into the page would not run.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use crate::files::Served;
use crate::random;
use crate::refusal::Refusal;

const LIST: &str = include_str!("../assets/serve.html");
/// What the list has in place of the number.
const NONCE: &str = "ttmem-nonce";

/// The page of a report brings its script and style with it, and loads nothing at all.
const OF_REPORTS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// Small pages have nothing but an empty icon, so that browsers ask for none.
const OF_SMALL_PAGES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const NO_ICON: &str = "<link rel=\"icon\" href=\"data:,\">";

/// Stands behind the page of a report, which knows nothing of lists.
pub(crate) const WAY_BACK: &str = r#"
<style>
  #all-reports { position: fixed; left: 12px; bottom: 12px; z-index: 9; padding: 5px 12px; border-radius: 999px;
    border: 1px solid var(--line, #888); background: var(--card, #fff); color: var(--accent, #06c);
    font: 13px/1.4 var(--sans, sans-serif); text-decoration: none; box-shadow: 0 1px 4px rgb(0 0 0 / 20%); }
  #all-reports:hover { text-decoration: underline; }
  @media print { #all-reports { display: none; } }
</style>
<nav aria-label="Reports"><a id="all-reports" href="/">← All reports</a></nav>
"#;

/// `/`
pub(crate) async fn list() -> Result<Response, Refusal> {
    let nonce = random::secret().map_err(|error| Refusal::failed(&error))?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], Html(LIST.replace(NONCE, &nonce))).into_response())
}

/// The page of a report.
pub(crate) fn report(page: Served, asked: &HeaderMap) -> Response {
    let mut response = page.answer(asked);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, OF_REPORTS);
    response
}

/// The address of a report's page.
pub(crate) fn address_of(report: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let name: String = report.bytes().map(encoded).collect();
    format!("/reports/{name}")
}

/// Leaves the token in a cookie and goes on to the page, which is asked for without it.
pub(crate) fn signed_in(page: &str, cookie: &str) -> Response {
    let body = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>ttmem</title>{NO_ICON}\
         <meta http-equiv=\"refresh\" content=\"0; url={}\">",
        escaped(page)
    );
    let cookie = [(header::SET_COOKIE, format!("{cookie}; Path=/; HttpOnly; SameSite=Strict"))];
    (cookie, [(header::CONTENT_SECURITY_POLICY, OF_SMALL_PAGES)], Html(body)).into_response()
}

/// A refusal for a person, with the headers that it has as JSON.
pub(crate) fn refused(refusal: &Refusal, mut headers: HeaderMap) -> Response {
    let status = refusal.status;
    let title = status.canonical_reason().unwrap_or("Refused");
    let back = if status == StatusCode::NOT_FOUND { "<p><a href=\"/\">All reports</a></p>" } else { "" };
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>{NO_ICON}\
         <h1>{title}</h1><p>{}</p>{back}",
        escaped(&refusal.message)
    );
    for replaced in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        headers.remove::<HeaderName>(replaced);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, OF_SMALL_PAGES);
    (status, headers, Html(body)).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_whatever_the_name() {
        assert_eq!(address_of("vae-decoder_2.x~"), "/reports/vae-decoder_2.x~");
        assert_eq!(address_of("a b/ü?#%\"<"), "/reports/a%20b%2F%C3%BC%3F%23%25%22%3C");
    }

    #[test]
    fn the_list_has_room_for_the_number_and_no_script_without_it() {
        assert!(LIST.matches("<script").count() >= 1);
        for tag in ["<script", "<style"] {
            for found in LIST.split(tag).skip(1) {
                let attributes = found.split('>').next().unwrap();
                assert!(attributes.contains(&format!("nonce=\"{NONCE}\"")), "{tag}{attributes}");
            }
        }
    }
}
