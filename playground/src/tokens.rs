//! Tokens: kinds, scopes, the OAuth2 flow, expiry and revocation.

use crate::api::SlackApiError;
use crate::options::PlaygroundOptions;
use interzone_edge::Secret;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tokens, codes and tickets, each.
const MAX_ENTRIES: usize = 1_000;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Bot token.
    Bot,
    /// App-level token, which opens sockets.
    App,
}

/// Caller of an API method.
#[derive(Clone, Debug)]
pub(crate) struct TokenHolder {
    pub(crate) kind: TokenKind,
    pub(crate) scopes: BTreeSet<String>,
}

impl TokenHolder {
    /// Returns the scopes in one line, as Slack shows them.
    pub(crate) fn scope_list(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        scopes.join(",")
    }

    /// Requires a scope.
    pub(crate) fn require_scope(&self, scope: &'static str) -> Result<(), SlackApiError> {
        self.require_any_scope(&[scope])
    }

    /// Requires one of the scopes.
    pub(crate) fn require_any_scope(&self, scopes: &[&'static str]) -> Result<(), SlackApiError> {
        if scopes.iter().any(|scope| self.scopes.contains(*scope)) {
            return Ok(());
        }
        Err(SlackApiError {
            needed_scope: Some(scopes.join(",")),
            ..SlackApiError::new("missing_scope")
        })
    }
}

struct StoredAppToken {
    value: Secret,
    caller: TokenHolder,
    /// Unix seconds.
    expires_at: Option<u64>,
    is_revoked: bool,
}

/// Authorization code.
struct AuthorizationCode {
    scopes: BTreeSet<String>,
    redirect_uri: Option<String>,
    user: String,
    is_used: bool,
}

/// All tokens of the workspace. Debug output omits them.
pub(crate) struct WorkspaceTokens {
    tokens: Vec<StoredAppToken>,
    codes: BTreeMap<String, AuthorizationCode>,
    refresh_tokens: BTreeMap<String, BTreeSet<String>>,
    tickets: BTreeSet<String>,
    issued_count: u64,
    client_id: String,
    client_secret: Secret,
    rotate_tokens: bool,
    /// Lifetime of rotating tokens in seconds.
    lifetime: u64,
}

impl std::fmt::Debug for WorkspaceTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkspaceTokens").finish_non_exhaustive()
    }
}

/// Result of the OAuth2 flow.
pub(crate) struct GrantedToken {
    pub(crate) token: String,
    pub(crate) scope: String,
    pub(crate) user: String,
    /// Refresh token, and seconds until expiry.
    pub(crate) refresh: Option<(String, u64)>,
}

impl WorkspaceTokens {
    pub(crate) fn new(options: &PlaygroundOptions) -> Self {
        let token = |value: &Secret, kind, scopes: &[String]| StoredAppToken {
            value: value.clone(),
            caller: TokenHolder {
                kind,
                scopes: scopes.iter().cloned().collect(),
            },
            expires_at: None,
            is_revoked: false,
        };
        let app = ["connections:write".to_owned()];
        Self {
            tokens: vec![
                token(&options.bot_token, TokenKind::Bot, &options.scopes),
                token(&options.app_token, TokenKind::App, &app),
            ],
            codes: BTreeMap::new(),
            refresh_tokens: BTreeMap::new(),
            tickets: BTreeSet::new(),
            issued_count: 0,
            client_id: options.client_id.clone(),
            client_secret: options.client_secret.clone(),
            rotate_tokens: options.rotate_tokens,
            lifetime: options.token_lifetime.as_secs(),
        }
    }

    /// Authenticates a token.
    pub(crate) fn authenticate_token(
        &self,
        token: Option<&str>,
        now: u64,
    ) -> Result<TokenHolder, SlackApiError> {
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or(SlackApiError::new("not_authed"))?;
        let mut all = self.tokens.iter();
        let found = all.find(|stored| stored.value.ct_eq(token));
        let found = found.ok_or(SlackApiError::new("invalid_auth"))?;
        if found.is_revoked {
            return Err(SlackApiError::new("token_revoked"));
        }
        if found.expires_at.is_some_and(|expires| now >= expires) {
            return Err(SlackApiError::new("token_expired"));
        }
        Ok(found.caller.clone())
    }

    /// Stores a one-time ticket for opening a socket.
    pub(crate) fn add_ticket(&mut self, ticket: String) {
        if self.tickets.len() >= MAX_ENTRIES {
            self.tickets.pop_first();
        }
        self.tickets.insert(ticket);
    }

    /// Consumes a ticket; returns false if it is unknown or used.
    pub(crate) fn consume_ticket(&mut self, ticket: &str) -> bool {
        self.tickets.remove(ticket)
    }

    /// Revokes a token.
    pub(crate) fn revoke(&mut self, token: &str) {
        for stored in &mut self.tokens {
            stored.is_revoked |= stored.value.ct_eq(token);
        }
    }

