//! Acknowledgement: 200 events a second, most of them for nobody here, as in a workspace where people talk.

use crate::event::{Kind, Said};
use crate::place::{PEOPLE, Place};
use crate::sender::Sender;
use crate::{millis, once, share};
use interzone_bench::bars::{bar, exceeded_by};
use std::time::{Duration, Instant};

/// Between two events.
const EVERY: Duration = Duration::from_millis(5);
const CONNECTIONS: usize = 16;
/// How long the answers may take after the last event.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn measure(place: &Place, time: Duration) {
    let count = usize::try_from(time.as_millis() / EVERY.as_millis()).unwrap();
    let (requests, questions) = mixed(place, count);
    let sender = Sender::open(place.verify.port, &place.tls, CONNECTIONS).await;
    let before = place.processor();
    let began = Instant::now();
    let waits = sender.pace(requests.into_iter(), EVERY).await;
    let rate = share(waits.len()) / began.elapsed().as_secs_f64();
    let after = place.processor();
    println!("\n# acknowledgement: {count} events, {rate:.0} a second");
    println!(
        "{:>12} {:>9} {:>9} {:>9}",
        "", "median ms", "p99 ms", "most ms"
    );
    let by = |percent| millis(exceeded_by(&waits, percent).unwrap_or_default());
    let most = waits.last().copied().unwrap_or_default();
    println!(
        "{:>12} {:>9.2} {:>9.2} {:>9.2}",
        "",
        by(50),
        by(1),
        millis(most)
    );
    let used = |zone: usize| (after.get(zone).unwrap() - before.get(zone).unwrap()) * 1e2;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{:>12} verify had {:.0}% and execute {:.0}% of a core, answering beside",
        "",
        used(0) / seconds,
        used(1) / seconds
    );
    bar("acknowledgement, p99 ms", by(1), true, 50.0);

    let rest = Instant::now();
    let all = place.over(&questions, PATIENCE).await;
    let took = rest.elapsed().as_secs_f64();
    match all {
        true => println!(
            "{:>12} the last answer came {took:.1} s after the last event",
            ""
        ),
        false => println!("{:>12} not all answers came within {took:.0} s", ""),
    }
    once::judge(place, &questions, "at 200 a second").await;
}

/// The events and the questions among them. In ten there are a DM, a mention with its twin, a repetition of
/// both questions, an edit, and four that are chatter.
fn mixed(place: &Place, count: usize) -> (Vec<Vec<u8>>, Vec<Said>) {
    let (mut requests, mut questions) = (Vec::new(), Vec::new());
    let signer = &place.signer;
    for round in 0..count.div_ceil(10) {
        let say = |kind, apart: usize| place.say(round + apart, kind);
        let (dm, mention) = (say(Kind::Dm, 0), say(Kind::Mention, PEOPLE / 2));
        let chatter: Vec<Said> = (1..5).map(|apart| say(Kind::Chatter, apart)).collect();
        requests.push(signer.request(&dm.event()));
        requests.push(signer.request(&mention.event()));
        requests.push(signer.request(&mention.twin()));
        requests.extend(chatter.iter().map(|one| signer.request(&one.event())));
        requests.extend(chatter.first().map(|one| signer.request(&one.changed())));
        requests.push(signer.again(&dm.event()));
        requests.push(signer.again(&mention.event()));
        questions.extend([dm, mention]);
    }
    (requests, questions)
}
