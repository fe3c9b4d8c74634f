//! Profile files in the forms that occur in practice.

use super::*;

fn profiles(selected: &str, config: &str, credentials: &str) -> Result<Profiles, CredentialsError> {
    let mut profiles = Profiles {
        selected: selected.to_owned(),
        all: BTreeMap::new(),
    };
    profiles.merge(config, ProfileFile::Config, "config")?;
    profiles.merge(credentials, ProfileFile::Credentials, "credentials")?;
    Ok(profiles)
}

fn resolve(
    selected: &str,
    config: &str,
    credentials: &str,
) -> Result<Option<CredentialPath>, String> {
    let profiles = profiles(selected, config, credentials).map_err(|error| error.to_string())?;
    profiles.resolve().map_err(|error| error.to_string())
}

/// Returns the base keys and the roles to assume.
fn unwrap_keys(path: Option<CredentialPath>) -> (String, String, Option<String>, Vec<String>) {
    let path = path.unwrap();
    let BaseCredentials::Keys(keys) = path.base else {
        panic!("{:?}", path.base);
    };
    let roles = path.roles.into_iter().map(|role| role.arn).collect();
    let session = keys.session().map(str::to_owned);
    (
        keys.id().to_owned(),
        keys.secret().to_owned(),
        session,
        roles,
    )
}

#[test]
fn credentials_file_has_precedence_over_config() {
    let config = "[default]\nregion = eu-west-1\naws_access_key_id = A\naws_secret_access_key = a\n\
                  [profile dev]\naws_access_key_id = B\naws_secret_access_key = b\n\
                  [dev2]\naws_access_key_id = X\naws_secret_access_key = x\n";
    let credentials = "[default]\naws_access_key_id = C\naws_secret_access_key = c\n\
                       aws_session_token = t\n\
                       [profile dev]\naws_access_key_id = X\naws_secret_access_key = x\n";
    let resolved = |name| resolve(name, config, credentials).map(unwrap_keys);
    let none = Vec::new();
    let expected = (
        "C".to_owned(),
        "c".to_owned(),
        Some("t".to_owned()),
        none.clone(),
    );
    assert_eq!(resolved("default"), Ok(expected));
    assert_eq!(
        resolved("dev"),
        Ok(("B".to_owned(), "b".to_owned(), None, none))
    );
    let error = resolved("dev2").unwrap_err();
    assert!(error.contains("`dev2` does not exist"), "{error}");
}

#[test]
fn profile_file_syntax_variants_are_accepted() {
    let config = "\u{feff}# mine\n; too\n[ profile  dev ] # comment\r\n\
                  AWS_ACCESS_KEY_ID=ID ; comment\r\n\
                  s3 =\n  max_concurrent_requests = 1\n  aws_secret_access_key = nested\n\
                  aws_secret_access_key =a#b;c=d/+=\t# comment\n\
                  [services x]\nsts =\n  endpoint_url = http://x.example\n\
                  [sso-session dev]\nsso_region = eu-west-1\n";
    let (id, secret, ..) = unwrap_keys(resolve("dev", config, "").unwrap());
    assert_eq!((id.as_str(), secret.as_str()), ("ID", "a#b;c=d/+="));
    let indented = "[default]\n  aws_access_key_id = A\n  aws_secret_access_key = a\n";
    assert_eq!(
        unwrap_keys(resolve("default", "", indented).unwrap()).1,
        "a"
    );
    let both = "[profile default]\naws_access_key_id = A\naws_secret_access_key = a\n\
                [default]\naws_access_key_id = B\naws_secret_access_key = b\n";
    assert_eq!(unwrap_keys(resolve("default", both, "").unwrap()).0, "A");
    for (text, line) in [
        ("[default]\nkey\n", 2),
        ("a = b\n", 1),
        ("[default]\n[open\n", 2),
    ] {
        let error = resolve("default", text, "").unwrap_err();
        assert!(error.contains(&format!("line {line} of config")), "{error}");
        assert!(!error.contains("key\n"), "{error}");
    }
}

