//! Acknowledgement latency at 200 events a second, most of them not for the bot, as in a busy workspace.

use crate::event::{PostKind, PostedMessage};
use crate::fixture::{SlackFixture, USERS};
use crate::sender::EventSender;
use crate::{exactly_once, millis, to_f64};
use interzone_bench::thresholds::{check_threshold, exceeded_by};
use std::time::{Duration, Instant};

/// Interval between events.
const EVENT_INTERVAL: Duration = Duration::from_millis(5);
const CONNECTIONS: usize = 16;
/// Timeout for the answers after the last event.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) async fn measure(fixture: &SlackFixture, time: Duration) {
    let count = usize::try_from(time.as_millis() / EVENT_INTERVAL.as_millis()).unwrap();
    let (requests, questions) = mixed_events(fixture, count);
    let sender = EventSender::open(fixture.verification.port, &fixture.tls, CONNECTIONS).await;
    let before = fixture.cpu_seconds();
    let start = Instant::now();
    let waits = sender
        .send_at_interval(requests.into_iter(), EVENT_INTERVAL)
        .await;
    let rate = to_f64(waits.len()) / start.elapsed().as_secs_f64();
    let after = fixture.cpu_seconds();
    println!("\n# acknowledgement: {count} events, {rate:.0} a second");
    println!(
        "{:>12} {:>9} {:>9} {:>9}",
        "", "median ms", "p99 ms", "max ms"
    );
    let percentile = |percent| millis(exceeded_by(&waits, percent).unwrap_or_default());
    let max = waits.last().copied().unwrap_or_default();
    println!(
        "{:>12} {:>9.2} {:>9.2} {:>9.2}",
        "",
        percentile(50),
        percentile(1),
        millis(max)
    );
    let cpu_percent = |zone: usize| (after.get(zone).unwrap() - before.get(zone).unwrap()) * 1e2;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:>12} CPU: verification {:.0}%, execution {:.0}% of a core, including answers",
        "",
        cpu_percent(0) / seconds,
        cpu_percent(1) / seconds
    );
    check_threshold("acknowledgement, p99 ms", percentile(1), true, 50.0);

    let last_event = Instant::now();
    let all_answered = fixture
        .wait_until_finished(&questions, ANSWER_TIMEOUT)
        .await;
    let took = last_event.elapsed().as_secs_f64();
    match all_answered {
        true => println!("{:>12} last answer {took:.1} s after the last event", ""),
        false => println!("{:>12} not all answered within {took:.0} s", ""),
    }
    exactly_once::check_outcome(fixture, &questions, "at 200/s").await;
}

/// Events and the questions among them. Ten events are: a DM, a mention with its duplicate event, a retry of
/// both questions, an edit, and four unrelated messages.
fn mixed_events(fixture: &SlackFixture, count: usize) -> (Vec<Vec<u8>>, Vec<PostedMessage>) {
    let (mut requests, mut questions) = (Vec::new(), Vec::new());
    let signer = &fixture.signer;
    for round in 0..count.div_ceil(10) {
        let post = |kind, offset: usize| fixture.post(round + offset, kind);
        let (dm, mention) = (post(PostKind::Dm, 0), post(PostKind::Mention, USERS / 2));
        let unrelated: Vec<PostedMessage> = (1..5)
            .map(|offset| post(PostKind::Unrelated, offset))
            .collect();
        requests.push(signer.request(&dm.event()));
        requests.push(signer.request(&mention.event()));
        requests.push(signer.request(&mention.duplicate_event()));
        requests.extend(
            unrelated
                .iter()
                .map(|message| signer.request(&message.event())),
        );
        requests.extend(
            unrelated
                .first()
                .map(|message| signer.request(&message.edit_event())),
        );
        requests.push(signer.retry_request(&dm.event()));
        requests.push(signer.retry_request(&mention.event()));
        questions.extend([dm, mention]);
    }
    (requests, questions)
}
