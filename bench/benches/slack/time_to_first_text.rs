//! Time to first text: from a signed event until the call that posts the first text. The playground's Slack
//! API takes next to no time.

use crate::event::PostKind;
use crate::fixture::{SlackFixture, USERS};
use crate::millis;
use crate::sender::EventSender;
use interzone_bench::thresholds::{check_threshold, exceeded_by};
use interzone_playground::{ApiCall, Workspace};
use std::time::Duration;

/// Timeout of one question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of concurrent questions.
const CONCURRENCY: usize = 4;
/// Slack methods that post the first text.
const TEXT_METHODS: [&str; 2] = ["chat.startStream", "chat.postMessage"];

pub(crate) async fn measure(fixture: &SlackFixture, questions: usize) {
    let sender = EventSender::open(fixture.verification.port, &fixture.tls, CONCURRENCY).await;
    // So many users that none asks often: the zone posts about once a second per channel.
    let users = questions.min(USERS);
    println!("\n# first text");
    println!(
        "{:>16} {:>9} {:>9} {:>9} {:>9}",
        "", "questions", "median ms", "p99 ms", "max ms"
    );
    let mut first_contact = Vec::new();
    for user_index in 0..users {
        first_contact.push(time_to_first_text(fixture, &sender, user_index).await);
    }
    report("first contact", first_contact);

    let mut sequential = Vec::new();
    for question in 0..questions {
        sequential.push(time_to_first_text(fixture, &sender, question % users).await);
    }
    let sequential = report("one at a time", sequential);

    // Each asker continues with the next user when an answer is complete.
    let ask_share = |asker: usize| {
        let sender = &sender;
        async move {
            let mut took = Vec::new();
            for question in (asker..questions).step_by(CONCURRENCY) {
                took.push(time_to_first_text(fixture, sender, question % users).await);
            }
            took
        }
    };
    let (one, two, three, four) =
        tokio::join!(ask_share(0), ask_share(1), ask_share(2), ask_share(3));
    let concurrent = report("four at once", [one, two, three, four].concat());

    check_threshold(
        "first text, one at a time, median ms",
        sequential,
        true,
        25.0,
    );
    check_threshold(
        "first text, four at once, median ms",
        concurrent,
        true,
        25.0,
    );
}

/// Asks, waits until the answer is complete, and returns the time to its first text.
async fn time_to_first_text(
    fixture: &SlackFixture,
    sender: &EventSender,
    user_index: usize,
) -> Duration {
    let posted = fixture.post(user_index, PostKind::Dm);
    let request = fixture.signer.request(&posted.event());
    let newest =
        |workspace: &Workspace| workspace.calls().next_back().map_or(0, |call| call.number);
    let (start, last_call) = fixture
        .slack
        .inspect(|workspace| (workspace.now(), newest(workspace)));
    sender.send(&request).await;
    let is_first_text = |call: &&ApiCall| {
        TEXT_METHODS.contains(&call.method.as_str()) && call.arg("thread_ts") == posted.ts
    };
    let find_first = |workspace: &Workspace| {
        let new_calls = workspace
            .calls()
            .rev()
            .take_while(|call| call.number > last_call);
        new_calls.filter(is_first_text).last().map(|call| call.at)
    };
    let at = fixture.slack.wait_for(QUESTION_TIMEOUT, find_first).await;
    let at = at.unwrap();
    assert!(
        fixture
            .wait_until_finished(std::slice::from_ref(&posted), QUESTION_TIMEOUT)
            .await
    );
    assert_eq!(fixture.outcome(&[posted]).once, 1, "wrong answer");
    at.saturating_sub(start)
}

/// Prints a line and returns the median in milliseconds.
fn report(name: &str, mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let percentile = |percent| millis(exceeded_by(&took, percent).unwrap_or_default());
    let max = millis(took.last().copied().unwrap_or_default());
    println!(
        "{name:>16} {:>9} {:>9.2} {:>9.2} {max:>9.2}",
        took.len(),
        percentile(50),
        percentile(1)
    );
    percentile(50)
}
