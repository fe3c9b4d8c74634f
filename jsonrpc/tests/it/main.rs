//! The envelope seen from outside: one binary, one file per question.
//!
//! Only the public interface is used here. What a rule demands is written as data; the code that
//! reads the tables is in `verdict.rs`.

#[cfg(test)]
mod acp_rules;
#[cfg(test)]
mod answering;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod cauce_rules;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod depth;
#[cfg(test)]
mod duplicates;
#[cfg(test)]
mod ids;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reserved;
#[cfg(test)]
mod response;
#[cfg(test)]
mod serde_both_ways;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod specification;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod text;
#[cfg(test)]
mod verdict;
