//! Stream messages that create a task: the answer is delivered to the stream once, in order and complete.

use super::{HubFixture, LEASE, agent, caller, completed_outcome, start_turn};
use interzone_hub::{
    AgentError, Event, EventBody, HubError, LeasedEntry, NewStream, Route, STREAM_CHANNEL, Stream,
    Subject, TaskQuery, TurnOutcome, TurnOutput,
};
use interzone_protocol::vocab::{
    Artifact, ArtifactId, Message, Part, Role, StreamId, StreamState, TaskId,
};
use std::time::Duration;

on_both_engines! {
    stream_message_writes_chunk_and_task_together,
    agent_role_of_a_caller_is_no_answer,
    streamed_answer_sends_only_new_text_and_ends_once,
    answer_without_final_message_ends_with_empty_chunk,
    final_message_unlike_streamed_text_is_a_new_paragraph,
    repeated_delivery_appends_chunk_once,
    large_artifact_is_delivered_complete,
    agent_failure_ends_answer_with_its_code,
    canceled_task_ends_answer,
    input_required_question_is_delivered_once,
    interrupted_answer_is_restarted_with_a_notice,
    closed_stream_receives_no_answer,
    concurrent_answers_on_stream_carry_their_task_id,
    malformed_payload_is_rejected,
}

async fn start_stream(world: &HubFixture) -> Stream {
    let new = NewStream::default();
    world.hub.start_stream(&caller("alice"), new).await.unwrap()
}

async fn send_message(world: &HubFixture, id: &StreamId, text: &str) -> Stream {
    let message = Message::user_text(text);
    let hub = &world.hub;
    hub.send_stream_message(&caller("alice"), id, message, Route::default())
        .await
        .unwrap()
}

async fn lease_due_entries(world: &HubFixture) -> Vec<LeasedEntry> {
    let channels = [STREAM_CHANNEL.to_owned()];
    world.hub.lease_entries(&channels, LEASE, 10).await.unwrap()
}

/// Delivers outbox entries until none is due.
async fn deliver_all(world: &HubFixture) {
    loop {
        let entries = lease_due_entries(world).await;
        if entries.is_empty() {
            return;
        }
        for entry in entries {
            world.hub.deliver_to_stream(&entry).await.unwrap();
            assert!(world.hub.mark_delivered(&entry).await.unwrap());
        }
    }
}

async fn event_log(world: &HubFixture, id: &StreamId) -> Vec<Event> {
    let subject = Subject::Stream(id.clone());
    let events = world.hub.store().events(&subject, 0, 1_000).await.unwrap();
    for (expected, event) in (1..).zip(&events) {
        assert_eq!(event.seq, expected, "sequence numbers rise by one");
    }
    events
}

/// Returns the agent's chunks on the stream: text, and whether the chunk is the last of its answer.
async fn agent_chunks(world: &HubFixture, id: &StreamId) -> Vec<(String, bool)> {
    let mut chunks = Vec::new();
    for event in event_log(world, id).await {
        let EventBody::Chunk { from, chunk, last } = event.body else {
            continue;
        };
        let message = world.hub.restore(chunk).await.unwrap();
        if message.role() == Role::Agent {
            assert_eq!(from.as_str(), "agent:demo");
            assert_eq!(message.agent_id(), Some(&agent("demo")));
            assert!(message.task_id().is_some());
            assert!(message.timestamp().is_some());
            chunks.push((message.text(), last));
        }
    }
    chunks
}

fn expected_chunks(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
    let owned = |&(text, last): &(&str, bool)| (text.to_owned(), last);
    expected.iter().map(owned).collect()
}

async fn only_task_id(world: &HubFixture) -> TaskId {
    let query = TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 10,
    };
    let mut page = world.hub.list_tasks(&caller("alice"), query).await.unwrap();
    assert_eq!(page.tasks.len(), 1);
    page.tasks.remove(0).id
}

