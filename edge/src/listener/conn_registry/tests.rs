//! Decisions of the sweep for connections in every state, with a test clock.

use super::{ActiveRequest, ConnRegistry, ConnState, Registration, ShutdownOrder};
use crate::budget::{AddressPrefix, Shares};
use crate::limits::HttpLimits;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> HttpLimits {
    HttpLimits {
        header_timeout: 10 * SECOND,
        idle_timeout: 60 * SECOND,
        stall_timeout: 30 * SECOND,
        ..HttpLimits::default()
    }
}

/// Sweeps second by second until the connection gets an order; returns the second and the order.
fn first_order(registry: &ConnRegistry, conn: &ConnState, from: Instant) -> (u32, ShutdownOrder) {
    (0..1000)
        .map(|second| {
            registry.sweep(&limits(), from + SECOND * second);
            (second, conn.poll_order(Waker::noop()))
        })
        .find(|(_, order)| *order != ShutdownOrder::KeepOpen)
        .unwrap_or((u32::MAX, ShutdownOrder::KeepOpen))
}

#[test]
fn each_connection_state_has_its_timeout() {
    let stay = (u32::MAX, ShutdownOrder::KeepOpen);
    type Setup = fn(&Arc<ConnState>) -> Option<ActiveRequest>;
    let cases: [(&str, Setup, (u32, ShutdownOrder)); 10] = [
        ("a handshake", |_| None, stay),
        (
            "no first request",
            |p| {
                p.start_http(false);
                None
            },
            (10, ShutdownOrder::Abort),
        ),
        (
            "no first stream",
            |p| {
                p.start_http(true);
                None
            },
            (10, ShutdownOrder::Abort),
        ),
        (
            "a request",
            |p| {
                p.start_http(false);
                Some(p.begin_request())
            },
            stay,
        ),
        (
            "quiet after one",
            |p| {
                p.start_http(false);
                drop(p.begin_request());
                None
            },
            (60, ShutdownOrder::Close),
        ),
        (
            "half a head",
            |p| {
                p.start_http(false);
                drop(p.begin_request());
                p.on_read();
                None
            },
            (10, ShutdownOrder::Abort),
        ),
        (
            "pongs",
            |p| {
                p.start_http(true);
                drop(p.begin_request());
                p.on_read();
                None
            },
            (60, ShutdownOrder::Close),
        ),
        (
            "a header block beside a request",
            |p| {
                p.start_http(true);
                p.heads().set_frames(0, 100, true);
                Some(p.begin_request())
            },
            // Noticed with the second sweep after the request.
            (11, ShutdownOrder::Abort),
        ),
        (
            "given away",
            |p| {
                p.start_http(false);
                drop(p.begin_request());
                p.end_http();
                None
            },
            stay,
        ),
        (
            "not read",
            |p| {
                p.start_http(false);
                p.set_write_blocked();
                Some(p.begin_request())
            },
            (30, ShutdownOrder::Abort),
        ),
    ];
    for (name, setup, expect) in cases {
        let registry = ConnRegistry::new();
        let registration = registry.register();
        let active = setup(registration.conn());
        assert_eq!(
            first_order(&registry, registration.conn(), Instant::now()),
            expect,
            "{name}"
        );
        drop(active);
    }
}

#[test]
fn requests_and_writes_reset_the_timeouts() {
    let (registry, start) = (ConnRegistry::new(), Instant::now());
    let registration = registry.register();
    registration.conn().start_http(false);
    for minute in 0..10 {
        drop(registration.conn().begin_request());
        for second in [0, 30, 59] {
            registry.sweep(&limits(), start + SECOND * (minute * 60 + second));
            assert_eq!(
                registration.conn().poll_order(Waker::noop()),
                ShutdownOrder::KeepOpen
            );
        }
    }
    // Bytes that the peer reads do so too.
    let active = registration.conn().begin_request();
    for second in 600..1000 {
        match second % 20 {
            0 => registration.conn().add_written(1),
            _ => registration.conn().set_write_blocked(),
        }
        registry.sweep(&limits(), start + SECOND * second);
        assert_eq!(
            registration.conn().poll_order(Waker::noop()),
            ShutdownOrder::KeepOpen,
            "{second}"
        );
    }
    drop(active);
}

#[test]
fn connection_below_the_minimum_read_rate_is_aborted() {
    let (registry, start) = (ConnRegistry::new(), Instant::now());
    let min_bytes = 30 * 1024;
    for (bytes, is_aborted) in [(100, true), (min_bytes / 30 + 1, false)] {
        let registration = registry.register();
        registration.conn().start_http(false);
        let active = registration.conn().begin_request();
        for second in 0..=60 {
            registration.conn().add_written(bytes);
            registration.conn().set_write_blocked();
            registry.sweep(&limits(), start + SECOND * second);
        }
        let order = registration.conn().poll_order(Waker::noop());
        assert_eq!(
            order == ShutdownOrder::Abort,
            is_aborted,
            "{bytes} bytes per second"
        );
        drop(active);
    }
}

#[test]
fn unread_http1_connections_beyond_the_share_are_aborted() {
    let (registry, start) = (ConnRegistry::new(), Instant::now());
    let limits = HttpLimits {
        unread_response_bytes: 4 * 200 * 1024,
        shares: Shares {
            address: 2,
            ..Shares::default()
        },
        ..limits()
    };
    let open = |host: u8, pipelined: usize| {
        let registration = registry.register();
        let conn = registration.conn();
        conn.set_prefix(AddressPrefix::from_address([192, 0, 2, host].into()));
        conn.set_uses_tls();
        conn.start_http(false);
        let active = conn.begin_request();
        conn.add_unsent_bytes(60 * 1024);
        conn.heads().add_received(pipelined, false);
        conn.set_write_blocked();
        (registration, active)
    };
    // Each counts about 188 KiB, and the last, from another address, only 128.
    let mut open: Vec<_> = [(1, 60), (1, 60), (1, 60), (2, 0)]
        .map(|(host, kib)| open(host, kib * 1024))
        .into();
    // One is read: it counts nothing.
    open[0].0.conn().add_written(1);
    assert_eq!(registry.sweep(&limits, start).connections, 0);
    open[0].0.conn().set_write_blocked();
    assert_eq!(registry.sweep(&limits, start).connections, 1);
    let order = |(registration, _): &(Registration, ActiveRequest)| {
        registration.conn().poll_order(Waker::noop())
    };
    assert_eq!(order(&open[3]), ShutdownOrder::KeepOpen);
    let aborted = open
        .iter()
        .filter(|one| order(one) == ShutdownOrder::Abort)
        .count();
    assert_eq!(aborted, 1);
    open.clear();
}

#[test]
fn order_to_all_applies_to_later_connections() {
    let registry = ConnRegistry::new();
    let early = registry.register();
    registry.signal_all(ShutdownOrder::Close);
    let late = registry.register();
    for registration in [&early, &late] {
        assert_eq!(
            registration.conn().poll_order(Waker::noop()),
            ShutdownOrder::Close
        );
    }
    registry.signal_all(ShutdownOrder::Abort);
    early.conn().signal(ShutdownOrder::Close);
    assert_eq!(early.conn().poll_order(Waker::noop()), ShutdownOrder::Abort);
    drop((early, late));
    assert!(registry.lock().entries.is_empty());
}
