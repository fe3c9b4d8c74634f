//! The reply: what a user sees of an answer, from the first sign of life to the last file. What was
//! asked and who may ask is decided elsewhere; here it is only said.

mod markdown;
mod split;
