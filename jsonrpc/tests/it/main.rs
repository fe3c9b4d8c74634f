//! Integration tests of the parser and the writer, through the public interface only.
//!
//! Rules are written as tables of inputs and expected labels; the code that checks the tables is in `classify.rs`.

#[cfg(test)]
mod acp_rules;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod cauce_rules;
#[cfg(test)]
mod classify;
#[cfg(test)]
mod complexity;
#[cfg(test)]
mod depth;
#[cfg(test)]
mod duplicate_members;
#[cfg(test)]
mod ids;
#[cfg(test)]
mod invalid_json;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reserved_methods;
#[cfg(test)]
mod response;
#[cfg(test)]
mod response_writer;
#[cfg(test)]
mod serde_round_trip;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod specification;
#[cfg(test)]
mod strategies;
