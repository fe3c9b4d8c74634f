//! The client: one peer, and who calls it. How a call is sent, renewed and retried is in `call`, what
//! methods take and give in `methods`.

pub(crate) mod call;

use crate::Secret;
use crate::answer;
use crate::auth::Credentials;
use crate::auth::cache::Tokens;
use crate::batch::Batch;
use crate::error::{Error, TokenError};
use crate::options::{ClientBuilder, Settings};
use crate::peer::Peers;
use crate::retry::Safety;
use crate::transport::Conversation;
use call::Outgoing;
use http::HeaderValue;
use interzone_jsonrpc::{MethodName, Notification, RawJson, Request};
use interzone_protocol::{acp, zone};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use url::Url;

/// Calls one agent, or one zone of agents. Clones share connections, tokens and the circuit breaker.
///
/// ```no_run
/// use interzone_client::{Client, ClientCredentials};
/// use interzone_protocol::{acp::TasksCreateParams, vocab::Message};
///
/// # async fn example() -> Result<(), interzone_client::Error> {
/// let client = Client::builder("https://agent.example")
///     .credentials(ClientCredentials::new("reports", "s3cret"))
///     .build()?;
/// let task = client
///     .tasks_create(&TasksCreateParams {
///         initial_message: Message::user_text("Summarise the quarter"),
///         assign_to: None,
///         priority: None,
///         metadata: None,
///     })
///     .await?;
/// let mut watch = client.watch_task(&task.task_id, None);
/// while let Some(event) = watch.next().await {
///     tracing::info!(event = ?event?, "news");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
    tokens: Arc<Tokens>,
    context: Context,
}

#[derive(Debug)]
struct Inner {
    base: Url,
    settings: Settings,
    peers: Arc<Peers>,
    token_peers: Arc<Peers>,
    next_id: AtomicI64,
}

/// What goes with every call of one clone.
#[derive(Clone, Debug, Default)]
struct Context {
    correlation: Option<HeaderValue>,
    trace_parent: Option<HeaderValue>,
    timeout: Option<Duration>,
    conversation: Option<Conversation>,
}

impl Client {
    /// Begins a client for the agent at this address. `/jsonrpc` is appended to it for calls.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }

    pub(crate) fn assemble(
        base: Url,
        settings: Settings,
        peers: Arc<Peers>,
        token_peers: Arc<Peers>,
        credentials: Option<Credentials>,
    ) -> Self {
        let inner = Arc::new(Inner {
            base,
            settings,
            peers,
            token_peers,
            next_id: AtomicI64::new(1),
        });
        Self {
            tokens: Arc::new(tokens(&inner, credentials)),
            inner,
            context: Context::default(),
        }
    }

    /// The same client for somebody else: the connections stay, the tokens do not.
    #[must_use]
    pub fn with_credentials(&self, credentials: impl Into<Credentials>) -> Self {
        Self {
            inner: self.inner.clone(),
            tokens: Arc::new(tokens(&self.inner, Some(credentials.into()))),
            context: self.context.clone(),
        }
    }

    /// The same client whose calls all carry this `x-correlation-id`. Otherwise each call gets one of
    /// its own. One that no header may hold is left out.
    #[must_use]
    pub fn with_correlation(&self, id: &str) -> Self {
        let mut client = self.clone();
        client.context.correlation = HeaderValue::from_str(id).ok();
        client
    }

    /// The same client whose calls belong to a trace, by its W3C `traceparent`.
    #[must_use]
    pub fn with_trace_parent(&self, trace_parent: &str) -> Self {
        let mut client = self.clone();
        client.context.trace_parent = HeaderValue::from_str(trace_parent).ok();
        client
    }

    /// The same client whose calls may each take so long, whatever the method.
    #[must_use]
    pub fn with_timeout(&self, limit: Duration) -> Self {
        let mut client = self.clone();
        client.context.timeout = Some(limit);
        client
    }

    /// The same client whose calls belong to one conversation, such as a thread, by whatever name it
    /// has. Transports that keep a session for each conversation go by it, and others do not mind.
    #[must_use]
    pub fn with_conversation(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.context.conversation = Some(Conversation::new(name));
        client
    }

    pub(crate) fn has_conversation(&self) -> bool {
        self.context.conversation.is_some()
    }

    /// The address of the agent, without `/jsonrpc`.
    pub fn url(&self) -> &Url {
        &self.inner.base
    }

