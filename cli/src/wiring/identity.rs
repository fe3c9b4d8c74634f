//! Token verification: external or built-in issuer.

use super::{StartError, store::OpenStore};
use crate::config::Config;
use interzone_edge::auth::{AuthOptions, Authenticator, Introspection, KeyConfig};
use interzone_edge::clock::Clock;
use interzone_edge::tls::TrustRoots;
use interzone_execution::console::{CHANGE_SCOPE, CONTENT_SCOPE};
use interzone_issuer::{Issuer, IssuerOptions, ScopeDefinition};
use interzone_protocol::Scope;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Token verification of a zone.
pub(super) struct TokenVerification {
    pub(super) auth: Arc<Authenticator>,
    /// The built-in issuer, if it is used.
    pub(super) issuer: Option<Issuer>,
    pub(super) issuer_url: String,
    pub(super) token_url: String,
}

impl TokenVerification {
    pub(super) async fn start(
        config: &Config,
        store: &OpenStore,
        trust: &TrustRoots,
        background: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<Self, StartError> {
        let oauth = &config.oauth;
        let (issuer, issuer_url, keys) = match &oauth.issuer {
            Some(url) => {
                let keys = match &oauth.jwks_url {
                    Some(keys) => KeyConfig::Jwks(keys.clone()),
                    None => KeyConfig::Discovered,
                };
                (None, url.clone(), keys)
            }
            None => {
                let options = IssuerOptions {
                    url: config.execution.public_url.to_string(),
                    audience: oauth.audience.clone(),
                    scopes: grantable_scopes(),
                    ..config.issuer.clone()
                };
                let issuer = Issuer::open(store.records(), options).await?;
                background.spawn(issuer.clone().run_reload_loop(stop.clone()));
                let keys = KeyConfig::Local(Arc::new(issuer.clone()));
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
            clock: Clock::system(),
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

/// Returns all scopes that the built-in issuer can grant, with the descriptions shown on the consent page.
pub(crate) fn grantable_scopes() -> Vec<ScopeDefinition> {
    let mut scopes: Vec<ScopeDefinition> = Scope::ALL
        .into_iter()
        .map(|scope| ScopeDefinition::new(scope.name(), scope_description(scope)))
        .collect();
    let operate = Scope::Operate;
    scopes.push(ScopeDefinition::new(
        operate.name(),
        scope_description(operate),
    ));
    for (name, description) in [
        (
            CONTENT_SCOPE,
            "see message contents and files in the console",
        ),
        (
            CHANGE_SCOPE,
            "cancel tasks and resend dead letters in the console",
        ),
    ] {
        scopes.push(ScopeDefinition::new(name, description));
    }
    scopes
}

fn scope_description(scope: Scope) -> &'static str {
    match scope {
        Scope::AgentIdentify => "see your identity",
        Scope::TasksRead => "read and watch your tasks",
        Scope::TasksWrite => "create and continue tasks",
        Scope::TasksCancel => "cancel your tasks",
        Scope::StreamsRead => "watch your streams",
        Scope::StreamsWrite => "start, write to and end streams",
        Scope::NotificationsReceive => "send events of your tasks to a URL",
        Scope::Operate => "operate the server: metrics and request log",
    }
}
