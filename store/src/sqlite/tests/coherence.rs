//! What is read of a task is never older than what was acknowledged before the read began, however
//! many read and write at once.

use super::{Folder, at, commit, said, task};
use crate::sqlite::SqliteStore;
use interzone_hub::ports::{Op, TaskRead, TaskStore, Upkeep};
use interzone_hub::{Packed, Retention, Task};
use interzone_protocol::vocab::{Artifact, ArtifactId, Part, TaskId, TaskState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// How many tasks are written to, each by one writer.
const TASKS: usize = 6;
/// How often each is changed.
const CHANGES: u64 = 300;

/// What is known of a task before anybody reads it.
#[derive(Default)]
struct Known {
    /// The revision that was acknowledged last.
    acknowledged: AtomicU64,
    /// Whether it is about to be finished: from then on anybody may have it removed.
    ends: AtomicBool,
}

/// An artifact that says of which revision it is.
fn mark(head: &Task) -> Op {
    let id = ArtifactId::new("mark").unwrap();
    let artifact = Artifact::new(id, "mark").with_part(Part::text(head.revision.to_string()));
    Op::PutArtifact {
        task_id: head.id.clone(),
        artifact_id: ArtifactId::new("mark").unwrap(),
        artifact: Packed::pack(artifact).0,
    }
}

fn name(number: usize) -> TaskId {
    TaskId::new(format!("task-{number}")).unwrap()
}

/// Changes a task again and again, says each time what was acknowledged, and has it removed at last.
async fn write(store: Arc<SqliteStore>, number: usize, known: Arc<[Known; TASKS]>) {
    let Known { acknowledged, ends } = &known[number];
    let mut head = task(name(number).as_str());
    head.artifacts = 1;
    let first = vec![Op::CreateTask(Arc::new(head.clone())), mark(&head)];
    store.commit(commit(first)).await.unwrap();
    for change in 0..CHANGES {
        acknowledged.store(head.revision, Ordering::SeqCst);
        head.revision += 1;
        let mut ops = vec![Op::UpdateTask(Arc::new(head.clone())), mark(&head)];
        // Many of a kind come and go without a message; some have one.
        if change % 10 == 0 && head.messages < 30 {
            ops.push(Op::AddMessage {
                task_id: head.id.clone(),
                index: head.messages,
                message: said("more"),
            });
            head.messages += 1;
            ops[0] = Op::UpdateTask(Arc::new(head.clone()));
        }
        store.commit(commit(ops)).await.unwrap();
    }
    head.revision += 1;
    head.state = TaskState::Completed;
    head.finished_at = Some(at(0));
    let last = vec![Op::UpdateTask(Arc::new(head.clone())), mark(&head)];
    ends.store(true, Ordering::SeqCst);
    store.commit(commit(last)).await.unwrap();
    acknowledged.store(head.revision, Ordering::SeqCst);
    store
        .whole_task(&head.id, 1, true, usize::MAX)
        .await
        .unwrap();
    let retention = Retention {
        finished: Duration::ZERO,
        events: Duration::ZERO,
        ..Retention::default()
    };
    while store.task(&head.id).await.unwrap().is_some() {
        store.purge(&retention, at(1), 100).await.unwrap();
    }
    acknowledged.store(u64::MAX, Ordering::SeqCst);
}

/// Reads until told to stop; answers how often.
async fn read(
    store: Arc<SqliteStore>,
    seed: usize,
    known: Arc<[Known; TASKS]>,
    stop: Arc<AtomicBool>,
) -> u64 {
    let (mut last, mut reads) = ([0; TASKS], 0);
    let mut number = seed;
    while !stop.load(Ordering::SeqCst) {
        number = (number * 5 + 1) % TASKS;
        let id = name(number);
        let Known { acknowledged, ends } = &known[number];
        let least = acknowledged.load(Ordering::SeqCst).max(last[number]);
        let found = if reads % 3 == 0 {
            store.task(&id).await.unwrap()
        } else {
            let whole = store.whole_task(&id, u32::MAX, true, usize::MAX).await;
            let whole = whole.unwrap().and_then(TaskRead::into_task);
            if let Some(whole) = &whole {
                let mark = whole.artifacts[0].without_large().parts()[0].as_text();
                let revision = whole.task.revision.to_string();
                assert_eq!(mark.as_deref(), Some(&*revision), "all of one moment");
            }
            whole.map(|whole| whole.task.clone())
        };
        match found {
            Some(task) => {
                assert!(task.revision >= least, "{} < {least}", task.revision);
                last[number] = task.revision;
            }
            // Not there yet, or removed meanwhile.
            None if least == 0 => {}
            None => {
                assert!(ends.load(Ordering::SeqCst), "{least}");
                last[number] = u64::MAX;
            }
        }
        reads += 1;
        tokio::task::yield_now().await;
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_reads_what_is_past() {
    let folder = Folder::new();
    let store = Arc::new(folder.open().await);
    let known: Arc<[Known; TASKS]> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for seed in 0..4 {
        let (known, stop) = (known.clone(), stop.clone());
        readers.spawn(read(store.clone(), seed, known, stop));
    }
    let mut writers = JoinSet::new();
    for number in 0..TASKS {
        writers.spawn(write(store.clone(), number, known.clone()));
    }
    writers.join_all().await;
    stop.store(true, Ordering::SeqCst);
    let reads: u64 = readers.join_all().await.into_iter().sum();
    assert!(reads > 1_000, "{reads}");
}
