//! The consent page, with requests as a browser sends them, from several addresses: denying, a wrong passphrase, and a
//! stranger who guesses.

use super::cli::{first_string, run_admin};
use super::rpc::HttpReply;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use std::net::IpAddr;

/// The consent page in a user's browser.
struct ConsentPage {
    http: reqwest::Client,
    url: String,
    hidden_fields: Vec<(String, String)>,
    cookie: String,
}

impl ConsentPage {
    /// Opens the authorization page of a client, from this local address.
    async fn open(zone: &ZoneProcess, client: &str, from: &str) -> Self {
        let ca = zone.env.authority.pem.as_bytes();
        let http = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(ca).unwrap()])
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .local_address(from.parse::<IpAddr>().unwrap())
            .timeout(super::WAIT_TIMEOUT)
            .build()
            .unwrap();
        let url = format!("{}/oauth2/authorize", zone.url);
        // The challenge of RFC 7636, appendix B.
        let authorize_url = format!(
            "{url}?response_type=code&client_id={client}&state=st%3Cate&code_challenge_method=S256\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        let page = HttpReply::read(http.get(authorize_url).send().await.unwrap()).await;
        assert_eq!(page.status, 200, "{page:?}");
        let cookie = page.header("set-cookie").split(';').next().unwrap();
        let fields = page.text.split("<input type=\"hidden\" name=\"").skip(1);
        let hidden = fields.map(|field| {
            let (name, tail) = field.split_once("\" value=\"").unwrap();
            let value = tail.split_once('"').unwrap().0.replace("&lt;", "<");
            (name.to_owned(), value)
        });
        Self {
            hidden_fields: hidden.collect(),
            cookie: cookie.to_owned(),
            http,
            url,
        }
    }

    /// Submits the form with a decision.
    async fn decide(&self, decision: &str, name: &str, passphrase: &str) -> HttpReply {
        let filled = [
            ("decision", decision),
            ("name", name),
            ("passphrase", passphrase),
        ];
        let hidden = self
            .hidden_fields
            .iter()
            .map(|(name, value)| (&**name, &**value));
        let form: Vec<String> = hidden
            .chain(filled)
            .map(|(name, value)| {
                let value: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
                format!("{name}={value}")
            })
            .collect();
        let request = self
            .http
            .post(&self.url)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("cookie", &self.cookie)
            .body(form.join("&"));
        HttpReply::read(request.send().await.unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_stranger_does_not_lock_out_the_user() {
    let zone = ZoneBuilder::new().without_issuer().start().await;
    let user = run_admin(&zone, &["user", "add", "anna"]).await;
    let passphrase = user["passphrase"].as_str().unwrap();
    let redirect_uri = "http://127.0.0.1/callback";
    let add_client = ["client", "add", "--name", "a desktop", "--redirect-uri"];
    let client = run_admin(&zone, &[&add_client[..], &[redirect_uri]].concat()).await;
    let client = first_string(&client, &["client_id", "id"]);

    let anna = ConsentPage::open(&zone, client, "127.0.0.1").await;
    let no = anna.decide("deny", "", "").await;
    assert_eq!(no.status, 303, "{no:?}");
    let location = no.header("location");
    assert!(location.starts_with(redirect_uri), "{location}");
    assert!(location.contains("error=access_denied"), "{location}");
    assert!(location.contains("state=st%3Cate"), "{location}");

    let wrong = anna.decide("allow", "anna", "wrong").await;
    assert_eq!(wrong.status, 403, "{wrong:?}");
    assert!(wrong.text.contains("The name or the passphrase is wrong."));

    // A stranger guesses her passphrase until the rate limit applies, and continues.
    let stranger = ConsentPage::open(&zone, client, "127.0.0.2").await;
    let mut guesses = Vec::new();
    for _ in 0..80 {
        guesses.push(stranger.decide("allow", "anna", "guess").await.status);
    }
    let limited = stranger.decide("allow", "anna", passphrase).await;
    assert_eq!(
        limited.status, 429,
        "not even with the right passphrase: {limited:?}"
    );
    assert!(limited.text.contains("Too many attempts."), "{limited:?}");
    // A slow machine may allow one more attempt for every few seconds that pass.
    let taken = guesses.iter().filter(|status| **status == 403).count();
    assert!((10..20).contains(&taken), "{guesses:?}");

    // The user herself is not affected.
    let yes = anna.decide("allow", "Anna", passphrase).await;
    assert_eq!(yes.status, 303, "{yes:?}");
    assert!(yes.header("location").contains("code="), "{yes:?}");
}

/// Number of concurrent requests with the same code or refresh token.
const CONCURRENT_REQUESTS: usize = 6;

/// A desktop client that requests tokens.
struct DesktopClient<'a> {
    zone: &'a ZoneProcess,
    client: &'a str,
}

impl DesktopClient<'_> {
    async fn token(&self, grant: &str, name: &str, value: &str) -> Option<(String, String)> {
        // The verifier of RFC 7636, appendix B.
        let form = format!(
            "grant_type={grant}&{name}={value}&client_id={}\
             &code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            self.client
        );
        let url = format!("{}/oauth2/token", self.zone.url);
        let request = self.zone.http.post(url).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        match reply.status {
            200 => {
                let (access, refresh) = (
                    &reply.json()["access_token"],
                    &reply.json()["refresh_token"],
                );
                Some((access.as_str()?.to_owned(), refresh.as_str()?.to_owned()))
            }
            400 => None,
            _ => panic!("{reply:?}"),
        }
    }

    async fn renew(&self, refresh: &str) -> Option<(String, String)> {
        self.token("refresh_token", "refresh_token", refresh).await
    }

    /// Asserts that none of these tokens is accepted.
    async fn assert_revoked(&self, tokens: &[(String, String)]) {
        for (access, refresh) in tokens {
            let url = format!("{}/metrics", self.zone.url);
            let response = self.zone.http.get(url).bearer_auth(access).send();
            assert_eq!(response.await.unwrap().status(), 401, "a token is accepted");
            assert_eq!(self.renew(refresh).await, None);
        }
    }
}

