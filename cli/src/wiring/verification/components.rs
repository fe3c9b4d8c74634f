//! Components of a Verification Zone and their options, created from the configuration.

use crate::config::{
    InstallConfig, MessageLanguage, SlackConfig, SlackMode, VerificationZoneConfig,
};
use crate::wiring::StartError;
use interzone_delivery::DeliveryOptions;
use interzone_edge::tls::TrustRoots;
use interzone_edge::vault::Vault;
use interzone_hub::SystemClock;
use interzone_hub::ports::RecordStore;
use interzone_verification::intake::QuestionRules;
use interzone_verification::policy::Policy;
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::api::oauth::OauthApp;
use interzone_verification::slack::ids::ChannelId;
use interzone_verification::slack::install::{InstallOptions, InstallRoutes};
use interzone_verification::slack::socket::SocketMode;
use interzone_verification::slack::tokens::{
    BotToken, InstalledTokenOptions, SlackTokenOptions, SlackTokens,
};
use interzone_verification::workers::WorkerOptions;
use interzone_verification::{GateOptions, Language, VerificationState};
use std::sync::Arc;

/// Creates the token source: the configured bot token, and those of installed workspaces.
pub(super) fn tokens(
    config: &VerificationZoneConfig,
    slack: &Slack,
    records: Arc<dyn RecordStore>,
) -> Result<SlackTokens, StartError> {
    let file = config.slack.bot_token.as_ref();
    let file = file
        .map(|token| BotToken::new(token.expose()))
        .transpose()
        .map_err(StartError::BotToken)?;
    let installs = match &config.slack.install {
        None => None,
        Some(install) => Some(InstalledTokenOptions {
            records,
            vault: Vault::new(&install.token_key).map_err(StartError::TokenKey)?,
            app: Some(oauth_app(install)),
        }),
    };
    let options = SlackTokenOptions {
        file,
        installs,
        clock: Arc::new(SystemClock),
    };
    Ok(SlackTokens::new(slack.clone(), options))
}

/// Creates the routes for installing the app, if enabled.
pub(super) fn install_routes(
    config: &VerificationZoneConfig,
    slack: &Slack,
    tokens: &SlackTokens,
) -> Result<Option<InstallRoutes>, StartError> {
    let Some(install) = &config.slack.install else {
        return Ok(None);
    };
    let options = InstallOptions {
        app: oauth_app(install),
        redirect_uri: Some(install.redirect_url.to_string()),
    };
    let clock = Arc::new(SystemClock);
    let install = InstallRoutes::new(slack.clone(), tokens.clone(), options, clock);
    Ok(Some(install.map_err(StartError::Install)?))
}

fn oauth_app(config: &InstallConfig) -> OauthApp {
    OauthApp {
        client_id: config.client_id.clone(),
        client_secret: config.client_secret.clone(),
    }
}

/// Creates the Socket Mode connection, if configured. It connects when it is run.
pub(super) fn socket_mode(
    config: &VerificationZoneConfig,
    slack: &Slack,
    trust: &TrustRoots,
    zone: &VerificationState,
) -> Result<Option<SocketMode>, StartError> {
    let (SlackMode::Socket, Some(token)) = (config.slack.mode, &config.slack.app_token) else {
        return Ok(None);
    };
    let token = BotToken::new(token.expose()).map_err(StartError::AppToken)?;
    let handler = Arc::new(zone.clone());
    Ok(Some(SocketMode::new(slack.clone(), token, trust, handler)?))
}

/// Rules for recognizing questions in messages.
pub(super) fn intake_rules(config: &SlackConfig) -> QuestionRules {
    let channels = config.auto_reply_channels.iter();
    QuestionRules {
        // The configuration was checked to contain valid ids.
        auto_reply: channels.filter_map(|id| ChannelId::new(id).ok()).collect(),
        follow_threads: config.follow_threads,
    }
}

/// Options of access control.
pub(super) fn gate_options(config: &VerificationZoneConfig) -> GateOptions {
    let policy = &config.policy;
    GateOptions {
        policy: Policy::new(&policy.teams, &policy.channels, &policy.users),
        requests_per_minute: policy.requests_per_minute,
        input_chars: config.verification.input_chars,
        language: match config.verification.language {
            MessageLanguage::Auto => None,
            MessageLanguage::Ja => Some(Language::Ja),
            MessageLanguage::En => Some(Language::En),
        },
    }
}

/// Options of the workers.
pub(super) fn worker_options(config: &VerificationZoneConfig) -> WorkerOptions {
    let defaults = WorkerOptions::default();
    WorkerOptions {
        asks: DeliveryOptions {
            concurrency: config.verification.concurrency,
            // Ends an ask that hangs; normally the answer timeout ends it first.
            attempt_timeout: defaults
                .asks
                .attempt_timeout
                .max(config.verification.ask.budget * 2),
            ..defaults.asks
        },
        retention: config.retention,
        ..defaults
    }
}
