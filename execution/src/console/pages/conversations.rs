//! Conversations: list of Slack threads, and one thread with its questions, outcomes and feedback.

use super::{QueryParams, card, path_segment, query_string, table};
use crate::console::Console;
use crate::console::auth_middleware::SignedInUser;
use crate::console::format::{badge, format_number, relative_time, state_badge, timestamp};
use crate::console::layout::{self, PageError, hidden_content};
use crate::memory::MemoryAccount;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_edge::html::{Html, html};
use interzone_hub::{
    Conversation, ConversationQuery, EventBody, Feedback, Hub, Subject, ThreadKey, ThreadTask,
};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::sync::Arc;

const PAGE_PATH: &str = "/console/conversations";
const PAGE_SIZE: usize = 50;
/// Maximum number of characters of a question shown in a list.
const MAX_SHOWN_CHARS: usize = 300;

/// `GET /console/conversations`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let body = list(&console, &QueryParams::from_uri(&uri)).await;
    layout::page(&console, &visitor, PAGE_PATH, "Conversations", body)
}

/// `GET /console/conversations/thread`.
pub(in crate::console) async fn thread_page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    uri: Uri,
) -> Response {
    let body = thread(&console, &visitor, &QueryParams::from_uri(&uri)).await;
    layout::page(&console, &visitor, PAGE_PATH, "Conversation", body)
}

