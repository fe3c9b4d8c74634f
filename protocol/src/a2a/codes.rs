//! Error codes of A2A. No other file may define them.

use interzone_jsonrpc::ErrorCode;

/// Refused before the call was looked at: not authenticated, not permitted, too fast, overloaded. A2A has
/// no code for it; the reason says which.
pub const CALL_REFUSED: ErrorCode = ErrorCode::new(-32000);
/// The task or its push configuration does not exist or is not visible to the caller.
pub const TASK_NOT_FOUND: ErrorCode = ErrorCode::new(-32001);
/// The task is finished and cannot be canceled.
pub const TASK_NOT_CANCELABLE: ErrorCode = ErrorCode::new(-32002);
/// The agent sends no push notifications.
pub const PUSH_NOTIFICATION_NOT_SUPPORTED: ErrorCode = ErrorCode::new(-32003);
/// The operation is not possible, or not in this state of the task.
pub const UNSUPPORTED_OPERATION: ErrorCode = ErrorCode::new(-32004);
/// The agent does not accept this media type.
pub const CONTENT_TYPE_NOT_SUPPORTED: ErrorCode = ErrorCode::new(-32005);
/// The agent's answer is invalid. Interzone never sends it.
pub const INVALID_AGENT_RESPONSE: ErrorCode = ErrorCode::new(-32006);
/// The agent has no extended card.
pub const EXTENDED_AGENT_CARD_NOT_CONFIGURED: ErrorCode = ErrorCode::new(-32007);
/// The agent requires an extension that the caller did not request.
pub const EXTENSION_SUPPORT_REQUIRED: ErrorCode = ErrorCode::new(-32008);
/// The requested version of A2A is not supported.
pub const VERSION_NOT_SUPPORTED: ErrorCode = ErrorCode::new(-32009);
