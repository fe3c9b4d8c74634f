//! Scopes of a client's token, and those that it lacks. Used for requests and messages only, not for access
//! control.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use interzone_client::{Client, Error, Secret, TokenError};
use interzone_protocol::Scope;
use serde_json::Value;

/// Names of missing scopes.
pub(crate) type MissingScopeNames = Vec<&'static str>;

/// Returns true if the issuer rejected a token request because of its scopes.
pub(crate) fn is_invalid_scope(error: &Error) -> bool {
    matches!(error, Error::Token(TokenError::Refused { error, .. }) if error == "invalid_scope")
}

/// Returns a token with all ACP scopes that the client is allowed, and those that it lacks, if known.
///
/// Without requested scopes, issuers differ: ours grants all that the client is allowed, others grant less. So
/// all are requested by name, and each one separately if the issuer rejects that.
///
/// # Errors
/// No token is available.
pub(crate) async fn widest_token(
    client: &Client,
) -> Result<(Secret, Option<MissingScopeNames>), Error> {
    match client.token(&Scope::ALL.map(Scope::name)).await {
        Err(error) if is_invalid_scope(&error) => {
            let lacking = missing_scopes(client, Scope::ALL).await;
            let granted: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
            let granted: Vec<&str> = granted
                .into_iter()
                .filter(|name| !lacking.contains(name))
                .collect();
            let token = client.token(&granted).await?;
            let lacking = missing_in_token(&token).unwrap_or(lacking);
            Ok((token, Some(lacking)))
        }
        token => {
            let token = token?;
            // Some issuers silently leave out scopes that the client is not allowed.
            let lacking = missing_in_token(&token);
            Ok((token, lacking))
        }
    }
}

/// Returns the ACP scopes that a token lacks, if it is a readable JWT (clients need not be able to read it).
/// Only used for messages.
pub(crate) fn missing_in_token(token: &Secret) -> Option<MissingScopeNames> {
    let claims = token.expose().split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let scope_claim = claims.get("scope").or_else(|| claims.get("scp"))?;
    let granted: Vec<&str> = match scope_claim {
        Value::String(names) => names.split(' ').collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let all = Scope::ALL.map(Scope::name).into_iter();
    Some(all.filter(|name| !granted.contains(name)).collect())
}

/// Returns the scopes for which the issuer grants no token.
pub(crate) async fn missing_scopes(
    client: &Client,
    scopes: impl IntoIterator<Item = Scope>,
) -> MissingScopeNames {
    let mut requested = Vec::new();
    let mut lacking = Vec::new();
    for scope in scopes {
        let name = scope.name();
        if requested.contains(&name) {
            continue;
        }
        requested.push(name);
        let token = client.token(&[name]).await;
        if matches!(token, Err(Error::Token(TokenError::Refused { .. }))) {
            lacking.push(name);
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::missing_in_token;
    use interzone_client::Secret;

    #[test]
    fn missing_scopes_are_read_from_jwt() {
        let lacking = |text: &str| missing_in_token(&Secret::new(text));
        // {"scope":"acp:agent:identify acp:tasks:read"}
        let some = "e30.eyJzY29wZSI6ImFjcDphZ2VudDppZGVudGlmeSBhY3A6dGFza3M6cmVhZCJ9.x";
        let found = lacking(some).unwrap();
        assert!(found.contains(&"acp:tasks:write") && !found.contains(&"acp:tasks:read"));
        for unreadable in ["", "opaque", "a.b.c", "e30.e30.x"] {
            assert_eq!(lacking(unreadable), None, "{unreadable}");
        }
    }
}
