//! A simulated subnet that is up, with an SA that its hosts send requests to.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{Mtu, NodeType};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, Record, SA_HEADER_LEN, SaHeader, SaMad};
use rsm_model::fabric::Fabric;
use rsm_plan::policy::Policy;
use rsm_plan::{self, Plan, PlanJob};
use rsm_routing::netlist::Netlist;
use rsm_state::{Identity, Role, Snapshot};

use crate::{Directory, Sa, SaAnswer, SaConfig, SaRequest, SaSnapshot};

pub(super) const SM_KEY: u64 = 0x1234;

pub(super) const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// Two leaves with two hosts each, under two spines.
pub(super) const SMALL: &str = "pgft:2;2,2;1,2;1,1";

pub(super) struct World {
    pub(super) sa: Sa,
    pub(super) snapshot: Snapshot,
    pub(super) now: Time,
}

/// The plan for the generated network `spec`, and the fabric after the plan's LIDs were assigned.
pub(super) fn planned(spec: &str, lmc: u8) -> (Fabric, Plan) {
    let policy = Policy {
        lmc: Lmc::from_bits(lmc),
        ..Policy::default()
    };
    planned_as(spec, |_| policy)
}

/// Fabric and plan for the generated network `spec`, with the policy that `decide` returns.
pub(super) fn planned_as(spec: &str, decide: impl FnOnce(&mut Fabric) -> Policy) -> (Fabric, Plan) {
    planned_on(&rsm_routing::generate::generate(spec).unwrap(), decide)
}

/// The plan for `netlist`, with the policy that `decide` returns for the fabric, and the fabric
/// after the plan's LIDs were assigned.
pub(super) fn planned_on(
    netlist: &Netlist,
    decide: impl FnOnce(&mut Fabric) -> Policy,
) -> (Fabric, Plan) {
    let mut fabric = Fabric::of_netlist(netlist);
    let policy = decide(&mut fabric);
    let job = PlanJob::first(Arc::new(fabric.clone()), Arc::new(policy));
    let planned = rsm_plan::plan(&job).plan();
    let plan = planned.unwrap_or_else(|refused| panic!("{}", refused.with_causes()));
    drop(job);
    let plan = Arc::into_inner(plan).unwrap();
    for (&port, claim) in &plan.lids.lids {
        let at = fabric.find_port(port).unwrap();
        let port = fabric.port_mut(at);
        let info = port.info.as_mut().unwrap();
        info.set_lid(claim.base).set_lmc(claim.lmc);
    }
    for info in fabric
        .nodes_mut()
        .flat_map(|node| node.ports.iter_mut())
        .filter_map(|port| port.info.as_mut())
    {
        info.set_neighbor_mtu(Mtu::Bytes4096).set_m_key(0x5EC2E7);
    }
    (fabric, plan)
}

impl World {
    pub(super) fn new(spec: &str) -> World {
        World::with_lmc(spec, 0)
    }

    pub(super) fn with_lmc(spec: &str, lmc: u8) -> World {
        let (fabric, plan) = planned(spec, lmc);
        World::of(fabric, plan)
    }

    pub(super) fn of(fabric: Fabric, plan: Plan) -> World {
        let snapshot = Snapshot {
            controls_congestion: false,
            manages_vports: false,
            following: None,
            at: Time::ZERO,
            role: Role::Master,
            identity: Identity {
                priority: 5,
                sm_key: SM_KEY,
            },
            others: Arc::new([]),
            own_guid: fabric.port(fabric.local.unwrap()).guid,
            port_up: true,
            converging: false,
            fabric: Arc::new(fabric),
            plan: Some(Arc::new(plan)),
            refused_plan: None,
            expected: Arc::default(),
            avoid: Arc::default(),
            overlay: Arc::default(),
            capabilities: Arc::default(),
            adaptive: Arc::default(),
            slow_links: Default::default(),
            m_keys: Default::default(),
            congestion: rsm_model::congestion::CongestionView::default(),
            findings: Arc::new([]),
            history: Arc::new([]),
            stats: ClientStats::default(),
            traps: Default::default(),
        };
        let mut sa = Sa::new(SaConfig {
            sm_key: SM_KEY,
            ..SaConfig::default()
        });
        sa.replace(&snapshot);
        sa.handle_deadline(Time::ZERO);
        World {
            sa,
            snapshot,
            now: Time::ZERO,
        }
    }

    /// Computes all paths ahead of time.
    pub(super) fn prepare(&mut self) {
        let sa_snapshot = SaSnapshot::of(&self.snapshot, None);
        sa_snapshot.prepare();
        self.sa.answer_from(sa_snapshot);
    }

    /// Gives each port in `tables`, by its LID, these P_Keys in the SA's directory.
    pub(super) fn with_partitions(mut self, tables: &[(Lid, &[u16])]) -> World {
        let mut directory = Directory::of(&self.snapshot, None).unwrap();
        let inner = Arc::get_mut(&mut directory).unwrap();
        for &(lid, table) in tables {
            let ix = inner.by_lid(lid).unwrap();
            Arc::make_mut(&mut inner.memberships).set(ix, table);
        }
        self.sa.answer_from(SaSnapshot {
            directory: Some(directory),
            is_master: true,
        });
        self
    }

