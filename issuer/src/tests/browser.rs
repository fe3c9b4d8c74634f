//! Simulated browser and client for the authorization code flow.

use super::{IssuerFixture, IssuerReply, NewClientCredentials, form_request};
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use http::header::COOKIE;
use interzone_edge::listener::{ConnectionHandle, Peer};
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

/// Authorization request; tests change single parameters.
#[derive(Clone)]
pub(super) struct AuthorizeParams(pub(super) Vec<(&'static str, String)>);

impl AuthorizeParams {
    pub(super) fn new(client: &NewClientCredentials, redirect: &str) -> Self {
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

    pub(super) fn set(mut self, name: &'static str, value: &str) -> Self {
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

/// The consent form, as a browser would submit it.
pub(super) struct ConsentForm {
    pub(super) fields: Vec<(String, String)>,
    pub(super) cookie: String,
}

impl ConsentForm {
    pub(super) fn read(page: &IssuerReply) -> Self {
        let hidden = page.text.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = hidden.map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            let (value, _) = rest.split_once('"').unwrap();
            (name.to_owned(), unescape(value))
        });
        let cookie = page.header("set-cookie").split(';').next().unwrap();
        Self {
            fields: fields.collect(),
            cookie: cookie.to_owned(),
        }
    }

    pub(super) async fn send(
        &self,
        fixture: &IssuerFixture,
        extra_fields: &[(&str, &str)],
    ) -> IssuerReply {
        fixture.send(self.request(extra_fields)).await
    }

    fn request(&self, extra_fields: &[(&str, &str)]) -> Request<Body> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for (name, value) in &self.fields {
            if !extra_fields.iter().any(|(given, _)| given == name) {
                fields.push((name, value));
            }
        }
        fields.extend(extra_fields);
        let mut request = form_request("/oauth2/authorize", &fields);
        if !self.cookie.is_empty() {
            let cookie = format!("other=1; {}", self.cookie);
            request
                .headers_mut()
                .insert(COOKIE, cookie.parse().unwrap());
        }
        request
    }

    /// Approves from this peer address, as the listener would report it.
    pub(super) async fn allow_from(
        &self,
        fixture: &IssuerFixture,
        address: &str,
        name: &str,
        passphrase: &str,
    ) -> IssuerReply {
        let mut request = self.request(&[
            ("decision", "allow"),
            ("name", name),
            ("passphrase", passphrase),
        ]);
        let peer = Peer {
            address: (address.parse::<IpAddr>().unwrap(), 50_000).into(),
            certificate: None,
            platform_identity: None,
            connection: ConnectionHandle::default(),
        };
        request.extensions_mut().insert(Arc::new(peer));
        fixture.send(request).await
    }

    pub(super) async fn allow(
        &self,
        fixture: &IssuerFixture,
        name: &str,
        passphrase: &str,
    ) -> IssuerReply {
        let more = [
            ("decision", "allow"),
            ("name", name),
            ("passphrase", passphrase),
        ];
        self.send(fixture, &more).await
    }
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// Returns the redirect target and its query parameters.
pub(super) fn redirect_of(reply: &IssuerReply) -> (String, HashMap<String, String>) {
    assert_eq!(reply.status, 303, "{}", reply.text);
    let url = Url::parse(reply.header("location")).unwrap();
    let pairs = url.query_pairs().into_owned().collect();
    let target = format!("{}{}", url.origin().ascii_serialization(), url.path());
    (target, pairs)
}
