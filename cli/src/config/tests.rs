//! Tests of the configuration reader: valid files, and the error message for each mistake.

pub(crate) mod verification;

use super::{AgentKind, Config, DEFAULT_CONFIG, PeerCredentials, ProviderConfig, StoreUrl};
use insta::assert_snapshot;
use interzone_edge::clock::Clock;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/etc/interzone";

/// The smallest valid configuration.
const MINIMAL_CONFIG: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(text, variables, Path::new(FOLDER)).map_err(|error| error.to_string())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn minimal_config_is_accepted() {
    let config = read(MINIMAL_CONFIG, &[]).unwrap();
    let server = config.tls.server().unwrap();
    assert_eq!(server.cert, Path::new("/etc/interzone/cert.pem"));
    assert_eq!(
        config.execution.public_url.as_str(),
        "https://localhost:8443/"
    );
    assert_eq!(config.oauth.audience, ["https://localhost:8443"]);
    assert_eq!(config.oauth.issuer, None);
    assert_eq!(config.default_agent, "demo");
    assert_eq!(config.limits.http.body_bytes, 40 << 20);
    let StoreUrl::Sqlite(path) = &config.store.url else {
        panic!("the default is SQLite");
    };
    assert_eq!(path, Path::new("/etc/interzone/interzone.db"));
}

#[test]
fn all_execution_examples_load() {
    let folder = root().join("examples");
    let mut loaded = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            // The Verification Zone's example has its own test.
            if path.ends_with("verification.toml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let config = read(&text, &[]);
            assert!(config.is_ok(), "{}: {config:?}", path.display());
            loaded += 1;
        }
    }
    assert!(loaded > 1, "only {loaded} examples found");
}

#[test]
fn example_file_sets_all_values() {
    let text = fs::read_to_string(root().join("examples/execution.toml")).unwrap();
    let config = read(&text, &[]).unwrap();
    assert_eq!(
        config.oauth.issuer.as_deref(),
        Some("http://127.0.0.1:9400/")
    );
    assert_eq!(
        config.oauth.jwks_url.as_deref(),
        Some("http://127.0.0.1:9400/jwks.json")
    );
    assert_eq!(config.oauth.audience, ["https://acp.test"]);
    assert_eq!(config.egress.allow, ["127.0.0.1:9955"]);
    assert!(config.webhooks.secret.unwrap().ct_eq("s3cret"));
    assert_eq!(config.limits.batch, 1000);
    assert_eq!(config.limits.rate.requests_per_minute, 0);
    assert_eq!(config.default_agent, "worker");
    assert_eq!(config.agents.len(), 2);
    let AgentKind::Command(command) = &config.agents[1].kind else {
        panic!("the second agent is a command");
    };
    assert_eq!(command.command, ["python3", "agent.py"]);
    assert_eq!(command.cwd.as_deref(), Some(Path::new(FOLDER)));
}

/// Returns `config.default.toml` with its commented keys enabled, which are those without a default.
pub(crate) fn all_keys() -> String {
    let mut all = String::new();
    for line in DEFAULT_CONFIG.lines() {
        let key = line.strip_prefix("# ").filter(|line| {
            line.starts_with('[')
                || line
                    .split_once(" = ")
                    .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        });
        writeln!(all, "{}", key.unwrap_or(line)).unwrap();
    }
    assert_ne!(all, DEFAULT_CONFIG);
    all
}

#[test]
fn default_config_contains_only_known_keys() {
    read(&all_keys(), &[]).unwrap();
}

#[test]
fn default_config_shows_the_defaults_of_the_options() {
    let clock = Clock::system();
    let defaults = |text: &str| {
        let mut config = read(text, &[]).unwrap();
        // Random by default.
        config.work.workers.node = "node".to_owned();
        config.issuer.clock = clock.clone();
        config.files.allow.sort();
        format!("{config:#?}")
    };
    let text = DEFAULT_CONFIG.replacen("[tls]\n", MINIMAL_CONFIG, 1);
    assert_eq!(defaults(&text), defaults(MINIMAL_CONFIG));
}

