//! Converts a turn to a chat: history, current message and attachments.

use super::LlmOptions;
use super::attachments::{AttachmentBuilder, FileReadContext, PromptDelimiter, SkippedFile};
use super::chat::{Chat, ChatRole, ContentBlock};
use super::provider::ModelProvider;
use interzone_hub::Turn;
use interzone_protocol::vocab::{Message, PartKind};

/// Metadata field with the name of a message's author.
const USER_FIELD: &str = "user";

/// Maximum length of an author's name, in characters.
const MAX_NAME_CHARS: usize = 80;

/// First message if the chat would otherwise start with the assistant: providers require the user to start.
const HISTORY_OMITTED: &str = "(What was said before is left out.)";

/// Builds the chat. Also returns the files of the current message that the model does not get.
pub(super) async fn build_chat<'t>(
    turn: &'t Turn,
    options: &LlmOptions,
    provider: &dyn ModelProvider,
    context: FileReadContext<'_>,
    delimiter: &PromptDelimiter,
) -> (Chat<'t>, Vec<SkippedFile>) {
    let mut attachments = AttachmentBuilder::new(provider, context, delimiter);
    let (current, skipped) = message_blocks(&turn.message, &mut attachments).await;
    // From the newest to the oldest, because the newest must fit.
    let mut earlier = Vec::new();
    let mut remaining = options.history_chars;
    let mut fits = true;
    for message in turn.history.iter().rev() {
        let (content, _) = message_blocks(message, &mut attachments).await;
        let size: usize = content.iter().map(char_count).sum();
        if size > remaining {
            fits = false;
            break;
        }
        remaining -= size;
        earlier.push((chat_role(message), content));
    }
    let mut chat = Chat::default();
    let first = earlier.last().map(|(speaker, _)| *speaker);
    if !fits || first == Some(ChatRole::Assistant) {
        chat.push(
            ChatRole::User,
            vec![ContentBlock::Text(HISTORY_OMITTED.into())],
        );
    }
    for (speaker, content) in earlier.into_iter().rev() {
        chat.push(speaker, content);
    }
    chat.push(ChatRole::User, current);
    chat.system = system_prompt(turn, options, delimiter);
    (chat, skipped)
}

/// Returns true if a message contains nothing to answer.
pub(super) fn is_blank(message: &Message) -> bool {
    let mut parts = message.parts().iter();
    parts.all(|part| {
        part.kind() == PartKind::Text && part.as_text().is_none_or(|text| text.trim().is_empty())
    })
}

fn system_prompt(turn: &Turn, options: &LlmOptions, delimiter: &PromptDelimiter) -> Option<String> {
    let messages = turn.history.iter().chain([&turn.message]);
    let mut parts = messages.flat_map(Message::parts);
    let instructions = parts
        .any(|part| part.kind() != PartKind::Text)
        .then(|| delimiter.instructions());
    let own = options.system.as_deref().map(str::trim);
    let own = own.filter(|text| !text.is_empty()).map(str::to_owned);
    match (own, instructions) {
        (Some(own), Some(rule)) => Some(format!("{own}\n\n{rule}")),
        (own, rule) => own.or(rule),
    }
}

/// Maps a message's role. Callers may send messages of any role, but only the operator sets the system prompt, and
/// only the agent speaks for itself.
fn chat_role(message: &Message) -> ChatRole {
    match message.is_agent_output() {
        true => ChatRole::Assistant,
        false => ChatRole::User,
    }
}

/// Converts a message to blocks: the text, prefixed with its author if known, and the attachments.
async fn message_blocks<'t>(
    message: &'t Message,
    attachments: &mut AttachmentBuilder<'_>,
) -> (Vec<ContentBlock<'t>>, Vec<SkippedFile>) {
    let text = message.text();
    let text = match author_name(message) {
        Some(name) if chat_role(message) == ChatRole::User && !text.trim().is_empty() => {
            format!("{name}: {text}")
        }
        _ => text,
    };
    let mut all = vec![ContentBlock::Text(text.into())];
    let (mut attached, skipped) = attachments.convert_all(message.parts()).await;
    all.append(&mut attached);
    all.extend(
        skipped
            .iter()
            .map(|one| ContentBlock::Text(one.placeholder().into())),
    );
    (all, skipped)
}

/// Returns the author's name, on one line.
fn author_name(message: &Message) -> Option<String> {
    let name: String = message.metadata()?.get(USER_FIELD)?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let name: String = name.chars().map(plain).take(MAX_NAME_CHARS).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn char_count(block: &ContentBlock<'_>) -> usize {
    match block {
        ContentBlock::Text(text) => text.chars().count(),
        // The cost of images and documents depends on the model; their number is limited.
        _ => 0,
    }
}
