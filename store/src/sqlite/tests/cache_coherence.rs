//! Cache coherence: a read of a task is never older than what was acknowledged before the read began, with
//! many concurrent readers and writers.

use super::{TempFolder, commit_of, sample_task, timestamp, user_message};
use crate::sqlite::SqliteStore;
use interzone_hub::ports::{Maintenance, Op, TaskRead, TaskStore};
use interzone_hub::{Offloaded, Retention, Task};
use interzone_protocol::vocab::{Artifact, ArtifactId, Part, TaskId, TaskState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of tasks, each with one writer.
const TASK_COUNT: usize = 6;
/// Number of changes of each task.
const CHANGES_PER_TASK: u64 = 300;

/// Progress of the writer of one task.
#[derive(Default)]
struct WriterProgress {
    /// The revision acknowledged last.
    acknowledged: AtomicU64,
    /// True shortly before it is finished: from then on it may be purged.
    is_finishing: AtomicBool,
}

/// Puts an artifact that contains the task's revision.
fn put_revision_artifact(head: &Task) -> Op {
    let id = ArtifactId::new("mark").unwrap();
    let artifact = Artifact::new(id, "mark").with_part(Part::text(head.revision.to_string()));
    Op::PutArtifact {
        task_id: head.id.clone(),
        artifact_id: ArtifactId::new("mark").unwrap(),
        artifact: Offloaded::offload(artifact).0,
    }
}

fn task_id(number: usize) -> TaskId {
    TaskId::new(format!("task-{number}")).unwrap()
}

/// Changes a task repeatedly, records each acknowledged revision, and finally has it purged.
async fn run_writer(
    store: Arc<SqliteStore>,
    number: usize,
    progress: Arc<[WriterProgress; TASK_COUNT]>,
) {
    let WriterProgress {
        acknowledged,
        is_finishing: ends,
    } = &progress[number];
    let mut head = sample_task(task_id(number).as_str());
    head.artifact_count = 1;
    let first = vec![
        Op::CreateTask(Arc::new(head.clone())),
        put_revision_artifact(&head),
    ];
    store.commit(commit_of(first)).await.unwrap();
    for change in 0..CHANGES_PER_TASK {
        acknowledged.store(head.revision, Ordering::SeqCst);
        head.revision += 1;
        let mut ops = vec![
            Op::UpdateTask(Arc::new(head.clone())),
            put_revision_artifact(&head),
        ];
        // Most changes have no message; some have one.
        if change % 10 == 0 && head.message_count < 30 {
            ops.push(Op::AddMessage {
                task_id: head.id.clone(),
                index: head.message_count,
                message: user_message("more"),
            });
            head.message_count += 1;
            ops[0] = Op::UpdateTask(Arc::new(head.clone()));
        }
        store.commit(commit_of(ops)).await.unwrap();
    }
    head.revision += 1;
    head.state = TaskState::Completed;
    head.finished_at = Some(timestamp(0));
    let last = vec![
        Op::UpdateTask(Arc::new(head.clone())),
        put_revision_artifact(&head),
    ];
    ends.store(true, Ordering::SeqCst);
    store.commit(commit_of(last)).await.unwrap();
    acknowledged.store(head.revision, Ordering::SeqCst);
    store
        .task_snapshot(&head.id, 1, true, usize::MAX)
        .await
        .unwrap();
    let retention = Retention {
        finished: Duration::ZERO,
        events: Duration::ZERO,
        ..Retention::default()
    };
    while store.task(&head.id).await.unwrap().is_some() {
        store.purge(&retention, timestamp(1), 100).await.unwrap();
    }
    acknowledged.store(u64::MAX, Ordering::SeqCst);
}

/// Reads until stopped; returns the number of reads.
async fn run_reader(
    store: Arc<SqliteStore>,
    seed: usize,
    progress: Arc<[WriterProgress; TASK_COUNT]>,
    stop: Arc<AtomicBool>,
) -> u64 {
    let (mut last, mut reads) = ([0; TASK_COUNT], 0);
    let mut number = seed;
    while !stop.load(Ordering::SeqCst) {
        number = (number * 5 + 1) % TASK_COUNT;
        let id = task_id(number);
        let WriterProgress {
            acknowledged,
            is_finishing: ends,
        } = &progress[number];
        let min_revision = acknowledged.load(Ordering::SeqCst).max(last[number]);
        let found = if reads % 3 == 0 {
            store.task(&id).await.unwrap()
        } else {
            let result = store.task_snapshot(&id, u32::MAX, true, usize::MAX).await;
            let snapshot = result.unwrap().and_then(TaskRead::into_task);
            if let Some(found) = &snapshot {
                let mark = found.artifacts[0].inline().parts()[0].as_text();
                let revision = found.task.revision.to_string();
                assert_eq!(
                    mark.as_deref(),
                    Some(&*revision),
                    "parts differ in revision"
                );
            }
            snapshot.map(|found| found.task.clone())
        };
        match found {
            Some(task) => {
                assert!(
                    task.revision >= min_revision,
                    "{} < {min_revision}",
                    task.revision
                );
                last[number] = task.revision;
            }
            // Not created yet, or purged in the meantime.
            None if min_revision == 0 => {}
            None => {
                assert!(ends.load(Ordering::SeqCst), "{min_revision}");
                last[number] = u64::MAX;
            }
        }
        reads += 1;
        tokio::task::yield_now().await;
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_never_return_stale_tasks() {
    let folder = TempFolder::new();
    let store = Arc::new(folder.open().await);
    let progress: Arc<[WriterProgress; TASK_COUNT]> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for seed in 0..4 {
        let reader = run_reader(store.clone(), seed, progress.clone(), stop.clone());
        readers.spawn(reader);
    }
    let mut writers = JoinSet::new();
    for number in 0..TASK_COUNT {
        writers.spawn(run_writer(store.clone(), number, progress.clone()));
    }
    writers.join_all().await;
    stop.store(true, Ordering::SeqCst);
    let reads: u64 = readers.join_all().await.into_iter().sum();
    assert!(reads > 1_000, "{reads}");
}
