//! Validation of blocks and metadata: the limits that an app can run into, not every field.

use super::SlackApiError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MAX_BLOCKS: usize = 50;
const MAX_SECTION_CHARS: usize = 3_000;
const MAX_HEADER_CHARS: usize = 150;
/// Maximum characters of all `markdown` blocks of a message.
const MAX_MARKDOWN_CHARS: usize = 12_000;
/// Maximum characters of all blocks of a message.
const MAX_TOTAL_CHARS: usize = 13_000;
const MAX_BUTTON_CHARS: usize = 75;
const MAX_VALUE_CHARS: usize = 2_000;
const MAX_ID_CHARS: usize = 255;

fn invalid_blocks(detail: impl Into<String>) -> SlackApiError {
    SlackApiError::with_detail("invalid_blocks", &detail.into())
}

/// Validates blocks and adds missing ids.
pub(super) fn validate_blocks(blocks: Option<Value>) -> Result<Vec<Value>, SlackApiError> {
    let mut blocks = match blocks {
        None => return Ok(Vec::new()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(SlackApiError::new("invalid_blocks_format")),
    };
    if blocks.len() > MAX_BLOCKS {
        return Err(invalid_blocks(
            "no more than 50 items allowed [json-pointer:/blocks]",
        ));
    }
    let mut ids = BTreeSet::new();
    let (mut all, mut markdown) = (0, 0);
    for (index, block) in blocks.iter_mut().enumerate() {
        let Value::Object(fields) = &*block else {
            return Err(invalid_blocks(format!(
                "must be an object [json-pointer:/blocks/{index}]"
            )));
        };
        let kind = fields.get("type").and_then(Value::as_str);
        let length = validate_block(block, kind.unwrap_or_default(), index)?;
        all += length;
        if kind == Some("markdown") {
            markdown += length;
        }
        let id = block.get("block_id").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("b{index}"), str::to_owned);
        if id.chars().count() > MAX_ID_CHARS || !ids.insert(id.clone()) {
            return Err(invalid_blocks(format!(
                "block_id must be short and unique [json-pointer:/blocks/{index}]"
            )));
        }
        if let Some(fields) = block.as_object_mut() {
            fields.insert("block_id".to_owned(), id.into());
        }
    }
    if markdown > MAX_MARKDOWN_CHARS {
        return Err(SlackApiError::new("msg_too_long"));
    }
    if all > MAX_TOTAL_CHARS {
        return Err(SlackApiError::new("msg_blocks_too_long"));
    }
    Ok(blocks)
}

/// Validates one block; returns its number of text characters.
fn validate_block(block: &Value, kind: &str, index: usize) -> Result<usize, SlackApiError> {
    let pointer = format!("[json-pointer:/blocks/{index}]");
    match kind {
        "divider" | "image" | "rich_text" | "table" | "video" | "file" | "plan" | "task_card" => {
            Ok(0)
        }
        "markdown" => {
            let text = block.get("text").and_then(Value::as_str);
            let text = text.filter(|text| !text.is_empty());
            let text = text
                .ok_or_else(|| invalid_blocks(format!("missing required field: text {pointer}")))?;
            Ok(text.chars().count())
        }
        "section" => match block.get("text") {
            Some(text) => text_object(text, MAX_SECTION_CHARS, &pointer),
            None if block.get("fields").is_some_and(Value::is_array) => Ok(0),
            None => Err(invalid_blocks(format!(
                "missing required field: text {pointer}"
            ))),
        },
        "header" => {
            let text = block.get("text").unwrap_or(&Value::Null);
            text_object(text, MAX_HEADER_CHARS, &pointer)
        }
        "context" => {
            let texts = elements(block, 10, &pointer)?;
            let texts = texts
                .iter()
                .filter(|e| e.get("type") != Some(&json!("image")));
            texts
                .map(|text| text_object(text, MAX_SECTION_CHARS, &pointer))
                .sum()
        }
        "actions" => {
            for element in elements(block, 25, &pointer)? {
                validate_button(element, &pointer)?;
            }
            Ok(0)
        }
        "context_actions" => {
            for element in elements(block, 5, &pointer)? {
                match element.get("type").and_then(Value::as_str) {
                    Some("feedback_buttons") => validate_feedback(element, &pointer)?,
                    Some("icon_button") => validate_button(element, &pointer)?,
                    _ => return Err(invalid_blocks(format!("unsupported element {pointer}"))),
                }
            }
            Ok(0)
        }
        _ => Err(invalid_blocks(format!(
            "unsupported type: {kind} {pointer}"
        ))),
    }
}

