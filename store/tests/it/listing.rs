//! Task lists: filters, order, pages, and pages of a list that changes between pages.

use crate::builders::{
    agent, all_tasks, commit, commit_at, create, next_revision, owner, task, time_at, update,
};
use crate::engine::Engine;
use interzone_hub::ports::Store;
use interzone_hub::{Task, TaskCursor, TaskQuery};
use interzone_protocol::vocab::{ContextId, TaskState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

contract_tests!(
    task_filters_combine,
    tasks_are_ordered_by_last_state_change_then_id,
    task_ids_are_compared_bytewise,
    context_filter_includes_first_task,
    pages_cover_the_list,
    unchanged_tasks_are_listed_once_while_others_move,
    unchanged_tasks_are_listed_once_during_writes,
);

/// Creates tasks of two owners, agents and contexts, in all states, three of each.
async fn create_mixed_tasks(store: &dyn Store) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, state) in TaskState::ALL.into_iter().cycle().take(24).enumerate() {
        let pick = |what: &str, divisor: usize| format!("{what} {}", number / divisor % 2);
        tasks.push(Task {
            owner: owner(&pick("owner", 2)),
            agent: agent(&pick("agent", 3)),
            context_id: ContextId::new(pick("context", 5)).unwrap(),
            state,
            status_at: time_at(i64::try_from(number / 2).unwrap()),
            // Other changes do not count.
            updated_at: time_at(100 - i64::try_from(number).unwrap()),
            ..task(&format!("t{number:02}"))
        });
    }
    store
        .commit(commit(tasks.iter().map(create).collect()))
        .await
        .unwrap();
    tasks
}

fn selects(query: &TaskQuery, task: &Task) -> bool {
    query
        .owner
        .as_ref()
        .is_none_or(|owner| *owner == task.owner)
        && query
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == task.agent)
        && (query.context_id.as_ref()).is_none_or(|context| *context == task.context_id)
        && (query.states.is_empty() || query.states.contains(&task.state))
        && query
            .status_since
            .is_none_or(|since| task.status_at >= since)
}

/// Expected list: the latest state change first, then the highest id.
fn expected(query: &TaskQuery, tasks: &[Task]) -> Vec<Task> {
    let mut found: Vec<Task> = tasks
        .iter()
        .filter(|t| selects(query, t))
        .cloned()
        .collect();
    found.sort_by(|a, b| (b.status_at, &b.id).cmp(&(a.status_at, &a.id)));
    found
}

async fn task_filters_combine(on: Engine) {
    let store = on.node().await;
    let tasks = create_mixed_tasks(&*store).await;
    let states: [&[TaskState]; 5] = [
        &[],
        &[TaskState::Working],
        &[TaskState::Completed, TaskState::Submitted],
        &[TaskState::Failed, TaskState::Failed],
        &TaskState::ALL,
    ];
    let filter_value = |what: &str, number: usize| (number < 3).then(|| format!("{what} {number}"));
    let mut found = 0;
    for owned_by in 0..4 {
        for done_by in 0..4 {
            for within in 0..4 {
                for states in states {
                    for since in [
                        None,
                        Some(time_at(-1)),
                        Some(time_at(5)),
                        Some(time_at(11)),
                        Some(time_at(12)),
                    ] {
                        let query = TaskQuery {
                            owner: filter_value("owner", owned_by).map(|id| owner(&id)),
                            agent: filter_value("agent", done_by).map(|id| agent(&id)),
                            context_id: filter_value("context", within)
                                .map(|id| ContextId::new(id).unwrap()),
                            states: states.to_vec(),
                            status_since: since,
                            ..all_tasks()
                        };
                        // One in three is enough to cover each pair of filters.
                        if (owned_by + done_by + within + states.len()) % 3 != 0 {
                            continue;
                        }
                        let expected = expected(&query, &tasks);
                        let read = store.tasks(&query).await.unwrap();
                        assert_eq!(read, expected, "{query:?}");
                        found += expected.len();
                        let few = TaskQuery {
                            limit: 1,
                            after: expected.first().map(cursor_of),
                            ..query
                        };
                        let count = store.count_tasks(&few).await.unwrap();
                        assert_eq!(count, expected.len() as u64, "{few:?}");
                    }
                }
            }
        }
    }
    assert!(found > 300, "the filters match too little: {found}");
}

