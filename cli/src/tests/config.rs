//! The reference of every key: which keys there are and of what kind is told by the code that reads them,
//! defaults and words by `config.default.toml`. Neither may know of a key that the other does not.

use super::tables::{code, opening, sentence, table, words};
use super::{is_current, text_of};
use crate::config::{
    AgentKind, Config, OF_EXECUTION, OF_VERIFICATION, ProviderConfig, VerifyConfig, asked, time_of,
};
use interzone_edge::tls::install_provider;
use interzone_execution::agents::{CommandOptions, LlmOptions, Provider, RemoteDialect};
use interzone_execution::files::FileReader;
use interzone_protocol::vocab::AgentId;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use url::Url;

/// An Execution Zone with whatever makes its readers ask for more, and an agent of every kind.
const EXECUTION: &str = r#"
[tls]
cert = "cert.pem"
key = "key.pem"
[oauth]
issuer = "https://login.example.com/"
audience = "https://agents.example.com"
[oauth.introspection]
url = "https://login.example.com/introspect"
client_id = "interzone"
secret = "s"
[[agents]]
id = "demo"
kind = "demo"
[[agents]]
id = "command"
kind = "command"
command = ["true"]
[[agents.skills]]
id = "a"
[[agents]]
id = "openai"
kind = "llm"
provider = "openai"
model = "m"
[[agents]]
id = "anthropic"
kind = "llm"
provider = "anthropic"
model = "m"
[[agents]]
id = "bedrock"
kind = "llm"
provider = "bedrock"
model = "m"
region = "eu-central-1"
[[agents]]
id = "peer"
kind = "remote"
url = "https://agents.example.com"
[[agents]]
id = "cloud"
kind = "remote"
runtime = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/zone-abc"
"#;

/// The kinds of the agents above, in their order.
const KINDS: [&str; 7] = ["demo", "command", "llm", "llm", "llm", "remote", "remote"];

const VERIFICATION: &str = r#"
[tls]
cert = "cert.pem"
key = "key.pem"
[verification.oauth]
client_secret_file = "secret.txt"
[slack]
signing_secret_file = "secret.txt"
bot_token_file = "secret.txt"
"#;

/// A key as `config.default.toml` has it.
#[derive(Debug)]
struct Written {
    table: String,
    /// Of agents, the kind.
    kind: Option<String>,
    key: String,
    value: String,
    /// Whether it is in a comment, as keys without a default are.
    commented: bool,
    words: String,
}

/// What `config.default.toml` says: tables with their words in order, and keys.
#[derive(Default)]
struct Defaults {
    tables: Vec<(String, String)>,
    keys: Vec<Written>,
}

impl Defaults {
    fn read(text: &str) -> Self {
        let mut defaults = Self::default();
        let (mut table, mut kind) = (String::new(), None);
        // The brackets of a list that goes on over several lines.
        let mut open = false;
        for line in text.lines() {
            if open {
                let last = defaults.keys.last_mut().unwrap();
                last.value.push_str(line.trim());
                last.value.push(' ');
                open = line.trim() != "]";
                continue;
            }
            let commented = line.starts_with('#');
            let bare = line.strip_prefix('#').unwrap_or(line);
            let bare = bare.strip_prefix(' ').unwrap_or(bare);
            let (said, note) = apart(bare);
            if let Some(name) = table_name(said) {
                table = name.to_owned();
                if table == "agents" {
                    kind = None;
                }
                if !defaults.tables.iter().any(|(known, _)| *known == table) {
                    defaults.tables.push((table.clone(), note.to_owned()));
                }
            } else if let Some((key, value)) = key_and_value(said) {
                if table.is_empty() {
                    continue;
                }
                if table == "agents" && key == "kind" {
                    kind = Some(value.trim_matches('"').to_owned());
                }
                open = value == "[";
                defaults.keys.push(Written {
                    kind: kind.clone(),
                    table: table.clone(),
                    key: key.to_owned(),
                    value: value.to_owned(),
                    commented,
                    words: note.to_owned(),
                });
            } else if said.is_empty() && !note.is_empty() && line.starts_with(['#', ' ']) {
                // Words that go on below a key stand under its words, not at the margin.
                let indented = line.find(note).is_some_and(|at| at > 20);
                if let (true, Some(last)) = (indented, defaults.keys.last_mut()) {
                    last.words.push(' ');
                    last.words.push_str(note);
                }
            }
        }
        // The kind stands below the id, which comes first.
        let kinds: Vec<_> = defaults.keys.iter().map(|key| key.kind.clone()).collect();
        for (at, written) in defaults.keys.iter_mut().enumerate() {
            if written.table.starts_with("agents") && written.kind.is_none() {
                written.kind = kinds[at..].iter().flatten().next().cloned();
            }
        }
        defaults
    }

