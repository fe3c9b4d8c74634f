//! AWS default credential chain: environment, profile, web identity, container, instance metadata. A source that is
//! configured but fails ends the search.

use super::environment::{CredentialsEnv, CredentialsError, ExpiringKeys};
use super::metadata;
use super::profiles::{BaseCredentials, Profiles};
use super::signer::AwsKeys;
use super::sts::{AssumedRole, RoleProof, assume_role};
use std::time::SystemTime;

#[cfg(test)]
mod tests;

/// Default credential chain, for callers without explicit credentials.
pub(super) struct Chain {
    env: CredentialsEnv,
    region: String,
}

impl Chain {
    pub(super) fn new(env: CredentialsEnv, region: &str) -> Self {
        let region = region.to_owned();
        Self { env, region }
    }

    /// Returns the credentials of the first source that has any.
    pub(super) async fn resolve(&self, now: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
        if let Some(keys) = environment_keys(&self.env)? {
            return Ok(ExpiringKeys::without_expiry(keys));
        }
        let profiles = Profiles::read(&self.env).await?;
        if let Some(credentials) = self.resolve_profile(&profiles, now).await? {
            return Ok(credentials);
        }
        if let Some(credentials) = self.resolve_web_identity(now).await? {
            return Ok(credentials);
        }
        if let Some(credentials) = metadata::ecs_credentials(&self.env).await? {
            return Ok(credentials);
        }
        let not_found = format!(
            "neither the environment nor the profile `{}` nor a web identity nor a container has credentials",
            profiles.selected
        );
        match metadata::imds_credentials(&self.env).await {
            Ok(Some(credentials)) => Ok(credentials),
            Ok(None) => Err(CredentialsError::new(format!(
                "{not_found}, and this instance has no role"
            ))),
            Err(error) => Err(CredentialsError::new(format!("{not_found}, and {error}"))),
        }
    }

    async fn resolve_profile(
        &self,
        profiles: &Profiles,
        now: SystemTime,
    ) -> Result<Option<ExpiringKeys>, CredentialsError> {
        let Some(path) = profiles.resolve()? else {
            return Ok(None);
        };
        let base = match path.base {
            BaseCredentials::Keys(keys) => Some(ExpiringKeys::without_expiry(keys)),
            BaseCredentials::Token { role, file } => {
                Some(self.assume_role_with_token(&role, &file, now).await?)
            }
            BaseCredentials::Environment => {
                environment_keys(&self.env)?.map(ExpiringKeys::without_expiry)
            }
            BaseCredentials::Container => metadata::ecs_credentials(&self.env).await?,
            BaseCredentials::Machine => metadata::imds_credentials(&self.env).await?,
        };
        let mut credentials = base.ok_or_else(|| {
            let name = &profiles.selected;
            CredentialsError::new(format!(
                "the credential_source of the profile `{name}` has no credentials"
            ))
        })?;
        for role in &path.roles {
            let at = (self.region.as_str(), now);
            let proof = RoleProof::Keys(&credentials.keys);
            credentials = assume_role(&self.env, at, role, proof).await?;
        }
        Ok(Some(credentials))
    }

    async fn resolve_web_identity(
        &self,
        now: SystemTime,
    ) -> Result<Option<ExpiringKeys>, CredentialsError> {
        let Some(file) = self.env.var("AWS_WEB_IDENTITY_TOKEN_FILE") else {
            return Ok(None);
        };
        let arn = self.env.var("AWS_ROLE_ARN").ok_or_else(|| {
            CredentialsError::new("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not")
        })?;
        let role = AssumedRole {
            arn,
            session: self.env.var("AWS_ROLE_SESSION_NAME"),
            external: None,
        };
        self.assume_role_with_token(&role, &file, now)
            .await
            .map(Some)
    }

    async fn assume_role_with_token(
        &self,
        role: &AssumedRole,
        file: &str,
        now: SystemTime,
    ) -> Result<ExpiringKeys, CredentialsError> {
        let token = self.env.read_token(file).await?;
        let at = (self.region.as_str(), now);
        assume_role(&self.env, at, role, RoleProof::Token(&token)).await
    }
}

fn environment_keys(env: &CredentialsEnv) -> Result<Option<AwsKeys>, CredentialsError> {
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let incomplete =
        |set, missing| CredentialsError::new(format!("{set} is set, but {missing} is not"));
    let keys = match (env.var(id), env.var(secret)) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(incomplete(id, secret)),
        (None, Some(_)) => return Err(incomplete(secret, id)),
        (Some(id), Some(secret)) => AwsKeys::new(id.trim(), secret.trim()),
    };
    Ok(Some(match env.var("AWS_SESSION_TOKEN") {
        Some(token) => keys.with_session_token(token.trim()),
        None => keys,
    }))
}
