//! The first text: from a signed event, sent, to the call by which words stand in the thread. What Slack
//! itself takes for its calls is what the playground takes, which is next to nothing.

use crate::event::Kind;
use crate::millis;
use crate::place::{PEOPLE, Place};
use crate::sender::Sender;
use interzone_bench::bars::{bar, exceeded_by};
use interzone_playground::{Call, Workspace};
use std::time::Duration;

/// As long as one question may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Questions at once, when there are several.
const AT_ONCE: usize = 4;
/// The calls by which a first text comes.
const TEXTS: [&str; 2] = ["chat.startStream", "chat.postMessage"];

pub(crate) async fn measure(place: &Place, questions: usize) {
    let sender = Sender::open(place.verify.port, &place.tls, AT_ONCE).await;
    // So many that nobody asks often: the zone lets about one post a second into a channel.
    let people = questions.min(PEOPLE);
    println!("\n# first text");
    println!(
        "{:>16} {:>9} {:>9} {:>9} {:>9}",
        "", "questions", "median ms", "p99 ms", "most ms"
    );
    let mut unknown = Vec::new();
    for person in 0..people {
        unknown.push(ask(place, &sender, person).await);
    }
    report("strangers", unknown);

    let mut alone = Vec::new();
    for question in 0..questions {
        alone.push(ask(place, &sender, question % people).await);
    }
    let alone = report("one at a time", alone);

    // Each of them goes on with the next person when an answer is complete.
    let some = |asker: usize| {
        let sender = &sender;
        async move {
            let mut took = Vec::new();
            for question in (asker..questions).step_by(AT_ONCE) {
                took.push(ask(place, sender, question % people).await);
            }
            took
        }
    };
    let (one, two, three, four) = tokio::join!(some(0), some(1), some(2), some(3));
    let together = report("four at once", [one, two, three, four].concat());

    bar("first text, one at a time, median ms", alone, true, 25.0);
    bar("first text, four at once, median ms", together, true, 25.0);
}

/// Asks, waits until the answer is complete, and gives how long its first text took.
async fn ask(place: &Place, sender: &Sender, person: usize) -> Duration {
    let said = place.say(person, Kind::Dm);
    let request = place.signer.request(&said.event());
    let newest =
        |workspace: &Workspace| workspace.calls().next_back().map_or(0, |call| call.number);
    let (began, seen) = place
        .slack
        .look(|workspace| (workspace.now(), newest(workspace)));
    sender.send(&request).await;
    let of_this =
        |call: &&Call| TEXTS.contains(&call.method.as_str()) && call.arg("thread_ts") == said.ts;
    let first = |workspace: &Workspace| {
        let since = workspace
            .calls()
            .rev()
            .take_while(|call| call.number > seen);
        since.filter(of_this).last().map(|call| call.at)
    };
    let at = place.slack.wait(PATIENCE, first).await;
    let at = at.unwrap();
    assert!(place.over(std::slice::from_ref(&said), PATIENCE).await);
    assert_eq!(place.outcome(&[said]).once, 1, "the answer is another");
    at.saturating_sub(began)
}

/// Prints a line, and gives the median in milliseconds.
fn report(name: &str, mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let by = |percent| millis(exceeded_by(&took, percent).unwrap_or_default());
    let most = millis(took.last().copied().unwrap_or_default());
    println!(
        "{name:>16} {:>9} {:>9.2} {:>9.2} {most:>9.2}",
        took.len(),
        by(50),
        by(1)
    );
    by(50)
}
