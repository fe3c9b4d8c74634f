//! Input, output, round trips, cards, errors and routes of A2A.

mod cards;
mod errors;
mod input;
mod output;
mod round_trip;
mod routes;
mod versions;

use super::{Codec, InvalidField, WireFormat, WireObject};
use serde_json::Value;

/// Reads an object as a server does.
fn read<T: WireObject>(format: WireFormat, json: &Value) -> Result<T, InvalidField> {
    T::decode(&json.to_string(), Codec::server(format))
}

/// Writes an object.
fn write<T: WireObject>(format: WireFormat, object: &T) -> Value {
    serde_json::to_value(object.encode(format)).unwrap()
}
