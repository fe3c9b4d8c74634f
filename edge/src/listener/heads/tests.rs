//! What counts of unfinished heads, and who is closed, by a clock of the test's own.

use super::*;
use crate::budget::Shares;
use crate::limits::HttpLimits;
use crate::listener::addresses::Entered;
use crate::listener::pulse::{Entry, Order, Pulses, Running};
use std::task::Waker;

const SECOND: Duration = Duration::from_secs(1);
/// What a connection with a large head counts.
const LARGE: u64 = 8 * CHARGE;

struct Fixture {
    pulses: Arc<Pulses>,
    addresses: Arc<Addresses>,
}

struct Connection {
    entry: Entry,
    _slot: Entered,
}

impl Fixture {
    /// A listener on which so many large heads may be unfinished, and a part of them from one address.
    fn new(large_heads: u64, part: usize) -> Self {
        let limits = HttpLimits {
            heads: large_heads * LARGE,
            shares: Shares {
                address: part,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        Self {
            pulses: Pulses::new(),
            addresses: Addresses::new(&limits),
        }
    }

    fn open(&self, host: u8) -> Connection {
        let address = AddressPrefix::from_address([192, 0, 2, host].into());
        let entry = self.pulses.enter();
        let slot = self.addresses.enter(address, entry.pulse());
        entry.pulse().drive(false);
        Connection { entry, _slot: slot }
    }

    fn charged(&self) -> u64 {
        self.addresses.heads.tally.charged()
    }
}

impl Connection {
    fn receive(&self, bytes: usize) {
        let pulse = self.entry.pulse();
        pulse.heads().add_received(bytes, pulse.is_idle());
        pulse.settle_heads();
    }

    fn receive_large(&self) {
        self.receive(8 * FREE);
    }

    /// A request of which the head has so many bytes.
    fn begin(&self, head: usize) -> Running {
        let running = self.entry.pulse().begin();
        self.entry.pulse().heads().finish_head(head);
        self.entry.pulse().settle_heads();
        running
    }

    fn set_block(&self, bytes: usize) {
        self.entry.pulse().heads().set_frames(0, bytes, true);
        self.entry.pulse().settle_heads();
    }

    fn is_closed(&self) -> bool {
        self.entry.pulse().order(Waker::noop()) == Order::Cut
    }
}

fn closed(connections: &[Connection]) -> Vec<usize> {
    let numbered = connections.iter().enumerate();
    let closed = numbered.filter(|(_, connection)| connection.is_closed());
    closed.map(|(number, _)| number).collect()
}

#[tokio::test(start_paused = true)]
async fn oldest_unfinished_heads_are_closed_when_all_exceed_the_limit() {
    let fixture = Fixture::new(16, 1);
    let mut connections = Vec::new();
    for host in 0..16 {
        connections.push(fixture.open(host));
        connections.last().unwrap().receive_large();
        tokio::time::advance(SECOND / 10).await;
    }
    assert_eq!(closed(&connections), [0; 0]);
    assert_eq!(fixture.charged(), 16 * LARGE);
    connections.push(fixture.open(16));
    connections[16].receive_large();
    // A quarter of the limit becomes free, so that the next connections need no search.
    assert_eq!(closed(&connections), [0, 1, 2, 3, 4]);
    assert_eq!(fixture.charged(), 12 * LARGE);
    assert_eq!(fixture.addresses.sweep_heads(), 5);
    drop(connections);
    assert_eq!(fixture.addresses.sweep_heads(), 0);
}

#[tokio::test(start_paused = true)]
async fn largest_heads_of_an_address_beyond_its_share_are_closed() {
    let fixture = Fixture::new(32, 4);
    let other = fixture.open(9);
    other.receive_large();
    let mut connections = Vec::new();
    for size in [8, 2, 16, 8, 8, 8] {
        connections.push(fixture.open(1));
        connections.last().unwrap().receive(size * FREE);
        tokio::time::advance(SECOND / 10).await;
    }
    assert_eq!(closed(&connections), [0; 0]);
    connections.push(fixture.open(1));
    connections[6].receive(16 * FREE);
    assert_eq!(
        closed(&connections),
        [0, 2],
        "and not the newest, though it is as large"
    );
    assert!(!other.is_closed());
}

#[tokio::test(start_paused = true)]
async fn connection_with_an_arriving_body_is_not_closed() {
    let fixture = Fixture::new(4, 1);
    let busy = fixture.open(1);
    busy.receive(500);
    let running = busy.begin(480);
    busy.entry.pulse().heads().set_body_arrives(true);
    busy.receive_large();
    assert_eq!(fixture.charged(), 0, "it may be the body");
    let others: Vec<Connection> = (0..8).map(|_| fixture.open(2)).collect();
    others.iter().for_each(Connection::receive_large);
    assert!(!busy.is_closed());
    assert!(!others[7].is_closed());
    drop(running);
    assert!(fixture.charged() <= 4 * LARGE);
    assert!(busy.entry.pulse().heads().charged() > 0, "now it is a head");
}

#[tokio::test(start_paused = true)]
async fn bytes_behind_a_running_request_are_closed_after_unfinished_heads() {
    let fixture = Fixture::new(4, 1);
    let watches: Vec<Connection> = (0..4).map(|_| fixture.open(1)).collect();
    let mut running = Vec::new();
    for watch in &watches {
        watch.receive(500);
        running.push(watch.begin(480));
        watch.receive(2 * FREE);
    }
    assert_eq!(
        fixture.charged(),
        4 * LARGE,
        "the TLS library may hold more"
    );
    let modest = fixture.open(1);
    modest.receive(500);
    running.push(modest.begin(480));
    modest.receive(FREE);
    assert_eq!(modest.entry.pulse().heads().charged(), 0);
    let head = fixture.open(2);
    head.receive_large();
    assert_eq!(closed(&watches), [0, 1], "the newest is kept");
    assert_eq!(fixture.charged(), 3 * LARGE);
    tokio::time::advance(SECOND).await;
    let newer = fixture.open(3);
    newer.receive_large();
    let newest = fixture.open(3);
    newest.receive_large();
    assert!(
        head.is_closed() && newer.is_closed(),
        "before older watches"
    );
    assert_eq!(closed(&watches), [0, 1]);
    assert!(!modest.is_closed());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn bytes_behind_a_body_count_once_the_body_is_complete() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    connection.receive(500);
    let running = connection.begin(480);
    let pulse = connection.entry.pulse();
    pulse.heads().set_body_arrives(true);
    connection.receive(10 * FREE);
    pulse.heads().consume_body(5 * FREE);
    assert_eq!(fixture.charged(), 0);
    pulse.heads().finish_body();
    pulse.settle_heads();
    assert_eq!(fixture.charged(), LARGE);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn ordinary_requests_are_not_counted() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    for _ in 0..1_000 {
        connection.receive(700);
        assert_eq!(connection.entry.pulse().heads().charged(), 0);
        let running = connection.begin(500);
        connection.entry.pulse().heads().consume_body(180);
        drop(running);
    }
    // A head with a body of many reads.
    for _ in 0..100 {
        connection.receive(2 * FREE);
        connection.entry.pulse().heads().set_body_arrives(true);
        let running = connection.begin(500);
        connection.receive(100 * FREE);
        connection
            .entry
            .pulse()
            .heads()
            .consume_body(102 * FREE - 520);
        drop(running);
        assert_eq!(connection.entry.pulse().heads().charged(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_complete_head_count_as_the_next_head() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    // Two requests without bodies and the beginning of a third, in one read.
    connection.receive(40 + 40 + 3 * FREE);
    for _ in 0..2 {
        drop(connection.begin(40));
    }
    assert_eq!(fixture.charged(), 3 * CHARGE);
    // Once the third is complete nothing is left.
    connection.receive(100);
    let running = connection.begin(3 * FREE + 90);
    assert_eq!(fixture.charged(), 0);
    drop(running);
    assert_eq!(fixture.charged(), 0);
}

#[tokio::test(start_paused = true)]
async fn body_that_was_not_read_counts_at_most_until_the_next_request() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    connection.receive(3 * FREE);
    drop(connection.begin(500));
    assert!(fixture.charged() > 0);
    connection.receive(500);
    drop(connection.begin(450));
    assert_eq!(fixture.charged(), 0);
}

#[tokio::test(start_paused = true)]
async fn open_header_block_counts_beside_running_requests() {
    let fixture = Fixture::new(4, 1);
    let connections: Vec<Connection> = (0..5).map(|_| fixture.open(1)).collect();
    let running: Vec<Running> = connections.iter().map(|one| one.begin(0)).collect();
    for connection in &connections {
        // Few bytes of it may take much memory when they are decoded.
        connection.set_block(600);
    }
    assert_eq!(fixture.charged(), 5 * LARGE);
    assert_eq!(closed(&connections), [0; 0], "it may end at any moment");
    tokio::time::advance(SECOND).await;
    assert_eq!(fixture.addresses.sweep_heads(), 2);
    assert_eq!(fixture.charged(), 3 * LARGE);
    for connection in &connections {
        connection.entry.pulse().heads().set_frames(0, 0, false);
        connection.entry.pulse().settle_heads();
    }
    assert_eq!(fixture.charged(), 0);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn connection_that_holds_much_reads_on_when_closed_ones_are_dropped() {
    let fixture = Fixture::new(4, 1);
    let (small, large) = (fixture.open(1), fixture.open(1));
    let may_read = |connection: &Connection| {
        let meter = connection.entry.pulse().heads();
        meter
            .poll_read_on(&Context::from_waker(Waker::noop()))
            .is_ready()
    };
    let others: Vec<Connection> = (0..4).map(|_| fixture.open(2)).collect();
    others.iter().for_each(Connection::receive_large);
    tokio::time::advance(SECOND).await;
    assert!(may_read(&others[0]));
    small.receive(500);
    large.receive_large();
    assert_eq!(closed(&others), [0, 1]);
    assert!(may_read(&small));
    assert!(
        !may_read(&large),
        "the memory of the others is not released yet"
    );
    others[0].entry.pulse().heads().release();
    assert!(
        may_read(&large),
        "what is left is less than a quarter of the limit"
    );
    // Whatever the order, nothing stays counted.
    others[2].entry.pulse().heads().release();
    fixture
        .addresses
        .heads
        .close(&[Arc::clone(others[2].entry.pulse())]);
    others[1].entry.pulse().heads().release();
    assert_eq!(fixture.addresses.heads.closing.load(Ordering::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn search_that_finds_too_little_is_not_repeated_for_every_byte() {
    let tally = Tally::new(800);
    assert!(!tally.add(800));
    assert!(tally.add(1));
    tally.searched();
    assert!(!tally.add(99));
    assert!(tally.add(2));
    tally.subtract(400);
    tally.subtract(1);
    assert!(!tally.add(299));
    assert!(tally.add(2), "the limit counts again");
}
