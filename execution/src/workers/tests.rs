//! How a worker's heart tells of its trouble, and what is counted of its work.

use super::WorkerMetrics;
use super::health::{Heart, Unwell};
use interzone_edge::telemetry::Metrics;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn trouble_shows_when_it_lasts_and_goes_when_it_is_over() {
    let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
    let trouble = std::io::Error::other("no");
    assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
    assert_eq!(heart.failed(&trouble), Duration::from_millis(200));
    assert_eq!(pulse.feel(), Ok(()));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(pulse.feel(), Err(Unwell::Failing("x")));
    for _ in 0..40 {
        assert!(heart.failed(&trouble) <= Duration::from_secs(5));
    }
    heart.well();
    assert_eq!(pulse.feel(), Ok(()));
    assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn silence_and_death_are_noticed() {
    let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(pulse.feel(), Err(Unwell::Stuck("x")));
    heart.beat();
    assert_eq!(pulse.feel(), Ok(()));
    drop(heart);
    assert_eq!(pulse.feel(), Err(Unwell::Ended("x")));
}

#[test]
fn what_the_workers_do_is_in_the_figures_of_the_node() {
    let metrics = Metrics::new();
    let told: &dyn WorkerMetrics = &metrics;
    told.queue(3, 2);
    told.outbox(5, 1);
    told.agent_run("demo", "completed", Duration::from_secs(1));
    told.delivery("webhook", "arrived");
    let before = metrics.encode();
    for word in [
        "\"waiting\"} 3",
        "\"held\"} 2",
        "\"waiting\"} 5",
        "\"dead\"} 1",
    ] {
        assert!(before.contains(word), "{word} is not in {before}");
    }
    assert!(
        before.contains("demo") && before.contains("arrived"),
        "{before}"
    );
    told.delivery("stream", "arrived");
    assert_eq!(metrics.encode(), before);
}
