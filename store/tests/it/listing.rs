//! Lists of tasks: filters, order, pages, and pages of a list that changes meanwhile.

use crate::engine::Engine;
use crate::make::{agent, all_tasks, at, commit, commit_at, create, next, owner, task, update};
use interzone_hub::ports::Store;
use interzone_hub::{Task, TaskCursor, TaskQuery};
use interzone_protocol::vocab::{ContextId, TaskState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

contract!(
    select_by_everything_that_is_given,
    are_ordered_by_last_change_then_id,
    compare_ids_byte_by_byte,
    find_a_conversation_with_the_task_that_began_it,
    come_in_pages,
    hold_still_for_what_does_not_change,
    hold_still_while_others_write,
);

/// Tasks of two owners, agents and contexts, in all states, three of each.
async fn furnish(store: &dyn Store) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, state) in TaskState::ALL.into_iter().cycle().take(24).enumerate() {
        let pick = |what: &str, of: usize| format!("{what} {}", number / of % 2);
        tasks.push(Task {
            owner: owner(&pick("owner", 2)),
            agent: agent(&pick("agent", 3)),
            context_id: ContextId::new(pick("context", 5)).unwrap(),
            state,
            updated_at: at(i64::try_from(number / 2).unwrap()),
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
            .updated_since
            .is_none_or(|since| task.updated_at >= since)
}

/// What a list should hold: the newest change first, then the highest id.
fn expected(query: &TaskQuery, tasks: &[Task]) -> Vec<Task> {
    let mut found: Vec<Task> = tasks
        .iter()
        .filter(|t| selects(query, t))
        .cloned()
        .collect();
    found.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    found
}

async fn select_by_everything_that_is_given(on: Engine) {
    let store = on.node().await;
    let tasks = furnish(&*store).await;
    let states: [&[TaskState]; 5] = [
        &[],
        &[TaskState::Working],
        &[TaskState::Completed, TaskState::Submitted],
        &[TaskState::Failed, TaskState::Failed],
        &TaskState::ALL,
    ];
    let of = |what: &str, number: usize| (number < 3).then(|| format!("{what} {number}"));
    let mut found = 0;
    for owned_by in 0..4 {
        for done_by in 0..4 {
            for within in 0..4 {
                for states in states {
                    for since in [None, Some(at(-1)), Some(at(5)), Some(at(11)), Some(at(12))] {
                        let query = TaskQuery {
                            owner: of("owner", owned_by).map(|id| owner(&id)),
                            agent: of("agent", done_by).map(|id| agent(&id)),
                            context_id: of("context", within).map(|id| ContextId::new(id).unwrap()),
                            states: states.to_vec(),
                            updated_since: since,
                            ..all_tasks()
                        };
                        // One in three is enough to meet each pair of filters.
                        if (owned_by + done_by + within + states.len()) % 3 != 0 {
                            continue;
                        }
                        let expected = expected(&query, &tasks);
                        let read = store.tasks(&query).await.unwrap();
                        assert_eq!(read, expected, "{query:?}");
                        found += expected.len();
                        let few = TaskQuery {
                            limit: 1,
                            after: expected.first().map(place),
                            ..query
                        };
                        let count = store.count_tasks(&few).await.unwrap();
                        assert_eq!(count, expected.len() as u64, "{few:?}");
                    }
                }
            }
        }
    }
    assert!(found > 300, "the filters meet too little: {found}");
}

fn place(task: &Task) -> TaskCursor {
    TaskCursor {
        updated_at: task.updated_at,
        id: task.id.clone(),
    }
}

async fn are_ordered_by_last_change_then_id(on: Engine) {
    let store = on.node().await;
    let mut tasks = furnish(&*store).await;
    assert_eq!(
        store.tasks(&all_tasks()).await.unwrap(),
        expected(&all_tasks(), &tasks)
    );
    // A change moves a task to where it now belongs, forth and back.
    for (index, moment) in [(3, 100), (7, 100), (20, -100), (3, 0)] {
        tasks[index] = Task {
            updated_at: at(moment),
            ..next(&tasks[index])
        };
        let ops = vec![update(&tasks[index])];
        store.commit(commit_at(at(moment), ops)).await.unwrap();
        assert_eq!(
            store.tasks(&all_tasks()).await.unwrap(),
            expected(&all_tasks(), &tasks)
        );
    }
}

async fn compare_ids_byte_by_byte(on: Engine) {
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
    assert_eq!(walk(&*store, &all_tasks(), 3).await, all);
}

/// A conversation may have the id of its first task, and is whole whoever named it.
async fn find_a_conversation_with_the_task_that_began_it(on: Engine) {
    let store = on.node().await;
    let within = |id: &str, context: &str, when: i64| Task {
        context_id: ContextId::new(context).unwrap(),
        updated_at: at(when),
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

/// Turns all pages of a list, through the tokens that callers get.
async fn walk(store: &dyn Store, query: &TaskQuery, size: usize) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: size,
        ..query.clone()
    };
    let mut seen = Vec::new();
    loop {
        let page = store.tasks(&query).await.unwrap();
        assert!(page.len() <= size);
        let Some(last) = page.last() else { return seen };
        query.after = TaskCursor::from_token(&place(last).to_token());
        assert!(query.after.is_some());
        seen.extend(page);
    }
}

async fn come_in_pages(on: Engine) {
    let store = on.node().await;
    let tasks = furnish(&*store).await;
    let filtered = TaskQuery {
        owner: Some(owner("owner 1")),
        states: vec![TaskState::Working, TaskState::Failed, TaskState::Canceled],
        ..all_tasks()
    };
    for query in [all_tasks(), filtered] {
        let expected = expected(&query, &tasks);
        assert!(expected.len() > 2);
        for size in [1, 2, 3, 5, 24, 1_000] {
            let pages = walk(&*store, &query, size).await;
            assert_eq!(pages, expected, "pages of {size}");
        }
        let none = TaskQuery { limit: 0, ..query };
        assert_eq!(store.tasks(&none).await.unwrap(), []);
    }
}

async fn hold_still_for_what_does_not_change(on: Engine) {
    let store = on.node().await;
    let tasks = furnish(&*store).await;
    let mut query = TaskQuery {
        limit: 3,
        ..all_tasks()
    };
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut moving: Vec<Task> = tasks.iter().step_by(2).cloned().collect();
    let mut turn: usize = 0;
    loop {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(place(last));
        for task in page {
            *seen.entry(task.id.to_string()).or_default() += 1;
        }
        // Between two pages some change, some newly come, and the one at the cursor moves too.
        for offset in 0..3 {
            let index = (turn * 3 + offset) % moving.len();
            turn += 1;
            moving[index] = Task {
                updated_at: at(1_000 + i64::try_from(turn).unwrap()),
                ..next(&moving[index])
            };
            let newcomer = Task {
                updated_at: at(5),
                ..task(&format!("new {turn}"))
            };
            let ops = vec![update(&moving[index]), create(&newcomer)];
            store.commit(commit_at(at(5), ops)).await.unwrap();
        }
    }
    for task in tasks.iter().skip(1).step_by(2) {
        assert_eq!(seen.get(task.id.as_str()), Some(&1), "{}", task.id);
    }
}

async fn hold_still_while_others_write(on: Engine) {
    let [node, other] = on.two_nodes().await;
    let still: Vec<Task> = (0..40).map(|n| task(&format!("still {n}"))).collect();
    let restless: Vec<Task> = (0..40).map(|n| task(&format!("restless {n}"))).collect();
    let all = still.iter().chain(&restless).map(create).collect();
    node.commit(commit(all)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let writer = tokio::spawn(async move {
        let mut tasks = restless;
        let mut moment = 0;
        while !stop.load(Ordering::Relaxed) {
            for task in &mut tasks {
                moment += 1;
                *task = Task {
                    updated_at: at(moment % 3),
                    ..next(task)
                };
                let ops = vec![update(task)];
                other.commit(commit_at(at(moment), ops)).await.unwrap();
            }
        }
    });
    for size in [1, 3, 7, 11] {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for task in walk_bounded(&*node, size, 2_000).await {
            *seen.entry(task.id.to_string()).or_default() += 1;
        }
        for task in &still {
            assert_eq!(
                seen.get(task.id.as_str()),
                Some(&1),
                "{} by {size}",
                task.id
            );
        }
    }
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

/// As [`walk`], but a list that grows behind its reader's place for ever must end some day.
async fn walk_bounded(store: &dyn Store, size: usize, most: usize) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: size,
        ..all_tasks()
    };
    let mut seen = Vec::new();
    for _ in 0..most {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(place(last));
        seen.extend(page);
    }
    seen
}
