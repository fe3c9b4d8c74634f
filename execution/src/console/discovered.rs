//! Where people sign in at an issuer elsewhere, as its own metadata say. It is asked when somebody needs it,
//! and not again for a while, however many do.

use super::code_flow::FlowError;
use interzone_edge::auth::SignInEndpoints;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long what it said is believed.
const FRESH: Duration = Duration::from_secs(3600);
/// The least time between two questions that were not answered.
const PAUSE: Duration = Duration::from_secs(2);

/// An issuer whose addresses are found by its name.
pub struct Discovered {
    issuer: String,
    http: reqwest::Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    found: Option<(Arc<SignInEndpoints>, Instant)>,
    asked: Option<Instant>,
}

impl Discovered {
    /// An issuer by its name, as its tokens spell it, and what reaches it. Nothing is asked yet.
    pub fn new(issuer: impl Into<String>, http: reqwest::Client) -> Self {
        Self {
            issuer: issuer.into(),
            http,
            known: Mutex::default(),
        }
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where people sign in. What was said before holds while the issuer is away.
    pub(super) async fn endpoints(&self) -> Result<Arc<SignInEndpoints>, FlowError> {
        let old = {
            let mut known = self.lock();
            let now = Instant::now();
            let old = match &known.found {
                Some((found, at)) if now < *at + FRESH => return Ok(Arc::clone(found)),
                old => old.as_ref().map(|(found, _)| Arc::clone(found)),
            };
            if known.asked.is_some_and(|asked| now < asked + PAUSE) {
                return old.ok_or(FlowError::Away);
            }
            known.asked = Some(now);
            old
        };
        match SignInEndpoints::discover(&self.issuer, &self.http).await {
            Ok(found) => {
                let found = Arc::new(found);
                self.lock().found = Some((Arc::clone(&found), Instant::now()));
                Ok(found)
            }
            Err(error) => {
                tracing::warn!(%error, "it cannot be found out where people sign in");
                old.ok_or(FlowError::Away)
            }
        }
    }
}
