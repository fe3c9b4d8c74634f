//! Several calls in one request. Answers may come in any order; each is handed to whom it answers.

use crate::answer;
use crate::client::call::Outgoing;
use crate::client::{Client, safety_of, scopes_of, written};
use crate::error::{AnswerFault, Error};
use crate::methods::{Reader, raw};
use crate::retry::Safety;
use interzone_jsonrpc::{self as jsonrpc, Message, MethodName, Notification, RawJson, Request};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// Calls that are sent together.
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
    safety: Safety,
    failed: HashMap<i64, Error>,
    waiting: Vec<i64>,
}

/// Stands for one call of a batch until its answer is taken.
pub struct Handle<T> {
    id: i64,
    read: Reader<T>,
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.id)
    }
}

impl Batch {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            messages: Vec::new(),
            methods: Vec::new(),
            safety: Safety::Read,
            failed: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Adds a call by the method's name. A call that cannot be written fails when its answer is
    /// taken; the others go all the same.
    pub fn call_raw<P: Serialize + ?Sized>(
        &mut self,
        method: &str,
        params: &P,
    ) -> Handle<RawJson<'static>> {
        self.add(method, params, raw)
    }

    /// Adds a notification, which has no answer.
    ///
    /// # Errors
    /// The method's name or the params cannot be sent.
    pub fn notify<P: Serialize + ?Sized>(&mut self, method: &str, params: &P) -> Result<(), Error> {
        let name = MethodName::new(method.to_owned()).map_err(|_| Error::Method)?;
        let note = Notification::new(name).with_params(written(params)?);
        self.safety = Safety::Write;
        self.methods.push(method.to_owned());
        self.messages.push(note.into());
        Ok(())
    }

    pub(crate) fn add<P: Serialize + ?Sized, T>(
        &mut self,
        method: &str,
        params: &P,
        read: Reader<T>,
    ) -> Handle<T> {
        let id = self.client.next_id();
        let name = MethodName::new(method.to_owned()).map_err(|_| Error::Method);
        let request = name.and_then(|name| {
            let params = written(params)?;
            Ok(Request::new(id, name).with_params(params))
        });
        match request {
            Ok(request) => {
                if safety_of(method) == Safety::Write {
                    self.safety = Safety::Write;
                }
                self.methods.push(method.to_owned());
                self.waiting.push(id);
                self.messages.push(request.into());
            }
            Err(error) => {
                self.failed.insert(id, error);
            }
        }
        Handle { id, read }
    }

    /// Sends the batch. One with nothing in it is not sent.
    ///
    /// # Errors
    /// The batch as a whole failed or was refused. Calls that failed alone tell so when their
    /// answers are taken.
    pub async fn send(self) -> Result<BatchAnswers, Error> {
        let mut outcomes: HashMap<i64, Result<RawJson<'static>, Error>> = (self.failed.into_iter())
            .map(|(id, error)| (id, Err(error)))
            .collect();
        let mut strays = Vec::new();
        let mut messages = self.messages.into_iter();
        if let Some(first) = messages.next() {
            let batch = messages.fold(jsonrpc::Batch::new(first), jsonrpc::Batch::with);
            let outgoing = Outgoing {
                body: batch.to_vec().into(),
                scopes: scopes_of(self.methods.iter().map(String::as_str)),
                safety: self.safety,
                limit: self.client.batch_limit(),
            };
            let waiting = &self.waiting;
            let post = self.client.post(&outgoing, |reply| {
                if waiting.is_empty() {
                    answer::taken(reply)?;
                    return Ok((HashMap::new(), Vec::new()));
                }
                sort(answer::results(reply)?, reply, waiting)
            });
            let (found, unknown) = post.await?;
            outcomes.extend(found);
            strays = unknown;
        }
        for id in self.waiting {
            let missing = || Err(AnswerFault::Missing(id.to_string()).into());
            outcomes.entry(id).or_insert_with(missing);
        }
        Ok(BatchAnswers { outcomes, strays })
    }
}

type Sorted = (HashMap<i64, Result<RawJson<'static>, Error>>, Vec<String>);

/// Finds out whom each response answers.
fn sort(
    responses: Vec<jsonrpc::Response<'static>>,
    reply: &crate::peer::Reply,
    waiting: &[i64],
) -> Result<Sorted, Error> {
    let asked: std::collections::HashSet<i64> = waiting.iter().copied().collect();
    let mut found = HashMap::new();
    let mut strays = Vec::new();
    for response in responses {
        let id = response.id().and_then(jsonrpc::RequestId::as_i64);
        match id.filter(|id| asked.contains(id)) {
            Some(id) if found.contains_key(&id) => {
                // Which of the two is true cannot be told.
                let twice = AnswerFault::Duplicate(id.to_string());
                found.insert(id, Err(twice.into()));
            }
            Some(id) => {
                found.insert(id, answer::outcome(reply, response));
            }
            None => strays.push(
                response
                    .id()
                    .map_or_else(|| "null".to_owned(), ToString::to_string),
            ),
        }
    }
    Ok((found, strays))
}

/// The answers to a batch.
#[derive(Debug)]
pub struct BatchAnswers {
    outcomes: HashMap<i64, Result<RawJson<'static>, Error>>,
    strays: Vec<String>,
}

impl BatchAnswers {
    /// What became of one call.
    ///
    /// # Errors
    /// The call was refused, not answered, answered twice, or belongs to another batch.
    pub fn take<T>(&mut self, handle: Handle<T>) -> Result<T, Error> {
        let outcome = self.outcomes.remove(&handle.id);
        let missing = || Err(AnswerFault::Missing(handle.id.to_string()).into());
        (handle.read)(&outcome.unwrap_or_else(missing)?)
    }

    /// The ids, as JSON, of answers to calls that nobody made. There are none unless the peer is
    /// mistaken.
    pub fn strays(&self) -> &[String] {
        &self.strays
    }
}