async fn check_concurrent_reuse_revokes_tokens(zone: &ZoneProcess) {
    let user = run_admin(zone, &["user", "add", "anna"]).await;
    let passphrase = user["passphrase"].as_str().unwrap();
    let add_client = ["client", "add", "--name", "a desktop", "--public"];
    let redirect_uri = ["--redirect-uri", "http://127.0.0.1/callback"];
    let client = run_admin(zone, &[&add_client[..], &redirect_uri].concat()).await;
    let client = first_string(&client, &["client_id", "id"]);
    let program = DesktopClient { zone, client };
    let request_concurrently =
        async |grant: &str, name: &str, values: [&str; CONCURRENT_REQUESTS]| {
            let requests = values.map(|value| program.token(grant, name, value));
            let tokens = futures_util::future::join_all(requests).await;
            tokens.into_iter().flatten().collect::<Vec<_>>()
        };
    for round in 0..8 {
        let page = ConsentPage::open(zone, client, &format!("127.0.1.{}", round + 1)).await;
        let yes = page.decide("allow", "anna", passphrase).await;
        let location: reqwest::Url = yes.header("location").parse().unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code");
        let code = code.unwrap().1.into_owned();
        if round % 2 == 0 {
            let tokens =
                request_concurrently("authorization_code", "code", [&code; CONCURRENT_REQUESTS])
                    .await;
            assert!(tokens.len() <= 1, "a code gave tokens twice");
            program.assert_revoked(&tokens).await;
        } else {
            let first = program.token("authorization_code", "code", &code).await;
            let first = first.unwrap();
            let second = program.renew(&first.1).await.unwrap();
            // A thief with the rotated token, and the owner with the current one.
            let mut refresh = [first.1.as_str(); CONCURRENT_REQUESTS];
            refresh[round / 2] = &second.1;
            let mut tokens = request_concurrently("refresh_token", "refresh_token", refresh).await;
            tokens.extend([first, second]);
            program.assert_revoked(&tokens).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reuse_revokes_tokens_on_sqlite() {
    let zone = ZoneBuilder::new().without_issuer().start().await;
    check_concurrent_reuse_revokes_tokens(&zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reuse_revokes_tokens_on_postgres() {
    let setup = super::nodes::on_postgres(ZoneBuilder::new().without_issuer(), "twice");
    check_concurrent_reuse_revokes_tokens(&setup.start().await).await;
}
