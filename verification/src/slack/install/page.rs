//! What a person sees who installed the app, or did not. The page works without scripts, loads nothing,
//! and shows nothing that was not escaped.

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

const STYLE: &str = "body{font:1rem/1.6 system-ui,sans-serif;max-width:32rem;margin:3rem auto;\
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.4rem}strong{overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}}";

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done.
    Installed {
        /// What the workspace is called.
        team: String,
    },
    /// The person did not want to.
    Denied,
    /// The person did not come by our door, or too long ago.
    Strange,
    /// Slack did not want to.
    Refused,
    /// It did not work now.
    Busy,
    /// There is nowhere to store it.
    NotStored,
}

/// In what language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Ja,
    En,
}

impl Language {
    /// What the browser would rather read: the first of its list that we have.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let said = headers.get(ACCEPT_LANGUAGE);
        let said = said.and_then(|value| value.to_str().ok());
        let mut wanted = said.unwrap_or_default().split(',').map(str::trim);
        let known = wanted.find_map(|tag| match tag.get(..2) {
            Some(start) if start.eq_ignore_ascii_case("ja") => Some(Self::Ja),
            Some(start) if start.eq_ignore_ascii_case("en") => Some(Self::En),
            _ => None,
        });
        known.unwrap_or(Self::En)
    }
}

/// The page.
pub(super) fn page(outcome: &Outcome, language: Language) -> Response {
    let (status, title, text) = words(outcome, language);
    let (lang, named) = match language {
        Language::Ja => ("ja", "ワークスペース: "),
        Language::En => ("en", "Workspace: "),
    };
    let mut body = format!("<h1>{title}</h1>");
    if let Outcome::Installed { team } = outcome
        && !team.is_empty()
    {
        let _ = write!(body, "<p>{named}<strong>{}</strong></p>", Escaped(team));
    }
    let page = format!(
        "<!doctype html><html lang=\"{lang}\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>{STYLE}</style></head><body><main>{body}<p>{text}</p></main></body></html>"
    );
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'none'; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (X_FRAME_OPTIONS, "DENY".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // The address holds a code.
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (status, headers, page).into_response()
}

fn words(outcome: &Outcome, language: Language) -> (StatusCode, &'static str, &'static str) {
    let (status, ja, en) = match outcome {
        Outcome::Installed { .. } => (
            StatusCode::OK,
            (
                "インストールが完了しました",
                "このページは閉じて構いません。Slack でアプリにメンションするか、ダイレクトメッセージを送ってください。",
            ),
            (
                "The app is installed",
                "You can close this page. Mention the app in Slack, or send it a direct message.",
            ),
        ),
        Outcome::Denied => (
            StatusCode::FORBIDDEN,
            (
                "インストールは行われませんでした",
                "Slack で許可されませんでした。必要であれば、もう一度 /slack/install を開いてください。",
            ),
            (
                "The app was not installed",
                "It was not allowed in Slack. If you change your mind, open /slack/install again.",
            ),
        ),
        Outcome::Strange => (
            StatusCode::BAD_REQUEST,
            (
                "このリンクは使えません",
                "有効期限が切れたか、別のブラウザで始められたものです。同じブラウザで /slack/install を開いてやり直してください。",
            ),
            (
                "This link cannot be used",
                "It is too old, or was begun in another browser. Open /slack/install again in this one.",
            ),
        ),
        Outcome::Refused => (
            StatusCode::BAD_GATEWAY,
            (
                "Slack がインストールを受け付けませんでした",
                "もう一度 /slack/install を開いてください。同じ結果になる場合は管理者に連絡してください。",
            ),
            (
                "Slack did not complete the installation",
                "Open /slack/install again. If it does not help, tell the administrator.",
            ),
        ),
        Outcome::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            (
                "ただいま処理できません",
                "しばらくしてから、もう一度 /slack/install を開いてください。",
            ),
            (
                "This does not work at the moment",
                "Wait a little, and open /slack/install again.",
            ),
        ),
        Outcome::NotStored => (
            StatusCode::INTERNAL_SERVER_ERROR,
            (
                "インストール情報を保存できませんでした",
                "管理者に連絡してください。",
            ),
            (
                "The installation could not be stored",
                "Tell the administrator.",
            ),
        ),
    };
    let (title, text) = match language {
        Language::Ja => ja,
        Language::En => en,
    };
    (status, title, text)
}

/// Text in a page, whatever it says.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
