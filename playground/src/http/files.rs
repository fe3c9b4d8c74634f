//! File uploads, downloads with a token, and downloads for the page.

use super::slack::with_faults;
use super::{error_response, read_body};
use crate::api::args::bearer_token;
use crate::api::files::can_see;
use crate::api::multipart;
use crate::state::PlaygroundState;
use crate::tokens::TokenKind;
use crate::workspace::Workspace;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// Slack's response without a valid token: a sign-in page with status 200.
const SIGN_IN_PAGE: &str = "<!doctype html><html lang=\"en\"><head><title>Sign in</title></head>\
    <body><h1>Sign in to the workspace</h1></body></html>";

/// Second step of an upload: the bytes, plain or in a form.
pub(super) async fn upload(
    shared: &Arc<PlaygroundState>,
    id: &str,
    ticket: &str,
    parts: &Parts,
    body: Body,
) -> Response {
    if parts.method != Method::POST && parts.method != Method::PUT {
        return error_response(StatusCode::METHOD_NOT_ALLOWED, "POST the bytes");
    }
    let body = match read_body(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let content_type = parts.headers.get(CONTENT_TYPE);
    let content_type = content_type
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let bytes = if content_type.starts_with("multipart/form-data") {
        let found = multipart::parse_parts(content_type, &body)
            .ok()
            .and_then(|parts| {
                let file = parts.iter().find(|part| part.filename.is_some());
                file.or(parts.first())
                    .map(|part| Bytes::copy_from_slice(part.bytes))
            });
        match found {
            Some(bytes) => bytes,
            None => return error_response(StatusCode::BAD_REQUEST, "no file in the form"),
        }
    } else {
        body
    };
    let args = [
        ("file".to_owned(), Value::from(id)),
        ("length".to_owned(), Value::from(bytes.len())),
    ];
    let number = shared.change(|workspace| workspace.log_call("upload", args.into()));
    with_faults(shared, "upload", number, || {
        let length = bytes.len();
        match shared.change(|workspace| workspace.upload(id, ticket, bytes)) {
            Ok(()) => (format!("OK - {length}").into_response(), "ok".to_owned()),
            Err(reason) => (
                error_response(StatusCode::BAD_REQUEST, reason),
                reason.to_owned(),
            ),
        }
    })
    .await
}

/// Downloads a file for the app; without a permitted token, returns the sign-in page.
pub(super) async fn download(shared: &Arc<PlaygroundState>, id: &str, parts: &Parts) -> Response {
    let args = [("file".to_owned(), Value::from(id))];
    let number = shared.change(|workspace| workspace.log_call("download", args.into()));
    let token = bearer_token(&parts.headers);
    with_faults(shared, "download", number, || {
        let file = shared.inspect(|workspace| readable_file(workspace, id, token.as_deref()));
        match file {
            Some((bytes, mimetype)) => {
                let headers = [
                    (CONTENT_TYPE, mimetype),
                    (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
                ];
                ((headers, bytes).into_response(), "ok".to_owned())
            }
            None => {
                let headers = [(CONTENT_TYPE, "text/html; charset=utf-8")];
                (
                    (headers, SIGN_IN_PAGE).into_response(),
                    "sign in".to_owned(),
                )
            }
        }
    })
    .await
}

fn readable_file(workspace: &Workspace, id: &str, token: Option<&str>) -> Option<(Bytes, String)> {
    let caller = workspace
        .tokens
        .authenticate_token(token, workspace.clock.unix())
        .ok()?;
    if caller.kind != TokenKind::Bot || caller.require_scope("files:read").is_err() {
        return None;
    }
    let id = id.strip_prefix(&format!("{}-", workspace.team))?;
    let file = workspace.file(id).filter(|file| can_see(workspace, file))?;
    Some((file.bytes.clone()?, file.mimetype.clone()))
}

/// Downloads a file for the page, always as an attachment.
pub(super) fn page_download(shared: &PlaygroundState, id: &str) -> Response {
    let found = shared.inspect(|workspace| {
        let file = workspace.file(id)?;
        Some((file.bytes.clone(), file.name.clone(), file.is_dropped))
    });
    let (bytes, name) = match found {
        Some((Some(bytes), name, _)) => (bytes, name),
        Some((None, _, true)) => {
            let reason = "the file was dropped to make space for newer ones";
            return error_response(StatusCode::GONE, reason);
        }
        Some((None, _, false)) | None => {
            return error_response(StatusCode::NOT_FOUND, "no such file");
        }
    };
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; sandbox".to_owned(),
        ),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename*=UTF-8''{encoded}"),
        ),
    ];
    (headers, bytes).into_response()
}