    fn key(&self, table: &str, kind: Option<&str>, key: &str) -> Option<&Written> {
        let of_kind = |written: &&Written| kind.is_none() || written.kind.as_deref() == kind;
        let mut found = self.keys.iter().filter(of_kind);
        found.find(|written| written.table == table && written.key == key)
    }
}

/// What is said, and the words beside it.
fn apart(line: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return (line[..at].trim(), line[at + 1..].trim()),
            _ => {}
        }
    }
    (line.trim(), "")
}

fn table_name(said: &str) -> Option<&str> {
    let name = said.strip_prefix('[')?.strip_suffix(']')?;
    let name = name.trim_matches(['[', ']']);
    let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn key_and_value(said: &str) -> Option<(&str, &str)> {
    let (key, value) = said.split_once(" = ")?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    key.chars().all(plain).then_some((key, value))
}

/// A key that the readers ask for.
#[derive(Clone, Debug)]
struct Asked {
    table: String,
    key: String,
    kind: &'static str,
    /// Of agents, the kinds that have it.
    of: Vec<&'static str>,
}

fn all_asked() -> Vec<Asked> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret.txt"), "s").unwrap();
    asked::taken();
    Config::read(EXECUTION, [], folder.path()).unwrap();
    let mut asked_for = asked::taken();
    VerifyConfig::read(VERIFICATION, [], folder.path()).unwrap();
    for (key, kind) in asked::taken() {
        asked_for.entry(key).or_insert(kind);
    }
    let mut found: BTreeMap<(String, String), Asked> = BTreeMap::new();
    for (path, kind) in &asked_for {
        if ["a table", "a list of tables"].contains(kind) {
            continue;
        }
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut of = Vec::new();
        let mut name = String::new();
        // `agents[3].skills[0]` is `agents.skills`, of the fourth agent's kind.
        for part in table.split('.') {
            let (part, index) = part.split_once('[').unwrap_or((part, ""));
            if part == "agents" {
                let index: usize = index.trim_end_matches(']').parse().unwrap();
                of.push(KINDS[index]);
            }
            name = if name.is_empty() {
                part.to_owned()
            } else {
                format!("{name}.{part}")
            };
        }
        // A secret that may only be kept elsewhere is refused here; to ask for it is how.
        let there = |ending: &str| asked_for.contains_key(&format!("{path}{ending}"));
        if there("_file") && there("_env") {
            continue;
        }
        let entry = found
            .entry((name.clone(), key.to_owned()))
            .or_insert_with(|| Asked {
                table: name,
                key: key.to_owned(),
                kind,
                of: Vec::new(),
            });
        entry.of.extend(
            of.iter()
                .filter(|kind| !entry.of.contains(kind))
                .collect::<Vec<_>>(),
        );
    }
    found.into_values().collect()
}

fn kind_of(expected: &str) -> &str {
    match expected {
        "a string" => "text",
        "a list of strings" => "list of texts",
        "true or false" => "yes or no",
        "a whole number" => "number",
        "a number" => "fraction",
        "the path of a file" => "path",
        asked::NAMED_STRINGS => "texts by name",
        size if size.starts_with("a size") => "size",
        time if time.starts_with("a time") => "time",
        other => panic!("there is no word for {other:?}"),
    }
}

/// What is said of a secret that is kept elsewhere, if its own line is that of a twin.
fn twin(defaults: &Defaults, table: &str, kind: Option<&str>, key: &str) -> Option<String> {
    let (base, place) = match key.strip_suffix("_file") {
        Some(base) => (base, "the file that holds it"),
        None => (
            key.strip_suffix("_env")?,
            "the variable of the environment that holds it",
        ),
    };
    let twins = [
        base.to_owned(),
        format!("{base}_file"),
        format!("{base}_env"),
    ];
    let other = twins
        .iter()
        .find(|twin| defaults.key(table, kind, twin).is_some())?;
    Some(format!("in place of `{other}`: {place}"))
}

