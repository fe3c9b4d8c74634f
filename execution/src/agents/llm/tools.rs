//! The tool that a model may call: it makes files. What the model asks for is checked like anything
//! that comes from outside.

use super::chat::Tool;
use crate::files::{Fault, FileRules, Kind, Language, Made, MakeFile, Refused, make, safe_name};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Artifact, ArtifactId, InvalidId, Part};
use interzone_protocol::zone::ErrorWord;
use serde_json::json;
use std::sync::Arc;

/// The tool's name.
pub(super) const CREATE_FILE: &str = "create_file";

/// A call of a tool, as the model has put it together.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A call that came to nothing.
#[derive(Debug)]
pub(super) struct Mishap {
    /// What the model is told, so that it can do better.
    pub(super) model: String,
    /// What the user is told, if it does not.
    pub(super) user: String,
}

/// The tools for these rules: none if no file that can be made may leave.
pub(super) fn offered(rules: &FileRules) -> Vec<Tool> {
    let schema = MakeFile::schema(rules);
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
    vec![Tool {
        name: CREATE_FILE,
        description,
        schema,
    }]
}

impl Call {
    /// Makes the file that the model asks for, if there may be another.
    pub(super) async fn make(
        &self,
        rules: &Arc<FileRules>,
        made: usize,
        language: Language,
    ) -> Result<Made, Mishap> {
        if self.name != CREATE_FILE {
            return Err(Mishap {
                model: format!("There is no such tool. The only one is {CREATE_FILE}."),
                user: not_made("", "", language),
            });
        }
        let request = read(&self.arguments).map_err(|error| Mishap {
            // Where it is wrong, not what it says: the model knows that best.
            model: format!("The arguments do not fit the tool: {error}. Nothing was made."),
            user: not_made("", "", language),
        })?;
        let name = request.file_name.clone().unwrap_or_default();
        let kind = request.format.as_deref().and_then(Kind::from_extension);
        let kind = kind
            .or_else(|| Kind::from_name(&name))
            .unwrap_or(Kind::Text);
        let name = safe_name(&name, kind.media_type());
        let refused = rules
            .check_count(made.saturating_add(1))
            .and_then(|()| rules.check_type(kind.media_type()));
        refused.map_err(|refused| left_out(refused, &name, language))?;
        let own = rules.clone();
        // A large workbook takes time that others need.
        let file = tokio::task::spawn_blocking(move || make(&request, &own)).await;
        match file {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(fault)) => Err(failed(&fault, &name, rules, language)),
            Err(_) => Err(Mishap {
                model: "The file was not made: it did not work.".to_owned(),
                user: not_made("", "", language),
            }),
        }
    }
}

fn failed(fault: &Fault, name: &str, rules: &FileRules, language: Language) -> Mishap {
    let refused = match fault.word {
        ErrorWord::FileTooLarge => Some(Refused::Size {
            limit: rules.max_bytes,
        }),
        ErrorWord::UnsupportedFileType => Some(Refused::Type),
        _ => None,
    };
    match refused {
        Some(refused) => left_out(refused, name, language),
        None => Mishap {
            model: format!("The file was not made: {}.", fault.text),
            user: not_made(name, &fault.told(language), language),
        },
    }
}

fn left_out(refused: Refused, name: &str, language: Language) -> Mishap {
    Mishap {
        model: refused.sentence(name, Language::English),
        user: refused.sentence(name, language),
    }
}

/// Arguments have names; a list of them would pass for a file without anything in it.
fn read(arguments: &str) -> Result<MakeFile, String> {
    if !arguments.trim_start().starts_with('{') {
        return Err("they must be a JSON object".to_owned());
    }
    serde_json::from_str(arguments).map_err(|error| error.to_string())
}

/// What the model is told of a file that was made.
pub(super) fn told(made: &Made) -> String {
    json!({"made": made.name, "bytes": made.bytes.len()}).to_string()
}

/// A file as an artifact. `place` tells it from others of its task, and is the same when the turn is
/// run again.
pub(super) fn artifact(made: Made, place: &str, by: &str) -> Result<Artifact, InvalidId> {
    let size = u64::try_from(made.bytes.len()).unwrap_or(u64::MAX);
    let part = Part::file(STANDARD.encode(&made.bytes))
        .with_filename(made.name.clone())
        .with_media_type(made.media_type)
        .with_size(size);
    let id = ArtifactId::new(format!("llm-file-{place}"))?;
    Ok(Artifact::new(id, made.name)
        .with_created_by(by)
        .with_part(part))
}

fn not_made(name: &str, why: &str, language: Language) -> String {
    match (language, name.is_empty() || why.is_empty()) {
        (Language::English, true) => "The file could not be made.".to_owned(),
        (Language::English, false) => format!("The file \"{name}\" could not be made: {why}."),
        (Language::Japanese, true) => "ファイルを作成できませんでした。".to_owned(),
        (Language::Japanese, false) => {
            format!("ファイル「{name}」を作成できませんでした（{why}）。")
        }
    }
}
