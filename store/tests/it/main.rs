//! The contract of the hub's ports, tested on both engines, and fault injection.
//!
//! Every test outside `faults` is written once, against `Arc<dyn Store>`, and runs on SQLite and on PostgreSQL.
//! `./test.sh` starts the PostgreSQL server. Tests of one engine's columns or files are next to that engine.

/// Defines each of these functions as one test per engine.
#[cfg(test)]
macro_rules! contract_tests {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::engine::Engine::sqlite().run(super::$name).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::engine::Engine::postgres().await.run(super::$name).await;
                }
            )+
        }
    };
}

#[cfg(test)]
mod backup;
#[cfg(test)]
mod blobs;
#[cfg(test)]
mod builders;
#[cfg(test)]
mod change_hints;
#[cfg(test)]
mod commit_and_claim;
#[cfg(test)]
mod commits;
#[cfg(test)]
mod conversations;
#[cfg(test)]
mod edge_cases;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod event_logs;
#[cfg(test)]
mod fair_queue;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fences;
#[cfg(test)]
mod idempotency_keys;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod outbox_groups;
#[cfg(test)]
mod query_plans;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reopening;
#[cfg(test)]
mod request_log;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod schema_page;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod strings;
#[cfg(test)]
mod subscriptions;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod work_queue;
