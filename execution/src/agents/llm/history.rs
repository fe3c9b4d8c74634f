//! A turn as a conversation: what was said before, what is asked now, and what is attached to it.

use super::LlmOptions;
use super::attachments::{Fence, Reading, Skipped, Unpacking};
use super::chat::{Block, Chat, Speaker};
use super::wire::Wire;
use interzone_hub::Turn;
use interzone_protocol::vocab::{Message, PartKind, Role};

/// The member of a message's metadata that says who is speaking.
const USER: &str = "user";

/// How much of a name is kept, in characters.
const LONGEST_NAME: usize = 80;

/// What the model is told when it would see itself speak first: providers want the other side to begin.
const BEFORE: &str = "(What was said before is left out.)";

/// The conversation, and which files of the last message the model does not get.
pub(super) async fn chat<'t>(
    turn: &'t Turn,
    options: &LlmOptions,
    wire: &dyn Wire,
    reading: Reading<'_>,
    fence: &Fence,
) -> (Chat<'t>, Vec<Skipped>) {
    let mut unpacking = Unpacking::new(wire, reading, fence);
    let (now, skipped) = blocks(&turn.message, &mut unpacking).await;
    // From the newest to the oldest, for it is the newest that must fit.
    let mut before = Vec::new();
    let mut room = options.history_chars;
    let mut fits = true;
    for message in turn.history.iter().rev() {
        let (said, _) = blocks(message, &mut unpacking).await;
        let size: usize = said.iter().map(size).sum();
        if size > room {
            fits = false;
            break;
        }
        room -= size;
        before.push((speaker(message), said));
    }
    let mut chat = Chat::default();
    let first = before.last().map(|(speaker, _)| *speaker);
    if !fits || first == Some(Speaker::Assistant) {
        chat.say(Speaker::User, vec![Block::Text(BEFORE.into())]);
    }
    for (speaker, said) in before.into_iter().rev() {
        chat.say(speaker, said);
    }
    chat.say(Speaker::User, now);
    chat.system = system(turn, options, fence);
    (chat, skipped)
}

/// Whether there is anything in a message that could be answered.
pub(super) fn is_blank(message: &Message) -> bool {
    let mut parts = message.parts().iter();
    parts.all(|part| {
        part.kind() == PartKind::Text && part.as_text().is_none_or(|text| text.trim().is_empty())
    })
}

fn system(turn: &Turn, options: &LlmOptions, fence: &Fence) -> Option<String> {
    let messages = turn.history.iter().chain([&turn.message]);
    let mut parts = messages.flat_map(Message::parts);
    let rule = parts
        .any(|part| part.kind() != PartKind::Text)
        .then(|| fence.rule());
    let own = options.system.as_deref().map(str::trim);
    let own = own.filter(|text| !text.is_empty()).map(str::to_owned);
    match (own, rule) {
        (Some(own), Some(rule)) => Some(format!("{own}\n\n{rule}")),
        (own, rule) => own.or(rule),
    }
}

/// Callers may speak for the setting too, but only the operator decides what the model is told first.
fn speaker(message: &Message) -> Speaker {
    match message.role() {
        Role::User | Role::System => Speaker::User,
        Role::Agent => Speaker::Assistant,
    }
}

/// The words of a message, who says them if that is known, and what is attached.
async fn blocks<'t>(
    message: &'t Message,
    unpacking: &mut Unpacking<'_>,
) -> (Vec<Block<'t>>, Vec<Skipped>) {
    let text = message.text();
    let text = match name(message) {
        Some(name) if speaker(message) == Speaker::User && !text.trim().is_empty() => {
            format!("{name}: {text}")
        }
        _ => text,
    };
    let mut all = vec![Block::Text(text.into())];
    let (mut attached, skipped) = unpacking.all(message.parts()).await;
    all.append(&mut attached);
    all.extend(skipped.iter().map(|one| Block::Text(one.told().into())));
    (all, skipped)
}

/// Who is speaking, on one line.
fn name(message: &Message) -> Option<String> {
    let name: String = message.metadata()?.get(USER)?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn size(block: &Block<'_>) -> usize {
    match block {
        Block::Text(text) => text.chars().count(),
        // What pictures and documents cost depends on the model; how many there are is limited.
        _ => 0,
    }
}