async fn list(console: &Console, params: &QueryParams) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let user = params.get("user");
    let query = ConversationQuery {
        user: user.map(str::to_owned),
        before: params.get("before").and_then(|text| text.parse().ok()),
        limit: PAGE_SIZE,
    };
    let page = hub.store().conversations(&query).await?;
    let mut out = Html::new();
    html!(out, "<h1>Conversations</h1><p class=\"lead\">Slack threads with questions to agents.</p>"
        "<form class=\"filters\" action=\"" (PAGE_PATH) "\"><label>Asked by <input name=\"user\" maxlength=\"128\" "
        "value=\"" (user.unwrap_or_default()) "\" placeholder=\"exact user id\" autocomplete=\"off\"></label>"
        "<button>Show</button></form><section class=\"card\">");
    let none = match (user, query.before) {
        (_, Some(_)) => "No more conversations.",
        (Some(_), None) => "No conversations with this user.",
        (None, None) => "No conversations yet.",
    };
    out.put(&conversation_table(&page.conversations, hub.now(), none));
    html!(out, "<nav class=\"turn\" aria-label=\"Pages\">");
    if query.before.is_some() {
        html!(out, "<a class=\"button\" href=\"" (PAGE_PATH) (query_string(&[("user", user)])) "\">Newest</a>");
    }
    if let Some(next) = page.next {
        let next = next.to_string();
        let next = query_string(&[("user", user), ("before", Some(&next))]);
        html!(out, "<a class=\"button\" rel=\"next\" href=\"" (PAGE_PATH) (next) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// Table of conversations.
pub(super) fn conversation_table(
    conversations: &[Conversation],
    now: Timestamp,
    empty_text: &'static str,
) -> Html {
    let heads = [
        "Last question",
        "Channel",
        "Thread",
        "Asked by",
        "Questions",
        "Feedback",
        "Asked",
    ];
    let rows = conversations.iter().map(|conversation| {
        let last = &conversation.last_task;
        let thread = &last.origin.thread;
        let mut out = Html::new();
        html!(out, "<tr><td data-label=\"Last question\">" [state_badge(last.state)]
            "</td><td data-label=\"Channel\"><code title=\"Workspace " (thread.team) "\">" (thread.channel)
            "</code></td><td data-label=\"Thread\"><a class=\"id\" href=\"" (thread_path(thread)) "\">"
            (thread.thread) "</a></td><td data-label=\"Asked by\">" [user_link(&last.origin.user)]
            "</td><td data-label=\"Questions\" class=\"n\">" (format_number(conversation.task_count)));
        if conversation.task_count >= Conversation::MAX_COUNTED_TASKS {
            html!(out, "+");
        }
        html!(out, "</td><td data-label=\"Feedback\">" [rating_badges(conversation.positive_feedback, conversation.negative_feedback)]
            "</td><td data-label=\"Asked\" class=\"n\">" [relative_time(last.created_at, now)] "</td></tr>");
        out
    });
    table(None, &heads, rows, empty_text)
}

async fn thread(
    console: &Console,
    visitor: &SignedInUser,
    params: &QueryParams,
) -> Result<Html, PageError> {
    let hub = &console.zone.hub;
    let part = |name| params.get(name).unwrap_or_default().to_owned();
    let thread = ThreadKey {
        team: part("team"),
        channel: part("channel"),
        thread: part("thread"),
    };
    let query = ConversationQuery {
        user: None,
        before: params.get("before").and_then(|text| text.parse().ok()),
        limit: PAGE_SIZE,
    };
    let questions = hub.store().thread_tasks(&thread, &query).await?;
    let (Some(newest), Some(oldest)) = (questions.first(), questions.last()) else {
        return Err(PageError::NotFound("conversation"));
    };
    let ids: Vec<TaskId> = questions.iter().map(|one| one.task_id.clone()).collect();
    let feedback = hub.store().feedback(&ids).await?;
    let mut out = Html::new();
    html!(out, "<div class=\"head\"><h1>Conversation " [state_badge(newest.state)] "</h1><p class=\"id\">"
        (thread.thread) "</p></div><dl class=\"facts\">");
    for (name, value) in [("Workspace", &thread.team), ("Channel", &thread.channel)] {
        html!(out, "<div><dt>" (name) "</dt><dd><code>" (if value.is_empty() { "–" } else { value })
            "</code></dd></div>");
    }
    html!(out, "<div><dt>Last asked</dt><dd>" [timestamp(newest.created_at)] "</dd></div><div><dt>Feedback</dt><dd>"
        [feedback_badges(&feedback)] "</dd></div></dl><section class=\"card\"><h2>Questions</h2><ol class=\"messages\">");
    for question in &questions {
        let memory = visitor.memory(console);
        out.put(&question_item(hub, visitor, question, &feedback, &memory).await?);
    }
    html!(out, "</ol><nav class=\"turn\" aria-label=\"Pages\">");
    if questions.len() == PAGE_SIZE {
        let before = oldest.number.to_string();
        html!(out, "<a class=\"button\" rel=\"next\" href=\"" (thread_path(&thread)) "&before=" (before)
            "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// Renders a question with its state and feedback.
async fn question_item(
    hub: &Hub,
    visitor: &SignedInUser,
    question: &ThreadTask,
    feedback: &[Feedback],
    memory: &MemoryAccount,
) -> Result<Html, PageError> {
    let mut out = Html::new();
    let id = &question.task_id;
    html!(out, "<li class=\"user\"><p class=\"by\">" [user_link(&question.origin.user)] [timestamp(question.created_at)]
        [state_badge(question.state)] "<span class=\"soft\">" (question.agent) "</span>"
        "<a class=\"id\" href=\"/console/tasks/" (path_segment(id.as_str())) "\">" (id) "</a></p>");
    if visitor.rights.content {
        let events = hub.store().events(&Subject::Task(id.clone()), 0, 1).await?;
        if let Some(EventBody::Created { message }) = events.first().map(|event| &event.body) {
            let message = hub.restore_within(message.clone(), Some(memory)).await?;
            let mut texts = message.parts().iter().filter_map(|part| part.as_text());
            let text: String = texts
                .next()
                .unwrap_or_default()
                .chars()
                .take(MAX_SHOWN_CHARS)
                .collect();
            html!(out, "<div class=\"content\" dir=\"auto\">" (text) "</div>");
        }
    } else {
        html!(out, "<p>" [hidden_content("question")] "</p>");
    }
    let task_feedback = feedback.iter().filter(|given| given.task_id == *id);
    html!(out, [feedback_list(visitor, task_feedback)] "</li>");
    Ok(out)
}

/// Renders feedback, one entry per line.
fn feedback_list<'f>(visitor: &SignedInUser, feedback: impl Iterator<Item = &'f Feedback>) -> Html {
    let mut out = Html::new();
    let mut has_items = false;
    for one in feedback {
        if !std::mem::replace(&mut has_items, true) {
            html!(out, "<ul class=\"feedback\">");
        }
        let (good, bad) = (u64::from(one.is_positive), u64::from(!one.is_positive));
        html!(out, "<li>" [rating_badges(good, bad)] " <span>" (one.author) "</span> " [timestamp(one.given_at)]);
        if let Some(comment) = &one.comment {
            if visitor.rights.content {
                html!(out, "<div class=\"content\" dir=\"auto\">" (comment) "</div>");
            } else {
                html!(out, " "[hidden_content("comment")]);
            }
        }
        html!(out, "</li>");
    }
    if has_items {
        html!(out, "</ul>");
    }
    out
}

/// Renders a task's Slack thread and feedback for the task page.
pub(super) async fn task_card(
    hub: &Hub,
    visitor: &SignedInUser,
    id: &TaskId,
) -> Result<Html, PageError> {
    let question = hub.store().thread_task(id).await?;
    let feedback = hub.store().feedback(std::slice::from_ref(id)).await?;
    let mut out = Html::new();
    if question.is_none() && feedback.is_empty() {
        return Ok(out);
    }
    let mut body = Html::new();
    if let Some(question) = question {
        let thread = &question.origin.thread;
        html!(body, "<p>Asked by " [user_link(&question.origin.user)] " in <code>" (thread.channel)
            "</code>, <a href=\"" (thread_path(thread)) "\">thread " (thread.thread) "</a>.</p>");
    }
    if feedback.is_empty() {
        html!(body, "<p class=\"soft\">No feedback yet.</p>");
    }
    html!(body, [feedback_list(visitor, feedback.iter())]);
    out.put(&card("Slack and feedback", &body));
    Ok(out)
}

fn user_link(user: &str) -> Html {
    let mut out = Html::new();
    if user.is_empty() {
        html!(out, "<span class=\"soft\">unknown user</span>");
    } else {
        let query = query_string(&[("user", Some(user))]);
        html!(out, "<a class=\"person\" href=\"" (PAGE_PATH) (query) "\">" (user) "</a>");
    }
    out
}

fn feedback_badges(feedback: &[Feedback]) -> Html {
    let count = |good| {
        feedback
            .iter()
            .filter(|given| given.is_positive == good)
            .count()
    };
    let count = |good| u64::try_from(count(good)).unwrap_or(u64::MAX);
    rating_badges(count(true), count(false))
}

/// Badges with the numbers of positive and negative ratings; a single one has no number.
fn rating_badges(positive: u64, negative: u64) -> Html {
    let mut out = Html::new();
    for (count, tone, label) in [
        (positive, "good", "useful"),
        (negative, "bad", "not useful"),
    ] {
        match count {
            0 => {}
            1 => html!(out, [badge(tone, label)] " "),
            _ => html!(out, [badge(tone, &format!("{} {label}", format_number(count)))] " "),
        }
    }
    if out.is_empty() {
        html!(out, "<span class=\"soft\">–</span>");
    }
    out
}

/// Path of a thread's page.
fn thread_path(thread: &ThreadKey) -> String {
    let query = query_string(&[
        ("team", Some(&thread.team)),
        ("channel", Some(&thread.channel)),
        ("thread", Some(&thread.thread)),
    ]);
    format!("{PAGE_PATH}/thread{query}")
}
