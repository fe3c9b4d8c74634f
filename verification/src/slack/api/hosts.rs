//! Which addresses we believe to be Slack's. A token or a file goes nowhere else, whatever an event or
//! an answer says. How a request is made is not known here.

use url::{Host, Origin, Url};

/// Slack's own domains, each with all that is below it.
const SLACK: &[&str] = &[
    "slack.com",
    "slack-files.com",
    "slack-edge.com",
    "slack-gov.com",
];

/// The addresses for files and uploads.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Where the API is, if that is on this machine.
    pub(super) own: Vec<Origin>,
}

impl Hosts {
    pub(super) fn new(api: &Url) -> Self {
        Self {
            own: is_loopback(api).then(|| api.origin()).into_iter().collect(),
        }
    }

    /// Whether a file may be fetched from there, or sent there.
    pub(super) fn allows(&self, url: &Url) -> bool {
        let bare = url.username().is_empty() && url.password().is_none();
        bare && (is_slacks(url) || self.own.contains(&url.origin()))
    }
}

fn is_slacks(url: &Url) -> bool {
    let Some(Host::Domain(host)) = url.host() else {
        return false;
    };
    let below = |domain: &&str| {
        host.strip_suffix(*domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    url.scheme() == "https" && url.port().is_none() && SLACK.iter().any(below)
}

/// Whether an address is on this machine.
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

    fn allowed(api: &str, url: &str) -> bool {
        Hosts::new(&Url::parse(api).unwrap()).allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn only_slacks_own_hosts_over_https() {
        let api = "https://slack.com/api/";
        for good in [
            "https://files.slack.com/files-pri/T1-F1/a.csv",
            "https://slack.com/x",
            "https://a.b.slack-files.com/x",
            "https://slack-edge.com/x",
            "https://files.slack-gov.com/x",
        ] {
            assert!(allowed(api, good), "{good}");
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
            assert!(!allowed(api, bad), "{bad}");
        }
    }

    #[test]
    fn an_api_on_this_machine_brings_its_own_origin_and_no_other() {
        let api = "http://127.0.0.1:9000/api/";
        assert!(allowed(api, "http://127.0.0.1:9000/files/1"));
        assert!(allowed(api, "https://files.slack.com/x"));
        for bad in [
            "http://127.0.0.1:9001/files/1",
            "http://localhost:9000/files/1",
            "https://127.0.0.1:9000/files/1",
            "http://10.0.0.1:9000/files/1",
            "http://a@127.0.0.1:9000/files/1",
        ] {
            assert!(!allowed(api, bad), "{bad}");
        }
        let far = "https://slack.internal.example/api/";
        assert!(!allowed(far, "https://slack.internal.example/files/1"));
    }
}