/// The defaults of agents, which `config.default.toml` can only show in comments: by the code that has
/// them.
fn agents_defaults() -> BTreeMap<(&'static str, &'static str), String> {
    install_provider();
    let id = || AgentId::new("a").unwrap();
    let provider = Provider::OpenAi {
        base_url: Url::parse("https://example.com").unwrap(),
        key: None,
        native_files: false,
        images: true,
    };
    let llm = LlmOptions::new(id(), provider, "m", FileReader::new("interzone", 1));
    let command = CommandOptions::new(id(), vec!["true".to_owned()]);
    let config = Config::read(EXECUTION, [], Path::new("/")).unwrap();
    let AgentKind::Llm(model) = &config.agents[2].kind else {
        panic!()
    };
    let ProviderConfig::OpenAi {
        base_url,
        native_files,
        images,
    } = &model.provider
    else {
        panic!()
    };
    let AgentKind::Remote(peer) = &config.agents[5].kind else {
        panic!()
    };
    assert_eq!(peer.dialect, RemoteDialect::Acp);
    let seconds = |time: std::time::Duration| format!("{}s", time.as_secs());
    [
        (("llm", "base_url"), format!("{:?}", base_url.as_str())),
        (("llm", "images"), images.to_string()),
        (("llm", "native_files"), native_files.to_string()),
        (("llm", "max_tokens"), llm.max_tokens.to_string()),
        (("llm", "timeout"), seconds(llm.timeout)),
        (
            ("llm", "first_token_timeout"),
            seconds(llm.first_token_timeout),
        ),
        (("llm", "idle_timeout"), seconds(llm.idle_timeout)),
        (("llm", "connect_timeout"), seconds(llm.connect_timeout)),
        (("llm", "retries"), llm.retries.to_string()),
        (("command", "concurrency"), command.concurrency.to_string()),
        (("remote", "dialect"), "\"acp\"".to_owned()),
        (("remote", "poll"), "2s".to_owned()),
    ]
    .into()
}

fn default_of(
    written: Option<&Written>,
    kind: Option<&str>,
    proven: &BTreeMap<(&'static str, &'static str), String>,
) -> String {
    let Some(written) = written else {
        return String::new();
    };
    if !written.commented && !written.table.starts_with("agents") {
        return code(
            written
                .value
                .replace("[ \"", "[\"")
                .replace(", ]", "]")
                .trim(),
        );
    }
    let mut known = proven.iter();
    let known = known.find(|((of, key), _)| Some(*of) == kind && *key == written.key);
    let Some((_, value)) = known else {
        return String::new();
    };
    let bare = written.value.trim_matches('"');
    let same = match time_of(value) {
        Some(time) => time_of(bare) == Some(time),
        None => *value == written.value,
    };
    assert!(
        same,
        "config.default.toml shows {written:?}, the code has {value}"
    );
    code(&written.value)
}

fn rows(
    asked: &[Asked],
    order: &Defaults,
    proven: &BTreeMap<(&'static str, &'static str), String>,
    kind: Option<&str>,
) -> Vec<Vec<String>> {
    let mut asked = asked.to_vec();
    let place = |asked: &Asked| {
        let at = |key: &str| {
            let same = |w: &Written| w.table == asked.table && w.key == key;
            order.keys.iter().position(same)
        };
        let base = asked.key.trim_end_matches("_file").trim_end_matches("_env");
        let twins = [
            asked.key.clone(),
            base.to_owned(),
            format!("{base}_file"),
            format!("{base}_env"),
        ];
        let first = twins.iter().find_map(|key| at(key));
        (first.unwrap_or(usize::MAX), at(&asked.key).is_none())
    };
    asked.sort_by_key(place);
    let row = |asked: &Asked| {
        // What all agents share is told by the first that shows it.
        let of = match kind {
            Some("all") | None => None,
            kind => kind,
        };
        let written = order.key(&asked.table, of, &asked.key);
        let own_table = format!("{}.{}", asked.table, asked.key);
        let told = order.tables.iter().find(|(name, _)| *name == own_table);
        let said = match written {
            Some(written) => written.words.clone(),
            None if told.is_some() => told.unwrap().1.clone(),
            None => twin(order, &asked.table, of, &asked.key).unwrap_or_else(|| {
                panic!(
                    "config.default.toml has no `{}` in [{}]",
                    asked.key, asked.table
                )
            }),
        };
        assert!(
            !said.is_empty(),
            "no words on `{}` in [{}]",
            asked.key,
            asked.table
        );
        vec![
            code(&asked.key),
            kind_of(asked.kind).to_owned(),
            default_of(written, of, proven),
            words(&said),
        ]
    };
    asked.iter().map(row).collect()
}

const COLUMNS: [&str; 4] = ["key", "kind", "default", "what it does"];

