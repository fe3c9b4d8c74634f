//! What changes while somebody looks: one reader for all who do. What happened is collected for a moment,
//! read once, written once, and told to everybody; whoever cannot keep up loads the page again.

use super::Console;
use super::guard::Visitor;
use super::layout::protect;
use super::names::Names;
use super::places::{Place, Places};
use super::samples::{EVERY, Figures};
use super::session::hash;
use super::words::{called, stream_called, stream_tone, tone};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::Secret;
use interzone_hub::ports::{Store, Wake};
use interzone_hub::{Hub, Stream, Subject, Task, TaskQuery};
use interzone_protocol::vocab::{StreamState, TaskState};
use serde::Serialize;
use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
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
/// How many changes are told at once; of more, the latest.
const MOST: usize = 60;
/// How many moments a viewer may fall behind.
const BEHIND: usize = 16;
/// How long nothing may be said.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long the store may take for a moment.
const STORE_TIME: Duration = Duration::from_secs(3);
/// Tokens are renewed so many seconds before they end.
const AHEAD: u64 = 60;

/// The states in which a task is not finished.
pub(super) const LIVE: [TaskState; 4] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

/// And those in which it is.
pub(super) const ENDED: [TaskState; 4] = [
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Rejected,
    TaskState::Canceled,
];

/// Those who look.
pub(super) struct Feed {
    tell: broadcast::Sender<Bytes>,
    places: Arc<Places>,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self {
            tell: broadcast::Sender::new(BEHIND),
            places: Arc::default(),
        }
    }

    fn has_viewers(&self) -> bool {
        self.tell.receiver_count() > 0
    }

    fn tell<T: Serialize>(&self, event: &str, what: &T) {
        if let Ok(json) = serde_json::to_string(what) {
            let line = format!("event: {event}\ndata: {json}\n\n");
            // An error means that nobody looks any more.
            let _ = self.tell.send(line.into());
        }
    }
}

/// How much there is of what an operator watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) submitted: u64,
    pub(super) working: u64,
    pub(super) waiting: u64,
    pub(super) queued: u64,
    pub(super) outgoing: u64,
    pub(super) dead: u64,
}

impl Counts {
    pub(super) async fn of(hub: &Hub) -> Result<Self, interzone_hub::ports::StoreError> {
        let store = hub.store();
        let count = async |states: &[TaskState]| store.count_tasks(&query(states, 1)).await;
        let (queued, _) = store.work_depth(hub.now()).await?;
        let (outgoing, dead) = store.outbox_depth().await?;
        Ok(Self {
            submitted: count(&[TaskState::Submitted]).await?,
            working: count(&[TaskState::Working]).await?,
            waiting: count(&[TaskState::InputRequired, TaskState::AuthRequired]).await?,
            queued,
            outgoing,
            dead,
        })
    }
}

/// Everybody's tasks in these states.
pub(super) fn query(states: &[TaskState], limit: usize) -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: states.to_vec(),
        agent: None,
        updated_since: None,
        after: None,
        limit,
    }
}

/// A row of a list, as the page's script needs it.
#[derive(Debug, Serialize)]
struct Row<'r> {
    id: &'r str,
    state: &'static str,
    tone: &'static str,
    live: bool,
    agent: &'r str,
    owner: String,
    owner_id: &'r str,
    created: String,
    updated: String,
}

#[derive(Serialize)]
struct Changes<'c> {
    tasks: Vec<Row<'c>>,
    streams: Vec<Row<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
}

fn task_row<'r>(names: &Names, task: &'r Task) -> Row<'r> {
    Row {
        id: task.id.as_str(),
        state: called(task.state),
        tone: tone(task.state),
        live: !task.state.is_terminal(),
        agent: task.agent.as_str(),
        owner: names.called(&task.owner),
        owner_id: task.owner.as_str(),
        created: task.created_at.to_string(),
        updated: task.updated_at.to_string(),
    }
}

fn stream_row<'r>(names: &Names, stream: &'r Stream) -> Row<'r> {
    Row {
        id: stream.id.as_str(),
        state: stream_called(stream.state),
        tone: stream_tone(stream.state),
        live: stream.state != StreamState::Closed,
        agent: "",
        owner: names.called(&stream.owner),
        owner_id: stream.owner.as_str(),
        created: stream.created_at.to_string(),
        updated: stream.updated_at.to_string(),
    }
}

