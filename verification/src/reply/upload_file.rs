//! Posts a generated file to Slack in three API calls. The bytes are fetched from the Execution Zone.

use super::RECORD_TTL;
use super::poster::PostContext;
use super::thread_scan::PostedMessages;
use crate::slack::api::SlackError;
use crate::slack::ids::FileId;
use crate::unicode_hygiene::strip_bidi_and_control;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use interzone_delivery::DeliveryOutcome;
use interzone_protocol::zone::{ArtifactPart, ExecuteResult, TaskIdParams, TaskOutcome};

/// Record kind of uploaded files.
const UPLOAD_RECORD_KIND: &str = "slack.file";

/// Maximum length of a file name that Slack displays, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Uploads a file, unless an earlier attempt has shared it already.
pub(super) async fn upload_file(
    ctx: &PostContext<'_>,
    task: &str,
    artifact: &str,
    name: &str,
) -> DeliveryOutcome {
    let name = sanitize_name(name);
    if ctx.is_retry {
        match share_earlier_upload(ctx, &name).await {
            Ok(true) => return DeliveryOutcome::Delivered,
            Ok(false) => {}
            Err(outcome) => return outcome,
        }
    }
    let bytes = match fetch_bytes(ctx, task, artifact).await {
        Ok(bytes) => bytes,
        Err(outcome) => return outcome,
    };
    let id = match upload(ctx, &name, bytes).await {
        Ok(id) => id,
        Err(error) => return ctx.classify(&error),
    };
    // The next call makes the file visible, so its id is stored first.
    let store = &ctx.service.store;
    if let Err(error) = store
        .put(UPLOAD_RECORD_KIND, ctx.key, id.as_str(), RECORD_TTL)
        .await
    {
        return DeliveryOutcome::retry(error);
    }
    match share(ctx, &id, &name).await {
        Ok(()) => DeliveryOutcome::Delivered,
        Err(error) => ctx.classify(&error),
    }
}

/// Returns true if the file of an earlier attempt is shared, or could be shared now.
async fn share_earlier_upload(ctx: &PostContext<'_>, name: &str) -> Result<bool, DeliveryOutcome> {
    let record = ctx.service.store.get(UPLOAD_RECORD_KIND, ctx.key).await;
    let Some(id) = record.map_err(DeliveryOutcome::retry)? else {
        return Ok(false);
    };
    let Ok(id) = FileId::new(&id) else {
        return Ok(false);
    };
    let posted = PostedMessages::load(ctx.service, ctx.installation, &ctx.action.location).await;
    if posted.map_err(|error| ctx.classify(&error))?.has_file(&id) {
        return Ok(true);
    }
    match share(ctx, &id, name).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_retryable() || error.is_unknown_code() => Err(ctx.classify(&error)),
        // The bytes were never received, or Slack has discarded them.
        Err(_) => Ok(false),
    }
}

async fn fetch_bytes(
    ctx: &PostContext<'_>,
    task: &str,
    artifact: &str,
) -> Result<Bytes, DeliveryOutcome> {
    let params = TaskIdParams {
        task_id: task.to_owned(),
    };
    let result = match ctx.service.client.get_task_result(&params).await {
        Ok(TaskOutcome::Done(result)) => result,
        Ok(TaskOutcome::Running(_)) => {
            return Err(DeliveryOutcome::retry("the task is still running"));
        }
        Ok(TaskOutcome::Failed(_)) => return Err(DeliveryOutcome::failed("the task failed")),
        Err(error) if error.is_retryable() => {
            return Err(DeliveryOutcome::Retry {
                reason: error.to_string(),
                retry_after: error.retry_after(),
            });
        }
        Err(error) => return Err(DeliveryOutcome::failed(error)),
    };
    let content = file_content(&result, artifact);
    let content = content.ok_or_else(|| DeliveryOutcome::failed("the result has no such file"))?;
    let bytes = STANDARD.decode(content);
    let bytes = bytes.map_err(|_| DeliveryOutcome::failed("the file is not base64"))?;
    Ok(bytes.into())
}

fn file_content<'a>(result: &'a ExecuteResult, artifact: &str) -> Option<&'a str> {
    let listed = result.artifacts.iter().flatten();
    let mut all = listed.chain(&result.file_artifact);
    let found = all.find(|other| other.artifact_id == artifact)?;
    found.parts.iter().find_map(|part| match part {
        ArtifactPart::File { content_base64, .. } => Some(&**content_base64),
        ArtifactPart::Text { .. } => None,
    })
}

async fn upload(ctx: &PostContext<'_>, name: &str, bytes: Bytes) -> Result<FileId, SlackError> {
    let slack = &ctx.service.slack;
    let ticket = slack
        .files_get_upload_url(ctx.installation, name, bytes.len())
        .await?;
    slack.files_upload(&ticket.upload_url, bytes).await?;
    Ok(ticket.file_id)
}

async fn share(ctx: &PostContext<'_>, id: &FileId, name: &str) -> Result<(), SlackError> {
    let location = &ctx.action.location;
    let (channel, thread) = (&location.channel, Some(&location.thread));
    let slack = &ctx.service.slack;
    slack
        .files_complete_upload(ctx.installation, id, name, channel, thread)
        .await
}

/// Removes control and bidirectional characters from a file name and truncates it.
fn sanitize_name(name: &str) -> String {
    let printable: String = name.chars().filter(|c| !c.is_control()).collect();
    let name: String = strip_bidi_and_control(&printable)
        .chars()
        .take(MAX_NAME_CHARS)
        .collect();
    if name.is_empty() {
        "file".to_owned()
    } else {
        name
    }
}

/// Returns true if Slack rejected the file because of its size.
pub(super) fn is_size_error(reason: &str) -> bool {
    ["file_upload_size_restricted", "file_too_large", "too_large"]
        .iter()
        .any(|code| reason.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_is_sanitized() {
        for (name, expected) in [
            ("a b.csv", "a b.csv"),
            ("a\u{202e}vsc.exe", "avsc.exe"),
            ("a\nb\u{7}.txt", "ab.txt"),
            ("\u{200b}\u{feff} ", "file"),
        ] {
            assert_eq!(sanitize_name(name), expected, "{name:?}");
        }
    }
}
