//! What the sweep makes of connections in every state, by a clock of the test's own.

use super::{Entry, Order, Pulse, Pulses, Running};
use crate::budget::{AddressPrefix, Shares};
use crate::limits::HttpLimits;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> HttpLimits {
    HttpLimits {
        header_time: 10 * SECOND,
        idle: 60 * SECOND,
        stall: 30 * SECOND,
        ..HttpLimits::default()
    }
}

/// What the connection is told, second by second, until it is told to go.
fn told(pulses: &Pulses, pulse: &Pulse, from: Instant) -> (u32, Order) {
    (0..1000)
        .map(|second| {
            pulses.sweep(&limits(), from + SECOND * second);
            (second, pulse.order(Waker::noop()))
        })
        .find(|(_, order)| *order != Order::Go)
        .unwrap_or((u32::MAX, Order::Go))
}

#[test]
fn each_state_has_its_time() {
    let stay = (u32::MAX, Order::Go);
    type Life = fn(&Arc<Pulse>) -> Option<Running>;
    let lives: [(&str, Life, (u32, Order)); 10] = [
        ("a handshake", |_| None, stay),
        (
            "no first request",
            |p| {
                p.drive(false);
                None
            },
            (10, Order::Cut),
        ),
        (
            "no first stream",
            |p| {
                p.drive(true);
                None
            },
            (10, Order::Cut),
        ),
        (
            "a request",
            |p| {
                p.drive(false);
                Some(p.begin())
            },
            stay,
        ),
        (
            "quiet after one",
            |p| {
                p.drive(false);
                drop(p.begin());
                None
            },
            (60, Order::Close),
        ),
        (
            "half a head",
            |p| {
                p.drive(false);
                drop(p.begin());
                p.heard();
                None
            },
            (10, Order::Cut),
        ),
        (
            "pongs",
            |p| {
                p.drive(true);
                drop(p.begin());
                p.heard();
                None
            },
            (60, Order::Close),
        ),
        (
            "a header block beside a request",
            |p| {
                p.drive(true);
                p.heads().set_frames(0, 100, true);
                Some(p.begin())
            },
            // It is noticed with the second sweep after the request.
            (11, Order::Cut),
        ),
        (
            "given away",
            |p| {
                p.drive(false);
                drop(p.begin());
                p.release();
                None
            },
            stay,
        ),
        (
            "not read",
            |p| {
                p.drive(false);
                p.block();
                Some(p.begin())
            },
            (30, Order::Cut),
        ),
    ];
    for (name, live, expect) in lives {
        let pulses = Pulses::new();
        let entry = pulses.enter();
        let running = live(entry.pulse());
        assert_eq!(
            told(&pulses, entry.pulse(), Instant::now()),
            expect,
            "{name}"
        );
        drop(running);
    }
}

#[test]
fn every_request_begins_the_time_anew() {
    let (pulses, start) = (Pulses::new(), Instant::now());
    let entry = pulses.enter();
    entry.pulse().drive(false);
    for minute in 0..10 {
        drop(entry.pulse().begin());
        for second in [0, 30, 59] {
            pulses.sweep(&limits(), start + SECOND * (minute * 60 + second));
            assert_eq!(entry.pulse().order(Waker::noop()), Order::Go);
        }
    }
    // So does whatever the other side takes.
    let running = entry.pulse().begin();
    for second in 600..1000 {
        match second % 20 {
            0 => entry.pulse().add_written(1),
            _ => entry.pulse().block(),
        }
        pulses.sweep(&limits(), start + SECOND * second);
        assert_eq!(entry.pulse().order(Waker::noop()), Order::Go, "{second}");
    }
    drop(running);
}

#[test]
fn connection_that_takes_a_few_bytes_at_a_time_is_cut() {
    let (pulses, start) = (Pulses::new(), Instant::now());
    let least = 30 * 1024;
    for (each, cut) in [(100, true), (least / 30 + 1, false)] {
        let entry = pulses.enter();
        entry.pulse().drive(false);
        let running = entry.pulse().begin();
        for second in 0..=60 {
            entry.pulse().add_written(each);
            entry.pulse().block();
            pulses.sweep(&limits(), start + SECOND * second);
        }
        let order = entry.pulse().order(Waker::noop());
        assert_eq!(order == Order::Cut, cut, "{each} bytes per second");
        drop(running);
    }
}

#[test]
fn blocked_http1_connections_beyond_the_share_of_an_address_are_cut() {
    let (pulses, start) = (Pulses::new(), Instant::now());
    let limits = HttpLimits {
        unread: 4 * 200 * 1024,
        shares: Shares {
            address: 2,
            ..Shares::default()
        },
        ..limits()
    };
    let open = |host: u8, pipelined: usize| {
        let entry = pulses.enter();
        let pulse = entry.pulse();
        pulse.set_prefix(AddressPrefix::from_address([192, 0, 2, host].into()));
        pulse.set_encrypted();
        pulse.drive(false);
        let running = pulse.begin();
        pulse.add_unsent(60 * 1024);
        pulse.heads().add_received(pipelined, false);
        pulse.block();
        (entry, running)
    };
    // Each counts about 188 KiB, and the last, which is of another address, only 128.
    let mut open: Vec<_> = [(1, 60), (1, 60), (1, 60), (2, 0)]
        .map(|(host, kib)| open(host, kib * 1024))
        .into();
    // One is read: it counts nothing.
    open[0].0.pulse().add_written(1);
    assert_eq!(pulses.sweep(&limits, start).connections, 0);
    open[0].0.pulse().block();
    assert_eq!(pulses.sweep(&limits, start).connections, 1);
    let order = |(entry, _): &(Entry, Running)| entry.pulse().order(Waker::noop());
    assert_eq!(order(&open[3]), Order::Go);
    let cut = open.iter().filter(|one| order(one) == Order::Cut).count();
    assert_eq!(cut, 1);
    open.clear();
}

#[test]
fn an_order_to_all_is_for_newcomers_too_and_is_not_taken_back() {
    let pulses = Pulses::new();
    let early = pulses.enter();
    pulses.all(Order::Close);
    let late = pulses.enter();
    for entry in [&early, &late] {
        assert_eq!(entry.pulse().order(Waker::noop()), Order::Close);
    }
    pulses.all(Order::Cut);
    early.pulse().give(Order::Close);
    assert_eq!(early.pulse().order(Waker::noop()), Order::Cut);
    drop((early, late));
    assert!(pulses.lock().seen.is_empty());
}
