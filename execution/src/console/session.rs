//! Who is signed in: links that are good once, and sessions that a cookie names. Both are few, short and
//! kept in memory; only hashes of what names them are kept. What somebody sees is decided elsewhere.

use super::{CHANGE_SCOPE, CONTENT_SCOPE};
use interzone_edge::Secret;
use interzone_edge::auth::Identity;
use interzone_protocol::vocab::PrincipalId;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a link is good.
pub(super) const LINK_LIFE: Duration = Duration::from_secs(600);
/// How long somebody stays signed in, whatever they do.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// How long somebody who does nothing stays signed in.
const IDLE: Duration = Duration::from_secs(2 * 3600);
/// How many sessions there may be; the one that was idle for longest makes room.
const SESSIONS: usize = 64;
/// How many links may wait to be used.
const LINKS: usize = 8;

/// The hash of something that names a session or a link.
pub(super) type Hash = [u8; 32];

/// What somebody may do beside looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    /// See what was said, and files.
    pub(super) content: bool,
    /// Call tasks off, send again what was given up.
    pub(super) change: bool,
}

impl Rights {
    pub(super) fn of(identity: &Identity) -> Self {
        Self {
            content: identity.has_scope(CONTENT_SCOPE),
            change: identity.has_scope(CHANGE_SCOPE),
        }
    }
}

/// A token that somebody signed in with, and what renews it.
#[derive(Clone)]
pub(super) struct Proof {
    pub(super) identity: Arc<Identity>,
    pub(super) refresh: Option<Secret>,
}

/// Somebody who is signed in.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) who: PrincipalId,
    pub(super) client: Arc<str>,
    pub(super) rights: Rights,
    /// What a form must bring along.
    pub(super) form_token: Secret,
    /// None if they came by a link.
    pub(super) proof: Option<Proof>,
    began: Instant,
    seen: Instant,
}

impl Session {
    pub(super) fn new(
        who: PrincipalId,
        client: Arc<str>,
        rights: Rights,
        proof: Option<Proof>,
    ) -> Self {
        let now = Instant::now();
        Self {
            who,
            client,
            rights,
            form_token: random(),
            proof,
            began: now,
            seen: now,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.began + SESSION_LIFE || now >= self.seen + IDLE
    }
}

/// Everybody who is signed in, and the links that were not used yet.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    sessions: HashMap<Hash, Session>,
    links: Vec<(Hash, Instant)>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new link's secret part.
    pub(super) fn new_link(&self) -> Secret {
        let secret = random();
        let mut inner = self.lock();
        if inner.links.len() >= LINKS {
            inner.links.remove(0);
        }
        let until = Instant::now() + LINK_LIFE;
        inner.links.push((hash(secret.expose()), until));
        secret
    }

    /// Uses a link up. Answers whether it was good.
    pub(super) fn use_link(&self, secret: &str) -> bool {
        let (now, hash) = (Instant::now(), hash(secret));
        let mut inner = self.lock();
        inner.links.retain(|(_, until)| now < *until);
        let place = inner.links.iter().position(|(known, _)| *known == hash);
        place.map(|place| inner.links.remove(place)).is_some()
    }

    /// Lets somebody in. Gives what the cookie says.
    pub(super) fn begin(&self, session: Session) -> Secret {
        let secret = random();
        let now = Instant::now();
        let mut inner = self.lock();
        inner.sessions.retain(|_, session| !session.is_over(now));
        if inner.sessions.len() >= SESSIONS {
            let idle = inner.sessions.iter().min_by_key(|(_, one)| one.seen);
            let idle = idle.map(|(key, _)| *key);
            idle.and_then(|key| inner.sessions.remove(&key));
        }
        inner.sessions.insert(hash(secret.expose()), session);
        secret
    }

