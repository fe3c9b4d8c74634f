//! Environment of a client command: environment variables, and the data folder of `interzone up`. `connect`
//! evaluates them.

use super::{variable, variable_path};
use interzone_edge::Secret;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Name of the data folder of `interzone up`.
pub(crate) const DATA_DIR: &str = ".interzone";
/// File in that folder with the zone's URL and credentials.
const PROFILE_FILE: &str = "connection.toml";

/// Settings from the environment that may select the zone.
#[derive(Debug, Default)]
pub(crate) struct CliEnvironment {
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
    /// The closest data folder of `interzone up`, in this directory or above.
    pub(crate) folder: Option<PathBuf>,
}

impl CliEnvironment {
    /// Reads the environment.
    pub(crate) fn load() -> Self {
        let here = env::current_dir().ok();
        Self {
            url: variable("INTERZONE_URL"),
            ca: variable_path("INTERZONE_CA"),
            client_id: variable("INTERZONE_CLIENT_ID"),
            client_secret: variable("INTERZONE_CLIENT_SECRET").map(Secret::new),
            client_secret_file: variable_path("INTERZONE_CLIENT_SECRET_FILE"),
            token: variable("INTERZONE_TOKEN").map(Secret::new),
            token_file: variable_path("INTERZONE_TOKEN_FILE"),
            folder: here.as_deref().and_then(find_data_dir),
        }
    }
}

/// Returns the closest data folder of `interzone up` in `here` or above.
fn find_data_dir(here: &Path) -> Option<PathBuf> {
    here.ancestors()
        .map(|folder| folder.join(DATA_DIR))
        .find(|folder| folder.join(PROFILE_FILE).is_file())
}

/// URL and credentials of a zone, as written by `interzone up`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionProfile {
    pub(crate) url: String,
    /// Relative to the folder.
    pub(crate) ca: PathBuf,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// User who can sign in at the built-in issuer.
    pub(crate) user: String,
    pub(crate) passphrase: Secret,
}

impl ConnectionProfile {
    /// Reads the profile of a folder, if there is one.
    ///
    /// # Errors
    /// The profile exists and cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, ProfileError> {
        let path = folder.join(PROFILE_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ProfileError::Read(path, error)),
        };
        let mut profile: Self = match toml::from_str(&text) {
            Ok(profile) => profile,
            Err(error) => return Err(ProfileError::Invalid(path, Box::new(error))),
        };
        profile.ca = folder.join(profile.ca);
        Ok(Some(profile))
    }

    /// Returns the path of the profile. It contains credentials of the zone.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(PROFILE_FILE)
    }

    /// Serializes the profile.
    pub(crate) fn to_toml(&self) -> String {
        let line = |key: &str, value: &str| format!("{key} = {}\n", toml::Value::from(value));
        [
            "# Written by `interzone up`. It contains credentials: anyone who can read it can use the zone.\n".to_owned(),
            line("url", &self.url),
            line(
                "ca",
                &self.ca.file_name().unwrap_or_default().to_string_lossy(),
            ),
            line("client_id", &self.client_id),
            line("client_secret", self.client_secret.expose()),
            "# For the sign-in page of `interzone token --login`.\n".to_owned(),
            line("user", &self.user),
            line("passphrase", self.passphrase.expose()),
        ]
        .concat()
    }
}

/// Error of reading a profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("{path} cannot be read: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error(
        "{} was not written by this version of `interzone up`; remove it and run `interzone up` again",
        .0.display()
    )]
    Invalid(PathBuf, #[source] Box<toml::de::Error>),
}

#[cfg(test)]
mod tests {
    use super::{ConnectionProfile, DATA_DIR, find_data_dir};
    use interzone_edge::Secret;
    use std::fs;

    #[test]
    fn profile_round_trips_and_is_found_from_subfolder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(DATA_DIR);
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(&folder).unwrap();
        assert_eq!(find_data_dir(&deep), None);
        assert!(ConnectionProfile::read(&folder).unwrap().is_none());
        let profile = ConnectionProfile {
            url: "https://localhost:8443".to_owned(),
            ca: "ca.pem".into(),
            client_id: "c\"1".to_owned(),
            client_secret: Secret::new("s\\n\"'"),
            user: "you".to_owned(),
            passphrase: Secret::new("p"),
        };
        fs::write(ConnectionProfile::path(&folder), profile.to_toml()).unwrap();
        let read = ConnectionProfile::read(&folder).unwrap().unwrap();
        assert_eq!(read.client_id, "c\"1");
        assert!(read.client_secret.ct_eq("s\\n\"'"));
        assert_eq!(read.ca, folder.join("ca.pem"));
        assert_eq!(find_data_dir(&deep), Some(folder));
    }
}
