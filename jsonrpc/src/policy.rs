//! How strict to be: one value, so that no dialect needs a parser of its own.

use crate::scan::DEEPEST;

/// What a request with `"id": null` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullId {
    /// A request, answered with `"id": null`.
    Answer,
    /// An invalid message.
    Refuse,
}

/// What a call without an `id` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissingId {
    /// A notification, never answered.
    Notification,
    /// An invalid message: the dialect has no notifications.
    Refuse,
}

/// What becomes of members that the envelope does not define.
///
/// The members of `params`, `result` and `data` are not the envelope's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtraMembers {
    /// They are passed over, whatever they hold.
    Ignore,
    /// They make the message invalid.
    Refuse,
}

/// What `params` may be. `null` always counts as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamsShape {
    /// Any JSON value; a method that cannot use it says so itself.
    Any,
    /// An object or an array.
    Structured,
}

/// What becomes of calls to names that begin with `rpc.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservedNames {
    /// They are answered as unknown methods before anybody sees them.
    Unknown,
    /// They are handed over; whoever asks wants to look at messages, not to serve them.
    Admit,
}

/// What becomes of arrays of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Batches {
    /// They are taken, up to this many messages each. Rubbish of two bytes earns an answer of about
    /// two hundred, so this also bounds what a small batch can make a server send.
    UpTo(usize),
    /// They are invalid.
    Refuse,
}

/// What becomes of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Responses {
    /// They are taken: the peer may be answering us.
    Admit,
    /// They are invalid: only calls are taken here.
    Refuse,
}

/// What becomes of an error response that has no `id` member at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissingErrorId {
    /// It counts as `null`.
    Null,
    /// It makes the response invalid.
    Refuse,
}

/// How strict to be with what arrives.
///
/// What no policy can change: text that is not JSON is refused; `jsonrpc` must be `"2.0"`; a method
/// is a string that is not empty; an id is a string or an integer; a response has exactly one of
/// `result` and `error`; a member that the envelope defines may stand only once.
///
/// Policies are values: take one and change what differs.
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
    /// What a request with `"id": null` is.
    pub null_id: NullId,
    /// What a call without an `id` is.
    pub missing_id: MissingId,
    /// What becomes of members that the envelope does not define.
    pub extra_members: ExtraMembers,
    /// What `params` may be.
    pub params: ParamsShape,
    /// What becomes of calls to names that begin with `rpc.`.
    pub reserved_names: ReservedNames,
    /// What becomes of arrays of messages.
    pub batches: Batches,
    /// What becomes of responses.
    pub responses: Responses,
    /// What becomes of an error response without an `id`.
    pub missing_error_id: MissingErrorId,
    /// How deep `params`, `result`, `data` and every other value may nest. The message around them,
    /// its batch and its error object are not counted, so that a value which was let in once may be
    /// sent on in any place. More than 125 counts as 125.
    pub max_depth: u32,
}

impl Policy {
    /// The most messages in a batch unless a policy says otherwise.
    pub const USUAL_BATCH: usize = 1000;

    /// The message types to the letter, for looking at messages: a null id is no id, a missing one
    /// makes a notification, members beyond the envelope are passed over, `params` may be any
    /// value, and responses and batches are taken.
    pub const STANDARD: Self = Self {
        null_id: NullId::Refuse,
        missing_id: MissingId::Notification,
        extra_members: ExtraMembers::Ignore,
        params: ParamsShape::Any,
        reserved_names: ReservedNames::Admit,
        batches: Batches::UpTo(Self::USUAL_BATCH),
        responses: Responses::Admit,
        missing_error_id: MissingErrorId::Refuse,
        max_depth: DEEPEST,
    };

    /// A server's door for JSON-RPC 2.0 as its specification has it: a null id is answered with a
    /// null id, `params` is an object or an array, reserved names are unknown methods, and
    /// responses are not taken.
    pub const SERVER: Self = Self {
        null_id: NullId::Answer,
        params: ParamsShape::Structured,
        reserved_names: ReservedNames::Unknown,
        responses: Responses::Refuse,
        ..Self::STANDARD
    };

    /// A client reading answers, lenient where that loses nothing: error responses may lack an id.
    pub const CLIENT: Self = Self {
        null_id: NullId::Answer,
        missing_error_id: MissingErrorId::Null,
        ..Self::STANDARD
    };
}

/// Finds the policy for a call once its method is known.
///
/// One endpoint may speak several dialects that differ in strictness. The door's policy rules what
/// must be known before a method is: depth, batches and responses. A [`Policy`] is a rulebook of
/// one rule.
///
/// ```
/// use interzone_jsonrpc::{parse, MissingId, Parsed, Policy, Rulebook};
///
/// struct Zone;
/// impl Rulebook for Zone {
///     fn door(&self) -> Policy {
///         Policy::SERVER
///     }
///     fn for_method(&self, method: &str) -> Policy {
///         match method {
///             "execute_task" => Policy { missing_id: MissingId::Refuse, ..self.door() },
///             _ => self.door(),
///         }
///     }
/// }
/// let door = br#"[{"jsonrpc":"2.0","method":"execute_task"},{"jsonrpc":"2.0","method":"note"}]"#;
/// let Parsed::Batch(items) = parse(door, &Zone) else { unreachable!() };
/// assert!(items[0].is_err());
/// assert!(items[1].is_ok());
/// ```
pub trait Rulebook {
    /// The policy before any method is known.
    fn door(&self) -> Policy;

    /// The policy for calls to `method`, which may be any string a peer sends.
    fn for_method(&self, method: &str) -> Policy {
        let _ = method;
        self.door()
    }
}

impl Rulebook for Policy {
    fn door(&self) -> Policy {
        *self
    }
}
