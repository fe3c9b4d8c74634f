//! Short first messages and events are inlined into the task row, which readers cannot notice.

use super::{
    SqliteStore, TempFolder, commit_of, create_task, created_event, new_task_commit, sample_task,
    user_message,
};
use interzone_hub::ports::{EventRow, Op, StoreError, TaskStore};
use interzone_hub::{EventBody, Subject};

/// Number of message rows and event rows that are not inlined.
fn separate_row_counts(folder: &TempFolder) -> (i64, i64) {
    let connection = rusqlite::Connection::open(folder.database_path()).unwrap();
    let sql = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM events)";
    let counts = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    counts.unwrap()
}

fn message(index: u32, text: &str) -> Op {
    Op::AddMessage {
        task_id: sample_task("t").id,
        index,
        message: user_message(text),
    }
}

fn replace(index: u32, text: &str) -> Op {
    Op::ReplaceMessage {
        task_id: sample_task("t").id,
        index,
        message: user_message(text),
    }
}

/// Reads a range of messages, and the numbers of all events.
async fn read_texts_and_events(store: &SqliteStore, from: u32, to: u32) -> (Vec<String>, Vec<u64>) {
    let id = sample_task("t").id;
    let messages = store.messages(&id, from..to).await.unwrap();
    let texts = messages.iter().map(|message| {
        let message = message.inline();
        let part = message.parts().first().unwrap();
        part.content().unwrap().as_str().to_owned()
    });
    let events = store.events(&Subject::Task(id), 0, 99).await.unwrap();
    let numbers = events.iter().map(|event| event.seq).collect();
    (texts.collect(), numbers)
}

fn quoted(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| format!("\"{text}\"")).collect()
}

async fn assert_conflict(store: &SqliteStore, ops: Vec<Op>) {
    let result = store.commit(commit_of(ops)).await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

#[tokio::test]
async fn short_rows_of_the_creating_commit_are_inlined() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let ops = vec![
        create_task("t"),
        message(0, "a"),
        created_event("t", 1),
        message(1, "b"),
        created_event("t", 2),
    ];
    store.commit(commit_of(ops)).await.unwrap();
    assert_eq!(separate_row_counts(&folder), (0, 0));
    let ops = vec![message(2, "c"), created_event("t", 3)];
    store.commit(commit_of(ops)).await.unwrap();
    assert_eq!(separate_row_counts(&folder), (1, 1));
    for (from, to, texts) in [
        (0, 9, &["a", "b", "c"][..]),
        (1, 2, &["b"]),
        (1, 3, &["b", "c"]),
        (2, 9, &["c"]),
        (3, 9, &[]),
    ] {
        let expected = (quoted(texts), vec![1, 2, 3]);
        assert_eq!(
            read_texts_and_events(&store, from, to).await,
            expected,
            "{from} to {to}"
        );
    }
    // The same after reopening.
    store.close().await;
    let store = folder.open().await;
    let expected = (quoted(&["a", "b", "c"]), vec![1, 2, 3]);
    assert_eq!(read_texts_and_events(&store, 0, 9).await, expected);
}

#[tokio::test]
async fn long_or_non_initial_rows_are_not_inlined() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let long = "long ".repeat(250);
    let ops = vec![
        create_task("t"),
        message(0, "a"),
        message(1, &long),
        message(2, "c"),
        created_event("t", 5),
    ];
    store.commit(commit_of(ops)).await.unwrap();
    assert_eq!(separate_row_counts(&folder), (2, 1));
    let expected = (quoted(&["a", &long, "c"]), vec![5]);
    assert_eq!(read_texts_and_events(&store, 0, 9).await, expected);
    // Numbers below it are free, its own is taken.
    assert_conflict(&store, vec![created_event("t", 5)]).await;
    store
        .commit(commit_of(vec![created_event("t", 1)]))
        .await
        .unwrap();
}

#[tokio::test]
async fn inlined_message_and_event_numbers_conflict() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let twice = vec![create_task("t"), message(0, "a"), message(0, "b")];
    assert_conflict(&store, twice).await;
    assert_conflict(
        &store,
        vec![
            create_task("t"),
            created_event("t", 1),
            created_event("t", 1),
        ],
    )
    .await;
    // Whichever of them is too long to be inlined, or comes too early.
    let long = Op::AppendEvent(EventRow {
        subject: Subject::Task(sample_task("t").id),
        seq: 1,
        body: EventBody::Status {
            text: "long ".repeat(250),
        },
    });
    assert_conflict(
        &store,
        vec![create_task("t"), long.clone(), created_event("t", 1)],
    )
    .await;
    assert_conflict(&store, vec![create_task("t"), created_event("t", 1), long]).await;
    let mut early = vec![create_task("t"), created_event("t", 5)];
    early.extend((1..=5).map(|seq| created_event("t", seq)));
    assert_conflict(&store, early).await;
    store.commit(new_task_commit("t")).await.unwrap();
    assert_conflict(&store, vec![message(0, "other")]).await;
    assert_conflict(&store, vec![created_event("t", 1)]).await;
    assert_conflict(&store, vec![created_event("t", 1), created_event("t", 2)]).await;
    assert_eq!(
        read_texts_and_events(&store, 0, 9).await,
        (quoted(&["t"]), vec![1])
    );
}

#[tokio::test]
async fn inlined_message_is_replaced_in_place() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let ops = vec![create_task("t"), message(0, "a"), message(1, "b")];
    store.commit(commit_of(ops)).await.unwrap();
    store
        .commit(commit_of(vec![replace(1, "\u{1e}new")]))
        .await
        .unwrap();
    assert_conflict(&store, vec![replace(2, "new")]).await;
    assert_eq!(separate_row_counts(&folder), (0, 0));
    // The separator is escaped inside of a message.
    assert_eq!(
        read_texts_and_events(&store, 0, 9).await.0,
        quoted(&["a", "\\u001enew"])
    );
}
