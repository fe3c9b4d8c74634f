//! Files: those that people attach, and those that agents make.
//!
//! What a file is called, what it says it is and how large it says it is are claims of whoever sent it;
//! here they are checked against its bytes. Nothing may enter that opens a path or a socket: bytes come
//! in, and a verdict, a text or other bytes go out.

mod extract;
mod kinds;
mod language;
mod make;
mod names;
mod pictures;
mod rules;

pub(crate) use extract::aside;
pub use extract::{extract_text, read_text};
pub(crate) use kinds::said as declared_kind;
pub use kinds::{Kind, examine};
pub use language::Language;
pub use make::{Made, MakeFile, Sheet, make};
pub use names::safe_name;
pub use rules::{Fault, FileRules, InputRules, Refused};

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
