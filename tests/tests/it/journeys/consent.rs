//! The page on which a person decides, by the bytes that a browser would send, from more than one
//! address: saying no, mistyping, and a stranger who guesses.

use super::newcomer::{add, text};
use super::wire::Reply;
use super::zone::{Setup, Zone};
use std::net::IpAddr;

/// A person in front of a page.
struct Page {
    http: reqwest::Client,
    url: String,
    hidden: Vec<(String, String)>,
    cookie: String,
}

impl Page {
    /// Opens the page that a program sends people to, from this address of the machine.
    async fn open(zone: &Zone, client: &str, from: &str) -> Self {
        let ca = zone.world.authority.pem.as_bytes();
        let http = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(ca).unwrap()])
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .local_address(from.parse::<IpAddr>().unwrap())
            .timeout(super::PATIENCE)
            .build()
            .unwrap();
        let url = format!("{}/oauth2/authorize", zone.url);
        // The challenge of RFC 7636, appendix B.
        let asked = format!(
            "{url}?response_type=code&client_id={client}&state=st%3Cate&code_challenge_method=S256\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        let page = Reply::read(http.get(asked).send().await.unwrap()).await;
        assert_eq!(page.status, 200, "{page:?}");
        let cookie = page.header("set-cookie").split(';').next().unwrap();
        let fields = page.text.split("<input type=\"hidden\" name=\"").skip(1);
        let hidden = fields.map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            let value = rest.split_once('"').unwrap().0.replace("&lt;", "<");
            (name.to_owned(), value)
        });
        Self {
            hidden: hidden.collect(),
            cookie: cookie.to_owned(),
            http,
            url,
        }
    }

    /// Presses a button.
    async fn decide(&self, decision: &str, name: &str, passphrase: &str) -> Reply {
        let filled = [
            ("decision", decision),
            ("name", name),
            ("passphrase", passphrase),
        ];
        let hidden = self.hidden.iter().map(|(name, value)| (&**name, &**value));
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
        Reply::read(request.send().await.unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_decides_whatever_a_stranger_guesses() {
    let zone = Setup::new().without_issuer().start().await;
    let person = add(&zone, &["person", "add", "anna"]).await;
    let passphrase = person["passphrase"].as_str().unwrap();
    let back = "http://127.0.0.1/callback";
    let made = ["client", "add", "--name", "a desktop", "--redirect-uri"];
    let client = add(&zone, &[&made[..], &[back]].concat()).await;
    let client = text(&client, &["client_id", "id"]);

    let anna = Page::open(&zone, client, "127.0.0.1").await;
    let no = anna.decide("deny", "", "").await;
    assert_eq!(no.status, 303, "{no:?}");
    let place = no.header("location");
    assert!(place.starts_with(back), "{place}");
    assert!(place.contains("error=access_denied"), "{place}");
    assert!(place.contains("state=st%3Cate"), "{place}");

    let wrong = anna.decide("allow", "anna", "wrong").await;
    assert_eq!(wrong.status, 403, "{wrong:?}");
    assert!(wrong.text.contains("The name or the passphrase is wrong."));

    // A stranger guesses at her name until he is stopped, and on.
    let stranger = Page::open(&zone, client, "127.0.0.2").await;
    let mut guesses = Vec::new();
    for _ in 0..80 {
        guesses.push(stranger.decide("allow", "anna", "guess").await.status);
    }
    let told = stranger.decide("allow", "anna", passphrase).await;
    assert_eq!(told.status, 429, "not even the right words: {told:?}");
    assert!(told.text.contains("Too many attempts."), "{told:?}");
    // A slow machine may grant one more for each few seconds that pass.
    let taken = guesses.iter().filter(|status| **status == 403).count();
    assert!((10..20).contains(&taken), "{guesses:?}");

    // That is nothing to her.
    let yes = anna.decide("allow", "Anna", passphrase).await;
    assert_eq!(yes.status, 303, "{yes:?}");
    assert!(yes.header("location").contains("code="), "{yes:?}");
}

/// How many requests use the same code or refresh token at once.
const AT_ONCE: usize = 6;

/// A program of a person's own machine, which asks for tokens.
struct Program<'a> {
    zone: &'a Zone,
    client: &'a str,
}

impl Program<'_> {
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
        let reply = Reply::read(request.send().await.unwrap()).await;
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

    /// None of these tokens is of any use.
    async fn assert_void(&self, tokens: &[(String, String)]) {
        for (access, refresh) in tokens {
            let url = format!("{}/metrics", self.zone.url);
            let shown = self.zone.http.get(url).bearer_auth(access).send();
            assert_eq!(shown.await.unwrap().status(), 401, "a token is accepted");
            assert_eq!(self.renew(refresh).await, None);
        }
    }
}

async fn tokens_that_are_used_twice_at_once_end(zone: &Zone) {
    let person = add(zone, &["person", "add", "anna"]).await;
    let passphrase = person["passphrase"].as_str().unwrap();
    let made = ["client", "add", "--name", "a desktop", "--public"];
    let back = ["--redirect-uri", "http://127.0.0.1/callback"];
    let client = add(zone, &[&made[..], &back].concat()).await;
    let client = text(&client, &["client_id", "id"]);
    let program = Program { zone, client };
    let at_once = async |grant: &str, name: &str, values: [&str; AT_ONCE]| {
        let requests = values.map(|value| program.token(grant, name, value));
        let tokens = futures_util::future::join_all(requests).await;
        tokens.into_iter().flatten().collect::<Vec<_>>()
    };
    for round in 0..8 {
        let page = Page::open(zone, client, &format!("127.0.1.{}", round + 1)).await;
        let yes = page.decide("allow", "anna", passphrase).await;
        let place: reqwest::Url = yes.header("location").parse().unwrap();
        let code = place.query_pairs().find(|(name, _)| name == "code");
        let code = code.unwrap().1.into_owned();
        if round % 2 == 0 {
            let tokens = at_once("authorization_code", "code", [&code; AT_ONCE]).await;
            assert!(tokens.len() <= 1, "a code gave tokens twice");
            program.assert_void(&tokens).await;
        } else {
            let first = program.token("authorization_code", "code", &code).await;
            let first = first.unwrap();
            let second = program.renew(&first.1).await.unwrap();
            // A thief with the rotated one, and the owner with the current one.
            let mut refresh = [first.1.as_str(); AT_ONCE];
            refresh[round / 2] = &second.1;
            let mut tokens = at_once("refresh_token", "refresh_token", refresh).await;
            tokens.extend([first, second]);
            program.assert_void(&tokens).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_used_twice_at_once_end_on_sqlite() {
    let zone = Setup::new().without_issuer().start().await;
    tokens_that_are_used_twice_at_once_end(&zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_used_twice_at_once_end_on_postgres() {
    let setup = super::nodes::on_postgres(Setup::new().without_issuer(), "twice");
    tokens_that_are_used_twice_at_once_end(&setup.start().await).await;
}
