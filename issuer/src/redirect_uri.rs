//! Redirect URIs of clients.
//!
//! A redirect URI is compared byte for byte (RFC 9700, 2.1). The one exception is the port of a loopback
//! address, which a native program cannot know beforehand (RFC 8252, 7.3).

use url::Url;

/// A validated redirect URI.
#[derive(Clone, Debug)]
pub(super) struct RedirectUri {
    text: String,
    url: Url,
}

impl RedirectUri {
    /// Parses a redirect URI; `None` if it is not safe to send a code there.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > 2000
            || text
                .chars()
                .any(|c| c.is_ascii_control() || c == '\\' || c == ' ')
        {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let has_no_userinfo_or_fragment =
            url.username().is_empty() && url.password().is_none() && !text.contains('#');
        let is_secure = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        (has_no_userinfo_or_fragment && is_secure && url.host().is_some()).then(|| Self {
            text: text.to_owned(),
            url,
        })
    }

    /// Returns true if a client that registered `self` may use `requested`.
    pub(super) fn allows(&self, requested: &Self) -> bool {
        if self.text == requested.text {
            return true;
        }
        let without_port = |url: &Url| {
            let mut url = url.clone();
            (url.scheme() == "http" && is_loopback(&url) && url.set_port(None).is_ok())
                .then_some(url)
        };
        let (registered, requested) = (without_port(&self.url), without_port(&requested.url));
        registered.is_some() && registered == requested
    }

    /// Returns the URI with these query parameters added.
    pub(super) fn with_parameters(&self, parameters: &[(&str, &str)]) -> String {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        url.into()
    }

    /// Returns scheme, host and port, for the page's content security policy.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// Returns true for a loopback host.
fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"))
}

#[cfg(test)]
mod tests {
    use super::RedirectUri;

    fn allows(registered: &str, requested: &str) -> bool {
        let registered = RedirectUri::parse(registered).unwrap();
        RedirectUri::parse(requested).is_some_and(|requested| registered.allows(&requested))
    }

    #[test]
    fn redirect_uri_must_match_except_for_loopback_port() {
        assert!(allows("https://a.example/cb", "https://a.example/cb"));
        assert!(allows("http://127.0.0.1/cb", "http://127.0.0.1:49152/cb"));
        assert!(allows("http://localhost:1/cb", "http://localhost:2/cb"));
        assert!(allows("http://[::1]/cb", "http://[::1]:5/cb"));
        for (registered, requested) in [
            ("https://a.example/cb", "https://a.example:444/cb"),
            ("https://a.example/cb", "https://a.example/cb/"),
            ("https://a.example/cb", "https://a.example/cb?x=1"),
            ("https://a.example/cb", "https://A.example/cb"),
            ("https://a.example/cb", "https://a.example/x/../cb"),
            ("https://a.example/cb", "https://a.example.evil.example/cb"),
            ("http://127.0.0.1/cb", "http://localhost/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/other"),
            ("http://127.0.0.1/cb", "https://127.0.0.1:1/cb"),
            ("https://127.0.0.1/cb", "https://127.0.0.1:1/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1@evil.example/cb"),
        ] {
            assert!(!allows(registered, requested), "{registered} {requested}");
        }
    }

    #[test]
    fn unsafe_redirect_uris_are_rejected() {
        for text in [
            "http://a.example/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://a.example/cb#f",
            "https://u:p@a.example/cb",
            "https://a.example\\@b.example/",
            "myapp:/cb",
            "/cb",
            "",
        ] {
            assert!(RedirectUri::parse(text).is_none(), "{text}");
        }
    }
}
