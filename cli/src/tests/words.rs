//! What every error and every value of a label means and what to do about it, for the reference. The
//! tests beside this hold the lists to the code, both ways; sentences are for operators, and short.

type Told = &'static [(&'static str, &'static str)];

/// By the name of the constant.
pub(super) const CODES: Told = &[
    (
        "PARSE_ERROR",
        "Send JSON. `interzone check FILE` shows the place.",
    ),
    (
        "INVALID_REQUEST",
        "Send a request of JSON-RPC 2.0; `interzone check FILE` shows what is wrong. With HTTP 4xx it is the transport: too large, too slow, not `application/json`, no such address.",
    ),
    (
        "METHOD_NOT_FOUND",
        "Look at the name: [acp.md](../acp.md), [zone.md](../zone.md).",
    ),
    (
        "INVALID_PARAMS",
        "`data.field`, `data.expected` and `data.received` say which member, or `data.missing` what is absent.",
    ),
    (
        "INTERNAL_ERROR",
        "With `data.retryAfter` it passes: try again. Else look in the log for the correlation id, and below for the word.",
    ),
    (
        "TASK_NOT_FOUND",
        "Look at the id, and at whose token it is: somebody else's task answers like an unknown one.",
    ),
    (
        "TASK_ALREADY_COMPLETED",
        "Create a new task; with `tasks.get` see what this one came to.",
    ),
    (
        "STREAM_NOT_FOUND",
        "Look at the id, and at whose token it is.",
    ),
    (
        "STREAM_ALREADY_CLOSED",
        "Start a new stream. Streams on which nothing is said are closed after `limits.stream_idle`.",
    ),
    (
        "AGENT_NOT_AVAILABLE",
        "Leave `assignTo` out, or name an agent that is there; `data.retryAfter` says when it is back, if that is known.",
    ),
    ("PERMISSION_DENIED", "Ask the operator."),
    (
        "AUTHENTICATION_FAILED",
        "Get a token at `data.tokenUrl`; `data.error_description` says [what is wrong](#words-on-tokens) with this one.",
    ),
    (
        "INSUFFICIENT_SCOPE",
        "Get a token with all of `data.requiredScopes`; the client must have been made with them.",
    ),
    (
        "TOKEN_EXPIRED",
        "Get a new token. If it is new, compare the clocks; `oauth.leeway` is what they may differ.",
    ),
    (
        "RATE_LIMITED",
        "Wait for `data.retryAfter` seconds. The limits are `limits.requests_per_minute`, and `limits.watches` for what is watched.",
    ),
    ("DOMAIN", "See `data.error_code` below."),
    (
        "TIMEOUT",
        "See `data.error_code` below; ask for less, or later.",
    ),
    (
        "PLATFORM_THROTTLED",
        "AgentCore says it; try again later, or raise the runtime's quota.",
    ),
];

