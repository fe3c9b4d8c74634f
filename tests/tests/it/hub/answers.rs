//! A message on a stream reaches an agent, and its answer comes back: once, in order, and whole.

use super::{LEASE, World, agent, caller, completed, turn};
use interzone_hub::{
    AgentError, Event, EventBody, HeldEntry, HubError, NewStream, Outcome, Output, Route,
    STREAM_CHANNEL, Stream, Subject, TaskQuery,
};
use interzone_protocol::vocab::{
    Artifact, ArtifactId, Message, Part, Role, StreamId, StreamState, TaskId,
};
use std::time::Duration;

on_both_engines! {
    the_chunk_and_the_task_are_one,
    an_answer_grows_and_ends_once,
    an_answer_without_a_last_message_ends_all_the_same,
    words_that_do_not_go_on_from_the_pieces_stand_apart,
    what_is_carried_twice_is_said_once,
    artifacts_come_whole_however_large,
    an_agent_that_breaks_says_so,
    a_task_that_is_called_off_ends_the_answer,
    a_question_of_the_agent_is_said_once,
    an_answer_that_was_broken_off_is_begun_anew,
    a_stream_that_is_over_takes_no_answer,
    answers_of_one_stream_stay_apart_by_their_tasks,
    rubbish_is_refused,
}

async fn begin(world: &World) -> Stream {
    let new = NewStream::default();
    world.hub.start_stream(&caller("alice"), new).await.unwrap()
}

async fn ask(world: &World, id: &StreamId, text: &str) -> Stream {
    let message = Message::user_text(text);
    let hub = &world.hub;
    hub.ask_on_stream(&caller("alice"), id, message, Route::default())
        .await
        .unwrap()
}

async fn due(world: &World) -> Vec<HeldEntry> {
    let channels = [STREAM_CHANNEL.to_owned()];
    world.hub.take_out(&channels, LEASE, 10).await.unwrap()
}

/// Carries everything that there is to carry.
async fn carry(world: &World) {
    loop {
        let entries = due(world).await;
        if entries.is_empty() {
            return;
        }
        for entry in entries {
            world.hub.carry_to_stream(&entry).await.unwrap();
            assert!(world.hub.arrived(&entry).await.unwrap());
        }
    }
}

async fn log(world: &World, id: &StreamId) -> Vec<Event> {
    let subject = Subject::Stream(id.clone());
    let events = world.hub.store().events(&subject, 0, 1_000).await.unwrap();
    for (expected, event) in (1..).zip(&events) {
        assert_eq!(event.seq, expected, "numbers rise by one");
    }
    events
}

/// What the agent said on the stream: the words, and whether that completed it.
async fn said(world: &World, id: &StreamId) -> Vec<(String, bool)> {
    let mut said = Vec::new();
    for event in log(world, id).await {
        let EventBody::Chunk { from, chunk, last } = event.body else {
            continue;
        };
        let message = world.hub.unpack_one(chunk).await.unwrap();
        if message.role() == Role::Agent {
            assert_eq!(from.as_str(), "agent:demo");
            assert_eq!(message.agent_id(), Some(&agent("demo")));
            assert!(message.task_id().is_some());
            assert!(message.timestamp().is_some());
            said.push((message.text(), last));
        }
    }
    said
}

fn pieces(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
    let owned = |&(text, last): &(&str, bool)| (text.to_owned(), last);
    expected.iter().map(owned).collect()
}

async fn the_task(world: &World) -> TaskId {
    let query = TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        updated_since: None,
        after: None,
        limit: 10,
    };
    let mut page = world.hub.list_tasks(&caller("alice"), query).await.unwrap();
    assert_eq!(page.tasks.len(), 1);
    page.tasks.remove(0).id
}

