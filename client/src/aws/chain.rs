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

/// Where credentials come from when nobody gave any.
pub(super) struct Chain {
    place: CredentialsEnv,
    region: String,
}

impl Chain {
    pub(super) fn new(place: CredentialsEnv, region: &str) -> Self {
        let region = region.to_owned();
        Self { place, region }
    }

    /// The first credentials there are.
    pub(super) async fn look(&self, now: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
        if let Some(keys) = environment(&self.place)? {
            return Ok(ExpiringKeys::without_expiry(keys));
        }
        let profiles = Profiles::read(&self.place).await?;
        if let Some(known) = self.profile(&profiles, now).await? {
            return Ok(known);
        }
        if let Some(known) = self.identity(now).await? {
            return Ok(known);
        }
        if let Some(known) = metadata::ecs_credentials(&self.place).await? {
            return Ok(known);
        }
        let nowhere = format!(
            "neither the environment nor the profile `{}` nor a web identity nor a container has any",
            profiles.selected
        );
        match metadata::imds_credentials(&self.place).await {
            Ok(Some(known)) => Ok(known),
            Ok(None) => Err(CredentialsError::new(format!(
                "{nowhere}, and this machine has no role"
            ))),
            Err(error) => Err(CredentialsError::new(format!("{nowhere}, and {error}"))),
        }
    }

    async fn profile(
        &self,
        profiles: &Profiles,
        now: SystemTime,
    ) -> Result<Option<ExpiringKeys>, CredentialsError> {
        let Some(way) = profiles.resolve()? else {
            return Ok(None);
        };
        let found = match way.base {
            BaseCredentials::Keys(keys) => Some(ExpiringKeys::without_expiry(keys)),
            BaseCredentials::Token { role, file } => Some(self.by_token(&role, &file, now).await?),
            BaseCredentials::Environment => {
                environment(&self.place)?.map(ExpiringKeys::without_expiry)
            }
            BaseCredentials::Container => metadata::ecs_credentials(&self.place).await?,
            BaseCredentials::Machine => metadata::imds_credentials(&self.place).await?,
        };
        let mut known = found.ok_or_else(|| {
            let name = &profiles.selected;
            CredentialsError::new(format!(
                "the profile `{name}` names a credential_source that has none"
            ))
        })?;
        for role in &way.roles {
            let at = (self.region.as_str(), now);
            known = assume_role(&self.place, at, role, RoleProof::Keys(&known.keys)).await?;
        }
        Ok(Some(known))
    }

    async fn identity(&self, now: SystemTime) -> Result<Option<ExpiringKeys>, CredentialsError> {
        let Some(file) = self.place.var("AWS_WEB_IDENTITY_TOKEN_FILE") else {
            return Ok(None);
        };
        let arn = self.place.var("AWS_ROLE_ARN").ok_or_else(|| {
            CredentialsError::new("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not")
        })?;
        let role = AssumedRole {
            arn,
            session: self.place.var("AWS_ROLE_SESSION_NAME"),
            external: None,
        };
        self.by_token(&role, &file, now).await.map(Some)
    }

    async fn by_token(
        &self,
        role: &AssumedRole,
        file: &str,
        now: SystemTime,
    ) -> Result<ExpiringKeys, CredentialsError> {
        let token = self.place.read_token(file).await?;
        let at = (self.region.as_str(), now);
        assume_role(&self.place, at, role, RoleProof::Token(&token)).await
    }
}

fn environment(place: &CredentialsEnv) -> Result<Option<AwsKeys>, CredentialsError> {
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let half = |set, missing| CredentialsError::new(format!("{set} is set, but {missing} is not"));
    let keys = match (place.var(id), place.var(secret)) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(half(id, secret)),
        (None, Some(_)) => return Err(half(secret, id)),
        (Some(id), Some(secret)) => AwsKeys::new(id.trim(), secret.trim()),
    };
    Ok(Some(match place.var("AWS_SESSION_TOKEN") {
        Some(token) => keys.with_session_token(token.trim()),
        None => keys,
    }))
}
