//! Live updates of pages: every change once, and no content.

use super::{ConsoleFixture, ConsoleResponse};
use futures_util::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use std::pin::Pin;
use std::time::Duration;

/// Change-log position of a page.
fn mark(page: &str) -> &str {
    let mark = page.split("data-mark=\"").nth(1).unwrap();
    mark.split('"').next().unwrap()
}

/// Event stream of the console and the text received so far.
struct EventReader {
    data: Pin<Box<dyn futures_util::Stream<Item = bytes::Bytes> + Send>>,
    text: String,
}

impl EventReader {
    fn new(answer: ConsoleResponse) -> Self {
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

    /// Reads until this text was received.
    async fn read_until(&mut self, expected: &str) {
        let received = async {
            while !self.text.contains(expected) {
                let piece = self.data.next().await.expect("the stream continues");
                self.text += std::str::from_utf8(&piece).unwrap();
            }
        };
        let received = tokio::time::timeout(Duration::from_secs(20), received).await;
        assert!(received.is_ok(), "{expected}: {}", self.text);
    }

    /// Number of occurrences in the text received.
    fn count(&self, text: &str) -> usize {
        self.text.matches(text).count()
    }
}

#[tokio::test]
async fn change_between_page_and_stream_is_sent_once() {
    let place = ConsoleFixture::new().await;
    let running = tokio::spawn(place.console.clone().run(place.stop.clone()));
    let cookie = place.sign_in_by_link().await;
    for path in ["/console", "/console/tasks"] {
        let page = place.page(path, &cookie).await;
        // No stream is open yet.
        let between = place.create_task("bert", "the-secret").await;
        let news = format!("/console/events?from={}", mark(&page));
        let mut hearing = EventReader::new(place.get(&news, &cookie).await);
        let row = format!("\"id\":\"{}\"", between.id);
        hearing.read_until(&row).await;
        let live = place.create_task("bert", "the-secret").await;
        hearing.read_until(&format!("\"id\":\"{}\"", live.id)).await;
        assert_eq!(hearing.count(&row), 1, "{}", hearing.text);
        assert_eq!(hearing.count("event: behind"), 0, "{}", hearing.text);
        assert!(!hearing.text.contains("the-secret"), "{}", hearing.text);
        let others = place.sign_in_by_link().await;
        let mut others = EventReader::new(place.get("/console/events", &others).await);

        // A browser that reconnects continues at its last event.
        let last = hearing.text.rsplit("id: ").next().unwrap();
        let last = last.split('\n').next().unwrap().to_owned();
        drop(hearing);
        let while_away = place.create_task("bert", "hello").await;
        // The other stream has received it before the reconnect.
        let row = format!("\"id\":\"{}\"", while_away.id);
        others.read_until(&row).await;
        let news = format!("/console/events?from={last}");
        let mut hearing = EventReader::new(place.get(&news, &cookie).await);
        hearing.read_until(&row).await;
        assert_eq!(hearing.count(between.id.as_str()), 0, "{}", hearing.text);
    }
    place.stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn outdated_page_gets_behind_event() {
    let place = ConsoleFixture::new().await;
    let cookie = place.sign_in_by_link().await;
    let mut hearing = EventReader::new(place.get("/console/events?from=7", &cookie).await);
    hearing.read_until("id: 0\nevent: behind\n").await;
    let task = place.create_task("bert", "the-secret").await;
    let ids = format!("id={}&id=unknown&id=%00&other={}", task.id, task.id);
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
async fn rows_endpoint_returns_at_most_one_page() {
    let place = ConsoleFixture::new().await;
    let cookie = place.sign_in_by_link().await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(format!(
            "id={}",
            place.create_task("bert", "hello").await.id
        ));
    }
    let path = format!("/console/rows?{}", ids.join("&"));
    let text = place.page(&path, &cookie).await;
    assert_eq!(text.matches("\"id\":").count(), 50, "{text}");
}
