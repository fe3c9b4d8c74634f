//! Generates the reference of all keys: names and types come from the code that reads them, defaults and comments
//! from `config.default.toml`. Both must contain the same keys.

use super::tables::{capitalize, cell_text, code, page_header, table};
use super::{assert_current, read_text};
use crate::config::key_recorder as recorder;
use crate::config::tests::{self as execution, verification};
use crate::config::{
    AgentKind, Config, EXECUTION_SECTIONS, ProviderConfig, VERIFICATION_SECTIONS,
    VerificationZoneConfig, parse_duration,
};
use interzone_edge::tls::install_provider;
use interzone_execution::agents::{CommandOptions, LlmOptions, LlmProvider, RemoteDialect};
use interzone_execution::files::FileReader;
use interzone_protocol::vocab::AgentId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use url::Url;

/// Agents without optional keys.
const AGENTS: &str = r#"
[tls]
cert = "cert.pem"
key = "key.pem"
[[agents]]
id = "openai"
kind = "llm"
provider = "openai"
model = "m"
[[agents]]
id = "peer"
kind = "remote"
url = "https://agents.example.com"
"#;

/// Kinds of the agents in `config.default.toml`, in order.
const KINDS: [&str; 6] = ["demo", "command", "llm", "llm", "remote", "remote"];

/// A key in `config.default.toml`.
#[derive(Debug)]
struct DefaultKey {
    table: String,
    /// Kind of the agent, for keys of agents.
    kind: Option<String>,
    key: String,
    value: String,
    /// Commented out, as keys without a default are.
    is_commented: bool,
    comment: String,
}

/// Content of `config.default.toml`: tables with their comments, in order, and keys.
#[derive(Default)]
struct DefaultsFile {
    tables: Vec<(String, String)>,
    keys: Vec<DefaultKey>,
}

impl DefaultsFile {
    fn read(text: &str) -> Self {
        let mut defaults = Self::default();
        let (mut table, mut kind) = (String::new(), None);
        // Inside a list that spans several lines.
        let mut in_list = false;
        for line in text.lines() {
            if in_list {
                let last = defaults.keys.last_mut().unwrap();
                last.value.push_str(line.trim());
                last.value.push(' ');
                in_list = line.trim() != "]";
                continue;
            }
            let commented = line.starts_with('#');
            let bare = line.strip_prefix('#').unwrap_or(line);
            let bare = bare.strip_prefix(' ').unwrap_or(bare);
            let (setting, comment) = split_comment(bare);
            if let Some(name) = table_name(setting) {
                table = name.to_owned();
                if table == "agents" {
                    kind = None;
                }
                if !defaults.tables.iter().any(|(name, _)| *name == table) {
                    defaults.tables.push((table.clone(), comment.to_owned()));
                }
            } else if let Some((key, value)) = key_and_value(setting) {
                if table.is_empty() {
                    continue;
                }
                if table == "agents" && key == "kind" {
                    kind = Some(value.trim_matches('"').to_owned());
                }
                in_list = value == "[";
                defaults.keys.push(DefaultKey {
                    kind: kind.clone(),
                    table: table.clone(),
                    key: key.to_owned(),
                    value: value.to_owned(),
                    is_commented: commented,
                    comment: comment.to_owned(),
                });
            } else if setting.is_empty() && !comment.is_empty() && line.starts_with(['#', ' ']) {
                // A comment continued on the next line is indented to the column of the comment.
                let indented = line.find(comment).is_some_and(|at| at > 20);
                if let (true, Some(last)) = (indented, defaults.keys.last_mut()) {
                    last.comment.push(' ');
                    last.comment.push_str(comment);
                }
            }
        }
        // The kind follows the id, which comes first.
        let kinds: Vec<_> = defaults.keys.iter().map(|key| key.kind.clone()).collect();
        for (at, written) in defaults.keys.iter_mut().enumerate() {
            if written.table.starts_with("agents") && written.kind.is_none() {
                written.kind = kinds[at..].iter().flatten().next().cloned();
            }
        }
        defaults
    }

    fn key(&self, table: &str, kind: Option<&str>, key: &str) -> Option<&DefaultKey> {
        let has_kind = |written: &&DefaultKey| kind.is_none() || written.kind.as_deref() == kind;
        let mut found = self.keys.iter().filter(has_kind);
        found.find(|written| written.table == table && written.key == key)
    }
}

