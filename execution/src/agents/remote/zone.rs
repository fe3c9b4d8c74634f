//! Runs a turn at a zone peer: one `execute_task`, whose events are relayed while they arrive.

use super::forwarding::{ForwardingContext, attach_state, find_state, new_id};
use super::relay::{OutputRelay, split_new_messages};
use super::{CANCEL_TIMEOUT, RemoteAgent, errors};
use crate::agents::stopped_error;
use interzone_client::{Client, Error, ExecuteEvent, WaitMode};
use interzone_hub::{AgentError, Turn, TurnOutcome, TurnOutput};
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part, PartKind};
use interzone_protocol::zone::{
    ArtifactPart, Attachment, ContextMessage, ContextRole, ErrorReason, ExecuteResult,
    ExecuteTaskParams, ZoneArtifact,
};
use std::time::Duration;
use tokio::time::timeout;

/// Placeholder for the required bot token: the permission to post stays with the zone that has it.
const NO_TOKEN: &str = "not-held";
/// Time budget of the call; effectively the time limit of the turn applies.
const CALL_BUDGET: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(
    agent: &RemoteAgent,
    client: &Client,
    forwarding: &ForwardingContext,
    turn: &Turn,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, AgentError> {
    let params = build_params(agent, forwarding, turn);
    let mut relay = OutputRelay::new(output);
    let call_id = forwarding.call_id(&agent.info.id, None);
    let mut result = execute(client, &params, call_id, turn, &mut relay).await?;
    let is_canceled = |error: &Error| error.reason() == ErrorReason::Canceled;
    if turn.attempt > 1 && result.as_ref().is_err_and(is_canceled) {
        // An earlier attempt was canceled and canceled the call at the peer; this attempt was not.
        let id = forwarding.call_id(&agent.info.id, Some(turn.attempt));
        result = execute(client, &params, id, turn, &mut relay).await?;
    }
    match result {
        Ok(result) => finish_turn(agent, result, &mut relay).await,
        Err(error) => errors::outcome_of_error(&error),
    }
}

async fn execute(
    client: &Client,
    params: &ExecuteTaskParams,
    id: String,
    turn: &Turn,
    relay: &mut OutputRelay<'_>,
) -> Result<Result<ExecuteResult, Error>, AgentError> {
    let call = client.execute_task(params).id(id);
    let call = call.wait_mode(WaitMode::Stream).poll_timeout(CALL_BUDGET);
    let mut run = match call.start() {
        Ok(run) => run,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let event = tokio::select! {
            biased;
            () = turn.cancel_token.cancelled() => {
                match timeout(CANCEL_TIMEOUT, run.cancel()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "failed to cancel task at peer"),
                    Err(_) => tracing::warn!("canceling task at peer timed out"),
                }
                return Err(stopped_error());
            }
            event = run.next() => event,
        };
        let relayed = match event {
            Some(ExecuteEvent::Text(delta)) => relay.text(&delta).await,
            Some(ExecuteEvent::Status(line)) => relay.status(&line).await,
            Some(ExecuteEvent::Artifact(artifact)) => relay_files(relay, artifact).await,
            Some(_) => Ok(()),
            None => return Ok(run.outcome().await),
        };
        if let Err(error) = relayed {
            // The peer's output is no longer accepted, so its task is canceled.
            let _ = timeout(CANCEL_TIMEOUT, run.cancel()).await;
            return Err(error);
        }
    }
}

