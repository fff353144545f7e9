//! The HTML responses: the list, report pages, the sign-in page, and error pages.
//!
//! The list is built from `web/` into one file, like a report's page. Its script and style carry a nonce that is new in
//! each response, so that injected scripts do not run.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use crate::files::Served;
use crate::random;
use crate::refusal::Refusal;

const LIST: &str = include_str!("../assets/serve.html");
/// The placeholder for the nonce in the list.
const NONCE: &str = "ttmem-nonce";

/// A report's page contains its script and style, and loads nothing.
const OF_REPORTS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// Small pages only have an empty icon, so that browsers do not request one.
const OF_SMALL_PAGES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const NO_ICON: &str = "<link rel=\"icon\" href=\"data:,\">";

/// Appended to a report's page, which does not know about the list.
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

/// A report's page.
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

/// Sets the token's cookie and continues to the page without the token in its address.
pub(crate) fn signed_in(page: &str, cookie: &str) -> Response {
    let body = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>ttmem</title>{NO_ICON}\
         <meta http-equiv=\"refresh\" content=\"0; url={}\">",
        escaped(page)
    );
    let cookie = [(header::SET_COOKIE, format!("{cookie}; Path=/; HttpOnly; SameSite=Strict"))];
    (cookie, [(header::CONTENT_SECURITY_POLICY, OF_SMALL_PAGES)], Html(body)).into_response()
}

/// What a person does who opens the address without its token.
const HOW_TO_SIGN_IN: &str = "Open the complete address that <code>ttmem serve</code> printed in the terminal. It ends \
     with <code>?token=…</code>. If the terminal is gone, stop the server and start it again: it prints a new address.";

/// A refusal as a page, with the headers of the JSON response.
pub(crate) fn refused(refusal: &Refusal, mut headers: HeaderMap) -> Response {
    let status = refusal.status;
    let (title, text, back) = match status {
        StatusCode::UNAUTHORIZED => ("This server needs its token", HOW_TO_SIGN_IN.to_owned(), ""),
        StatusCode::NOT_FOUND => {
            ("Not Found", escaped(&refusal.message), "<p><a href=\"/\">All reports</a></p>")
        }
        _ => (status.canonical_reason().unwrap_or("Refused"), escaped(&refusal.message), ""),
    };
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>{NO_ICON}\
         <h1>{title}</h1><p>{text}</p>{back}"
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
