//! What a configuration is for and which files it names, told before anybody reads those files: so that
//! `interzone doctor` can say what is wrong with them, one by one.

use super::error::ConfigError;
use super::layer::{Node, Table, Value};
use super::{Layers, OF_EXECUTION, OF_VERIFICATION, open, variables};
use std::path::{Path, PathBuf};

/// What a configuration is for, and what it names.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) execution: bool,
    pub(crate) verification: bool,
    pub(crate) files: Vec<NamedFile>,
}

/// A file that a configuration names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// With the names of its tables.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) holds: Holds,
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nobody else may read it.
    Secret,
    Certificates,
    Words,
}

impl Outline {
    /// Looks at a file, with the environment on top.
    ///
    /// # Errors
    /// It cannot be read, or is no TOML.
    pub(crate) fn of(file: &Path) -> Result<Self, ConfigError> {
        let (text, folder) = open(file)?;
        Self::read(&text, variables(), folder).map_err(|error| error.in_file(file.to_owned()))
    }

    fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self, ConfigError> {
        let Layers { table, written } = Layers::read(text, variables)?;
        let is_there = |names: &[&str]| written.iter().any(|name| names.contains(&name.as_str()));
        let verification = is_there(&OF_VERIFICATION);
        let mut files = Vec::new();
        collect(&table, "", folder, &mut files);
        Ok(Self {
            // The least that an Execution Zone needs is a certificate, and that is no section of its own.
            execution: is_there(&OF_EXECUTION) || !verification,
            verification,
            files,
        })
    }
}

fn collect(table: &Table, path: &str, folder: &Path, files: &mut Vec<NamedFile>) {
    for (name, node) in table {
        let key = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        if let Value::Table(inner) = &node.value {
            collect(inner, &key, folder, files);
            continue;
        }
        let Some(holds) = holds(path, name) else {
            // Agents stand in a list, and name files too.
            if let Value::List(items) = &node.value {
                for (index, item) in items.iter().enumerate() {
                    if let Value::Table(inner) = &item.value {
                        collect(inner, &format!("{key}[{index}]"), folder, files);
                    }
                }
            }
            continue;
        };
        for text in texts(node) {
            files.push(NamedFile {
                key: key.clone(),
                path: folder.join(text),
                holds,
            });
        }
    }
}

/// What is in the file that a key names, if it names one.
fn holds(table: &str, key: &str) -> Option<Holds> {
    match (table, key) {
        (_, "system_file") => Some(Holds::Words),
        ("tls", "key") => Some(Holds::Secret),
        (_, key) if key.ends_with("_file") => Some(Holds::Secret),
        ("tls", "cert" | "client_ca" | "trust") | (_, "ca") => Some(Holds::Certificates),
        _ => None,
    }
}

fn texts(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Text(text) => vec![text],
        Value::Word(words) => words
            .split(',')
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .collect(),
        Value::List(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Holds, Outline};
    use std::path::Path;

    #[test]
    fn every_file_is_found_with_its_key() {
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
        let outline = Outline::read(text, [], Path::new("/etc")).unwrap();
        assert!(outline.execution && outline.verification);
        let found: Vec<_> = outline
            .files
            .iter()
            .map(|file| (file.key.as_str(), file.path.to_str().unwrap(), file.holds))
            .collect();
        assert_eq!(
            found,
            [
                ("agents[0].key_file", "/etc/m.key", Holds::Secret),
                ("agents[0].system_file", "/etc/m.txt", Holds::Words),
                ("slack.bot_token_file", "/etc/bot.txt", Holds::Secret),
                ("tls.cert", "/etc/cert.pem", Holds::Certificates),
                ("tls.key", "/etc/key.pem", Holds::Secret),
                ("tls.trust", "/etc/a.pem", Holds::Certificates),
                ("tls.trust", "/b.pem", Holds::Certificates),
            ]
        );
    }

    #[test]
    fn a_certificate_alone_is_for_an_execution_zone() {
        let outline = Outline::read("[tls]\ncert = \"c\"\n", [], Path::new("/")).unwrap();
        assert!(outline.execution && !outline.verification);
        let outline = Outline::read("[policy]\nteams = []\n", [], Path::new("/")).unwrap();
        assert!(!outline.execution && outline.verification);
    }
}
