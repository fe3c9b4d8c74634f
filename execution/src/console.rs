//! The console: what an operator sees of the zone in a browser, and the little that they change there.
//!
//! Pages are written here and read what the hub and its store give; no rule about tasks and no SQL may
//! enter. Everything that others said is escaped, and shown only to whoever may see content.

mod code_flow;
mod discovered;
mod feed;
mod files;
mod guard;
mod html;
mod layout;
mod names;
mod pages;
mod places;
mod plots;
mod samples;
mod session;
mod sign_in;
mod words;

pub use code_flow::{SignIn, SignInIssuer};
pub use discovered::Discovered;

use crate::doors::OPERATE_SCOPE;
use crate::zone::Zone;
use axum::Router;
use axum::routing::{get, post};
use feed::Feed;
use interzone_edge::issuer::{Clients, Grant, NewClient};
use names::Names;
use samples::Samples;
use session::Sessions;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The scope that shows what was said, and files, on top of [`OPERATE_SCOPE`].
pub const CONTENT_SCOPE: &str = "interzone:content";
/// The scope that calls tasks off and sends again what was given up, on top of [`OPERATE_SCOPE`].
pub const CHANGE_SCOPE: &str = "interzone:change";

/// The client of the built-in issuer by which people sign in.
const CLIENT: &str = "interzone-console";
/// Where the issuer sends people back to, below the zone's address.
const CALLBACK: &str = "/console/callback";

/// How the console works.
#[derive(Default)]
pub struct ConsoleOptions {
    /// How people sign in. Without it, a [link](Console::one_time_link) is the only way in.
    pub sign_in: Option<SignIn>,
    /// The clients of the built-in issuer, so that they are shown by their names.
    pub clients: Option<Clients>,
}

/// The console of a zone.
pub struct Console {
    zone: Arc<Zone>,
    sign_in: Option<SignIn>,
    sessions: Sessions,
    names: Names,
    samples: Samples,
    feed: Feed,
    assets: layout::Assets,
}

impl Console {
    /// A console. It is there when its [router](Self::router) is served and it [runs](Self::run).
    pub fn new(zone: Arc<Zone>, options: ConsoleOptions) -> Arc<Self> {
        Arc::new(Self {
            zone,
            sign_in: options.sign_in,
            sessions: Sessions::default(),
            names: Names::of(options.clients),
            samples: Samples::default(),
            feed: Feed::new(),
            assets: layout::Assets::new(),
        })
    }

    /// The client that the built-in issuer must know for [`SignIn::built_in`], for a zone at this
    /// address. It has no secret to lose.
    pub fn client(public_url: &Url) -> NewClient {
        let base = public_url.as_str().trim_end_matches('/');
        let scopes = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE];
        NewClient {
            id: Some(CLIENT.to_owned()),
            name: "Interzone console".to_owned(),
            scopes: scopes.map(str::to_owned).to_vec(),
            redirect_uris: vec![format!("{base}{CALLBACK}")],
            grants: vec![Grant::AuthorizationCode],
            public: true,
        }
    }

    /// An address that signs in whoever opens it first, once, within ten minutes, with every right. For
    /// development: show it to nobody but the person at the keyboard.
    pub fn one_time_link(&self) -> String {
        let secret = self.sessions.new_link();
        self.zone
            .address(&format!("/console/enter/{}", secret.expose()))
    }

    /// The console's doors, to be merged with the zone's.
    pub fn router(self: &Arc<Self>) -> Router {
        let state = Arc::clone(self);
        let inside = Router::new()
            .route("/console", get(pages::overview::page))
            .route("/console/", get(pages::overview::page))
            .route("/console/plots", get(pages::overview::plots))
            .route("/console/events", get(feed::viewer::events))
            .route("/console/rows", get(feed::viewer::rows))
            .route("/console/tasks", get(pages::tasks::page))
            .route("/console/tasks/{id}", get(pages::task::page))
            .route("/console/tasks/{id}/cancel", post(pages::task::cancel))
            .route(
                "/console/tasks/{id}/files/{of}/{index}/{part}",
                get(files::download),
            )
            .route("/console/streams", get(pages::streams::page))
            .route("/console/streams/{id}", get(pages::streams::one))
            .route("/console/conversations", get(pages::talks::page))
            .route("/console/conversations/thread", get(pages::talks::one))
            .route("/console/topics", get(pages::topics::page))
            .route("/console/dead-letters", get(pages::letters::page))
            .route(
                "/console/dead-letters/{id}/replay",
                post(pages::letters::replay),
            )
            .route("/console/agents", get(pages::agents::page))
            .route("/console/limits", get(pages::limits::page))
            .route("/console/search", get(pages::search::page))
            .route("/console/logout", post(sign_in::logout))
            .route_layer(axum::middleware::from_fn_with_state(
                Arc::clone(&state),
                guard::guard,
            ));
        let outside = Router::new()
            .route("/console/login", get(sign_in::page))
            .route("/console/login/start", get(sign_in::start))
            .route(CALLBACK, get(sign_in::callback).head(sign_in::only_get))
            .route(
                "/console/enter/{secret}",
                get(sign_in::enter).head(sign_in::only_get),
            )
            .route("/console/console.css", get(layout::style))
            .route("/console/console.js", get(layout::script))
            .route("/console/icon.svg", get(layout::icon));
        inside.merge(outside).with_state(state)
    }

    /// Looks at the figures, tells those who look at the pages what changes, and renews their tokens,
    /// until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let prepare = async {
            if let Some(sign_in) = &self.sign_in {
                sign_in.prepare().await;
            }
        };
        let prepare = stop.run_until_cancelled(prepare);
        tokio::join!(prepare, feed::run(&self, &stop));
    }
}
