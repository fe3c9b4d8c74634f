//! Exactly-once answers at 30,000 questions an hour, some of them delivered twice.

use crate::event::{PostKind, PostedMessage};
use crate::fixture::{SlackFixture, USERS};
use crate::sender::EventSender;
use crate::{millis, to_f64};
use interzone_bench::table::format_thousands;
use interzone_bench::thresholds::{check_threshold, exceeded_by};
use std::time::{Duration, Instant};

/// Interval between questions, at 30,000 an hour.
const QUESTION_INTERVAL: Duration = Duration::from_millis(120);
const CONNECTIONS: usize = 4;
/// Timeout for the answers after the last event.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) async fn measure(fixture: &SlackFixture, time: Duration) {
    let count = usize::try_from(time.as_millis() / QUESTION_INTERVAL.as_millis()).unwrap();
    let sender = EventSender::open(fixture.verification.port, &fixture.tls, CONNECTIONS).await;
    let (mut questions, mut repeats) = (Vec::new(), tokio::task::JoinSet::new());
    let start = Instant::now();
    // Two thirds are direct messages, each from another user than before, one third mentions.
    let requests = (0..count).map(|question| {
        let kind = if question % 3 == 2 {
            PostKind::Mention
        } else {
            PostKind::Dm
        };
        let posted = fixture.post(question % USERS, kind);
        let first = fixture.signer.request(&posted.event());
        // Slack sends two events for a mention, and retries some of the others.
        let repeat = match kind {
            PostKind::Mention => Some(fixture.signer.request(&posted.duplicate_event())),
            _ if question % 10 == 0 => Some(fixture.signer.retry_request(&posted.event())),
            _ => None,
        };
        if let Some(again) = repeat {
            let sender = sender.clone();
            repeats.spawn(async move { sender.send(&again).await });
        }
        while repeats.try_join_next().is_some() {}
        questions.push(posted);
        first
    });
    let waits = sender.send_at_interval(requests, QUESTION_INTERVAL).await;
    let seconds = start.elapsed().as_secs_f64();
    repeats.join_all().await;
    let per_hour = to_f64(count) / seconds * 3600.0;
    println!("\n# exactly once: {count} questions in {seconds:.0} s, {per_hour:.0} an hour");
    let percentile = |percent| millis(exceeded_by(&waits, percent).unwrap_or_default());
    println!(
        "{:>12} acknowledged: median {:.2} ms, p99 {:.2} ms",
        "",
        percentile(50),
        percentile(1)
    );
    let used = fixture.cpu_seconds();
    let cpu_per_question = |zone: usize| used.get(zone).unwrap() * 1e3 / to_f64(count);
    println!(
        "{:>12} CPU per question: verification {:.1} ms, execution {:.1} ms",
        "",
        cpu_per_question(0),
        cpu_per_question(1)
    );
    if !fixture
        .wait_until_finished(&questions, ANSWER_TIMEOUT)
        .await
    {
        println!(
            "{:>12} not all answered within {} s",
            "",
            ANSWER_TIMEOUT.as_secs()
        );
    }
    check_outcome(fixture, &questions, "at 30,000 an hour").await;
}

/// Prints and checks the outcome of the questions once no more calls arrive.
pub(crate) async fn check_outcome(fixture: &SlackFixture, questions: &[PostedMessage], when: &str) {
    fixture.wait_until_quiet().await;
    let outcome = fixture.outcome(questions);
    println!(
        "{:>12} {} answered once, {} lost, {} failed, {} duplicated, {} unsolicited",
        "",
        format_thousands(u64::try_from(outcome.once).unwrap()),
        outcome.lost,
        outcome.failed,
        outcome.duplicated,
        outcome.unsolicited
    );
    let (lost, doubled) = (
        outcome.lost + outcome.failed,
        outcome.duplicated + outcome.unsolicited,
    );
    check_threshold(&format!("lost {when}"), to_f64(lost), true, 0.0);
    check_threshold(&format!("duplicated {when}"), to_f64(doubled), true, 0.0);
}
