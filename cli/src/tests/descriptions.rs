//! Descriptions and remedies of all error codes and label values, for the generated reference. The tests check
//! that the lists match the code in both directions. Sentences are short and for operators.

type Descriptions = &'static [(&'static str, &'static str)];

/// JSON-RPC error codes, by name of the constant.
pub(super) const RPC_CODES: Descriptions = &[
    (
        "PARSE_ERROR",
        "The body is not valid JSON. `interzone check FILE` shows the position of the error.",
    ),
    (
        "INVALID_REQUEST",
        "The message is not a valid JSON-RPC 2.0 request; `interzone check FILE` shows the error. With HTTP 4xx the HTTP request was rejected: too large, too slow, not `application/json`, or unknown path.",
    ),
    (
        "METHOD_NOT_FOUND",
        "Check the method name: [acp.md](../acp.md), [zone.md](../zone.md).",
    ),
    (
        "INVALID_PARAMS",
        "`data.field`, `data.expected` and `data.received` describe the invalid member, `data.missing` lists missing ones.",
    ),
    (
        "INTERNAL_ERROR",
        "With `data.retryAfter` the error is temporary: retry. Otherwise find the correlation id in the log, and look up the outcome below.",
    ),
    (
        "TASK_NOT_FOUND",
        "Check the id and the token: tasks of other principals are reported as not found.",
    ),
    (
        "TASK_ALREADY_COMPLETED",
        "Create a new task; `tasks.get` returns the result of this one.",
    ),
    ("STREAM_NOT_FOUND", "Check the id and the token."),
    (
        "STREAM_ALREADY_CLOSED",
        "Start a new stream. Streams without messages are closed after `limits.stream_idle_timeout`.",
    ),
    (
        "AGENT_NOT_AVAILABLE",
        "Omit `assignTo`, or name an available agent; `data.retryAfter` is the time until it is available, if known.",
    ),
    (
        "PERMISSION_DENIED",
        "The operation is not allowed for this caller; contact the operator.",
    ),
    (
        "AUTHENTICATION_FAILED",
        "Get a token at `data.tokenUrl`; `data.error_description` is the [reason](#token-error-codes) why this one was rejected.",
    ),
    (
        "INSUFFICIENT_SCOPE",
        "Get a token with all of `data.requiredScopes`; the client must have been created with them.",
    ),
    (
        "TOKEN_EXPIRED",
        "Get a new token. If the token is new, compare the clocks; `oauth.leeway` is the allowed difference.",
    ),
    (
        "RATE_LIMITED",
        "Wait for `data.retryAfter` seconds. The limits are `limits.requests_per_minute`, and `limits.watches` for watches.",
    ),
    ("DOMAIN", "See `data.error_code` below."),
    (
        "TIMEOUT",
        "See `data.error_code` below; reduce the request, or retry later.",
    ),
    (
        "PLATFORM_THROTTLED",
        "AgentCore throttled the request; retry later, or raise the runtime's quota.",
    ),
];

