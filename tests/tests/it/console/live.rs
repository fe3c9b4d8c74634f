//! What a page is told of what changes: all of it, each once, and nothing of what was said.

use super::{Answer, Place};
use futures_util::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use std::pin::Pin;
use std::time::Duration;

/// The moment that a page was made at.
fn mark(page: &str) -> &str {
    let mark = page.split("data-mark=\"").nth(1).unwrap();
    mark.split('"').next().unwrap()
}

/// A stream of news, and what was heard so far.
struct Hearing {
    data: Pin<Box<dyn futures_util::Stream<Item = bytes::Bytes> + Send>>,
    text: String,
}

impl Hearing {
    fn of(answer: Answer) -> Self {
        assert_eq!(answer.status, StatusCode::OK);
        let data = answer.body.into_data_stream();
        Self {
            data: Box::pin(data.map(|piece| {
                let Ok(piece) = piece;
                piece
            })),
            text: String::new(),
        }
    }

    /// Listens until this was said.
    async fn until(&mut self, word: &str) {
        let heard = async {
            while !self.text.contains(word) {
                let piece = self.data.next().await.expect("it goes on");
                self.text += std::str::from_utf8(&piece).unwrap();
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), heard).await;
        assert!(heard.is_ok(), "{word}: {}", self.text);
    }

    /// How often this was said.
    fn times(&self, word: &str) -> usize {
        self.text.matches(word).count()
    }
}

#[tokio::test]
async fn what_changes_between_a_page_and_its_stream_is_told_once() {
    let place = Place::new().await;
    let running = tokio::spawn(place.console.clone().run(place.stop.clone()));
    let cookie = place.by_link().await;
    for path in ["/console", "/console/tasks"] {
        let page = place.page(path, &cookie).await;
        // Nobody listens yet.
        let between = place.task("bert", "the-secret").await;
        let news = format!("/console/events?from={}", mark(&page));
        let mut hearing = Hearing::of(place.get(&news, &cookie).await);
        let row = format!("\"id\":\"{}\"", between.id);
        hearing.until(&row).await;
        let live = place.task("bert", "the-secret").await;
        hearing.until(&format!("\"id\":\"{}\"", live.id)).await;
        assert_eq!(hearing.times(&row), 1, "{}", hearing.text);
        assert_eq!(hearing.times("event: behind"), 0, "{}", hearing.text);
        assert!(!hearing.text.contains("the-secret"), "{}", hearing.text);
        let others = place.by_link().await;
        let mut others = Hearing::of(place.get("/console/events", &others).await);

        // A browser that comes back goes on where it was.
        let last = hearing.text.rsplit("id: ").next().unwrap();
        let last = last.split('\n').next().unwrap().to_owned();
        drop(hearing);
        let while_away = place.task("bert", "hello").await;
        // Others have heard of it when they are back.
        let row = format!("\"id\":\"{}\"", while_away.id);
        others.until(&row).await;
        let news = format!("/console/events?from={last}");
        let mut hearing = Hearing::of(place.get(&news, &cookie).await);
        hearing.until(&row).await;
        assert_eq!(hearing.times(between.id.as_str()), 0, "{}", hearing.text);
    }
    place.stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_page_that_is_too_old_is_told_so() {
    let place = Place::new().await;
    let cookie = place.by_link().await;
    let mut hearing = Hearing::of(place.get("/console/events?from=7", &cookie).await);
    hearing.until("id: 0\nevent: behind\n").await;
    let task = place.task("bert", "the-secret").await;
    let ids = format!("id={}&id=nobody&id=%00&other={}", task.id, task.id);
    let answer = place.get(&format!("/console/rows?{ids}"), &cookie).await;
    assert_eq!(answer.headers[CONTENT_TYPE], "application/json");
    let text = answer.text().await;
    assert_eq!(text.matches(task.id.as_str()).count(), 1, "{text}");
    assert!(text.contains("\"state\":\"Submitted\""), "{text}");
    assert!(!text.contains("the-secret"), "{text}");
    let stranger = place.get(&format!("/console/rows?{ids}"), "").await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn no_more_rows_are_read_than_a_page_has() {
    let place = Place::new().await;
    let cookie = place.by_link().await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(format!("id={}", place.task("bert", "hello").await.id));
    }
    let path = format!("/console/rows?{}", ids.join("&"));
    let text = place.page(&path, &cookie).await;
    assert_eq!(text.matches("\"id\":").count(), 50, "{text}");
}
