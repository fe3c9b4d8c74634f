//! What Slack accepts as blocks, and as metadata. The limits that an app can run into, not every field.

use super::Refused;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MOST_BLOCKS: usize = 50;
const SECTION: usize = 3_000;
const HEADER: usize = 150;
/// What all `markdown` blocks of a message may have together.
const MARKDOWN: usize = 12_000;
/// What all blocks of a message may have together.
const ALL: usize = 13_000;
const BUTTON_TEXT: usize = 75;
const VALUE: usize = 2_000;
const ID: usize = 255;

fn bad(why: impl Into<String>) -> Refused {
    Refused::because("invalid_blocks", &why.into())
}

/// Checks blocks, and gives those without an id one.
pub(super) fn checked(blocks: Option<Value>) -> Result<Vec<Value>, Refused> {
    let mut blocks = match blocks {
        None => return Ok(Vec::new()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(Refused::new("invalid_blocks_format")),
    };
    if blocks.len() > MOST_BLOCKS {
        return Err(bad("no more than 50 items allowed [json-pointer:/blocks]"));
    }
    let mut ids = BTreeSet::new();
    let (mut all, mut markdown) = (0, 0);
    for (at, block) in blocks.iter_mut().enumerate() {
        let Value::Object(fields) = &*block else {
            return Err(bad(format!(
                "must be an object [json-pointer:/blocks/{at}]"
            )));
        };
        let kind = fields.get("type").and_then(Value::as_str);
        let length = check(block, kind.unwrap_or_default(), at)?;
        all += length;
        if kind == Some("markdown") {
            markdown += length;
        }
        let id = block.get("block_id").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("b{at}"), str::to_owned);
        if id.chars().count() > ID || !ids.insert(id.clone()) {
            return Err(bad(format!(
                "block_id must be short and unique [json-pointer:/blocks/{at}]"
            )));
        }
        if let Some(fields) = block.as_object_mut() {
            fields.insert("block_id".to_owned(), id.into());
        }
    }
    if markdown > MARKDOWN {
        return Err(Refused::new("msg_too_long"));
    }
    if all > ALL {
        return Err(Refused::new("msg_blocks_too_long"));
    }
    Ok(blocks)
}

/// One block; gives how many characters of text it has.
fn check(block: &Value, kind: &str, at: usize) -> Result<usize, Refused> {
    let place = format!("[json-pointer:/blocks/{at}]");
    match kind {
        "divider" | "image" | "rich_text" | "table" | "video" | "file" | "plan" | "task_card" => {
            Ok(0)
        }
        "markdown" => {
            let text = block.get("text").and_then(Value::as_str);
            let text = text.filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| bad(format!("missing required field: text {place}")))?;
            Ok(text.chars().count())
        }
        "section" => match block.get("text") {
            Some(text) => text_object(text, SECTION, &place),
            None if block.get("fields").is_some_and(Value::is_array) => Ok(0),
            None => Err(bad(format!("missing required field: text {place}"))),
        },
        "header" => {
            let text = block.get("text").unwrap_or(&Value::Null);
            text_object(text, HEADER, &place)
        }
        "context" => {
            let texts = elements(block, 10, &place)?;
            let texts = texts
                .iter()
                .filter(|e| e.get("type") != Some(&json!("image")));
            texts.map(|text| text_object(text, SECTION, &place)).sum()
        }
        "actions" => {
            for element in elements(block, 25, &place)? {
                button(element, &place)?;
            }
            Ok(0)
        }
        "context_actions" => {
            for element in elements(block, 5, &place)? {
                match element.get("type").and_then(Value::as_str) {
                    Some("feedback_buttons") => feedback(element, &place)?,
                    Some("icon_button") => button(element, &place)?,
                    _ => return Err(bad(format!("unsupported element {place}"))),
                }
            }
            Ok(0)
        }
        _ => Err(bad(format!("unsupported type: {kind} {place}"))),
    }
}

fn elements<'a>(block: &'a Value, most: usize, place: &str) -> Result<&'a [Value], Refused> {
    let all = block.get("elements").and_then(Value::as_array);
    all.filter(|all| !all.is_empty() && all.len() <= most)
        .map(Vec::as_slice)
        .ok_or_else(|| bad(format!("elements: between 1 and {most} {place}")))
}

fn text_object(text: &Value, most: usize, place: &str) -> Result<usize, Refused> {
    let kind = text.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("mrkdwn" | "plain_text")) {
        return Err(bad(format!("failed to match all allowed schemas {place}")));
    }
    let text = text.get("text").and_then(Value::as_str).unwrap_or_default();
    let length = text.chars().count();
    if length == 0 {
        return Err(bad(format!("must be more than 0 characters {place}")));
    }
    if length > most {
        let over = most + 1;
        return Err(bad(format!("must be less than {over} characters {place}")));
    }
    Ok(length)
}

fn short(element: &Value, name: &str, most: usize, place: &str) -> Result<(), Refused> {
    let text = element.get(name).and_then(Value::as_str);
    if text.is_some_and(|text| text.chars().count() > most) {
        return Err(bad(format!("{name} is too long {place}")));
    }
    Ok(())
}

fn button(element: &Value, place: &str) -> Result<(), Refused> {
    short(element, "action_id", ID, place)?;
    short(element, "value", VALUE, place)?;
    if element.get("type") == Some(&json!("button")) {
        let text = element.get("text").unwrap_or(&Value::Null);
        if text.get("type") != Some(&json!("plain_text")) {
            return Err(bad(format!("a button's text is plain_text {place}")));
        }
        text_object(text, BUTTON_TEXT, place)?;
        let style = element.get("style").and_then(Value::as_str);
        if !matches!(style, None | Some("primary" | "danger")) {
            return Err(bad(format!("style is primary or danger {place}")));
        }
    }
    Ok(())
}

fn feedback(element: &Value, place: &str) -> Result<(), Refused> {
    short(element, "action_id", ID, place)?;
    for name in ["positive_button", "negative_button"] {
        let one = element.get(name);
        let one = one.ok_or_else(|| bad(format!("missing required field: {name} {place}")))?;
        let text = one.get("text").unwrap_or(&Value::Null);
        if text.get("type") != Some(&json!("plain_text")) {
            return Err(bad(format!("a button's text is plain_text {place}")));
        }
        text_object(text, BUTTON_TEXT, place)?;
        if one.get("value").and_then(Value::as_str).is_none() {
            return Err(bad(format!("missing required field: value {place}")));
        }
        short(one, "value", VALUE, place)?;
    }
    Ok(())
}

/// Checks metadata.
pub(super) fn metadata(metadata: Option<Value>) -> Result<Option<Value>, Refused> {
    let Some(metadata) = metadata else {
        return Ok(None);
    };
    let kind = metadata.get("event_type").and_then(Value::as_str);
    let kind = kind.is_some_and(|kind| !kind.is_empty());
    let payload = metadata.get("event_payload").is_some_and(Value::is_object);
    match kind && payload {
        true => Ok(Some(metadata)),
        false => Err(Refused::new("invalid_metadata_format")),
    }
}
