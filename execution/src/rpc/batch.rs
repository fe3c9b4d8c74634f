//! A batch: its calls one after another, or together where they may overtake each other.
//!
//! A short call can have a long answer, and a batch has many. So answers are collected only until they
//! are as large as what may be sent, and how many calls run at once depends on how large theirs were.

use super::content::Writing;
use super::{Done, Due, Known, Origin, Outcome, dispatch, errors, put, rejected, serve_item};
use crate::zone::Zone;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use interzone_jsonrpc::{Item, Message};

/// How many calls are worked on together at first.
const FIRST: usize = 4;
/// How many at most.
const MOST: usize = 64;
/// How many that may wait for something to happen wait together.
const WAITING: usize = 32;
/// An answer that is larger is worked on alone.
const LARGE: usize = 64 * 1024;

/// Serves the calls of a batch, and puts what they answer in their order.
pub(super) async fn serve<'a>(
    zone: &Zone,
    known: Option<&Known>,
    items: Vec<Item<'a>>,
    origin: &Origin,
    answers: &mut Writing,
) {
    let mut items = items.into_iter().peekable();
    let mut at_once = FIRST;
    while items.peek().is_some() {
        if answers.size() > zone.limits.body {
            return items.for_each(|item| refuse(zone, item, answers));
        }
        // Calls that may overtake each other are worked on together, and their answers keep their
        // order; any other has the stage to itself.
        let most = match items.peek() {
            Some(item) if waits(item) => WAITING,
            _ => at_once,
        };
        let mut together = Vec::with_capacity(most);
        while together.len() < most
            && let Some(item) = items.next_if(may_overtake)
        {
            together.push(serve_item(zone, known, item, origin, None));
        }
        if together.is_empty() {
            together.extend(
                items
                    .next()
                    .map(|item| serve_item(zone, known, item, origin, None)),
            );
        }
        let before = answers.size();
        let count = together.len();
        let mut together = stream::iter(together).buffered(MOST);
        while let Some(done) = together.next().await {
            let Done {
                due,
                outcome,
                reserved,
                ..
            } = done;
            put(answers, due.as_ref(), &outcome, reserved);
            answers.settle();
        }
        at_once = match (answers.size() - before) / count.max(1) {
            0..=LARGE => at_once.saturating_mul(2).min(MOST),
            _ => 1,
        };
    }
}

/// Answers a call that was not made, because there is no room for what it would say.
fn refuse<'a>(zone: &Zone, item: Item<'a>, answers: &mut Writing) {
    let due = match item {
        Ok(Message::Request(request)) => Due::Request(request),
        Ok(Message::Notification(_) | Message::Response(_)) => return,
        Err(rejection) => {
            let answer = rejected::answer(&rejection);
            return answer.iter().for_each(|answer| answers.push(answer));
        }
    };
    zone.metrics.request("none", "too_large", 0.0);
    let error = errors::transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The answers of this batch are too large together; ask for fewer at once",
        "too_large",
    );
    put(answers, Some(&due), &Outcome::Failed(Box::new(error)), None);
}

fn waits(item: &Item<'_>) -> bool {
    matches!(item, Ok(Message::Request(request)) if dispatch::waits(request.method()))
}

fn may_overtake(item: &Item<'_>) -> bool {
    match item {
        Ok(Message::Request(request)) => dispatch::may_overtake(request.method()),
        Ok(Message::Notification(note)) => dispatch::may_overtake(note.method()),
        Ok(Message::Response(_)) | Err(_) => true,
    }
}
