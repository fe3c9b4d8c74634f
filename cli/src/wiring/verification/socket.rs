//! Socket Mode: what a socket brings goes in by the same way as what comes to a door.

use crate::config::{SlackMode, VerifyConfig};
use crate::wiring::StartError;
use async_trait::async_trait;
use bytes::Bytes;
use interzone_edge::tls::Trust;
use interzone_verification::Zone;
use interzone_verification::slack::api::Slack;
use interzone_verification::slack::socket::{Ack, Envelopes, SocketMode};
use interzone_verification::slack::tokens::BotToken;
use std::sync::Arc;

/// The socket, if events come by one. It is opened when it is run.
pub(super) fn open(
    config: &VerifyConfig,
    slack: &Slack,
    trust: &Trust,
    zone: &Zone,
) -> Result<Option<SocketMode>, StartError> {
    let (SlackMode::Socket, Some(token)) = (config.slack.mode, &config.slack.app_token) else {
        return Ok(None);
    };
    let token = BotToken::new(token.expose()).map_err(StartError::AppToken)?;
    let handler = Arc::new(Inward(zone.clone()));
    Ok(Some(SocketMode::new(slack.clone(), token, trust, handler)?))
}

/// Hands envelopes to the zone.
struct Inward(Zone);

#[async_trait]
impl Envelopes for Inward {
    async fn envelope(&self, kind: &str, payload: Bytes) -> Ack {
        let taken = match kind {
            "events_api" => self.0.take_event(&payload).await,
            "interactive" => match serde_json::from_slice(&payload) {
                Ok(pressed) => self.0.take_action_json(&pressed).await,
                Err(_) => return Ack::Done,
            },
            // Commands and the like, which the manifest does not ask for.
            _ => return Ack::Done,
        };
        match taken {
            Ok(_) => Ack::Done,
            Err(error) => {
                tracing::error!(%error, "what slack told could not be kept");
                Ack::Later
            }
        }
    }
}
