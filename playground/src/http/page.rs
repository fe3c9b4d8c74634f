//! Files of the chat page, embedded in the program.

use super::error_response;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use interzone_edge::html::set_security_headers;

/// Content security policy: no external or inline content. Images are shown from blobs, so that no upload
/// has a URL at which it could be opened as a page.
const CONTENT_POLICY: &str = "script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; \
    form-action 'none'";

pub(super) fn page_file(path: &str) -> Response {
    let (content_type, text) = match path {
        "/" => ("text/html", include_str!("../page/playground.html")),
        "/playground.css" => ("text/css", include_str!("../page/playground.css")),
        "/composer.js" => ("text/javascript", include_str!("../page/composer.js")),
        "/icons.js" => ("text/javascript", include_str!("../page/icons.js")),
        "/layout.js" => ("text/javascript", include_str!("../page/layout.js")),
        "/markdown.js" => ("text/javascript", include_str!("../page/markdown.js")),
        "/message.js" => ("text/javascript", include_str!("../page/message.js")),
        "/playground.js" => ("text/javascript", include_str!("../page/playground.js")),
        // Browsers request the second for responses that are not the page, such as errors.
        "/icon.svg" | "/favicon.ico" => ("image/svg+xml", include_str!("../page/icon.svg")),
        "/preview.js" => ("text/javascript", include_str!("../page/preview.js")),
        "/scan.js" => ("text/javascript", include_str!("../page/scan.js")),
        "/state.js" => ("text/javascript", include_str!("../page/state.js")),
        "/texts.js" => ("text/javascript", include_str!("../page/texts.js")),
        "/theme.js" => ("text/javascript", include_str!("../page/theme.js")),
        "/welcome.js" => ("text/javascript", include_str!("../page/welcome.js")),
        _ => return error_response(StatusCode::NOT_FOUND, "not found"),
    };
    let headers = [
        (CONTENT_TYPE, format!("{content_type}; charset=utf-8")),
        (CACHE_CONTROL, "no-cache".to_owned()),
    ];
    let mut response = (headers, text).into_response();
    set_security_headers(response.headers_mut(), CONTENT_POLICY, "no-referrer");
    response
}
