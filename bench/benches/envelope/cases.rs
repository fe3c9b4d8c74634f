//! Measured messages, as a client would send them: compact and well-formed.

/// A message and its threshold.
pub(crate) struct EnvelopeCase {
    pub(crate) name: &'static str,
    /// Builds the message; lazily, because the large one takes a while.
    pub(crate) message: fn() -> String,
    /// Maximum ratio of our instructions to the reference's.
    pub(crate) max_ratio: f64,
    /// Number of repetitions under valgrind, enough to make stray instructions negligible.
    pub(crate) rounds: u32,
}

/// All cases, small to large.
pub(crate) const CASES: [EnvelopeCase; 4] = [
    EnvelopeCase {
        name: "200 B request",
        message: || small(42),
        max_ratio: 0.55,
        rounds: 1000,
    },
    EnvelopeCase {
        name: "2 KB request",
        message: || SUBMISSION.to_owned(),
        max_ratio: 0.85,
        rounds: 500,
    },
    EnvelopeCase {
        name: "100-request batch",
        message: batch,
        max_ratio: 0.40,
        rounds: 20,
    },
    EnvelopeCase {
        name: "5 MB artifact",
        message: artifact,
        max_ratio: 1.0,
        rounds: 4,
    },
];

/// Messages that are not measured, but that all contenders must answer alike.
pub(crate) const CONTROLS: [&str; 5] = [
    r#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":"task-1"}}"#,
    r#"{"jsonrpc":"2.0","method":"tasks.undefined","id":4}"#,
    r#"{"jsonrpc":"2.0","method":"tasks.get","params":["task-1"],"id":9007199254740993}"#,
    r#"[{"jsonrpc":"2.0","method":"tasks.get","id":1},{"jsonrpc":"2.0","method":"tasks.get"},
            {"jsonrpc":"2.0","method":"tasks.undefined","id":"two \"quoted\""}]"#,
    r#"[{"jsonrpc":"2.0","method":"tasks.get"}]"#,
];

fn small(number: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"req-{number:06}","method":"tasks.send","params":{{"taskId":"task-01HX5K6Q3M8Z","message":{{"role":"user","parts":[{{"type":"TextPart","content":"Please add the figures for August."}}]}}}}}}"#
    )
}

fn batch() -> String {
    let requests: Vec<String> = (1..=100).map(small).collect();
    format!("[{}]", requests.join(","))
}

/// A file of five megabytes as base64 in a `FilePart`.
fn artifact() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const LENGTH: usize = 5_000_000;
    // Any distribution will do, as long as it is the same in every run.
    let mut state: u32 = 2_463_534_242;
    let content: String = (0..LENGTH)
        .filter_map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            ALPHABET
                .get((state % 64) as usize)
                .map(|&byte| char::from(byte))
        })
        .collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":"req-000008","method":"tasks.create","params":{{"initialMessage":{{"role":"user","parts":[{{"type":"TextPart","content":"Please summarise the attached report."}},{{"type":"FilePart","mimeType":"application/pdf","filename":"report.pdf","size":3750000,"encoding":"base64","content":"{content}"}}]}},"priority":"NORMAL"}}}}"#
    )
}

/// A task with text, data and a reference, metadata, escapes and non-ASCII letters.
const SUBMISSION: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"3f0c9a52-7d1e-4b8a-9c33-5a1f6e2d8b47","method":"tasks.create","params":{"#,
    r#""initialMessage":{"role":"user","agentId":"agent-procurement-eu-01","timestamp":"2026-03-04T09:15:27.481Z","parts":["#,
    r#"{"type":"TextPart","content":"Compare the three offers below for the office in Zürich.\nWe need delivery before 1 May, "#,
    r#"and the warranty must cover at least 36 months.\nAnswer with a short table, your recommendation and the \"deal breakers\" "#,
    r#"you found. If a price is given without VAT, say so, and compute it with 8.1 %. Delivery is to the third floor; there is a lift, but it takes no more than 600 kg, so ask whether they bring the desks in parts and whether assembly is part of the price.","mimeType":"text/plain"},"#,
    r#"{"type":"DataPart","mimeType":"application/json","content":{"currency":"CHF","offers":["#,
    r#"{"supplier":"Lindner & Söhne","offerId":"LS-2026-00417","items":[{"sku":"DESK-160-OAK","quantity":24,"unitPrice":412.50},{"sku":"CHAIR-ERGO-2","quantity":24,"unitPrice":289.90}],"shipping":480,"warrantyMonths":36,"vatIncluded":false},"#,
    r#"{"supplier":"Bureau Romand SA","offerId":"BR/88213","items":[{"sku":"TBL-1600","quantity":24,"unitPrice":398.00},{"sku":"STL-900","quantity":24,"unitPrice":310.00}],"shipping":0,"warrantyMonths":24,"vatIncluded":true},"#,
    r#"{"supplier":"Nordic Space AB","offerId":"NS-7719-C","items":[{"sku":"NS-D-160","quantity":24,"unitPrice":455.25},{"sku":"NS-C-7","quantity":24,"unitPrice":265.00}],"shipping":1250.75,"warrantyMonths":60,"vatIncluded":false}]}},"#,
    r#"{"type":"FilePart","mimeType":"application/pdf","filename":"requirements-v3.pdf","size":184320,"reference":"https://files.example.com/r/9b1c7e60","checksum":"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"}]},"#,
    r#""assignTo":"agent-analyst-07","priority":"HIGH","metadata":{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","costCenter":"CH-4410","deadline":"2026-03-06T17:00:00+01:00","tags":["procurement","furniture","zurich"],"retry":{"attempt":1,"of":3},"confidential":true,"parent":null}}}"#,
);
