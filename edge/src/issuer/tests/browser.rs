//! A browser and a program that sends people through it.

use super::{House, NewSecret, Reply, form_request};
use crate::listener::Peer;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use http::header::COOKIE;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use url::Url;
use url::form_urlencoded::Serializer;

pub(super) const VERIFIER: &str = "a-verifier.with_more-than~forty-three-characters-in-it";

pub(super) fn challenge() -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, VERIFIER.as_bytes());
    URL_SAFE_NO_PAD.encode(hash)
}

/// What a program asks for; tests change parts of it.
#[derive(Clone)]
pub(super) struct Ask(pub(super) Vec<(&'static str, String)>);

impl Ask {
    pub(super) fn new(client: &NewSecret, redirect: &str) -> Self {
        Self(vec![
            ("response_type", "code".into()),
            ("client_id", client.client_id.clone()),
            ("redirect_uri", redirect.into()),
            ("scope", "read".into()),
            ("state", "st&te=\"<1>".into()),
            ("code_challenge", challenge()),
            ("code_challenge_method", "S256".into()),
        ])
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self = self.without(name);
        self.0.push((name, value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(given, _)| *given != name);
        self
    }

    pub(super) fn path(&self) -> String {
        let query = Serializer::new(String::new())
            .extend_pairs(&self.0)
            .finish();
        format!("/oauth2/authorize?{query}")
    }
}

/// The form on a page, as a browser would send it.
pub(super) struct Form {
    pub(super) fields: Vec<(String, String)>,
    pub(super) cookie: String,
}

impl Form {
    pub(super) fn read(page: &Reply) -> Self {
        let hidden = page.text.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = hidden.map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"").unwrap();
            let (value, _) = rest.split_once('"').unwrap();
            (name.to_owned(), unescape(value))
        });
        let cookie = page.header("set-cookie").split(';').next().unwrap();
        Self {
            fields: fields.collect(),
            cookie: cookie.to_owned(),
        }
    }

    pub(super) async fn send(&self, house: &House, more: &[(&str, &str)]) -> Reply {
        house.send(self.request(more)).await
    }

    fn request(&self, more: &[(&str, &str)]) -> Request<Body> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for (name, value) in &self.fields {
            if !more.iter().any(|(given, _)| given == name) {
                fields.push((name, value));
            }
        }
        fields.extend(more);
        let mut request = form_request("/oauth2/authorize", &fields);
        if !self.cookie.is_empty() {
            let cookie = format!("other=1; {}", self.cookie);
            request
                .headers_mut()
                .insert(COOKIE, cookie.parse().unwrap());
        }
        request
    }

    /// Somebody at this address says yes, through a listener, which tells where they are.
    pub(super) async fn allow_from(
        &self,
        house: &House,
        address: &str,
        name: &str,
        passphrase: &str,
    ) -> Reply {
        let mut request = self.request(&[
            ("decision", "allow"),
            ("name", name),
            ("passphrase", passphrase),
        ]);
        let peer = Peer {
            address: (address.parse::<IpAddr>().unwrap(), 50_000).into(),
            certificate: None,
            vouched: None,
        };
        request.extensions_mut().insert(Arc::new(peer));
        house.send(request).await
    }

    pub(super) async fn allow(&self, house: &House, name: &str, passphrase: &str) -> Reply {
        let more = [
            ("decision", "allow"),
            ("name", name),
            ("passphrase", passphrase),
        ];
        self.send(house, &more).await
    }
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// Where the browser is sent, and with what.
pub(super) fn sent_to(reply: &Reply) -> (String, HashMap<String, String>) {
    assert_eq!(reply.status, 303, "{}", reply.text);
    let url = Url::parse(reply.header("location")).unwrap();
    let pairs = url.query_pairs().into_owned().collect();
    let place = format!("{}{}", url.origin().ascii_serialization(), url.path());
    (place, pairs)
}
