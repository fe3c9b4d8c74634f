//! Agent card checks, according to its schema.

use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::{CheckClient, RequestIdentity};
use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;

const CARD: &str = "ACP §8";

/// Allowed top-level members.
const MEMBERS: &[&str] = &[
    "name",
    "description",
    "version",
    "url",
    "provider",
    "capabilities",
    "authentication",
    "skills",
    "metadata",
];
const MODES: &[&str] = &["text", "data", "file", "image", "audio"];
const SCHEMES: &[&str] = &["oauth2", "bearer", "apikey"];

pub(super) async fn check(probe: &CheckClient, out: &mut Checks) {
    out.group("agent card");
    let card = match fetch(probe).await {
        Ok(card) => {
            out.record("exists", CARD, Ok("/.well-known/agent.json".to_owned()));
            card
        }
        Err(flaw) => {
            out.record("exists", CARD, Err(flaw));
            return;
        }
    };
    out.record("is valid", CARD, validate_card(&card));
}

async fn fetch(probe: &CheckClient) -> Result<Map<String, Value>, CheckFailure> {
    let answer = probe
        .get("/.well-known/agent.json", RequestIdentity::Anonymous)
        .await?;
    if answer.status != StatusCode::OK {
        return Err(CheckFailure::violation(format!(
            "HTTP {} for /.well-known/agent.json",
            answer.status.as_u16()
        )));
    }
    match answer.json()? {
        Value::Object(card) => Ok(card),
        _ => Err(CheckFailure::violation("not a JSON object")),
    }
}

/// Validates a card; the error names all violations.
fn validate_card(card: &Map<String, Value>) -> CheckOutcome {
    let mut errors = Vec::new();
    for name in card.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
        errors.push(format!("`{}` is not allowed", crate::printable::text(name)));
    }
    if !text(card, "name").is_some_and(|text| (1..=100).contains(&text.chars().count())) {
        errors.push("`name` must have 1 to 100 characters".to_owned());
    }
    if !text(card, "description").is_some_and(|text| (1..=500).contains(&text.chars().count())) {
        errors.push("`description` must have 1 to 500 characters".to_owned());
    }
    if !text(card, "version").is_some_and(is_version) {
        errors.push("`version` must be three numbers, as in 1.0.0".to_owned());
    }
    if !text(card, "url")
        .is_some_and(|url| Url::parse(url).is_ok_and(|url| url.scheme() == "https"))
    {
        errors.push("`url` must be an https URL".to_owned());
    }
    validate_provider(card.get("provider"), &mut errors);
    if let Some(capabilities) = card.get("capabilities") {
        let flags = capabilities
            .as_object()
            .is_some_and(|all| all.values().all(Value::is_boolean));
        if !flags {
            errors.push("the values of `capabilities` must be true or false".to_owned());
        }
    }
    if let Some(authentication) = card.get("authentication")
        && !is_subset(authentication.get("schemes"), SCHEMES)
    {
        errors.push("`authentication.schemes` must be oauth2, bearer or apikey".to_owned());
    }
    validate_skills(card.get("skills"), &mut errors);
    if errors.is_empty() {
        Ok(String::new())
    } else {
        Err(CheckFailure::violation(errors.join("; ")))
    }
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

fn is_version(version: &str) -> bool {
    let numbers: Vec<&str> = version.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(number)
}

fn validate_provider(provider: Option<&Value>, errors: &mut Vec<String>) {
    let Some(provider) = provider.and_then(Value::as_object) else {
        errors.push("`provider` is missing".to_owned());
        return;
    };
    if text(provider, "organization").is_none_or(str::is_empty) {
        errors.push("`provider.organization` is missing".to_owned());
    }
    if provider
        .get("contact")
        .is_some_and(|mail| !mail.as_str().is_some_and(is_email))
    {
        errors.push("`provider.contact` must be an email address".to_owned());
    }
    let is_url = |url: &Value| url.as_str().is_some_and(|url| Url::parse(url).is_ok());
    if provider.get("website").is_some_and(|url| !is_url(url)) {
        errors.push("`provider.website` must be a URL".to_owned());
    }
}

fn is_email(text: &str) -> bool {
    text.split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

/// Returns true if the list is absent or contains only allowed values.
fn is_subset(list: Option<&Value>, allowed: &[&str]) -> bool {
    let Some(list) = list else { return true };
    let fits = |item: &Value| item.as_str().is_some_and(|value| allowed.contains(&value));
    list.as_array().is_some_and(|items| items.iter().all(fits))
}

fn validate_skills(skills: Option<&Value>, errors: &mut Vec<String>) {
    let Some(skills) = skills else { return };
    let Some(skills) = skills.as_array().filter(|skills| !skills.is_empty()) else {
        errors.push("`skills` must be a non-empty list, or absent".to_owned());
        return;
    };
    for (index, skill) in skills.iter().enumerate() {
        let Some(skill) = skill.as_object() else {
            errors.push(format!("`skills[{index}]` is not an object"));
            continue;
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !text(skill, "id").is_some_and(|id| !id.is_empty() && id.chars().all(plain)) {
            errors.push(format!(
                "`skills[{index}].id` must consist of lower-case letters, digits and hyphens"
            ));
        }
        for name in ["name", "description"] {
            if text(skill, name).is_none_or(str::is_empty) {
                errors.push(format!("`skills[{index}].{name}` is missing"));
            }
        }
        for name in ["inputModes", "outputModes"] {
            if !is_subset(skill.get(name), MODES) {
                errors.push(format!("`skills[{index}].{name}` has an unknown mode"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::validate_card;
    use crate::commands::check::server::check_result::CheckFailure;
    use serde_json::{Value, json};

    fn validate_with(change: impl FnOnce(&mut Value)) -> Result<String, CheckFailure> {
        let mut card = json!({
            "name": "A", "description": "B", "version": "1.0.0", "url": "https://a/jsonrpc",
            "provider": {"organization": "C"},
            "skills": [{"id": "a-1", "name": "A", "description": "B", "inputModes": ["text"]}],
        });
        change(&mut card);
        validate_card(card.as_object().unwrap())
    }

    #[test]
    fn valid_card_passes() {
        assert_eq!(validate_with(|_| ()), Ok(String::new()));
    }

    #[test]
    fn each_violation_is_reported() {
        type Change = fn(&mut Value);
        let changes: [(&str, Change); 8] = [
            ("name", |card| card["name"] = json!("")),
            ("version", |card| card["version"] = json!("1.0")),
            ("url", |card| card["url"] = json!("http://a")),
            ("provider", |card| card["provider"] = json!({})),
            ("extra", |card| card["extra"] = json!(1)),
            ("skills", |card| card["skills"] = json!([])),
            ("id", |card| card["skills"][0]["id"] = json!("A b")),
            ("inputModes", |card| {
                card["skills"][0]["inputModes"] = json!(["smell"])
            }),
        ];
        for (what, change) in changes {
            let Err(CheckFailure::Violation(why)) = validate_with(change) else {
                panic!("{what} passes");
            };
            assert!(why.contains(what), "{what}: {why}");
        }
    }
}
