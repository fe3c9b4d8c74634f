//! Error codes of ACP. No other file may define them.

use interzone_jsonrpc::ErrorCode;

/// The task does not exist or is not visible to the caller.
pub const TASK_NOT_FOUND: ErrorCode = ErrorCode::new(-40001);
/// The task is finished and cannot change.
pub const TASK_ALREADY_COMPLETED: ErrorCode = ErrorCode::new(-40002);
/// The stream does not exist or the caller is not a participant.
pub const STREAM_NOT_FOUND: ErrorCode = ErrorCode::new(-40003);
/// The stream is closed or paused.
pub const STREAM_ALREADY_CLOSED: ErrorCode = ErrorCode::new(-40004);
/// The requested agent is unknown or accepts no work.
pub const AGENT_NOT_AVAILABLE: ErrorCode = ErrorCode::new(-40005);
/// The token is valid, but the caller is not permitted.
pub const PERMISSION_DENIED: ErrorCode = ErrorCode::new(-40006);
/// The token is missing, malformed, forged, or for another audience.
pub const AUTHENTICATION_FAILED: ErrorCode = ErrorCode::new(-40007);
/// The token lacks a scope.
pub const INSUFFICIENT_SCOPE: ErrorCode = ErrorCode::new(-40008);
/// The token has expired.
pub const TOKEN_EXPIRED: ErrorCode = ErrorCode::new(-40009);
/// The caller exceeded its rate limit. ACP's schema has no code for it; its SDK uses this one.
pub const RATE_LIMITED: ErrorCode = ErrorCode::new(-32003);
