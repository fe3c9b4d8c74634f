//! Where people sign in at an issuer elsewhere, as its own metadata say. It is asked when somebody needs it,
//! and not again for a while, however many do.

use super::code_flow::FlowError;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
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
    asked: Option<(Asking, Instant)>,
}

/// A question that all who come before its answer wait for.
type Asking = Shared<BoxFuture<'static, Option<Arc<SignInEndpoints>>>>;

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
        let (old, asking) = {
            let mut known = self.lock();
            let now = Instant::now();
            let old = match &known.found {
                Some((found, at)) if now < *at + FRESH => return Ok(Arc::clone(found)),
                old => old.as_ref().map(|(found, _)| Arc::clone(found)),
            };
            let asking = match &known.asked {
                Some((asking, _)) if asking.peek().is_none() => asking.clone(),
                Some((_, asked)) if now < *asked + PAUSE => return old.ok_or(FlowError::Away),
                _ => {
                    let asking = self.ask();
                    known.asked = Some((asking.clone(), now));
                    asking
                }
            };
            (old, asking)
        };
        match asking.await {
            Some(found) => {
                self.lock().found = Some((Arc::clone(&found), Instant::now()));
                Ok(found)
            }
            None => old.ok_or(FlowError::Away),
        }
    }

    fn ask(&self) -> Asking {
        let (issuer, http) = (self.issuer.clone(), self.http.clone());
        let asking = async move {
            match SignInEndpoints::discover(&issuer, &http).await {
                Ok(found) => Some(Arc::new(found)),
                Err(error) => {
                    tracing::warn!(%error, "it cannot be found out where people sign in");
                    None
                }
            }
        };
        asking.boxed().shared()
    }
}

#[cfg(test)]
mod tests {
    use super::Discovered;
    use interzone_edge::tls::{Trust, install_provider};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn who_comes_before_the_answer_waits_for_it() {
        install_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let place = Discovered::new(&issuer, Trust::system().client().build().unwrap());
        // It is asked once: nobody takes a second connection.
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            assert_ne!(stream.read(&mut head).await.unwrap(), 0);
            let body = format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/a","token_endpoint":"{issuer}/t"}}"#
            );
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await.unwrap();
        };
        let (first, second, ()) = tokio::join!(place.endpoints(), place.endpoints(), answer);
        assert!(first.is_ok() && second.is_ok());
        assert!(place.endpoints().await.is_ok());
        drop(listener);
        let nobody = Discovered::new(&issuer, Trust::system().client().build().unwrap());
        assert!(nobody.endpoints().await.is_err());
    }
}