#[test]
fn profile_without_credentials_resolves_to_none() {
    assert!(resolve("default", "", "").unwrap().is_none());
    assert!(
        resolve("default", "[profile x]\nregion = y\n", "")
            .unwrap()
            .is_none()
    );
    assert!(
        resolve("default", "[default]\nregion = eu-west-1\n", "")
            .unwrap()
            .is_none()
    );
    assert!(
        resolve("x", "[profile x]\nregion =\n", "")
            .unwrap()
            .is_none()
    );
}

#[test]
fn chained_roles_are_assumed_in_order() {
    let config = "[profile a]\nrole_arn = arn:a\nsource_profile = b\nexternal_id = e\n\
                  role_session_name = me\n\
                  [profile b]\nrole_arn = arn:b\nsource_profile = c\n\
                  [profile own]\nrole_arn = arn:own\nsource_profile = own\n\
                  aws_access_key_id = O\naws_secret_access_key = o\n\
                  [profile machine]\nrole_arn = arn:m\ncredential_source = Ec2InstanceMetadata\n\
                  [profile token]\nrole_arn = arn:t\nweb_identity_token_file = /t\n";
    let credentials = "[c]\naws_access_key_id = C\naws_secret_access_key = c\n";
    let path = resolve("a", config, credentials).unwrap().unwrap();
    let first = path.roles.last().unwrap();
    assert_eq!(first.session.as_deref(), Some("me"));
    assert_eq!(first.external.as_deref(), Some("e"));
    let (id, _, _, roles) = unwrap_keys(Some(path));
    assert_eq!(id, "C");
    assert_eq!(roles, ["arn:b", "arn:a"]);
    let (id, _, _, roles) = unwrap_keys(resolve("own", config, "").unwrap());
    assert_eq!((id.as_str(), roles), ("O", vec!["arn:own".to_owned()]));
    let path = resolve("machine", config, "").unwrap().unwrap();
    assert!(matches!(path.base, BaseCredentials::Machine));
    assert_eq!(path.roles.len(), 1);
    let path = resolve("token", config, "").unwrap().unwrap();
    assert!(
        matches!(path.base, BaseCredentials::Token { role, file } if role.arn == "arn:t" && file == "/t")
    );
    assert!(path.roles.is_empty());
}

#[test]
fn unresolvable_profile_error_names_the_profile() {
    let config = "[profile loop]\nrole_arn = r\nsource_profile = back\n\
                  [profile back]\nrole_arn = r\nsource_profile = loop\n\
                  [profile lost]\nrole_arn = r\nsource_profile = missing\n\
                  [profile empty]\nrole_arn = r\nsource_profile = plain\n\
                  [profile plain]\nregion = x\n\
                  [profile both]\nrole_arn = r\nsource_profile = plain\ncredential_source = Environment\n\
                  [profile neither]\nrole_arn = r\n\
                  [profile odd]\nrole_arn = r\ncredential_source = Elsewhere\n\
                  [profile half]\naws_access_key_id = A\n\
                  [profile token]\nweb_identity_token_file = /t\n\
                  [profile sso]\nsso_session = s\n\
                  [profile program]\ncredential_process = /bin/x --secret y\n";
    for (name, expected) in [
        ("missing", "`missing` does not exist"),
        ("loop", "its own source"),
        (
            "lost",
            "`lost` has the source `missing`, which does not exist",
        ),
        ("empty", "`plain` has no credentials"),
        ("both", "both source_profile and credential_source"),
        ("neither", "neither source_profile nor credential_source"),
        ("odd", "Ec2InstanceMetadata"),
        ("half", "no aws_secret_access_key"),
        ("token", "no role_arn"),
        ("sso", "single sign-on, which is not supported"),
        ("program", "export-credentials"),
    ] {
        let error = resolve(name, config, "").unwrap_err();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(!error.contains("--secret"), "{error}");
    }
    // Static keys next to an unsupported source are used.
    let keys = "[sso]\naws_access_key_id = S\naws_secret_access_key = s\n";
    assert_eq!(unwrap_keys(resolve("sso", config, keys).unwrap()).0, "S");
}
