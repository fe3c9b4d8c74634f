//! JSON-RPC 2.0 messages: a strict, zero-copy parser and a writer.
//!
//! This crate turns bytes into classified messages and messages into bytes. It is independent of methods,
//! transports and dialects; it does no I/O, spawns nothing, keeps no state and never panics.
//!
//! # Reading
//!
//! [`parse`] is the only entry point. It returns [`Parsed::One`] or [`Parsed::Batch`], and each item is a
//! [`Message`] (a [`Request`], a [`Notification`] or a [`Response`]) or an [`InvalidMessage`] with the error, its
//! position and the response to send. A [`Policy`] sets the strictness; where one endpoint serves several dialects,
//! a [`PolicyResolver`] selects the policy by method name.
//!
//! # Responding
//!
//! [`ResponseWriter`] writes the responses into one buffer. A complete dispatcher of a server:
//!
//! ```
//! use interzone_jsonrpc::{parse, ResponseWriter, ErrorObject, ErrorCode, Item, Message, Parsed, Policy, Request};
//!
//! fn serve(bytes: &[u8]) -> Option<Vec<u8>> {
//!     let parsed = parse(bytes, &Policy::SERVER);
//!     let mut writer = ResponseWriter::for_parsed(&parsed);
//!     let mut serve_one = |item: Item| match item {
//!         Ok(Message::Request(request)) => call(&request, &mut writer),
//!         Ok(_) => {}
//!         Err(rejection) => writer.extend(rejection.response().as_ref()),
//!     };
//!     match parsed {
//!         Parsed::One(item) => serve_one(item),
//!         Parsed::Batch(items) => items.into_iter().for_each(serve_one),
//!     }
//!     writer.finish()
//! }
//!
//! fn call(request: &Request, writer: &mut ResponseWriter) {
//!     match request.method() {
//!         "subtract" => match request.decode_params::<(i64, i64)>() {
//!             Ok((a, b)) => writer.result(request, &(a - b)).unwrap_or_default(),
//!             Err(_) => writer.push(&request.fail(ErrorObject::standard(ErrorCode::INVALID_PARAMS))),
//!         },
//!         _ => writer.push(&request.fail(ErrorObject::standard(ErrorCode::METHOD_NOT_FOUND))),
//!     }
//! }
//!
//! let response = serve(br#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#);
//! assert_eq!(response.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":19}"#[..]));
//! ```
//!
//! # Calling
//!
//! An invalid message cannot be built: a [`Request`] needs an id and a [`MethodName`], a [`Response`] is a success
//! or a failure, a [`Batch`] is never empty. `to_vec` and `write_to` return the bytes.
//!
//! # serde
//!
//! All message types implement `Serialize` and `Deserialize` for `serde_json`, with the same rules: from text, a
//! reader or a `Value`, alone or as a member of a struct. They do not work in an untagged enum, under `flatten`, or
//! in formats other than JSON, because they are validated from their text. A request with a null id, which only a
//! lenient policy accepts, can be serialized but not deserialized.
//!
//! # Rules that apply under every policy
//!
//! * An id is a string or a plain 64-bit integer, and keeps its type and value.
//! * A member that the envelope defines appears at most once; a method is not empty; `jsonrpc` is `"2.0"`; a
//!   response has exactly one of `result` and `error`.
//! * Method names that begin with `rpc.` cannot be built, not through serde either, and a server answers them as
//!   unknown.
//! * A value nests at most 125 levels deep, so that it fits into any message, batch or error.
//! * Text must be UTF-8 without a byte order mark and without lone surrogate escapes, numbers must be valid JSON
//!   numbers, and no bytes may follow the message.

#![forbid(unsafe_code)]

mod call;
mod codes;
mod envelope;
mod error;
mod id;
mod invalid_message;
mod invalid_message_kind;
mod json_kind;
mod json_writer;
mod message;
mod method;
mod notification;
mod parse;
mod policy;
mod position;
mod raw;
mod request;
mod response;
mod response_writer;
mod scan;
mod serde_impls;
mod version;

pub use codes::ErrorCode;
pub use error::ErrorObject;
pub use id::RequestId;
pub use invalid_message::InvalidMessage;
pub use invalid_message_kind::InvalidMessageKind;
pub use json_kind::JsonKind;
pub use message::Message;
pub use method::{InvalidMethod, MethodName};
pub use notification::Notification;
pub use parse::{Item, Parsed, parse};
pub use policy::{
    Batches, ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, PolicyResolver,
    ReservedNames, Responses,
};
pub use position::Position;
pub use raw::RawJson;
pub use request::Request;
pub use response::Response;
pub use response_writer::{Batch, ResponseWriter};
pub use version::Version;
