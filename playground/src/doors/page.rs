//! The chat page: a few files that are part of the program and ask nobody else for anything.

use super::refuse;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// Nothing from elsewhere, nothing inline, nobody around it. Pictures in files are shown from memory, so that
/// nothing that a person uploaded has an address of its own from which it could be opened as a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' blob:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

pub(super) fn file(path: &str) -> Response {
    let (kind, text) = match path {
        "/" => ("text/html", include_str!("../page/playground.html")),
        "/playground.css" => ("text/css", include_str!("../page/playground.css")),
        "/compose.js" => ("text/javascript", include_str!("../page/compose.js")),
        "/draw.js" => ("text/javascript", include_str!("../page/draw.js")),
        "/frame.js" => ("text/javascript", include_str!("../page/frame.js")),
        "/icons.js" => ("text/javascript", include_str!("../page/icons.js")),
        "/playground.js" => ("text/javascript", include_str!("../page/playground.js")),
        // Browsers ask for the second where what they show is no page of ours, a refusal for one.
        "/icon.svg" | "/favicon.ico" => ("image/svg+xml", include_str!("../page/icon.svg")),
        "/preview.js" => ("text/javascript", include_str!("../page/preview.js")),
        "/scan.js" => ("text/javascript", include_str!("../page/scan.js")),
        "/state.js" => ("text/javascript", include_str!("../page/state.js")),
        "/theme.js" => ("text/javascript", include_str!("../page/theme.js")),
        "/welcome.js" => ("text/javascript", include_str!("../page/welcome.js")),
        "/words.js" => ("text/javascript", include_str!("../page/words.js")),
        "/markdown.js" => ("text/javascript", include_str!("../page/markdown.js")),
        _ => return refuse(StatusCode::NOT_FOUND, "there is nothing here"),
    };
    let headers = [
        (CONTENT_TYPE, format!("{kind}; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, text).into_response()
}
