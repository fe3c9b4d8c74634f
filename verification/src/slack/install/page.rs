//! Result page of an installation: no scripts, no external resources.

use axum::response::Response;
use http::header::ACCEPT_LANGUAGE;
use http::{HeaderMap, StatusCode};
use interzone_edge::html::{Html, PageShell, html};

const STYLE: &str = "body{font:1rem/1.6 system-ui,sans-serif;max-width:32rem;margin:3rem auto;\
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.4rem}strong{overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}}";

/// Outcome of an installation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InstallOutcome {
    /// Succeeded.
    Installed {
        /// Name of the workspace.
        team: String,
    },
    /// The user denied the installation.
    Denied,
    /// The state is missing, invalid or expired.
    InvalidState,
    /// Slack rejected the code.
    Refused,
    /// Temporary failure.
    Busy,
    /// The token cannot be stored.
    NotStored,
}

/// Language of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageLanguage {
    Ja,
    En,
}

impl PageLanguage {
    /// Returns the first supported language of `Accept-Language`.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let header = headers.get(ACCEPT_LANGUAGE);
        let header = header.and_then(|value| value.to_str().ok());
        let mut tags = header.unwrap_or_default().split(',').map(str::trim);
        let language = tags.find_map(|tag| match tag.get(..2) {
            Some(start) if start.eq_ignore_ascii_case("ja") => Some(Self::Ja),
            Some(start) if start.eq_ignore_ascii_case("en") => Some(Self::En),
            _ => None,
        });
        language.unwrap_or(Self::En)
    }
}

/// Renders the page.
pub(super) fn render_page(outcome: &InstallOutcome, language: PageLanguage) -> Response {
    let (status, title, text) = page_texts(outcome, language);
    let (language, workspace_label) = match language {
        PageLanguage::Ja => ("ja", "ワークスペース: "),
        PageLanguage::En => ("en", "Workspace: "),
    };
    let mut body = Html::new();
    html!(body, "<main><h1>" (title) "</h1>");
    if let InstallOutcome::Installed { team } = outcome
        && !team.is_empty()
    {
        html!(body, "<p>" (workspace_label) "<strong>" (team) "</strong></p>");
    }
    html!(body, "<p>" (text) "</p></main>");
    let shell = PageShell {
        language,
        inline_style: Some(STYLE),
        ..PageShell::new(title)
    };
    shell.response(status, &body)
}

fn page_texts(
    outcome: &InstallOutcome,
    language: PageLanguage,
) -> (StatusCode, &'static str, &'static str) {
    let (status, ja, en) = match outcome {
        InstallOutcome::Installed { .. } => (
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
        InstallOutcome::Denied => (
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
        InstallOutcome::InvalidState => (
            StatusCode::BAD_REQUEST,
            (
                "このリンクは使えません",
                "有効期限が切れたか、別のブラウザで始められたものです。同じブラウザで /slack/install を開いてやり直してください。",
            ),
            (
                "This link cannot be used",
                "The link has expired, or was opened in another browser. Open /slack/install again in this one.",
            ),
        ),
        InstallOutcome::Refused => (
            StatusCode::BAD_GATEWAY,
            (
                "Slack がインストールを受け付けませんでした",
                "もう一度 /slack/install を開いてください。同じ結果になる場合は管理者に連絡してください。",
            ),
            (
                "Slack did not complete the installation",
                "Open /slack/install again. If that does not help, contact the administrator.",
            ),
        ),
        InstallOutcome::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            (
                "ただいま処理できません",
                "しばらくしてから、もう一度 /slack/install を開いてください。",
            ),
            (
                "The request cannot be processed right now",
                "Wait a moment, then open /slack/install again.",
            ),
        ),
        InstallOutcome::NotStored => (
            StatusCode::INTERNAL_SERVER_ERROR,
            (
                "インストール情報を保存できませんでした",
                "管理者に連絡してください。",
            ),
            (
                "The installation could not be stored",
                "Contact the administrator.",
            ),
        ),
    };
    let (title, text) = match language {
        PageLanguage::Ja => ja,
        PageLanguage::En => en,
    };
    (status, title, text)
}
