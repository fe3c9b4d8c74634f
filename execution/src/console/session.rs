//! Sessions and one-time links. Both are few, short-lived and in memory; only hashes of their secrets are
//! stored.

use super::{CHANGE_SCOPE, CONTENT_SCOPE};
use interzone_edge::Secret;
use interzone_edge::auth::Identity;
use interzone_protocol::vocab::PrincipalId;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Lifetime of a link.
pub(super) const LINK_TTL: Duration = Duration::from_secs(600);
/// Maximum lifetime of a session.
const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);
/// Idle timeout of a session.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// Maximum number of sessions; the one idle for longest is evicted.
const MAX_SESSIONS: usize = 64;
/// Maximum number of unused links.
const MAX_LINKS: usize = 8;

/// Hash of the secret of a session or link.
pub(super) type SecretHash = [u8; 32];

/// A user's rights besides viewing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConsoleRights {
    /// Read message content and files.
    pub(super) content: bool,
    /// Cancel tasks and replay dead letters.
    pub(super) change: bool,
}

impl ConsoleRights {
    pub(super) fn from_identity(identity: &Identity) -> Self {
        Self {
            content: identity.has_scope(CONTENT_SCOPE),
            change: identity.has_scope(CHANGE_SCOPE),
        }
    }
}

/// Token of a signed-in user, with its refresh token.
#[derive(Clone)]
pub(super) struct SessionToken {
    pub(super) identity: Arc<Identity>,
    pub(super) refresh_token: Option<Secret>,
}

/// A signed-in user's session.
#[derive(Clone)]
pub(super) struct ConsoleSession {
    pub(super) principal: PrincipalId,
    pub(super) client: Arc<str>,
    pub(super) rights: ConsoleRights,
    /// CSRF token of the session's forms.
    pub(super) form_token: Secret,
    /// `None` if signed in by link.
    pub(super) token: Option<SessionToken>,
    started_at: Instant,
    last_active: Instant,
}

impl ConsoleSession {
    pub(super) fn new(
        principal: PrincipalId,
        client: Arc<str>,
        rights: ConsoleRights,
        token: Option<SessionToken>,
    ) -> Self {
        let now = Instant::now();
        Self {
            principal,
            client,
            rights,
            form_token: random_secret(),
            token,
            started_at: now,
            last_active: now,
        }
    }

    fn is_expired(&self, now: Instant) -> bool {
        now >= self.started_at + SESSION_TTL || now >= self.last_active + IDLE_TIMEOUT
    }
}

/// All sessions and unused links.
#[derive(Default)]
pub(super) struct ConsoleSessions(Mutex<SessionsInner>);

#[derive(Default)]
struct SessionsInner {
    sessions: HashMap<SecretHash, ConsoleSession>,
    links: Vec<(SecretHash, Instant)>,
}

impl ConsoleSessions {
    fn lock(&self) -> MutexGuard<'_, SessionsInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a link and returns its secret.
    pub(super) fn new_link(&self) -> Secret {
        let secret = random_secret();
        let mut inner = self.lock();
        if inner.links.len() >= MAX_LINKS {
            inner.links.remove(0);
        }
        let until = Instant::now() + LINK_TTL;
        inner.links.push((hash(secret.expose()), until));
        secret
    }

    /// Consumes a link. Returns true if it was valid.
    pub(super) fn use_link(&self, secret: &str) -> bool {
        let (now, hash) = (Instant::now(), hash(secret));
        let mut inner = self.lock();
        inner.links.retain(|(_, until)| now < *until);
        let index = inner
            .links
            .iter()
            .position(|(link_hash, _)| *link_hash == hash);
        index.map(|place| inner.links.remove(place)).is_some()
    }

    /// Starts a session and returns its cookie value.
    pub(super) fn start(&self, session: ConsoleSession) -> Secret {
        let secret = random_secret();
        let now = Instant::now();
        let mut inner = self.lock();
        inner.sessions.retain(|_, session| !session.is_expired(now));
        if inner.sessions.len() >= MAX_SESSIONS {
            let idle = inner.sessions.iter().min_by_key(|(_, one)| one.last_active);
            let idle = idle.map(|(key, _)| *key);
            idle.and_then(|key| inner.sessions.remove(&key));
        }
        inner.sessions.insert(hash(secret.expose()), session);
        secret
    }

