//! Summary of a configuration: its zones and the files it refers to, without reading those files, so that
//! `interzone doctor` can check each of them.

use super::error::ConfigError;
use super::layer::{Node, Table, Value};
use super::{EXECUTION_SECTIONS, MergedConfig, VERIFICATION_SECTIONS, open, variables};
use std::path::{Path, PathBuf};

/// Zones that a configuration is for, and files that it refers to.
#[derive(Debug)]
pub(crate) struct ConfigSummary {
    pub(crate) execution: bool,
    pub(crate) verification: bool,
    pub(crate) files: Vec<FileRef>,
}

/// A file that a configuration refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileRef {
    /// Full key, including its tables.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) content: FileContent,
}

/// Content of a referenced file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileContent {
    /// Must not be readable by other users.
    Secret,
    Certificates,
    Text,
}

impl ConfigSummary {
    /// Reads a file, overridden by the environment.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid TOML.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        let (text, folder) = open(file)?;
        Self::read(&text, variables(), folder).map_err(|error| error.in_file(file.to_owned()))
    }

    fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self, ConfigError> {
        let merged = MergedConfig::read(text, variables)?;
        let verification = merged.has_section(&VERIFICATION_SECTIONS);
        let mut files = Vec::new();
        collect_files(&merged.table, "", folder, &mut files);
        Ok(Self {
            // An Execution Zone needs no section of its own: a certificate is enough.
            execution: merged.has_section(&EXECUTION_SECTIONS) || !verification,
            verification,
            files,
        })
    }
}

fn collect_files(table: &Table, path: &str, folder: &Path, files: &mut Vec<FileRef>) {
    for (name, node) in table {
        let key = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        if let Value::Table(inner) = &node.value {
            collect_files(inner, &key, folder, files);
            continue;
        }
        let Some(holds) = file_content(path, name) else {
            // Agents are in a list, and refer to files too.
            if let Value::List(items) = &node.value {
                for (index, item) in items.iter().enumerate() {
                    if let Value::Table(inner) = &item.value {
                        collect_files(inner, &format!("{key}[{index}]"), folder, files);
                    }
                }
            }
            continue;
        };
        for text in texts(node) {
            files.push(FileRef {
                key: key.clone(),
                path: folder.join(text),
                content: holds,
            });
        }
    }
}

/// Returns the content of the file that a key names, or None if the key names no file.
fn file_content(table: &str, key: &str) -> Option<FileContent> {
    match (table, key) {
        (_, "system_file") => Some(FileContent::Text),
        ("tls", "key") => Some(FileContent::Secret),
        (_, key) if key.ends_with("_file") => Some(FileContent::Secret),
        ("tls", "cert" | "client_ca" | "trust") | (_, "ca") => Some(FileContent::Certificates),
        _ => None,
    }
}

fn texts(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Text(text) => vec![text],
        Value::EnvString(text) => text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .collect(),
        Value::List(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfigSummary, FileContent};
    use std::path::Path;

    #[test]
    fn all_file_references_are_listed_with_their_key() {
        let text = r#"
            [tls]
            cert = "cert.pem"
            key = "key.pem"
            trust = ["a.pem", "/b.pem"]
            [slack]
            bot_token_file = "bot.txt"
            [[agents]]
            id = "m"
            kind = "llm"
            key_file = "m.key"
            system_file = "m.txt"
        "#;
        let outline = ConfigSummary::read(text, [], Path::new("/etc")).unwrap();
        assert!(outline.execution && outline.verification);
        let found: Vec<_> = outline
            .files
            .iter()
            .map(|file| (file.key.as_str(), file.path.to_str().unwrap(), file.content))
            .collect();
        assert_eq!(
            found,
            [
                ("agents[0].key_file", "/etc/m.key", FileContent::Secret),
                ("agents[0].system_file", "/etc/m.txt", FileContent::Text),
                ("slack.bot_token_file", "/etc/bot.txt", FileContent::Secret),
                ("tls.cert", "/etc/cert.pem", FileContent::Certificates),
                ("tls.key", "/etc/key.pem", FileContent::Secret),
                ("tls.trust", "/etc/a.pem", FileContent::Certificates),
                ("tls.trust", "/b.pem", FileContent::Certificates),
            ]
        );
    }

    #[test]
    fn certificate_alone_means_execution_zone() {
        let outline = ConfigSummary::read("[tls]\ncert = \"c\"\n", [], Path::new("/")).unwrap();
        assert!(outline.execution && !outline.verification);
        let outline = ConfigSummary::read("[policy]\nteams = []\n", [], Path::new("/")).unwrap();
        assert!(!outline.execution && outline.verification);
    }
}
