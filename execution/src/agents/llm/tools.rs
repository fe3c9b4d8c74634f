//! The `create_file` tool that a model may call. Its arguments are validated like any external input.

use super::chat::ToolDefinition;
use crate::files::{
    FileError, FileKind, FileRequest, FileRules, GeneratedFile, Language, OutputRefused,
    generate_file, safe_name,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Artifact, ArtifactId, InvalidId, Part};
use interzone_protocol::zone::ErrorReason;
use serde_json::json;
use std::sync::Arc;

/// Name of the tool.
pub(super) const CREATE_FILE: &str = "create_file";

/// A tool call of the model.
#[derive(Debug)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A failed tool call.
#[derive(Debug)]
pub(super) struct ToolError {
    /// Message for the model, so that it can correct the call.
    pub(super) model_message: String,
    /// Message for the user, if the model does not succeed.
    pub(super) user_message: String,
}

/// Returns the tools under these rules: none if no generated file may be sent.
pub(super) fn available_tools(rules: &FileRules) -> Vec<ToolDefinition> {
    let schema = FileRequest::schema(rules);
    let formats = schema.pointer("/properties/format/enum");
    if formats.is_none_or(|formats| *formats == json!([])) || rules.per_reply == 0 {
        return Vec::new();
    }
    let files = if rules.per_reply == 1 {
        "one file".to_owned()
    } else {
        format!("{} files", rules.per_reply)
    };
    let description = format!(
        "Makes a file and attaches it to your reply. Use it when a file is asked for, and do not repeat \
         the file's content in your answer. At most {files} in a reply, of at most {} bytes.",
        rules.max_bytes
    );
    vec![ToolDefinition {
        name: CREATE_FILE,
        description,
        schema,
    }]
}

impl ToolCall {
    /// Generates the requested file, if another one is allowed.
    pub(super) async fn execute(
        &self,
        rules: &Arc<FileRules>,
        file_count: usize,
        language: Language,
    ) -> Result<GeneratedFile, ToolError> {
        if self.name != CREATE_FILE {
            return Err(ToolError {
                model_message: format!("There is no such tool. The only one is {CREATE_FILE}."),
                user_message: failure_text("", "", language),
            });
        }
        let request = parse_arguments(&self.arguments).map_err(|error| ToolError {
            // The position of the error, not the content, which the model knows best.
            model_message: format!("The arguments do not fit the tool: {error}. Nothing was made."),
            user_message: failure_text("", "", language),
        })?;
        let name = request.file_name.clone().unwrap_or_default();
        let kind = request.format.as_deref().and_then(FileKind::from_extension);
        let kind = kind
            .or_else(|| FileKind::from_name(&name))
            .unwrap_or(FileKind::Text);
        let name = safe_name(&name, kind.media_type());
        let check = rules
            .check_count(file_count.saturating_add(1))
            .and_then(|()| rules.check_type(kind.media_type()));
        check.map_err(|refused| refused_error(refused, &name, language))?;
        let own = rules.clone();
        // Generating a large workbook would block the async runtime.
        let file = tokio::task::spawn_blocking(move || generate_file(&request, &own)).await;
        match file {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(error)) => Err(generation_error(&error, &name, rules, language)),
            Err(_) => Err(ToolError {
                model_message: "The file was not made: internal error.".to_owned(),
                user_message: failure_text("", "", language),
            }),
        }
    }
}

fn generation_error(
    error: &FileError,
    name: &str,
    rules: &FileRules,
    language: Language,
) -> ToolError {
    let refused = match error.code {
        ErrorReason::FileTooLarge => Some(OutputRefused::Size {
            limit: rules.max_bytes,
        }),
        ErrorReason::UnsupportedFileType => Some(OutputRefused::Type),
        _ => None,
    };
    match refused {
        Some(refused) => refused_error(refused, name, language),
        None => ToolError {
            model_message: format!("The file was not made: {}.", error.text),
            user_message: failure_text(name, &error.localized(language), language),
        },
    }
}

fn refused_error(refused: OutputRefused, name: &str, language: Language) -> ToolError {
    ToolError {
        model_message: refused.user_message(name, Language::English),
        user_message: refused.user_message(name, language),
    }
}

/// Parses the arguments. A list is rejected, because it would parse as a file without any content.
fn parse_arguments(arguments: &str) -> Result<FileRequest, String> {
    if !arguments.trim_start().starts_with('{') {
        return Err("they must be a JSON object".to_owned());
    }
    serde_json::from_str(arguments).map_err(|error| error.to_string())
}

/// Returns the result of a successful call for the model.
pub(super) fn result_text(file: &GeneratedFile) -> String {
    json!({"made": file.name, "bytes": file.bytes.len()}).to_string()
}

/// Converts a file to an artifact. `sequence` distinguishes it from other artifacts of the task, and is the same when
/// the turn is retried.
pub(super) fn into_artifact(
    file: GeneratedFile,
    sequence: &str,
    author: &str,
) -> Result<Artifact, InvalidId> {
    let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
    let part = Part::file(STANDARD.encode(&file.bytes))
        .with_filename(file.name.clone())
        .with_media_type(file.media_type)
        .with_size(size);
    let id = ArtifactId::new(format!("llm-file-{sequence}"))?;
    Ok(Artifact::new(id, file.name)
        .with_created_by(author)
        .with_part(part))
}

fn failure_text(name: &str, reason: &str, language: Language) -> String {
    match (language, name.is_empty() || reason.is_empty()) {
        (Language::English, true) => "The file could not be made.".to_owned(),
        (Language::English, false) => format!("The file \"{name}\" could not be made: {reason}."),
        (Language::Japanese, true) => "ファイルを作成できませんでした。".to_owned(),
        (Language::Japanese, false) => {
            format!("ファイル「{name}」を作成できませんでした（{reason}）。")
        }
    }
}