async fn the_chunk_and_the_task_are_one(world: World) {
    let stream = begin(&world).await;
    let after = ask(&world, &stream.id, "hello").await;
    assert_eq!((after.seq, after.revision), (2, 2));
    let EventBody::Chunk { from, chunk, last } = &log(&world, &stream.id).await[1].body else {
        panic!("a chunk")
    };
    assert_eq!((from.as_str(), *last), ("alice", true));
    assert_eq!(chunk.without_large().text(), "hello");
    let id = the_task(&world).await;
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.context_id.as_str(), stream.id.as_str());
    assert_eq!(task.agent, agent("demo"));
    let run = world.claim("n1").await;
    assert_eq!(turn(&run).await.message.text(), "hello");

    let refuse = async |who: &str, message, route: Route| {
        let hub = &world.hub;
        let id = &stream.id;
        hub.ask_on_stream(&caller(who), id, message, route).await
    };
    let forged = refuse("alice", Message::agent_text("x"), Route::default()).await;
    assert!(matches!(
        forged,
        Err(HubError::Invalid { field: "role", .. })
    ));
    let nobody = Route {
        assign_to: Some("nobody".to_owned()),
        ..Route::default()
    };
    let nobody = refuse("alice", Message::user_text("x"), nobody).await;
    assert!(matches!(nobody, Err(HubError::AgentUnavailable)));
    let eve = refuse("eve", Message::user_text("x"), Route::default()).await;
    assert!(matches!(eve, Err(HubError::StreamNotFound(_))));
    let hub = &world.hub;
    let alice = caller("alice");
    hub.move_stream(&alice, &stream.id, StreamState::Closed, None)
        .await
        .unwrap();
    let late = refuse("alice", Message::user_text("x"), Route::default()).await;
    assert!(matches!(late, Err(HubError::StreamNotActive { .. })));
    the_task(&world).await;
    assert_eq!(log(&world, &stream.id).await.len(), 3);
}

async fn an_answer_grows_and_ends_once(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "tell me").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    for piece in ["Once ", "upon ", "a "] {
        run.text(piece).await.unwrap();
        world.pass(Duration::from_millis(60));
        run.tick().await.unwrap();
        run.status("thinking").await.unwrap();
    }
    carry(&world).await;
    let growing = pieces(&[("Once ", false), ("upon ", false), ("a ", false)]);
    assert_eq!(said(&world, &stream.id).await, growing);
    run.text("time").await.unwrap();
    run.end(&turn, completed("Once upon a time there was"))
        .await
        .unwrap();
    carry(&world).await;
    let whole = [
        ("Once ", false),
        ("upon ", false),
        ("a ", false),
        ("time", false),
        (" there was", true),
    ];
    assert_eq!(said(&world, &stream.id).await, pieces(&whole));
    let thanks = Message::user_text("thanks");
    let hub = &world.hub;
    hub.speak(&caller("alice"), &stream.id, thanks, true)
        .await
        .unwrap();
    assert!(world.claims_nothing("n1").await, "speaking asks nobody");
}

