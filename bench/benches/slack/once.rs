//! Exactly once: 30,000 questions an hour, some of them told twice, and what came of every one.

use crate::event::{Kind, Said};
use crate::place::{PEOPLE, Place};
use crate::sender::Sender;
use crate::{millis, share};
use interzone_bench::bars::{bar, exceeded_by};
use interzone_bench::table::grouped;
use std::time::{Duration, Instant};

/// Between two questions, at 30,000 an hour.
const EVERY: Duration = Duration::from_millis(120);
const CONNECTIONS: usize = 4;
/// How long the answers may take after the last event.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(place: &Place, time: Duration) {
    let count = usize::try_from(time.as_millis() / EVERY.as_millis()).unwrap();
    let sender = Sender::open(place.verify.port, &place.tls, CONNECTIONS).await;
    let (mut questions, mut more) = (Vec::new(), tokio::task::JoinSet::new());
    let began = Instant::now();
    // Two in three ask in a DM, each in another than before, and one in a channel.
    let requests = (0..count).map(|question| {
        let kind = if question % 3 == 2 {
            Kind::Mention
        } else {
            Kind::Dm
        };
        let said = place.say(question % PEOPLE, kind);
        let first = place.signer.request(&said.event());
        // Slack tells of a mention twice, and some of the rest it repeats.
        let again = match kind {
            Kind::Mention => Some(place.signer.request(&said.twin())),
            _ if question % 10 == 0 => Some(place.signer.again(&said.event())),
            _ => None,
        };
        if let Some(again) = again {
            let sender = sender.clone();
            more.spawn(async move { sender.send(&again).await });
        }
        while more.try_join_next().is_some() {}
        questions.push(said);
        first
    });
    let waits = sender.pace(requests, EVERY).await;
    let seconds = began.elapsed().as_secs_f64();
    more.join_all().await;
    let hour = share(count) / seconds * 3600.0;
    println!("\n# exactly once: {count} questions in {seconds:.0} s, {hour:.0} an hour");
    let by = |percent| millis(exceeded_by(&waits, percent).unwrap_or_default());
    println!(
        "{:>12} acknowledged: median {:.2} ms, p99 {:.2} ms",
        "",
        by(50),
        by(1)
    );
    let used = place.processor();
    let each = |zone: usize| used.get(zone).unwrap() * 1e3 / share(count);
    println!(
        "{:>12} processor for a question: verify {:.1} ms, execute {:.1} ms",
        "",
        each(0),
        each(1)
    );
    if !place.over(&questions, PATIENCE).await {
        println!(
            "{:>12} not all answers came within {} s",
            "",
            PATIENCE.as_secs()
        );
    }
    judge(place, &questions, "at 30,000 an hour").await;
}

/// Says what came of the questions, when nothing more comes.
pub(crate) async fn judge(place: &Place, questions: &[Said], when: &str) {
    place.quiet().await;
    let outcome = place.outcome(questions);
    println!(
        "{:>12} {} answered once, {} lost, {} failed, {} doubled, {} uncalled for",
        "",
        grouped(u64::try_from(outcome.once).unwrap()),
        outcome.lost,
        outcome.failed,
        outcome.doubled,
        outcome.uncalled
    );
    let (lost, doubled) = (
        outcome.lost + outcome.failed,
        outcome.doubled + outcome.uncalled,
    );
    bar(&format!("lost {when}"), share(lost), true, 0.0);
    bar(&format!("doubled {when}"), share(doubled), true, 0.0);
}
