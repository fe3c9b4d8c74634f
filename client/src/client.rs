//! The client of one peer with one set of credentials. Sending and retrying is in `call`, the typed methods are
//! in `methods`.

pub(crate) mod call;

use crate::Secret;
use crate::auth::Credentials;
use crate::auth::token_cache::TokenCache;
use crate::batch::Batch;
use crate::error::{Error, TokenError};
use crate::http_exchange::PeerPool;
use crate::options::{ClientBuilder, ClientSettings};
use crate::response;
use crate::retry::Idempotency;
use crate::transport::ConversationName;
use call::PreparedCall;
use http::HeaderValue;
use interzone_jsonrpc::{MethodName, Notification, RawJson, Request};
use interzone_protocol::{Scope, acp, zone};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use url::Url;

/// Client of one agent or zone. Clones share connections, tokens and the circuit breaker.
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
///     tracing::info!(event = ?event?, "task event");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
    tokens: Arc<TokenCache>,
    context: CallContext,
}

#[derive(Debug)]
struct ClientShared {
    base: Url,
    settings: ClientSettings,
    peers: Arc<PeerPool>,
    token_peers: Arc<PeerPool>,
    next_id: AtomicI64,
}

/// Per-clone options of calls.
#[derive(Clone, Debug, Default)]
struct CallContext {
    correlation: Option<HeaderValue>,
    trace_parent: Option<HeaderValue>,
    timeout: Option<Duration>,
    conversation: Option<ConversationName>,
}

impl Client {
    /// Starts building a client for the agent at this URL. `/jsonrpc` is appended to it for calls.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }

    pub(crate) fn assemble(
        base: Url,
        settings: ClientSettings,
        peers: Arc<PeerPool>,
        token_peers: Arc<PeerPool>,
        credentials: Option<Credentials>,
    ) -> Self {
        let inner = Arc::new(ClientShared {
            base,
            settings,
            peers,
            token_peers,
            next_id: AtomicI64::new(1),
        });
        Self {
            tokens: Arc::new(new_token_cache(&inner, credentials)),
            shared: inner,
            context: CallContext::default(),
        }
    }

    /// Returns a client with other credentials: connections are shared, tokens are not.
    #[must_use]
    pub fn with_credentials(&self, credentials: impl Into<Credentials>) -> Self {
        Self {
            shared: self.shared.clone(),
            tokens: Arc::new(new_token_cache(&self.shared, Some(credentials.into()))),
            context: self.context.clone(),
        }
    }

    /// Returns a client whose calls all have this `x-correlation-id`. By default each call gets a new one. An
    /// id that is not a valid header value is ignored.
    #[must_use]
    pub fn with_correlation(&self, id: &str) -> Self {
        let mut client = self.clone();
        client.context.correlation = HeaderValue::from_str(id).ok();
        client
    }

    /// Returns a client whose calls belong to a trace, by its W3C `traceparent`.
    #[must_use]
    pub fn with_trace_parent(&self, trace_parent: &str) -> Self {
        let mut client = self.clone();
        client.context.trace_parent = HeaderValue::from_str(trace_parent).ok();
        client
    }

    /// Returns a client with this timeout per call, for every method.
    #[must_use]
    pub fn with_timeout(&self, limit: Duration) -> Self {
        let mut client = self.clone();
        client.context.timeout = Some(limit);
        client
    }

    /// Returns a client whose calls belong to one conversation, such as a thread. Transports with a session per
    /// conversation use the name, others ignore it.
    #[must_use]
    pub fn with_conversation(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.context.conversation = Some(ConversationName::new(name));
        client
    }

    pub(crate) fn has_conversation(&self) -> bool {
        self.context.conversation.is_some()
    }

    /// Returns the URL of the agent, without `/jsonrpc`.
    pub fn url(&self) -> &Url {
        &self.shared.base
    }

    /// Returns a token with these scopes, from the cache if possible.
    ///
    /// # Errors
    /// If the client has no credentials, or the authorization server issues no token.
    pub async fn token(&self, scopes: &[&str]) -> Result<Secret, Error> {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let token = self.tokens.get(&sort_scopes(scopes)).await?;
        token.ok_or_else(|| TokenError::NoCredentials.into())
    }

