//! What a client command finds around it: variables of the environment, and the folder that
//! `interzone up` keeps its things in. What comes of them is decided in `connect`.

use super::{variable, variable_path};
use interzone_edge::Secret;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folder of `interzone up`.
pub(crate) const FOLDER: &str = ".interzone";
/// In that folder: where the zone is, and what opens it.
const PROFILE: &str = "connection.toml";

/// Everything around a command that may say where the zone is.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// `INTERZONE_URL`.
    pub(crate) url: Option<String>,
    /// `INTERZONE_CA`.
    pub(crate) ca: Option<PathBuf>,
    /// `INTERZONE_CLIENT_ID`.
    pub(crate) client_id: Option<String>,
    /// `INTERZONE_CLIENT_SECRET`.
    pub(crate) client_secret: Option<Secret>,
    /// `INTERZONE_CLIENT_SECRET_FILE`.
    pub(crate) client_secret_file: Option<PathBuf>,
    /// `INTERZONE_TOKEN`.
    pub(crate) token: Option<Secret>,
    /// `INTERZONE_TOKEN_FILE`.
    pub(crate) token_file: Option<PathBuf>,
    /// The nearest folder of `interzone up`, here or above.
    pub(crate) folder: Option<PathBuf>,
}

impl Surroundings {
    /// Looks around.
    pub(crate) fn look() -> Self {
        let here = env::current_dir().ok();
        Self {
            url: variable("INTERZONE_URL"),
            ca: variable_path("INTERZONE_CA"),
            client_id: variable("INTERZONE_CLIENT_ID"),
            client_secret: variable("INTERZONE_CLIENT_SECRET").map(Secret::new),
            client_secret_file: variable_path("INTERZONE_CLIENT_SECRET_FILE"),
            token: variable("INTERZONE_TOKEN").map(Secret::new),
            token_file: variable_path("INTERZONE_TOKEN_FILE"),
            folder: here.as_deref().and_then(nearest_folder),
        }
    }
}

/// The folder of `interzone up` that is nearest to `here`, upwards.
fn nearest_folder(here: &Path) -> Option<PathBuf> {
    here.ancestors()
        .map(|folder| folder.join(FOLDER))
        .find(|folder| folder.join(PROFILE).is_file())
}

/// Where a zone is, and what opens it, as `interzone up` writes it down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: String,
    /// In the folder.
    pub(crate) ca: PathBuf,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// Who may agree on the page of the built-in issuer.
    pub(crate) person: String,
    pub(crate) passphrase: Secret,
}

impl Profile {
    /// Reads the folder's profile, if it has one.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, ProfileError> {
        let path = folder.join(PROFILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ProfileError::Read(path, error)),
        };
        let mut profile: Self = match toml::from_str(&text) {
            Ok(profile) => profile,
            Err(error) => return Err(ProfileError::Broken(path, Box::new(error))),
        };
        profile.ca = folder.join(profile.ca);
        Ok(Some(profile))
    }

    /// The profile's file, for `interzone up` to write. Whoever may read it may use the zone.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(PROFILE)
    }

    /// The profile as a text to keep.
    pub(crate) fn to_toml(&self) -> String {
        let line = |key: &str, value: &str| format!("{key} = {}\n", toml::Value::from(value));
        [
            "# Written by `interzone up`. Whoever can read this can use its zone.\n".to_owned(),
            line("url", &self.url),
            line(
                "ca",
                &self.ca.file_name().unwrap_or_default().to_string_lossy(),
            ),
            line("client_id", &self.client_id),
            line("client_secret", self.client_secret.expose()),
            "# For the page that `interzone token --login` opens.\n".to_owned(),
            line("person", &self.person),
            line("passphrase", self.passphrase.expose()),
        ]
        .concat()
    }
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("{path} cannot be read: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error(
        "{} is not as `interzone up` wrote it; remove it and run `interzone up` again",
        .0.display()
    )]
    Broken(PathBuf, #[source] Box<toml::de::Error>),
}

#[cfg(test)]
mod tests {
    use super::{FOLDER, Profile, nearest_folder};
    use interzone_edge::Secret;
    use std::fs;

    #[test]
    fn a_profile_survives_being_written_and_is_found_from_below() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(&folder).unwrap();
        assert_eq!(nearest_folder(&deep), None);
        assert!(Profile::read(&folder).unwrap().is_none());
        let profile = Profile {
            url: "https://localhost:8443".to_owned(),
            ca: "ca.pem".into(),
            client_id: "c\"1".to_owned(),
            client_secret: Secret::new("s\\n\"'"),
            person: "you".to_owned(),
            passphrase: Secret::new("p"),
        };
        fs::write(Profile::path(&folder), profile.to_toml()).unwrap();
        let read = Profile::read(&folder).unwrap().unwrap();
        assert_eq!(read.client_id, "c\"1");
        assert!(read.client_secret.is("s\\n\"'"));
        assert_eq!(read.ca, folder.join("ca.pem"));
        assert_eq!(nearest_folder(&deep), Some(folder));
    }
}
