//! Method of any dialect, for dispatch, metrics, audit and error mapping.

use interzone_protocol::{Dialect, acp, zone};

/// A method of a supported dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnyMethod {
    Acp(acp::Method),
    Zone(zone::Method),
}

impl AnyMethod {
    /// Returns the method with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        acp::Method::from_name(name)
            .map(Self::Acp)
            .or_else(|| zone::Method::from_name(name).map(Self::Zone))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acp(method) => method.name(),
            Self::Zone(method) => method.name(),
        }
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Acp(_) => Dialect::Acp,
            Self::Zone(_) => Dialect::Zone,
        }
    }
}
