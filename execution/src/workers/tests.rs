//! What is counted of the workers' work.

use super::WorkerMetrics;
use interzone_edge::telemetry::Metrics;
use std::time::Duration;

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
