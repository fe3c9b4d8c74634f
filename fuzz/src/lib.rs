//! What must hold whatever bytes arrive. A target hands over bytes; a broken rule panics.

mod batch;
mod document;
mod oracle;

pub use batch::check_batch;
pub use document::check_document;

use interzone_jsonrpc::{Batches, ExtraMembers, MissingId, Policy, ReservedNames};

/// The strictest door that policies can make.
const STRICT: Policy = Policy {
    missing_id: MissingId::Refuse,
    extra_members: ExtraMembers::Refuse,
    batches: Batches::UpTo(3),
    max_depth: 5,
    ..Policy::SERVER
};

/// What serde reads: one message, and no reserved name.
const SINGLE: Policy = Policy {
    batches: Batches::Refuse,
    reserved_names: ReservedNames::Unknown,
    ..Policy::STANDARD
};

const POLICIES: [Policy; 5] = [
    Policy::STANDARD,
    Policy::SERVER,
    Policy::CLIENT,
    STRICT,
    SINGLE,
];
