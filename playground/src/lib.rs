//! A simulated Slack workspace on the local machine.
//!
//! Implements the part of Slack's API that the Verification Zone uses, signed events, and a chat page. It reaches the
//! zone by HTTP alone, as Slack does, and uses no type of a zone. It is as strict as Slack where a zone could go wrong,
//! injects faults on request ([`Faults`]), and listens on loopback only.

mod api;
mod events;
mod faults;
mod http;
mod options;
mod playground;
mod state;
mod tokens;
mod user_actions;
mod workspace;

pub use events::sockets::DisconnectReason;
pub use faults::{BreakPoint, CallFault, EventFault, FaultAction, FaultTiming, Faults};
pub use options::{DeliveryMode, PlaygroundOptions};
pub use playground::{FileShare, Playground, PlaygroundError};
pub use workspace::Workspace;
pub use workspace::channels::{ChannelKind, PlaygroundChannel};
pub use workspace::files::PlaygroundFile;
pub use workspace::log::{ApiCall, EventDelivery};
pub use workspace::messages::{EditInfo, PlaygroundMessage, Reaction, StreamStatus};
pub use workspace::seed;
pub use workspace::users::PlaygroundUser;
