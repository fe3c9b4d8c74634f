//! AWS CLI profiles: parses the config and credentials files and determines how a profile gets its credentials.

use super::environment::{CredentialsEnv, CredentialsError};
use super::signer::AwsKeys;
use super::sts::AssumedRole;
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Profile keys of unsupported credential sources.
const UNSUPPORTED_SOURCES: [(&str, &str); 4] = [
    ("sso_session", "single sign-on"),
    ("sso_start_url", "single sign-on"),
    ("login_session", "an AWS console login"),
    ("credential_process", "an external program"),
];

/// All profiles and the selected one.
#[derive(Default)]
pub(super) struct Profiles {
    pub(super) selected: String,
    all: BTreeMap<String, Profile>,
}

type Profile = BTreeMap<String, String>;

/// Path to credentials: the base credentials and the roles to assume in order.
#[derive(Debug)]
pub(super) struct CredentialPath {
    pub(super) base: BaseCredentials,
    pub(super) roles: Vec<AssumedRole>,
}

#[derive(Debug)]
pub(super) enum BaseCredentials {
    Keys(AwsKeys),
    Token { role: AssumedRole, file: String },
    Environment,
    Container,
    Machine,
}

impl Profiles {
    /// Reads both files. A missing default file counts as empty; a missing file that is configured, or an unreadable
    /// one, is an error.
    pub(super) async fn read(env: &CredentialsEnv) -> Result<Self, CredentialsError> {
        let selected = env.var("AWS_PROFILE");
        let mut profiles = Self {
            selected: selected.unwrap_or_else(|| "default".to_owned()),
            all: BTreeMap::new(),
        };
        // The second file takes precedence.
        for (var, default_path, kind) in [
            ("AWS_CONFIG_FILE", "~/.aws/config", ProfileFile::Config),
            (
                "AWS_SHARED_CREDENTIALS_FILE",
                "~/.aws/credentials",
                ProfileFile::Credentials,
            ),
        ] {
            let configured = env.var(var);
            let name = configured.as_deref().unwrap_or(default_path);
            let Some(path) = env.resolve_path(name) else {
                if configured.is_some() {
                    return Err(CredentialsError::new(format!(
                        "{var}: the home directory is unknown"
                    )));
                }
                continue;
            };
            match env.read_file(path).await {
                Ok(text) => profiles.merge(&text, kind, name)?,
                Err(error) if error.kind() == ErrorKind::NotFound && configured.is_none() => {}
                Err(error) => {
                    return Err(CredentialsError::new(format!(
                        "{name} cannot be read: {error}"
                    )));
                }
            }
        }
        Ok(profiles)
    }

