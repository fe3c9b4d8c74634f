//! Encoded metrics contain every counted value.

use super::*;

#[test]
fn encode_contains_every_metric() {
    let metrics = Metrics::new().with_build_info("1.2.3", "abc1234");
    metrics.record_request("tasks.get", "ok", 0.002);
    metrics.record_request("tasks.get", "ok", 0.002);
    metrics.record_rejected("busy");
    metrics.record_handshake("ok");
    metrics.record_client_terminations("frame_flood", 2);
    metrics.record_client_terminations("stream_stalled", 0);
    metrics.record_rate_limited();
    metrics.record_auth_failure("expired");
    metrics.set_queue(3, 1);
    metrics.set_outbox(2, u64::MAX);
    metrics.record_webhook("delivered");
    metrics.record_agent_run("demo", "completed", Duration::from_secs(2));
    metrics.record_audit_dropped();
    metrics.record_request_log_dropped(3);
    let connection = metrics.track_connection();
    let watchers = (metrics.track_watcher("sse"), metrics.track_watcher("sse"));
    let text = metrics.encode();
    for line in [
        "interzone_requests_total{method=\"tasks.get\",outcome=\"ok\"} 2",
        "interzone_request_duration_seconds_count{method=\"tasks.get\"} 2",
        "interzone_request_duration_seconds_bucket{le=\"0.001\",method=\"tasks.get\"} 0",
        "interzone_request_duration_seconds_bucket{le=\"0.0025\",method=\"tasks.get\"} 2",
        "interzone_requests_rejected_total{reason=\"busy\"} 1",
        "interzone_tls_handshakes_total{outcome=\"ok\"} 1",
        "interzone_client_terminations_total{reason=\"frame_flood\"} 2",
        "interzone_rate_limited_total 1",
        "interzone_auth_failures_total{reason=\"expired\"} 1",
        "interzone_queue{state=\"waiting\"} 3",
        "interzone_queue{state=\"leased\"} 1",
        "interzone_outbox{state=\"waiting\"} 2",
        "interzone_outbox{state=\"dead\"} 9223372036854775807",
        "interzone_webhook_deliveries_total{outcome=\"delivered\"} 1",
        "interzone_agent_runs_total{agent=\"demo\",outcome=\"completed\"} 1",
        "interzone_agent_run_duration_seconds_sum{agent=\"demo\"} 2.0",
        "interzone_audit_lines_dropped_total 1",
        "interzone_request_log_dropped_total 3",
        "interzone_connections 1",
        "interzone_watchers{kind=\"sse\"} 2",
        "interzone_build_info{version=\"1.2.3\",commit=\"abc1234\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    drop((connection, watchers));
    let text = metrics.encode();
    assert!(text.contains("interzone_connections 0\n"), "{text}");
    assert!(
        text.contains("interzone_watchers{kind=\"sse\"} 0\n"),
        "{text}"
    );
}
