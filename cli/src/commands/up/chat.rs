//! The chat of `interzone up`: a Slack workspace on this machine, or a real one, and the Verification Zone that it
//! speaks to.
//!
//! Between the zones there is HTTPS with a token of its own, and events are signed, as anywhere. What is said
//! in the workspace is kept in memory alone.

use super::small_toml;
use crate::config::{SlackAround, VerifyConfig};
use crate::exit::Failure;
use crate::private;
use crate::wiring::{StartError, Verifying, whose_token, zone_scopes};
use interzone_edge::Secret;
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{AccountError, Clients, Grant, Keep, NewClient};
use interzone_edge::tls::Trust;
use interzone_playground::{Playground, PlaygroundError, PlaygroundOptions, seed};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Who the Verification Zone is to the Execution Zone.
const CLIENT: &str = "verification";
/// Where that client's secret is kept, in the folder.
const SECRET: &str = "verification.secret";
/// What the workspace and the zone share.
const SIGNING: &str = "slack-signing.secret";
const BOT: &str = "slack-bot.secret";
/// Where a zone for a real Slack keeps everything.
const STORE: &str = "sqlite:slack.db";
/// Where the zone and the page are, if nobody else is there.
const ZONE_PORT: u16 = 8444;
const PAGE_PORT: u16 = 8445;

/// Where people ask, and the zone behind it.
pub(super) struct Chat {
    /// None if it is a real Slack.
    playground: Option<Playground>,
    workspace: Option<Workspace>,
    zone: Verifying,
}

/// A workspace of the real Slack.
#[derive(Debug, Serialize)]
pub(super) struct Workspace {
    pub(super) team: String,
    pub(super) name: String,
    /// What the bot is called there.
    pub(super) bot: String,
    /// Whether we open a socket to it.
    pub(super) socket: bool,
}

/// Where everything of `interzone up` is.
pub(super) struct Place<'a> {
    pub(super) folder: &'a Path,
    /// The Execution Zone.
    pub(super) url: &'a str,
    /// Whether any port will do, or the usual ones should be tried first.
    pub(super) any_port: bool,
}

impl Chat {
    /// Starts a workspace of our own and its zone, and introduces them to each other and to the Execution
    /// Zone.
    ///
    /// # Errors
    /// Something that they need is not there.
    pub(super) async fn of_our_own(
        place: &Place<'_>,
        keep: Arc<dyn Keep>,
    ) -> Result<Self, Failure> {
        introduce(place.folder, keep).await?;
        let signing = Uuid::new_v4().simple().to_string();
        let bot = format!("xoxb-playground-{}", Uuid::new_v4().simple());
        write(place.folder, SIGNING, &signing)?;
        write(place.folder, BOT, &bot)?;
        let trust = Trust::system_and(&[place.folder.join("ca.pem")]).map_err(StartError::Tls)?;
        let options = PlaygroundOptions {
            signing_secret: Secret::new(signing),
            bot_token: Secret::new(bot),
            trust,
            ..PlaygroundOptions::default()
        };
        let playground = workspace(options, place.any_port).await?;
        let zone = zone(place, &our_own(&playground.api_url())).await?;
        let url = zone.public_url();
        playground
            .send_to(
                &format!("{url}/slack/events"),
                &format!("{url}/slack/interactions"),
            )
            .map_err(StartError::Playground)?;
        Ok(Self {
            playground: Some(playground),
            workspace: None,
            zone,
        })
    }

    /// Starts a zone for the Slack whose tokens are in the environment. Whoever has them may let people of
    /// that workspace ask, and nobody else.
    ///
    /// # Errors
    /// Slack does not take the tokens, or something that the zone needs is not there.
    pub(super) async fn of_slack(
        around: SlackAround,
        place: &Place<'_>,
        keep: Arc<dyn Keep>,
    ) -> Result<Self, Failure> {
        introduce(place.folder, keep).await?;
        let slack = around.to_toml();
        let found = whose_token(&config(place, &slack, 0)?).await?;
        let team = found.team_id.as_str();
        let policy = small_toml(&[
            // What waits for our own workspace is nothing for this one.
            ("store", "url", STORE),
            ("policy", "teams", team),
            ("policy", "channels", "*"),
            ("policy", "users", "*"),
        ]);
        let zone = zone(place, &(slack + &policy)).await?;
        let workspace = Workspace {
            team: team.to_owned(),
            name: found.team.unwrap_or_default(),
            bot: found.user.unwrap_or_default(),
            socket: around == SlackAround::Socket,
        };
        Ok(Self {
            playground: None,
            workspace: Some(workspace),
            zone,
        })
    }

