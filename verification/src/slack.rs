//! Slack, as the zone meets it: its ids, its Web API, its signatures, its sockets, and the tokens with
//! which it lets us in. What a question is, who may ask one and what is answered must not enter here.

pub mod ids;
