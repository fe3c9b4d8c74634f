//! What callers with good tokens feel while others attack the zone from one address.

use crate::attacks::{ATTACKS, Target};
use crate::mebibytes;
use crate::zone::{self, Zone, request};
use interzone_bench::bars::{bar, exceeded_by};
use interzone_bench::connection::Connection;
use interzone_bench::tls;
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const CALLERS: u32 = 1000;
/// How often each caller asks: 500 requests a second in all.
const PERIOD: Duration = Duration::from_secs(2);
/// Of so many requests one has a body of 100 KB and one has an answer of 100 KB.
const LARGE_EVERY: u32 = 10;
const LARGE: usize = 100_000;
/// How long an attack lasts before anything is measured.
const BUILD_UP: Duration = Duration::from_secs(5);
/// Characters of the answers and events that attackers leave unread.
const UNREAD: usize = 12 * 1024 * 1024;

struct Figures {
    median: Duration,
    p99: Duration,
    errors: usize,
}

/// Measures the callers alone and under each attack.
pub(crate) async fn measure(folder: &Path, time: Duration) {
    let tls = tls::client(folder);
    println!("\n# {CALLERS} callers, 500 requests a second, while one address attacks");
    for attack in ATTACKS {
        if crate::argument("--attack").is_some_and(|only| only != format!("{attack:?}")) {
            continue;
        }
        // A zone of its own, so that nothing is left of the attack before.
        let zone = zone::start(folder).await;
        let attacker = zone.another_token(folder).await;
        let task = create(&zone, &tls, &attacker, &"x".repeat(UNREAD)).await;
        let mut streams = Vec::new();
        for _ in 0..24 {
            let text = "x".repeat(UNREAD);
            streams.push(zone.stream_with_chunk(&tls, &attacker, &text).await);
        }
        let target = Target {
            port: zone.server.port,
            tls: tls.clone(),
            authorization: format!("Bearer {attacker}"),
            task,
            filler: create(&zone, &tls, &attacker, &"x".repeat(LARGE)).await,
            streams,
        };
        let small = get(&create(&zone, &tls, &zone.token, "hello").await);
        let large = get(&create(&zone, &tls, &zone.token, &"x".repeat(LARGE)).await);
        // White space after the call is read and left alone.
        let padded = format!("{small}{}", " ".repeat(LARGE));
        let requests = [small, large, padded]
            .map(|call| request("POST", "/jsonrpc", Some(&zone.token), &call));
        let callers = open(zone.server.port, &tls).await;
        let (quiet, callers) = ask(callers, &requests, time).await;
        let rest = zone.server.resident();
        zone.server.forget_most();
        let running = attack.start(&target);
        tokio::time::sleep(BUILD_UP).await;
        let (attacked, callers) = ask(callers, &requests, time).await;
        drop(running);
        let above = mebibytes(zone.server.most().saturating_sub(rest));
        let ratio = attacked.p99.as_secs_f64() / quiet.p99.as_secs_f64();
        println!(
            "{:<18} quiet {:>7.2?} {:>8.2?}  attacked {:>7.2?} {:>8.2?} (median, p99)  ratio {ratio:>5.2}  errors {}  callers left {}  peak {above:.0} MiB above rest",
            attack.name(),
            quiet.median,
            quiet.p99,
            attacked.median,
            attacked.p99,
            quiet.errors + attacked.errors,
            callers.len(),
        );
        let name = attack.name();
        bar(&format!("{name}: p99 to quiet p99"), ratio, true, 2.0);
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        bar(
            &format!("{name}: errors"),
            attacked.errors as f64,
            true,
            0.0,
        );
        bar(&format!("{name}: MiB above rest"), above, true, 512.0);
    }
}

async fn open(port: u16, tls: &Arc<ClientConfig>) -> Vec<Connection> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(Connection::open(port, tls).await);
    }
    callers
}

/// Every caller asks by a timetable, whether its last answer was quick or not, and the wait counts from when it was
/// to ask. A caller whose connection is lost is gone, which is an error too.
async fn ask(
    callers: Vec<Connection>,
    requests: &[Arc<[u8]>; 3],
    time: Duration,
) -> (Figures, Vec<Connection>) {
    let began = Instant::now() + Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for (number, mut connection) in (0..CALLERS).zip(callers) {
        let requests = requests.clone();
        tasks.spawn(async move {
            let (mut waits, mut errors) = (Vec::new(), 0);
            let mut due = began + PERIOD * number / CALLERS;
            let mut count = number;
            while due < began + time {
                tokio::time::sleep_until(due).await;
                let [small, large, padded] = &requests;
                let request = match count % LARGE_EVERY {
                    0 => large,
                    1 => padded,
                    _ => small,
                };
                let (status, _) = connection.try_ask(request).await.ok()?;
                errors += usize::from(status != 200);
                waits.push(due.elapsed());
                due += PERIOD;
                count += 1;
            }
            Some((waits, errors, connection))
        });
    }
    let (mut waits, mut errors, mut left) = (Vec::new(), 0, Vec::new());
    while let Some(done) = tasks.join_next().await {
        match done.unwrap() {
            Some((more, failed, connection)) => {
                waits.extend(more);
                errors += failed;
                left.push(connection);
            }
            None => errors += 1,
        }
    }
    waits.sort_unstable();
    let by = |percent: usize| exceeded_by(&waits, percent).unwrap_or(time);
    let figures = Figures {
        median: by(50),
        p99: by(1),
        errors,
    };
    (figures, left)
}

/// The call that reads a task with its messages.
pub(crate) fn get(task: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"1","method":"tasks.get","params":{{"taskId":"{task}","includeMessages":true}}}}"#
    )
}

/// Creates a task and gives its id.
async fn create(zone: &Zone, tls: &Arc<ClientConfig>, token: &str, text: &str) -> String {
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"1","method":"tasks.create","params":{{"initialMessage":{{"role":"user","parts":[{{"type":"TextPart","content":"wait 500 {text}"}}]}},"assignTo":"quiet"}}}}"#
    );
    let mut connection = Connection::open(zone.server.port, tls).await;
    let (status, answer) = connection
        .ask(&request("POST", "/jsonrpc", Some(token), &call))
        .await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(answer));
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap();
    let id = answer.pointer("/result/task/taskId");
    id.and_then(serde_json::Value::as_str).unwrap().to_owned()
}