/// By the word.
pub(super) const ZONE: Told = &[
    (
        "parse_error",
        "As -32700 above: not one of our clients has sent it.",
    ),
    ("invalid_request", "As -32600 above."),
    (
        "method_not_found",
        "Look at the name: [zone.md](../zone.md).",
    ),
    (
        "invalid_params",
        "`data.missing` or `data.field` say which.",
    ),
    (
        "internal_error",
        "Find the call by its id in the log: `outcome` is a word below.",
    ),
    (
        "unavailable",
        "It passes, and callers try again. If not: `/readyz` of the Execution Zone.",
    ),
    (
        "bedrock_timeout",
        "The model's provider is slow, or `timeout` and its like in `[[agents]]` are short.",
    ),
    (
        "async_timeout",
        "The agent was longer at it than `work.turn`, or the caller's budget was over (`verification.budget`).",
    ),
    (
        "bedrock_throttling",
        "The provider's quota is used up: raise it, or lower `concurrency` of the agent.",
    ),
    (
        "throttling",
        "The quota of the platform that runs the zone is used up.",
    ),
    (
        "rate_limited",
        "`limits.requests_per_minute` for a client, `policy.requests_per_minute` for a person in Slack.",
    ),
    (
        "bedrock_access_denied",
        "The model's key is wrong or may not use that model: `key_env`, `key_file`, the role in AWS.",
    ),
    (
        "access_denied",
        "The caller's token or role lacks a permission; `interzone doctor` looks at a Verification Zone's.",
    ),
    (
        "invalid_response",
        "The model or the peer said what nobody can read; look in the log for the agent.",
    ),
    (
        "response_read_error",
        "The connection broke: look at proxies between the zones, and whether they wait as long as `execution.sync_budget`.",
    ),
    (
        "attachment_download_failed",
        "Slack or the address did not hand the file over; upload it again.",
    ),
    (
        "download_failed",
        "As above, for a file that an agent named.",
    ),
    (
        "url_not_available",
        "The attachment has no bytes, and its address is refused by the guard or not https: `egress.allow`.",
    ),
    (
        "file_too_large",
        "`[attachments]` says how large files may be, `[files]` for those that agents make.",
    ),
    (
        "file_bomb",
        "A document unpacks to more than `attachments.unpacked_bytes`, has more than `attachments.pages`, or takes more than `attachments.extract_memory` to read.",
    ),
    (
        "unsupported_file_type",
        "[files.md](../files.md) lists what is taken.",
    ),
    (
        "unsupported_image_type",
        "PNG, JPEG, GIF or WebP, and the bytes must be what the type says.",
    ),
    (
        "unsupported_type",
        "[files.md](../files.md) lists what is taken.",
    ),
    (
        "extraction_failed",
        "The document is damaged, or took longer than `attachments.extract_time`.",
    ),
    ("file_encrypted", "Send it without a password."),
    (
        "file_reader_unavailable",
        "The zone could not start the process that reads a file for 15 seconds (`file reader cannot be started` in the log: raise the limits on processes, open files and memory of the zone), or too many files waited to be read.",
    ),
    (
        "tool_failure",
        "The model asked for a file that cannot be made; ask again, more exactly.",
    ),
    (
        "async_task_failed",
        "`interzone pairs ID` tells what became of the task.",
    ),
    (
        "poll_error",
        "The Execution Zone did not answer while the task ran: its `/readyz`, the way between.",
    ),
    ("missing_text", "Ask something."),
    ("canceled", "Somebody called it off; nothing is wrong."),
    (
        "agent_failed",
        "The agent's own words are in the task; of one that broke, in [words of agents](#words-of-agents).",
    ),
    ("agent_rejected", "The agent's own words are in the task."),
    (
        "agent_unavailable",
        "The agent's program does not start, its peer is away, or nobody has the skill: the console's Agents, the log.",
    ),
    ("task_finished", "Begin a new task."),
    (
        "task_not_waiting",
        "The question was answered already, or never asked.",
    ),
    (
        "task_not_found",
        "Look at the id and at whose token it is; finished tasks go after `retention.finished`.",
    ),
];

