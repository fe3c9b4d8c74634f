//! Streams: reads, revisions, lists and idle streams.

use crate::builders::{
    commit, create_stream, json, owner, stream, stream_id, time_at, update_stream,
};
use crate::engine::Engine;
use interzone_hub::ports::StoreError;
use interzone_hub::{Stream, StreamQuery};
use interzone_protocol::vocab::{Metadata, StreamState};

contract_tests!(
    streams_are_read_back_unchanged,
    stream_is_updated_at_expected_revision,
    idle_streams_are_found_oldest_first,
    streams_are_listed_newest_first,
);

fn full(id: &str, state: StreamState) -> Stream {
    Stream {
        id: stream_id(id),
        owner: owner("other-owner"),
        participants: vec!["a".to_owned(), String::new(), "b, c".to_owned()],
        state,
        metadata: Some(Metadata::new(json("{ \"a\" : 1 }")).unwrap()),
        created_at: time_at(-9),
        updated_at: time_at(4),
        closed_at: Some(time_at(5)),
        revision: 9,
        seq: 12,
    }
}

async fn streams_are_read_back_unchanged(on: Engine) {
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

async fn stream_is_updated_at_expected_revision(on: Engine) {
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

async fn idle_streams_are_found_oldest_first(on: Engine) {
    let store = on.node().await;
    let used = |id: &str, state: StreamState, updated_at: i64| Stream {
        state,
        updated_at: time_at(updated_at),
        closed_at: (state == StreamState::Closed).then(|| time_at(updated_at)),
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
        let idle = store.idle_streams(time_at(before), limit).await.unwrap();
        let ids: Vec<_> = idle.iter().map(|stream| stream.id.as_str()).collect();
        assert_eq!(ids, expected, "{before} {limit}");
    }
    let idle = store.idle_streams(time_at(11), 9).await.unwrap();
    assert_eq!(idle, [streams[3].clone()]);
    // An update makes it no longer idle.
    let busy = Stream {
        updated_at: time_at(500),
        revision: 2,
        ..streams[3].clone()
    };
    let ops = vec![update_stream(&busy)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.idle_streams(time_at(11), 9).await.unwrap(), []);
}

async fn streams_are_listed_newest_first(on: Engine) {
    let store = on.node().await;
    let used = |id: &str, state: StreamState, updated_at: i64| Stream {
        state,
        updated_at: time_at(updated_at),
        closed_at: (state == StreamState::Closed).then(|| time_at(updated_at)),
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
            is_closed: closed,
            before: before.map(time_at),
            limit,
        };
        let found = store.streams(&query).await.unwrap();
        let ids: Vec<_> = found.iter().map(|stream| stream.id.as_str()).collect();
        assert_eq!(ids, expected, "{query:?}");
    }
}