fn build_params(
    agent: &RemoteAgent,
    forwarding: &ForwardingContext,
    turn: &Turn,
) -> ExecuteTaskParams {
    let call = forwarding.zone.clone().unwrap_or_default();
    let channel = call.channel.unwrap_or_else(|| agent.info.id.to_string());
    let state = find_state(&turn.history, &agent.info.id);
    let question_index = state.as_ref().map(|(asked, _)| *asked);
    let (messages, before) = split_new_messages(turn, question_index, forwarding.zone.is_some());
    let parts = messages.iter().flat_map(|message| message.parts());
    let attachments: Vec<Attachment> = parts.filter_map(to_attachment).collect();
    let before: Vec<ContextMessage> = before.iter().filter_map(to_context_message).collect();
    let text: Vec<String> = messages
        .iter()
        .map(|message| message_text(message))
        .collect();
    ExecuteTaskParams {
        correlation_id: Some(forwarding.correlation.clone()),
        thread_ts: call.thread_ts,
        team_id: call.team_id,
        user_id: call.user_id,
        attachments: Some(attachments).filter(|all| !all.is_empty()),
        context: Some(before).filter(|all| !all.is_empty() && state.is_none()),
        task_id: state.map(|(_, memory)| memory.task),
        hops: Some(forwarding.hops.saturating_add(1)),
        ..ExecuteTaskParams::new(channel, text.join("\n"), NO_TOKEN)
    }
}

/// Returns the text of a message, including its data parts.
fn message_text(message: &Message) -> String {
    let mut text = message.text();
    let data = message.parts().iter();
    for part in data.filter(|part| part.kind() == PartKind::Data) {
        if let Some(content) = part.content() {
            text.push('\n');
            text.push_str(content.as_str());
        }
    }
    text
}

fn to_attachment(part: &Part) -> Option<Attachment> {
    if matches!(part.kind(), PartKind::Text | PartKind::Data) {
        return None;
    }
    let content: String = part.content()?.decode().ok()?;
    Some(Attachment {
        id: None,
        name: part.filename().unwrap_or("file").to_owned(),
        mimetype: part
            .media_type()
            .unwrap_or("application/octet-stream")
            .to_owned(),
        size: part.size(),
        content_base64: Some(content),
        presigned_url: None,
    })
}

fn to_context_message(message: &Message) -> Option<ContextMessage> {
    let text = message_text(message);
    let role = match message.is_agent_output() {
        true => ContextRole::Assistant,
        false => ContextRole::User,
    };
    (!text.trim().is_empty()).then_some(ContextMessage {
        role,
        user: None,
        text,
    })
}

/// Relays the files of an artifact; its text is relayed separately.
async fn relay_files(
    relay: &mut OutputRelay<'_>,
    artifact: ZoneArtifact,
) -> Result<(), AgentError> {
    let ZoneArtifact {
        artifact_id, parts, ..
    } = artifact;
    for part in parts {
        let ArtifactPart::File {
            content_base64,
            file_name,
            mime_type,
        } = part
        else {
            continue;
        };
        let id = ArtifactId::new(artifact_id.as_str()).or_else(|_| ArtifactId::new(new_id()));
        let id = id.map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
        let part = Part::file(&*content_base64)
            .with_filename(file_name.as_str())
            .with_media_type(mime_type);
        let artifact = Artifact::new(id, file_name).with_part(part);
        relay.artifact(artifact).await?;
    }
    Ok(())
}

async fn finish_turn(
    agent: &RemoteAgent,
    result: ExecuteResult,
    relay: &mut OutputRelay<'_>,
) -> Result<TurnOutcome, AgentError> {
    for artifact in result.artifacts.into_iter().flatten() {
        relay_files(relay, artifact).await?;
    }
    let message = result.response_text.filter(|text| !text.is_empty());
    let message = message.map(Message::agent_text);
    let task = result.task_id.unwrap_or_default();
    let with_state = |message: Option<Message>, default: &str| {
        let question = message.unwrap_or_else(|| Message::agent_text(default));
        attach_state(question, &agent.info.id, &task, None, 0)
    };
    Ok(match result.state.as_deref() {
        Some("input_required") => {
            TurnOutcome::InputRequired(with_state(message, "More information is needed."))
        }
        Some("auth_required") => {
            TurnOutcome::AuthRequired(with_state(message, "Sign-in is required first."))
        }
        _ => TurnOutcome::Completed {
            direct: !relay.has_artifacts(),
            message,
        },
    })
}
