//! What belongs to the contract between the zones: files in and out, which answers are noted, and a
//! zone inside AgentCore.

use super::error::ConfigError;
use super::section::Section;
use super::zone::{HAS_A_DEFAULT, count, number, size, text, time};
use interzone_execution::files::{FileRules, InputRules};
use interzone_execution::pairs::Recorded;
use interzone_hub::Retention;
use interzone_protocol::acp::Scope;
use interzone_protocol::vocab::PrincipalId;
use std::net::SocketAddr;

type Result<T> = std::result::Result<T, ConfigError>;

/// `[files]`: those that agents make.
pub(super) fn files(mut section: Section<'_>) -> Result<FileRules> {
    let is_type = |text: &str| {
        let plain = |part: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
            !part.is_empty() && part.chars().all(good)
        };
        matches!(text.split_once('/'), Some((kind, of)) if plain(kind) && plain(of))
    };
    let mut allow = Vec::new();
    for found in section.texts("allow")? {
        if !is_type(&found.value) {
            return Err(found.refuse("write media types, as in \"text/csv\""));
        }
        allow.push(found.value);
    }
    let rules = FileRules {
        max_bytes: size(&mut section, "max_bytes")? as u64,
        allow,
        per_reply: count(&mut section, "per_reply", 0)?,
    };
    section.end()?;
    Ok(rules)
}

/// `[attachments]`: those that callers send.
pub(super) fn attachments(mut section: Section<'_>) -> Result<InputRules> {
    let rules = InputRules {
        image_bytes: size(&mut section, "image_bytes")? as u64,
        document_bytes: size(&mut section, "document_bytes")? as u64,
        images: count(&mut section, "images", 0)?,
        documents: count(&mut section, "documents", 0)?,
        message_bytes: size(&mut section, "message_bytes")? as u64,
        unpacked_bytes: size(&mut section, "unpacked_bytes")? as u64,
        pages: count(&mut section, "pages", 1)?,
        text_chars: count(&mut section, "text_chars", 1)?,
        extract_time: time(&mut section, "extract_time")?,
        extract_memory: extract_memory(&mut section)?,
        extract_processes: count(&mut section, "extract_processes", 1)?,
        fetch_time: time(&mut section, "fetch_time")?,
        fetch_attempts: number(&mut section, "fetch_attempts", 1)?,
        ..InputRules::default()
    };
    section.end()?;
    Ok(rules)
}

/// Memory for reading one file. With less than this the process that reads it does not start.
const LEAST_EXTRACT_MEMORY: usize = 128 << 20;

fn extract_memory(section: &mut Section<'_>) -> Result<u64> {
    let memory = size(section, "extract_memory")?;
    if memory < LEAST_EXTRACT_MEMORY {
        return Err(section.refuse("`extract_memory` must be 128MiB or more"));
    }
    Ok(memory as u64)
}

/// `[pairs]`: which answered requests are noted; for how long goes with the rest of retention.
pub(super) fn pairs(
    mut section: Section<'_>,
    retention: &mut Retention,
) -> Result<Option<Recorded>> {
    let recorded = match section.text("record")? {
        None => return Err(section.missing("record", HAS_A_DEFAULT)),
        Some(found) => match found.value.as_str() {
            "zone" => Some(Recorded::Zone),
            "all" => Some(Recorded::All),
            "none" => None,
            _ => return Err(found.refuse("write \"zone\", \"all\" or \"none\"")),
        },
    };
    retention.pairs = time(&mut section, "keep")?;
    retention.most_pairs = u64::from(number(&mut section, "most", 1)?);
    section.end()?;
    Ok(recorded)
}

/// A zone inside AgentCore.
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
                None => Err(section.missing(key, HAS_A_DEFAULT)),
            }
        };
        let principal = text(&mut section, "principal")?;
        if PrincipalId::new(&principal).is_err() {
            return Err(section.refuse("`principal` must be a name that a caller can have"));
        }
        let mut scopes = Vec::new();
        for found in section.texts("scopes")? {
            if !Scope::ALL.iter().any(|scope| scope.name() == found.value) {
                return Err(found.refuse("write scopes of ACP, as in \"acp:tasks:read\""));
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
        section.end()?;
        Ok(config)
    }
}