    /// Finds a session by its cookie. `is_user_action` resets the idle timeout.
    pub(super) fn find(&self, cookie: &str, is_user_action: bool) -> Option<ConsoleSession> {
        let (now, key) = (Instant::now(), hash(cookie));
        let mut inner = self.lock();
        let session = inner.sessions.get_mut(&key)?;
        if session.is_expired(now) {
            inner.sessions.remove(&key);
            return None;
        }
        if is_user_action {
            session.last_active = now;
        }
        Some(session.clone())
    }

    /// Ends a session.
    pub(super) fn end(&self, cookie: &str) {
        self.lock().sessions.remove(&hash(cookie));
    }

    /// Tokens that expire before this time (Unix seconds), each with its session.
    pub(super) fn expiring(&self, before: u64) -> Vec<(SecretHash, SessionToken)> {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.sessions.retain(|_, session| !session.is_expired(now));
        let entries = inner.sessions.iter();
        let tokens = entries.filter_map(|(key, one)| Some((*key, one.token.clone()?)));
        tokens
            .filter(|(_, proof)| proof.identity.expires_at() < before)
            .collect()
    }

    /// Replaces a session's token; ends the session if there is none.
    pub(super) fn renew(&self, key: &SecretHash, token: Option<SessionToken>) {
        let mut inner = self.lock();
        match (token, inner.sessions.get_mut(key)) {
            (Some(proof), Some(session)) => {
                session.rights = ConsoleRights::from_identity(&proof.identity);
                session.token = Some(proof);
            }
            (None, Some(_)) => drop(inner.sessions.remove(key)),
            (_, None) => {}
        }
    }
}

/// A random secret of 244 bits.
pub(super) fn random_secret() -> Secret {
    let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    Secret::new(halves.map(|half| half.simple().to_string()).concat())
}

/// Hash of a secret, for storage.
pub(super) fn hash(text: &str) -> SecretHash {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> ConsoleSession {
        let rights = ConsoleRights {
            content: false,
            change: false,
        };
        ConsoleSession::new(PrincipalId::new(name).unwrap(), name.into(), rights, None)
    }

    #[tokio::test(start_paused = true)]
    async fn link_works_once_and_expires() {
        let sessions = ConsoleSessions::default();
        let (one, two) = (sessions.new_link(), sessions.new_link());
        assert!(!sessions.use_link("nothing"));
        assert!(sessions.use_link(one.expose()));
        assert!(!sessions.use_link(one.expose()));
        tokio::time::advance(LINK_TTL).await;
        assert!(!sessions.use_link(two.expose()));
        let first = sessions.new_link();
        let last = (0..MAX_LINKS).map(|_| sessions.new_link()).last().unwrap();
        assert!(
            !sessions.use_link(first.expose()),
            "the number of links is limited"
        );
        assert!(sessions.use_link(last.expose()));
    }

    #[tokio::test(start_paused = true)]
    async fn session_ends_when_idle_and_at_max_lifetime() {
        let sessions = ConsoleSessions::default();
        let cookie = sessions.start(session("anna"));
        let is_alive = |looks| sessions.find(cookie.expose(), looks).is_some();
        assert!(sessions.find("else", true).is_none());
        for _ in 0..5 {
            tokio::time::advance(IDLE_TIMEOUT - Duration::from_secs(1)).await;
            assert!(is_alive(true));
        }
        tokio::time::advance(IDLE_TIMEOUT - Duration::from_secs(1)).await;
        assert!(is_alive(false));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(
            !is_alive(true),
            "background requests do not extend a session"
        );
        let cookie = sessions.start(session("anna"));
        for _ in 0..24 {
            sessions.find(cookie.expose(), true);
            tokio::time::advance(SESSION_TTL / 24).await;
        }
        assert!(sessions.find(cookie.expose(), true).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn session_limit_evicts_longest_idle() {
        let sessions = ConsoleSessions::default();
        let first = sessions.start(session("first"));
        let mut cookies = Vec::new();
        for _ in 0..MAX_SESSIONS {
            tokio::time::advance(Duration::from_secs(1)).await;
            cookies.push(sessions.start(session("another")));
        }
        assert!(sessions.find(first.expose(), true).is_none());
        let is_alive = |cookie: &Secret| sessions.find(cookie.expose(), false).is_some();
        assert!(cookies.iter().all(is_alive));
        sessions.end(cookies[3].expose());
        assert!(!is_alive(&cookies[3]));
    }
}