    /// The page, for a browser, if it is a workspace of our own.
    pub(super) fn page(&self) -> Option<String> {
        self.playground.as_ref().map(Playground::url)
    }

    /// The workspace of the real Slack, if it is one.
    pub(super) fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_ref()
    }

    /// The Verification Zone.
    pub(super) fn zone_url(&self) -> &str {
        self.zone.public_url()
    }

    /// Waits until the store of its zone cannot go on in this process, and says why.
    pub(super) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.zone.store_failed()
    }

    /// Ends both in order.
    pub(super) async fn wind_up(self) {
        // The zone first: what it still has to say needs somebody to say it to.
        self.zone.wind_up().await;
        if let Some(playground) = self.playground {
            playground.stop().await;
        }
    }
}

/// Sees to it that the zone is a client of the built-in issuer, and that the folder has its secret.
async fn introduce(folder: &Path, keep: Arc<dyn Keep>) -> Result<(), Failure> {
    let clients = Clients::new(keep, Clock::machine());
    let known = clients.get(CLIENT).await.map_err(StartError::Account)?;
    let scopes: Vec<String> = zone_scopes().into_iter().map(str::to_owned).collect();
    if let Some(known) = known {
        let may = scopes.iter().all(|scope| known.scopes.contains(scope));
        if may && folder.join(SECRET).is_file() {
            return Ok(());
        }
        clients.remove(CLIENT).await.map_err(StartError::Account)?;
    }
    let new = NewClient {
        id: Some(CLIENT.to_owned()),
        name: "Verification Zone".to_owned(),
        scopes,
        grants: vec![Grant::ClientCredentials],
        ..NewClient::default()
    };
    let added = clients.add(new).await.map_err(StartError::Account)?;
    let Some(secret) = added.secret else {
        return Err(StartError::Account(AccountError::Grants).into());
    };
    write(folder, SECRET, secret.expose())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    private::replace(&path, text).map_err(|error| Failure::Save(path, error))
}

async fn workspace(options: PlaygroundOptions, any_port: bool) -> Result<Playground, StartError> {
    let at = |port| PlaygroundOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ..options.clone()
    };
    let usual = if any_port { 0 } else { PAGE_PORT };
    match Playground::start(at(usual)).await {
        Err(PlaygroundError::Bind { .. }) if usual != 0 => Ok(Playground::start(at(0)).await?),
        started => Ok(started?),
    }
}

async fn zone(place: &Place<'_>, slack: &str) -> Result<Verifying, Failure> {
    let start = async |port: u16| -> Result<Verifying, Failure> {
        let config = config(place, slack, port)?;
        Ok(Verifying::start(config, "INTERZONE__VERIFICATION__LISTEN").await?)
    };
    let usual = if place.any_port { 0 } else { ZONE_PORT };
    match start(usual).await {
        Err(Failure::Start(StartError::AddressInUse { .. })) if usual != 0 => start(0).await,
        started => started,
    }
}

/// What the zone of our own workspace is told of it.
fn our_own(api_url: &str) -> String {
    let mut text = small_toml(&[
        ("store", "url", "sqlite:verification.db"),
        ("slack", "api_url", api_url),
        ("slack", "signing_secret_file", SIGNING),
        ("slack", "bot_token_file", BOT),
        ("policy", "teams", seed::TEAM),
        ("policy", "channels", "*"),
    ]);
    // Somebody is left out, so that it can be seen how it is to be refused.
    let users = toml::Value::from(vec![seed::HANA, seed::ALEX]);
    text.push_str(&format!("policy.users = {users}\n"));
    text
}

fn config(place: &Place<'_>, slack: &str, port: u16) -> Result<VerifyConfig, Failure> {
    let mut text = small_toml(&[
        ("audit", "file", "slack-audit.log"),
        ("tls", "cert", "cert.pem"),
        ("tls", "key", "key.pem"),
        ("tls", "trust", "ca.pem"),
        ("verification", "listen", &format!("127.0.0.1:{port}")),
        ("verification", "execution_url", place.url),
        ("verification", "grace", "2s"),
        ("verification.oauth", "client_id", CLIENT),
        ("verification.oauth", "client_secret_file", SECRET),
        (
            "verification.oauth",
            "token_url",
            &format!("{}/oauth2/token", place.url),
        ),
    ]);
    text.push_str(slack);
    Ok(VerifyConfig::made_up(&text, place.folder)?)
}
