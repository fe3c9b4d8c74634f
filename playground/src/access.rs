//! Tokens: whose they are, what they may do, how they are got by OAuth2 and how they end.

use crate::api::Refused;
use crate::options::PlaygroundOptions;
use interzone_edge::Secret;
use std::collections::{BTreeMap, BTreeSet};

/// Tokens, codes and tickets that may be open at the same time.
const MOST: usize = 1_000;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// It acts as the bot.
    Bot,
    /// It opens sockets.
    App,
}

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) kind: TokenKind,
    pub(crate) scopes: BTreeSet<String>,
}

impl Caller {
    /// The token's scopes in one line, as Slack shows them.
    pub(crate) fn provided(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        scopes.join(",")
    }

    /// Refuses a token that lacks a scope.
    pub(crate) fn need(&self, scope: &'static str) -> Result<(), Refused> {
        self.need_any(&[scope])
    }

    /// Refuses a token that has none of these scopes.
    pub(crate) fn need_any(&self, scopes: &[&'static str]) -> Result<(), Refused> {
        if scopes.iter().any(|scope| self.scopes.contains(*scope)) {
            return Ok(());
        }
        Err(Refused {
            needed: Some(scopes.join(",")),
            ..Refused::new("missing_scope")
        })
    }
}

struct Token {
    value: Secret,
    caller: Caller,
    /// In seconds since 1970.
    expires: Option<u64>,
    revoked: bool,
}

/// A code of the authorize page.
struct Code {
    scopes: BTreeSet<String>,
    redirect: Option<String>,
    user: String,
    used: bool,
}

/// Every token of the workspace. None of them can be printed.
pub(crate) struct Tokens {
    all: Vec<Token>,
    codes: BTreeMap<String, Code>,
    refresh: BTreeMap<String, BTreeSet<String>>,
    tickets: BTreeSet<String>,
    made: u64,
    client_id: String,
    client_secret: Secret,
    rotation: bool,
    /// How long a token lasts where tokens rotate, in seconds.
    life: u64,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// What the OAuth2 flow gives.
pub(crate) struct Granted {
    pub(crate) token: String,
    pub(crate) scope: String,
    pub(crate) user: String,
    /// With what a new one can be had, and in how many seconds this one ends.
    pub(crate) refresh: Option<(String, u64)>,
}

impl Tokens {
    pub(crate) fn new(options: &PlaygroundOptions) -> Self {
        let token = |value: &Secret, kind, scopes: &[String]| Token {
            value: value.clone(),
            caller: Caller {
                kind,
                scopes: scopes.iter().cloned().collect(),
            },
            expires: None,
            revoked: false,
        };
        let app = ["connections:write".to_owned()];
        Self {
            all: vec![
                token(&options.bot_token, TokenKind::Bot, &options.scopes),
                token(&options.app_token, TokenKind::App, &app),
            ],
            codes: BTreeMap::new(),
            refresh: BTreeMap::new(),
            tickets: BTreeSet::new(),
            made: 0,
            client_id: options.client_id.clone(),
            client_secret: options.client_secret.clone(),
            rotation: options.rotation,
            life: options.token_life.as_secs(),
        }
    }

    /// Whose token it is.
    pub(crate) fn caller(&self, token: Option<&str>, now: u64) -> Result<Caller, Refused> {
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or(Refused::new("not_authed"))?;
        let mut all = self.all.iter();
        let found = all.find(|known| known.value.is(token));
        let found = found.ok_or(Refused::new("invalid_auth"))?;
        if found.revoked {
            return Err(Refused::new("token_revoked"));
        }
        if found.expires.is_some_and(|expires| now >= expires) {
            return Err(Refused::new("token_expired"));
        }
        Ok(found.caller.clone())
    }

    /// Remembers the ticket of a socket that may be opened.
    pub(crate) fn ticket(&mut self, ticket: String) {
        if self.tickets.len() >= MOST {
            self.tickets.pop_first();
        }
        self.tickets.insert(ticket);
    }

    /// Whether a ticket is good; it is not a second time.
    pub(crate) fn punch(&mut self, ticket: &str) -> bool {
        self.tickets.remove(ticket)
    }

    /// Ends a token.
    pub(crate) fn revoke(&mut self, token: &str) {
        for known in &mut self.all {
            known.revoked |= known.value.is(token);
        }
    }