/// By the word.
pub(super) const LOGGED: Told = &[
    (
        "task_not_found",
        "No such task, or somebody else's. The caller's mistake.",
    ),
    (
        "task_finished",
        "A change to a task that has ended. The caller's mistake.",
    ),
    (
        "illegal_move",
        "The task cannot do this in its state, such as answer a question that it did not ask.",
    ),
    ("stream_not_found", "No such stream, or somebody else's."),
    (
        "stream_not_active",
        "A message on a stream that is closed, or paused.",
    ),
    (
        "agent_unavailable",
        "No agent can take it: its program or peer is away, or nobody has the skill. The console's Agents tells.",
    ),
    ("not_allowed", "The hub's rules forbid it to this caller."),
    (
        "invalid_params",
        "The params do not fit. The caller is told which member.",
    ),
    (
        "unknown_method",
        "Nobody has that method. Its name is the caller's, so metrics count it as `unknown`.",
    ),
    (
        "rate_limited",
        "Over `limits.requests_per_minute`. Raise it, or talk to the caller.",
    ),
    (
        "too_many_watches",
        "Over `limits.watches` of one caller: it opens watches and does not close them.",
    ),
    ("token_missing", "No token. A client that is not set up."),
    (
        "token_malformed",
        "The header is not `Authorization: Bearer …`.",
    ),
    (
        "token_invalid",
        "The token is not good: see [words on tokens](#words-on-tokens). Many at once are an attack, or a changed issuer.",
    ),
    (
        "token_expired",
        "The token is over. Now and then that is normal; always means that clocks differ.",
    ),
    (
        "issuer_unavailable",
        "The issuer's keys or its introspection cannot be reached: look at `oauth.issuer`, DNS, the way out.",
    ),
    (
        "insufficient_scope",
        "The client lacks a scope: make it anew with `interzone client add --scope …`.",
    ),
    (
        "too_large",
        "A body over `limits.body`, or answers of a batch that are.",
    ),
    (
        "too_slow",
        "A body that took longer than `limits.body_time` or was slower than `limits.body_rate`, or a call longer than `limits.request_time`.",
    ),
    (
        "too_many_arriving",
        "So many bodies are arriving that this one was ended. By one address: an attack, or callers behind a proxy: see [behind a proxy](../deploy.md#behind-a-proxy).",
    ),
    (
        "broken_body",
        "The caller went away in the middle of its request.",
    ),
    (
        "media_type",
        "The content type is not `application/json`, or the body is packed.",
    ),
    (
        "bad_host",
        "No, two, or a malformed `Host` header: a broken proxy, or somebody who tries.",
    ),
    (
        "unreadable",
        "What came on a new connection is no request of HTTP/1.1: a broken client, or somebody who tries.",
    ),
    (
        "head_too_large",
        "By HTTP/1.1: the path and the headers have more than 32 KiB together, or there are more than 100 headers.",
    ),
    ("nowhere", "There is no such address here."),
    (
        "wrong_verb",
        "That address does not take this HTTP method; `Allow` says which it does.",
    ),
    (
        "no_upgrade",
        "A WebSocket was wanted without the handshake of one: a proxy that does not pass `Upgrade` on.",
    ),
    (
        "busy",
        "More than `limits.requests` at once: callers are told to come again. If it lasts, more nodes.",
    ),
    (
        "principal_share",
        "One caller has its share of `limits.requests` in flight, and is told to come again; others are not affected. If it lasts: let it wait for its answers, or lower `limits.principal_share`.",
    ),
    (
        "no_room",
        "Large bodies, answers or reads take all the memory that they may; it passes.",
    ),
    (
        "contended",
        "Many changed the same task at the same time; the caller tries again.",
    ),
    (
        "stopped",
        "The node was stopping, or the work was taken from it.",
    ),
    (
        "store_full",
        "**The disk is full.** Make room; it goes on by itself.",
    ),
    (
        "store_unavailable",
        "**The database cannot be reached.** It goes on by itself when it is back. With SQLite, the disk may have [failed](../operations.md#a-disk-that-fails); then the process ends, to be started again.",
    ),
    (
        "store_in_doubt",
        "The database went away in the middle of a commit and stayed away. Whoever called must look before repeating.",
    ),
    (
        "store_unusable",
        "**The store refuses to be used:** permissions, or a file of a newer version. The log says which.",
    ),
    (
        "store_corrupt",
        "**What is stored cannot be read.** Stop the node, [restore the backup](../operations.md#restore).",
    ),
    (
        "store",
        "Something else about the store; the log has the details.",
    ),
    (
        "nobody",
        "A call without an identity where there must be one: a fault of ours. Report it.",
    ),
    (
        "not_a_task",
        "A stream where a task must be: a fault of ours. Report it.",
    ),
    (
        "panic",
        "A handler broke: a fault of ours. Report it with the log.",
    ),
    (
        "target",
        "An address that could not be stored: a fault of ours. Report it.",
    ),
];

