//! Streams, and which of them nobody uses any more.

use crate::engine::Engine;
use crate::make::{at, commit, create_stream, json, owner, stream, stream_id, update_stream};
use interzone_hub::ports::StoreError;
use interzone_hub::{Stream, StreamQuery};
use interzone_protocol::vocab::{Metadata, StreamState};

contract!(
    are_read_as_they_were_written,
    are_replaced_at_their_revision,
    that_are_idle_are_found_oldest_first,
    are_listed_newest_first,
);

fn full(id: &str, state: StreamState) -> Stream {
    Stream {
        id: stream_id(id),
        owner: owner("somebody"),
        participants: vec!["a".to_owned(), String::new(), "b, c".to_owned()],
        state,
        metadata: Some(Metadata::new(json("{ \"a\" : 1 }")).unwrap()),
        created_at: at(-9),
        updated_at: at(4),
        closed_at: Some(at(5)),
        revision: 9,
        seq: 12,
    }
}

async fn are_read_as_they_were_written(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.stream(&stream_id("none")).await.unwrap(), None);
    let mut streams = vec![
        stream("plain"),
        Stream {
            participants: Vec::new(),
            ..stream("alone")
        },
    ];
    for state in StreamState::ALL {
        streams.push(full(state.name(), state));
    }
    let ops = streams.iter().map(create_stream).collect();
    store.commit(commit(ops)).await.unwrap();
    for stream in streams {
        assert_eq!(store.stream(&stream.id).await.unwrap(), Some(stream));
    }
}

async fn are_replaced_at_their_revision(on: Engine) {
    let store = on.node().await;
    let first = stream("s");
    let ops = vec![create_stream(&first)];
    store.commit(commit(ops)).await.unwrap();
    let second = Stream {
        revision: 2,
        ..full("s", StreamState::Paused)
    };
    let ops = vec![update_stream(&second)];
    store.commit(commit(ops.clone())).await.unwrap();
    let again = store.commit(commit(ops)).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_eq!(store.stream(&first.id).await.unwrap(), Some(second));
    let third = Stream {
        revision: 3,
        ..first.clone()
    };
    let ops = vec![update_stream(&third)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.stream(&first.id).await.unwrap(), Some(third));
}

async fn that_are_idle_are_found_oldest_first(on: Engine) {
    let store = on.node().await;
    let used = |id: &str, state: StreamState, updated_at: i64| Stream {
        state,
        updated_at: at(updated_at),
        closed_at: (state == StreamState::Closed).then(|| at(updated_at)),
        ..stream(id)
    };
    let streams = [
        used("d", StreamState::Active, 30),
        used("a", StreamState::Paused, 20),
        used("closed", StreamState::Closed, 5),
        used("c", StreamState::Active, 10),
        used("b", StreamState::Active, 40),
    ];
    let ops = streams.iter().map(create_stream).collect();
    store.commit(commit(ops)).await.unwrap();
    for (before, limit, expected) in [
        (0, 9, &[][..]),
        (11, 9, &["c"]),
        (35, 9, &["c", "a", "d"]),
        (1_000, 9, &["c", "a", "d", "b"]),
        (1_000, 2, &["c", "a"]),
        (1_000, 0, &[]),
    ] {
        let idle = store.idle_streams(at(before), limit).await.unwrap();
        let ids: Vec<_> = idle.iter().map(|stream| stream.id.as_str()).collect();
        assert_eq!(ids, expected, "{before} {limit}");
    }
    let idle = store.idle_streams(at(11), 9).await.unwrap();
    assert_eq!(idle, [streams[3].clone()]);
    // Something happens on it: it is no longer idle.
    let busy = Stream {
        updated_at: at(500),
        revision: 2,
        ..streams[3].clone()
    };
    let ops = vec![update_stream(&busy)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.idle_streams(at(11), 9).await.unwrap(), []);
}

async fn are_listed_newest_first(on: Engine) {
    let store = on.node().await;
    let used = |id: &str, state: StreamState, updated_at: i64| Stream {
        state,
        updated_at: at(updated_at),
        closed_at: (state == StreamState::Closed).then(|| at(updated_at)),
        ..stream(id)
    };
    let streams = [
        used("a", StreamState::Active, 30),
        used("b", StreamState::Paused, 20),
        used("c", StreamState::Active, 30),
        used("x", StreamState::Closed, 5),
        used("y", StreamState::Closed, 50),
        used("z", StreamState::Closed, 5),
    ];
    let ops = streams.iter().map(create_stream).collect();
    store.commit(commit(ops)).await.unwrap();
    for (closed, before, limit, expected) in [
        (false, None, 9, &["c", "a", "b"][..]),
        (false, Some(30), 9, &["b"]),
        (false, None, 1, &["c"]),
        (true, None, 9, &["y", "z", "x"]),
        (true, Some(50), 1, &["z"]),
        (true, None, 0, &[]),
    ] {
        let query = StreamQuery {
            closed,
            before: before.map(at),
            limit,
        };
        let found = store.streams(&query).await.unwrap();
        let ids: Vec<_> = found.iter().map(|stream| stream.id.as_str()).collect();
        assert_eq!(ids, expected, "{query:?}");
    }
}
