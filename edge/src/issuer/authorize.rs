//! The door for people: a program asks, a person decides (RFC 6749, 4.1 with PKCE, RFC 7636).
//!
//! Nobody is sent anywhere before the client and its redirect URI are known to belong together; what
//! is wrong before that is told on a page.

use super::answer::Failure;
use super::clients::{Client, Grant, check_id};
use super::form::Parameters;
use super::grants::{Agreed, is_unreserved};
use super::page::{self, Consent, Ticket};
use super::redirects::RedirectUri;
use super::{Inner, Issuer, Scope};
use crate::listener::Peer;
use crate::rate::TooFast;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use std::net::IpAddr;
use std::sync::Arc;

/// What a person is told when the name or the passphrase is wrong, whichever it is.
const WRONG: &str = "The name or the passphrase is wrong.";
const TOO_OFTEN: &str = "Too many attempts. Wait a minute, then try again.";
const STALE: &str = "This page is too old or came from elsewhere. Please try again.";

/// A request whose answer may be sent to the client.
pub(super) struct Asked {
    pub(super) client: Client,
    pub(super) redirect: RedirectUri,
    pub(super) redirect_text: String,
    /// False if it is the only one that is registered, and the client did not name it.
    pub(super) redirect_named: bool,
    pub(super) state: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) challenge: String,
}

/// Why there is nothing to decide.
enum Wrong {
    /// Told to the person.
    Here(Failure),
    /// Told to the client, by way of the browser.
    There(Box<(RedirectUri, Option<String>)>, Failure),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

/// `GET /oauth2/authorize`: shows the page.
pub(super) async fn ask(State(issuer): State<Issuer>, uri: Uri) -> Response {
    let inner = &issuer.0;
    let parameters = Parameters::parse(uri.query().unwrap_or_default().as_bytes());
    let asked = match parameters {
        Ok(parameters) => inner.asked(&parameters).await,
        Err(failure) => Err(failure.into()),
    };
    match asked {
        Ok((asked, scopes)) => inner.show(&asked, &scopes, None, StatusCode::OK),
        Err(wrong) => inner.refuse(wrong),
    }
}

/// `POST /oauth2/authorize`: somebody decided.
pub(super) async fn decide(
    State(issuer): State<Issuer>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let inner = &issuer.0;
    let peer = peer.map(|Extension(peer)| peer);
    match inner.decide(peer.as_deref(), &headers, body).await {
        Ok(answer) => answer,
        Err(wrong) => inner.refuse(wrong),
    }
}

impl Inner {
    /// What a client asks for. Everything is looked at again when the person has decided, for the
    /// form could have been changed on the way.
    async fn asked(&self, parameters: &Parameters) -> Result<(Asked, Vec<Scope>), Wrong> {
        let id = parameters.need("client_id", "client_id is missing")?;
        let client = self.clients.find(id).await.map_err(Failure::from)?;
        let client = client.ok_or(Failure::request("this client is not known here"))?;
        let (redirect, redirect_text) = redirect_of(&client, parameters.get("redirect_uri"))?;
        let state = parameters.get("state").map(str::to_owned);
        let there = |failure| Wrong::There(Box::new((redirect.clone(), state.clone())), failure);
        if !client.grants.contains(&Grant::AuthorizationCode) {
            let failure = Failure::bad("unauthorized_client", "this client may not ask people");
            return Err(there(failure));
        }
        if parameters.get("response_type") != Some("code") {
            let failure = Failure::bad("unsupported_response_type", "response_type must be code");
            return Err(there(failure));
        }
        // Plain challenges protect nothing, so the method must be named (RFC 7636, 4.3).
        let challenge = parameters
            .get("code_challenge")
            .filter(|challenge| challenge.len() == 43 && challenge.bytes().all(is_unreserved));
        let s256 = parameters.get("code_challenge_method") == Some("S256");
        let (Some(challenge), true) = (challenge, s256) else {
            return Err(there(Failure::request(
                "a code_challenge with method S256 is required",
            )));
        };
        self.check_target([parameters.get("audience"), parameters.get("resource")])
            .map_err(&there)?;
        let granted = self
            .scopes(&client, parameters.get("scope"))
            .map_err(&there)?;
        let named = |scope: &&Scope| granted.contains(&scope.name);
        let scopes = self.scopes.iter().filter(named).cloned().collect();
        let asked = Asked {
            challenge: challenge.to_owned(),
            scope: parameters.get("scope").map(str::to_owned),
            client,
            redirect,
            redirect_text,
            redirect_named: parameters.get("redirect_uri").is_some(),
            state,
        };
        Ok((asked, scopes))
    }

