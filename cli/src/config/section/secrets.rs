//! Secrets in a configuration: written there, or kept elsewhere and only named.

use super::{A_PATH, Found, Result, Section, text_of};
use crate::config;
use interzone_edge::Secret;
use std::fs;

/// A key file is a line; anything larger was named by mistake.
const MOST_SECRET: u64 = 64 * 1024;

/// A secret that is kept elsewhere, and where that is. Whoever needs it says if it is not there.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) secret: Option<Secret>,
    pub(crate) place: String,
}

impl Section<'_> {
    /// A secret: in `key`, or in the file that `key_file` names.
    pub(in crate::config) fn secret(
        &mut self,
        key: &'static str,
        key_file: &'static str,
    ) -> Result<Option<Secret>> {
        let here = self.text(key)?;
        let file = self.take(key_file, A_PATH, text_of)?;
        match (here, file) {
            (Some(_), Some(file)) => {
                Err(file.refuse(format!("`{key}` is set too; keep one of the two")))
            }
            (Some(here), None) if here.value.is_empty() => {
                Err(here.refuse("it is empty; write a secret, or remove the key"))
            }
            (Some(here), None) => Ok(Some(Secret::new(here.value))),
            (None, Some(file)) => self.secret_in(&file).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The secret in a file that was named.
    pub(in crate::config) fn secret_in(&self, file: &Found<String>) -> Result<Secret> {
        let path = self.folder.join(&file.value);
        let size = fs::metadata(&path).map(|meta| meta.len());
        let text = match size {
            Ok(size) if size > MOST_SECRET => {
                return Err(file.refuse("that file is too large to be a secret"));
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

    /// A secret that is kept elsewhere and must be there if a place is named for it.
    pub(in crate::config) fn kept_secret(
        &mut self,
        here: &'static str,
        file: &'static str,
        variable: &'static str,
    ) -> Result<Option<Secret>> {
        match self.secret_elsewhere(here, file, variable)? {
            None => Ok(None),
            Some(Elsewhere {
                secret: Some(secret),
                ..
            }) => Ok(Some(secret)),
            Some(Elsewhere { place, .. }) => {
                Err(self.refuse(format!("{place} holds no secret; put it there")))
            }
        }
    }

    /// A secret that is kept elsewhere: in the file that `file` names, or in the variable that `variable`
    /// names. Written here as `here`, it is refused.
    pub(in crate::config) fn secret_elsewhere(
        &mut self,
        here: &'static str,
        file: &'static str,
        variable: &'static str,
    ) -> Result<Option<Elsewhere>> {
        if let Some(found) = self.text(here)? {
            return Err(found.refuse(format!(
                "a secret is not for this file; keep it in a file of its own and name that with \
                 `{file}`, or name the variable that holds it with `{variable}`"
            )));
        }
        let named = self.text(variable)?;
        if let (Some(named), true) = (&named, self.has(file)) {
            return Err(named.refuse(format!("`{file}` is set too; keep one of the two")));
        }
        let Some(named) = named else {
            let secret = self.secret(here, file)?;
            return Ok(secret.map(|secret| Elsewhere {
                place: format!("`{file}`"),
                secret: Some(secret),
            }));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if named.value.is_empty() || !named.value.chars().all(plain) {
            return Err(named.refuse(
                "name a variable of the environment, as in \"MODEL_KEY\"; the secret itself is \
                 not for this file",
            ));
        }
        Ok(Some(Elsewhere {
            secret: config::variable(&named.value).map(Secret::new),
            place: format!("the variable {}", named.value),
        }))
    }
}
