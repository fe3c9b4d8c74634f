//! The contract of the hub's ports, held against both engines, and what faults may do to them.
//!
//! Every test outside `faults` is written once, against `Arc<dyn Store>`, and runs on SQLite and on
//! PostgreSQL. `./test.sh` brings the PostgreSQL server. What only one engine has, its columns or
//! its files, does not belong here but beside that engine.

/// Runs each of these functions on every engine, as a test of its own.
#[cfg(test)]
macro_rules! contract {
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
mod births;
#[cfg(test)]
mod blobs;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod commits;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fences;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod make;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod outbox_groups;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reopening;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod subscriptions;
#[cfg(test)]
mod talks;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod wakes;
#[cfg(test)]
mod words;
#[cfg(test)]
mod work;
