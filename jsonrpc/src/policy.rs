//! Strictness settings of the parser: one value, so that no dialect needs a parser of its own.

use crate::scan::MAX_DEPTH;

/// Handling of a request with `"id": null`.
///
/// ```
/// use interzone_jsonrpc::{parse, NullId, Parsed, Policy};
///
/// let call = br#"{"jsonrpc":"2.0","method":"ping","id":null}"#;
/// let strict = Policy { null_id: NullId::Refuse, ..Policy::SERVER };
/// assert!(matches!(parse(call, &Policy::SERVER), Parsed::One(Ok(_))));
/// assert!(matches!(parse(call, &strict), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullId {
    /// A request, answered with `"id": null`.
    Answer,
    /// An invalid message.
    Refuse,
}

/// Handling of a call without an `id`.
///
/// ```
/// use interzone_jsonrpc::{parse, Message, MissingId, Parsed, Policy};
///
/// let call = br#"{"jsonrpc":"2.0","method":"ping"}"#;
/// let strict = Policy { missing_id: MissingId::Refuse, ..Policy::SERVER };
/// assert!(matches!(parse(call, &Policy::SERVER), Parsed::One(Ok(Message::Notification(_)))));
/// assert!(matches!(parse(call, &strict), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissingId {
    /// A notification, never answered.
    Notification,
    /// A request, answered with `"id": null`: the dialect has no notifications.
    AnswerNull,
    /// An invalid message: the dialect has no notifications.
    Refuse,
}

/// Handling of members that the envelope does not define.
///
/// It does not apply to members of `params`, `result` and `data`.
///
/// ```
/// use interzone_jsonrpc::{parse, ExtraMembers, Parsed, Policy};
///
/// let call = br#"{"jsonrpc":"2.0","method":"ping","id":1,"trace":"abc"}"#;
/// let strict = Policy { extra_members: ExtraMembers::Refuse, ..Policy::SERVER };
/// assert!(matches!(parse(call, &Policy::SERVER), Parsed::One(Ok(_))));
/// assert!(matches!(parse(call, &strict), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtraMembers {
    /// They are skipped, whatever their value.
    Ignore,
    /// They make the message invalid.
    Refuse,
}

/// Allowed types of `params`. `null` always counts as absent.
///
/// ```
/// use interzone_jsonrpc::{parse, ParamsShape, Parsed, Policy};
///
/// let call = br#"{"jsonrpc":"2.0","method":"ping","id":1,"params":"hello"}"#;
/// let lenient = Policy { params: ParamsShape::Any, ..Policy::SERVER };
/// assert!(matches!(parse(call, &lenient), Parsed::One(Ok(_))));
/// assert!(matches!(parse(call, &Policy::SERVER), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamsShape {
    /// Any JSON value; the method validates it.
    Any,
    /// An object or an array.
    Structured,
}

/// Handling of calls to method names that begin with `rpc.`.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed, Policy, ReservedNames};
///
/// let call = br#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;
/// let lenient = Policy { reserved_names: ReservedNames::Admit, ..Policy::SERVER };
/// assert!(matches!(parse(call, &lenient), Parsed::One(Ok(_))));
/// assert!(matches!(parse(call, &Policy::SERVER), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservedNames {
    /// They are answered as unknown methods and not passed on.
    Unknown,
    /// They are passed on, for tools that inspect messages.
    Admit,
}

/// Handling of batches.
///
/// ```
/// use interzone_jsonrpc::{parse, Batches, Parsed, Policy};
///
/// let two = br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
/// let up_to = |limit| Policy { batches: Batches::UpTo(limit), ..Policy::SERVER };
/// assert!(matches!(parse(two, &up_to(2)), Parsed::Batch(items) if items.len() == 2));
/// assert!(matches!(parse(two, &up_to(1)), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Batches {
    /// They are accepted, up to this many messages each. Two bytes of garbage cause an error response of about two
    /// hundred bytes, so this also bounds how much a small batch can make a server send.
    UpTo(usize),
    /// They are invalid.
    Refuse,
}

/// Handling of responses.
///
/// ```
/// use interzone_jsonrpc::{parse, Message, Parsed, Policy, Responses};
///
/// let response = br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;
/// let both_ways = Policy { responses: Responses::Admit, ..Policy::SERVER };
/// assert!(matches!(parse(response, &both_ways), Parsed::One(Ok(Message::Response(_)))));
/// assert!(matches!(parse(response, &Policy::SERVER), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Responses {
    /// They are accepted: the peer may be answering a request of this side.
    Admit,
    /// They are invalid: only calls are accepted.
    Refuse,
}

/// Handling of an error response without an `id` member.
///
/// ```
/// use interzone_jsonrpc::{parse, MissingErrorId, Parsed, Policy};
///
/// let response = br#"{"jsonrpc":"2.0","error":{"code":1,"message":"busy"}}"#;
/// let strict = Policy { missing_error_id: MissingErrorId::Refuse, ..Policy::CLIENT };
/// assert!(matches!(parse(response, &Policy::CLIENT), Parsed::One(Ok(_))));
/// assert!(matches!(parse(response, &strict), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissingErrorId {
    /// The id counts as `null`.
    Null,
    /// The response is invalid.
    Refuse,
}