/// Zone error codes (`ErrorReason`).
pub(super) const ZONE_ERRORS: Descriptions = &[
    (
        "parse_error",
        "As -32700 above. Clients of this project never cause it.",
    ),
    ("invalid_request", "As -32600 above."),
    (
        "method_not_found",
        "Check the method name: [zone.md](../zone.md).",
    ),
    (
        "invalid_params",
        "`data.missing` or `data.field` names the member.",
    ),
    (
        "internal_error",
        "Find the call by its id in the log: `outcome` is described [below](#call-outcomes).",
    ),
    (
        "unavailable",
        "Temporary; callers retry. If it persists, check `/readyz` of the Execution Zone.",
    ),
    (
        "bedrock_timeout",
        "The model provider is slow, or the timeouts of the agent (`timeout`, `first_token_timeout`, `idle_timeout`) are too short.",
    ),
    (
        "async_timeout",
        "The agent run exceeded `work.turn_timeout`, or the answer exceeded the caller's timeout (`verification.answer_timeout`).",
    ),
    (
        "bedrock_throttling",
        "The provider's quota is exhausted: raise it, or reduce `concurrency` of the agent.",
    ),
    (
        "throttling",
        "The quota of the platform that runs the zone is exhausted.",
    ),
    (
        "rate_limited",
        "The limits are `limits.requests_per_minute` per client and `policy.requests_per_minute` per Slack user.",
    ),
    (
        "bedrock_access_denied",
        "The model's API key is invalid or has no access to the model: check `key_env`, `key_file` or the AWS role.",
    ),
    (
        "access_denied",
        "The caller's token or role lacks a permission; `interzone doctor` checks the token of a Verification Zone.",
    ),
    (
        "invalid_response",
        "The model or the peer sent an invalid response; the log has the details.",
    ),
    (
        "response_read_error",
        "The connection was closed: check proxies between the zones; their timeout must exceed `execution.sync_budget`.",
    ),
    (
        "attachment_download_failed",
        "The file could not be downloaded from Slack or from its URL; upload it again.",
    ),
    ("download_failed", "As above, for a file of an agent."),
    (
        "url_not_available",
        "The attachment has no inline content, and its URL is rejected by the egress filter or not https: see `egress.allow`.",
    ),
    (
        "file_too_large",
        "The limits are in `[attachments]`, and in `[files]` for files that agents produce.",
    ),
    (
        "file_bomb",
        "The document is larger than `attachments.unpacked_bytes` uncompressed, has more pages than `attachments.pages`, or needs more than `attachments.extract_memory` to read.",
    ),
    (
        "unsupported_file_type",
        "[files.md](../files.md) lists the supported types.",
    ),
    (
        "unsupported_image_type",
        "Supported are PNG, JPEG, GIF and WebP; the content must match the declared type.",
    ),
    (
        "unsupported_type",
        "[files.md](../files.md) lists the supported types.",
    ),
    (
        "extraction_failed",
        "The document is damaged, or reading it took longer than `attachments.extract_cpu_time`.",
    ),
    (
        "file_encrypted",
        "The file is encrypted; send it without a password.",
    ),
    (
        "file_reader_unavailable",
        "The zone could not start a file reader process for 15 seconds (`file reader cannot be started` in the log: raise the zone's limits on processes, open files and memory), or too many files were waiting.",
    ),
    (
        "tool_failure",
        "The model requested a file that cannot be created; ask again, more precisely.",
    ),
    (
        "async_task_failed",
        "`interzone requests ID` shows the outcome of the task.",
    ),
    (
        "poll_error",
        "The Execution Zone did not answer while the task was running: check its `/readyz` and the network.",
    ),
    ("missing_text", "The message contains no text."),
    ("canceled", "The task was canceled."),
    (
        "agent_failed",
        "The agent's message is in the task; for a failed run see [agent error codes](#agent-error-codes).",
    ),
    ("agent_rejected", "The agent's message is in the task."),
    (
        "agent_unavailable",
        "The agent's program does not start, its peer is unreachable, or no agent has the skill: see Agents in the console, and the log.",
    ),
    ("task_finished", "The task has finished; create a new one."),
    (
        "task_not_waiting",
        "The agent's question was already answered, or there is none.",
    ),
    (
        "task_not_found",
        "Check the id and the token; finished tasks are deleted after `retention.finished`.",
    ),
];