async fn stream_message_writes_chunk_and_task_together(world: HubFixture) {
    let stream = start_stream(&world).await;
    let after = send_message(&world, &stream.id, "hello").await;
    assert_eq!((after.seq, after.revision), (2, 2));
    let EventBody::Chunk { from, chunk, last } = &event_log(&world, &stream.id).await[1].body
    else {
        panic!("a chunk")
    };
    assert_eq!((from.as_str(), *last), ("alice", true));
    assert_eq!(chunk.inline().text(), "hello");
    let id = only_task_id(&world).await;
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.context_id.as_str(), stream.id.as_str());
    assert_eq!(task.agent, agent("demo"));
    let run = world.claim("n1").await;
    assert_eq!(start_turn(&run).await.message.text(), "hello");

    let send = async |who: &str, message, route: Route| {
        let hub = &world.hub;
        let id = &stream.id;
        hub.send_stream_message(&caller(who), id, message, route)
            .await
    };
    let unknown_agent = Route {
        assign_to: Some("unknown-agent".to_owned()),
        ..Route::default()
    };
    let unroutable = send("alice", Message::user_text("x"), unknown_agent).await;
    assert!(matches!(unroutable, Err(HubError::AgentUnavailable)));
    let eve = send("eve", Message::user_text("x"), Route::default()).await;
    assert!(matches!(eve, Err(HubError::StreamNotFound(_))));
    let hub = &world.hub;
    let alice = caller("alice");
    hub.set_stream_state(&alice, &stream.id, StreamState::Closed, None)
        .await
        .unwrap();
    let late = send("alice", Message::user_text("x"), Route::default()).await;
    assert!(matches!(late, Err(HubError::StreamNotActive { .. })));
    only_task_id(&world).await;
    assert_eq!(event_log(&world, &stream.id).await.len(), 3);
}

async fn agent_role_of_a_caller_is_no_answer(world: HubFixture) {
    let stream = start_stream(&world).await;
    let alice = caller("alice");
    let message = Message::agent_text("x");
    let sent = world
        .hub
        .send_stream_message(&alice, &stream.id, message, Route::default());
    sent.await.unwrap();
    let log = event_log(&world, &stream.id).await;
    let EventBody::Chunk { from, chunk, .. } = &log[1].body else {
        panic!("a chunk")
    };
    assert_eq!(
        (from.as_str(), chunk.inline().author()),
        ("alice", Some(from))
    );
    let run = world.claim("n1").await;
    assert!(!start_turn(&run).await.message.is_agent_output());
}

async fn streamed_answer_sends_only_new_text_and_ends_once(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "tell me").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    for piece in ["Once ", "upon ", "a "] {
        run.text(piece).await.unwrap();
        world.advance_clock(Duration::from_millis(60));
        run.flush_if_due().await.unwrap();
        run.status("thinking").await.unwrap();
    }
    deliver_all(&world).await;
    let growing = expected_chunks(&[("Once ", false), ("upon ", false), ("a ", false)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, growing);
    run.text("time").await.unwrap();
    run.complete(&turn, completed_outcome("Once upon a time there was"))
        .await
        .unwrap();
    deliver_all(&world).await;
    let complete = [
        ("Once ", false),
        ("upon ", false),
        ("a ", false),
        ("time", false),
        (" there was", true),
    ];
    assert_eq!(
        agent_chunks(&world, &stream.id).await,
        expected_chunks(&complete)
    );
    let thanks = Message::user_text("thanks");
    let hub = &world.hub;
    hub.post_chunk(&caller("alice"), &stream.id, thanks, true)
        .await
        .unwrap();
    assert!(
        world.has_no_claimable_work("n1").await,
        "post_chunk creates no task"
    );
}

