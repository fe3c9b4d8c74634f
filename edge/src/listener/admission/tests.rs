//! Admission and eviction of uploads, and that no counter leaks.

use super::*;
use crate::budget::Shares;
use crate::listener::addresses::AddressTable;
use crate::listener::conn_registry::{ConnRegistry, ConnectionHandle, Registration};
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
        let upload = admission.begin_upload(address, registration.conn(), 0);
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

/// Begins a request without a body on a connection of no particular address.
fn try_begin(admission: &Arc<Admission>, path: &str) -> Option<WorkPermit> {
    admission.try_begin(path, ConnRegistry::new().register().conn())
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
    let work = try_begin(&admission, "/").unwrap();
    assert!(try_begin(&admission, "/").is_none());
    assert!(
        try_begin(&admission, "/readyz").is_some(),
        "health is extra"
    );
    sending.upload.complete();
    assert_eq!(sending.rejection(), Some(RejectReason::Busy));
    drop((work, sending));
    let sending = TestUpload::begin(&admission, "10.0.0.1");
    sending.upload.complete();
    assert_eq!(sending.rejection(), None);
    assert!(try_begin(&admission, "/").is_none());
    drop(sending);
    assert!(try_begin(&admission, "/").is_some());
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
    assert!(
        try_begin(&admission, "/").is_some(),
        "nothing stays counted"
    );
    let senders = admission.lock();
    assert_eq!(senders.unauthenticated.len(), (0, 0));
    assert_eq!(senders.authenticated.len(), (0, 0));
}

#[test]
fn body_bytes_of_an_address_evict_its_oldest_upload() {
    let admission = admission(1, 32);
    let other = TestUpload::begin(&admission, "10.0.0.2");
    let uploads: Vec<TestUpload> = (0..9)
        .map(|_| TestUpload::begin(&admission, "10.0.0.1"))
        .collect();
    // Eight of these nearly fill the share.
    let bytes = 52 * 1024;
    for upload in &uploads[..8] {
        upload.upload.consume(bytes, false);
    }
    assert!(uploads.iter().all(|it| it.rejection().is_none()));
    let crowded = TestUpload::begin(&admission, "10.0.0.1");
    assert!(crowded.upload.is_crowded());
    uploads[8].upload.consume(bytes, false);
    let evicted: Vec<bool> = uploads.iter().map(|it| it.rejection().is_some()).collect();
    assert_eq!(evicted.iter().filter(|&&it| it).count(), 1);
    assert!(evicted[0]);
    assert_eq!(other.rejection(), None);
}

#[test]
fn tiny_chunks_and_headers_count_with_their_overhead() {
    let admission = admission(1, 32);
    let upload = TestUpload::begin(&admission, "10.0.0.1");
    for _ in 0..900 {
        upload.upload.consume(1, false);
    }
    let charged = upload.upload.0.charged.load(Ordering::Relaxed);
    assert_eq!(charged, MAX_CHARGE);
    let address = AddressPrefix::from_address([10, 0, 0, 1].into());
    let conn = upload.registration.conn();
    let headers = admission.begin_upload(address, conn, 100 * 1024);
    assert!(headers.0.charged.load(Ordering::Relaxed) > 100 * 1024);
}

#[test]
fn bytes_of_ended_and_authenticated_uploads_are_released() {
    let admission = admission(1, 32);
    let principal: Arc<str> = "someone".into();
    let ended = TestUpload::begin(&admission, "10.0.0.1");
    let known = TestUpload::begin(&admission, "10.0.0.1");
    for upload in [&ended, &known] {
        upload.upload.consume(64 * 1024, false);
    }
    known.upload.set_authenticated(&principal);
    known.upload.consume(64 * 1024 * 1024, false);
    ended.upload.complete();
    assert_eq!(known.rejection(), None);
    assert_eq!(admission.lock().unauthenticated.bytes(), 0);
    drop((ended, known));
}

#[test]
fn uploads_of_the_address_with_most_bytes_are_evicted_for_the_total() {
    let admission = Admission::new(&HttpLimits {
        receiving_requests: 1,
        shares: Shares::FULL,
        ..HttpLimits::default()
    });
    let mut uploads = admission.lock();
    uploads.unauthenticated = UploadGroup::new(
        32,
        1,
        ByteLimit {
            total: 1024 * 1024,
            share: 1024 * 1024,
        },
    );
    drop(uploads);
    let first = TestUpload::begin(&admission, "10.0.0.2");
    let many: Vec<TestUpload> = (0..8)
        .map(|_| TestUpload::begin(&admission, "10.0.0.1"))
        .collect();
    for upload in &many {
        upload.upload.consume(64 * 1024, false);
    }
    assert!(many[0].rejection().is_some());
    assert_eq!(first.rejection(), None, "though it is the oldest");
}

#[test]
fn address_without_authentication_has_a_share_of_requests_once_half_are_taken() {
    let limits = HttpLimits {
        requests: 16,
        shares: Shares {
            address: 4,
            principal: 1,
        },
        ..HttpLimits::default()
    };
    let (registry, addresses) = (ConnRegistry::new(), AddressTable::new(&limits));
    let admission = Admission::new(&limits);
    let connect = |host| {
        let registration = registry.register();
        let address = AddressPrefix::from_address([10, 0, 0, host].into());
        let slot = addresses.admit(address, registration.conn());
        (registration, slot)
    };
    let (flood, other, known) = (connect(1), connect(2), connect(1));
    let flooding: Vec<WorkPermit> =
        std::iter::from_fn(|| admission.try_begin("/", flood.0.conn())).collect();
    assert_eq!(flooding.len(), 8, "half of the total");
    let others: Vec<_> = (0..4)
        .map(|_| admission.try_begin("/", other.0.conn()))
        .collect();
    assert!(others.iter().all(Option::is_some));
    assert!(admission.try_begin("/", other.0.conn()).is_none());
    ConnectionHandle::new(known.0.conn()).set_authenticated();
    assert!(admission.try_begin("/", known.0.conn()).is_some());
    drop((flooding, others));
    assert!(admission.try_begin("/", flood.0.conn()).is_some());
    assert_eq!(admission.in_flight.load(Ordering::Relaxed), 0);
}