/// Call outcomes.
pub(super) const CALL_OUTCOMES: Descriptions = &[
    (
        "task_not_found",
        "No such task, or it belongs to another principal. Caller error.",
    ),
    ("task_finished", "Change of a finished task. Caller error."),
    (
        "illegal_move",
        "Not allowed in the task's state, such as answering a question that was not asked.",
    ),
    (
        "stream_not_found",
        "No such stream, or it belongs to another principal.",
    ),
    ("stream_not_active", "Message on a closed or paused stream."),
    (
        "agent_unavailable",
        "No agent is available: its program or peer is down, or no agent has the skill. See Agents in the console.",
    ),
    ("not_allowed", "Not allowed for this caller."),
    (
        "invalid_params",
        "Invalid params. The response names the member.",
    ),
    (
        "unknown_method",
        "Unknown method. The name comes from the caller, so metrics count it as `unknown`.",
    ),
    (
        "rate_limited",
        "Over `limits.requests_per_minute`. Raise it, or contact the caller.",
    ),
    (
        "too_many_watches",
        "Over `limits.watches` for one caller: it opens watches and does not close them.",
    ),
    ("token_missing", "No token. The client is not configured."),
    (
        "token_malformed",
        "The header is not `Authorization: Bearer …`.",
    ),
    (
        "token_invalid",
        "The token is invalid: see [token error codes](#token-error-codes). Many at once indicate an attack, or a changed issuer.",
    ),
    (
        "token_expired",
        "The token has expired. Occasionally this is normal; if it is permanent, the clocks differ.",
    ),
    (
        "issuer_unavailable",
        "The issuer's keys or its introspection endpoint cannot be reached: check `oauth.issuer`, DNS and outgoing connections.",
    ),
    (
        "insufficient_scope",
        "The client lacks a scope: create it again with `interzone client add --scope …`.",
    ),
    (
        "too_large",
        "Request body, or responses of a batch, over `limits.body`.",
    ),
    (
        "too_slow",
        "Body slower than `limits.body_timeout` or `limits.min_body_rate`, or call longer than `limits.request_timeout`.",
    ),
    (
        "too_many_uploads",
        "Too many request bodies were being received, so this one was aborted. If they come from one address: an attack, or callers [behind a proxy](../deploy.md#behind-a-proxy).",
    ),
    (
        "broken_body",
        "The client disconnected while sending its request.",
    ),
    (
        "media_type",
        "The content type is not `application/json`, or the body is compressed.",
    ),
    (
        "bad_host",
        "Missing, duplicate or malformed `Host` header: a broken proxy, or a scan.",
    ),
    ("nowhere", "Unknown path."),
    (
        "wrong_verb",
        "HTTP method not allowed for this path; `Allow` lists the allowed ones.",
    ),
    (
        "no_upgrade",
        "WebSocket path requested without a WebSocket handshake: check that the proxy forwards `Upgrade`.",
    ),
    (
        "busy",
        "More than `limits.requests` concurrent requests; callers are asked to retry. If it persists, add nodes.",
    ),
    (
        "principal_share",
        "One caller has used its share of `limits.requests` and is asked to retry; others are not affected. If it persists, the caller should wait for its responses, or lower `limits.principal_share`.",
    ),
    (
        "memory_limit",
        "The memory budget for bodies, responses or reads is used up. Temporary.",
    ),
    (
        "contended",
        "Too many concurrent changes of the same task; the caller retries.",
    ),
    (
        "stopped",
        "The node was shutting down, or its lease was lost.",
    ),
    (
        "store_full",
        "**The disk is full.** Free some space; the zone recovers automatically.",
    ),
    (
        "store_unavailable",
        "**The database cannot be reached.** The zone recovers when it is back. With SQLite, the disk may have [failed](../operations.md#a-disk-that-fails); then the process exits and must be restarted.",
    ),
    (
        "store_in_doubt",
        "The database connection was lost during a commit and did not come back. The caller must check the result before it retries.",
    ),
    (
        "store_unusable",
        "**The store cannot be used:** wrong permissions, or a file of a newer version. The log has the reason.",
    ),
    (
        "store_corrupt",
        "**Stored data cannot be read.** Stop the node and [restore the backup](../operations.md#restore).",
    ),
    ("store", "Other store error; the log has the details."),
    (
        "unwritable_event",
        "An event could not be written as JSON: a bug. Report it with the log.",
    ),
    (
        "cannot_stream",
        "The method streams its reply, which a batch cannot contain. The caller sends it alone.",
    ),
    (
        "not_a_task",
        "A stream where a task was expected: a bug. Report it.",
    ),
    (
        "panic",
        "A handler panicked: a bug. Report it with the log.",
    ),
    ("target", "A URL could not be stored: a bug. Report it."),
];

