//! A small fabric and a client that programs it, for the tests.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, PortInfo, PortState, SwitchInfo};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::{AttachId, Sim, SimConfig};

pub(crate) const S1: Guid = Guid(0x100);
pub(crate) const S2: Guid = Guid(0x200);
pub(crate) const H1: Guid = Guid(0x10);
pub(crate) const H2: Guid = Guid(0x20);
pub(crate) const H3: Guid = Guid(0x30);

pub(crate) fn node(kind: NodeKind, guid: Guid, num_ports: u8, description: &str) -> Node {
    Node {
        kind,
        guid,
        system_image_guid: Guid::ZERO,
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: description.as_bytes().to_vec(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    }
}

fn cable(a: (usize, u8), b: (usize, u8)) -> Cable {
    Cable {
        a: (a.0, PortNum(a.1)),
        b: (b.0, PortNum(b.1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    }
}

/// Two switches, which two links connect at ports 2 and 3; hosts 1 and 2 at port 1 of the first and
/// of the second switch; host 3 at port 4 of the first switch.
pub(crate) fn netlist() -> Netlist {
    let nodes = vec![
        node(NodeKind::Switch, S1, 4, "first"),
        node(NodeKind::Switch, S2, 4, "second"),
        node(NodeKind::Ca, H1, 1, "host one"),
        node(NodeKind::Ca, H2, 1, "host two"),
        node(NodeKind::Ca, H3, 1, "host three"),
    ];
    let cables = vec![
        cable((0, 1), (2, 1)),
        cable((1, 1), (3, 1)),
        cable((0, 2), (1, 2)),
        cable((0, 3), (1, 3)),
        cable((0, 4), (4, 1)),
    ];
    Netlist::new(nodes, cables).unwrap()
}

/// The LIDs that [`Requester::program`] assigns.
pub(crate) const LIDS: [(Guid, u16); 5] = [(H1, 1), (H2, 2), (H3, 3), (S1, 4), (S2, 5)];

/// A client at host 1 that sends requests and waits for answers.
pub(crate) struct Requester {
    pub(crate) sim: Sim,
    pub(crate) client: AttachId,
    pub(crate) now: Time,
    /// Received events that are not answers.
    pub(crate) unsolicited: Vec<(AttachId, Inbound)>,
    pub(crate) m_key: u64,
    tid: u64,
}

pub(crate) fn requester() -> Requester {
    requester_with(SimConfig::default(), 1)
}

pub(crate) fn requester_with(config: SimConfig, seed: u64) -> Requester {
    let mut sim = Sim::new(&netlist(), config, seed).unwrap();
    let client = sim.attach(H1, PortNum(1)).unwrap();
    Requester {
        sim,
        client,
        now: Time::ZERO,
        unsolicited: Vec::new(),
        m_key: 0,
        tid: 0,
    }
}

pub(crate) fn path(hops: &[u8]) -> DirectedPath {
    let hops: Vec<_> = hops.iter().map(|&hop| PortNum(hop)).collect();
    DirectedPath::from_hops(&hops).unwrap()
}

impl Requester {
    pub(crate) fn request(
        &mut self,
        method: Method,
        attribute: AttrId,
        modifier: u32,
    ) -> SmpRequest {
        self.tid += 1;
        SmpRequest {
            method,
            attribute,
            modifier,
            tid: Tid(self.tid),
            m_key: self.m_key,
            data: [0; 64],
        }
    }

    /// Sends a request and waits at most 10 ms for the answer; `None` if no answer arrives.
    pub(crate) fn ask(&mut self, smp: &Smp, remote: RemoteAddress) -> Option<Smp> {
        let mad = *smp.as_bytes();
        self.sim
            .send(self.client, &Datagram { mad, remote }, self.now);
        let deadline = self.now + Duration::from_millis(10);
        let tid = smp.header().tid();
        while let Some(time) = self.sim.next_event().filter(|&time| time <= deadline) {
            self.now = self.now.max(time);
            while let Some((to, inbound)) = self.sim.poll(self.now) {
                if let Inbound::Mad(datagram) = &inbound {
                    let answer = Smp::from_bytes(&datagram.mad);
                    if to == self.client && answer.is_response() && answer.header().tid() == tid {
                        return Some(*answer);
                    }
                }
                self.unsolicited.push((to, inbound));
            }
        }
        self.now = deadline;
        None
    }

    pub(crate) fn get(&mut self, hops: &[u8], attribute: AttrId, modifier: u32) -> Option<Smp> {
        let request = self.request(Method::GET, attribute, modifier);
        let smp = Smp::directed(&path(hops), &request);
        self.ask(&smp, RemoteAddress::directed())
    }

    pub(crate) fn get_as<A: Attribute>(&mut self, hops: &[u8], modifier: u32) -> A {
        let answer = self.get(hops, A::ID, modifier).expect("the agent answers");
        assert_eq!(answer.status(), Status::OK);
        *A::from_data(answer.data())
    }

    pub(crate) fn set<A: Attribute>(
        &mut self,
        hops: &[u8],
        modifier: u32,
        value: &A,
    ) -> Option<Status> {
        let mut request = self.request(Method::SET, A::ID, modifier);
        request.data = *value.as_data();
        let smp = Smp::directed(&path(hops), &request);
        let answer = self.ask(&smp, RemoteAddress::directed())?;
        Some(answer.status())
    }

    /// Reads the PortInfo of a port, changes it, and writes it back. The states of the port change
    /// only if `change` sets them.
    pub(crate) fn change_port(
        &mut self,
        hops: &[u8],
        port: u8,
        change: impl FnOnce(&mut PortInfo),
    ) -> Option<Status> {
        let modifier = PortInfo::modifier(PortNum(port), true);
        let mut info: PortInfo = self.get_as(hops, modifier);
        info.set_port_state(PortState::NoChange)
            .set_port_physical_state(rsm_mad::wire::attr::PortPhysicalState::NoChange);
        change(&mut info);
        self.set(hops, modifier, &info)
    }

    pub(crate) fn set_port_state(
        &mut self,
        hops: &[u8],
        port: u8,
        state: PortState,
    ) -> Option<Status> {
        self.change_port(hops, port, |info| {
            info.set_port_state(state);
        })
    }

    pub(crate) fn state(&self, node: Guid, port: u8) -> PortState {
        let info = self.sim.port_info(node, PortNum(port)).unwrap();
        info.port_state()
    }

    /// Advances the virtual time, and keeps the events of this time.
    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now += duration;
        while let Some(output) = self.sim.poll(self.now) {
            self.unsolicited.push(output);
        }
    }

    /// Returns the received datagrams that are not answers, and removes them.
    pub(crate) fn take_mads(&mut self) -> Vec<(AttachId, Datagram)> {
        let unsolicited = std::mem::take(&mut self.unsolicited);
        unsolicited
            .into_iter()
            .filter_map(|(to, inbound)| match inbound {
                Inbound::Mad(datagram) => Some((to, datagram)),
                _ => None,
            })
            .collect()
    }

    /// The nodes, each with the exit ports of the path from host 1.
    pub(crate) const PATHS: [(Guid, &'static [u8]); 5] = [
        (H1, &[]),
        (S1, &[1]),
        (H3, &[1, 4]),
        (S2, &[1, 2]),
        (H2, &[1, 2, 1]),
    ];

    /// Programs LIDs, forwarding tables (all routes between the switches use port 2) and port
    /// states.
    pub(crate) fn program(&mut self) {
        let lid_of = |guid| {
            let (_, lid) = LIDS.iter().find(|(node, _)| *node == guid).unwrap();
            Lid(*lid)
        };
        for (guid, hops) in Self::PATHS {
            let port = 0;
            let status = self.change_port(hops, port, |info| {
                info.set_lid(lid_of(guid)).set_master_sm_lid(lid_of(H1));
            });
            assert_eq!(status, Some(Status::OK), "{guid}");
        }
        // The exit ports by LID, in the order H1, H2, H3, S1, S2.
        for (hops, exit_ports) in [(&[1u8][..], [1, 2, 4, 0, 2]), (&[1, 2], [2, 1, 2, 2, 0])] {
            let mut block = LinearForwardingTable::default();
            block.ports_mut().fill(255);
            block.ports_mut()[1..6].copy_from_slice(&exit_ports);
            assert_eq!(self.set(hops, 0, &block), Some(Status::OK));
            let mut info: SwitchInfo = self.get_as(hops, 0);
            info.set_linear_fdb_top(Lid(5)).set_port_state_change(true);
            assert_eq!(self.set(hops, 0, &info), Some(Status::OK));
        }
        for state in [PortState::Armed, PortState::Active] {
            for (guid, hops) in Self::PATHS {
                let ports: &[u8] = match guid {
                    S1 => &[1, 2, 3, 4],
                    S2 => &[1, 2, 3],
                    _ => &[1],
                };
                for &port in ports {
                    let status = self.set_port_state(hops, port, state);
                    assert_eq!(status, Some(Status::OK), "{guid} {port} {state}");
                }
            }
        }
    }
}
