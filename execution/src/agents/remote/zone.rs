//! A turn at a peer that is a zone: one `execute_task`, whose events are passed on as they come.

use super::carried::{Carried, fresh_id, remembered, remembering};
use super::passing::{Passing, since};
use super::{FAREWELL, RemoteAgent, faults};
use crate::agents::stopped;
use interzone_client::{Client, Error, ExecuteEvent, Waiting};
use interzone_hub::{AgentError, Outcome, Output, Turn};
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part, PartKind, Role};
use interzone_protocol::zone::{
    ArtifactPart, Attachment, ContextMessage, ContextRole, ErrorWord, ExecuteResult,
    ExecuteTaskParams, ZoneArtifact,
};
use std::time::Duration;
use tokio::time::timeout;

/// The right to post stays with whoever holds it, so what must be sent in its place says nothing.
const NO_TOKEN: &str = "not-held";
/// The turn's own time is the limit.
const BUDGET: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(
    agent: &RemoteAgent,
    client: &Client,
    carried: &Carried,
    turn: &Turn,
    output: &dyn Output,
) -> Result<Outcome, AgentError> {
    let params = params(agent, carried, turn);
    let mut passing = Passing::new(output);
    let first = carried.call_id(&agent.info.id, None);
    let mut result = call(client, &params, first, turn, &mut passing).await?;
    let called_off = |error: &Error| error.error_word() == ErrorWord::Canceled;
    if turn.attempt > 1 && result.as_ref().is_err_and(called_off) {
        // An earlier attempt was told to stop and passed that on; this one was not.
        let id = carried.call_id(&agent.info.id, Some(turn.attempt));
        result = call(client, &params, id, turn, &mut passing).await?;
    }
    match result {
        Ok(result) => settled(agent, result, &mut passing).await,
        Err(error) => faults::ended(&error),
    }
}

async fn call(
    client: &Client,
    params: &ExecuteTaskParams,
    id: String,
    turn: &Turn,
    passing: &mut Passing<'_>,
) -> Result<Result<ExecuteResult, Error>, AgentError> {
    let call = client.execute_task(params).id(id);
    let call = call.waiting(Waiting::Events).budget(BUDGET);
    let mut run = match call.start() {
        Ok(run) => run,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let event = tokio::select! {
            biased;
            () = turn.stop.cancelled() => {
                match timeout(FAREWELL, run.cancel()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "a task could not be called off at the peer"),
                    Err(_) => tracing::warn!("a task could not be called off at the peer in time"),
                }
                return Err(stopped());
            }
            event = run.next() => event,
        };
        let passed = match event {
            Some(ExecuteEvent::Text(delta)) => passing.text(&delta).await,
            Some(ExecuteEvent::Status(line)) => passing.status(&line).await,
            Some(ExecuteEvent::Artifact(artifact)) => file(passing, artifact).await,
            Some(_) => Ok(()),
            None => return Ok(run.outcome().await),
        };
        if let Err(error) = passed {
            // What the peer makes is not taken any more, so it need not go on.
            let _ = timeout(FAREWELL, run.cancel()).await;
            return Err(error);
        }
    }
}

fn params(agent: &RemoteAgent, carried: &Carried, turn: &Turn) -> ExecuteTaskParams {
    let call = carried.zone.clone().unwrap_or_default();
    let channel = call.channel.unwrap_or_else(|| agent.info.id.to_string());
    let memory = remembered(&turn.history, &agent.info.id);
    let asked = memory.as_ref().map(|(asked, _)| *asked);
    let (said, before) = since(turn, asked, carried.zone.is_some());
    let parts = said.iter().flat_map(|message| message.parts());
    let attachments: Vec<Attachment> = parts.filter_map(attachment).collect();
    let before: Vec<ContextMessage> = before.iter().filter_map(context).collect();
    let text: Vec<String> = said.iter().map(|message| words(message)).collect();
    ExecuteTaskParams {
        correlation_id: Some(carried.correlation.clone()),
        thread_ts: call.thread_ts,
        team_id: call.team_id,
        user_id: call.user_id,
        attachments: Some(attachments).filter(|all| !all.is_empty()),
        context: Some(before).filter(|all| !all.is_empty() && memory.is_none()),
        task_id: memory.map(|(_, memory)| memory.task),
        hops: Some(carried.hops.saturating_add(1)),
        ..ExecuteTaskParams::new(channel, text.join("\n"), NO_TOKEN)
    }
}

/// All that can be said in words.
fn words(message: &Message) -> String {
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

fn attachment(part: &Part) -> Option<Attachment> {
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

fn context(message: &Message) -> Option<ContextMessage> {
    let text = words(message);
    let role = match message.role() {
        Role::Agent => ContextRole::Assistant,
        Role::User | Role::System => ContextRole::User,
    };
    (!text.trim().is_empty()).then_some(ContextMessage {
        role,
        user: None,
        text,
    })
}

/// Passes on a file; the answer's words come by themselves.
async fn file(passing: &mut Passing<'_>, made: ZoneArtifact) -> Result<(), AgentError> {
    let ZoneArtifact {
        artifact_id, parts, ..
    } = made;
    for part in parts {
        let ArtifactPart::File {
            content_base64,
            file_name,
            mime_type,
        } = part
        else {
            continue;
        };
        let id = ArtifactId::new(artifact_id.as_str()).or_else(|_| ArtifactId::new(fresh_id()));
        let id = id.map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
        let part = Part::file(&*content_base64)
            .with_filename(file_name.as_str())
            .with_media_type(mime_type);
        let artifact = Artifact::new(id, file_name).with_part(part);
        passing.artifact(artifact).await?;
    }
    Ok(())
}

async fn settled(
    agent: &RemoteAgent,
    result: ExecuteResult,
    passing: &mut Passing<'_>,
) -> Result<Outcome, AgentError> {
    for artifact in result.artifacts.into_iter().flatten() {
        file(passing, artifact).await?;
    }
    let said = result.response_text.filter(|text| !text.is_empty());
    let said = said.map(Message::agent_text);
    let task = result.task_id.unwrap_or_default();
    let ask = |said: Option<Message>, otherwise: &str| {
        let question = said.unwrap_or_else(|| Message::agent_text(otherwise));
        remembering(question, &agent.info.id, &task, None, 0)
    };
    Ok(match result.state.as_deref() {
        Some("input_required") => Outcome::InputRequired(ask(said, "What more is there to know?")),
        Some("auth_required") => Outcome::AuthRequired(ask(said, "Somebody must sign in first.")),
        _ => Outcome::Completed {
            direct: !passing.made_something(),
            message: said,
        },
    })
}