/// By the word.
pub(super) const AGENTS: Told = &[
    (
        "agent_died",
        "The program ended in the middle of its turn. It is started again, later each time; its last words are in the log at `debug`.",
    ),
    (
        "agent_error",
        "The program answered with a JSON-RPC error; its message is in the log.",
    ),
    (
        "agent_output",
        "What it said is more than is taken: too many or too large artifacts, or a file that `[files]` forbids.",
    ),
    (
        "agent_panicked",
        "A built-in agent broke: a fault of ours. Report it.",
    ),
    (
        "agent_protocol",
        "The program wrote what is no message of [the protocol](../../examples/agents/README.md), or too long a line.",
    ),
    (
        "agent_stopped",
        "It was told to stop; nobody reads this but the log.",
    ),
    ("agent_timeout", "Longer at one turn than `work.turn`."),
    (
        "agent_unavailable",
        "The program does not start: look at `command`, `cwd`, and the log.",
    ),
];

/// By the word.
pub(super) const READY: Told = &[
    (
        "store_unavailable",
        "The database does not answer, or the disk is full. The log says which.",
    ),
    (
        "store_too_slow",
        "The database took longer than two seconds for a single small write.",
    ),
    (
        "no_agent_available",
        "Not one agent can take work: programs that do not start, peers that are away.",
    ),
    ("closing", "The node is being stopped."),
    ("stopping", "The node is being stopped."),
    (
        "workers",
        "A loop that does the work has ended: restart the node, and report it with the log.",
    ),
    (
        "execution_zone",
        "In `away`: the Execution Zone does not answer, or refuses our token. `interzone doctor`.",
    ),
    ("slack", "In `away`: Slack does not answer."),
    (
        "slack_token",
        "In `away`: Slack refuses a workspace's token, or it could not be renewed. The log names the workspace.",
    ),
    ("slack_socket", "In `away`: Socket Mode has no open socket."),
];

/// By the word.
pub(super) const TOKENS: Told = &[
    (
        "malformed_token",
        "It is no JWT, and cut off or pasted twice.",
    ),
    (
        "algorithm_not_allowed",
        "Signed with something else than RS256, ES256 or EdDSA: configure the issuer.",
    ),
    (
        "not_an_access_token",
        "An ID token or a refresh token was sent; send the access token.",
    ),
    (
        "unknown_key",
        "The issuer has no such key (any more): a token of another issuer, or `oauth.jwks_url` is wrong.",
    ),
    (
        "bad_signature",
        "It was changed, or is of somebody who calls themselves the issuer.",
    ),
    (
        "wrong_issuer",
        "`iss` is not `oauth.issuer`, to the letter; look at the slash at the end.",
    ),
    (
        "wrong_audience",
        "`aud` has none of `oauth.audience`: ask the issuer for a token for this zone.",
    ),
    (
        "not_yet_valid",
        "The issuer's clock is ahead of ours by more than `oauth.leeway`.",
    ),
    (
        "no_subject",
        "It has neither `sub` nor a client: configure the issuer.",
    ),
    (
        "wrong_certificate",
        "It is bound to a client certificate that did not come with this connection; a proxy that ends TLS does that.",
    ),
    (
        "revoked",
        "It was taken back: the client was removed, or its code used twice.",
    ),
    (
        "inactive",
        "The issuer says so when asked (introspection): it is over, or of somebody else.",
    ),
    (
        "opaque_tokens_not_accepted",
        "It is no JWT, and `[oauth.introspection]` does not say whom to ask.",
    ),
];

