//! Push subscriptions: who else is told, of what, and in which order.

use super::{World, caller, completed, turn};
use interzone_hub::{HubError, Limits, NewPush, NewStream, NewTask, Route};
use interzone_protocol::vocab::{Json, Message};

fn ask(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn push(channel: &str, events: &[&str]) -> NewPush {
    NewPush {
        id: None,
        channel: channel.to_owned(),
        events: events.iter().map(|&name| name.to_owned()).collect(),
        target: Json::of("https://example.com/hook").unwrap(),
    }
}

#[tokio::test]
async fn a_push_is_told_in_order_of_just_what_it_wants() {
    let world = World::new().await;
    let alice = caller("alice");
    let new = NewTask {
        pushes: vec![push("all", &[]), push("states", &["state"])],
        ..ask("x")
    };
    let id = world.hub.create_task(&alice, new).await.unwrap().id;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.end(&turn, completed("done")).await.unwrap();

    let mut told = Vec::new();
    for channel in ["all", "states"] {
        // Of a group only the first is due until it has arrived.
        while let [entry] = &*world
            .hub
            .take_out(&[channel.to_owned()], super::LEASE, 10)
            .await
            .unwrap()
        {
            let payload: serde_json::Value = entry.payload.decode().unwrap();
            let name = payload["event"].as_object().unwrap().keys().next().unwrap();
            told.push(format!(
                "{channel} {} {name} {}",
                payload["seq"],
                payload["state"].as_str().unwrap()
            ));
            assert!(world.hub.arrived(entry).await.unwrap());
        }
    }
    assert_eq!(
        told,
        [
            "all 1 created submitted",
            "all 2 state working",
            "all 3 message completed",
            "all 4 state completed",
            "states 2 state working",
            "states 4 state completed",
        ]
    );
    let pushes = world.hub.pushes(&alice, &id).await.unwrap();
    assert!(
        world
            .hub
            .remove_push(&alice, &id, &pushes[0].id)
            .await
            .unwrap()
    );
    assert!(
        !world
            .hub
            .remove_push(&alice, &id, &pushes[0].id)
            .await
            .unwrap()
    );
    assert_eq!(world.hub.pushes(&alice, &id).await.unwrap().len(), 1);
    let same = NewPush {
        id: Some(pushes[1].id.clone()),
        ..push("else", &[])
    };
    world.hub.add_push(&alice, &id, same).await.unwrap();
    let left = world.hub.pushes(&alice, &id).await.unwrap();
    assert_eq!((left.len(), left[0].channel.as_str()), (1, "else"));
    assert_eq!(world.hub.task(&alice, &id).await.unwrap().pushes, 1);
}

#[tokio::test]
async fn what_the_hub_needs_for_itself_is_nobodys() {
    let world = World::new().await;
    let (hub, alice) = (&world.hub, caller("alice"));
    let stream = NewStream {
        participants: vec!["demo".to_owned()],
        metadata: None,
    };
    let stream = hub.start_stream(&alice, stream).await.unwrap();
    hub.ask_on_stream(
        &alice,
        &stream.id,
        Message::user_text("x"),
        Route::default(),
    )
    .await
    .unwrap();
    let id = world.claim("node").await.item().task_id.clone();
    let own = hub.store().pushes(&id).await.unwrap();
    assert_eq!(own.len(), 1, "by which the answer gets to its stream");
    assert_eq!(hub.pushes(&alice, &id).await.unwrap(), []);
    assert!(!hub.remove_push(&alice, &id, &own[0].id).await.unwrap());
    let added = hub.add_push(&alice, &id, push("web", &[])).await.unwrap();
    assert_eq!(hub.pushes(&alice, &id).await.unwrap(), [added]);
}

#[tokio::test]
async fn a_task_has_so_many_and_no_more() {
    let world = World::with(Limits {
        pushes: 1,
        ..Limits::default()
    })
    .await;
    let alice = caller("alice");
    let id = world.hub.create_task(&alice, ask("x")).await.unwrap().id;
    world
        .hub
        .add_push(&alice, &id, push("web", &[]))
        .await
        .unwrap();
    let second = world.hub.add_push(&alice, &id, push("web", &[])).await;
    assert!(matches!(second, Err(HubError::TooMany { limit: 1, .. })));
    let two = NewTask {
        pushes: vec![push("a", &[]), push("b", &[])],
        ..ask("x")
    };
    let two = world.hub.create_task(&alice, two).await;
    assert!(matches!(two, Err(HubError::TooMany { limit: 1, .. })));
}
