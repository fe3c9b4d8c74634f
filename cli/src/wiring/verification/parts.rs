//! What the parts of a Verification Zone are told, from the configuration.

use crate::config::{
    InstallConfig, SlackConfig, SlackMode, VerificationConfig, VerifyConfig, Words,
};
use crate::wiring::StartError;
use interzone_edge::tls::Trust;
use interzone_hub::SystemClock;
use interzone_hub::ports::RecordStore;
use interzone_verification::intake::Rules;
use interzone_verification::policy::Policy;
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::api::oauth::OauthApp;
use interzone_verification::slack::ids::ChannelId;
use interzone_verification::slack::install::{Install, InstallOptions};
use interzone_verification::slack::socket::SocketMode;
use interzone_verification::slack::tokens::{BotToken, Installs, Tokens, TokensOptions};
use interzone_verification::slack::vault::Vault;
use interzone_verification::workers::{ChannelOptions, WorkerOptions};
use interzone_verification::{AskOptions, GateOptions, Language, ReplyOptions, Zone};
use std::sync::Arc;

/// The tokens: the one of the file, and those in the store.
pub(super) fn tokens(
    config: &VerifyConfig,
    slack: &Slack,
    records: Arc<dyn RecordStore>,
) -> Result<Tokens, StartError> {
    let file = config.slack.bot_token.as_ref();
    let file = file
        .map(|token| BotToken::new(token.expose()))
        .transpose()
        .map_err(StartError::BotToken)?;
    let installs = match &config.slack.install {
        None => None,
        Some(install) => Some(Installs {
            records,
            vault: Vault::new(&install.token_key).map_err(StartError::TokenKey)?,
            app: Some(app(install)),
        }),
    };
    let options = TokensOptions {
        file,
        installs,
        clock: Arc::new(SystemClock),
    };
    Ok(Tokens::new(slack.clone(), options))
}

/// The doors by which workspaces install the app, if they can.
pub(super) fn install(
    config: &VerifyConfig,
    slack: &Slack,
    tokens: &Tokens,
) -> Result<Option<Install>, StartError> {
    let Some(install) = &config.slack.install else {
        return Ok(None);
    };
    let options = InstallOptions {
        app: app(install),
        redirect_uri: Some(install.redirect_url.to_string()),
    };
    let clock = Arc::new(SystemClock);
    let install = Install::new(slack.clone(), tokens.clone(), options, clock);
    Ok(Some(install.map_err(StartError::Install)?))
}

fn app(config: &InstallConfig) -> OauthApp {
    OauthApp {
        client_id: config.client_id.clone(),
        client_secret: config.client_secret.clone(),
    }
}

/// The socket, if events come by one. It is opened when it is run.
pub(super) fn socket(
    config: &VerifyConfig,
    slack: &Slack,
    trust: &Trust,
    zone: &Zone,
) -> Result<Option<SocketMode>, StartError> {
    let (SlackMode::Socket, Some(token)) = (config.slack.mode, &config.slack.app_token) else {
        return Ok(None);
    };
    let token = BotToken::new(token.expose()).map_err(StartError::AppToken)?;
    let handler = Arc::new(zone.clone());
    Ok(Some(SocketMode::new(slack.clone(), token, trust, handler)?))
}

/// In which messages a question is seen.
pub(super) fn rules(config: &SlackConfig) -> Rules {
    let channels = config.auto_reply_channels.iter();
    Rules {
        // The configuration was checked to hold ids.
        auto_reply: channels.filter_map(|id| ChannelId::new(id).ok()).collect(),
        follow_threads: config.follow_threads,
    }
}

/// Who may ask what.
pub(super) fn gates(config: &VerifyConfig) -> GateOptions {
    let policy = &config.policy;
    GateOptions {
        policy: Policy::new(&policy.teams, &policy.channels, &policy.users),
        requests_per_minute: policy.requests_per_minute,
        input_chars: config.verification.input_chars,
        language: match config.verification.language {
            Words::Auto => None,
            Words::Ja => Some(Language::Ja),
            Words::En => Some(Language::En),
        },
    }
}

/// How questions are asked.
pub(super) fn asks(config: &VerificationConfig) -> AskOptions {
    AskOptions {
        context_messages: config.context_messages,
        file_memory: config.file_memory as u64,
        budget: config.budget,
        attempts: config.attempts,
        forward_bot_token: config.forward_bot_token,
        ..AskOptions::default()
    }
}

/// How replies are shown.
pub(super) fn replies(config: &SlackConfig) -> ReplyOptions {
    ReplyOptions {
        live: config.live,
        offer_stop_after: config.offer_stop_after,
    }
}

/// How the workers work.
pub(super) fn worker_options(config: &VerifyConfig) -> WorkerOptions {
    let usual = WorkerOptions::default();
    WorkerOptions {
        asks: ChannelOptions {
            concurrency: config.verification.asks,
            // It ends an ask that hangs; the budget ends it before.
            limit: usual.asks.limit.max(config.verification.budget * 2),
            ..usual.asks
        },
        retention: config.retention,
        ..usual
    }
}
