//! Where a person may be sent back to after their consent.
//!
//! A redirect URI is compared to the letter (RFC 9700, 2.1). The one exception is the port of an
//! address on the person's own machine, which a program there cannot know beforehand (RFC 8252, 7.3).

use url::Url;

/// A redirect URI that may be registered.
#[derive(Clone, Debug)]
pub(super) struct RedirectUri {
    text: String,
    url: Url,
}

impl RedirectUri {
    /// Reads one; `None` if it is not safe to send a code there.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > 2000
            || text
                .chars()
                .any(|c| c.is_ascii_control() || c == '\\' || c == ' ')
        {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let bare = url.username().is_empty() && url.password().is_none() && !text.contains('#');
        let safe = url.scheme() == "https" || (url.scheme() == "http" && is_here(&url));
        (bare && safe && url.host().is_some()).then(|| Self {
            text: text.to_owned(),
            url,
        })
    }

    /// True if a client that registered `self` may ask for `asked`.
    pub(super) fn allows(&self, asked: &Self) -> bool {
        if self.text == asked.text {
            return true;
        }
        let on_any_port = |url: &Url| {
            let mut url = url.clone();
            (url.scheme() == "http" && is_here(&url) && url.set_port(None).is_ok()).then_some(url)
        };
        let (registered, asked) = (on_any_port(&self.url), on_any_port(&asked.url));
        registered.is_some() && registered == asked
    }

    /// The URI with these parameters added.
    pub(super) fn with(&self, parameters: &[(&str, &str)]) -> String {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        url.into()
    }

    /// Scheme, host and port, for the page's content security policy.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// True for the person's own machine.
fn is_here(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"))
}

#[cfg(test)]
mod tests {
    use super::RedirectUri;

    fn allows(registered: &str, asked: &str) -> bool {
        let registered = RedirectUri::parse(registered).unwrap();
        RedirectUri::parse(asked).is_some_and(|asked| registered.allows(&asked))
    }

    #[test]
    fn only_the_port_of_this_machine_is_free() {
        assert!(allows("https://a.example/cb", "https://a.example/cb"));
        assert!(allows("http://127.0.0.1/cb", "http://127.0.0.1:49152/cb"));
        assert!(allows("http://localhost:1/cb", "http://localhost:2/cb"));
        assert!(allows("http://[::1]/cb", "http://[::1]:5/cb"));
        for (registered, asked) in [
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
            assert!(!allows(registered, asked), "{registered} {asked}");
        }
    }

    #[test]
    fn unsafe_places_cannot_be_registered() {
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
