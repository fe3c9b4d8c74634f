//! Error codes of the zones. No other file may define them.

use interzone_jsonrpc::ErrorCode;

/// Domain error; `data.error_code` gives the reason.
pub const DOMAIN: ErrorCode = ErrorCode::new(-32000);
/// Timeout. A2A uses the same number for another error, so `data.error_code` is always present.
pub const TIMEOUT: ErrorCode = ErrorCode::new(-32001);
/// The platform that hosts a zone is throttling. Interzone never sends it; AgentCore does.
pub const PLATFORM_THROTTLED: ErrorCode = ErrorCode::new(-32053);
