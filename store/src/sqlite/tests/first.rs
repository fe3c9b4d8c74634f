//! What a task is made with lies in its own row if it is short, and nobody who reads it can tell.

use super::{Folder, SqliteStore, commit, create, event, said, task, whole};
use interzone_hub::ports::{EventRow, Op, StoreError, TaskStore};
use interzone_hub::{EventBody, Subject};

/// How many rows of their own messages and events have.
fn rows(folder: &Folder) -> (i64, i64) {
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    let sql = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM events)";
    let counts = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    counts.unwrap()
}

fn message(index: u32, text: &str) -> Op {
    Op::AddMessage {
        task_id: task("t").id,
        index,
        message: said(text),
    }
}

fn replace(index: u32, text: &str) -> Op {
    Op::ReplaceMessage {
        task_id: task("t").id,
        index,
        message: said(text),
    }
}

/// The messages with these places, and the numbers of all events.
async fn read(store: &SqliteStore, from: u32, to: u32) -> (Vec<String>, Vec<u64>) {
    let id = task("t").id;
    let messages = store.messages(&id, from..to).await.unwrap();
    let texts = messages.iter().map(|message| {
        let message = message.without_large();
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

async fn refused(store: &SqliteStore, ops: Vec<Op>) {
    let result = store.commit(commit(ops)).await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

#[tokio::test]
async fn what_is_short_is_in_the_row_and_what_follows_is_not() {
    let folder = Folder::new();
    let store = folder.open().await;
    let ops = vec![
        create("t"),
        message(0, "a"),
        event("t", 1),
        message(1, "b"),
        event("t", 2),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(rows(&folder), (0, 0));
    let ops = vec![message(2, "c"), event("t", 3)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(rows(&folder), (1, 1));
    for (from, to, texts) in [
        (0, 9, &["a", "b", "c"][..]),
        (1, 2, &["b"]),
        (1, 3, &["b", "c"]),
        (2, 9, &["c"]),
        (3, 9, &[]),
    ] {
        let expected = (quoted(texts), vec![1, 2, 3]);
        assert_eq!(read(&store, from, to).await, expected, "{from} to {to}");
    }
    // And so it is for whoever opens the file later.
    store.close().await;
    let store = folder.open().await;
    let expected = (quoted(&["a", "b", "c"]), vec![1, 2, 3]);
    assert_eq!(read(&store, 0, 9).await, expected);
}

#[tokio::test]
async fn what_is_long_or_does_not_begin_at_the_beginning_has_rows_of_its_own() {
    let folder = Folder::new();
    let store = folder.open().await;
    let long = "long ".repeat(250);
    let ops = vec![
        create("t"),
        message(0, "a"),
        message(1, &long),
        message(2, "c"),
        event("t", 5),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(rows(&folder), (2, 1));
    let expected = (quoted(&["a", &long, "c"]), vec![5]);
    assert_eq!(read(&store, 0, 9).await, expected);
    // There is room before it, and none in it.
    refused(&store, vec![event("t", 5)]).await;
    store.commit(commit(vec![event("t", 1)])).await.unwrap();
}

#[tokio::test]
async fn places_and_numbers_in_the_row_are_taken() {
    let folder = Folder::new();
    let store = folder.open().await;
    let twice = vec![create("t"), message(0, "a"), message(0, "b")];
    refused(&store, twice).await;
    refused(&store, vec![create("t"), event("t", 1), event("t", 1)]).await;
    // Whichever of them is too long for the row, or comes too early.
    let long = Op::AppendEvent(EventRow {
        subject: Subject::Task(task("t").id),
        seq: 1,
        body: EventBody::Status {
            text: "long ".repeat(250),
        },
    });
    refused(&store, vec![create("t"), long.clone(), event("t", 1)]).await;
    refused(&store, vec![create("t"), event("t", 1), long]).await;
    let mut early = vec![create("t"), event("t", 5)];
    early.extend((1..=5).map(|seq| event("t", seq)));
    refused(&store, early).await;
    store.commit(whole("t")).await.unwrap();
    refused(&store, vec![message(0, "other")]).await;
    refused(&store, vec![event("t", 1)]).await;
    refused(&store, vec![event("t", 1), event("t", 2)]).await;
    assert_eq!(read(&store, 0, 9).await, (quoted(&["t"]), vec![1]));
}

#[tokio::test]
async fn a_message_in_the_row_is_replaced_there() {
    let folder = Folder::new();
    let store = folder.open().await;
    let ops = vec![create("t"), message(0, "a"), message(1, "b")];
    store.commit(commit(ops)).await.unwrap();
    store
        .commit(commit(vec![replace(1, "\u{1e}new")]))
        .await
        .unwrap();
    refused(&store, vec![replace(2, "new")]).await;
    assert_eq!(rows(&folder), (0, 0));
    // What parts them is written otherwise inside of a message.
    assert_eq!(read(&store, 0, 9).await.0, quoted(&["a", "\\u001enew"]));
}
