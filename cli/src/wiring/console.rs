//! Creates the console with the configured sign-in.

use super::StartError;
use super::identity::TokenVerification;
use super::store::OpenStore;
use crate::config::{Config, ConsoleConfig};
use interzone_edge::auth::SignInEndpoints;
use interzone_edge::clock::Clock;
use interzone_edge::tls::TrustRoots;
use interzone_execution::ExecutionState;
use interzone_execution::console::{
    Console, ConsoleOptions, IssuerDiscovery, SignIn, SignInIssuer,
};
use interzone_issuer::{AccountError, OAuthClients};
use std::sync::Arc;

/// Creates the console of a zone, if enabled.
pub(super) async fn create_console(
    config: &Config,
    identity: &TokenVerification,
    store: &OpenStore,
    trust: &TrustRoots,
    zone: &Arc<ExecutionState>,
) -> Result<Option<Arc<Console>>, StartError> {
    if !config.console.enabled {
        return Ok(None);
    }
    let url = &config.execution.public_url;
    let operators = config.console.operators.clone();
    let sign_in = match (&identity.issuer, &config.console.client_id) {
        (Some(_), _) => {
            register_client(config, store).await?;
            // Cannot fail: the URL was accepted by the issuer.
            SignIn::built_in(url, operators).ok()
        }
        (None, Some(client_id)) => Some(external_sign_in(
            &config.console,
            client_id,
            identity,
            trust,
        )?),
        (None, None) => None,
    };
    let clients = identity.issuer.is_some();
    let clients = clients.then(|| OAuthClients::new(store.records(), Clock::system()));
    let options = ConsoleOptions { sign_in, clients };
    Ok(Some(Console::new(Arc::clone(zone), options)))
}

/// Registers the console as a client of the built-in issuer, with its current URL.
async fn register_client(config: &Config, store: &OpenStore) -> Result<(), StartError> {
    let clients = OAuthClients::new(store.records(), Clock::system());
    let new = Console::client(&config.execution.public_url);
    let id = new.id.clone().unwrap_or_default();
    let existing = clients.get(&id).await.map_err(StartError::Account)?;
    if let Some(existing) = existing {
        if existing.redirect_uris == new.redirect_uris && existing.scopes == new.scopes {
            return Ok(());
        }
        clients.remove(&id).await.map_err(StartError::Account)?;
    }
    match clients.add(new).await {
        // Another node has registered it at the same time.
        Ok(_) | Err(AccountError::Taken) => Ok(()),
        Err(error) => Err(StartError::Account(error)),
    }
}

/// Scope requested from an external issuer by default.
const DEFAULT_SCOPE: &str = "interzone:operate interzone:content interzone:change";

fn external_sign_in(
    config: &ConsoleConfig,
    client_id: &str,
    identity: &TokenVerification,
    trust: &TrustRoots,
) -> Result<SignIn, StartError> {
    let http = trust.client().build().map_err(StartError::Http)?;
    let sign_in_issuer = match (&config.authorize_url, &config.token_url) {
        (Some(authorize), Some(token)) => SignInIssuer::Configured {
            endpoints: SignInEndpoints {
                authorize: authorize.clone(),
                token: token.clone(),
            },
            http,
        },
        _ => SignInIssuer::Discovered(IssuerDiscovery::new(&identity.issuer_url, http)),
    };
    let scope = config.scope.clone();
    let operators = config.operators.clone();
    Ok(SignIn {
        issuer: sign_in_issuer,
        client_id: client_id.to_owned(),
        client_secret: config.client_secret.clone(),
        scope: Some(scope.unwrap_or_else(|| DEFAULT_SCOPE.to_owned())),
        resource: config.resource.clone(),
        operators: (!operators.is_empty()).then_some(operators),
    })
}