fn elements<'a>(
    block: &'a Value,
    max_count: usize,
    pointer: &str,
) -> Result<&'a [Value], SlackApiError> {
    let all = block.get("elements").and_then(Value::as_array);
    all.filter(|all| !all.is_empty() && all.len() <= max_count)
        .map(Vec::as_slice)
        .ok_or_else(|| invalid_blocks(format!("elements: between 1 and {max_count} {pointer}")))
}

fn text_object(text: &Value, max_chars: usize, pointer: &str) -> Result<usize, SlackApiError> {
    let kind = text.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("mrkdwn" | "plain_text")) {
        return Err(invalid_blocks(format!(
            "failed to match all allowed schemas {pointer}"
        )));
    }
    let text = text.get("text").and_then(Value::as_str).unwrap_or_default();
    let length = text.chars().count();
    if length == 0 {
        return Err(invalid_blocks(format!(
            "must be more than 0 characters {pointer}"
        )));
    }
    if length > max_chars {
        let over = max_chars + 1;
        return Err(invalid_blocks(format!(
            "must be less than {over} characters {pointer}"
        )));
    }
    Ok(length)
}

fn check_short(
    element: &Value,
    name: &str,
    max_chars: usize,
    pointer: &str,
) -> Result<(), SlackApiError> {
    let text = element.get(name).and_then(Value::as_str);
    if text.is_some_and(|text| text.chars().count() > max_chars) {
        return Err(invalid_blocks(format!("{name} is too long {pointer}")));
    }
    Ok(())
}

fn validate_button(element: &Value, pointer: &str) -> Result<(), SlackApiError> {
    check_short(element, "action_id", MAX_ID_CHARS, pointer)?;
    check_short(element, "value", MAX_VALUE_CHARS, pointer)?;
    if element.get("type") == Some(&json!("button")) {
        let text = element.get("text").unwrap_or(&Value::Null);
        if text.get("type") != Some(&json!("plain_text")) {
            return Err(invalid_blocks(format!(
                "a button's text is plain_text {pointer}"
            )));
        }
        text_object(text, MAX_BUTTON_CHARS, pointer)?;
        let style = element.get("style").and_then(Value::as_str);
        if !matches!(style, None | Some("primary" | "danger")) {
            return Err(invalid_blocks(format!(
                "style is primary or danger {pointer}"
            )));
        }
    }
    Ok(())
}

fn validate_feedback(element: &Value, pointer: &str) -> Result<(), SlackApiError> {
    check_short(element, "action_id", MAX_ID_CHARS, pointer)?;
    for name in ["positive_button", "negative_button"] {
        let one = element.get(name);
        let one =
            one.ok_or_else(|| invalid_blocks(format!("missing required field: {name} {pointer}")))?;
        let text = one.get("text").unwrap_or(&Value::Null);
        if text.get("type") != Some(&json!("plain_text")) {
            return Err(invalid_blocks(format!(
                "a button's text is plain_text {pointer}"
            )));
        }
        text_object(text, MAX_BUTTON_CHARS, pointer)?;
        if one.get("value").and_then(Value::as_str).is_none() {
            return Err(invalid_blocks(format!(
                "missing required field: value {pointer}"
            )));
        }
        check_short(one, "value", MAX_VALUE_CHARS, pointer)?;
    }
    Ok(())
}

/// Validates metadata.
pub(super) fn validate_metadata(metadata: Option<Value>) -> Result<Option<Value>, SlackApiError> {
    let Some(metadata) = metadata else {
        return Ok(None);
    };
    let kind = metadata.get("event_type").and_then(Value::as_str);
    let kind = kind.is_some_and(|kind| !kind.is_empty());
    let payload = metadata.get("event_payload").is_some_and(Value::is_object);
    match kind && payload {
        true => Ok(Some(metadata)),
        false => Err(SlackApiError::new("invalid_metadata_format")),
    }
}
