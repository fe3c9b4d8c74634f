//! JSON-RPC batches. Responses may arrive in any order and are matched by id.

use crate::client::call::PreparedCall;
use crate::client::{Client, encode_params, idempotency_of, required_scopes};
use crate::error::{Error, InvalidResponse};
use crate::methods::{ResultDecoder, decode_raw};
use crate::response;
use crate::retry::Idempotency;
use interzone_jsonrpc::{self as jsonrpc, Message, MethodName, Notification, RawJson, Request};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// A JSON-RPC batch under construction.
///
/// ```no_run
/// # use interzone_client::{Client, Error};
/// # use interzone_protocol::acp::TasksGetParams;
/// # async fn example(client: Client, one: TasksGetParams, two: TasksGetParams) -> Result<(), Error> {
/// let mut batch = client.batch();
/// let first = batch.tasks_get(&one);
/// let second = batch.tasks_get(&two);
/// let mut answers = batch.send().await?;
/// let (first, second) = (answers.take(first), answers.take(second));
/// # let _ = (first?, second?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is sent"]
#[derive(Debug)]
pub struct Batch {
    client: Client,
    messages: Vec<Message<'static>>,
    methods: Vec<String>,
    idempotency: Idempotency,
    failed: HashMap<i64, Error>,
    pending_ids: Vec<i64>,
}

/// Handle to the result of one call of a batch.
pub struct BatchHandle<T> {
    id: i64,
    decode: ResultDecoder<T>,
}

impl<T> fmt::Debug for BatchHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchHandle({})", self.id)
    }
}

impl Batch {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            messages: Vec::new(),
            methods: Vec::new(),
            idempotency: Idempotency::Idempotent,
            failed: HashMap::new(),
            pending_ids: Vec::new(),
        }
    }

    /// Adds a call by the method's name. A call that cannot be encoded fails when its result is taken; the
    /// others are sent.
    pub fn call_raw<P: Serialize + ?Sized>(
        &mut self,
        method: &str,
        params: &P,
    ) -> BatchHandle<RawJson<'static>> {
        self.add(method, params, decode_raw)
    }

    /// Adds a notification, which has no response.
    ///
    /// # Errors
    /// If the method name or the params are invalid.
    pub fn notify<P: Serialize + ?Sized>(&mut self, method: &str, params: &P) -> Result<(), Error> {
        let name = MethodName::new(method.to_owned()).map_err(|_| Error::Method)?;
        let notification = Notification::new(name).with_params(encode_params(params)?);
        self.idempotency = Idempotency::NotIdempotent;
        self.methods.push(method.to_owned());
        self.messages.push(notification.into());
        Ok(())
    }

    pub(crate) fn add<P: Serialize + ?Sized, T>(
        &mut self,
        method: &str,
        params: &P,
        decode: ResultDecoder<T>,
    ) -> BatchHandle<T> {
        let id = self.client.next_id();
        let name = MethodName::new(method.to_owned()).map_err(|_| Error::Method);
        let request = name.and_then(|name| {
            let params = encode_params(params)?;
            Ok(Request::new(id, name).with_params(params))
        });
        match request {
            Ok(request) => {
                if idempotency_of(method) == Idempotency::NotIdempotent {
                    self.idempotency = Idempotency::NotIdempotent;
                }
                self.methods.push(method.to_owned());
                self.pending_ids.push(id);
                self.messages.push(request.into());
            }
            Err(error) => {
                self.failed.insert(id, error);
            }
        }
        BatchHandle { id, decode }
    }

    /// Sends the batch. An empty batch is not sent.
    ///
    /// # Errors
    /// If the whole batch failed or was rejected. Errors of single calls are returned by
    /// [`BatchAnswers::take`].
    pub async fn send(self) -> Result<BatchAnswers, Error> {
        let mut outcomes: HashMap<i64, Result<RawJson<'static>, Error>> = (self.failed.into_iter())
            .map(|(id, error)| (id, Err(error)))
            .collect();
        let mut unmatched_ids = Vec::new();
        let mut messages = self.messages.into_iter();
        if let Some(first) = messages.next() {
            let batch = messages.fold(jsonrpc::Batch::new(first), jsonrpc::Batch::with_message);
            let call = PreparedCall {
                body: batch.to_vec().into(),
                scopes: required_scopes(self.methods.iter().map(String::as_str)),
                idempotency: self.idempotency,
                timeout: self.client.batch_timeout(),
            };
            let pending_ids = &self.pending_ids;
            let post = self.client.post(&call, |reply| {
                if pending_ids.is_empty() {
                    response::check_notification(reply)?;
                    return Ok((HashMap::new(), Vec::new()));
                }
                match_responses(response::decode_batch(reply)?, reply, pending_ids)
            });
            let (matched, unmatched) = post.await?;
            outcomes.extend(matched);
            unmatched_ids = unmatched;
        }
        for id in self.pending_ids {
            let missing = || Err(InvalidResponse::Missing(id.to_string()).into());
            outcomes.entry(id).or_insert_with(missing);
        }
        Ok(BatchAnswers {
            outcomes,
            unmatched_ids,
        })
    }
}

type MatchedResponses = (HashMap<i64, Result<RawJson<'static>, Error>>, Vec<String>);

/// Matches responses to calls by id.
fn match_responses(
    responses: Vec<jsonrpc::Response<'static>>,
    reply: &crate::http_exchange::HttpReply,
    pending_ids: &[i64],
) -> Result<MatchedResponses, Error> {
    let expected_ids: std::collections::HashSet<i64> = pending_ids.iter().copied().collect();
    let mut matched = HashMap::new();
    let mut unmatched_ids = Vec::new();
    for response in responses {
        let id = response.id().and_then(jsonrpc::RequestId::as_i64);
        match id.filter(|id| expected_ids.contains(id)) {
            Some(id) if matched.contains_key(&id) => {
                // It is not possible to tell which of the two is right.
                let duplicate = InvalidResponse::Duplicate(id.to_string());
                matched.insert(id, Err(duplicate.into()));
            }
            Some(id) => {
                matched.insert(id, response::decode_response(reply, response));
            }
            None => unmatched_ids.push(
                response
                    .id()
                    .map_or_else(|| "null".to_owned(), ToString::to_string),
            ),
        }
    }
    Ok((matched, unmatched_ids))
}

/// The results of a batch.
#[derive(Debug)]
pub struct BatchAnswers {
    outcomes: HashMap<i64, Result<RawJson<'static>, Error>>,
    unmatched_ids: Vec<String>,
}

impl BatchAnswers {
    /// Removes and returns the result of one call.
    ///
    /// # Errors
    /// If the call failed, was not answered, was answered twice, or belongs to another batch.
    pub fn take<T>(&mut self, handle: BatchHandle<T>) -> Result<T, Error> {
        let outcome = self.outcomes.remove(&handle.id);
        let missing = || Err(InvalidResponse::Missing(handle.id.to_string()).into());
        (handle.decode)(&outcome.unwrap_or_else(missing)?)
    }

    /// Returns the ids, as JSON, of responses without a matching call. There are none unless the peer has a bug.
    pub fn unmatched_ids(&self) -> &[String] {
        &self.unmatched_ids
    }
}