/// The values that labels take, by metric and label. What has a space in it is a description.
pub(super) const LABELS: &[(&str, &str, Told)] = &[
    (
        "interzone_requests",
        "method",
        &[
            (
                "the method",
                "of ACP (`tasks.create`…) or between the zones (`execute_task`…), as it was called",
            ),
            ("unknown", "a method that nobody has"),
            (
                "none",
                "a message that is none, or a batch that was too large to be answered whole",
            ),
            ("tasks.events", "a watch of a task was opened"),
            (
                "streams.events",
                "a watch of a stream was opened, by server-sent events",
            ),
            (
                "streams.socket",
                "a watch of a stream was opened, by WebSocket",
            ),
            ("slack.events", "what Slack sent: an event"),
            (
                "slack.interactions",
                "what Slack sent: a button was pressed",
            ),
            ("slack.socket", "what Slack sent by Socket Mode"),
            (
                "slack.question",
                "a question from Slack came to its end; its time is all that its asker waited",
            ),
            ("slack.ask", "the work on a question was tried"),
            (
                "slack.errand",
                "something else that Slack asked for was tried, such as a stop",
            ),
            ("slack.post", "a message or a file was sent to Slack"),
        ],
    ),
    (
        "interzone_requests",
        "outcome",
        &[
            ("ok", "done"),
            (
                "streaming",
                "the answer is a stream that has begun; how it ends is counted then",
            ),
            ("accepted", "`execute_task` goes on in the background"),
            ("rejected", "no valid message"),
            (
                "a word",
                "why not: [words in the log](errors.md#words-in-the-log), and for calls between zones and `slack.question` [words between the zones](errors.md#words-between-the-zones)",
            ),
            ("answered", "`slack.question`: answered"),
            ("stopped", "`slack.question`: its asker stopped it"),
            (
                "unknown_entity",
                "`slack.question`: Slack does not know who or where it is",
            ),
            (
                "bad_token",
                "`slack.question`: Slack refuses the app's token, so that nobody could be told; `interzone doctor`",
            ),
            (
                "missing_permission",
                "`slack.question`: Slack does not let the app look; `interzone doctor`",
            ),
            (
                "slack_busy",
                "`slack.question`: Slack let nobody look who asks for longer than `verification.budget`, and the asker was told to try again",
            ),
            (
                "team_not_listed",
                "`slack.question`: not in `policy.teams`; likewise `channel_not_listed` and `user_not_listed`. `interzone policy explain` tells",
            ),
            (
                "teams_empty",
                "`slack.question`: `policy.teams` lets nobody through; likewise `channels_empty` and `users_empty`",
            ),
            ("empty", "`slack.question`: nothing was asked"),
            (
                "too_long",
                "`slack.question`: over `verification.input_chars`",
            ),
            (
                "question",
                "`slack.events`, `slack.socket`: a question was taken in",
            ),
            ("followed", "the same: a reply in a thread that may be one"),
            ("feedback", "the same: a thumb"),
            (
                "stop",
                "the same: somebody pressed Stop, or deleted the question",
            ),
            (
                "installation",
                "the same: the app was removed or its tokens taken back",
            ),
            ("duplicate", "the same: it had come before"),
            ("ignored", "the same: none of ours, such as what bots say"),
            (
                "rate_limited",
                "the same: Slack says that it sends no more for a while; of calls, see above",
            ),
            ("challenge", "the same: Slack tried the address"),
            (
                "unreadable",
                "the same: a button of ours with what we did not write",
            ),
            ("unsigned", "the same: the signature is not Slack's"),
            (
                "unavailable",
                "the same: it could not be kept, and Slack will send it again",
            ),
            ("arrived", "`slack.ask`, `slack.errand`, `slack.post`: done"),
            ("later", "the same: it will be tried again"),
            ("never", "the same: it was given up, and is a dead letter"),
        ],
    ),
    (
        "interzone_request_duration_seconds",
        "method",
        &[("the method", "as above")],
    ),
    (
        "interzone_requests_turned_away",
        "reason",
        &[
            ("busy", "more than `limits.requests` at once"),
            (
                "principal_share",
                "one caller has its share of `limits.requests` in flight",
            ),
            (
                "address_share",
                "tokens of so many requests of one address are being verified at the issuer that they are its share of `limits.requests`",
            ),
            (
                "too_many_arriving",
                "ended while its body was arriving: more than `limits.arriving` at once, or the share of its address",
            ),
            (
                "too_slow",
                "longer than `limits.request_time`, or a body that took longer than `limits.body_time` or was slower than `limits.body_rate`",
            ),
            ("bad_host", "no, two, or a malformed `Host`"),
            ("unreadable", "no request of HTTP/1.1"),
            (
                "head_too_large",
                "path and headers over 32 KiB, or more than 100 headers",
            ),
            ("media_type", "not `application/json`, or packed"),
            ("too_large", "over `limits.body`"),
            (
                "no_room",
                "too many large bodies, answers, reads or watched events at once, of all callers or of this one",
            ),
            ("broken_body", "the caller went away in the middle"),
        ],
    ),
    (
        "interzone_cut_off",
        "reason",
        &[
            (
                "stream_stalled",
                "a stream of HTTP/2 was reset: less than 1 KiB/s of its answer was read over `limits.stall_time`",
            ),
            (
                "connection_stalled",
                "the same for a whole connection, or for a small answer whose end was already queued",
            ),
            (
                "frame_flood",
                "an HTTP/2 connection was closed: too many frames that ask for nothing",
            ),
            (
                "unfinished_head",
                "a connection was closed whose handshake or head was unfinished: all together took more than `limits.heads`, or those of its address more than its share",
            ),
        ],
    ),
    (
        "interzone_connections_refused",
        "reason",
        &[
            (
                "displaced",
                "closed for a newer one of the same address, which has its share of `limits.connections`; it was not in use",
            ),
            (
                "address_share",
                "refused: all others of the same address are in use, and are its share of `limits.connections`",
            ),
        ],
    ),
    (
        "interzone_tls_handshakes",
        "outcome",
        &[
            ("ok", "done"),
            ("failed", "the two could not agree: versions, certificates"),
            ("gone", "the caller went away"),
            ("plain_http", "somebody spoke HTTP without TLS"),
            ("not_tls", "something else than TLS"),
            ("too_slow", "longer than `limits.handshake_time`"),
        ],
    ),
    (
        "interzone_auth_refusals",
        "reason",
        &[
            ("missing", "no token"),
            ("malformed", "no bearer token"),
            (
                "invalid",
                "a token that is not good: [words on tokens](errors.md#words-on-tokens)",
            ),
            ("expired", "a token that is over"),
            ("unavailable", "the issuer cannot be asked"),
            (
                "no_signing_secret",
                "from Slack, by HTTP, in Socket Mode without a signing secret",
            ),
            ("signature_missing", "from Slack: no signature"),
            ("signature_bad_time", "from Slack: a time that is none"),
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
            ("call", "calls whose answer is a stream"),
        ],
    ),
    (
        "interzone_queue",
        "state",
        &[
            ("waiting", "for an agent that is free"),
            ("held", "by an agent that works at it"),
        ],
    ),
    (
        "interzone_outbox",
        "state",
        &[
            ("waiting", "to be delivered, or to be tried again"),
            (
                "dead",
                "given up: dead letters, which the console shows and replays",
            ),
        ],
    ),
    (
        "interzone_webhook_deliveries",
        "outcome",
        &[
            ("arrived", "2xx"),
            ("failed", "anything else; it is tried again, or given up"),
            ("broke", "a fault of ours; it is tried again"),
        ],
    ),
    (
        "interzone_agent_runs",
        "agent",
        &[("the id", "as the configuration has it")],
    ),
    (
        "interzone_agent_runs",
        "outcome",
        &[
            ("completed", "done"),
            ("input_required", "it asks back"),
            ("auth_required", "somebody must sign in"),
            ("rejected", "it will not"),
            ("failed", "it could not, and said why"),
            (
                "stopped",
                "called off, out of time, or handed to another node",
            ),
            ("nothing", "there was nothing to do: it had been called off"),
            (
                "lost",
                "its end could not be kept: the store; it is run again",
            ),
            (
                "a word",
                "it broke: [words of agents](errors.md#words-of-agents)",
            ),
        ],
    ),
    (
        "interzone_agent_run_duration_seconds",
        "agent",
        &[("the id", "as the configuration has it")],
    ),
];
