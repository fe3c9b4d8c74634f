//! The error codes of the zones. No other file may write them.

use interzone_jsonrpc::ErrorCode;

/// Something of the domain went wrong; `data.error_code` says what.
pub const DOMAIN: ErrorCode = ErrorCode::new(-32000);
/// The time that there was is over. A2A uses the same number for something else, so `data.error_code`
/// is always there.
pub const TIMEOUT: ErrorCode = ErrorCode::new(-32001);
/// The platform that runs a zone has too much to do. Ours never say this; AgentCore does.
pub const PLATFORM_THROTTLED: ErrorCode = ErrorCode::new(-32053);
