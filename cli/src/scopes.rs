//! What a client's token is good for, and what it lacks. Nothing is let in or kept out by this: it is for what
//! is asked for, and what is said.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use interzone_client::{Client, Error, Secret, TokenError};
use interzone_protocol::acp::Scope;
use serde_json::Value;

/// The names of scopes that somebody has not.
pub(crate) type Lacking = Vec<&'static str>;

/// Whether a token was refused for nothing but what it was to be good for.
pub(crate) fn is_scope(error: &Error) -> bool {
    matches!(error, Error::Token(TokenError::Refused { error, .. }) if error == "invalid_scope")
}

/// A token with all scopes of ACP that the client may have, and those that it lacks, if that is known.
///
/// An issuer that is asked for no scope in particular gives what it likes: ours all that the client has,
/// others less. So each is asked for by its name, where all at once are refused.
///
/// # Errors
/// There is no token to be had.
pub(crate) async fn widest_token(client: &Client) -> Result<(Secret, Option<Lacking>), Error> {
    match client.token(&Scope::ALL.map(Scope::name)).await {
        Err(error) if is_scope(&error) => {
            let lacking = lacking(client, Scope::ALL).await;
            let held: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
            let held: Vec<&str> = held
                .into_iter()
                .filter(|one| !lacking.contains(one))
                .collect();
            let token = client.token(&held).await?;
            let lacking = lacking_in(&token).unwrap_or(lacking);
            Ok((token, Some(lacking)))
        }
        token => {
            let token = token?;
            // Some issuers leave out what a client may not have without a word.
            let lacking = lacking_in(&token);
            Ok((token, lacking))
        }
    }
}

/// The scopes of ACP that a token lacks, as far as it can be read: to whoever holds it, it need not be
/// readable at all. Nothing is decided by this but what is said.
pub(crate) fn lacking_in(token: &Secret) -> Option<Lacking> {
    let claims = token.expose().split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let said = claims.get("scope").or_else(|| claims.get("scp"))?;
    let held: Vec<&str> = match said {
        Value::String(names) => names.split(' ').collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let all = Scope::ALL.map(Scope::name).into_iter();
    Some(all.filter(|name| !held.contains(name)).collect())
}

/// The scopes that no token is to be had for.
pub(crate) async fn lacking(client: &Client, scopes: impl IntoIterator<Item = Scope>) -> Lacking {
    let mut asked = Vec::new();
    let mut lacking = Vec::new();
    for scope in scopes {
        let name = scope.name();
        if asked.contains(&name) {
            continue;
        }
        asked.push(name);
        let token = client.token(&[name]).await;
        if matches!(token, Err(Error::Token(TokenError::Refused { .. }))) {
            lacking.push(name);
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::lacking_in;
    use interzone_client::Secret;

    #[test]
    fn a_token_that_can_be_read_says_what_it_lacks() {
        let lacking = |text: &str| lacking_in(&Secret::new(text));
        // {"scope":"acp:agent:identify acp:tasks:read"}
        let some = "e30.eyJzY29wZSI6ImFjcDphZ2VudDppZGVudGlmeSBhY3A6dGFza3M6cmVhZCJ9.x";
        let found = lacking(some).unwrap();
        assert!(found.contains(&"acp:tasks:write") && !found.contains(&"acp:tasks:read"));
        for unreadable in ["", "opaque", "a.b.c", "e30.e30.x"] {
            assert_eq!(lacking(unreadable), None, "{unreadable}");
        }
    }
}
