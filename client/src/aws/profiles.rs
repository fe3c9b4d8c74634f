//! Profiles: what the files of AWS's command line say about credentials. How they lead to some is
//! decided here; fetching them is the chain's.

use super::place::{Place, Trouble};
use super::signer::AwsKeys;
use super::sts::Role;
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Keys in the file that lead to credentials in a way that we do not go.
const ELSEWHERE: [(&str, &str); 4] = [
    ("sso_session", "single sign-on"),
    ("sso_start_url", "single sign-on"),
    ("login_session", "a session of the console"),
    ("credential_process", "a program"),
];

/// All profiles of a machine, and the one that is meant.
#[derive(Default)]
pub(super) struct Profiles {
    pub(super) selected: String,
    all: BTreeMap<String, Profile>,
}

type Profile = BTreeMap<String, String>;

/// A way to credentials: where it begins, and the roles that are taken one after the other.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) base: Base,
    pub(super) roles: Vec<Role>,
}

#[derive(Debug)]
pub(super) enum Base {
    Keys(AwsKeys),
    Token { role: Role, file: String },
    Environment,
    Container,
    Machine,
}

impl Profiles {
    /// Reads both files. One that is not there is an empty one, unless somebody named it. One that
    /// cannot be read ends the search: it may have said who we are.
    pub(super) async fn read(place: &Place) -> Result<Self, Trouble> {
        let selected = place.var("AWS_PROFILE");
        let mut profiles = Self {
            selected: selected.unwrap_or_else(|| "default".to_owned()),
            all: BTreeMap::new(),
        };
        // What the second says counts.
        for (var, usual, kind) in [
            ("AWS_CONFIG_FILE", "~/.aws/config", Kind::Config),
            (
                "AWS_SHARED_CREDENTIALS_FILE",
                "~/.aws/credentials",
                Kind::Credentials,
            ),
        ] {
            let said = place.var(var);
            let name = said.as_deref().unwrap_or(usual);
            let Some(path) = place.path(name) else {
                if said.is_some() {
                    return Err(Trouble::new(format!("{var}: nobody says what `~` is")));
                }
                continue;
            };
            match place.file(path).await {
                Ok(text) => profiles.take_in(&text, kind, name)?,
                Err(error) if error.kind() == ErrorKind::NotFound && said.is_none() => {}
                Err(error) => {
                    return Err(Trouble::new(format!("{name} cannot be read: {error}")));
                }
            }
        }
        Ok(profiles)
    }

