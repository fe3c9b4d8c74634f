//! The envelope: JSON-RPC 2.0, correct to the letter, and without copies.
//!
//! This crate turns bytes into classified messages and messages into bytes. It knows no method, no
//! transport and no dialect; it does no I/O, spawns nothing, keeps no state and never panics.
//!
//! # Reading
//!
//! [`parse`] is the one way in. It gives [`Parsed::One`] or [`Parsed::Batch`], and each item is a
//! [`Message`] (a [`Request`], a [`Notification`] or a [`Response`]) or a [`Rejection`], which says
//! what is wrong, where, and what to answer. How strict to be is a [`Policy`]; where one door speaks
//! several dialects, a [`Rulebook`] finds the policy by the name of the method.
//!
//! # Answering
//!
//! [`Answers`] writes the responses into one buffer. A server's whole dispatcher is:
//!
//! ```
//! use interzone_jsonrpc::{parse, Answers, Error, ErrorCode, Item, Message, Parsed, Policy, Request};
//!
//! fn serve(bytes: &[u8]) -> Option<Vec<u8>> {
//!     let parsed = parse(bytes, &Policy::SERVER);
//!     let mut answers = Answers::to(&parsed);
//!     let mut serve_one = |item: Item| match item {
//!         Ok(Message::Request(request)) => call(&request, &mut answers),
//!         Ok(_) => {}
//!         Err(rejection) => answers.extend(rejection.answer().as_ref()),
//!     };
//!     match parsed {
//!         Parsed::One(item) => serve_one(item),
//!         Parsed::Batch(items) => items.into_iter().for_each(serve_one),
//!     }
//!     answers.finish()
//! }
//!
//! fn call(request: &Request, answers: &mut Answers) {
//!     match request.method() {
//!         "subtract" => match request.decode_params::<(i64, i64)>() {
//!             Ok((a, b)) => answers.result(request, &(a - b)).unwrap_or_default(),
//!             Err(_) => answers.push(&request.fail(Error::standard(ErrorCode::INVALID_PARAMS))),
//!         },
//!         _ => answers.push(&request.fail(Error::standard(ErrorCode::METHOD_NOT_FOUND))),
//!     }
//! }
//!
//! let answer = serve(br#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#);
//! assert_eq!(answer.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":19}"#[..]));
//! ```
//!
//! # Calling
//!
//! A message that is not valid cannot be built: a [`Request`] needs an id and a [`MethodName`], a
//! [`Response`] is a success or a failure, a [`Batch`] is never empty. `to_vec` and `write_to` give
//! the bytes.
//!
//! # serde
//!
//! All message types can be read and written by serde too, both ways and by the same rules, through
//! `serde_json`: from text, a reader or a `Value`, alone or as a member of a struct. They cannot stand
//! in an untagged enum, under `flatten`, or in another format than JSON, because they are judged by
//! their text. A request that a lenient policy let in with a null id can be written, but not read
//! back.
//!
//! # Rules that no policy changes
//!
//! * An id is a string or a plain 64-bit integer, and keeps its type and value.
//! * A member that the envelope defines stands at most once; a method is not empty; `jsonrpc` is
//!   `"2.0"`; a response has exactly one of `result` and `error`.
//! * Method names that begin with `rpc.` cannot be built, not through serde either, and a server
//!   answers them as unknown.
//! * A value nests at most 125 deep, so that it fits into any message, batch or error.
//! * Text must be UTF-8 without a byte order mark, every `\u` escape a whole character, numbers
//!   spelt as JSON spells them, and nothing may follow the message.

#![forbid(unsafe_code)]

mod answers;
mod call;
mod codes;
mod envelope;
mod error;
mod id;
mod kind;
mod message;
mod method;
mod notification;
mod parse;
mod policy;
mod position;
mod problem;
mod raw;
mod reject;
mod request;
mod response;
mod scan;
mod serde_form;
mod version;
mod write;

pub use answers::{Answers, Batch};
pub use codes::ErrorCode;
pub use error::Error;
pub use id::RequestId;
pub use kind::Kind;
pub use message::Message;
pub use method::{InvalidMethod, MethodName};
pub use notification::Notification;
pub use parse::{Item, Parsed, parse};
pub use policy::{
    Batches, ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, ReservedNames,
    Responses, Rulebook,
};
pub use position::Position;
pub use problem::Problem;
pub use raw::RawJson;
pub use reject::Rejection;
pub use request::Request;
pub use response::Response;
pub use version::Version;
pub use write::write_string;
