//! Files: those that people attach, and those that agents make.
//!
//! What a file is called, what it says it is and how large it says it is are claims of its sender; here they
//! are checked against its bytes. Files from outside are parsed in a child process of the same binary: the
//! zone calls [`FileReader`], and the child calls [`confine`] and [`answer_request`]. Nothing here opens a
//! path or a socket: bytes come in, and a verdict, a text or other bytes go out.

mod child;
mod extract;
mod kinds;
mod language;
mod make;
mod names;
mod pictures;
mod problem;
mod reader;
mod rules;
#[cfg(target_os = "linux")]
mod sandbox;

pub use child::{ChildLimits, answer_request, confine};
pub use extract::extract_text;
pub(crate) use kinds::said as declared_kind;
pub use kinds::{Kind, examine};
pub use language::Language;
pub use make::{Made, MakeFile, Sheet, make};
pub use names::safe_name;
pub use problem::Problem;
pub use reader::{FileOwner, FileReader, SUBCOMMAND, WALL_TIME_FACTOR};
pub use rules::{Fault, FileRules, InputRules, Refused};

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