    fn take_in(&mut self, text: &str, kind: Kind, file: &str) -> Result<(), Trouble> {
        let lines = lines(text).map_err(|line| {
            Trouble::new(format!(
                "line {line} of {file} is neither `[name]` nor `key = value`"
            ))
        })?;
        let exact = lines.iter().any(|line| line.section == "profile default");
        for line in lines {
            let section = line.section;
            let name = match (kind, section.split_once(char::is_whitespace)) {
                // The longer spelling of it wins.
                (Kind::Config, None) => Some(section).filter(|name| *name == "default" && !exact),
                (Kind::Config, Some((word, name))) => {
                    Some(name.trim()).filter(|_| word == "profile")
                }
                (Kind::Credentials, None) => Some(section),
                (Kind::Credentials, Some(_)) => None,
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

    /// How the selected profile leads to credentials; none if it says nothing about them.
    pub(super) fn way(&self) -> Result<Option<Way>, Trouble> {
        let mut name = self.selected.as_str();
        if name == "default" && !self.all.contains_key(name) {
            return Ok(None);
        }
        let mut seen: Vec<&str> = Vec::new();
        let mut roles = Vec::new();
        let base = loop {
            let profile = self.all.get(name);
            let profile = profile.ok_or_else(|| match seen.last() {
                None => trouble(name, "does not exist"),
                Some(before) => trouble(
                    before,
                    &format!("has the source `{name}`, which does not exist"),
                ),
            })?;
            if seen.contains(&name) {
                return Err(trouble(name, "is its own source in the end"));
            }
            seen.push(name);
            if seen.len() > 1
                && let Some(keys) = keys(name, profile)?
            {
                break Some(Base::Keys(keys));
            }
            let Some(role) = role(profile).filter(|_| !profile.contains_key(TOKEN_FILE)) else {
                break base(name, profile)?;
            };
            roles.push(role);
            match (
                profile.get("source_profile"),
                profile.get("credential_source"),
            ) {
                (Some(_), Some(_)) => {
                    return Err(trouble(
                        name,
                        "has both source_profile and credential_source",
                    ));
                }
                (None, None) => {
                    let words = "has a role_arn, but neither source_profile nor credential_source";
                    return Err(trouble(name, words));
                }
                (Some(source), None) if source != name => name = source,
                _ => break base(name, profile)?,
            }
        };
        roles.reverse();
        match base {
            Some(base) => Ok(Some(Way { base, roles })),
            None if roles.is_empty() && seen.len() == 1 => Ok(None),
            None => Err(trouble(
                name,
                "has no credentials for the role that needs them",
            )),
        }
    }
}

const TOKEN_FILE: &str = "web_identity_token_file";

fn role(profile: &Profile) -> Option<Role> {
    Some(Role {
        arn: profile.get("role_arn")?.clone(),
        session: profile.get("role_session_name").cloned(),
        external: profile.get("external_id").cloned(),
    })
}

/// Where a profile that takes no role of another's has its credentials from.
fn base(name: &str, profile: &Profile) -> Result<Option<Base>, Trouble> {
    if let Some(source) = profile.get("credential_source") {
        return match source.as_str() {
            "Environment" => Ok(Some(Base::Environment)),
            "EcsContainer" => Ok(Some(Base::Container)),
            "Ec2InstanceMetadata" => Ok(Some(Base::Machine)),
            _ => Err(trouble(
                name,
                "needs Environment, EcsContainer or Ec2InstanceMetadata as credential_source",
            )),
        };
    }
    if let Some(file) = profile.get(TOKEN_FILE) {
        let role = role(profile);
        let role =
            role.ok_or_else(|| trouble(name, "has a web_identity_token_file, but no role_arn"))?;
        let file = file.clone();
        return Ok(Some(Base::Token { role, file }));
    }
    if let Some(keys) = keys(name, profile)? {
        return Ok(Some(Base::Keys(keys)));
    }
    match ELSEWHERE.iter().find(|(key, _)| profile.contains_key(*key)) {
        None => Ok(None),
        Some((_, way)) => Err(trouble(
            name,
            &format!(
                "gets its credentials from {way}, which is not supported: put those of \
                 `aws configure export-credentials` into the environment"
            ),
        )),
    }
}

fn keys(name: &str, profile: &Profile) -> Result<Option<AwsKeys>, Trouble> {
    let (id, secret) = ("aws_access_key_id", "aws_secret_access_key");
    match (profile.get(id), profile.get(secret)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(trouble(name, &format!("has an {id}, but no {secret}"))),
        (None, Some(_)) => Err(trouble(name, &format!("has an {secret}, but no {id}"))),
        (Some(id), Some(secret)) => {
            let keys = AwsKeys::new(id, secret.as_str());
            Ok(Some(match profile.get("aws_session_token") {
                Some(token) => keys.with_session_token(token.as_str()),
                None => keys,
            }))
        }
    }
}

fn trouble(profile: &str, words: &str) -> Trouble {
    Trouble::new(format!("the profile `{profile}` {words}"))
}

#[derive(Clone, Copy)]
enum Kind {
    Config,
    Credentials,
}

struct Line<'a> {
    section: &'a str,
    /// None for the line that begins the section.
    pair: Option<(&'a str, &'a str)>,
}

/// The pairs of a file and the sections they stand in, or the number of a line that is neither.
fn lines(text: &str) -> Result<Vec<Line<'_>>, usize> {
    let mut found = Vec::new();
    let mut section = None;
    let mut depth = None;
    for (number, line) in (1_usize..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', ';']) {
            continue;
        }
        let indent = line.len() - start.len();
        // It goes on with the line above, which is about something else than credentials.
        if depth.is_some_and(|depth| indent > depth) {
            continue;
        }
        if let Some(rest) = start.strip_prefix('[') {
            let (name, _) = rest.split_once(']').ok_or(number)?;
            let name = name.trim();
            (section, depth) = (Some(name), None);
            found.push(Line {
                section: name,
                pair: None,
            });
            continue;
        }
        let (key, value) = start.split_once('=').ok_or(number)?;
        depth = Some(indent);
        let section = section.ok_or(number)?;
        let pair = (key.trim(), without_comment(value).trim());
        if !pair.1.is_empty() {
            found.push(Line {
                section,
                pair: Some(pair),
            });
        }
    }
    Ok(found)
}

/// A comment in a line begins after a space: a secret may have the sign in it.
fn without_comment(value: &str) -> &str {
    let starts = [" #", " ;", "\t#", "\t;"];
    let first = starts.iter().filter_map(|start| value.find(start)).min();
    first.and_then(|end| value.get(..end)).unwrap_or(value)
}

#[cfg(test)]
mod tests;
