//! The agent card, by the rules of its schema.

use super::probe::{As, Probe};
use super::verdict::{Checks, Finding, Flaw};
use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;

const CARD: &str = "ACP §8";

/// All that may stand at the top.
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

pub(super) async fn check(probe: &Probe, out: &mut Checks) {
    out.group("agent card");
    let card = match fetch(probe).await {
        Ok(card) => {
            out.note(
                "there is one",
                CARD,
                Ok("/.well-known/agent.json".to_owned()),
            );
            card
        }
        Err(flaw) => {
            out.note("there is one", CARD, Err(flaw));
            return;
        }
    };
    out.note("it is valid", CARD, judge(&card));
}

async fn fetch(probe: &Probe) -> Result<Map<String, Value>, Flaw> {
    let answer = probe.get("/.well-known/agent.json", As::Nobody).await?;
    if answer.status != StatusCode::OK {
        return Err(Flaw::broken(format!(
            "HTTP {} for /.well-known/agent.json",
            answer.status.as_u16()
        )));
    }
    match answer.json()? {
        Value::Object(card) => Ok(card),
        _ => Err(Flaw::broken("it is not a JSON object")),
    }
}

/// Holds a card against the rules; names all that are broken.
fn judge(card: &Map<String, Value>) -> Finding {
    let mut wrong = Vec::new();
    for name in card.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
        wrong.push(format!("`{}` is not allowed", crate::printable::text(name)));
    }
    if !text(card, "name").is_some_and(|text| (1..=100).contains(&text.chars().count())) {
        wrong.push("`name` must have 1 to 100 characters".to_owned());
    }
    if !text(card, "description").is_some_and(|text| (1..=500).contains(&text.chars().count())) {
        wrong.push("`description` must have 1 to 500 characters".to_owned());
    }
    if !text(card, "version").is_some_and(is_version) {
        wrong.push("`version` must be three numbers, as in 1.0.0".to_owned());
    }
    if !text(card, "url")
        .is_some_and(|url| Url::parse(url).is_ok_and(|url| url.scheme() == "https"))
    {
        wrong.push("`url` must be an https URL".to_owned());
    }
    judge_provider(card.get("provider"), &mut wrong);
    if let Some(capabilities) = card.get("capabilities") {
        let flags = capabilities
            .as_object()
            .is_some_and(|all| all.values().all(Value::is_boolean));
        if !flags {
            wrong.push("`capabilities` must be true or false each".to_owned());
        }
    }
    if let Some(authentication) = card.get("authentication")
        && !among(authentication.get("schemes"), SCHEMES)
    {
        wrong.push("`authentication.schemes` knows oauth2, bearer and apikey".to_owned());
    }
    judge_skills(card.get("skills"), &mut wrong);
    if wrong.is_empty() {
        Ok(String::new())
    } else {
        Err(Flaw::broken(wrong.join("; ")))
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

fn judge_provider(provider: Option<&Value>, wrong: &mut Vec<String>) {
    let Some(provider) = provider.and_then(Value::as_object) else {
        wrong.push("`provider` is missing".to_owned());
        return;
    };
    if text(provider, "organization").is_none_or(str::is_empty) {
        wrong.push("`provider.organization` is missing".to_owned());
    }
    if provider
        .get("contact")
        .is_some_and(|mail| !mail.as_str().is_some_and(is_mail))
    {
        wrong.push("`provider.contact` must be a mail address".to_owned());
    }
    let is_url = |url: &Value| url.as_str().is_some_and(|url| Url::parse(url).is_ok());
    if provider.get("website").is_some_and(|url| !is_url(url)) {
        wrong.push("`provider.website` must be a URL".to_owned());
    }
}

fn is_mail(text: &str) -> bool {
    text.split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}

/// Whether a list, if there is one, has only these words.
fn among(list: Option<&Value>, known: &[&str]) -> bool {
    let Some(list) = list else { return true };
    let fits = |item: &Value| item.as_str().is_some_and(|word| known.contains(&word));
    list.as_array().is_some_and(|items| items.iter().all(fits))
}

fn judge_skills(skills: Option<&Value>, wrong: &mut Vec<String>) {
    let Some(skills) = skills else { return };
    let Some(skills) = skills.as_array().filter(|skills| !skills.is_empty()) else {
        wrong.push("`skills` must be a list that is not empty, or absent".to_owned());
        return;
    };
    for (index, skill) in skills.iter().enumerate() {
        let Some(skill) = skill.as_object() else {
            wrong.push(format!("`skills[{index}]` is no object"));
            continue;
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !text(skill, "id").is_some_and(|id| !id.is_empty() && id.chars().all(plain)) {
            wrong.push(format!(
                "`skills[{index}].id` takes lower-case letters, digits and hyphens"
            ));
        }
        for name in ["name", "description"] {
            if text(skill, name).is_none_or(str::is_empty) {
                wrong.push(format!("`skills[{index}].{name}` is missing"));
            }
        }
        for name in ["inputModes", "outputModes"] {
            if !among(skill.get(name), MODES) {
                wrong.push(format!("`skills[{index}].{name}` has an unknown mode"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::commands::check::server::verdict::Flaw;
    use serde_json::{Value, json};

    fn judged(change: impl FnOnce(&mut Value)) -> Result<String, Flaw> {
        let mut card = json!({
            "name": "A", "description": "B", "version": "1.0.0", "url": "https://a/jsonrpc",
            "provider": {"organization": "C"},
            "skills": [{"id": "a-1", "name": "A", "description": "B", "inputModes": ["text"]}],
        });
        change(&mut card);
        judge(card.as_object().unwrap())
    }

    #[test]
    fn a_good_card_is_valid() {
        assert_eq!(judged(|_| ()), Ok(String::new()));
    }

    #[test]
    fn each_rule_can_be_broken() {
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
            let Err(Flaw::Broken(why)) = judged(change) else {
                panic!("{what} passes");
            };
            assert!(why.contains(what), "{what}: {why}");
        }
    }
}
