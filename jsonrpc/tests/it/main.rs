//! The envelope seen from outside: one binary, one file per question.
//!
//! Only the public interface is used here. What a rule demands is written as data; the code that
//! reads the tables is in `verdict.rs`.

#[cfg(test)]
mod ids;
#[cfg(test)]
mod verdict;
