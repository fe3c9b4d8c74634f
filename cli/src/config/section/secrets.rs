//! Secrets in a configuration: inline values, files and environment variables.

use super::{ConfigValue, EXPECTED_PATH, Result, Section, into_text};
use crate::config;
use interzone_edge::Secret;
use std::fs;

/// Size limit of a secret file. A secret is one line; a larger file was named by mistake.
const MAX_SECRET_FILE_SIZE: u64 = 64 * 1024;

/// A secret stored outside the configuration file, and its location. The user of the secret reports it if
/// it is missing.
#[derive(Debug)]
pub(crate) struct SecretRef {
    pub(crate) secret: Option<Secret>,
    pub(crate) location: String,
}

impl Section<'_> {
    /// Reads a secret from `key`, or from the file that `key_file` names.
    pub(in crate::config) fn secret(
        &mut self,
        key: &'static str,
        key_file: &'static str,
    ) -> Result<Option<Secret>> {
        let inline = self.text(key)?;
        let file = self.take(key_file, EXPECTED_PATH, into_text)?;
        match (inline, file) {
            (Some(_), Some(file)) => {
                Err(file.refuse(format!("`{key}` is set too; keep one of the two")))
            }
            (Some(here), None) if here.value.is_empty() => {
                Err(here.refuse("must not be empty; set a secret, or remove the key"))
            }
            (Some(here), None) => Ok(Some(Secret::new(here.value))),
            (None, Some(file)) => self.read_secret_file(&file).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Reads the secret from a file.
    pub(in crate::config) fn read_secret_file(&self, file: &ConfigValue<String>) -> Result<Secret> {
        let path = self.folder.join(&file.value);
        let size = fs::metadata(&path).map(|meta| meta.len());
        let text = match size {
            Ok(size) if size > MAX_SECRET_FILE_SIZE => {
                return Err(file.refuse("the file is too large for a secret"));
            }
            Ok(_) => fs::read_to_string(&path),
            Err(error) => Err(error),
        };
        let text = text
            .map_err(|error| file.refuse(format!("{} cannot be read: {error}", path.display())))?;
        match text.trim() {
            "" => Err(file.refuse(format!("{} is empty", path.display()))),
            text => Ok(Secret::new(text.to_owned())),
        }
    }

    /// Reads a secret from outside the configuration; an error if a location is set but contains no secret.
    pub(in crate::config) fn external_secret(
        &mut self,
        inline: &'static str,
        file: &'static str,
        variable: &'static str,
    ) -> Result<Option<Secret>> {
        match self.secret_ref(inline, file, variable)? {
            None => Ok(None),
            Some(SecretRef {
                secret: Some(secret),
                ..
            }) => Ok(Some(secret)),
            Some(SecretRef {
                location: place, ..
            }) => Err(self.refuse(format!("{place} contains no secret; set it"))),
        }
    }

    /// Reads a secret from the file that `file` names, or from the environment variable that `variable` names.
    /// An inline secret (`inline`) is rejected.
    pub(in crate::config) fn secret_ref(
        &mut self,
        inline: &'static str,
        file: &'static str,
        variable: &'static str,
    ) -> Result<Option<SecretRef>> {
        if let Some(found) = self.text(inline)? {
            return Err(found.refuse(format!(
                "secrets are not allowed in this file; put it into a separate file and set `{file}`, or into \
                 an environment variable and set `{variable}`"
            )));
        }
        let named = self.text(variable)?;
        if let (Some(named), true) = (&named, self.has(file)) {
            return Err(named.refuse(format!("`{file}` is set too; keep one of the two")));
        }
        let Some(named) = named else {
            let secret = self.secret(inline, file)?;
            return Ok(secret.map(|secret| SecretRef {
                location: format!("`{file}`"),
                secret: Some(secret),
            }));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if named.value.is_empty() || !named.value.chars().all(plain) {
            return Err(named.refuse(
                "write the name of an environment variable, as in \"MODEL_KEY\", not the secret itself",
            ));
        }
        Ok(Some(SecretRef {
            secret: config::variable(&named.value).map(Secret::new),
            location: format!("the environment variable {}", named.value),
        }))
    }
}
