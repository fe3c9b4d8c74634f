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
