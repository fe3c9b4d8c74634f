//! Whose tokens are believed: those of an issuer outside, or of the built-in one.

use super::{StartError, store::Opened};
use crate::config::Config;
use interzone_edge::auth::{AuthOptions, Authenticator, Introspection, Keys};
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{Issuer, IssuerOptions, Scope};
use interzone_edge::tls::Trust;
use interzone_execution::console::{CHANGE_SCOPE, CONTENT_SCOPE};
use interzone_protocol::acp;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Who vouches for callers.
pub(super) struct Identity {
    pub(super) auth: Arc<Authenticator>,
    /// The built-in one, if it is in use.
    pub(super) issuer: Option<Issuer>,
    pub(super) issuer_url: String,
    pub(super) token_url: String,
}

impl Identity {
    pub(super) async fn start(
        config: &Config,
        store: &Opened,
        trust: &Trust,
        background: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<Self, StartError> {
        let oauth = &config.oauth;
        let (issuer, issuer_url, keys) = match &oauth.issuer {
            Some(url) => {
                let keys = match &oauth.jwks_url {
                    Some(keys) => Keys::Jwks(keys.clone()),
                    None => Keys::Discovered,
                };
                (None, url.clone(), keys)
            }
            None => {
                let options = IssuerOptions {
                    token_ttl: config.issuer.token_lifetime,
                    key_rotation: config.issuer.key_rotation,
                    ..IssuerOptions::new(
                        config.execution.public_url.as_str(),
                        oauth.audience.clone(),
                        scopes(),
                    )
                };
                let issuer = Issuer::open(store.keep(), options).await?;
                background.spawn(issuer.clone().keep_current(stop.clone()));
                let keys = Keys::Local(Arc::new(issuer.clone()));
                let url = issuer.url().to_owned();
                (Some(issuer), url, keys)
            }
        };
        let introspection = oauth.introspection.as_ref().map(|config| Introspection {
            url: config.url.clone(),
            client_id: config.client_id.clone(),
            secret: config.secret.clone(),
        });
        let auth = Authenticator::new(AuthOptions {
            issuer: issuer_url.clone(),
            audience: oauth.audience.clone(),
            keys,
            introspection,
            leeway: oauth.leeway,
            trust: trust.clone(),
            clock: Clock::machine(),
        })?;
        let token_url = match &issuer {
            Some(issuer) => format!("{}/oauth2/token", issuer.url()),
            None => issuer_url.clone(),
        };
        Ok(Self {
            auth: Arc::new(auth),
            issuer,
            issuer_url,
            token_url,
        })
    }
}

/// All scopes that the built-in issuer may grant, with what they mean to a person who is asked.
pub(crate) fn scopes() -> Vec<Scope> {
    let mut scopes: Vec<Scope> = acp::Scope::ALL
        .into_iter()
        .map(|scope| Scope::new(scope.name(), meaning(scope)))
        .collect();
    let operate = acp::Scope::Operate;
    scopes.push(Scope::new(operate.name(), meaning(operate)));
    for (name, meaning) in [
        (CONTENT_SCOPE, "see in the console what was said, and files"),
        (
            CHANGE_SCOPE,
            "call tasks off and send again what was given up",
        ),
    ] {
        scopes.push(Scope::new(name, meaning));
    }
    scopes
}

fn meaning(scope: acp::Scope) -> &'static str {
    match scope {
        acp::Scope::AgentIdentify => "know who you are",
        acp::Scope::TasksRead => "read and watch your tasks",
        acp::Scope::TasksWrite => "begin tasks and add to them",
        acp::Scope::TasksCancel => "call your tasks off",
        acp::Scope::StreamsRead => "watch your streams",
        acp::Scope::StreamsWrite => "begin streams, speak on them and end them",
        acp::Scope::NotificationsReceive => "have events of your tasks sent elsewhere",
        acp::Scope::Operate => "look after the server: its metrics, and who asked it for what",
    }
}
