//! Who is let in, who is ended for whom, and that nothing is left behind.

use super::*;
use crate::budget::Shares;
use crate::listener::pulse::{Entry, Pulses};
use std::task::Waker;

struct Sending {
    sender: Sender,
    answering: Answering,
    entry: Entry,
}

impl Sending {
    fn begin(admission: &Arc<Admission>, address: &str) -> Self {
        let entry = Pulses::new().enter();
        let address = AddressPrefix::from_address(address.parse().unwrap());
        let sender = admission.begin_sending(address, entry.pulse());
        Self {
            answering: Answering(sender.clone()),
            sender,
            entry,
        }
    }

    fn turned_away(&self) -> Option<TurnedAway> {
        let cx = Context::from_waker(Waker::noop());
        self.answering.turned_away(&cx)
    }

    fn reading(&self) -> Poll<Result<(), SenderEnded>> {
        let mut cx = Context::from_waker(Waker::noop());
        self.sender.poll_reading(&mut cx)
    }
}

fn admission(requests: usize, arriving: usize) -> Arc<Admission> {
    Admission::new(&HttpLimits {
        requests,
        arriving,
        shares: Shares {
            address: 2,
            principal: 2,
        },
        ..HttpLimits::default()
    })
}

#[test]
fn oldest_sender_of_an_address_is_ended_for_its_newest() {
    let admission = admission(1, 4);
    let other = Sending::begin(&admission, "10.0.0.2");
    let senders: Vec<Sending> = (0..3)
        .map(|_| Sending::begin(&admission, "10.0.0.1"))
        .collect();
    let ended: Vec<bool> = senders
        .iter()
        .map(|sender| sender.turned_away() == Some(TurnedAway::TooManyArriving))
        .collect();
    assert_eq!(ended, [true, false, false]);
    assert_eq!(other.turned_away(), None);
    assert!(senders[0].reading().is_pending(), "its handler waits");
    assert!(matches!(senders[1].reading(), Poll::Ready(Ok(()))));
}

#[test]
fn oldest_sender_of_all_is_ended_when_the_total_is_full() {
    let admission = admission(1, 4);
    let senders: Vec<Sending> = (1..=5)
        .map(|n| Sending::begin(&admission, &format!("10.0.0.{n}")))
        .collect();
    assert!(senders[0].turned_away().is_some());
    assert!(senders[1..].iter().all(|it| it.turned_away().is_none()));
}

#[test]
fn authenticated_sender_no_longer_counts_for_its_address() {
    let admission = admission(1, 4);
    let principal: Arc<str> = "someone".into();
    let first = Sending::begin(&admission, "10.0.0.1");
    assert!(!first.sender.is_crowded());
    first.sender.authenticated(&principal);
    let second = Sending::begin(&admission, "10.0.0.1");
    let third = Sending::begin(&admission, "10.0.0.1");
    assert!(third.sender.is_crowded(), "half of the share is taken");
    second.sender.authenticated(&principal);
    // The principal has its share, so this one goes on counting for the address.
    third.sender.authenticated(&principal);
    let fourth = Sending::begin(&admission, "10.0.0.1");
    let fifth = Sending::begin(&admission, "10.0.0.1");
    for (sender, ended) in [
        (first, false),
        (second, false),
        (third, true),
        (fourth, false),
        (fifth, false),
    ] {
        assert_eq!(sender.turned_away().is_some(), ended);
    }
}

#[test]
fn request_counts_as_work_once_its_body_is_there() {
    let admission = admission(1, 4);
    let sending = Sending::begin(&admission, "10.0.0.1");
    let work = admission.begin_work("/").unwrap();
    assert!(admission.begin_work("/").is_none());
    assert!(admission.begin_work("/readyz").is_some(), "health is apart");
    sending.sender.complete();
    assert_eq!(sending.turned_away(), Some(TurnedAway::Busy));
    drop((work, sending));
    let sending = Sending::begin(&admission, "10.0.0.1");
    sending.sender.complete();
    assert_eq!(sending.turned_away(), None);
    assert!(admission.begin_work("/").is_none());
    drop(sending);
    assert!(admission.begin_work("/").is_some());
}

#[test]
fn rest_of_an_answered_request_can_still_be_displaced() {
    let admission = admission(1, 2);
    let Sending {
        sender,
        answering,
        entry,
    } = Sending::begin(&admission, "10.0.0.1");
    assert!(answering.is_unread());
    drop(answering);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(sender.poll_reading(&mut cx), Poll::Ready(Ok(()))));
    let next = Sending::begin(&admission, "10.0.0.1");
    assert!(matches!(sender.poll_reading(&mut cx), Poll::Ready(Err(_))));
    sender.complete();
    drop((sender, entry));
    next.sender.complete();
    drop(next);
    assert!(admission.begin_work("/").is_some(), "nothing stays counted");
    let senders = admission.lock();
    assert_eq!(senders.unauthenticated.len(), (0, 0));
    assert_eq!(senders.authenticated.len(), (0, 0));
}