/// Agent error codes.
pub(super) const AGENT_ERRORS: Descriptions = &[
    (
        "agent_died",
        "The program exited during a run. It is restarted with increasing delay; its last output is in the log at level `debug`.",
    ),
    (
        "agent_error",
        "The program returned a JSON-RPC error; the message is in the log.",
    ),
    (
        "agent_output",
        "The output exceeds a limit: too many or too large artifacts, or a file that `[files]` does not allow.",
    ),
    (
        "agent_panicked",
        "A built-in agent panicked: a bug. Report it.",
    ),
    (
        "agent_protocol",
        "The program wrote a line that is too long or not a message of [the protocol](../../examples/agents/README.md).",
    ),
    (
        "agent_stopped",
        "The run was stopped. Only used in the log.",
    ),
    ("agent_timeout", "The run exceeded `work.turn_timeout`."),
    (
        "agent_unavailable",
        "The program does not start: check `command`, `cwd` and the log.",
    ),
];

/// Readiness reasons.
pub(super) const READINESS_REASONS: Descriptions = &[
    (
        "store_unavailable",
        "The database does not respond, or the disk is full. The log has the reason.",
    ),
    (
        "store_too_slow",
        "A small write took longer than two seconds.",
    ),
    (
        "no_agent_available",
        "No agent is available: programs do not start, or peers are unreachable.",
    ),
    ("closing", "The node is shutting down."),
    ("stopping", "The node is shutting down."),
    (
        "workers",
        "A background worker has ended or keeps failing; see the log. Restart the node if it does not recover.",
    ),
    (
        "execution_zone",
        "In `away`: the Execution Zone is unreachable. Run `interzone doctor`.",
    ),
    ("slack", "In `away`: Slack is unreachable."),
    (
        "slack_token",
        "In `away`: Slack rejects a workspace's token, or it could not be renewed. The log names the workspace.",
    ),
    ("slack_socket", "In `away`: Socket Mode is not connected."),
];

/// Token error codes.
pub(super) const TOKEN_ERRORS: Descriptions = &[
    (
        "malformed_token",
        "Not a valid JWT; it may be truncated or pasted twice.",
    ),
    (
        "algorithm_not_allowed",
        "The signature algorithm is not RS256, ES256 or EdDSA: change it at the issuer.",
    ),
    (
        "not_an_access_token",
        "It is an ID token or a refresh token; send the access token.",
    ),
    (
        "unknown_key",
        "The issuer does not have this key (any more): the token is from another issuer, or `oauth.jwks_url` is wrong.",
    ),
    (
        "bad_signature",
        "The signature does not match: the token was modified or forged.",
    ),
    (
        "wrong_issuer",
        "`iss` is not exactly `oauth.issuer`; check the trailing slash.",
    ),
    (
        "wrong_audience",
        "`aud` contains none of `oauth.audience`: request a token for this zone.",
    ),
    (
        "not_yet_valid",
        "The issuer's clock is ahead by more than `oauth.leeway`.",
    ),
    (
        "no_subject",
        "The token has neither `sub` nor a client id: change it at the issuer.",
    ),
    (
        "wrong_certificate",
        "It is bound to a client certificate that this connection did not present, for example because a proxy terminates TLS.",
    ),
    (
        "revoked",
        "It was revoked: the client was removed, or its authorization code was used twice.",
    ),
    (
        "inactive",
        "According to introspection at the issuer, the token is not active: it has expired, or was issued elsewhere.",
    ),
    (
        "opaque_tokens_not_accepted",
        "It is not a JWT, and `[oauth.introspection]` is not configured.",
    ),
];

