//! Streams: who may speak, who hears, and when it is over.

use super::{World, caller, operator};
use interzone_hub::{EventBody, HubError, Limits, NewStream, Retention, Seen, Subject};
use interzone_protocol::vocab::{Message, StreamState};
use std::time::Duration;

fn with(names: &[&str]) -> NewStream {
    let participants = names.iter().map(|&name| name.to_owned()).collect();
    NewStream {
        participants,
        metadata: None,
    }
}

#[tokio::test]
async fn participants_speak_and_hear_and_others_find_nothing() {
    let world = World::new().await;
    let (alice, bob, eve) = (caller("alice"), caller("bob"), caller("eve"));
    let stream = world
        .hub
        .start_stream(&alice, with(&["bob"]))
        .await
        .unwrap();
    let subject = Subject::Stream(stream.id.clone());
    let mut heard = world.hub.watch(&bob, subject.clone(), 1).await.unwrap();
    let say = |text: &str| Message::user_text(text);
    let hub = &world.hub;
    assert_eq!(
        hub.speak(&alice, &stream.id, say("hello"), true)
            .await
            .unwrap()
            .seq,
        2
    );
    assert_eq!(
        hub.speak(&bob, &stream.id, say("hi"), false)
            .await
            .unwrap()
            .seq,
        3
    );
    for (from, text) in [("alice", "hello"), ("bob", "hi")] {
        let Some(Seen::Event(event)) = heard.next().await.unwrap() else {
            panic!("an event")
        };
        let EventBody::Chunk {
            from: who, chunk, ..
        } = &event.body
        else {
            panic!("a chunk")
        };
        assert_eq!(
            (who.as_str(), chunk.without_large().text().as_str()),
            (from, text)
        );
    }
    for refused in [
        hub.stream(&eve, &stream.id).await.map(drop),
        hub.speak(&eve, &stream.id, say("x"), true).await.map(drop),
        hub.move_stream(&eve, &stream.id, StreamState::Closed, None)
            .await
            .map(drop),
        hub.watch(&eve, subject, 0).await.map(drop),
    ] {
        assert!(matches!(refused, Err(HubError::StreamNotFound(_))));
    }
}

#[tokio::test]
async fn a_closed_stream_takes_nothing_and_ends_those_who_watch() {
    let world = World::new().await;
    let alice = caller("alice");
    let hub = &world.hub;
    let id = hub.start_stream(&alice, with(&[])).await.unwrap().id;
    hub.move_stream(&alice, &id, StreamState::Paused, None)
        .await
        .unwrap();
    let paused = hub.speak(&alice, &id, Message::user_text("x"), true).await;
    assert!(matches!(
        paused,
        Err(HubError::StreamNotActive {
            state: StreamState::Paused,
            ..
        })
    ));
    hub.move_stream(&alice, &id, StreamState::Active, None)
        .await
        .unwrap();
    let mut watch = hub
        .watch(&alice, Subject::Stream(id.clone()), 3)
        .await
        .unwrap();
    let closed = hub
        .move_stream(&alice, &id, StreamState::Closed, Some("bye"))
        .await
        .unwrap();
    assert!(closed.closed_at.is_some());
    assert!(matches!(watch.next().await.unwrap(), Some(Seen::Event(event)) if event.seq == 4));
    assert!(watch.next().await.unwrap().is_none());
    for late in [
        hub.speak(&alice, &id, Message::user_text("x"), true).await,
        hub.move_stream(&alice, &id, StreamState::Closed, None)
            .await,
        hub.move_stream(&alice, &id, StreamState::Active, None)
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
async fn a_silent_stream_is_closed_by_the_sweep() {
    let limits = Limits {
        stream_idle: Duration::from_secs(60),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    let alice = caller("alice");
    let silent = world.hub.start_stream(&alice, with(&[])).await.unwrap().id;
    world.pass(Duration::from_secs(50));
    let busy = world.hub.start_stream(&alice, with(&[])).await.unwrap().id;
    world.pass(Duration::from_secs(20));
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