/// Strictness of the parser.
///
/// These rules apply under every policy: text that is not JSON is rejected; `jsonrpc` must be `"2.0"`; a method is a
/// string that is not empty; an id is a string or an integer; a response has exactly one of `result` and `error`; a
/// member that the envelope defines may appear only once.
///
/// To customize a policy, copy one and change fields.
///
/// ```
/// use interzone_jsonrpc::{parse, MissingId, Parsed, Policy};
///
/// const NO_NOTIFICATIONS: Policy = Policy { missing_id: MissingId::Refuse, ..Policy::STANDARD };
///
/// let call = br#"{"jsonrpc":"2.0","method":"execute_task"}"#;
/// assert!(matches!(parse(call, &Policy::STANDARD), Parsed::One(Ok(_))));
/// assert!(matches!(parse(call, &NO_NOTIFICATIONS), Parsed::One(Err(_))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Handling of a request with `"id": null`.
    pub null_id: NullId,
    /// Handling of a call without an `id`.
    pub missing_id: MissingId,
    /// Handling of members that the envelope does not define.
    pub extra_members: ExtraMembers,
    /// Allowed types of `params`.
    pub params: ParamsShape,
    /// Handling of calls to method names that begin with `rpc.`.
    pub reserved_names: ReservedNames,
    /// Handling of batches.
    pub batches: Batches,
    /// Handling of responses.
    pub responses: Responses,
    /// Handling of an error response without an `id`.
    pub missing_error_id: MissingErrorId,
    /// Maximum nesting depth of `params`, `result`, `data` and every other value. The enclosing message, batch and
    /// error object are not counted, so that a value that was accepted once may be sent on in any place. More than
    /// 125 counts as 125.
    pub max_depth: u32,
}

impl Policy {
    /// Default maximum number of messages in a batch.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batches, Policy};
    ///
    /// assert_eq!(Policy::SERVER.batches, Batches::UpTo(Policy::DEFAULT_BATCH_LIMIT));
    /// ```
    pub const DEFAULT_BATCH_LIMIT: usize = 1000;

    /// The message types exactly as specified, for inspecting messages: a null id is invalid, a missing one makes a
    /// notification, members beyond the envelope are ignored, `params` may be any value, and responses and batches
    /// are accepted.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
    ///
    /// let response = br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;
    /// assert!(matches!(parse(response, &Policy::STANDARD), Parsed::One(Ok(Message::Response(_)))));
    /// let null_id = br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#;
    /// assert!(matches!(parse(null_id, &Policy::STANDARD), Parsed::One(Err(_))));
    /// ```
    pub const STANDARD: Self = Self {
        null_id: NullId::Refuse,
        missing_id: MissingId::Notification,
        extra_members: ExtraMembers::Ignore,
        params: ParamsShape::Any,
        reserved_names: ReservedNames::Admit,
        batches: Batches::UpTo(Self::DEFAULT_BATCH_LIMIT),
        responses: Responses::Admit,
        missing_error_id: MissingErrorId::Refuse,
        max_depth: MAX_DEPTH,
    };

    /// A server of JSON-RPC 2.0 as specified: a null id is answered with a null id, `params` is an object or an
    /// array, reserved names are unknown methods, and responses are rejected.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ErrorCode, Parsed, Policy};
    ///
    /// let call = br#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;
    /// let Parsed::One(Err(rejection)) = parse(call, &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.kind().code(), ErrorCode::METHOD_NOT_FOUND);
    /// ```
    pub const SERVER: Self = Self {
        null_id: NullId::Answer,
        params: ParamsShape::Structured,
        reserved_names: ReservedNames::Unknown,
        responses: Responses::Refuse,
        ..Self::STANDARD
    };

    /// A client that reads responses, lenient where that loses nothing: error responses may lack an id.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
    ///
    /// let error = br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#;
    /// let Parsed::One(Ok(Message::Response(response))) = parse(error, &Policy::CLIENT)
    /// else { unreachable!() };
    /// assert!(response.id().is_none() && response.error().is_some());
    /// ```
    pub const CLIENT: Self = Self {
        null_id: NullId::Answer,
        missing_error_id: MissingErrorId::Null,
        ..Self::STANDARD
    };
}

/// Selects the policy for a call by its method.
///
/// One endpoint may serve several dialects that differ in strictness. The default policy decides what applies before
/// the method is known: depth, batches and responses. A [`Policy`] is a resolver that always returns itself.
///
/// ```
/// use interzone_jsonrpc::{parse, MissingId, Parsed, Policy, PolicyResolver};
///
/// struct Endpoint;
/// impl PolicyResolver for Endpoint {
///     fn default_policy(&self) -> Policy {
///         Policy::SERVER
///     }
///     fn for_method(&self, method: &str) -> Policy {
///         match method {
///             "execute_task" => Policy { missing_id: MissingId::Refuse, ..self.default_policy() },
///             _ => self.default_policy(),
///         }
///     }
/// }
/// let batch = br#"[{"jsonrpc":"2.0","method":"execute_task"},{"jsonrpc":"2.0","method":"note"}]"#;
/// let Parsed::Batch(items) = parse(batch, &Endpoint) else { unreachable!() };
/// assert!(items[0].is_err());
/// assert!(items[1].is_ok());
/// ```
pub trait PolicyResolver {
    /// The policy before the method is known.
    ///
    /// ```
    /// use interzone_jsonrpc::{Policy, PolicyResolver};
    ///
    /// assert_eq!(Policy::SERVER.default_policy(), Policy::SERVER);
    /// ```
    fn default_policy(&self) -> Policy;

    /// The policy for calls to `method`, which may be any string that a peer sends.
    ///
    /// ```
    /// use interzone_jsonrpc::{Policy, PolicyResolver};
    ///
    /// assert_eq!(Policy::SERVER.for_method("any.method"), Policy::SERVER);
    /// ```
    fn for_method(&self, method: &str) -> Policy {
        let _ = method;
        self.default_policy()
    }
}

impl PolicyResolver for Policy {
    fn default_policy(&self) -> Policy {
        *self
    }
}
