//! Tests of the worker metrics.

use super::WorkerMetrics;
use interzone_edge::telemetry::Metrics;
use std::time::Duration;

#[test]
fn worker_metrics_are_exported_by_the_node() {
    let metrics = Metrics::new();
    let worker_metrics: &dyn WorkerMetrics = &metrics;
    worker_metrics.queue(3, 2);
    worker_metrics.outbox(5, 1);
    worker_metrics.agent_run("demo", "completed", Duration::from_secs(1));
    worker_metrics.delivery("webhook", "delivered");
    let before = metrics.encode();
    for line in [
        "\"waiting\"} 3",
        "\"leased\"} 2",
        "\"waiting\"} 5",
        "\"dead\"} 1",
    ] {
        assert!(before.contains(line), "{line} is not in {before}");
    }
    assert!(
        before.contains("demo") && before.contains("delivered"),
        "{before}"
    );
    worker_metrics.delivery("stream", "delivered");
    assert_eq!(metrics.encode(), before);
}