fn cursor_of(task: &Task) -> TaskCursor {
    TaskCursor {
        status_at: task.status_at,
        id: task.id.clone(),
    }
}

async fn tasks_are_ordered_by_last_state_change_then_id(on: Engine) {
    let store = on.node().await;
    let mut tasks = create_mixed_tasks(&*store).await;
    assert_eq!(
        store.tasks(&all_tasks()).await.unwrap(),
        expected(&all_tasks(), &tasks)
    );
    // A change moves a task to its new position, forward and backward.
    for (index, millis) in [(3, 100), (7, 100), (20, -100), (3, 0)] {
        tasks[index] = Task {
            status_at: time_at(millis),
            ..next_revision(&tasks[index])
        };
        let ops = vec![update(&tasks[index])];
        store.commit(commit_at(time_at(millis), ops)).await.unwrap();
        assert_eq!(
            store.tasks(&all_tasks()).await.unwrap(),
            expected(&all_tasks(), &tasks)
        );
    }
}

async fn task_ids_are_compared_bytewise(on: Engine) {
    let store = on.node().await;
    let ids = [
        "a", "B", "b", "A", "ä", "z", "Z", "1", "10", "2", "-", "_", "é", "e\u{301}", "a b", "ab",
        "日本", "🦀", "\u{ffff}", "ß", "ss", "I", "İ", "ı", "i", "a ", "a-b", "a_b",
    ];
    let tasks: Vec<Task> = ids.iter().map(|id| task(id)).collect();
    store
        .commit(commit(tasks.iter().map(create).collect()))
        .await
        .unwrap();
    let all = expected(&all_tasks(), &tasks);
    assert_eq!(store.tasks(&all_tasks()).await.unwrap(), all);
    assert_eq!(read_all_pages(&*store, &all_tasks(), 3).await, all);
}

/// A conversation may have the id of its first task, and is complete either way.
async fn context_filter_includes_first_task(on: Engine) {
    let store = on.node().await;
    let within = |id: &str, context: &str, when: i64| Task {
        context_id: ContextId::new(context).unwrap(),
        status_at: time_at(when),
        ..task(id)
    };
    let tasks = [
        within("a", "a", 3),
        within("b", "a", 1),
        within("c", "a", 5),
        within("d", "d", 4),
        within("e", "b", 2),
    ];
    let ops = tasks.iter().map(create).collect();
    store.commit(commit(ops)).await.unwrap();
    for (context, states, ids) in [
        ("a", &[][..], &["c", "a", "b"][..]),
        ("a", &[TaskState::Submitted], &["c", "a", "b"]),
        ("a", &[TaskState::Working], &[]),
        ("d", &[], &["d"]),
        // The id of a task that is in another conversation.
        ("b", &[], &["e"]),
        ("e", &[], &[]),
    ] {
        let query = TaskQuery {
            context_id: Some(ContextId::new(context).unwrap()),
            states: states.to_vec(),
            limit: 9,
            ..all_tasks()
        };
        let found = store.tasks(&query).await.unwrap();
        let found: Vec<&str> = found.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(found, ids, "{context}");
        let first = TaskQuery {
            limit: 1,
            ..query.clone()
        };
        let found = store.tasks(&first).await.unwrap();
        assert_eq!(
            found.first().map(|task| task.id.as_str()),
            ids.first().copied()
        );
        assert_eq!(store.count_tasks(&query).await.unwrap(), ids.len() as u64);
    }
}

