//! Admission and eviction of uploads, and that no counter leaks.

use super::*;
use crate::budget::Shares;
use crate::listener::conn_registry::{ConnRegistry, Registration};
use std::task::Waker;

struct TestUpload {
    upload: PendingUpload,
    unanswered: UnansweredUpload,
    registration: Registration,
}

impl TestUpload {
    fn begin(admission: &Arc<Admission>, address: &str) -> Self {
        let registration = ConnRegistry::new().register();
        let address = AddressPrefix::from_address(address.parse().unwrap());
        let upload = admission.begin_upload(address, registration.conn());
        Self {
            unanswered: UnansweredUpload(upload.clone()),
            upload,
            registration,
        }
    }

    fn rejection(&self) -> Option<RejectReason> {
        let cx = Context::from_waker(Waker::noop());
        self.unanswered.rejection(&cx)
    }

    fn may_read(&self) -> Poll<Result<(), UploadAborted>> {
        let mut cx = Context::from_waker(Waker::noop());
        self.upload.poll_may_read(&mut cx)
    }
}

fn admission(requests: usize, receiving_requests: usize) -> Arc<Admission> {
    Admission::new(&HttpLimits {
        requests,
        receiving_requests,
        shares: Shares {
            address: 2,
            principal: 2,
        },
        ..HttpLimits::default()
    })
}

#[test]
fn oldest_upload_of_an_address_is_evicted() {
    let admission = admission(1, 4);
    let other = TestUpload::begin(&admission, "10.0.0.2");
    let senders: Vec<TestUpload> = (0..3)
        .map(|_| TestUpload::begin(&admission, "10.0.0.1"))
        .collect();
    let ended: Vec<bool> = senders
        .iter()
        .map(|upload| upload.rejection() == Some(RejectReason::TooManyUploads))
        .collect();
    assert_eq!(ended, [true, false, false]);
    assert_eq!(other.rejection(), None);
    assert!(senders[0].may_read().is_pending(), "its handler waits");
    assert!(matches!(senders[1].may_read(), Poll::Ready(Ok(()))));
}

#[test]
fn oldest_upload_is_evicted_when_the_total_is_full() {
    let admission = admission(1, 4);
    let senders: Vec<TestUpload> = (1..=5)
        .map(|n| TestUpload::begin(&admission, &format!("10.0.0.{n}")))
        .collect();
    assert!(senders[0].rejection().is_some());
    assert!(senders[1..].iter().all(|it| it.rejection().is_none()));
}

#[test]
fn authenticated_upload_no_longer_counts_for_its_address() {
    let admission = admission(1, 4);
    let principal: Arc<str> = "someone".into();
    let first = TestUpload::begin(&admission, "10.0.0.1");
    assert!(!first.upload.is_crowded());
    first.upload.set_authenticated(&principal);
    let second = TestUpload::begin(&admission, "10.0.0.1");
    let third = TestUpload::begin(&admission, "10.0.0.1");
    assert!(third.upload.is_crowded(), "half of the share is taken");
    second.upload.set_authenticated(&principal);
    // The principal has its share, so this one keeps counting for the address.
    third.upload.set_authenticated(&principal);
    let fourth = TestUpload::begin(&admission, "10.0.0.1");
    let fifth = TestUpload::begin(&admission, "10.0.0.1");
    for (upload, ended) in [
        (first, false),
        (second, false),
        (third, true),
        (fourth, false),
        (fifth, false),
    ] {
        assert_eq!(upload.rejection().is_some(), ended);
    }
}

#[test]
fn request_is_in_flight_once_its_body_is_complete() {
    let admission = admission(1, 4);
    let sending = TestUpload::begin(&admission, "10.0.0.1");
    let work = admission.try_begin("/").unwrap();
    assert!(admission.try_begin("/").is_none());
    assert!(admission.try_begin("/readyz").is_some(), "health is extra");
    sending.upload.complete();
    assert_eq!(sending.rejection(), Some(RejectReason::Busy));
    drop((work, sending));
    let sending = TestUpload::begin(&admission, "10.0.0.1");
    sending.upload.complete();
    assert_eq!(sending.rejection(), None);
    assert!(admission.try_begin("/").is_none());
    drop(sending);
    assert!(admission.try_begin("/").is_some());
}

#[test]
fn upload_can_be_evicted_after_its_response() {
    let admission = admission(1, 2);
    let TestUpload {
        upload: sender,
        unanswered: answering,
        registration: entry,
    } = TestUpload::begin(&admission, "10.0.0.1");
    assert!(answering.is_body_unread());
    drop(answering);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(sender.poll_may_read(&mut cx), Poll::Ready(Ok(()))));
    let next = TestUpload::begin(&admission, "10.0.0.1");
    assert!(matches!(sender.poll_may_read(&mut cx), Poll::Ready(Err(_))));
    sender.complete();
    drop((sender, entry));
    next.upload.complete();
    drop(next);
    assert!(admission.try_begin("/").is_some(), "nothing stays counted");
    let senders = admission.lock();
    assert_eq!(senders.unauthenticated.len(), (0, 0));
    assert_eq!(senders.authenticated.len(), (0, 0));
}