    /// Removes the PortInfo, and thereby the LID, of the host with this LID, as if the host were
    /// absent.
    pub(super) fn remove_host(&mut self, lid: Lid) {
        let guid = self.guid(lid);
        let mut fabric = Fabric::clone(&self.snapshot.fabric);
        let ports = fabric.nodes_mut().flat_map(|node| &mut node.ports);
        for port in ports.filter(|port| port.guid == guid) {
            port.info = None;
        }
        self.snapshot.fabric = Arc::new(fabric);
        self.sa.replace(&self.snapshot);
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.snapshot.fabric
    }

    /// Base LIDs of hosts, in the order of their GUIDs.
    pub(super) fn hosts(&self) -> Vec<Lid> {
        self.lids(|kind| kind != NodeType::Switch)
    }

    /// LIDs of switches, in the order of their GUIDs.
    pub(super) fn switches(&self) -> Vec<Lid> {
        self.lids(|kind| kind == NodeType::Switch)
    }

    fn lids(&self, wanted: impl Fn(NodeType) -> bool) -> Vec<Lid> {
        let fabric = self.fabric();
        let ends = fabric.end_ports();
        ends.filter(|(at, _)| wanted(fabric.node(at.node).kind()))
            .map(|(_, port)| port.lid())
            .collect()
    }

    pub(super) fn guid(&self, lid: Lid) -> Guid {
        let mut ends = self.fabric().end_ports();
        let end = ends.find(|(_, port)| port.lid() == lid);
        end.unwrap().1.guid
    }

    pub(super) fn gid(&self, lid: Lid) -> Gid {
        Gid::new(PREFIX, self.guid(lid))
    }

    /// The records or status that the first host gets to a request with `method` and `record`.
    pub(super) fn ask<Q: Record, A: Record>(
        &mut self,
        method: Method,
        mask: ComponentMask,
        record: &Q,
    ) -> Result<Vec<A>, Status> {
        self.ask_with(method, mask, record, |_| {})
    }

    /// Sends a request as [`World::ask`] does, after `change` has edited the SA header.
    pub(super) fn ask_with<Q: Record, A: Record>(
        &mut self,
        method: Method,
        mask: ComponentMask,
        record: &Q,
        change: impl FnOnce(&mut SaHeader),
    ) -> Result<Vec<A>, Status> {
        let mut mad = SaMad::request(method, Tid(77), mask, record);
        change(&mut mad.header);
        let mut answer = self
            .handle(mad.as_bytes())
            .expect("every request is answered");
        while !self.sa.continue_search(&mut answer) {}
        assert_eq!(answer.header().mad().tid(), Tid(77));
        assert!(answer.header().mad().method().is_response());
        records(answer)
    }

    /// The records or status that `host` gets to a request with `sm_key`; 0 stands for an untrusted
    /// requester.
    pub(super) fn ask_from<R: Record>(
        &mut self,
        (host, sm_key): (Lid, u64),
        method: Method,
        mask: ComponentMask,
        record: &R,
    ) -> Result<Vec<R>, Status> {
        let mut mad = SaMad::request(method, Tid(1), mask, record);
        mad.header.set_sm_key(sm_key);
        records(self.handle_from(host, mad.as_bytes()).unwrap())
    }

    /// The answer of the SA to a datagram from the first host.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Option<SaAnswer> {
        self.handle_from(self.hosts()[0], bytes)
    }

    pub(super) fn handle_from(&mut self, lid: Lid, bytes: &[u8]) -> Option<SaAnswer> {
        let requester = RemoteAddress::gsi(lid, 0);
        self.sa.handle(SaRequest { bytes, requester }, self.now)
    }

    /// The records that the first host gets to a GetTable.
    pub(super) fn table<R: Record>(&mut self, mask: ComponentMask, record: &R) -> Vec<R> {
        self.ask(Method::GET_TABLE, mask, record).unwrap()
    }

    /// The only record that the first host gets to a Get, or the status.
    pub(super) fn get<R: Record>(&mut self, mask: ComponentMask, record: &R) -> Result<R, Status> {
        let records = self.ask(Method::GET, mask, record)?;
        assert_eq!(records.len(), 1);
        Ok(records[0])
    }
}

/// The records in an answer, or its status.
pub(super) fn records<A: Record>(answer: SaAnswer) -> Result<Vec<A>, Status> {
    if !answer.status().is_ok() {
        return Err(answer.status());
    }
    if let Some(datagram) = answer.datagram() {
        let record = A::from_prefix(&datagram[SA_HEADER_LEN..]).unwrap();
        return Ok(vec![*record]);
    }
    assert_eq!(answer.header().attribute_offset(), A::WORDS);
    let message = answer.into_message(usize::MAX).unwrap();
    let data = &message[SA_HEADER_LEN..];
    assert_eq!(data.len() % A::LEN, 0);
    let records = data.chunks(A::LEN);
    Ok(records
        .map(|bytes| *A::from_prefix(bytes).unwrap())
        .collect())
}