/// Reads all pages of a list, through the tokens that callers get.
async fn read_all_pages(store: &dyn Store, query: &TaskQuery, size: usize) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: size,
        ..query.clone()
    };
    let mut listed = Vec::new();
    loop {
        let page = store.tasks(&query).await.unwrap();
        assert!(page.len() <= size);
        let Some(last) = page.last() else {
            return listed;
        };
        query.after = TaskCursor::from_token(&cursor_of(last).to_token());
        assert!(query.after.is_some());
        listed.extend(page);
    }
}

async fn pages_cover_the_list(on: Engine) {
    let store = on.node().await;
    let tasks = create_mixed_tasks(&*store).await;
    let filtered = TaskQuery {
        owner: Some(owner("owner 1")),
        states: vec![TaskState::Working, TaskState::Failed, TaskState::Canceled],
        ..all_tasks()
    };
    for query in [all_tasks(), filtered] {
        let expected = expected(&query, &tasks);
        assert!(expected.len() > 2);
        for size in [1, 2, 3, 5, 24, 1_000] {
            let pages = read_all_pages(&*store, &query, size).await;
            assert_eq!(pages, expected, "pages of {size}");
        }
        let none = TaskQuery { limit: 0, ..query };
        assert_eq!(store.tasks(&none).await.unwrap(), []);
    }
}

async fn unchanged_tasks_are_listed_once_while_others_move(on: Engine) {
    let store = on.node().await;
    let tasks = create_mixed_tasks(&*store).await;
    let mut query = TaskQuery {
        limit: 3,
        ..all_tasks()
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut moving: Vec<Task> = tasks.iter().step_by(2).cloned().collect();
    let mut turn: usize = 0;
    loop {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(cursor_of(last));
        for task in page {
            *counts.entry(task.id.to_string()).or_default() += 1;
        }
        // Between two pages some tasks change, some are created, and the one at the cursor moves too.
        for offset in 0..3 {
            let index = (turn * 3 + offset) % moving.len();
            turn += 1;
            moving[index] = Task {
                status_at: time_at(1_000 + i64::try_from(turn).unwrap()),
                ..next_revision(&moving[index])
            };
            let created = Task {
                status_at: time_at(5),
                ..task(&format!("new {turn}"))
            };
            let ops = vec![update(&moving[index]), create(&created)];
            store.commit(commit_at(time_at(5), ops)).await.unwrap();
        }
    }
    for task in tasks.iter().skip(1).step_by(2) {
        assert_eq!(counts.get(task.id.as_str()), Some(&1), "{}", task.id);
    }
}

async fn unchanged_tasks_are_listed_once_during_writes(on: Engine) {
    let [node, other] = on.two_nodes().await;
    let still: Vec<Task> = (0..40).map(|n| task(&format!("still {n}"))).collect();
    let restless: Vec<Task> = (0..40).map(|n| task(&format!("restless {n}"))).collect();
    let all = still.iter().chain(&restless).map(create).collect();
    node.commit(commit(all)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let writer = tokio::spawn(async move {
        let mut tasks = restless;
        let mut tick = 0;
        while !stop.load(Ordering::Relaxed) {
            for task in &mut tasks {
                tick += 1;
                *task = Task {
                    status_at: time_at(tick % 3),
                    ..next_revision(task)
                };
                let ops = vec![update(task)];
                other.commit(commit_at(time_at(tick), ops)).await.unwrap();
            }
        }
    });
    for size in [1, 3, 7, 11] {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for task in read_pages_bounded(&*node, size, 2_000).await {
            *counts.entry(task.id.to_string()).or_default() += 1;
        }
        for task in &still {
            assert_eq!(
                counts.get(task.id.as_str()),
                Some(&1),
                "{} by {size}",
                task.id
            );
        }
    }
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

/// As [`read_all_pages`], but bounded, for a list that keeps growing behind the cursor.
async fn read_pages_bounded(store: &dyn Store, size: usize, max_count: usize) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: size,
        ..all_tasks()
    };
    let mut listed = Vec::new();
    for _ in 0..max_count {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(cursor_of(last));
        listed.extend(page);
    }
    listed
}
