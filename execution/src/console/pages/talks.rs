//! Conversations in a workspace: the threads in which something was asked, and one of them with each
//! question, what became of it and what people think of it.

use super::{Asked, asking, card, segment, table};
use crate::console::Console;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::{self, Problem, hidden};
use crate::console::words::{age, badge, moment, number, state_badge};
use crate::memory::MemoryAccount;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use interzone_hub::{Conversation, EventBody, Feedback, Hub, Question, Subject, TalkQuery, Thread};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::sync::Arc;

const ROOM: &str = "/console/conversations";
const ROWS: usize = 50;
/// How many characters of a question are shown in a list.
const SHOWN: usize = 300;

/// `GET /console/conversations`.
pub(in crate::console) async fn page(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let body = list(&console, &Asked::of(&uri)).await;
    layout::page(&console, &visitor, ROOM, "Conversations", body)
}

/// `GET /console/conversations/thread`.
pub(in crate::console) async fn one(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let body = thread(&console, &visitor, &Asked::of(&uri)).await;
    layout::page(&console, &visitor, ROOM, "Conversation", body)
}

async fn list(console: &Console, asked: &Asked) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let user = asked.get("user");
    let query = TalkQuery {
        user: user.map(str::to_owned),
        before: asked.get("before").and_then(|text| text.parse().ok()),
        limit: ROWS,
    };
    let talks = hub.store().conversations(&query).await?;
    let mut out = Html::new();
    html!(out, "<h1>Conversations</h1><p class=\"lead\">Threads of Slack in which agents were asked.</p>"
        "<form class=\"filters\" action=\"" (ROOM) "\"><label>Asked by <input name=\"user\" maxlength=\"128\" "
        "value=\"" (user.unwrap_or_default()) "\" placeholder=\"exact user id\" autocomplete=\"off\"></label>"
        "<button>Show</button></form><section class=\"card\">");
    let none = match (user, query.before) {
        (_, Some(_)) => "None among these questions.",
        (Some(_), None) => "Nobody of this name has asked.",
        (None, None) => "Nobody has asked in Slack yet.",
    };
    out.put(&talk_table(&talks.found, hub.now(), none));
    html!(out, "<nav class=\"turn\" aria-label=\"Pages\">");
    if query.before.is_some() {
        html!(out, "<a class=\"button\" href=\"" (ROOM) (asking(&[("user", user)])) "\">Newest</a>");
    }
    if let Some(next) = talks.next {
        let next = next.to_string();
        let next = asking(&[("user", user), ("before", Some(&next))]);
        html!(out, "<a class=\"button\" rel=\"next\" href=\"" (ROOM) (next) "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// A list of conversations.
pub(super) fn talk_table(found: &[Conversation], now: Timestamp, none: &'static str) -> Html {
    let heads = [
        "Last question",
        "Channel",
        "Thread",
        "Asked by",
        "Questions",
        "Feedback",
        "Asked",
    ];
    let rows = found.iter().map(|talk| {
        let last = &talk.last;
        let thread = &last.asking.thread;
        let mut out = Html::new();
        html!(out, "<tr><td data-label=\"Last question\">" [state_badge(last.state)]
            "</td><td data-label=\"Channel\"><code title=\"Workspace " (thread.team) "\">" (thread.channel)
            "</code></td><td data-label=\"Thread\"><a class=\"id\" href=\"" (address(thread)) "\">"
            (thread.thread) "</a></td><td data-label=\"Asked by\">" [who(&last.asking.user)]
            "</td><td data-label=\"Questions\" class=\"n\">" (number(talk.questions)));
        if talk.questions >= Conversation::COUNTED {
            html!(out, "+");
        }
        html!(out, "</td><td data-label=\"Feedback\">" [thumbs(talk.good, talk.bad)]
            "</td><td data-label=\"Asked\" class=\"n\">" [age(last.at, now)] "</td></tr>");
        out
    });
    table(None, &heads, rows, none)
}

async fn thread(console: &Console, visitor: &Visitor, asked: &Asked) -> Result<Html, Problem> {
    let hub = &console.zone.hub;
    let part = |name| asked.get(name).unwrap_or_default().to_owned();
    let thread = Thread {
        team: part("team"),
        channel: part("channel"),
        thread: part("thread"),
    };
    let query = TalkQuery {
        user: None,
        before: asked.get("before").and_then(|text| text.parse().ok()),
        limit: ROWS,
    };
    let questions = hub.store().questions(&thread, &query).await?;
    let (Some(newest), Some(oldest)) = (questions.first(), questions.last()) else {
        return Err(Problem::Nothing("conversation"));
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
    html!(out, "<div><dt>Last asked</dt><dd>" [moment(newest.at)] "</dd></div><div><dt>Feedback</dt><dd>"
        [thumbs_of(&feedback)] "</dd></div></dl><section class=\"card\"><h2>Questions</h2><ol class=\"talk\">");
    for question in &questions {
        let memory = visitor.memory(console);
        out.put(&told(hub, visitor, question, &feedback, &memory).await?);
    }
    html!(out, "</ol><nav class=\"turn\" aria-label=\"Pages\">");
    if questions.len() == ROWS {
        let before = oldest.number.to_string();
        html!(out, "<a class=\"button\" rel=\"next\" href=\"" (address(&thread)) "&before=" (before)
            "\">Older</a>");
    }
    html!(out, "</nav></section>");
    Ok(out)
}

/// A question, what became of it, and what people think of that.
async fn told(
    hub: &Hub,
    visitor: &Visitor,
    question: &Question,
    feedback: &[Feedback],
    memory: &MemoryAccount,
) -> Result<Html, Problem> {
    let mut out = Html::new();
    let id = &question.task_id;
    html!(out, "<li class=\"user\"><p class=\"by\">" [who(&question.asking.user)] [moment(question.at)]
        [state_badge(question.state)] "<span class=\"soft\">" (question.agent) "</span>"
        "<a class=\"id\" href=\"/console/tasks/" (segment(id.as_str())) "\">" (id) "</a></p>");
    if visitor.rights.content {
        let begun = hub.store().events(&Subject::Task(id.clone()), 0, 1).await?;
        if let Some(EventBody::Created { message }) = begun.first().map(|event| &event.body) {
            let message = hub.unpack_one_within(message.clone(), Some(memory)).await?;
            let mut texts = message.parts().iter().filter_map(|part| part.as_text());
            let text: String = texts
                .next()
                .unwrap_or_default()
                .chars()
                .take(SHOWN)
                .collect();
            html!(out, "<div class=\"said\" dir=\"auto\">" (text) "</div>");
        }
    } else {
        html!(out, "<p>" [hidden("question")] "</p>");
    }
    let given = feedback.iter().filter(|given| given.task_id == *id);
    html!(out, [opinions(visitor, given)] "</li>");
    Ok(out)
}

/// What people think, one to a line.
fn opinions<'f>(visitor: &Visitor, given: impl Iterator<Item = &'f Feedback>) -> Html {
    let mut out = Html::new();
    let mut any = false;
    for one in given {
        if !std::mem::replace(&mut any, true) {
            html!(out, "<ul class=\"opinions\">");
        }
        let (good, bad) = (u64::from(one.good), u64::from(!one.good));
        html!(out, "<li>" [thumbs(good, bad)] " <span>" (one.who) "</span> " [moment(one.at)]);
        if let Some(comment) = &one.comment {
            if visitor.rights.content {
                html!(out, "<div class=\"said\" dir=\"auto\">" (comment) "</div>");
            } else {
                html!(out, " "[hidden("comment")]);
            }
        }
        html!(out, "</li>");
    }
    if any {
        html!(out, "</ul>");
    }
    out
}

/// What a task's page says of the talk that it is part of.
pub(super) async fn of_task(hub: &Hub, visitor: &Visitor, id: &TaskId) -> Result<Html, Problem> {
    let question = hub.store().question(id).await?;
    let feedback = hub.store().feedback(std::slice::from_ref(id)).await?;
    let mut out = Html::new();
    if question.is_none() && feedback.is_empty() {
        return Ok(out);
    }
    let mut body = Html::new();
    if let Some(question) = question {
        let thread = &question.asking.thread;
        html!(body, "<p>Asked by " [who(&question.asking.user)] " in <code>" (thread.channel)
            "</code>, <a href=\"" (address(thread)) "\">thread " (thread.thread) "</a>.</p>");
    }
    if feedback.is_empty() {
        html!(
            body,
            "<p class=\"soft\">Nobody has said what they think of the answer.</p>"
        );
    }
    html!(body, [opinions(visitor, feedback.iter())]);
    out.put(&card("Slack and feedback", &body));
    Ok(out)
}

fn who(user: &str) -> Html {
    let mut out = Html::new();
    if user.is_empty() {
        html!(out, "<span class=\"soft\">somebody</span>");
    } else {
        let theirs = asking(&[("user", Some(user))]);
        html!(out, "<a class=\"person\" href=\"" (ROOM) (theirs) "\">" (user) "</a>");
    }
    out
}

fn thumbs_of(feedback: &[Feedback]) -> Html {
    let count = |good| feedback.iter().filter(|given| given.good == good).count();
    let count = |good| u64::try_from(count(good)).unwrap_or(u64::MAX);
    thumbs(count(true), count(false))
}

/// How many say that it was of use, and how many that it was not. One alone is not counted.
fn thumbs(good: u64, bad: u64) -> Html {
    let mut out = Html::new();
    for (count, tone, word) in [(good, "good", "useful"), (bad, "bad", "not useful")] {
        match count {
            0 => {}
            1 => html!(out, [badge(tone, word)] " "),
            _ => html!(out, [badge(tone, &format!("{} {word}", number(count)))] " "),
        }
    }
    if out.is_empty() {
        html!(out, "<span class=\"soft\">–</span>");
    }
    out
}

/// Where a thread's page is.
fn address(thread: &Thread) -> String {
    let query = asking(&[
        ("team", Some(&thread.team)),
        ("channel", Some(&thread.channel)),
        ("thread", Some(&thread.thread)),
    ]);
    format!("{ROOM}/thread{query}")
}
