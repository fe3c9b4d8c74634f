//! Allowlist of Slack hosts. Tokens and files are sent nowhere else, whatever an event or a response contains.

use url::{Host, Origin, Url};

/// Slack's domains, including their subdomains.
const SLACK_DOMAINS: &[&str] = &[
    "slack.com",
    "slack-files.com",
    "slack-edge.com",
    "slack-gov.com",
];

/// Allowed hosts for files and uploads.
#[derive(Debug)]
pub(super) struct TrustedHosts {
    /// Origin of the API if it is on this machine.
    pub(super) extra_origins: Vec<Origin>,
}

impl TrustedHosts {
    pub(super) fn new(api: &Url) -> Self {
        Self {
            extra_origins: is_loopback(api).then(|| api.origin()).into_iter().collect(),
        }
    }

    /// Returns true if files may be sent to or fetched from the URL.
    pub(super) fn allows(&self, url: &Url) -> bool {
        let has_no_credentials = url.username().is_empty() && url.password().is_none();
        has_no_credentials && (is_slack_url(url) || self.extra_origins.contains(&url.origin()))
    }
}

fn is_slack_url(url: &Url) -> bool {
    let Some(Host::Domain(host)) = url.host() else {
        return false;
    };
    let is_subdomain_of = |domain: &&str| {
        host.strip_suffix(*domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    url.scheme() == "https" && url.port().is_none() && SLACK_DOMAINS.iter().any(is_subdomain_of)
}

/// Returns true if the URL is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(api: &str, url: &str) -> bool {
        TrustedHosts::new(&Url::parse(api).unwrap()).allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn only_slack_hosts_over_https_are_allowed() {
        let api = "https://slack.com/api/";
        for good in [
            "https://files.slack.com/files-pri/T1-F1/a.csv",
            "https://slack.com/x",
            "https://a.b.slack-files.com/x",
            "https://slack-edge.com/x",
            "https://files.slack-gov.com/x",
        ] {
            assert!(is_allowed(api, good), "{good}");
        }
        for bad in [
            "http://files.slack.com/x",
            "https://files.slack.com:8443/x",
            "https://evilslack.com/x",
            "https://slack.com.evil.example/x",
            "https://slack.com@evil.example/x",
            "https://u:p@files.slack.com/x",
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://localhost/x",
            "ftp://slack.com/x",
            "file:///etc/passwd",
        ] {
            assert!(!is_allowed(api, bad), "{bad}");
        }
    }

    #[test]
    fn loopback_api_allows_only_its_own_origin() {
        let api = "http://127.0.0.1:9000/api/";
        assert!(is_allowed(api, "http://127.0.0.1:9000/files/1"));
        assert!(is_allowed(api, "https://files.slack.com/x"));
        for bad in [
            "http://127.0.0.1:9001/files/1",
            "http://localhost:9000/files/1",
            "https://127.0.0.1:9000/files/1",
            "http://10.0.0.1:9000/files/1",
            "http://a@127.0.0.1:9000/files/1",
        ] {
            assert!(!is_allowed(api, bad), "{bad}");
        }
        let remote_api = "https://slack.internal.example/api/";
        assert!(!is_allowed(
            remote_api,
            "https://slack.internal.example/files/1"
        ));
    }
}
