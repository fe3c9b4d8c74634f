//! Streams: a conversation that goes back and forth without being a piece of work.

use interzone_protocol::vocab::{Metadata, PrincipalId, StreamId, StreamState, Timestamp};

/// What is known of a stream without its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its id, made by us.
    pub id: StreamId,
    /// Who began it.
    pub owner: PrincipalId,
    /// Who else may speak and listen, as the one who began it named them.
    pub participants: Vec<String>,
    /// Where it stands.
    pub state: StreamState,
    /// What the caller attached, kept letter for letter.
    pub metadata: Option<Metadata>,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When something last happened on it.
    pub updated_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Counts every change; a writer names the one it has seen.
    pub revision: u64,
    /// The number of its last event.
    pub seq: u64,
}

/// Which streams to list, the one that changed last first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamQuery {
    /// Those that were closed; else those that were not.
    pub closed: bool,
    /// Last changed before this moment.
    pub before: Option<Timestamp>,
    /// At most this many.
    pub limit: usize,
}