    /// Ends every token of the bot.
    pub(crate) fn revoke_bot(&mut self) {
        for known in &mut self.all {
            known.revoked |= known.caller.kind == TokenKind::Bot;
        }
        self.refresh.clear();
    }

    /// What the bot's first token may do from now on.
    pub(crate) fn set_scopes(&mut self, scopes: &[&str]) {
        if let Some(first) = self.all.first_mut() {
            first.caller.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        }
    }

    /// Whether this is the app that may ask.
    pub(crate) fn is_client(&self, id: &str) -> bool {
        self.client_id == id
    }

    /// A code for the app, when a person has allowed it.
    pub(crate) fn code(&mut self, scope: &str, redirect: Option<&str>, user: &str) -> String {
        self.made += 1;
        let code = format!("code-{:04}", self.made);
        if self.codes.len() >= MOST {
            self.codes.pop_first();
        }
        self.codes.insert(
            code.clone(),
            Code {
                scopes: scopes_of(scope),
                redirect: redirect.map(str::to_owned),
                user: user.to_owned(),
                used: false,
            },
        );
        code
    }

    fn authenticate(&self, id: &str, secret: &str) -> Result<(), Refused> {
        if self.client_id != id {
            return Err(Refused::new("invalid_client_id"));
        }
        if !self.client_secret.is(secret) {
            return Err(Refused::new("bad_client_secret"));
        }
        Ok(())
    }

    /// A token for a code, once.
    pub(crate) fn redeem(
        &mut self,
        client: (&str, &str),
        code: &str,
        redirect: Option<&str>,
        now: u64,
    ) -> Result<Granted, Refused> {
        self.authenticate(client.0, client.1)?;
        let found = self.codes.get_mut(code);
        let found = found.ok_or(Refused::new("invalid_code"))?;
        if std::mem::replace(&mut found.used, true) {
            return Err(Refused::new("code_already_used"));
        }
        if found.redirect.as_deref() != redirect {
            return Err(Refused::new("bad_redirect_uri"));
        }
        let (scopes, user) = (found.scopes.clone(), found.user.clone());
        Ok(self.grant(scopes, user, now))
    }

    /// A token for a refresh token, once.
    pub(crate) fn refresh(
        &mut self,
        client: (&str, &str),
        token: &str,
        now: u64,
    ) -> Result<Granted, Refused> {
        self.authenticate(client.0, client.1)?;
        let scopes = self.refresh.remove(token);
        let scopes = scopes.ok_or(Refused::new("invalid_refresh_token"))?;
        Ok(self.grant(scopes, String::new(), now))
    }

    fn grant(&mut self, scopes: BTreeSet<String>, user: String, now: u64) -> Granted {
        self.made += 1;
        let prefix = if self.rotation { "xoxe.xoxb" } else { "xoxb" };
        let token = format!("{prefix}-playground-{:04}", self.made);
        let caller = Caller {
            kind: TokenKind::Bot,
            scopes: scopes.clone(),
        };
        let scope = caller.provided();
        if self.all.len() >= MOST {
            self.all.remove(2);
        }
        self.all.push(Token {
            value: Secret::new(token.clone()),
            caller,
            expires: self.rotation.then(|| now.saturating_add(self.life)),
            revoked: false,
        });
        let refresh = self
            .rotation
            .then(|| format!("xoxe-1-playground-{:04}", self.made));
        if let Some(refresh) = &refresh {
            if self.refresh.len() >= MOST {
                self.refresh.pop_first();
            }
            self.refresh.insert(refresh.clone(), scopes);
        }
        Granted {
            token,
            scope,
            user,
            refresh: refresh.map(|refresh| (refresh, self.life)),
        }
    }

    /// How long tokens last that are granted from now on.
    pub(crate) fn set_life(&mut self, seconds: u64) {
        self.life = seconds;
    }

    /// All tokens that run out have done so, but for the newest.
    pub(crate) fn run_out(&mut self) {
        let mut rotating = self.all.iter_mut().filter(|token| token.expires.is_some());
        rotating.next_back();
        rotating.for_each(|token| token.expires = Some(0));
    }
}

fn scopes_of(scope: &str) -> BTreeSet<String> {
    let words = scope.split([',', ' ']).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
