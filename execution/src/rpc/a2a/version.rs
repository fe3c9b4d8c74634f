//! The version that a request names. The method's name selects the wire format; the version only refuses what is not
//! served.

use super::{A2A_VERSION, errors};
use crate::rpc::context::DeclaredFields;
use crate::rpc::errors::{CallError, truncate_echo};
use interzone_protocol::a2a::{A2aError, RequestedVersion, VersionPolicy, WireFormat};

/// Refuses a request whose version is not served in this format.
pub(super) fn check(fields: &DeclaredFields, format: WireFormat) -> Result<(), CallError> {
    let header = A2A_VERSION;
    let lines = fields.header(&header);
    let lines: Vec<_> = lines
        .map(|line| String::from_utf8_lossy(line.as_bytes()))
        .collect();
    let header = (!lines.is_empty()).then(|| lines.join(","));
    let query = fields.query_parameter(RequestedVersion::NAME);
    let version = RequestedVersion::parse(header.as_deref(), query);
    let checked = version.check(format, VersionPolicy::default());
    checked.map_err(|mut unsupported| {
        unsupported.requested = truncate_echo(&unsupported.requested);
        errors::refuse(A2aError::from(unsupported), format)
    })
}
