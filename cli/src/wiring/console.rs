//! The console: how people sign in to it, by what the configuration says.

use super::StartError;
use super::identity::Identity;
use super::store::Opened;
use crate::config::{Config, ConsoleIssuer};
use interzone_edge::auth::SignInEndpoints;
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{AccountError, Clients};
use interzone_edge::tls::Trust;
use interzone_execution::Zone;
use interzone_execution::console::{Console, ConsoleOptions, Discovered, SignIn, SignInIssuer};
use std::sync::Arc;

/// The console of a zone, if it is to have one.
pub(super) async fn console(
    config: &Config,
    identity: &Identity,
    store: &Opened,
    trust: &Trust,
    zone: &Arc<Zone>,
) -> Result<Option<Arc<Console>>, StartError> {
    if !config.console.enabled {
        return Ok(None);
    }
    let url = &config.execution.public_url;
    let operators = config.console.operators.clone();
    let sign_in = match (&identity.issuer, &config.console.issuer) {
        (Some(_), _) => {
            introduce(config, store).await?;
            // An address that the issuer has is one that can be joined to.
            SignIn::built_in(url, operators).ok()
        }
        (None, Some(issuer)) => Some(outside(issuer, identity, operators, trust)?),
        (None, None) => None,
    };
    let clients = identity.issuer.is_some();
    let clients = clients.then(|| Clients::new(store.keep(), Clock::machine()));
    let options = ConsoleOptions { sign_in, clients };
    Ok(Some(Console::new(Arc::clone(zone), options)))
}

/// Makes sure that the built-in issuer knows the console, at the address where it is now.
async fn introduce(config: &Config, store: &Opened) -> Result<(), StartError> {
    let clients = Clients::new(store.keep(), Clock::machine());
    let new = Console::client(&config.execution.public_url);
    let id = new.id.clone().unwrap_or_default();
    let known = clients.get(&id).await.map_err(StartError::Account)?;
    if let Some(known) = known {
        if known.redirect_uris == new.redirect_uris && known.scopes == new.scopes {
            return Ok(());
        }
        clients.remove(&id).await.map_err(StartError::Account)?;
    }
    match clients.add(new).await {
        // Another node was faster.
        Ok(_) | Err(AccountError::Taken) => Ok(()),
        Err(error) => Err(StartError::Account(error)),
    }
}

/// What the console asks an issuer elsewhere for, if nothing else is said.
const SCOPE: &str = "interzone:operate interzone:content interzone:change";

fn outside(
    issuer: &ConsoleIssuer,
    identity: &Identity,
    operators: Vec<String>,
    trust: &Trust,
) -> Result<SignIn, StartError> {
    let http = trust.client().build().map_err(StartError::Http)?;
    let place = match &issuer.urls {
        Some((authorize, token)) => SignInIssuer::At {
            endpoints: SignInEndpoints {
                authorize: authorize.clone(),
                token: token.clone(),
            },
            http,
        },
        None => SignInIssuer::Discovered(Discovered::new(&identity.issuer_url, http)),
    };
    let scope = issuer.scope.clone();
    Ok(SignIn {
        issuer: place,
        client_id: issuer.client_id.clone(),
        client_secret: issuer.client_secret.clone(),
        scope: Some(scope.unwrap_or_else(|| SCOPE.to_owned())),
        resource: issuer.resource.clone(),
        operators: (!operators.is_empty()).then_some(operators),
    })
}
