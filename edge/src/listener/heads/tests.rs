//! Charges of partial heads and eviction of connections, with a test clock.

use super::*;
use crate::budget::Shares;
use crate::limits::HttpLimits;
use crate::listener::addresses::AddressAdmission;
use crate::listener::conn_registry::{
    ActiveRequest, ConnRegistry, ConnState, ConnectionHandle, Registration, ShutdownOrder,
};
use std::task::Waker;

const SECOND: Duration = Duration::from_secs(1);
/// Charge of a connection with a large head.
const LARGE_HEAD_CHARGE: u64 = 8 * CHARGE_PER_STEP;

struct Fixture {
    registry: Arc<ConnRegistry>,
    addresses: Arc<AddressTable>,
}

struct HeadTestConnection {
    registration: Registration,
    _slot: AddressAdmission,
}

impl Fixture {
    /// Creates a listener that allows so many large partial heads, and a part of them from one address.
    fn new(large_heads: u64, part: usize) -> Self {
        let limits = HttpLimits {
            partial_head_bytes: large_heads * LARGE_HEAD_CHARGE,
            shares: Shares {
                address: part,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        Self {
            registry: ConnRegistry::new(),
            addresses: AddressTable::new(&limits),
        }
    }

    fn open(&self, host: u8) -> HeadTestConnection {
        let address = AddressPrefix::from_address([192, 0, 2, host].into());
        let registration = self.registry.register();
        let slot = self.addresses.admit(address, registration.conn());
        registration.conn().start_http(false);
        HeadTestConnection {
            registration,
            _slot: slot,
        }
    }

    fn charged(&self) -> u64 {
        self.addresses.heads.tally.charged()
    }
}

impl HeadTestConnection {
    fn receive(&self, bytes: usize) {
        let conn = self.registration.conn();
        conn.heads().add_received(bytes, conn.is_idle());
        conn.update_head_charge();
    }

    fn receive_large(&self) {
        self.receive(8 * FREE_BYTES);
    }

    /// Starts a request with a head of so many bytes.
    fn begin_request(&self, head: usize) -> ActiveRequest {
        let active = self.registration.conn().begin_request();
        self.registration.conn().heads().finish_head(head);
        self.registration.conn().update_head_charge();
        active
    }

    fn set_block(&self, bytes: usize) {
        self.registration.conn().heads().set_frames(0, bytes, true);
        self.registration.conn().update_head_charge();
    }

    fn is_closed(&self) -> bool {
        self.registration.conn().poll_order(Waker::noop()) == ShutdownOrder::Abort
    }
}

fn closed_connections(connections: &[HeadTestConnection]) -> Vec<usize> {
    let numbered = connections.iter().enumerate();
    let closed = numbered.filter(|(_, connection)| connection.is_closed());
    closed.map(|(number, _)| number).collect()
}

#[tokio::test(start_paused = true)]
async fn oldest_partial_heads_are_evicted_over_the_limit() {
    let fixture = Fixture::new(16, 1);
    let mut connections = Vec::new();
    for host in 0..16 {
        connections.push(fixture.open(host));
        connections.last().unwrap().receive_large();
        tokio::time::advance(SECOND / 10).await;
    }
    assert_eq!(closed_connections(&connections), [0; 0]);
    assert_eq!(fixture.charged(), 16 * LARGE_HEAD_CHARGE);
    connections.push(fixture.open(16));
    connections[16].receive_large();
    // A quarter of the limit becomes free, so that the next connections need no search.
    assert_eq!(closed_connections(&connections), [0, 1, 2, 3, 4]);
    assert_eq!(fixture.charged(), 12 * LARGE_HEAD_CHARGE);
    assert_eq!(fixture.addresses.sweep_heads(), 5);
    drop(connections);
    assert_eq!(fixture.addresses.sweep_heads(), 0);
}

#[tokio::test(start_paused = true)]
async fn largest_partial_heads_of_an_address_are_evicted() {
    let fixture = Fixture::new(32, 4);
    let other = fixture.open(9);
    other.receive_large();
    let mut connections = Vec::new();
    for size in [8, 2, 16, 8, 8, 8] {
        connections.push(fixture.open(1));
        connections.last().unwrap().receive(size * FREE_BYTES);
        tokio::time::advance(SECOND / 10).await;
    }
    assert_eq!(closed_connections(&connections), [0; 0]);
    connections.push(fixture.open(1));
    connections[6].receive(16 * FREE_BYTES);
    assert_eq!(
        closed_connections(&connections),
        [0, 2],
        "but not the newest, though it is as large"
    );
    assert!(!other.is_closed());
}

#[tokio::test(start_paused = true)]
async fn connection_receiving_a_body_is_not_evicted() {
    let fixture = Fixture::new(4, 1);
    let busy = fixture.open(1);
    busy.receive(500);
    let active = busy.begin_request(480);
    busy.registration.conn().heads().set_receiving_body(true);
    busy.receive_large();
    assert_eq!(fixture.charged(), 0, "it may be the body");
    let others: Vec<HeadTestConnection> = (0..8).map(|_| fixture.open(2)).collect();
    others.iter().for_each(HeadTestConnection::receive_large);
    assert!(!busy.is_closed());
    assert!(!others[7].is_closed());
    drop(active);
    assert!(fixture.charged() <= 4 * LARGE_HEAD_CHARGE);
    assert!(
        busy.registration.conn().heads().charged() > 0,
        "now it is a head"
    );
}

#[tokio::test(start_paused = true)]
async fn pipelined_bytes_are_evicted_after_partial_heads() {
    let fixture = Fixture::new(4, 1);
    let watches: Vec<HeadTestConnection> = (0..4).map(|_| fixture.open(1)).collect();
    let mut active = Vec::new();
    for watch in &watches {
        watch.receive(500);
        active.push(watch.begin_request(480));
        watch.receive(2 * FREE_BYTES);
    }
    assert_eq!(
        fixture.charged(),
        4 * LARGE_HEAD_CHARGE,
        "the TLS library may hold more"
    );
    let modest = fixture.open(1);
    modest.receive(500);
    active.push(modest.begin_request(480));
    modest.receive(FREE_BYTES);
    assert_eq!(modest.registration.conn().heads().charged(), 0);
    let head = fixture.open(2);
    head.receive_large();
    assert_eq!(closed_connections(&watches), [0, 1], "the newest is kept");
    assert_eq!(fixture.charged(), 3 * LARGE_HEAD_CHARGE);
    tokio::time::advance(SECOND).await;
    let newer = fixture.open(3);
    newer.receive_large();
    let newest = fixture.open(3);
    newest.receive_large();
    assert!(
        head.is_closed() && newer.is_closed(),
        "before older watches"
    );
    assert_eq!(closed_connections(&watches), [0, 1]);
    assert!(!modest.is_closed());
    drop(active);
}

#[tokio::test(start_paused = true)]
async fn pipelined_bytes_count_once_the_body_is_complete() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    connection.receive(500);
    let active = connection.begin_request(480);
    let conn = connection.registration.conn();
    conn.heads().set_receiving_body(true);
    connection.receive(10 * FREE_BYTES);
    conn.heads().consume_body(5 * FREE_BYTES);
    assert_eq!(fixture.charged(), 0);
    conn.heads().finish_body();
    conn.update_head_charge();
    assert_eq!(fixture.charged(), LARGE_HEAD_CHARGE);
    drop(active);
}

#[tokio::test(start_paused = true)]
async fn ordinary_requests_are_not_charged() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    for _ in 0..1_000 {
        connection.receive(700);
        assert_eq!(connection.registration.conn().heads().charged(), 0);
        let active = connection.begin_request(500);
        connection.registration.conn().heads().consume_body(180);
        drop(active);
    }
    // A head with a body of many reads.
    for _ in 0..100 {
        connection.receive(2 * FREE_BYTES);
        connection
            .registration
            .conn()
            .heads()
            .set_receiving_body(true);
        let active = connection.begin_request(500);
        connection.receive(100 * FREE_BYTES);
        connection
            .registration
            .conn()
            .heads()
            .consume_body(102 * FREE_BYTES - 520);
        drop(active);
        assert_eq!(connection.registration.conn().heads().charged(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_complete_head_count_as_the_next_head() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    // Two requests without bodies and the beginning of a third, in one read.
    connection.receive(40 + 40 + 3 * FREE_BYTES);
    for _ in 0..2 {
        drop(connection.begin_request(40));
    }
    assert_eq!(fixture.charged(), 3 * CHARGE_PER_STEP);
    // Once the third is complete nothing remains.
    connection.receive(100);
    let active = connection.begin_request(3 * FREE_BYTES + 90);
    assert_eq!(fixture.charged(), 0);
    drop(active);
    assert_eq!(fixture.charged(), 0);
}

#[tokio::test(start_paused = true)]
async fn unread_body_is_charged_until_the_next_request() {
    let fixture = Fixture::new(16, 1);
    let connection = fixture.open(1);
    connection.receive(3 * FREE_BYTES);
    drop(connection.begin_request(500));
    assert!(fixture.charged() > 0);
    connection.receive(500);
    drop(connection.begin_request(450));
    assert_eq!(fixture.charged(), 0);
}

#[tokio::test(start_paused = true)]
async fn open_header_block_is_charged_despite_active_requests() {
    let fixture = Fixture::new(4, 1);
    let connections: Vec<HeadTestConnection> = (0..5).map(|_| fixture.open(1)).collect();
    let active: Vec<ActiveRequest> = connections.iter().map(|one| one.begin_request(0)).collect();
    for connection in &connections {
        // Few bytes of it may take much memory when they are decoded.
        connection.set_block(600);
    }
    assert_eq!(fixture.charged(), 5 * LARGE_HEAD_CHARGE);
    assert_eq!(
        closed_connections(&connections),
        [0; 0],
        "it may end at any moment"
    );
    tokio::time::advance(SECOND).await;
    assert_eq!(fixture.addresses.sweep_heads(), 2);
    assert_eq!(fixture.charged(), 3 * LARGE_HEAD_CHARGE);
    for connection in &connections {
        connection
            .registration
            .conn()
            .heads()
            .set_frames(0, 0, false);
        connection.registration.conn().update_head_charge();
    }
    assert_eq!(fixture.charged(), 0);
    drop(active);
}

#[tokio::test(start_paused = true)]
async fn charged_connection_reads_after_evicted_ones_are_dropped() {
    let fixture = Fixture::new(4, 1);
    let (small, large) = (fixture.open(1), fixture.open(1));
    let may_read = |connection: &HeadTestConnection| {
        let meter = connection.registration.conn().heads();
        meter
            .poll_may_read(&Context::from_waker(Waker::noop()))
            .is_ready()
    };
    let others: Vec<HeadTestConnection> = (0..4).map(|_| fixture.open(2)).collect();
    others.iter().for_each(HeadTestConnection::receive_large);
    tokio::time::advance(SECOND).await;
    assert!(may_read(&others[0]));
    small.receive(500);
    large.receive_large();
    assert_eq!(closed_connections(&others), [0, 1]);
    assert!(may_read(&small));
    assert!(
        !may_read(&large),
        "the memory of the others is not released yet"
    );
    others[0].registration.conn().heads().release();
    assert!(
        may_read(&large),
        "what is left is less than a quarter of the limit"
    );
    // In any order, nothing stays counted.
    others[2].registration.conn().heads().release();
    fixture
        .addresses
        .heads
        .close_all(&[Arc::clone(others[2].registration.conn())]);
    others[1].registration.conn().heads().release();
    assert_eq!(
        fixture
            .addresses
            .heads
            .closing_charge
            .load(Ordering::Acquire),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn unsuccessful_search_is_not_repeated_for_every_byte() {
    let tally = ChargeTotal::new(800);
    assert!(!tally.add(800));
    assert!(tally.add(1));
    tally.finish_search();
    assert!(!tally.add(99));
    assert!(tally.add(2));
    tally.subtract(400);
    tally.subtract(1);
    assert!(!tally.add(299));
    assert!(tally.add(2), "the limit counts again");
}

#[test]
fn streams_without_authentication_close_their_connection_though_it_is_in_use() {
    let fixture = Fixture::new(8, 2);
    let open = |host| {
        let connection = fixture.open(host);
        let conn = Arc::clone(connection.registration.conn());
        conn.start_http(true);
        let active = conn.begin_request();
        (connection, conn, active)
    };
    let streams = |conn: &ConnState, bytes| {
        conn.heads().set_streams(bytes);
        conn.update_head_charge();
    };
    let is_aborted = |conn: &ConnState| conn.poll_order(Waker::noop()) == ShutdownOrder::Abort;
    let share = usize::try_from(4 * LARGE_HEAD_CHARGE / 2).unwrap();
    let (few, many, known, newest) = (open(1), open(1), open(1), open(1));
    streams(&known.1, share);
    ConnectionHandle::new(&known.1).set_authenticated();
    assert_eq!(fixture.charged(), 0, "not counted any more");
    streams(&few.1, share / 8);
    streams(&many.1, share / 2);
    assert!(!is_aborted(&many.1));
    streams(&newest.1, share / 2);
    assert!(is_aborted(&many.1), "the largest");
    assert!(many.1.heads().must_reject_streams());
    for other in [&few, &known, &newest] {
        assert!(!is_aborted(&other.1));
    }
}

#[test]
fn streams_are_rejected_while_much_is_being_closed() {
    let fixture = Fixture::new(8, 1);
    let connections: Vec<_> = (1..=3).map(|host| fixture.open(host)).collect();
    let limit = usize::try_from(8 * LARGE_HEAD_CHARGE / 2).unwrap();
    let streams = |index: usize, bytes| {
        let conn = connections[index].registration.conn();
        conn.start_http(true);
        conn.heads().set_streams(bytes);
        conn.update_head_charge();
    };
    streams(0, limit);
    streams(1, limit / 2);
    streams(2, 0);
    let must_reject = |index: usize| {
        let conn = connections[index].registration.conn();
        conn.heads().must_reject_streams()
    };
    assert!(must_reject(0), "closed");
    assert!(must_reject(1), "the memory of the first is not free yet");
    assert!(!must_reject(2), "its streams are not counted");
    connections[0].registration.conn().heads().release();
    assert!(!must_reject(1));
}
