//! The error codes of ACP. No other file may write them.

use interzone_jsonrpc::ErrorCode;

/// There is no such task that the caller may see.
pub const TASK_NOT_FOUND: ErrorCode = ErrorCode::new(-40001);
/// The task is finished and takes no change.
pub const TASK_ALREADY_COMPLETED: ErrorCode = ErrorCode::new(-40002);
/// There is no such stream that the caller has to do with.
pub const STREAM_NOT_FOUND: ErrorCode = ErrorCode::new(-40003);
/// The stream takes nothing any more, or nothing now.
pub const STREAM_ALREADY_CLOSED: ErrorCode = ErrorCode::new(-40004);
/// The agent that was asked for is not there or takes no work.
pub const AGENT_NOT_AVAILABLE: ErrorCode = ErrorCode::new(-40005);
/// The token is good, the caller may not all the same.
pub const PERMISSION_DENIED: ErrorCode = ErrorCode::new(-40006);
/// The token is missing, malformed, forged, or meant for somebody else.
pub const AUTHENTICATION_FAILED: ErrorCode = ErrorCode::new(-40007);
/// The token lacks a scope.
pub const INSUFFICIENT_SCOPE: ErrorCode = ErrorCode::new(-40008);
/// The token has expired.
pub const TOKEN_EXPIRED: ErrorCode = ErrorCode::new(-40009);
/// The caller asks too often. ACP's schema has no code for it; its SDK uses this one.
pub const RATE_LIMITED: ErrorCode = ErrorCode::new(-32003);