    async fn decide(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, Wrong> {
        let form = Parameters::read(headers, body).await?;
        let (asked, scopes) = self.asked(&form).await?;
        let now = self.clock.unix();
        let again = |text, status| Ok(self.show(&asked, &scopes, Some(text), status));
        let key = &self.ring.load().form_key;
        if !Ticket::is_good(key, headers, form.get("ticket"), &asked, now) {
            return again(STALE, StatusCode::FORBIDDEN);
        }
        let place = (asked.redirect.clone(), asked.state.clone());
        match form.get("decision") {
            Some("allow") => {}
            Some("deny") => {
                let denied = Failure::bad("access_denied", "the person said no");
                return Err(Wrong::There(Box::new(place), denied));
            }
            _ => return Err(Failure::request("decision must be allow or deny").into()),
        }
        let name = form
            .get("name")
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if let Err(too_fast) = self.check_rate(&name, peer) {
            let mut response = self.show(
                &asked,
                &scopes,
                Some(TOO_OFTEN),
                StatusCode::TOO_MANY_REQUESTS,
            );
            let seconds = too_fast.retry_after.as_secs().saturating_add(1);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
            return Ok(response);
        }
        let passphrase = form.get("passphrase").unwrap_or_default().trim();
        let proven = self.people.prove(&name, passphrase).await;
        if !proven.map_err(Failure::from)? {
            return again(WRONG, StatusCode::FORBIDDEN);
        }
        let agreed = Agreed {
            client_id: asked.client.id.clone(),
            redirect_uri: asked.redirect_text.clone(),
            redirect_named: asked.redirect_named,
            challenge: asked.challenge.clone(),
            scopes: self.scopes(&asked.client, asked.scope.as_deref())?,
            person: name,
        };
        let code = self.new_code(agreed, now).await?;
        Ok(self.send_back(&place.0, place.1.as_deref(), &[("code", &code)]))
    }

    /// Counts an attempt. Keys of the limiters are short, whatever somebody sends as a name.
    ///
    /// A stranger who guesses on and on locks out his own addresses, and not the person whose name it is.
    fn check_rate(&self, name: &str, peer: Option<&Peer>) -> Result<(), TooFast> {
        let name = check_id(name).map_or("", |()| name);
        let address = match peer.map(|peer| peer.address.ip().to_canonical()) {
            None => String::new(),
            Some(IpAddr::V4(address)) => address.to_string(),
            // Whoever has one address of IPv6 has the whole network of it (/64).
            Some(IpAddr::V6(address)) => (address.to_bits() >> 64).to_string(),
        };
        let both = format!("{name} {address}");
        self.by_address.check(&address)?;
        self.by_name_and_address.check(&both)
    }

    fn show(
        &self,
        asked: &Asked,
        scopes: &[Scope],
        problem: Option<&str>,
        status: StatusCode,
    ) -> Response {
        let key = &self.ring.load().form_key;
        let Some(ticket) = Ticket::new(key, asked, self.clock.unix()) else {
            return page::problem(StatusCode::SERVICE_UNAVAILABLE, "Please try again later.");
        };
        let issuer = &self.url;
        let consent = Consent {
            issuer,
            asked,
            scopes,
            ticket,
            problem,
        };
        consent.page(status)
    }

    fn refuse(&self, wrong: Wrong) -> Response {
        match wrong {
            Wrong::Here(failure) => page::problem(failure.status, failure.description),
            Wrong::There(place, failure) => {
                let said = [
                    ("error", failure.error),
                    ("error_description", failure.description),
                ];
                self.send_back(&place.0, place.1.as_deref(), &said)
            }
        }
    }

    /// Sends the browser back to the client. `iss` says from whom (RFC 9207).
    fn send_back(
        &self,
        redirect: &RedirectUri,
        state: Option<&str>,
        said: &[(&str, &str)],
    ) -> Response {
        let mut all = said.to_vec();
        all.extend(state.map(|state| ("state", state)));
        all.push(("iss", &self.url));
        let headers = [
            (LOCATION, redirect.with(&all)),
            (CACHE_CONTROL, "no-store".to_owned()),
            (REFERRER_POLICY, "no-referrer".to_owned()),
        ];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

/// The place to send the person back to: the one that was asked for if it is registered, or the one
/// that is.
fn redirect_of(client: &Client, asked: Option<&str>) -> Result<(RedirectUri, String), Failure> {
    let unknown = Failure::request("the redirect_uri is not registered for this client");
    let text = match (asked, client.redirect_uris.as_slice()) {
        (Some(asked), _) => asked,
        (None, [only]) => only,
        (None, _) => return Err(Failure::request("redirect_uri is missing")),
    };
    let asked = RedirectUri::parse(text).ok_or(unknown)?;
    let registered = client
        .redirect_uris
        .iter()
        .filter_map(|uri| RedirectUri::parse(uri));
    let known = registered.into_iter().any(|uri| uri.allows(&asked));
    match known {
        true => Ok((asked, text.to_owned())),
        false => Err(unknown),
    }
}