    /// Whoever the cookie names. `looks` tells whether this is their own doing, which keeps them
    /// signed in.
    pub(super) fn find(&self, cookie: &str, looks: bool) -> Option<Session> {
        let (now, key) = (Instant::now(), hash(cookie));
        let mut inner = self.lock();
        let session = inner.sessions.get_mut(&key)?;
        if session.is_over(now) {
            inner.sessions.remove(&key);
            return None;
        }
        if looks {
            session.seen = now;
        }
        Some(session.clone())
    }

    /// Sends somebody away.
    pub(super) fn end(&self, cookie: &str) {
        self.lock().sessions.remove(&hash(cookie));
    }

    /// Tokens that end before this moment (seconds since 1970), each with the session that it is of.
    pub(super) fn ending(&self, before: u64) -> Vec<(Hash, Proof)> {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.sessions.retain(|_, session| !session.is_over(now));
        let sessions = inner.sessions.iter();
        let proofs = sessions.filter_map(|(key, one)| Some((*key, one.proof.clone()?)));
        proofs
            .filter(|(_, proof)| proof.identity.expires_at() < before)
            .collect()
    }

    /// Puts a newer token in the place of a session's; without one, the session ends.
    pub(super) fn renew(&self, key: &Hash, proof: Option<Proof>) {
        let mut inner = self.lock();
        match (proof, inner.sessions.get_mut(key)) {
            (Some(proof), Some(session)) => {
                session.rights = Rights::of(&proof.identity);
                session.proof = Some(proof);
            }
            (None, Some(_)) => drop(inner.sessions.remove(key)),
            (_, None) => {}
        }
    }
}

/// A secret with more random bits than anybody guesses.
pub(super) fn random() -> Secret {
    let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    Secret::new(halves.map(|half| half.simple().to_string()).concat())
}

/// What stands for a secret where the secret itself must not be kept.
pub(super) fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> Session {
        let rights = Rights {
            content: false,
            change: false,
        };
        Session::new(PrincipalId::new(name).unwrap(), name.into(), rights, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_good_once_and_not_for_long() {
        let sessions = Sessions::default();
        let (one, two) = (sessions.new_link(), sessions.new_link());
        assert!(!sessions.use_link("nothing"));
        assert!(sessions.use_link(one.expose()));
        assert!(!sessions.use_link(one.expose()));
        tokio::time::advance(LINK_LIFE).await;
        assert!(!sessions.use_link(two.expose()));
        let first = sessions.new_link();
        let last = (0..LINKS).map(|_| sessions.new_link()).last().unwrap();
        assert!(!sessions.use_link(first.expose()), "only so many wait");
        assert!(sessions.use_link(last.expose()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_by_itself_when_idle_and_in_the_end() {
        let sessions = Sessions::default();
        let cookie = sessions.begin(session("anna"));
        let there = |looks| sessions.find(cookie.expose(), looks).is_some();
        assert!(sessions.find("else", true).is_none());
        for _ in 0..5 {
            tokio::time::advance(IDLE - Duration::from_secs(1)).await;
            assert!(there(true));
        }
        tokio::time::advance(IDLE - Duration::from_secs(1)).await;
        assert!(there(false));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!there(true), "what a page does by itself keeps nobody in");
        let cookie = sessions.begin(session("anna"));
        for _ in 0..24 {
            sessions.find(cookie.expose(), true);
            tokio::time::advance(SESSION_LIFE / 24).await;
        }
        assert!(sessions.find(cookie.expose(), true).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many_and_the_idle_make_room() {
        let sessions = Sessions::default();
        let first = sessions.begin(session("first"));
        let mut cookies = Vec::new();
        for _ in 0..SESSIONS {
            tokio::time::advance(Duration::from_secs(1)).await;
            cookies.push(sessions.begin(session("another")));
        }
        assert!(sessions.find(first.expose(), true).is_none());
        let all = |cookie: &Secret| sessions.find(cookie.expose(), false).is_some();
        assert!(cookies.iter().all(all));
        sessions.end(cookies[3].expose());
        assert!(!all(&cookies[3]));
    }
}
