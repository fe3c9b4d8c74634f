//! Client of the Execution Zone.

use crate::config::VerificationZoneConfig;
use crate::wiring::StartError;
use interzone_client::{Client, ClientCredentials, RetryPolicy};
use interzone_protocol::zone::Method;

/// Creates the client, with the configured credentials.
///
/// # Errors
/// A CA file is invalid.
pub(crate) fn zone_client(
    config: &VerificationZoneConfig,
    retry: RetryPolicy,
) -> Result<Client, StartError> {
    let zone = &config.verification;
    let secret = zone.oauth.client_secret.clone().unwrap_or_default();
    let mut credentials = ClientCredentials::new(&zone.oauth.client_id, secret);
    if let Some(url) = &zone.oauth.token_url {
        credentials = credentials.token_url(url.as_str());
    }
    let url = zone.execution_url.as_str();
    let mut builder = Client::builder(url)
        // The configuration allows http for loopback only.
        .allow_http(zone.execution_url.scheme() == "http")
        .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")))
        .credentials(credentials)
        .retry(retry);
    for ca in &config.tls.trust {
        builder = builder.ca_file(ca);
    }
    builder.build().map_err(StartError::ZoneClient)
}

/// Returns the scopes that this zone needs.
pub(crate) fn required_scopes() -> Vec<&'static str> {
    let methods = [
        Method::ExecuteTask,
        Method::GetTaskResult,
        Method::CancelTask,
        Method::Feedback,
    ];
    let mut scopes = Vec::new();
    for scope in methods.iter().flat_map(|method| method.scopes()) {
        if !scopes.contains(&scope.name()) {
            scopes.push(scope.name());
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::required_scopes;

    #[test]
    fn required_scopes_are_minimal() {
        let needed = [
            "acp:agent:identify",
            "acp:tasks:write",
            "acp:tasks:read",
            "acp:tasks:cancel",
        ];
        assert_eq!(required_scopes(), needed);
    }
}
