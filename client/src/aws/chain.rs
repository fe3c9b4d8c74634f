//! AWS's usual places for credentials, in AWS's order: environment, profile, web identity, container,
//! machine. A place that is set and does not work ends the search: what comes after it was not meant.

use super::metadata;
use super::place::{Known, Place, Trouble};
use super::profiles::{Base, Profiles};
use super::signer::AwsKeys;
use super::sts::{Proof, Role, assume};
use std::time::SystemTime;

#[cfg(test)]
mod tests;

/// Where credentials come from when nobody gave any.
pub(super) struct Chain {
    place: Place,
    region: String,
}

impl Chain {
    pub(super) fn new(place: Place, region: &str) -> Self {
        let region = region.to_owned();
        Self { place, region }
    }

    /// The first credentials there are.
    pub(super) async fn look(&self, now: SystemTime) -> Result<Known, Trouble> {
        if let Some(keys) = environment(&self.place)? {
            return Ok(Known::always(keys));
        }
        let profiles = Profiles::read(&self.place).await?;
        if let Some(known) = self.profile(&profiles, now).await? {
            return Ok(known);
        }
        if let Some(known) = self.identity(now).await? {
            return Ok(known);
        }
        if let Some(known) = metadata::container(&self.place).await? {
            return Ok(known);
        }
        let nowhere = format!(
            "neither the environment nor the profile `{}` nor a web identity nor a container has any",
            profiles.selected
        );
        match metadata::machine(&self.place).await {
            Ok(Some(known)) => Ok(known),
            Ok(None) => Err(Trouble::new(format!(
                "{nowhere}, and this machine has no role"
            ))),
            Err(error) => Err(Trouble::new(format!("{nowhere}, and {error}"))),
        }
    }

    async fn profile(
        &self,
        profiles: &Profiles,
        now: SystemTime,
    ) -> Result<Option<Known>, Trouble> {
        let Some(way) = profiles.way()? else {
            return Ok(None);
        };
        let found = match way.base {
            Base::Keys(keys) => Some(Known::always(keys)),
            Base::Token { role, file } => Some(self.by_token(&role, &file, now).await?),
            Base::Environment => environment(&self.place)?.map(Known::always),
            Base::Container => metadata::container(&self.place).await?,
            Base::Machine => metadata::machine(&self.place).await?,
        };
        let mut known = found.ok_or_else(|| {
            let name = &profiles.selected;
            Trouble::new(format!(
                "the profile `{name}` names a credential_source that has none"
            ))
        })?;
        for role in &way.roles {
            let at = (self.region.as_str(), now);
            known = assume(&self.place, at, role, Proof::Keys(&known.keys)).await?;
        }
        Ok(Some(known))
    }

    async fn identity(&self, now: SystemTime) -> Result<Option<Known>, Trouble> {
        let Some(file) = self.place.var("AWS_WEB_IDENTITY_TOKEN_FILE") else {
            return Ok(None);
        };
        let arn = self.place.var("AWS_ROLE_ARN").ok_or_else(|| {
            Trouble::new("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not")
        })?;
        let role = Role {
            arn,
            session: self.place.var("AWS_ROLE_SESSION_NAME"),
            external: None,
        };
        self.by_token(&role, &file, now).await.map(Some)
    }

    async fn by_token(&self, role: &Role, file: &str, now: SystemTime) -> Result<Known, Trouble> {
        let token = self.place.token(file).await?;
        let at = (self.region.as_str(), now);
        assume(&self.place, at, role, Proof::Token(&token)).await
    }
}

fn environment(place: &Place) -> Result<Option<AwsKeys>, Trouble> {
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let half = |set, missing| Trouble::new(format!("{set} is set, but {missing} is not"));
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