    fn merge(&mut self, text: &str, kind: ProfileFile, file: &str) -> Result<(), CredentialsError> {
        let lines = parse_lines(text).map_err(|line| {
            CredentialsError::new(format!(
                "line {line} of {file} is neither `[name]` nor `key = value`"
            ))
        })?;
        let exact = lines.iter().any(|line| line.section == "profile default");
        for line in lines {
            let section = line.section;
            let name = match (kind, section.split_once(char::is_whitespace)) {
                // `[profile default]` takes precedence over `[default]`.
                (ProfileFile::Config, None) => {
                    Some(section).filter(|name| *name == "default" && !exact)
                }
                (ProfileFile::Config, Some((word, name))) => {
                    Some(name.trim()).filter(|_| word == "profile")
                }
                (ProfileFile::Credentials, None) => Some(section),
                (ProfileFile::Credentials, Some(_)) => None,
            };
            if let Some(name) = name {
                let profile = self.all.entry(name.to_owned()).or_default();
                if let Some((key, value)) = line.pair {
                    profile.insert(key.to_ascii_lowercase(), value.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Resolves the selected profile; `None` if it has no credential settings.
    pub(super) fn resolve(&self) -> Result<Option<CredentialPath>, CredentialsError> {
        let mut name = self.selected.as_str();
        if name == "default" && !self.all.contains_key(name) {
            return Ok(None);
        }
        let mut visited: Vec<&str> = Vec::new();
        let mut roles = Vec::new();
        let base = loop {
            let profile = self.all.get(name);
            let profile = profile.ok_or_else(|| match visited.last() {
                None => profile_error(name, "does not exist"),
                Some(before) => profile_error(
                    before,
                    &format!("has the source `{name}`, which does not exist"),
                ),
            })?;
            if visited.contains(&name) {
                return Err(profile_error(
                    name,
                    "is its own source, through source_profile",
                ));
            }
            visited.push(name);
            if visited.len() > 1
                && let Some(keys) = static_keys(name, profile)?
            {
                break Some(BaseCredentials::Keys(keys));
            }
            let Some(role) = role(profile).filter(|_| !profile.contains_key(TOKEN_FILE)) else {
                break base_credentials(name, profile)?;
            };
            roles.push(role);
            match (
                profile.get("source_profile"),
                profile.get("credential_source"),
            ) {
                (Some(_), Some(_)) => {
                    return Err(profile_error(
                        name,
                        "has both source_profile and credential_source",
                    ));
                }
                (None, None) => {
                    let text = "has a role_arn, but neither source_profile nor credential_source";
                    return Err(profile_error(name, text));
                }
                (Some(source), None) if source != name => name = source,
                _ => break base_credentials(name, profile)?,
            }
        };
        roles.reverse();
        match base {
            Some(base) => Ok(Some(CredentialPath { base, roles })),
            None if roles.is_empty() && visited.len() == 1 => Ok(None),
            None => Err(profile_error(
                name,
                "has no credentials for the role that needs them",
            )),
        }
    }
}

const TOKEN_FILE: &str = "web_identity_token_file";

fn role(profile: &Profile) -> Option<AssumedRole> {
    Some(AssumedRole {
        arn: profile.get("role_arn")?.clone(),
        session: profile.get("role_session_name").cloned(),
        external: profile.get("external_id").cloned(),
    })
}

/// Returns the base credentials of a profile.
fn base_credentials(
    name: &str,
    profile: &Profile,
) -> Result<Option<BaseCredentials>, CredentialsError> {
    if let Some(source) = profile.get("credential_source") {
        return match source.as_str() {
            "Environment" => Ok(Some(BaseCredentials::Environment)),
            "EcsContainer" => Ok(Some(BaseCredentials::Container)),
            "Ec2InstanceMetadata" => Ok(Some(BaseCredentials::Machine)),
            _ => Err(profile_error(
                name,
                "needs Environment, EcsContainer or Ec2InstanceMetadata as credential_source",
            )),
        };
    }
    if let Some(file) = profile.get(TOKEN_FILE) {
        let role = role(profile);
        let role = role
            .ok_or_else(|| profile_error(name, "has a web_identity_token_file, but no role_arn"))?;
        let file = file.clone();
        return Ok(Some(BaseCredentials::Token { role, file }));
    }
    if let Some(keys) = static_keys(name, profile)? {
        return Ok(Some(BaseCredentials::Keys(keys)));
    }
    match UNSUPPORTED_SOURCES
        .iter()
        .find(|(key, _)| profile.contains_key(*key))
    {
        None => Ok(None),
        Some((_, source)) => Err(profile_error(
            name,
            &format!(
                "gets its credentials from {source}, which is not supported: set the output of \
                 `aws configure export-credentials` in the environment"
            ),
        )),
    }
}

fn static_keys(name: &str, profile: &Profile) -> Result<Option<AwsKeys>, CredentialsError> {
    let (id, secret) = ("aws_access_key_id", "aws_secret_access_key");
    match (profile.get(id), profile.get(secret)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(profile_error(
            name,
            &format!("has an {id}, but no {secret}"),
        )),
        (None, Some(_)) => Err(profile_error(
            name,
            &format!("has an {secret}, but no {id}"),
        )),
        (Some(id), Some(secret)) => {
            let keys = AwsKeys::new(id, secret.as_str());
            Ok(Some(match profile.get("aws_session_token") {
                Some(token) => keys.with_session_token(token.as_str()),
                None => keys,
            }))
        }
    }
}

fn profile_error(profile: &str, text: &str) -> CredentialsError {
    CredentialsError::new(format!("the profile `{profile}` {text}"))
}

#[derive(Clone, Copy)]
enum ProfileFile {
    Config,
    Credentials,
}

struct ProfileLine<'a> {
    section: &'a str,
    /// None for a section header.
    pair: Option<(&'a str, &'a str)>,
}

/// Parses a file into pairs with their sections, or returns the number of an invalid line.
fn parse_lines(text: &str) -> Result<Vec<ProfileLine<'_>>, usize> {
    let mut lines = Vec::new();
    let mut section = None;
    let mut depth = None;
    for (number, line) in (1_usize..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', ';']) {
            continue;
        }
        let indent = line.len() - start.len();
        // A nested setting of the line above, which has no credentials.
        if depth.is_some_and(|depth| indent > depth) {
            continue;
        }
        if let Some(header) = start.strip_prefix('[') {
            let (name, _) = header.split_once(']').ok_or(number)?;
            let name = name.trim();
            (section, depth) = (Some(name), None);
            lines.push(ProfileLine {
                section: name,
                pair: None,
            });
            continue;
        }
        let (key, value) = start.split_once('=').ok_or(number)?;
        depth = Some(indent);
        let section = section.ok_or(number)?;
        let pair = (key.trim(), strip_comment(value).trim());
        if !pair.1.is_empty() {
            lines.push(ProfileLine {
                section,
                pair: Some(pair),
            });
        }
    }
    Ok(lines)
}

/// Removes a trailing comment. It must follow whitespace, because a secret may contain `#` or `;`.
fn strip_comment(value: &str) -> &str {
    let starts = [" #", " ;", "\t#", "\t;"];
    let first = starts.iter().filter_map(|start| value.find(start)).min();
    first.and_then(|end| value.get(..end)).unwrap_or(value)
}

#[cfg(test)]
mod tests;
