//! What a zone is made of, and how it behaves. Numbers and parts only; who reads them from a file is not
//! known here.

use crate::attachments::FileLimits;
use crate::gates::GateOptions;
use crate::intake::Rules;
use crate::reply::ReplyOptions;
use crate::slack::api::Slack;
use crate::slack::tokens::Tokens;
use interzone_client::Client;
use interzone_edge::Secret;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::telemetry::Metrics;
use interzone_hub::Hub;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Looks whether something that the zone needs is there. A word says what is not.
pub type Check = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// How questions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskOptions {
    /// How many messages of a thread go along.
    pub context_messages: usize,
    /// Which files go along.
    pub files: FileLimits,
    /// Bytes of memory for the files of all questions together, as long as they are being asked.
    pub file_memory: u64,
    /// How long an answer may take, from when the question came in.
    pub budget: Duration,
    /// How often a question is tried when the Execution Zone or Slack cannot be reached, before its
    /// asker is told. A wait that Slack asks for is no try; the budget ends it.
    pub attempts: u32,
    /// Whether the Execution Zone gets the token itself. If not, it gets a word that opens nothing.
    pub forward_bot_token: bool,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self {
            context_messages: 20,
            files: FileLimits::default(),
            file_memory: 256 * 1024 * 1024,
            budget: Duration::from_secs(15 * 60),
            attempts: 3,
            forward_bot_token: false,
        }
    }
}

impl AskOptions {
    /// The memory for files in kibibytes, as much as one question may have at least.
    pub(crate) fn pages(&self) -> u32 {
        let bytes = self.file_memory.max(self.files.together);
        u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
    }
}

/// What a zone is made of.
pub struct ZoneOptions {
    /// What happens, with a store of this zone's own.
    pub hub: Hub,
    /// The way to Slack.
    pub slack: Slack,
    /// The tokens for it.
    pub tokens: Tokens,
    /// The way to the Execution Zone.
    pub client: Client,
    /// What Slack signs with. None if there is no door for it, as with Socket Mode: then all that comes
    /// to the door is refused.
    pub signing_secret: Option<Secret>,
    /// The routes by which workspaces install the app, if they can.
    pub install: Option<axum::Router>,
    /// In which messages we see a question.
    pub rules: Rules,
    /// Who may ask what.
    pub gates: GateOptions,
    /// How questions are asked.
    pub ask: AskOptions,
    /// How replies are shown.
    pub reply: ReplyOptions,
    /// What requests may cost.
    pub limits: HttpLimits,
    /// Who did what.
    pub audit: Audit,
    /// What the zone tells of itself.
    pub metrics: Arc<Metrics>,
    /// Whether anybody may read the metrics. If not, nobody may by this door.
    pub metrics_public: bool,
    /// What must be there for the zone to be ready, beside its store.
    pub checks: Vec<Check>,
    /// Says that the zone closes.
    pub stop: CancellationToken,
}
