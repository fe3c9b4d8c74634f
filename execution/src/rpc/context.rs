//! One call while it is served: who makes it, what is noted of it, and what it answers.

use super::called::Called;
use super::errors::Fault;
use super::lifted::Given;
use super::{Known, Origin, acp, zone};
use crate::memory::MemoryAccount;
use crate::zone::Zone;
use interzone_edge::request::Correlation;
use interzone_hub::{Caller, Hub};
use interzone_jsonrpc::RequestId;
use interzone_protocol::Dialect;
use interzone_protocol::acp::{MethodResult, PairList, Scope, TaskList};
use serde::Serialize;
use std::sync::{Mutex, OnceLock, PoisonError};

/// One call while it is served.
pub(crate) struct Context<'z> {
    pub(crate) zone: &'z Zone,
    pub(crate) caller: &'z Caller,
    pub(super) known: &'z Known,
    pub(super) origin: &'z Origin,
    /// The id that the caller gave to the call.
    pub(super) id: Option<&'z RequestId<'z>>,
    pub(super) method: OnceLock<Called>,
    pub(super) about: OnceLock<Box<str>>,
    pub(super) correlation: OnceLock<Correlation>,
    /// Its params, if they were read before.
    given: Mutex<Option<Given>>,
    /// Memory for what is read for it and for its answer.
    pub(crate) memory: MemoryAccount,
}

impl<'z> Context<'z> {
    pub(super) fn new(
        zone: &'z Zone,
        known: &'z Known,
        origin: &'z Origin,
        id: Option<&'z RequestId<'z>>,
        given: Option<Given>,
    ) -> Self {
        Self {
            zone,
            caller: &known.caller,
            known,
            origin,
            id,
            method: OnceLock::new(),
            about: OnceLock::new(),
            correlation: OnceLock::new(),
            given: Mutex::new(given),
            memory: MemoryAccount::new(&zone.limits.answers, known.share()),
        }
    }

    /// Its params, if they were read before; they are given once.
    pub(super) fn given(&self) -> Option<Given> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.take()
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.zone.hub
    }

    /// Notes which method it is.
    pub(super) fn is(&self, method: Called) {
        let _ = self.method.set(method);
    }

    /// Notes which task or stream it is about.
    pub(crate) fn about(&self, id: &str) {
        let _ = self.about.set(id.into());
    }

    /// Gives the call a name of its own to be found by.
    pub(super) fn correlate(&self, name: Correlation) {
        let _ = self.correlation.set(name);
    }

    pub(super) fn correlation(&self) -> &Correlation {
        self.correlation.get().unwrap_or(&self.origin.correlation)
    }

    /// The dialect that errors are told in.
    pub(super) fn dialect(&self) -> Dialect {
        self.method
            .get()
            .map_or(Dialect::Acp, |method| method.dialect())
    }

    pub(super) fn needs(&self, scopes: &[Scope]) -> Result<(), Fault> {
        self.known.needs(self.zone, scopes).map_err(Fault::Wire)
    }
}

/// What a call answers.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Acp(MethodResult),
    List(TaskList),
    Pairs(PairList),
    Shown(acp::handlers::Shown),
    Zone(zone::Answer),
    /// A call that goes on, which is not written here.
    #[serde(skip)]
    Live(Box<zone::Live>),
}
