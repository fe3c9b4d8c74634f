//! Operator console: web pages that show the zone's state, with a few actions.
//!
//! Pages are rendered here from data of the hub and its store; they contain no task rules and no SQL.
//! User content is always escaped and shown only to users with [`CONTENT_SCOPE`].

mod auth_middleware;
mod client_names;
mod code_flow;
mod files;
mod format;
mod issuer_discovery;
mod layout;
mod live;
mod metrics_history;
mod pages;
mod plots;
mod session;
mod sign_in;
mod viewer_slots;

pub use code_flow::{SignIn, SignInIssuer};
pub use issuer_discovery::IssuerDiscovery;

use crate::http::OPERATE_SCOPE;
use crate::state::ExecutionState;
use axum::Router;
use axum::routing::{get, post};
use client_names::ClientNames;
use interzone_edge::telemetry;
use interzone_issuer::{GrantType, NewOAuthClient, OAuthClients};
use live::LiveUpdates;
use metrics_history::MetricsHistory;
use session::ConsoleSessions;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Scope that shows message content and files, in addition to [`OPERATE_SCOPE`].
pub const CONTENT_SCOPE: &str = "interzone:content";
/// Scope that allows to cancel tasks and replay dead letters, in addition to [`OPERATE_SCOPE`].
pub const CHANGE_SCOPE: &str = "interzone:change";

/// Client id of the console at the built-in issuer.
const CLIENT_ID: &str = "interzone-console";
/// Path of the OAuth redirect URI.
const CALLBACK_PATH: &str = "/console/callback";

/// Console settings.
#[derive(Default)]
pub struct ConsoleOptions {
    /// Sign-in through an issuer. If unset, a [link](Console::one_time_link) is the only way to sign in.
    pub sign_in: Option<SignIn>,
    /// Clients of the built-in issuer, to show their names.
    pub clients: Option<OAuthClients>,
}

/// The operator console of a zone.
pub struct Console {
    zone: Arc<ExecutionState>,
    sign_in: Option<SignIn>,
    sessions: ConsoleSessions,
    names: ClientNames,
    metrics_history: MetricsHistory,
    live: LiveUpdates,
    assets: layout::Assets,
}

impl Console {
    /// Creates a console. Serve its [router](Self::router) and spawn [`run`](Self::run).
    pub fn new(zone: Arc<ExecutionState>, options: ConsoleOptions) -> Arc<Self> {
        Arc::new(Self {
            zone,
            sign_in: options.sign_in,
            sessions: ConsoleSessions::default(),
            names: ClientNames::new(options.clients),
            metrics_history: MetricsHistory::default(),
            live: LiveUpdates::new(),
            assets: layout::Assets::new(),
        })
    }

    /// The OAuth client that the built-in issuer needs for [`SignIn::built_in`], for a zone at this URL.
    /// A public client: it has no secret.
    pub fn client(public_url: &Url) -> NewOAuthClient {
        let base = public_url.as_str().trim_end_matches('/');
        let scopes = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE];
        NewOAuthClient {
            id: Some(CLIENT_ID.to_owned()),
            name: "Interzone console".to_owned(),
            scopes: scopes.map(str::to_owned).to_vec(),
            redirect_uris: vec![format!("{base}{CALLBACK_PATH}")],
            grants: vec![GrantType::AuthorizationCode],
            public: true,
        }
    }

    /// Creates a one-time URL that signs in its first visitor with all rights; valid for ten minutes. For
    /// development: show it only to the local user.
    pub fn one_time_link(&self) -> String {
        let secret = self.sessions.new_link();
        self.zone
            .absolute_url(&format!("/console/enter/{}", secret.expose()))
    }

    /// The console's routes, to be merged with the zone's.
    pub fn router(self: &Arc<Self>) -> Router {
        let state = Arc::clone(self);
        let authenticated = Router::new()
            .route("/console", get(pages::overview::page))
            .route("/console/", get(pages::overview::page))
            .route("/console/plots", get(pages::overview::plots))
            .route("/console/events", get(live::sse::events))
            .route("/console/rows", get(live::sse::rows))
            .route("/console/tasks", get(pages::tasks::page))
            .route("/console/tasks/{id}", get(pages::task::page))
            .route("/console/tasks/{id}/cancel", post(pages::task::cancel))
            .route(
                "/console/tasks/{id}/files/{of}/{index}/{part}",
                get(files::download),
            )
            .route("/console/streams", get(pages::streams::page))
            .route("/console/streams/{id}", get(pages::streams::stream_page))
            .route("/console/conversations", get(pages::conversations::page))
            .route(
                "/console/conversations/thread",
                get(pages::conversations::thread_page),
            )
            .route("/console/topics", get(pages::topics::page))
            .route("/console/dead-letters", get(pages::dead_letters::page))
            .route(
                "/console/dead-letters/{id}/replay",
                post(pages::dead_letters::replay),
            )
            .route("/console/agents", get(pages::agents::page))
            .route("/console/limits", get(pages::limits::page))
            .route("/console/search", get(pages::search::page))
            .route("/console/logout", post(sign_in::logout))
            .route_layer(axum::middleware::from_fn_with_state(
                Arc::clone(&state),
                auth_middleware::authenticate,
            ));
        let public = Router::new()
            .route("/console/login", get(sign_in::page))
            .route("/console/login/start", get(sign_in::start))
            .route(
                CALLBACK_PATH,
                get(sign_in::callback).head(sign_in::method_not_allowed_head),
            )
            .route(
                "/console/enter/{secret}",
                get(sign_in::enter).head(sign_in::method_not_allowed_head),
            )
            .route("/console/console.css", get(layout::style))
            .route("/console/console.js", get(layout::script))
            .route("/console/icon.svg", get(layout::icon));
        authenticated
            .merge(public)
            .with_state(state)
            .layer(axum::middleware::from_fn(telemetry::trace_request))
    }

    /// Samples metrics, sends live updates to open pages and renews the operators' tokens, until `stop` is
    /// cancelled.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let prepare = async {
            if let Some(sign_in) = &self.sign_in {
                sign_in.prepare().await;
            }
        };
        let prepare = stop.run_until_cancelled(prepare);
        tokio::join!(prepare, live::run(&self, &stop));
    }
}