    /// Calls a method by name and returns the undecoded result. It is not retried unless the method is known to
    /// be idempotent.
    ///
    /// # Errors
    /// If the call failed; see [`Error`].
    pub async fn call_raw<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<RawJson<'static>, Error> {
        let id = self.next_id();
        let name = MethodName::new(method).map_err(|_| Error::Method)?;
        let request = Request::new(id, name).with_params(encode_params(params)?);
        let mut body = Vec::new();
        request.write_to(&mut body);
        let call = PreparedCall {
            body: body.into(),
            scopes: required_scopes([method]),
            idempotency: idempotency_of(method),
            timeout: self.timeout(method),
        };
        let id = id.into();
        self.post(&call, |reply| response::decode_result(reply, &id))
            .await
    }

    /// Sends a notification. The peer sends no response, so success means only that it accepted the message.
    ///
    /// # Errors
    /// If the peer was not reached, or rejected the message.
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), Error> {
        let name = MethodName::new(method).map_err(|_| Error::Method)?;
        let notification = Notification::new(name).with_params(encode_params(params)?);
        let mut body = Vec::new();
        notification.write_to(&mut body);
        let call = PreparedCall {
            body: body.into(),
            scopes: required_scopes([method]),
            idempotency: Idempotency::NotIdempotent,
            timeout: self.timeout(method),
        };
        self.post(&call, response::check_notification).await
    }

    /// Starts a batch: several calls in one request.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    pub(crate) fn next_id(&self) -> i64 {
        self.shared.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn settings(&self) -> &ClientSettings {
        &self.shared.settings
    }

    pub(crate) fn token_peers(&self) -> &Arc<PeerPool> {
        &self.shared.token_peers
    }

    pub(crate) fn batch_timeout(&self) -> Duration {
        let timeout = self.context.timeout;
        timeout.unwrap_or_else(|| self.shared.settings.timeouts.for_batch())
    }

    pub(crate) fn timeout(&self, method: &str) -> Duration {
        let timeout = self.context.timeout;
        timeout.unwrap_or_else(|| self.shared.settings.timeouts.for_method(method))
    }

    /// Returns a URL below the agent's. Each part is one escaped path segment.
    pub(crate) fn endpoint_url(&self, first: &str, segments: &[&str]) -> Url {
        let mut url = self.shared.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend([first].into_iter().filter(|piece| !piece.is_empty()));
            path.extend(segments);
        }
        url
    }
}

fn new_token_cache(inner: &ClientShared, credentials: Option<Credentials>) -> TokenCache {
    TokenCache::new(
        credentials,
        inner.base.clone(),
        inner.token_peers.clone(),
        inner.settings.clone(),
    )
}

pub(crate) fn encode_params<P: Serialize + ?Sized>(params: &P) -> Result<RawJson<'static>, Error> {
    RawJson::from_value(params).map_err(|source| Error::Params(Arc::new(source)))
}

pub(crate) fn idempotency_of(method: &str) -> Idempotency {
    let acp = acp::Method::from_name(method);
    let zone = zone::Method::from_name(method);
    match (acp, zone) {
        (Some(acp::Method::TasksGet | acp::Method::TasksList | acp::Method::RequestsFind), _)
        | (_, Some(zone::Method::GetTaskResult | zone::Method::GetAgentCard)) => {
            Idempotency::Idempotent
        }
        // Repeated feedback is stored once.
        (_, Some(zone::Method::Feedback)) => Idempotency::Idempotent,
        _ => Idempotency::NotIdempotent,
    }
}

/// Returns the scopes needed by these methods, sorted and without duplicates.
pub(crate) fn required_scopes<'m>(methods: impl IntoIterator<Item = &'m str>) -> Vec<String> {
    let method_scopes = |name| {
        let acp = acp::Method::from_name(name).map(|method| method.scopes().to_vec());
        acp.or_else(|| zone::Method::from_name(name).map(|method| method.scopes().to_vec()))
    };
    let scopes = methods.into_iter().filter_map(method_scopes).flatten();
    let mut scopes: Vec<String> = scopes.map(|scope| scope.name().to_owned()).collect();
    if scopes.is_empty() {
        // Every method needs this one.
        let identify = Scope::AgentIdentify;
        scopes.push(identify.name().to_owned());
    }
    sort_scopes(scopes)
}

pub(crate) fn sort_scopes(mut scopes: Vec<String>) -> Vec<String> {
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}