async fn an_answer_without_a_last_message_ends_all_the_same(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.text("all of it").await.unwrap();
    let nothing_more = Outcome::Completed {
        message: None,
        direct: false,
    };
    run.end(&turn, nothing_more).await.unwrap();
    carry(&world).await;
    let expected = pieces(&[("all of it", false), ("", true)]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn words_that_do_not_go_on_from_the_pieces_stand_apart(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.text("let me see").await.unwrap();
    run.end(&turn, completed("It is four.")).await.unwrap();
    carry(&world).await;
    let expected = pieces(&[
        ("let me see", false),
        ("\n\n", false),
        ("It is four.", true),
    ]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn what_is_carried_twice_is_said_once(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.text("one ").await.unwrap();
    run.end(&turn, completed("one two")).await.unwrap();
    loop {
        let entries = due(&world).await;
        let [entry] = &*entries else {
            assert!(entries.is_empty(), "of a group only the first is due");
            break;
        };
        world.hub.carry_to_stream(entry).await.unwrap();
        // Whoever carried it died before saying so, and two take it up at once.
        let again = [world.hub.clone(), world.hub.clone()];
        let [a, b] = &again;
        let (a, b) = tokio::join!(a.carry_to_stream(entry), b.carry_to_stream(entry));
        a.unwrap();
        b.unwrap();
        assert!(world.hub.arrived(entry).await.unwrap());
    }
    let expected = pieces(&[("one ", false), ("two", true)]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn artifacts_come_whole_however_large(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let large = "x".repeat(100_000);
    let id = ArtifactId::new("report").unwrap();
    let artifact = Artifact::new(id, "report").with_part(Part::text(&large));
    run.artifact(artifact, false, true).await.unwrap();
    run.end(&turn, completed("There it is")).await.unwrap();
    carry(&world).await;
    let expected = pieces(&[(&large, false), ("There it is", true)]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn an_agent_that_breaks_says_so(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    turn(&run).await;
    run.text("I think").await.unwrap();
    let error = AgentError {
        code: "crashed",
        detail: "a secret".to_owned(),
    };
    run.broke(&error).await.unwrap();
    carry(&world).await;
    let expected = [
        ("I think", false),
        ("\n\n", false),
        ("The agent could not finish this (crashed).", true),
    ];
    assert_eq!(said(&world, &stream.id).await, pieces(&expected));
}

async fn a_task_that_is_called_off_ends_the_answer(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let id = the_task(&world).await;
    let hub = &world.hub;
    hub.cancel(&caller("alice"), &id, Some("never mind"))
        .await
        .unwrap();
    carry(&world).await;
    let expected = pieces(&[("This was called off.", true)]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn a_question_of_the_agent_is_said_once(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    let question = Outcome::InputRequired(Message::agent_text("Which one?"));
    run.end(&first, question).await.unwrap();
    let id = the_task(&world).await;
    let hub = &world.hub;
    hub.send(&caller("alice"), &id, Message::user_text("this one"))
        .await
        .unwrap();
    let run = world.claim("n1").await;
    let second = turn(&run).await;
    run.end(&second, Outcome::Failed(Message::agent_text("Gone.")))
        .await
        .unwrap();
    carry(&world).await;
    let expected = pieces(&[("Which one?", true), ("Gone.", true)]);
    assert_eq!(said(&world, &stream.id).await, expected);
}

async fn an_answer_that_was_broken_off_is_begun_anew(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let first = world.claim("n1").await;
    turn(&first).await;
    first.text("It is ab").await.unwrap();
    world.pass(Duration::from_millis(60));
    first.tick().await.unwrap();
    drop(first);
    world.end_leases().await;
    let second = world.claim("n2").await;
    let turn = turn(&second).await;
    second.text("About").await.unwrap();
    second.end(&turn, completed("About four")).await.unwrap();
    carry(&world).await;
    let anew = "\n\n(The agent was interrupted and begins again.)\n\n";
    let expected = [
        ("It is ab", false),
        (anew, false),
        ("About", false),
        (" four", true),
    ];
    assert_eq!(said(&world, &stream.id).await, pieces(&expected));
}

async fn a_stream_that_is_over_takes_no_answer(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.end(&turn, completed("too late")).await.unwrap();
    let hub = &world.hub;
    let alice = caller("alice");
    hub.move_stream(&alice, &stream.id, StreamState::Closed, None)
        .await
        .unwrap();
    carry(&world).await;
    assert_eq!(said(&world, &stream.id).await, []);
    assert_eq!(log(&world, &stream.id).await.len(), 3);
}

async fn answers_of_one_stream_stay_apart_by_their_tasks(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "first").await;
    ask(&world, &stream.id, "second").await;
    let (one, two) = (world.claim("n1").await, world.claim("n1").await);
    let (turn_one, turn_two) = (turn(&one).await, turn(&two).await);
    one.text("a").await.unwrap();
    two.text("1").await.unwrap();
    one.end(&turn_one, completed("ab")).await.unwrap();
    two.end(&turn_two, completed("12")).await.unwrap();
    carry(&world).await;
    for (run, expected) in [(one, ["a", "b"]), (two, ["1", "2"])] {
        let mut heard = Vec::new();
        for event in log(&world, &stream.id).await {
            if let EventBody::Chunk { chunk, .. } = event.body
                && chunk.without_large().task_id() == Some(&run.item().task_id)
            {
                heard.push(chunk.without_large().text());
            }
        }
        assert_eq!(heard, expected);
    }
}

async fn rubbish_is_refused(world: World) {
    let stream = begin(&world).await;
    ask(&world, &stream.id, "x").await;
    let run = world.claim("n1").await;
    turn(&run).await;
    let held = due(&world).await.remove(0);
    let mut entry = interzone_hub::OutboxEntry::clone(&held);
    entry.payload = interzone_protocol::vocab::Json::of("rubbish").unwrap();
    let refused = world.hub.carry_to_stream(&entry).await;
    assert!(matches!(
        refused,
        Err(HubError::Invalid {
            field: "payload",
            ..
        })
    ));
}
