//! Secrets: the value of a key, or of the file or environment variable that `<key>_file` or `<key>_env` names.
//!
//! A secret is a part of its table (`#[serde(rename = "..token")]`), as any of the three keys may set it.

use super::deserializer::TableReader;
use super::error::ConfigError;
use super::variable;
use interzone_edge::Secret;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fs;
use std::path::Path;

type Result<T> = std::result::Result<T, ConfigError>;

/// Size limit of a secret file. A secret is one line; a larger file was named by mistake.
const MAX_SECRET_FILE_SIZE: u64 = 64 * 1024;

/// Expected value of a key with a file, for error messages.
const EXPECTED_PATH: &str = "the path of a file";

/// A secret stored outside the configuration file, and its location. The user of the secret reports it if it is
/// missing.
#[derive(Debug, Deserialize)]
pub(crate) struct SecretRef {
    #[serde(default)]
    secret: Secret,
    pub(crate) location: String,
}

impl SecretRef {
    /// Returns the secret, unless it is missing.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        (!self.secret.is_empty()).then_some(&self.secret)
    }
}

/// A secret that may also be in the configuration file itself.
#[derive(Deserialize)]
struct InlineSecret {
    #[serde(default)]
    secret: Secret,
    location: String,
}

/// Returns whether the secret of a struct with this name may be in the configuration file itself; None for structs
/// that are no secrets.
pub(super) fn allows_inline(name: &str) -> Option<bool> {
    match name {
        "SecretRef" => Some(false),
        "InlineSecret" => Some(true),
        _ => None,
    }
}

/// Deserializes a secret that may be in the configuration file itself.
pub(super) fn inline<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Secret>, D::Error> {
    match Option::<InlineSecret>::deserialize(deserializer)? {
        None => Ok(None),
        Some(InlineSecret { secret, location }) => present(secret, &location),
    }
}

/// Deserializes a secret that must be set, and may be in the configuration file itself.
pub(super) fn inline_required<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Secret, D::Error> {
    let InlineSecret { secret, location } = InlineSecret::deserialize(deserializer)?;
    Ok(present(secret, &location)?.unwrap_or_default())
}

/// Deserializes a secret stored outside the configuration file, which must exist if its location is set.
pub(super) fn external<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Secret>, D::Error> {
    match Option::<SecretRef>::deserialize(deserializer)? {
        None => Ok(None),
        Some(SecretRef { secret, location }) => present(secret, &location),
    }
}

fn present<E: Error>(secret: Secret, location: &str) -> std::result::Result<Option<Secret>, E> {
    match secret.is_empty() {
        false => Ok(Some(secret)),
        true => Err(E::custom(format!("{location} contains no secret; set it"))),
    }
}

/// Returns true if any of the keys of this secret is set.
pub(super) fn is_set(reader: &TableReader<'_>) -> Result<bool> {
    let base = reader.part;
    let file = format!("{base}_file");
    let env = format!("{base}_env");
    let found = [
        reader.text(base, "a string")?,
        reader.text(&file, EXPECTED_PATH)?,
        reader.text(&env, "a string")?,
    ];
    Ok(found.iter().any(Option::is_some))
}

/// Sets the key of an error about the value of a secret: the one that is set.
pub(super) fn locate(error: ConfigError, base: &str, reader: &TableReader<'_>) -> ConfigError {
    let keys = [
        base.to_owned(),
        format!("{base}_file"),
        format!("{base}_env"),
    ];
    let set = keys
        .iter()
        .find_map(|key| Some((key, reader.table.get(key)?)));
    match set {
        Some((key, node)) if error.is_about_value() => {
            error.with_location(&reader.full_key(key), &node.source)
        }
        _ => error,
    }
}

/// Returns the members of a [`SecretRef`]. `inline` allows the secret in the configuration file itself.
pub(super) fn resolve(
    reader: &TableReader<'_>,
    inline: bool,
) -> Result<Vec<(&'static str, String)>> {
    let base = reader.part;
    let (file_key, env_key) = (format!("{base}_file"), format!("{base}_env"));
    let refused = |key: &str, node: &super::layer::Node, reason: String| {
        ConfigError::refused(&reader.full_key(key), &node.source, reason)
    };
    let both = |other: &str| format!("`{other}` is set too; keep one of the two");
    let value = reader.text(base, "a string")?;
    let file = reader.text(&file_key, EXPECTED_PATH)?;
    let env = reader.text(&env_key, "a string")?;
    let (secret, location) = match (value, file, env) {
        (Some((_, node)), _, _) if !inline => {
            let reason = format!(
                "secrets are not allowed in this file; put it into a separate file and set `{file_key}`, or into \
                 an environment variable and set `{env_key}`"
            );
            return Err(refused(base, node, reason));
        }
        (_, Some(_), Some((_, node))) => return Err(refused(&env_key, node, both(&file_key))),
        (Some(_), Some((_, node)), None) => return Err(refused(&file_key, node, both(base))),
        (Some(_), None, Some((_, node))) => return Err(refused(&env_key, node, both(base))),
        (Some(("", node)), None, None) => {
            let reason = "must not be empty; set a secret, or remove the key".to_owned();
            return Err(refused(base, node, reason));
        }
        (Some((text, _)), None, None) => (text.to_owned(), format!("`{base}`")),
        (None, Some((path, node)), None) => {
            let text = read_file(&reader.folder.join(path));
            let text = text.map_err(|reason| refused(&file_key, node, reason))?;
            (text, format!("`{file_key}`"))
        }
        (None, None, Some((name, node))) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                let reason = "write the name of an environment variable, as in \"MODEL_KEY\", not the secret itself";
                return Err(refused(&env_key, node, reason.to_owned()));
            }
            let text = variable(name).unwrap_or_default();
            (text, format!("the environment variable {name}"))
        }
        (None, None, None) => return Err(ConfigError::missing_field(base)),
    };
    Ok(vec![("secret", secret), ("location", location)])
}

fn read_file(path: &Path) -> std::result::Result<String, String> {
    let size = fs::metadata(path).map(|meta| meta.len());
    let text = match size {
        Ok(size) if size > MAX_SECRET_FILE_SIZE => {
            return Err("the file is too large for a secret".to_owned());
        }
        Ok(_) => fs::read_to_string(path),
        Err(error) => Err(error),
    };
    let text = text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}
