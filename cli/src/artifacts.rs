//! Saves the files of artifacts.

use crate::attachments::file_extension;
use crate::exit::Failure;
use crate::save;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Artifact, Encoding, Part, PartKind};
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// Saves every part of these artifacts, and returns the paths.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn save_all(artifacts: &[Artifact], folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut saved = Vec::new();
    for artifact in artifacts {
        for part in artifact.parts() {
            let Some(bytes) = part_bytes(part) else {
                continue;
            };
            if saved.is_empty() {
                let created = fs::create_dir_all(folder);
                created.map_err(|error| Failure::Save(folder.to_owned(), error))?;
            }
            let name = file_name(artifact, part);
            let path = save::save(folder, &name, &bytes)
                .map_err(|error| Failure::Save(folder.join(name), error))?;
            saved.push(path);
        }
    }
    Ok(saved)
}

/// Returns the part's filename, or the artifact's name with a suitable extension.
fn file_name(artifact: &Artifact, part: &Part) -> String {
    if let Some(name) = part.filename() {
        return name.to_owned();
    }
    let name = artifact.name();
    if Path::new(name).extension().is_some() {
        return name.to_owned();
    }
    let ending = match (part.media_type().and_then(file_extension), part.kind()) {
        (Some(ending), _) => ending,
        (None, PartKind::Text) => "txt",
        (None, PartKind::Data) => "json",
        (None, _) => "bin",
    };
    format!("{name}.{ending}")
}

/// Returns the bytes of a part; None if it has no inline content.
fn part_bytes(part: &Part) -> Option<Vec<u8>> {
    let content = part.content()?;
    if !content.is_string() {
        return Some(content.as_str().as_bytes().to_vec());
    }
    let text: Cow<'_, str> = content.decode::<String>().ok()?.into();
    match (part.encoding(), part.kind()) {
        (Some(Encoding::Base64), _) => STANDARD.decode(text.as_bytes()).ok(),
        (Some(Encoding::Utf8), _) | (None, PartKind::Text | PartKind::Data | PartKind::File) => {
            Some(text.into_owned().into_bytes())
        }
        // Not declared as text: base64.
        (Some(Encoding::Binary) | None, _) => STANDARD.decode(text.as_bytes()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::save_all;
    use interzone_protocol::vocab::{Artifact, ArtifactId, Part};
    use std::fs;

    #[test]
    fn artifact_parts_are_saved_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("new");
        let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "report")
            .with_part(Part::file("YSxiCg==").with_filename("../a.csv"))
            .with_part(Part::text("words"))
            .with_part(Part::file("not base64!").with_filename("broken"));
        let saved = save_all(&[artifact], &into).unwrap();
        assert_eq!(saved, [into.join("a.csv"), into.join("report.txt")]);
        assert_eq!(fs::read_to_string(into.join("a.csv")).unwrap(), "a,b\n");
        assert_eq!(
            fs::read_to_string(into.join("report.txt")).unwrap(),
            "words"
        );
    }
}
