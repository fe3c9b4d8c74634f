//! Streams: participants, chunks, states and the idle timeout.

use super::{HubFixture, caller, operator};
use interzone_hub::{EventBody, HubError, Limits, NewStream, Retention, Subject, WatchItem};
use interzone_protocol::vocab::{Message, StreamState};
use std::time::Duration;

fn new_stream(names: &[&str]) -> NewStream {
    let participants = names.iter().map(|&name| name.to_owned()).collect();
    NewStream {
        participants,
        metadata: None,
    }
}

#[tokio::test]
async fn only_participants_can_post_and_watch() {
    let world = HubFixture::new().await;
    let (alice, bob, eve) = (caller("alice"), caller("bob"), caller("eve"));
    let stream = world
        .hub
        .start_stream(&alice, new_stream(&["bob"]))
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let mut watch = world.hub.watch(&bob, subject.clone(), 1).await.unwrap();
    let message = |text: &str| Message::user_text(text);
    let hub = &world.hub;
    assert_eq!(
        hub.post_chunk(&alice, &stream.id, message("hello"), true)
            .await
            .unwrap()
            .seq,
        2
    );
    assert_eq!(
        hub.post_chunk(&bob, &stream.id, message("hi"), false)
            .await
            .unwrap()
            .seq,
        3
    );
    for (from, text) in [("alice", "hello"), ("bob", "hi")] {
        let Some(WatchItem::Event(event)) = watch.next().await.unwrap() else {
            panic!("an event")
        };
        let EventBody::Chunk {
            from: who, chunk, ..
        } = &event.body
        else {
            panic!("a chunk")
        };
        assert_eq!((who.as_str(), chunk.inline().text().as_str()), (from, text));
    }
    for refused in [
        hub.stream(&eve, &stream.id).await.map(drop),
        hub.post_chunk(&eve, &stream.id, message("x"), true)
            .await
            .map(drop),
        hub.set_stream_state(&eve, &stream.id, StreamState::Closed, None)
            .await
            .map(drop),
        hub.watch(&eve, subject, 0).await.map(drop),
    ] {
        assert!(matches!(refused, Err(HubError::StreamNotFound(_))));
    }
}

#[tokio::test]
async fn closed_stream_rejects_chunks_and_ends_watches() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let hub = &world.hub;
    let id = hub.start_stream(&alice, new_stream(&[])).await.unwrap().id;
    hub.set_stream_state(&alice, &id, StreamState::Paused, None)
        .await
        .unwrap();
    let paused = hub
        .post_chunk(&alice, &id, Message::user_text("x"), true)
        .await;
    assert!(matches!(
        paused,
        Err(HubError::StreamNotActive {
            state: StreamState::Paused,
            ..
        })
    ));
    hub.set_stream_state(&alice, &id, StreamState::Active, None)
        .await
        .unwrap();
    let mut watch = hub
        .watch(&alice, Subject::Stream(id.clone()), 3)
        .await
        .unwrap();
    let closed = hub
        .set_stream_state(&alice, &id, StreamState::Closed, Some("bye"))
        .await
        .unwrap();
    assert!(closed.closed_at.is_some());
    assert!(matches!(watch.next().await.unwrap(), Some(WatchItem::Event(event)) if event.seq == 4));
    assert!(watch.next().await.unwrap().is_none());
    for late in [
        hub.post_chunk(&alice, &id, Message::user_text("x"), true)
            .await,
        hub.set_stream_state(&alice, &id, StreamState::Closed, None)
            .await,
        hub.set_stream_state(&alice, &id, StreamState::Active, None)
            .await,
    ] {
        assert!(matches!(
            late,
            Err(HubError::StreamNotActive {
                state: StreamState::Closed,
                ..
            })
        ));
    }
}

#[tokio::test]
async fn sweep_closes_idle_stream() {
    let limits = Limits {
        stream_idle_timeout: Duration::from_secs(60),
        ..Limits::default()
    };
    let world = HubFixture::with_limits(limits).await;
    let alice = caller("alice");
    let silent = world
        .hub
        .start_stream(&alice, new_stream(&[]))
        .await
        .unwrap()
        .id;
    world.advance_clock(Duration::from_secs(50));
    let busy = world
        .hub
        .start_stream(&alice, new_stream(&[]))
        .await
        .unwrap()
        .id;
    world.advance_clock(Duration::from_secs(20));
    world
        .hub
        .sweep(&operator(), &Retention::default())
        .await
        .unwrap();
    let state = async |id| world.hub.stream(&alice, id).await.unwrap().state;
    assert_eq!(state(&silent).await, StreamState::Closed);
    assert_eq!(state(&busy).await, StreamState::Active);
    assert!(matches!(
        world.hub.sweep(&alice, &Retention::default()).await,
        Err(HubError::NotAllowed)
    ));
}
