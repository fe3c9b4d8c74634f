//! A file in three steps. Its bytes come from the Execution Zone, which keeps them; here they are only
//! passed on.

use super::KEEP;
use super::poster::{Carried, Job};
use super::thread::Stands;
use crate::signs::straight;
use crate::slack::api::SlackError;
use crate::slack::ids::FileId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use interzone_protocol::zone::{ArtifactPart, ExecuteResult, TaskIdParams, TaskOutcome};

/// The kind of the notes on files that were uploaded.
const KIND: &str = "slack.file";

/// The longest name that Slack shows.
const LONGEST_NAME: usize = 200;

/// Posts a file, unless it hangs there.
pub(super) async fn file(job: &Job<'_>, task: &str, artifact: &str, name: &str) -> Carried {
    let name = clean(name);
    if job.again {
        match uploaded(job, &name).await {
            Ok(true) => return Carried::Arrived,
            Ok(false) => {}
            Err(carried) => return carried,
        }
    }
    let bytes = match fetch(job, task, artifact).await {
        Ok(bytes) => bytes,
        Err(carried) => return carried,
    };
    let id = match upload(job, &name, bytes).await {
        Ok(id) => id,
        Err(error) => return job.came(&error),
    };
    // From here on the file may be shown, so its name is written down first.
    let shelf = &job.desk.shelf;
    if let Err(error) = shelf.keep(KIND, job.key, id.as_str(), KEEP).await {
        return Carried::later(error);
    }
    match show(job, &id, &name).await {
        Ok(()) => Carried::Arrived,
        Err(error) => job.came(&error),
    }
}

/// Whether what an earlier attempt uploaded is shown, or can be.
async fn uploaded(job: &Job<'_>, name: &str) -> Result<bool, Carried> {
    let note = job.desk.shelf.note(KIND, job.key).await;
    let Some(id) = note.map_err(Carried::later)? else {
        return Ok(false);
    };
    let Ok(id) = FileId::new(&id) else {
        return Ok(false);
    };
    let stands = Stands::read(job.desk, job.at, &job.effect.place).await;
    if stands.map_err(|error| job.came(&error))?.has_file(&id) {
        return Ok(true);
    }
    match show(job, &id, name).await {
        Ok(()) => Ok(true),
        Err(error) if error.may_pass() || error.is_puzzling() => Err(job.came(&error)),
        // The bytes never arrived, or Slack has let go of them.
        Err(_) => Ok(false),
    }
}

async fn fetch(job: &Job<'_>, task: &str, artifact: &str) -> Result<Bytes, Carried> {
    let params = TaskIdParams {
        task_id: task.to_owned(),
    };
    let came = match job.desk.client.get_task_result(&params).await {
        Ok(TaskOutcome::Done(result)) => result,
        Ok(TaskOutcome::Running(_)) => return Err(Carried::later("the task goes on")),
        Ok(TaskOutcome::Failed(_)) => return Err(Carried::never("the task has failed")),
        Err(error) if error.is_retryable() => {
            return Err(Carried::Later {
                why: error.to_string(),
                after: error.retry_after(),
            });
        }
        Err(error) => return Err(Carried::never(error)),
    };
    let content = content(&came, artifact);
    let content = content.ok_or_else(|| Carried::never("the result has no such file"))?;
    let bytes = STANDARD.decode(content);
    let bytes = bytes.map_err(|_| Carried::never("the file is not base64"))?;
    Ok(bytes.into())
}

fn content<'a>(result: &'a ExecuteResult, artifact: &str) -> Option<&'a str> {
    let listed = result.artifacts.iter().flatten();
    let mut all = listed.chain(&result.file_artifact);
    let found = all.find(|other| other.artifact_id == artifact)?;
    found.parts.iter().find_map(|part| match part {
        ArtifactPart::File { content_base64, .. } => Some(&**content_base64),
        ArtifactPart::Text { .. } => None,
    })
}

async fn upload(job: &Job<'_>, name: &str, bytes: Bytes) -> Result<FileId, SlackError> {
    let slack = &job.desk.slack;
    let ticket = slack
        .files_get_upload_url(job.at, name, bytes.len())
        .await?;
    slack.files_upload(&ticket.upload_url, bytes).await?;
    Ok(ticket.file_id)
}

async fn show(job: &Job<'_>, id: &FileId, name: &str) -> Result<(), SlackError> {
    let place = &job.effect.place;
    let (channel, thread) = (&place.channel, Some(&place.thread));
    let slack = &job.desk.slack;
    slack
        .files_complete_upload(job.at, id, name, channel, thread)
        .await
}

/// A name without what does not print or turns it around, and not too long.
fn clean(name: &str) -> String {
    let printable: String = name.chars().filter(|sign| !sign.is_control()).collect();
    let name: String = straight(&printable).chars().take(LONGEST_NAME).collect();
    if name.is_empty() {
        "file".to_owned()
    } else {
        name
    }
}

/// Whether it was the size that Slack did not like.
pub(super) fn is_size(why: &str) -> bool {
    ["file_upload_size_restricted", "file_too_large", "too_large"]
        .iter()
        .any(|word| why.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_can_be_read() {
        for (name, wanted) in [
            ("a b.csv", "a b.csv"),
            ("a\u{202e}vsc.exe", "avsc.exe"),
            ("a\nb\u{7}.txt", "ab.txt"),
            ("\u{200b}\u{feff} ", "file"),
        ] {
            assert_eq!(clean(name), wanted, "{name:?}");
        }
    }
}
