//! The console: how people sign in to it, by what the configuration says.

use super::StartError;
use super::identity::Identity;
use super::store::Opened;
use crate::config::{Config, ConsoleIssuer};
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{AccountError, Clients};
use interzone_edge::tls::Trust;
use interzone_execution::Zone;
use interzone_execution::console::{Console, ConsoleOptions, SignIn, TokenDoor};
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
        (None, Some(issuer)) => Some(outside(issuer, operators, trust)?),
        (None, None) => None,
    };
    let options = ConsoleOptions { sign_in };
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

fn outside(
    issuer: &ConsoleIssuer,
    operators: Vec<String>,
    trust: &Trust,
) -> Result<SignIn, StartError> {
    let http = trust.client().build().map_err(StartError::Http)?;
    Ok(SignIn {
        authorize_url: issuer.authorize_url.clone(),
        token: TokenDoor::At {
            url: issuer.token_url.clone(),
            http,
        },
        client_id: issuer.client_id.clone(),
        client_secret: issuer.client_secret.clone(),
        scope: issuer.scope.clone(),
        operators: (!operators.is_empty()).then_some(operators),
    })
}
