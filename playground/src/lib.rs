//! A Slack workspace on your own machine.
//!
//! The part of Slack's API that the Verification Zone uses, signed events, and a chat page. It reaches the
//! zone by HTTP alone, as Slack does: no type of a zone may enter here. It is as strict as Slack where a
//! zone could go wrong, it breaks on request ([`Faults`]), and it listens on loopback only.

mod access;
mod acts;
mod api;
mod doors;
mod events;
mod faults;
mod handle;
mod options;
mod shared;
mod workspace;

pub use events::links::Farewell;
pub use faults::{EventFault, Fault, Faults, Gate, What, When};
pub use handle::{Playground, PlaygroundError, Upload};
pub use options::{Mode, PlaygroundOptions};
pub use workspace::Workspace;
pub use workspace::channels::{Channel, Kind};
pub use workspace::files::File;
pub use workspace::log::{Call, Delivery};
pub use workspace::messages::{Edited, Message, Reaction, Stream};
pub use workspace::people::User;
pub use workspace::seed;
