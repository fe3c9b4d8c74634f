//! What is counted is in the text that Prometheus reads.

use super::*;

#[test]
fn everything_is_told_by_name() {
    let metrics = Metrics::new().of_build("1.2.3", "abc1234");
    metrics.request("tasks.get", "ok", 0.002);
    metrics.request("tasks.get", "ok", 0.002);
    metrics.turned_away("busy");
    metrics.handshake("ok");
    metrics.cut_off("frame_flood", 2);
    metrics.cut_off("stream_stalled", 0);
    metrics.rate_limited();
    metrics.auth_refused("expired");
    metrics.queue(3, 1);
    metrics.outbox(2, u64::MAX);
    metrics.webhook("delivered");
    metrics.agent_run("demo", "completed", Duration::from_secs(2));
    metrics.audit_dropped();
    metrics.pairs_dropped(3);
    let connection = metrics.connection();
    let watchers = (metrics.watcher("sse"), metrics.watcher("sse"));
    let text = metrics.encode();
    for line in [
        "interzone_requests_total{method=\"tasks.get\",outcome=\"ok\"} 2",
        "interzone_request_duration_seconds_count{method=\"tasks.get\"} 2",
        "interzone_request_duration_seconds_bucket{le=\"0.001\",method=\"tasks.get\"} 0",
        "interzone_request_duration_seconds_bucket{le=\"0.0025\",method=\"tasks.get\"} 2",
        "interzone_requests_turned_away_total{reason=\"busy\"} 1",
        "interzone_tls_handshakes_total{outcome=\"ok\"} 1",
        "interzone_cut_off_total{reason=\"frame_flood\"} 2",
        "interzone_rate_limited_total 1",
        "interzone_auth_refusals_total{reason=\"expired\"} 1",
        "interzone_queue{state=\"waiting\"} 3",
        "interzone_queue{state=\"held\"} 1",
        "interzone_outbox{state=\"waiting\"} 2",
        "interzone_outbox{state=\"dead\"} 9223372036854775807",
        "interzone_webhook_deliveries_total{outcome=\"delivered\"} 1",
        "interzone_agent_runs_total{agent=\"demo\",outcome=\"completed\"} 1",
        "interzone_agent_run_duration_seconds_sum{agent=\"demo\"} 2.0",
        "interzone_audit_lines_dropped_total 1",
        "interzone_pairs_dropped_total 3",
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
