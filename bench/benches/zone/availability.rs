//! Latency of legitimate callers while the zone is attacked from one address.

use crate::attacks::{ATTACKS, AttackTarget};
use crate::mebibytes;
use crate::zone_process::{self, ZoneProcess, request};
use interzone_bench::connection::Connection;
use interzone_bench::thresholds::{check_threshold, exceeded_by};
use interzone_bench::tls;
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const CALLERS: u32 = 1000;
/// Interval of each caller's requests: 500 requests a second in total.
const PERIOD: Duration = Duration::from_secs(2);
/// One request in this many has a body of 100 KB, and one a response of 100 KB.
const LARGE_EVERY: u32 = 10;
const LARGE: usize = 100_000;
/// Duration of an attack before the measurement.
const BUILD_UP: Duration = Duration::from_secs(5);
/// Size in characters of the responses and events that attackers leave unread.
const UNREAD_SIZE: usize = 12 * 1024 * 1024;

struct CallerStats {
    median: Duration,
    p99: Duration,
    errors: usize,
}

/// Measures the callers alone and under each attack.
pub(crate) async fn measure(folder: &Path, time: Duration) {
    let tls = tls::client_config(folder);
    println!("\n# {CALLERS} callers, 500 requests a second, while one address attacks");
    for attack in ATTACKS {
        if crate::argument("--attack").is_some_and(|only| only != format!("{attack:?}")) {
            continue;
        }
        // A fresh zone for each attack.
        let zone = zone_process::start(folder).await;
        let attacker = zone.token_of_new_client(folder).await;
        let task = create(&zone, &tls, &attacker, &"x".repeat(UNREAD_SIZE)).await;
        let mut streams = Vec::new();
        for _ in 0..24 {
            let text = "x".repeat(UNREAD_SIZE);
            streams.push(zone.start_stream_with_chunk(&tls, &attacker, &text).await);
        }
        let target = AttackTarget {
            port: zone.server.port,
            tls: tls.clone(),
            authorization: format!("Bearer {attacker}"),
            task,
            filler: create(&zone, &tls, &attacker, &"x".repeat(LARGE)).await,
            streams,
        };
        let small = get_call(&create(&zone, &tls, &zone.token, "hello").await);
        let large = get_call(&create(&zone, &tls, &zone.token, &"x".repeat(LARGE)).await);
        // White space after the call is read and ignored.
        let padded = format!("{small}{}", " ".repeat(LARGE));
        let requests = [small, large, padded]
            .map(|call| request("POST", "/jsonrpc", Some(&zone.token), &call));
        let callers = open(zone.server.port, &tls).await;
        let (quiet, callers) = run_callers(callers, &requests, time).await;
        let idle_memory = zone.server.resident_bytes();
        zone.server.reset_peak();
        let running = attack.start(&target);
        tokio::time::sleep(BUILD_UP).await;
        let (attacked, callers) = run_callers(callers, &requests, time).await;
        drop(running);
        let above = mebibytes(
            zone.server
                .peak_resident_bytes()
                .saturating_sub(idle_memory),
        );
        let ratio = attacked.p99.as_secs_f64() / quiet.p99.as_secs_f64();
        println!(
            "{:<18} quiet {:>7.2?} {:>8.2?}  attacked {:>7.2?} {:>8.2?} (median, p99)  ratio {ratio:>5.2}  errors {}  callers left {}  peak {above:.0} MiB above idle",
            attack.name(),
            quiet.median,
            quiet.p99,
            attacked.median,
            attacked.p99,
            quiet.errors + attacked.errors,
            callers.len(),
        );
        let name = attack.name();
        check_threshold(&format!("{name}: p99 to quiet p99"), ratio, true, 2.0);
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        check_threshold(
            &format!("{name}: errors"),
            attacked.errors as f64,
            true,
            0.0,
        );
        check_threshold(&format!("{name}: MiB above idle"), above, true, 512.0);
    }
}

async fn open(port: u16, tls: &Arc<ClientConfig>) -> Vec<Connection> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(Connection::open(port, tls).await);
    }
    callers
}

/// Every caller sends on a fixed schedule, regardless of its last response, and latency counts from the
/// scheduled time. A lost connection counts as an error and removes the caller.
async fn run_callers(
    callers: Vec<Connection>,
    requests: &[Arc<[u8]>; 3],
    time: Duration,
) -> (CallerStats, Vec<Connection>) {
    let start = Instant::now() + Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for (number, mut connection) in (0..CALLERS).zip(callers) {
        let requests = requests.clone();
        tasks.spawn(async move {
            let (mut waits, mut errors) = (Vec::new(), 0);
            let mut due = start + PERIOD * number / CALLERS;
            let mut request_number = number;
            while due < start + time {
                tokio::time::sleep_until(due).await;
                let [small, large, padded] = &requests;
                let request = match request_number % LARGE_EVERY {
                    0 => large,
                    1 => padded,
                    _ => small,
                };
                let (status, _) = connection.try_request(request).await.ok()?;
                errors += usize::from(status != 200);
                waits.push(due.elapsed());
                due += PERIOD;
                request_number += 1;
            }
            Some((waits, errors, connection))
        });
    }
    let (mut waits, mut errors, mut remaining) = (Vec::new(), 0, Vec::new());
    while let Some(done) = tasks.join_next().await {
        match done.unwrap() {
            Some((caller_waits, failed, connection)) => {
                waits.extend(caller_waits);
                errors += failed;
                remaining.push(connection);
            }
            None => errors += 1,
        }
    }
    waits.sort_unstable();
    let percentile = |percent: usize| exceeded_by(&waits, percent).unwrap_or(time);
    let stats = CallerStats {
        median: percentile(50),
        p99: percentile(1),
        errors,
    };
    (stats, remaining)
}

/// Body of a `tasks.get` call with messages.
pub(crate) fn get_call(task: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"1","method":"tasks.get","params":{{"taskId":"{task}","includeMessages":true}}}}"#
    )
}

/// Creates a task and returns its id.
async fn create(zone: &ZoneProcess, tls: &Arc<ClientConfig>, token: &str, text: &str) -> String {
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"1","method":"tasks.create","params":{{"initialMessage":{{"role":"user","parts":[{{"type":"TextPart","content":"wait 500 {text}"}}]}},"assignTo":"quiet"}}}}"#
    );
    let mut connection = Connection::open(zone.server.port, tls).await;
    let (status, response) = connection
        .request(&request("POST", "/jsonrpc", Some(token), &call))
        .await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(response));
    let response: serde_json::Value = serde_json::from_slice(response).unwrap();
    let id = response.pointer("/result/task/taskId");
    id.and_then(serde_json::Value::as_str).unwrap().to_owned()
}
