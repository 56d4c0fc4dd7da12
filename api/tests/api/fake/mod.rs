//! A subnet manager in memory: a constant tree of switches and hosts.

mod control;
mod judge;
mod registrations;
mod report;
mod routing;
mod sa;
mod subnet;
mod tree;

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rsm_api::EventJournal;
use rsm_api::model::{
    AliasGuidKey, Keyed, MissingKind, PartitionChange, PortId, ServiceKey, SimulationAction,
    SubnetState, SubscriptionKey, VirtualPortId,
};
use rsm_api::v1;
use rsm_ids::{Gid, Guid, Lid, PortNum};

pub(crate) use sa::FakeGroup;
pub(crate) use tree::{HOST, LEAF, guid};

/// The generation of every answer.
pub(crate) const GENERATION: u64 = 7;

/// The upper half of every GID.
const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// Events that the fake's journal keeps.
pub(crate) const JOURNAL: usize = 64;

/// A port with its key.
pub(crate) type FakePort = Keyed<PortId, v1::Port>;

fn guid_of(port: &FakePort) -> Guid {
    port.message.guid.parse().unwrap()
}

fn lid_of(port: &FakePort) -> Lid {
    Lid(port.message.lid as u16)
}

fn peer_of(port: &FakePort) -> Option<PortId> {
    let peer = port.message.peer.as_ref()?.port.as_ref()?;
    Some(PortId {
        node: peer.node_guid.parse().unwrap(),
        number: PortNum(peer.number as u8),
    })
}

/// A subnet that a test made.
pub(crate) struct Fake {
    pub(crate) nodes: BTreeMap<Guid, v1::Node>,
    pub(crate) ports: BTreeMap<PortId, FakePort>,
    pub(crate) links: BTreeMap<PortId, v1::Link>,
    pub(crate) tables: BTreeMap<Guid, BTreeMap<Lid, PortNum>>,
    pub(crate) partitions: BTreeMap<u16, (v1::Partition, BTreeMap<PortId, v1::PartitionMember>)>,
    pub(crate) groups: BTreeMap<Gid, FakeGroup>,
    pub(crate) services: BTreeMap<ServiceKey, v1::Service>,
    pub(crate) subscriptions: BTreeMap<SubscriptionKey, v1::Subscription>,
    pub(crate) aliases: BTreeMap<AliasGuidKey, v1::AliasGuid>,
    pub(crate) vports: BTreeMap<VirtualPortId, v1::VirtualPort>,
    pub(crate) congestion: BTreeMap<PortId, v1::CongestionAgent>,
    pub(crate) findings: Vec<v1::Finding>,
    /// By ascending key.
    pub(crate) missing: Mutex<Vec<Keyed<PortId, v1::Missing>>>,
    /// How far the fabric is as designed, and the moves that are left, by ascending number.
    pub(crate) design: Option<v1::DesignState>,
    pub(crate) design_moves: Vec<v1::DesignMove>,
    pub(crate) state: SubnetState,
    pub(crate) convergences: Mutex<Vec<v1::Convergence>>,
    /// The engine of the routes in force.
    pub(crate) engine: Mutex<String>,
    /// The actions on the simulation.
    pub(crate) actions: Mutex<Vec<SimulationAction>>,
    /// The changes of partitions.
    pub(crate) partition_changes: Mutex<Vec<PartitionChange>>,
    pub(crate) journal: EventJournal,
}

impl Fake {
    /// The counts of all missing parts.
    fn missing_counts(&self) -> v1::MissingParts {
        counted(self.missing.lock().iter().map(|missing| &missing.message))
    }
}

/// The counts of missing parts, by their kinds.
pub(crate) fn counted<'a>(missing: impl Iterator<Item = &'a v1::Missing>) -> v1::MissingParts {
    let mut parts = v1::MissingParts::default();
    for missing in missing {
        match missing.kind() {
            MissingKind::Switch => parts.switches += 1,
            MissingKind::Cable => parts.cables += missing.cables,
            MissingKind::Exchanged => parts.exchanged_cables += missing.cables,
            MissingKind::HostCable => parts.host_cables += missing.cables,
            MissingKind::Host | MissingKind::Unspecified => parts.hosts += 1,
        }
    }
    v1::MissingParts {
        summary: parts.listed(),
        ..parts
    }
}