    /// Revokes all bot tokens.
    pub(crate) fn revoke_bot(&mut self) {
        for stored in &mut self.tokens {
            stored.is_revoked |= stored.caller.kind == TokenKind::Bot;
        }
        self.refresh_tokens.clear();
    }

    /// Sets the scopes of the first bot token.
    pub(crate) fn set_scopes(&mut self, scopes: &[&str]) {
        if let Some(first) = self.tokens.first_mut() {
            first.caller.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        }
    }

    /// Returns true if the client id is the app's.
    pub(crate) fn is_client(&self, id: &str) -> bool {
        self.client_id == id
    }

    /// Issues an authorization code after the user has allowed the app.
    pub(crate) fn issue_code(
        &mut self,
        scope: &str,
        redirect_uri: Option<&str>,
        user: &str,
    ) -> String {
        self.issued_count += 1;
        let code = format!("code-{:04}", self.issued_count);
        if self.codes.len() >= MAX_ENTRIES {
            self.codes.pop_first();
        }
        self.codes.insert(
            code.clone(),
            AuthorizationCode {
                scopes: parse_scopes(scope),
                redirect_uri: redirect_uri.map(str::to_owned),
                user: user.to_owned(),
                is_used: false,
            },
        );
        code
    }

    fn authenticate_client(&self, id: &str, secret: &str) -> Result<(), SlackApiError> {
        if self.client_id != id {
            return Err(SlackApiError::new("invalid_client_id"));
        }
        if !self.client_secret.ct_eq(secret) {
            return Err(SlackApiError::new("bad_client_secret"));
        }
        Ok(())
    }

    /// Exchanges an authorization code for a token, once.
    pub(crate) fn redeem_code(
        &mut self,
        client: (&str, &str),
        code: &str,
        redirect_uri: Option<&str>,
        now: u64,
    ) -> Result<GrantedToken, SlackApiError> {
        self.authenticate_client(client.0, client.1)?;
        let found = self.codes.get_mut(code);
        let found = found.ok_or(SlackApiError::new("invalid_code"))?;
        if std::mem::replace(&mut found.is_used, true) {
            return Err(SlackApiError::new("code_already_used"));
        }
        if found.redirect_uri.as_deref() != redirect_uri {
            return Err(SlackApiError::new("bad_redirect_uri"));
        }
        let (scopes, user) = (found.scopes.clone(), found.user.clone());
        Ok(self.issue_token(scopes, user, now))
    }

    /// Exchanges a refresh token for a token, once.
    pub(crate) fn redeem_refresh_token(
        &mut self,
        client: (&str, &str),
        token: &str,
        now: u64,
    ) -> Result<GrantedToken, SlackApiError> {
        self.authenticate_client(client.0, client.1)?;
        let scopes = self.refresh_tokens.remove(token);
        let scopes = scopes.ok_or(SlackApiError::new("invalid_refresh_token"))?;
        Ok(self.issue_token(scopes, String::new(), now))
    }

    fn issue_token(&mut self, scopes: BTreeSet<String>, user: String, now: u64) -> GrantedToken {
        self.issued_count += 1;
        let prefix = if self.rotate_tokens {
            "xoxe.xoxb"
        } else {
            "xoxb"
        };
        let token = format!("{prefix}-playground-{:04}", self.issued_count);
        let caller = TokenHolder {
            kind: TokenKind::Bot,
            scopes: scopes.clone(),
        };
        let scope = caller.scope_list();
        if self.tokens.len() >= MAX_ENTRIES {
            self.tokens.remove(2);
        }
        self.tokens.push(StoredAppToken {
            value: Secret::new(token.clone()),
            caller,
            expires_at: self
                .rotate_tokens
                .then(|| now.saturating_add(self.lifetime)),
            is_revoked: false,
        });
        let refresh = self
            .rotate_tokens
            .then(|| format!("xoxe-1-playground-{:04}", self.issued_count));
        if let Some(refresh) = &refresh {
            if self.refresh_tokens.len() >= MAX_ENTRIES {
                self.refresh_tokens.pop_first();
            }
            self.refresh_tokens.insert(refresh.clone(), scopes);
        }
        GrantedToken {
            token,
            scope,
            user,
            refresh: refresh.map(|refresh| (refresh, self.lifetime)),
        }
    }

    /// Sets the lifetime of tokens granted from now on.
    pub(crate) fn set_lifetime(&mut self, seconds: u64) {
        self.lifetime = seconds;
    }

    /// Expires all rotating tokens except the newest.
    pub(crate) fn expire_old(&mut self) {
        let mut rotating = self
            .tokens
            .iter_mut()
            .filter(|token| token.expires_at.is_some());
        rotating.next_back();
        rotating.for_each(|token| token.expires_at = Some(0));
    }
}

fn parse_scopes(scope: &str) -> BTreeSet<String> {
    let names = scope.split([',', ' ']).filter(|word| !word.is_empty());
    names.map(str::to_owned).collect()
}