#[test]
fn environment_overrides_file() {
    let config = read(
        &format!("{MINIMAL_CONFIG}[limits]\nbody = \"1MiB\"\n"),
        &[
            ("INTERZONE__LIMITS__BODY", "2MiB"),
            ("INTERZONE__LIMITS__BATCH", "7"),
            ("INTERZONE__EXECUTION__ALWAYS_200", "true"),
            ("INTERZONE__EGRESS__ALLOW", "127.0.0.1:1, localhost:2"),
            ("INTERZONE__WEBHOOKS__SECRET", "s"),
            ("INTERZONE__WORK__TURN_TIMEOUT", "5m"),
            ("HOME", "/root"),
        ],
    )
    .unwrap();
    assert_eq!(config.limits.http.body_bytes, 2 << 20);
    assert_eq!(config.limits.batch, 7);
    assert!(config.execution.always_200);
    assert_eq!(config.egress.allow, ["127.0.0.1:1", "localhost:2"]);
    assert!(config.webhooks.secret.unwrap().ct_eq("s"));
    assert_eq!(config.work.workers.turn_timeout.as_secs(), 300);
}

#[test]
fn webhook_secret_is_read_from_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hook"), "s3cret\n").unwrap();
    let text = format!("{MINIMAL_CONFIG}[webhooks]\nsecret_file = \"hook\"\n");
    let config = Config::read(&text, [], folder.path()).unwrap();
    assert!(config.webhooks.secret.unwrap().ct_eq("s3cret"));
}

#[test]
fn llm_and_remote_examples_set_all_values() {
    let text = fs::read_to_string(root().join("examples/llm.toml")).unwrap();
    let config = read(&text, &[]).unwrap();
    assert_eq!(config.default_agent, "model");
    assert_eq!(config.files.per_reply, 2);
    assert_eq!(config.execution.channels["C0SUPPORT"], "local");
    let AgentKind::Llm(model) = &config.agents[0].kind else {
        panic!("the first agent is a model");
    };
    assert_eq!(model.temperature, Some(0.2));
    assert_eq!(
        model.key.as_ref().unwrap().location,
        "the environment variable OPENAI_API_KEY"
    );
    let AgentKind::Llm(model) = &config.agents[2].kind else {
        panic!("the third agent is a model");
    };
    assert!(
        matches!(&model.provider, ProviderConfig::Bedrock { region, .. } if region == "eu-central-1")
    );

    let text = fs::read_to_string(root().join("examples/remote.toml")).unwrap();
    let config = read(&text, &[]).unwrap();
    let AgentKind::Remote(peer) = &config.agents[0].kind else {
        panic!("the first agent is a peer");
    };
    assert_eq!(peer.assign_to.as_deref(), Some("model"));
    assert!(matches!(
        peer.credentials(),
        Ok(PeerCredentials::Client { id: "front", .. })
    ));
}

#[test]
fn model_key_file_is_read_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.key"), "hunter2\n").unwrap();
    fs::write(folder.path().join("system.txt"), "Be brief.").unwrap();
    let text = format!(
        "{MINIMAL_CONFIG}[[agents]]\nid = \"m\"\nkind = \"llm\"\nprovider = \"anthropic\"\n\
         model = \"x\"\nkey_file = \"model.key\"\nsystem_file = \"system.txt\"\n"
    );
    let config = Config::read(&text, [], folder.path()).unwrap();
    let AgentKind::Llm(model) = &config.agents[0].kind else {
        panic!("the agent is a model");
    };
    let secret = model.key.as_ref().unwrap().secret().unwrap();
    assert!(secret.ct_eq("hunter2"));
    assert_eq!(model.system.as_deref(), Some("Be brief."));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn agentcore_needs_no_certificate() {
    let config = read("[agentcore]\nenabled = true\n", &[]).unwrap();
    assert!(config.agentcore.enabled && config.tls.server().is_none());
    assert_eq!(config.agentcore.listen.port(), 8080);
    let variables = [("INTERZONE__AGENTCORE__ENABLED", "true")];
    assert!(
        read(MINIMAL_CONFIG, &variables)
            .unwrap()
            .tls
            .server()
            .is_some()
    );
    let half = "[agentcore]\nenabled = true\n[tls]\ncert = \"cert.pem\"\n";
    assert!(read(half, &[]).unwrap_err().contains("tls.key"));
}