/// Label values by metric and label. A value that contains a space is a description, not a literal value.
pub(super) const LABEL_VALUES: &[(&str, &str, Descriptions)] = &[
    (
        "interzone_requests",
        "method",
        &[
            (
                "the method",
                "name of the ACP (`tasks.create`…) or zone method (`execute_task`…)",
            ),
            ("unknown", "unknown method"),
            (
                "none",
                "invalid message, or a batch whose responses were too large",
            ),
            ("tasks.events", "task watch opened"),
            ("streams.events", "stream watch opened, server-sent events"),
            ("streams.socket", "stream watch opened, WebSocket"),
            ("slack.events", "event from Slack"),
            ("slack.interactions", "button press from Slack"),
            ("slack.socket", "message from Slack in Socket Mode"),
            (
                "slack.question",
                "question from Slack finished; the duration is the total time that the user waited",
            ),
            ("slack.ask", "attempt to process a question"),
            (
                "slack.errand",
                "attempt to process another action from Slack, such as a stop",
            ),
            ("slack.post", "message or file sent to Slack"),
        ],
    ),
    (
        "interzone_requests",
        "outcome",
        &[
            ("ok", "done"),
            (
                "streaming",
                "the response is a stream that has started; its end is counted separately",
            ),
            ("accepted", "`execute_task` continues in the background"),
            ("rejected", "invalid message"),
            (
                "a code",
                "error: a [call outcome](errors.md#call-outcomes); for zone methods and `slack.question` a [zone error code](errors.md#zone-error-codes)",
            ),
            ("answered", "`slack.question`: answered"),
            ("stopped", "`slack.question`: stopped by the user"),
            (
                "unknown_entity",
                "`slack.question`: Slack does not know the user or channel",
            ),
            (
                "bad_token",
                "`slack.question`: Slack rejects the app's token, so the user could not be notified; run `interzone doctor`",
            ),
            (
                "missing_permission",
                "`slack.question`: the app lacks a Slack permission; run `interzone doctor`",
            ),
            (
                "slack_busy",
                "`slack.question`: Slack limited the rate of user lookups for longer than `verification.answer_timeout`; the user was asked to try again",
            ),
            (
                "team_not_listed",
                "`slack.question`: not in `policy.teams`; similarly `channel_not_listed` and `user_not_listed`. See `interzone policy explain`",
            ),
            (
                "teams_empty",
                "`slack.question`: `policy.teams` is empty; similarly `channels_empty` and `users_empty`",
            ),
            ("empty", "`slack.question`: empty question"),
            (
                "too_long",
                "`slack.question`: over `verification.input_chars`",
            ),
            (
                "question",
                "`slack.events`, `slack.socket`: question accepted",
            ),
            (
                "followed",
                "the same: reply in a followed thread, which may be a question",
            ),
            ("feedback", "the same: feedback (thumbs up or down)"),
            (
                "stop",
                "the same: Stop was pressed, or the question was deleted",
            ),
            (
                "installation",
                "the same: the app was uninstalled or its tokens were revoked",
            ),
            ("duplicate", "the same: duplicate delivery"),
            (
                "ignored",
                "the same: not relevant, such as messages of bots",
            ),
            (
                "rate_limited",
                "the same: Slack suspends the delivery of events for a while; for calls see above",
            ),
            ("challenge", "the same: URL verification by Slack"),
            ("unreadable", "the same: button with an invalid value"),
            ("unsigned", "the same: invalid signature"),
            (
                "unavailable",
                "the same: could not be stored; Slack will send it again",
            ),
            (
                "delivered",
                "`slack.ask`, `slack.errand`, `slack.post`: done",
            ),
            ("retry", "the same: it will be retried"),
            (
                "dead_letter",
                "the same: failed after the last attempt; a dead letter",
            ),
        ],
    ),
    (
        "interzone_request_duration_seconds",
        "method",
        &[("the method", "as above")],
    ),
    (
        "interzone_requests_rejected",
        "reason",
        &[
            ("busy", "more than `limits.requests` concurrent requests"),
            (
                "principal_share",
                "one caller has used its share of `limits.requests`",
            ),
            (
                "address_share",
                "requests of one address whose tokens are being verified at the issuer have used its share of `limits.requests`",
            ),
            (
                "too_many_uploads",
                "aborted while its body was being received: more than `limits.pending_bodies` at once, or the share of its address",
            ),
            (
                "too_slow",
                "longer than `limits.request_timeout`, or a body that took longer than `limits.body_timeout` or was slower than `limits.min_body_rate`",
            ),
            ("bad_host", "missing, duplicate or malformed `Host`"),
            ("unreadable", "not an HTTP/1.1 request"),
            (
                "head_too_large",
                "path and headers over 32 KiB, or more than 100 headers",
            ),
            ("media_type", "not `application/json`, or compressed"),
            ("too_large", "over `limits.body`"),
            (
                "memory_limit",
                "the memory budget for bodies, responses, reads or watch events is used up, in total or for this caller",
            ),
            ("broken_body", "the client disconnected while sending"),
        ],
    ),
    (
        "interzone_client_terminations",
        "reason",
        &[
            (
                "stream_stalled",
                "an HTTP/2 stream was reset: the client read its response at less than 1 KiB/s for `limits.stall_timeout`",
            ),
            (
                "connection_stalled",
                "the same for an entire connection, or for a small response whose end was already queued",
            ),
            (
                "frame_flood",
                "an HTTP/2 connection was closed: too many control frames",
            ),
            (
                "unfinished_head",
                "a connection with an unfinished handshake or request head, or with many streams and no authenticated caller, was closed: all of them exceeded `limits.head_memory`, or those of its address exceeded its share",
            ),
            (
                "stream_limit",
                "an HTTP/2 connection was closed before its streams were started: no caller was authenticated on it, and the memory of many closed connections was not free yet",
            ),
        ],
    ),
    (
        "interzone_connections_rejected",
        "reason",
        &[
            (
                "displaced",
                "evicted by a newer one of the same address, which has used its share of `limits.connections`; it was not in use",
            ),
            (
                "address_share",
                "rejected: all others of the same address are in use, and are its share of `limits.connections`",
            ),
        ],
    ),
    (
        "interzone_tls_handshakes",
        "outcome",
        &[
            ("ok", "done"),
            ("failed", "no common version, or a bad certificate"),
            ("disconnected", "the client disconnected"),
            ("plain_http", "plain HTTP on the TLS port"),
            ("not_tls", "neither TLS nor HTTP"),
            ("too_slow", "longer than `limits.handshake_timeout`"),
        ],
    ),
    (
        "interzone_auth_failures",
        "reason",
        &[
            ("missing", "no token"),
            ("malformed", "no bearer token"),
            (
                "invalid",
                "invalid token: [token error codes](errors.md#token-error-codes)",
            ),
            ("expired", "an expired token"),
            ("unavailable", "the issuer is unreachable"),
            (
                "no_signing_secret",
                "from Slack, by HTTP, in Socket Mode without a signing secret",
            ),
            ("signature_missing", "from Slack: no signature"),
            ("signature_bad_time", "from Slack: invalid timestamp"),
            (
                "signature_wrong_time",
                "from Slack: older than five minutes; compare the clocks",
            ),
            (
                "signature_wrong",
                "from Slack: the secret is of another app, or it is not Slack",
            ),
        ],
    ),
    (
        "interzone_watchers",
        "kind",
        &[
            ("sse", "tasks and streams, by server-sent events"),
            ("ws", "streams, by WebSocket"),
            ("call", "calls with a streaming response"),
        ],
    ),
    (
        "interzone_queue",
        "state",
        &[
            ("waiting", "waiting for a free agent"),
            ("leased", "being processed by an agent"),
        ],
    ),
    (
        "interzone_outbox",
        "state",
        &[
            ("waiting", "waiting for delivery or retry"),
            (
                "dead",
                "dead letters, which the console shows and can resend",
            ),
        ],
    ),
    (
        "interzone_webhook_deliveries",
        "outcome",
        &[
            ("delivered", "2xx"),
            (
                "failed",
                "anything else; it is retried, or becomes a dead letter",
            ),
            ("panicked", "an internal error; it is retried"),
        ],
    ),
    (
        "interzone_agent_runs",
        "agent",
        &[("the id", "id of the agent in the configuration")],
    ),
    (
        "interzone_agent_runs",
        "outcome",
        &[
            ("completed", "done"),
            ("input_required", "the agent asks for input"),
            ("auth_required", "the user must sign in"),
            ("rejected", "rejected by the agent"),
            ("failed", "failed with a message of the agent"),
            (
                "stopped",
                "canceled, timed out, or released to another node",
            ),
            (
                "already_canceled",
                "there was nothing to do: the task had been canceled",
            ),
            (
                "lost",
                "the result could not be stored; the run is repeated",
            ),
            (
                "a code",
                "failed: [agent error codes](errors.md#agent-error-codes)",
            ),
        ],
    ),
    (
        "interzone_agent_run_duration_seconds",
        "agent",
        &[("the id", "id of the agent in the configuration")],
    ),
];
