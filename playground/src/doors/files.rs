//! Bytes of files: up, down with a token, and down for people.

use super::slack::faulty;
use super::{read, refuse};
use crate::access::TokenKind;
use crate::api::args::bearer;
use crate::api::files::sees;
use crate::api::multipart;
use crate::shared::Shared;
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

/// What Slack shows to whoever brings no good token: a page, and no error.
const SIGN_IN: &str = "<!doctype html><html lang=\"en\"><head><title>Sign in</title></head>\
    <body><h1>Sign in to the workspace</h1></body></html>";

/// The second step of an upload: the bytes, plain or in a form.
pub(super) async fn upload(
    shared: &Arc<Shared>,
    id: &str,
    ticket: &str,
    parts: &Parts,
    body: Body,
) -> Response {
    if parts.method != Method::POST && parts.method != Method::PUT {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "POST the bytes");
    }
    let body = match read(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let bytes = if kind.starts_with("multipart/form-data") {
        let found = multipart::parts(kind, &body).ok().and_then(|parts| {
            let file = parts.iter().find(|part| part.filename.is_some());
            file.or(parts.first())
                .map(|part| Bytes::copy_from_slice(part.bytes))
        });
        match found {
            Some(bytes) => bytes,
            None => return refuse(StatusCode::BAD_REQUEST, "no file in the form"),
        }
    } else {
        body
    };
    let args = [
        ("file".to_owned(), Value::from(id)),
        ("length".to_owned(), Value::from(bytes.len())),
    ];
    let number = shared.change(|workspace| workspace.log_call("upload", args.into()));
    faulty(shared, "upload", number, || {
        let length = bytes.len();
        match shared.change(|workspace| workspace.upload(id, ticket, bytes)) {
            Ok(()) => (format!("OK - {length}").into_response(), "ok".to_owned()),
            Err(why) => (refuse(StatusCode::BAD_REQUEST, why), why.to_owned()),
        }
    })
    .await
}

/// A file for the app. Without a token that may, there is a page to sign in.
pub(super) async fn download(shared: &Arc<Shared>, id: &str, parts: &Parts) -> Response {
    let args = [("file".to_owned(), Value::from(id))];
    let number = shared.change(|workspace| workspace.log_call("download", args.into()));
    let token = bearer(&parts.headers);
    faulty(shared, "download", number, || {
        let found = shared.look(|workspace| wanted(workspace, id, token.as_deref()));
        match found {
            Some((bytes, mimetype)) => {
                let headers = [
                    (CONTENT_TYPE, mimetype),
                    (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
                ];
                ((headers, bytes).into_response(), "ok".to_owned())
            }
            None => {
                let headers = [(CONTENT_TYPE, "text/html; charset=utf-8")];
                ((headers, SIGN_IN).into_response(), "sign in".to_owned())
            }
        }
    })
    .await
}

fn wanted(workspace: &Workspace, id: &str, token: Option<&str>) -> Option<(Bytes, String)> {
    let caller = workspace
        .tokens
        .caller(token, workspace.clock.unix())
        .ok()?;
    if caller.kind != TokenKind::Bot || caller.need("files:read").is_err() {
        return None;
    }
    let id = id.strip_prefix(&format!("{}-", workspace.team))?;
    let file = workspace.file(id).filter(|file| sees(workspace, file))?;
    Some((file.bytes.clone()?, file.mimetype.clone()))
}

/// A file for the page. It is never shown in place, whatever is in it.
pub(super) fn for_people(shared: &Shared, id: &str) -> Response {
    let found = shared.look(|workspace| {
        let file = workspace.file(id)?;
        Some((file.bytes.clone(), file.name.clone(), file.is_dropped))
    });
    let (bytes, name) = match found {
        Some((Some(bytes), name, _)) => (bytes, name),
        Some((None, _, true)) => {
            let why = "the file was dropped to make room for newer ones";
            return refuse(StatusCode::GONE, why);
        }
        Some((None, _, false)) | None => return refuse(StatusCode::NOT_FOUND, "no such file"),
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