#[test]
fn secrets_are_never_printed() {
    let config = read(
        &format!(
            "{MINIMAL_CONFIG}[store]\nurl = \"postgres://u:hunter2@h/d\"\n[webhooks]\nsecret = \"hunter2\"\n\
             [oauth]\nissuer = \"https://a\"\naudience = \"b\"\n\
             [oauth.introspection]\nurl = \"https://a/i\"\nclient_id = \"c\"\nsecret = \"hunter2\"\n"
        ),
        &[],
    )
    .unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    let refused = read(
        &format!("{MINIMAL_CONFIG}[store]\nurl = \"mysql://u:hunter2@h/d\"\n"),
        &[],
    );
    assert!(!refused.unwrap_err().contains("hunter2"));
}

#[test]
fn invalid_settings_are_reported_with_their_key() {
    let with = |more: &str| format!("{MINIMAL_CONFIG}{more}");
    let model = |more: &str| with(&format!("[[agents]]\nid = \"m\"\nkind = \"llm\"\n{more}"));
    let peer = |more: &str| {
        with(&format!(
            "[[agents]]\nid = \"p\"\nkind = \"remote\"\n{more}"
        ))
    };
    let cases = [
        "[tls]\ncert = \"a\"\n".to_owned(),
        String::new(),
        with("[limits]\nbodi = \"1MiB\"\n"),
        with("[limitz]\nbody = \"1MiB\"\n"),
        with("colour = 7\n"),
        with("[execution]\nzzz = 7\n"),
        with("[execution]\nlisten = \"localhost\"\n"),
        with("[execution]\nlisten = 8443\n"),
        with("[execution]\npublic_url = \"http://localhost:8443\"\n"),
        with("[execution]\npublic_url = \"localhost\"\n"),
        with("[execution]\nalways_200 = \"yes\"\n"),
        with("[limits]\nbody = \"40 megs\"\n"),
        with("[limits]\nbody = 1.5\n"),
        with("[limits]\nbatch = 0\n"),
        with("[limits]\nbatch = \"many\"\n"),
        with("[limits]\nbody_timeout = 30\n"),
        with("[limits]\nbody_timeout = \"30\"\n"),
        with("[store]\nurl = \"mysql://host/db\"\n"),
        with("[store]\nurl = \"sqlite:\"\n"),
        with("[store]\nurl = [\"a\"]\n"),
        with("[oauth]\nissuer = \"http://login.example.com\"\naudience = \"a\"\n"),
        with("[oauth]\nissuer = \"ftp://login.example.com\"\naudience = \"a\"\n"),
        with("[oauth]\nissuer = \"https://login.example.com\"\n"),
        with("[oauth]\njwks_url = \"https://login.example.com/jwks\"\n"),
        with(
            "[oauth]\nissuer = \"https://a\"\naudience = \"a\"\n[oauth.introspection]\nurl = \"https://a/i\"\n",
        ),
        with("[egress]\nallow = [\"127.0.0.1\"]\n"),
        with("[egress]\nallow = [7]\n"),
        with("[webhooks]\nsecret = \"\"\n"),
        with("[webhooks]\nsecret = \"a\"\nsecret_file = \"b\"\n"),
        with("[webhooks]\nsecret_file = \"nowhere\"\n"),
        with("[issuer]\ntoken_lifetime = \"60d\"\n"),
        with("[execution]\nsync_budget = 20\n"),
        with("[execution.channels]\nC1 = \"missing\"\n"),
        with("[files]\nallow = [\"csv\"]\n"),
        with("[files]\nmax_byte = 7\n"),
        with("[attachments]\nimage_bytes = \"large\"\n"),
        with("[request_log]\nrecord = \"some\"\n"),
        with("[agentcore]\nscopes = [\"interzone:operate\"]\n"),
        with("[agentcore]\nlisten = \"8080\"\n"),
        model("model = \"m\"\nprovider = \"gemini\"\n"),
        model("provider = \"openai\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nkey = \"sk-hunter2\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nkey_env = \"sk-hunter2\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nkey_env = \"A\"\nkey_file = \"b\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://models.example.com\"\n"),
        model(
            "provider = \"anthropic\"\nmodel = \"m\"\nbase_url = \"https://k@models.example.com\"\n",
        ),
        model("provider = \"openai\"\nmodel = \"m\"\ntemperature = 3.5\n"),
        model("provider = \"openai\"\nmodel = \"m\"\ntemperature = \"hot\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nregion = \"eu-central-1\"\n"),
        model("provider = \"bedrock\"\nmodel = \"m\"\n"),
        model("provider = \"openai\"\nmodel = \"m\"\nsystem_file = \"nowhere\"\n"),
        peer("assign_to = \"x\"\n"),
        peer("url = \"http://peer.example.com\"\n"),
        peer("runtime = \"zone-abc\"\n"),
        peer("url = \"https://peer\"\nruntime = \"arn:aws:x\"\n"),
        peer("url = \"https://peer\"\ndialect = \"slack\"\n"),
        peer("url = \"https://peer\"\nclient_id = \"c\"\n"),
        peer("url = \"https://peer\"\nclient_secret = \"hunter2\"\n"),
        peer(
            "url = \"https://peer\"\ntoken_env = \"T\"\nclient_id = \"c\"\nclient_secret_env = \"S\"\n",
        ),
        peer("url = \"https://peer\"\ndialect = \"zone\"\nassign_to = \"x\"\n"),
        with("[issuer]\nkey_rotation = \"1h\"\n"),
        with("[execution]\npublic_url = \"https://example.com/agents\"\n"),
        with(
            "[[agents]]\nid = \"a\"\nkind = \"command\"\ncommand = [\"x\"]\n[[agents.skills]]\nid = \"A\"\n",
        ),
        with("[log]\nformat = \"xml\"\n"),
        format!("agents = []\n{MINIMAL_CONFIG}"),
        format!("agents = \"demo\"\n{MINIMAL_CONFIG}"),
        format!("agents = [\"demo\"]\n{MINIMAL_CONFIG}"),
        with("[[agents]]\nid = \"a\"\n"),
        with("[[agents]]\nkind = \"demo\"\n"),
        with("[[agents]]\nid = \"\"\nkind = \"demo\"\n"),
        with("[[agents]]\nid = \"a\"\nkind = \"magic\"\n"),
        with("[[agents]]\nid = \"a\"\nkind = \"command\"\n"),
        with("[[agents]]\nid = \"a\"\nkind = \"demo\"\ncommand = [\"x\"]\n"),
        with("[[agents]]\nid = \"a\"\nkind = \"demo\"\n[[agents]]\nid = \"a\"\nkind = \"demo\"\n"),
        with(
            "[[agents]]\nid = \"a\"\nkind = \"demo\"\ndefault = true\n[[agents]]\nid = \"b\"\nkind = \"demo\"\ndefault = true\n",
        ),
        with("[limits\n"),
        with("[limits]\nbody = \n"),
        with("[limits]\nbody = 1\nbody = 2\n"),
    ];
    let mut report = String::new();
    for text in cases {
        let error = read(&text, &[]).unwrap_err();
        assert!(
            !error.ends_with('.') && error.lines().count() == 1,
            "{error}"
        );
        let shown = text.replace(MINIMAL_CONFIG, "");
        writeln!(report, "{shown}=> {error}\n").unwrap();
    }
    for variable in [
        ("INTERZONE__LIMITS__BODI", "1"),
        ("INTERZONE__LIMITS__BATCH", "many"),
        ("INTERZONE__AGENTS__ID", "demo"),
        ("INTERZONE__STORE", "sqlite:a.db"),
    ] {
        let error = read(MINIMAL_CONFIG, &[variable]).unwrap_err();
        writeln!(report, "{}={}\n=> {error}\n", variable.0, variable.1).unwrap();
    }
    assert_snapshot!(report);
}