async fn answer_without_final_message_ends_with_empty_chunk(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.text("all of it").await.unwrap();
    let nothing_more = TurnOutcome::Completed {
        message: None,
        direct: false,
    };
    run.complete(&turn, nothing_more).await.unwrap();
    deliver_all(&world).await;
    let expected = expected_chunks(&[("all of it", false), ("", true)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn final_message_unlike_streamed_text_is_a_new_paragraph(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.text("let me see").await.unwrap();
    run.complete(&turn, completed_outcome("It is four."))
        .await
        .unwrap();
    deliver_all(&world).await;
    let expected = expected_chunks(&[
        ("let me see", false),
        ("\n\n", false),
        ("It is four.", true),
    ]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn repeated_delivery_appends_chunk_once(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.text("one ").await.unwrap();
    run.complete(&turn, completed_outcome("one two"))
        .await
        .unwrap();
    loop {
        let entries = lease_due_entries(&world).await;
        let [entry] = &*entries else {
            assert!(entries.is_empty(), "of a group only the first entry is due");
            break;
        };
        world.hub.deliver_to_stream(entry).await.unwrap();
        // The deliverer died before marking it as delivered, and two others deliver it concurrently.
        let hubs = [world.hub.clone(), world.hub.clone()];
        let [a, b] = &hubs;
        let (a, b) = tokio::join!(a.deliver_to_stream(entry), b.deliver_to_stream(entry));
        a.unwrap();
        b.unwrap();
        assert!(world.hub.mark_delivered(entry).await.unwrap());
    }
    let expected = expected_chunks(&[("one ", false), ("two", true)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn large_artifact_is_delivered_complete(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let large = "x".repeat(100_000);
    let id = ArtifactId::new("report").unwrap();
    let artifact = Artifact::new(id, "report").with_part(Part::text(&large));
    run.artifact(artifact, false, true).await.unwrap();
    run.complete(&turn, completed_outcome("There it is"))
        .await
        .unwrap();
    deliver_all(&world).await;
    let expected = expected_chunks(&[(&large, false), ("There it is", true)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn agent_failure_ends_answer_with_its_code(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    run.text("I think").await.unwrap();
    let error = AgentError {
        code: "crashed",
        detail: "a secret".to_owned(),
    };
    run.fail(&error).await.unwrap();
    deliver_all(&world).await;
    let expected = [
        ("I think", false),
        ("\n\n", false),
        ("The agent could not finish this (crashed).", true),
    ];
    assert_eq!(
        agent_chunks(&world, &stream.id).await,
        expected_chunks(&expected)
    );
}

async fn canceled_task_ends_answer(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let id = only_task_id(&world).await;
    let hub = &world.hub;
    hub.cancel(&caller("alice"), &id, Some("never mind"))
        .await
        .unwrap();
    deliver_all(&world).await;
    let expected = expected_chunks(&[("The task was canceled.", true)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn input_required_question_is_delivered_once(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    let question = TurnOutcome::InputRequired(Message::agent_text("Which one?"));
    run.complete(&first, question).await.unwrap();
    let id = only_task_id(&world).await;
    let hub = &world.hub;
    hub.send_message(&caller("alice"), &id, Message::user_text("this one"))
        .await
        .unwrap();
    let run = world.claim("n1").await;
    let second = start_turn(&run).await;
    run.complete(&second, TurnOutcome::Failed(Message::agent_text("Gone.")))
        .await
        .unwrap();
    deliver_all(&world).await;
    let expected = expected_chunks(&[("Which one?", true), ("Gone.", true)]);
    assert_eq!(agent_chunks(&world, &stream.id).await, expected);
}

async fn interrupted_answer_is_restarted_with_a_notice(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let first = world.claim("n1").await;
    start_turn(&first).await;
    first.text("It is ab").await.unwrap();
    world.advance_clock(Duration::from_millis(60));
    first.flush_if_due().await.unwrap();
    drop(first);
    world.expire_leases().await;
    let second = world.claim("n2").await;
    let turn = start_turn(&second).await;
    second.text("About").await.unwrap();
    second
        .complete(&turn, completed_outcome("About four"))
        .await
        .unwrap();
    deliver_all(&world).await;
    let restart_notice = "\n\n(The agent was interrupted and starts again.)\n\n";
    let expected = [
        ("It is ab", false),
        (restart_notice, false),
        ("About", false),
        (" four", true),
    ];
    assert_eq!(
        agent_chunks(&world, &stream.id).await,
        expected_chunks(&expected)
    );
}

async fn closed_stream_receives_no_answer(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.complete(&turn, completed_outcome("too late"))
        .await
        .unwrap();
    let hub = &world.hub;
    let alice = caller("alice");
    hub.set_stream_state(&alice, &stream.id, StreamState::Closed, None)
        .await
        .unwrap();
    deliver_all(&world).await;
    assert_eq!(agent_chunks(&world, &stream.id).await, []);
    assert_eq!(event_log(&world, &stream.id).await.len(), 3);
}

async fn concurrent_answers_on_stream_carry_their_task_id(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "first").await;
    send_message(&world, &stream.id, "second").await;
    let (one, two) = (world.claim("n1").await, world.claim("n1").await);
    let (turn_one, turn_two) = (start_turn(&one).await, start_turn(&two).await);
    one.text("a").await.unwrap();
    two.text("1").await.unwrap();
    one.complete(&turn_one, completed_outcome("ab"))
        .await
        .unwrap();
    two.complete(&turn_two, completed_outcome("12"))
        .await
        .unwrap();
    deliver_all(&world).await;
    for (run, expected) in [(one, ["a", "b"]), (two, ["1", "2"])] {
        let mut texts = Vec::new();
        for event in event_log(&world, &stream.id).await {
            if let EventBody::Chunk { chunk, .. } = event.body
                && chunk.inline().task_id() == Some(&run.work_item().task_id)
            {
                texts.push(chunk.inline().text());
            }
        }
        assert_eq!(texts, expected);
    }
}

async fn malformed_payload_is_rejected(world: HubFixture) {
    let stream = start_stream(&world).await;
    send_message(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let leased = lease_due_entries(&world).await.remove(0);
    let mut entry = interzone_hub::OutboxEntry::clone(&leased);
    entry.payload = interzone_protocol::vocab::VerbatimJson::from_value("rubbish").unwrap();
    let refused = world.hub.deliver_to_stream(&entry).await;
    assert!(matches!(
        refused,
        Err(HubError::Invalid {
            field: "payload",
            ..
        })
    ));
}