    /// A token with these scopes, from the cache if there is one.
    ///
    /// # Errors
    /// The client has no credentials, or the authorization server gives no token.
    pub async fn token(&self, scopes: &[&str]) -> Result<Secret, Error> {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let token = self.tokens.get(&sorted(scopes)).await?;
        token.ok_or_else(|| TokenError::NoCredentials.into())
    }

    /// Calls a method by its name and gives its result as it was sent. It is not retried where it
    /// might do something twice: of methods that we do not know, that is assumed.
    ///
    /// # Errors
    /// The call failed or was refused, as [`Error`] tells.
    pub async fn call_raw<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<RawJson<'static>, Error> {
        let id = self.next_id();
        let name = MethodName::new(method).map_err(|_| Error::Method)?;
        let request = Request::new(id, name).with_params(written(params)?);
        let mut body = Vec::new();
        request.write_to(&mut body);
        let outgoing = Outgoing {
            body: body.into(),
            scopes: scopes_of([method]),
            safety: safety_of(method),
            limit: self.limit(method),
        };
        let id = id.into();
        self.post(&outgoing, |reply| answer::result(reply, &id))
            .await
    }

    /// Tells the peer something without waiting for it to be done. The peer answers nothing, so all
    /// that is known afterwards is that it took the message.
    ///
    /// # Errors
    /// The peer was not reached, or refused the message as a whole.
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), Error> {
        let name = MethodName::new(method).map_err(|_| Error::Method)?;
        let note = Notification::new(name).with_params(written(params)?);
        let mut body = Vec::new();
        note.write_to(&mut body);
        let outgoing = Outgoing {
            body: body.into(),
            scopes: scopes_of([method]),
            safety: Safety::Write,
            limit: self.limit(method),
        };
        self.post(&outgoing, answer::taken).await
    }

    /// Begins a batch: several calls in one request.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    pub(crate) fn next_id(&self) -> i64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn token_peers(&self) -> &Arc<Peers> {
        &self.inner.token_peers
    }

    pub(crate) fn batch_limit(&self) -> Duration {
        let own = self.context.timeout;
        own.unwrap_or_else(|| self.inner.settings.timeouts.of_batch())
    }

    pub(crate) fn limit(&self, method: &str) -> Duration {
        let own = self.context.timeout;
        own.unwrap_or_else(|| self.inner.settings.timeouts.of(method))
    }

    /// An address below the agent's. Each piece is one segment, whatever it holds.
    pub(crate) fn at(&self, first: &str, rest: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend([first].into_iter().filter(|piece| !piece.is_empty()));
            path.extend(rest);
        }
        url
    }
}

fn tokens(inner: &Inner, credentials: Option<Credentials>) -> Tokens {
    Tokens::new(
        credentials,
        inner.base.clone(),
        inner.token_peers.clone(),
        inner.settings.clone(),
    )
}

pub(crate) fn written<P: Serialize + ?Sized>(params: &P) -> Result<RawJson<'static>, Error> {
    RawJson::of(params).map_err(|source| Error::Params(Arc::new(source)))
}

pub(crate) fn safety_of(method: &str) -> Safety {
    let acp = acp::Method::from_name(method);
    let zone = zone::Method::from_name(method);
    match (acp, zone) {
        (Some(acp::Method::TasksGet | acp::Method::TasksList | acp::Method::PairsFind), _)
        | (_, Some(zone::Method::GetTaskResult | zone::Method::GetAgentCard)) => Safety::Read,
        // What is told twice is kept once.
        (_, Some(zone::Method::Feedback)) => Safety::Read,
        _ => Safety::Write,
    }
}

/// The scopes that calls to these methods need, sorted, each once.
pub(crate) fn scopes_of<'m>(methods: impl IntoIterator<Item = &'m str>) -> Vec<String> {
    let of = |name| {
        let acp = acp::Method::from_name(name).map(|method| method.scopes().to_vec());
        acp.or_else(|| zone::Method::from_name(name).map(|method| method.scopes().to_vec()))
    };
    let scopes = methods.into_iter().filter_map(of).flatten();
    let mut scopes: Vec<String> = scopes.map(|scope| scope.name().to_owned()).collect();
    if scopes.is_empty() {
        // Every method needs this one.
        let identify = acp::Scope::AgentIdentify;
        scopes.push(identify.name().to_owned());
    }
    sorted(scopes)
}

pub(crate) fn sorted(mut scopes: Vec<String>) -> Vec<String> {
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}
