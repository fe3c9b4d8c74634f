//! What changes while somebody looks: one reader for all who do. What happened is collected for a moment,
//! read once, written once, and told to everybody; whoever cannot keep up loads the page again.

pub(super) mod counts;
mod moments;
mod rows;
pub(super) mod viewer;

use super::Console;
use super::places::Places;
use super::samples::{EVERY, Figures};
use counts::Counts;
use interzone_hub::Subject;
use interzone_hub::ports::{Store, StoreError, Wake};
use moments::Moments;
use rows::Changes;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

/// How long what happens is collected.
const MOMENT: Duration = Duration::from_millis(500);
/// How often it is counted how much there is of everything.
const COUNTED: Duration = Duration::from_secs(2);
/// How many changes are told at once; of more, the latest, and that there were more.
const MOST: usize = 250;
/// How long the store may take for a moment.
const STORE_TIME: Duration = Duration::from_secs(3);
/// Tokens are renewed so many seconds before they end.
const AHEAD: u64 = 60;

/// Those who look.
pub(super) struct Feed {
    moments: Moments,
    places: Arc<Places>,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self {
            moments: Moments::new(),
            places: Arc::default(),
        }
    }

    /// What a page carries, so that it is told what changes after it is made. To be asked before anything
    /// is read for the page.
    pub(super) fn mark(&self, store: &dyn Store) -> u64 {
        self.moments.mark(store)
    }
}

/// What has changed since it was last told: each subject once, the latest last.
#[derive(Default)]
struct Changed {
    order: VecDeque<Subject>,
    known: HashSet<Subject>,
    /// Whether there was more than is known here.
    more: bool,
}

impl Changed {
    fn note(&mut self, subject: Subject) {
        if !self.known.insert(subject.clone()) {
            return;
        }
        self.order.push_back(subject);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
            self.more = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && !self.more
    }
}

/// Looks, collects and tells until told to stop.
pub(super) async fn run(console: &Console, stop: &CancellationToken) {
    let moments = &console.feed.moments;
    let mut tick = interval(MOMENT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wakes = None;
    let mut changed = Changed::default();
    let mut sample_at = Instant::now();
    let mut count_at = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            wake = heard(&mut wakes) => match wake {
                Ok(Wake::Subject(subject, _)) => changed.note(subject),
                Ok(Wake::Everything) | Err(RecvError::Lagged(_)) => changed.more = true,
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                let now = Instant::now();
                if now >= sample_at {
                    sample_at = now + EVERY;
                    console.samples.look(Figures::read(&console.zone.metrics.encode()));
                    renew(console, stop).await;
                    moments.mention("event: sample\ndata: null\n\n");
                }
                if !moments.is_wanted() {
                    // Nobody looks, so nothing is collected.
                    (wakes, changed) = (None, Changed::default());
                    continue;
                }
                // What a page has left here since it was made comes first, at the next round.
                wakes = moments.take_wakes().or(wakes);
                let count = now >= count_at;
                if changed.is_empty() && !count {
                    continue;
                }
                if count {
                    count_at = now + COUNTED;
                }
                let telling = timeout(STORE_TIME, tell(console, std::mem::take(&mut changed), count));
                match stop.run_until_cancelled(telling).await {
                    None => return,
                    Some(Ok(Ok(()))) => {}
                    // Whoever looks must hear that there was something.
                    Some(Ok(Err(_)) | Err(_)) => changed.more = true,
                }
            }
        }
    }
}

async fn heard(wakes: &mut Option<broadcast::Receiver<Wake>>) -> Result<Wake, RecvError> {
    match wakes {
        Some(wakes) => wakes.recv().await,
        None => std::future::pending().await,
    }
}

async fn tell(console: &Console, changed: Changed, count: bool) -> Result<(), StoreError> {
    let hub = &console.zone.hub;
    let store: &dyn Store = hub.store().as_ref();
    let (mut tasks, mut streams) = (Vec::new(), Vec::new());
    for subject in changed.order {
        match subject {
            Subject::Task(id) => tasks.extend(store.task(&id).await?),
            Subject::Stream(id) => streams.extend(store.stream(&id).await?),
        }
    }
    let mut changes = Changes::of(&console.names, &tasks, &streams);
    changes.more = changed.more;
    if count {
        changes.counts = Some(Counts::of(hub).await?);
    }
    if let Ok(json) = serde_json::to_string(&changes) {
        console.feed.moments.tell("changes", &json);
    }
    Ok(())
}

/// Renews the tokens of those who are signed in and whose tokens end soon. A token that cannot be renewed
/// ends the session.
async fn renew(console: &Console, stop: &CancellationToken) {
    let Some(sign_in) = &console.sign_in else {
        return;
    };
    let now = console.zone.hub.now().as_millis() / 1_000;
    let before = u64::try_from(now).unwrap_or(0).saturating_add(AHEAD);
    for (key, proof) in console.sessions.ending(before) {
        let renewing = sign_in.renew(&console.zone, &proof);
        match stop.run_until_cancelled(renewing).await {
            None => return,
            Some(Ok(proof)) => console.sessions.renew(&key, Some(proof)),
            // The issuer may be back soon; until the token is over, it counts.
            Some(Err(super::code_flow::FlowError::Away)) => {}
            Some(Err(_)) => console.sessions.renew(&key, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::TaskId;

    #[test]
    fn changes_are_few_and_each_is_there_once() {
        let mut changed = Changed::default();
        let subject = |number: usize| Subject::Task(TaskId::new(format!("t{number}")).unwrap());
        assert!(changed.is_empty());
        for _ in 0..3 {
            changed.note(subject(0));
        }
        assert_eq!(changed.order, [subject(0)]);
        assert!(!changed.more && !changed.is_empty());
        for number in 0..1_000 {
            changed.note(subject(number));
        }
        let taken = std::mem::take(&mut changed);
        assert_eq!(taken.order.len(), MOST);
        assert_eq!(taken.order.back(), Some(&subject(999)));
        assert!(taken.more, "what was left out is not kept quiet");
        assert!(changed.is_empty());
    }
}