/// Splits a line into the setting and the comment.
fn split_comment(line: &str) -> (&str, &str) {
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

fn table_name(setting: &str) -> Option<&str> {
    let name = setting.strip_prefix('[')?.strip_suffix(']')?;
    let name = name.trim_matches(['[', ']']);
    let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn key_and_value(setting: &str) -> Option<(&str, &str)> {
    let (key, value) = setting.split_once(" = ")?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    key.chars().all(plain).then_some((key, value))
}

/// A key that the code reads.
#[derive(Clone, Debug)]
struct ReadKey {
    table: String,
    key: String,
    kind: String,
    /// Kinds of agents that have it, for keys of agents.
    agent_kinds: Vec<&'static str>,
}

fn all_read_keys(defaults: &DefaultsFile) -> Vec<ReadKey> {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "secret.txt",
        "signing.txt",
        "bot.txt",
        "app.txt",
        "slack-client.txt",
        "token.key",
    ] {
        fs::write(folder.path().join(name), "s").unwrap();
    }
    recorder::take();
    Config::read(&execution::all_keys(), [], folder.path()).unwrap();
    VerificationZoneConfig::read(&verification::all_keys(), [], folder.path()).unwrap();
    let recorded = recorder::take();
    let tables: BTreeSet<String> = recorded
        .keys()
        .filter_map(|path| path.rsplit_once('.'))
        .filter(|(table, _)| {
            recorded
                .get(*table)
                .is_none_or(|kind| kind != recorder::STRING_MAP)
        })
        .map(|(table, _)| without_indexes(table))
        .collect();
    let mut found: BTreeMap<(String, String), ReadKey> = BTreeMap::new();
    for (path, kind) in &recorded {
        // Elements of lists, and tables: their keys are recorded too.
        if path.ends_with(']') || tables.contains(&without_indexes(path)) {
            continue;
        }
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        if recorded
            .get(table)
            .is_some_and(|kind| kind == recorder::STRING_MAP)
        {
            continue;
        }
        let mut agent_kinds = Vec::new();
        let mut name = String::new();
        // `agents[3].skills[0]` is `agents.skills`, of the kind of the fourth agent.
        for part in table.split('.') {
            let (part, index) = part.split_once('[').unwrap_or((part, ""));
            if part == "agents" {
                let index: usize = index.trim_end_matches(']').parse().unwrap();
                agent_kinds.push(KINDS[index]);
            }
            name = if name.is_empty() {
                part.to_owned()
            } else {
                format!("{name}.{part}")
            };
        }
        // Most secrets are not allowed in the file itself: their key is only read to reject it.
        let is_recorded = |ending: &str| recorded.contains_key(&format!("{path}{ending}"));
        let is_secret = is_recorded("_file") && is_recorded("_env");
        if is_secret && defaults.key(&name, None, key).is_none() {
            continue;
        }
        let entry = found
            .entry((name.clone(), key.to_owned()))
            .or_insert_with(|| ReadKey {
                table: name,
                key: key.to_owned(),
                kind: kind.clone(),
                agent_kinds: Vec::new(),
            });
        if entry.kind.is_empty() {
            entry.kind.clone_from(kind);
        }
        entry.agent_kinds.extend(
            agent_kinds
                .iter()
                .filter(|kind| !entry.agent_kinds.contains(kind))
                .collect::<Vec<_>>(),
        );
    }
    found.into_values().collect()
}

/// Returns `agents.skills` for `agents[3].skills[0]`.
fn without_indexes(path: &str) -> String {
    let parts = path.split(['[', ']']).step_by(2);
    parts.collect()
}

fn type_name(read_key: &ReadKey) -> &str {
    match read_key.kind.as_str() {
        "a string" => "string",
        "a list of strings" => "list of strings",
        "true or false" => "boolean",
        "an integer" => "integer",
        "a number" => "number",
        "the path of a file" => "path",
        recorder::STRING_MAP => "table of strings",
        size if size.starts_with("a size") => "size",
        duration if duration.starts_with("a duration") => "duration",
        // An alternative to a key that config.default.toml shows.
        "" if read_key.key.ends_with("_file") => "path",
        _ => panic!("config.default.toml does not show {read_key:?}"),
    }
}

/// Returns the comment for a secret key that is only documented by its alternative.
fn secret_alternative(
    defaults: &DefaultsFile,
    table: &str,
    kind: Option<&str>,
    key: &str,
) -> Option<String> {
    let (base, source) = match key.strip_suffix("_file") {
        Some(base) => (base, "file with the value"),
        None => (
            key.strip_suffix("_env")?,
            "name of the environment variable with the value",
        ),
    };
    let alternatives = [
        base.to_owned(),
        format!("{base}_file"),
        format!("{base}_env"),
    ];
    let other = alternatives
        .iter()
        .find(|alternative| defaults.key(table, kind, alternative).is_some())?;
    Some(format!("instead of `{other}`: {source}"))
}

/// Returns the defaults of agents, which `config.default.toml` can only show in comments, from the code.
fn agent_defaults() -> BTreeMap<(&'static str, &'static str), String> {
    install_provider();
    let id = || AgentId::new("a").unwrap();
    let provider = LlmProvider::OpenAi {
        base_url: Url::parse("https://example.com").unwrap(),
        key: None,
        native_files: false,
        images: true,
    };
    let llm = LlmOptions::new(id(), provider, "m", FileReader::new("interzone", 1));
    let command = CommandOptions::new(id(), vec!["true".to_owned()]);
    let config = Config::read(AGENTS, [], Path::new("/")).unwrap();
    let AgentKind::Llm(model) = &config.agents[0].kind else {
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
    let AgentKind::Remote(peer) = &config.agents[1].kind else {
        panic!()
    };
    assert_eq!(peer.dialect, RemoteDialect::Acp);
    let seconds = |duration: std::time::Duration| format!("{}s", duration.as_secs());
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
        (("remote", "poll_interval"), "2s".to_owned()),
    ]
    .into()
}

fn default_value(
    key: Option<&DefaultKey>,
    kind: Option<&str>,
    agent_defaults: &BTreeMap<(&'static str, &'static str), String>,
) -> String {
    let Some(written) = key else {
        return String::new();
    };
    if !written.is_commented && !written.table.starts_with("agents") {
        return code(
            written
                .value
                .replace("[ \"", "[\"")
                .replace(", ]", "]")
                .trim(),
        );
    }
    let mut defaults = agent_defaults.iter();
    let found = defaults.find(|((agent, key), _)| Some(*agent) == kind && *key == written.key);
    let Some((_, value)) = found else {
        return String::new();
    };
    let bare = written.value.trim_matches('"');
    let same = match parse_duration(value) {
        Some(duration) => parse_duration(bare) == Some(duration),
        None => *value == written.value,
    };
    assert!(
        same,
        "config.default.toml shows {written:?}, the code has {value}"
    );
    code(&written.value)
}

fn rows(
    keys: &[ReadKey],
    defaults: &DefaultsFile,
    agent_defaults: &BTreeMap<(&'static str, &'static str), String>,
    kind: Option<&str>,
) -> Vec<Vec<String>> {
    let mut sorted_keys = keys.to_vec();
    let position = |read_key: &ReadKey| {
        let at = |key: &str| {
            let same = |w: &DefaultKey| w.table == read_key.table && w.key == key;
            defaults.keys.iter().position(same)
        };
        let base = read_key
            .key
            .trim_end_matches("_file")
            .trim_end_matches("_env");
        let alternatives = [
            read_key.key.clone(),
            base.to_owned(),
            format!("{base}_file"),
            format!("{base}_env"),
        ];
        let first = alternatives.iter().find_map(|key| at(key));
        (first.unwrap_or(usize::MAX), at(&read_key.key).is_none())
    };
    sorted_keys.sort_by_key(position);
    let row = |read_key: &ReadKey| {
        // Keys that all agents share are documented by the first agent.
        let agent_kind = match kind {
            Some("all") | None => None,
            kind => kind,
        };
        let written = defaults.key(&read_key.table, agent_kind, &read_key.key);
        let own_table = format!("{}.{}", read_key.table, read_key.key);
        let table_comment = defaults.tables.iter().find(|(name, _)| *name == own_table);
        let comment = match written {
            Some(written) => written.comment.clone(),
            None if table_comment.is_some() => table_comment.unwrap().1.clone(),
            None => secret_alternative(defaults, &read_key.table, agent_kind, &read_key.key)
                .unwrap_or_else(|| {
                    panic!(
                        "config.default.toml has no `{}` in [{}]",
                        read_key.key, read_key.table
                    )
                }),
        };
        assert!(
            !comment.is_empty(),
            "no comment on `{}` in [{}]",
            read_key.key,
            read_key.table
        );
        vec![
            code(&read_key.key),
            type_name(read_key).to_owned(),
            default_value(written, agent_kind, agent_defaults),
            cell_text(&comment),
        ]
    };
    sorted_keys.iter().map(row).collect()
}

const COLUMNS: [&str; 4] = ["key", "type", "default", "description"];

#[test]
fn reference_of_keys_is_current() {
    let text = read_text("config.default.toml");
    let defaults = DefaultsFile::read(&text);
    let read_keys = all_read_keys(&defaults);
    // Every key in config.default.toml must be read by the code.
    for written in &defaults.keys {
        let is_read = |read_key: &ReadKey| {
            let same = read_key.table == written.table && read_key.key == written.key;
            same && (read_key.agent_kinds.is_empty()
                || written
                    .kind
                    .as_deref()
                    .is_none_or(|kind| read_key.agent_kinds.contains(&kind)))
        };
        let is_map_entry = |read_key: &ReadKey| {
            read_key.kind == recorder::STRING_MAP
                && written.table == format!("{}.{}", read_key.table, read_key.key)
        };
        assert!(
            read_keys
                .iter()
                .any(|read_key| is_read(read_key) || is_map_entry(read_key)),
            "`{}` of [{}] in config.default.toml is not read by the code",
            written.key,
            written.table
        );
    }

    let agent_defaults = agent_defaults();
    let mut page = page_header(
        "Configuration reference",
        "the code that reads it and [config.default.toml](../../config.default.toml)",
    );
    page.push_str(
        "[Configuration](../config.md) is the introduction. A key without a default is optional, unless its \
         description says \"required\". In the environment, `body` in `[limits]` is `INTERZONE__LIMITS__BODY`.\n\n\
         | type | |\n|---|---|\n\
         | string | |\n\
         | list of strings | a single string is a list of one |\n\
         | integer | |\n\
         | number | such as `0.7` |\n\
         | boolean | `true` or `false` |\n\
         | size | `\"40MiB\"`, `\"25MB\"`, or a number of bytes |\n\
         | duration | `\"250ms\"`, `\"30s\"`, `\"10m\"`, `\"2h\"` or `\"7d\"` |\n\
         | path | of a file; relative paths start from the folder of the configuration |\n\
         | table of strings | with arbitrary names |\n\n",
    );
    let mut shown = 0;
    for (name, about) in defaults
        .tables
        .iter()
        .filter(|(name, _)| !name.starts_with("agents"))
    {
        let own: Vec<ReadKey> = read_keys
            .iter()
            .filter(|read_key| read_key.table == *name)
            .cloned()
            .collect();
        // Tables with arbitrary names are documented as one key of the parent table.
        if own.is_empty() {
            continue;
        }
        let first = name.split('.').next().unwrap();
        let zone = if EXECUTION_SECTIONS.contains(&first) {
            "Execution Zone"
        } else if VERIFICATION_SECTIONS.contains(&first) {
            "Verification Zone"
        } else {
            "both zones"
        };
        page.push_str(&format!("## `[{name}]`\n\n"));
        let about = cell_text(about);
        match about.as_str() {
            "" => page.push_str(&format!("{}.\n\n", capitalize(zone))),
            about => page.push_str(&format!("{}: {about}.\n\n", capitalize(zone))),
        }
        shown += own.len();
        page.push_str(&table(
            &COLUMNS,
            &rows(&own, &defaults, &agent_defaults, None),
        ));
    }

    page.push_str(
        "## `[[agents]]`\n\nExecution Zone: the agents. Yours replace the demo agent.\n\n",
    );
    let agents: Vec<ReadKey> = read_keys
        .iter()
        .filter(|read_key| read_key.table.starts_with("agents"))
        .cloned()
        .collect();
    let is_shared =
        |read_key: &ReadKey| read_key.agent_kinds.len() >= 3 && read_key.table == "agents";
    let own: Vec<ReadKey> = agents
        .iter()
        .filter(|read_key| is_shared(read_key))
        .cloned()
        .collect();
    shown += own.len();
    page.push_str(&table(
        &COLUMNS,
        &rows(&own, &defaults, &agent_defaults, Some("all")),
    ));
    for kind in ["command", "llm", "remote"] {
        let own: Vec<ReadKey> = agents
            .iter()
            .filter(|read_key| {
                read_key.table == "agents"
                    && !is_shared(read_key)
                    && read_key.agent_kinds.contains(&kind)
            })
            .cloned()
            .collect();
        shown += own.len();
        page.push_str(&format!("### `kind = \"{kind}\"`\n\n"));
        page.push_str(&table(
            &COLUMNS,
            &rows(&own, &defaults, &agent_defaults, Some(kind)),
        ));
    }
    let own: Vec<ReadKey> = agents
        .iter()
        .filter(|read_key| read_key.table == "agents.skills")
        .cloned()
        .collect();
    shown += own.len();
    page.push_str("### `[[agents.skills]]`\n\nSkills of an agent, by which callers can select it. Not for the demo agent, whose skills are fixed.\n\n");
    page.push_str(&table(
        &COLUMNS,
        &rows(&own, &defaults, &agent_defaults, Some("all")),
    ));
    // A key of two kinds is shown for each.
    assert!(
        shown >= read_keys.len(),
        "{shown} of {} keys are shown",
        read_keys.len()
    );
    assert_current("docs/reference/config.md", &page);
}