/// What has changed since it was last told: each subject once, the latest last.
#[derive(Default)]
struct Changed {
    order: VecDeque<Subject>,
    known: HashSet<Subject>,
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
        }
    }

    fn take(&mut self) -> VecDeque<Subject> {
        self.known.clear();
        std::mem::take(&mut self.order)
    }
}

/// Looks, collects and tells until told to stop.
pub(super) async fn run(console: &Console, stop: &CancellationToken) {
    let store = console.zone.hub.store();
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
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                let now = Instant::now();
                if now >= sample_at {
                    sample_at = now + EVERY;
                    console.samples.look(Figures::read(&console.zone.metrics.encode()));
                    renew(console, stop).await;
                    console.feed.tell("sample", &());
                }
                if !console.feed.has_viewers() {
                    // Nobody looks, so nothing is collected.
                    (wakes, changed) = (None, Changed::default());
                    continue;
                }
                wakes.get_or_insert_with(|| store.wakes());
                let subjects = changed.take();
                let count = now >= count_at;
                if subjects.is_empty() && !count {
                    continue;
                }
                if count {
                    count_at = now + COUNTED;
                }
                let telling = timeout(STORE_TIME, tell(console, subjects, count));
                if stop.run_until_cancelled(telling).await.is_none() {
                    return;
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

async fn tell(console: &Console, subjects: VecDeque<Subject>, count: bool) {
    let hub = &console.zone.hub;
    let store: &dyn Store = hub.store().as_ref();
    let (mut tasks, mut streams) = (Vec::new(), Vec::new());
    for subject in subjects {
        match subject {
            Subject::Task(id) => tasks.extend(store.task(&id).await.ok().flatten()),
            Subject::Stream(id) => streams.extend(store.stream(&id).await.ok().flatten()),
        }
    }
    let counts = if count {
        Counts::of(hub).await.ok()
    } else {
        None
    };
    let names = &console.names;
    let changes = Changes {
        tasks: tasks.iter().map(|one| task_row(names, one)).collect(),
        streams: streams.iter().map(|one| stream_row(names, one)).collect(),
        counts,
    };
    console.feed.tell("changes", &changes);
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

struct Viewer {
    console: Arc<Console>,
    cookie: Secret,
    news: broadcast::Receiver<Bytes>,
    greeted: bool,
    /// None once another page has it.
    place: Option<Place>,
}

impl Viewer {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.greeted {
            self.greeted = true;
            return Some(Bytes::from_static(b"retry: 3000\n\n"));
        }
        let place = self.place.as_ref()?;
        let said = tokio::select! {
            biased;
            () = self.console.zone.stop.cancelled() => return None,
            () = place.given_away() => {
                // Said, and not just done: a browser whose stream ends comes back by itself, and would take
                // the place from the page that it was given to.
                self.place = None;
                return Some(Bytes::from_static(b"event: aside\ndata: {}\n\n"));
            }
            said = timeout(KEEP_ALIVE, self.news.recv()) => said,
        };
        // Somebody who signed out, or was sent away, hears nothing more.
        self.console.known(self.cookie.expose(), None, false)?;
        match said {
            Ok(Ok(said)) => Some(said),
            Ok(Err(RecvError::Lagged(_))) => {
                Some(Bytes::from_static(b"event: behind\ndata: {}\n\n"))
            }
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

/// `GET /console/events`.
pub(super) async fn events(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    let Some(place) = console.feed.places.take(hash(visitor.cookie.expose())) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let viewer = Viewer {
        news: console.feed.tell.subscribe(),
        console,
        cookie: visitor.cookie.clone(),
        greeted: false,
        place: Some(place),
    };
    let body = Body::from_stream(stream::unfold(viewer, |mut viewer| async {
        let said = viewer.next().await?;
        Some((Ok::<_, Infallible>(said), viewer))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that collect answers would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    protect(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::vocab::TaskId;

    #[test]
    fn changes_are_few_and_each_is_there_once() {
        let mut changed = Changed::default();
        let subject = |number: usize| Subject::Task(TaskId::new(format!("t{number}")).unwrap());
        for _ in 0..3 {
            changed.note(subject(0));
        }
        assert_eq!(changed.take(), [subject(0)]);
        for number in 0..1_000 {
            changed.note(subject(number));
        }
        let taken = changed.take();
        assert_eq!(taken.len(), MOST);
        assert_eq!(taken.back(), Some(&subject(999)));
        assert!(changed.take().is_empty());
    }
}