#[test]
fn reference_of_keys_is_current() {
    let text = text_of("config.default.toml");
    let defaults = Defaults::read(&text);
    let asked = all_asked();
    // A key that nobody asks for is a promise that nobody keeps.
    for written in &defaults.keys {
        let is_asked = |asked: &Asked| {
            let same = asked.table == written.table && asked.key == written.key;
            same && (asked.of.is_empty()
                || written
                    .kind
                    .as_deref()
                    .is_none_or(|kind| asked.of.contains(&kind)))
        };
        let named = |asked: &Asked| {
            asked.kind == asked::NAMED_STRINGS
                && written.table == format!("{}.{}", asked.table, asked.key)
        };
        assert!(
            asked.iter().any(|asked| is_asked(asked) || named(asked)),
            "nobody reads `{}` of [{}] in config.default.toml",
            written.key,
            written.table
        );
    }

    let proven = agents_defaults();
    let mut page = opening(
        "Every key of the configuration",
        "the code that reads it and of [config.default.toml](../../config.default.toml)",
    );
    page.push_str(
        "[Configuration](../config.md) tells how it all fits together. Where no default is shown there is \
         none: the key is optional, or its words say that it is needed. In the environment, `body` in \
         `[limits]` is `INTERZONE__LIMITS__BODY`.\n\n\
         | kind | |\n|---|---|\n\
         | text | a string |\n\
         | list of texts | strings between brackets; a single string is a list of one |\n\
         | number | a whole number |\n\
         | fraction | such as `0.7` |\n\
         | yes or no | `true` or `false` |\n\
         | size | `\"40MiB\"`, `\"25MB\"`, or a number of bytes |\n\
         | time | `\"250ms\"`, `\"30s\"`, `\"10m\"`, `\"2h\"` or `\"7d\"` |\n\
         | path | of a file; a relative one begins at the folder of the configuration |\n\
         | texts by name | a table of strings, whose names are yours |\n\n",
    );
    let mut shown = 0;
    for (name, about) in defaults
        .tables
        .iter()
        .filter(|(name, _)| !name.starts_with("agents"))
    {
        let own: Vec<Asked> = asked
            .iter()
            .filter(|asked| asked.table == *name)
            .cloned()
            .collect();
        // Names that are the operator's own are told as one key of the table around.
        if own.is_empty() {
            continue;
        }
        let first = name.split('.').next().unwrap();
        let zone = if OF_EXECUTION.contains(&first) {
            "of the Execution Zone"
        } else if OF_VERIFICATION.contains(&first) {
            "of the Verification Zone"
        } else {
            "of both zones"
        };
        page.push_str(&format!("## `[{name}]`\n\n"));
        let about = words(about);
        match about.as_str() {
            "" => page.push_str(&format!("{}.\n\n", sentence(zone))),
            about => page.push_str(&format!("{}: {about}.\n\n", sentence(zone))),
        }
        shown += own.len();
        page.push_str(&table(&COLUMNS, &rows(&own, &defaults, &proven, None)));
    }

    page.push_str("## `[[agents]]`\n\nOf the Execution Zone: who answers. Yours take the place of the demo agent.\n\n");
    let agents: Vec<Asked> = asked
        .iter()
        .filter(|asked| asked.table.starts_with("agents"))
        .cloned()
        .collect();
    let of_all = |asked: &Asked| asked.of.len() >= 3 && asked.table == "agents";
    let own: Vec<Asked> = agents
        .iter()
        .filter(|asked| of_all(asked))
        .cloned()
        .collect();
    shown += own.len();
    page.push_str(&table(
        &COLUMNS,
        &rows(&own, &defaults, &proven, Some("all")),
    ));
    for kind in ["command", "llm", "remote"] {
        let own: Vec<Asked> = agents
            .iter()
            .filter(|asked| asked.table == "agents" && !of_all(asked) && asked.of.contains(&kind))
            .cloned()
            .collect();
        shown += own.len();
        page.push_str(&format!("### `kind = \"{kind}\"`\n\n"));
        page.push_str(&table(
            &COLUMNS,
            &rows(&own, &defaults, &proven, Some(kind)),
        ));
    }
    let own: Vec<Asked> = agents
        .iter()
        .filter(|asked| asked.table == "agents.skills")
        .cloned()
        .collect();
    shown += own.len();
    page.push_str("### `[[agents.skills]]`\n\nWhat an agent is good at, by which callers may choose it; not of the demo agent, which says itself what it can.\n\n");
    page.push_str(&table(
        &COLUMNS,
        &rows(&own, &defaults, &proven, Some("all")),
    ));
    // A key of two kinds is told at each.
    assert!(
        shown >= asked.len(),
        "{shown} of {} keys are shown",
        asked.len()
    );
    is_current("docs/reference/config.md", &page);
}
