//! `[files]`, `[attachments]`, `[request_log]` and `[agentcore]`.

use super::error::ConfigError;
use super::section::Section;
use super::zone::{
    DEFAULT_MISSING, required_count, required_duration, required_number, required_size,
    required_text,
};
use interzone_execution::files::{FileRules, InputRules};
use interzone_execution::request_log::RequestLogScope;
use interzone_hub::Retention;
use interzone_protocol::Scope;
use interzone_protocol::vocab::PrincipalId;
use std::net::SocketAddr;

type Result<T> = std::result::Result<T, ConfigError>;

/// `[files]`: files that agents produce.
pub(super) fn files(mut section: Section<'_>) -> Result<FileRules> {
    let is_type = |text: &str| {
        let plain = |part: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
            !part.is_empty() && part.chars().all(good)
        };
        matches!(text.split_once('/'), Some((kind, subtype)) if plain(kind) && plain(subtype))
    };
    let mut allow = Vec::new();
    for found in section.texts("allow")? {
        if !is_type(&found.value) {
            return Err(found.refuse("write media types, as in \"text/csv\""));
        }
        allow.push(found.value);
    }
    let rules = FileRules {
        max_bytes: required_size(&mut section, "max_bytes")? as u64,
        allow,
        per_reply: required_count(&mut section, "per_reply", 0)?,
    };
    section.finish()?;
    Ok(rules)
}

/// `[attachments]`: files that callers send.
pub(super) fn attachments(mut section: Section<'_>) -> Result<InputRules> {
    let rules = InputRules {
        image_bytes: required_size(&mut section, "image_bytes")? as u64,
        document_bytes: required_size(&mut section, "document_bytes")? as u64,
        images: required_count(&mut section, "images", 0)?,
        documents: required_count(&mut section, "documents", 0)?,
        message_bytes: required_size(&mut section, "message_bytes")? as u64,
        unpacked_bytes: required_size(&mut section, "unpacked_bytes")? as u64,
        pages: required_count(&mut section, "pages", 1)?,
        text_chars: required_count(&mut section, "text_chars", 1)?,
        extract_cpu_time: required_duration(&mut section, "extract_cpu_time")?,
        extract_memory: extract_memory(&mut section)?,
        extract_processes: required_count(&mut section, "extract_processes", 1)?,
        fetch_timeout: required_duration(&mut section, "fetch_timeout")?,
        fetch_attempts: required_number(&mut section, "fetch_attempts", 1)?,
        ..InputRules::default()
    };
    section.finish()?;
    Ok(rules)
}

/// Lower limit of the memory for reading one file. With less, the file reader process does not start.
const MIN_EXTRACT_MEMORY: usize = 128 << 20;

fn extract_memory(section: &mut Section<'_>) -> Result<u64> {
    let memory = required_size(section, "extract_memory")?;
    if memory < MIN_EXTRACT_MEMORY {
        return Err(section.refuse("`extract_memory` must be 128MiB or more"));
    }
    Ok(memory as u64)
}

/// `[request_log]`: which answered requests are recorded. Sets their retention too.
pub(super) fn request_log(
    mut section: Section<'_>,
    retention: &mut Retention,
) -> Result<Option<RequestLogScope>> {
    let scope = match section.text("record")? {
        None => return Err(section.missing("record", DEFAULT_MISSING)),
        Some(found) => match found.value.as_str() {
            "zone" => Some(RequestLogScope::Zone),
            "all" => Some(RequestLogScope::All),
            "none" => None,
            _ => return Err(found.refuse("write \"zone\", \"all\" or \"none\"")),
        },
    };
    retention.requests = required_duration(&mut section, "retention")?;
    retention.max_requests = u64::from(required_number(&mut section, "max_entries", 1)?);
    section.finish()?;
    Ok(scope)
}

/// `[agentcore]`: a zone inside Amazon Bedrock AgentCore.
#[derive(Debug)]
pub(crate) struct AgentCoreConfig {
    pub(crate) enabled: bool,
    pub(crate) listen: SocketAddr,
    pub(crate) agents_listen: SocketAddr,
    pub(crate) principal: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) per_user: bool,
    pub(crate) require_token: bool,
}

impl AgentCoreConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let address = |section: &mut Section<'_>, key| {
            let found = section.parsed(key, "an address and a port, as in \"0.0.0.0:8080\"")?;
            match found {
                Some(found) => Ok(found.value),
                None => Err(section.missing(key, DEFAULT_MISSING)),
            }
        };
        let principal = required_text(&mut section, "principal")?;
        if PrincipalId::new(&principal).is_err() {
            return Err(section.refuse("`principal` must be a valid principal id"));
        }
        let mut scopes = Vec::new();
        for found in section.texts("scopes")? {
            if !Scope::ALL.iter().any(|scope| scope.name() == found.value) {
                return Err(found.refuse("write ACP scopes, as in \"acp:tasks:read\""));
            }
            scopes.push(found.value);
        }
        let config = Self {
            enabled: section.flag("enabled")?.unwrap_or(false),
            listen: address(&mut section, "listen")?,
            agents_listen: address(&mut section, "agents_listen")?,
            principal,
            scopes,
            per_user: section.flag("per_user")?.unwrap_or(false),
            require_token: section.flag("require_token")?.unwrap_or(false),
        };
        section.finish()?;
        Ok(config)
    }
}
