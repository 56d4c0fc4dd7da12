//! Follows packets between hosts by the tables that switches hold, without the manager's code.
//!
//! A pair of hosts is connected if links that are up connect both hosts to the manager. A connected
//! pair is lost while the tables of the switches or the states of the links do not lead a packet
//! from one host to the other.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Sim;

/// A bound above the number of hops of any path; a longer path is a loop.
const MAX_HOPS: usize = 64;

/// A port of a host, with its LID at the creation of the walker.
#[derive(Clone, Copy, Debug)]
struct Host {
    node: Guid,
    port: PortNum,
    lid: Lid,
}

/// The other end of a cable.
#[derive(Clone, Copy)]
enum End {
    Switch(usize),
    Host(usize),
}

/// A link that is up.
#[derive(Clone, Copy)]
struct Link {
    end: End,
    /// Whether both ends are Active, so that the link passes data packets.
    is_active: bool,
}

/// Follows packets through the tables of one fabric.
#[derive(Clone, Debug)]
pub struct Walker {
    /// The switches, sorted by GUID.
    switches: Vec<Guid>,
    hosts: Vec<Host>,
    /// The index of the manager among `hosts`.
    manager: usize,
}

/// The result of a walk at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pairs {
    /// The number of ordered pairs of hosts that links connect to the manager.
    pub connected: usize,
    /// The number of connected pairs between which packets are lost.
    pub lost: usize,
}

impl Walker {
    /// Creates a walker for the hosts with a LID, from the view of the manager's port.
    ///
    /// # Panics
    ///
    /// The manager's port does not belong to a host with a LID.
    #[must_use]
    pub fn new(sim: &Sim, manager: (Guid, PortNum)) -> Walker {
        let mut nodes: Vec<(Guid, NodeKind)> = sim.nodes().collect();
        nodes.sort_unstable_by_key(|&(guid, _)| guid);
        let of = |kind| nodes.iter().filter(move |node| node.1 == kind);
        let switches: Vec<Guid> = of(NodeKind::Switch).map(|&(guid, _)| guid).collect();
        let ends = sim.end_ports();
        let hosts = ends.filter(|(guid, _)| switches.binary_search(guid).is_err());
        let hosts = hosts.map(|(node, port)| {
            let info = sim.port_info(node, port).expect("the port exists");
            let lid = info.lid();
            Host { node, port, lid }
        });
        let hosts: Vec<Host> = hosts.filter(|host| host.lid.is_unicast()).collect();
        let manager = hosts
            .iter()
            .position(|host| (host.node, host.port) == manager)
            .expect("the manager's port has a LID");
        Walker {
            switches,
            hosts,
            manager,
        }
    }

    /// Counts the pairs that are connected, and the pairs that are currently lost.
    #[must_use]
    pub fn count_pairs(&self, sim: &Sim) -> Pairs {
        let links = Links::of(self, sim);
        let starts = self.starts(&links);
        let mut pairs = Pairs {
            connected: 0,
            lost: 0,
        };
        for target in 0..self.hosts.len() {
            for arrives in self.arrivals_from(sim, &links, &starts, target) {
                pairs.connected += 1;
                pairs.lost += usize::from(!arrives);
            }
        }
        pairs
    }

    /// The index of a host that packets from some connected host do not reach at present; `None` if
    /// packets reach all hosts. The search starts at the index `first`, and wraps around.
    #[must_use]
    pub fn first_lost(&self, sim: &Sim, first: usize) -> Option<usize> {
        let links = Links::of(self, sim);
        let starts = self.starts(&links);
        let mut order = (first..self.hosts.len()).chain(0..first);
        order.find(|&target| {
            let mut arrivals = self.arrivals_from(sim, &links, &starts, target).into_iter();
            arrivals.any(|arrives| !arrives)
        })
    }

    /// The switch of each host; `None` if links do not connect the switch to the manager.
    fn starts(&self, links: &Links) -> Vec<Option<usize>> {
        let components = links.components();
        let own_component = links.leaf_of(self.manager).map(|leaf| components[leaf]);
        (0..self.hosts.len())
            .map(|host| {
                let leaf_of = links.leaf_of(host);
                leaf_of.filter(|&leaf| Some(components[leaf]) == own_component)
            })
            .collect()
    }

    /// For each connected host, whether its packets arrive at `target`; empty if `target` is not
    /// connected.
    fn arrivals_from(
        &self,
        sim: &Sim,
        links: &Links,
        starts: &[Option<usize>],
        target: usize,
    ) -> Vec<bool> {
        if starts[target].is_none() {
            return Vec::new();
        }
        let by_switch = self.arrivals(sim, links, target, self.hosts[target].lid);
        let is_active = |host: usize| links.hosts[host].is_some_and(|link| link.is_active);
        let arrives = |(host, start): (usize, &Option<usize>)| {
            let leaf = start.filter(|_| host != target)?;
            Some(is_active(host) && is_active(target) && by_switch[leaf])
        };
        starts.iter().enumerate().filter_map(arrives).collect()
    }

    /// For each switch, whether packets from the switch to the LID of `target` arrive.
    fn arrivals(&self, sim: &Sim, links: &Links, target: usize, lid: Lid) -> Vec<bool> {
        let exits: Vec<Option<End>> = self
            .switches
            .iter()
            .enumerate()
            .map(|(index, &guid)| {
                let top = sim.switch_info(guid).ok()?.linear_fdb_top();
                let exit = *sim.lft(guid).ok()?.get(lid.index())?;
                let link = *links.switches[index].get(usize::from(exit))?;
                (lid <= top).then_some(link?)?.active()
            })
            .collect();
        let arrives = |start: usize| {
            let mut at = start;
            for _ in 0..MAX_HOPS {
                match exits[at] {
                    Some(End::Host(host)) => return host == target,
                    Some(End::Switch(next)) => at = next,
                    None => return false,
                }
            }
            false
        };
        (0..self.switches.len()).map(arrives).collect()
    }
}

impl Link {
    /// The other end, if the link passes data packets.
    fn active(self) -> Option<End> {
        self.is_active.then_some(self.end)
    }
}

/// The links that are up at one moment.
struct Links {
    /// The links by switch and port.
    switches: Vec<Vec<Option<Link>>>,
    /// The link of each host.
    hosts: Vec<Option<Link>>,
}

impl Links {
    /// Finds the links that are up now.
    fn of(walker: &Walker, sim: &Sim) -> Links {
        let host_indexes: BTreeMap<(Guid, PortNum), usize> = walker
            .hosts
            .iter()
            .enumerate()
            .map(|(index, host)| ((host.node, host.port), index))
            .collect();
        let link = |node: Guid, port: PortNum| {
            let state = |(node, port)| {
                let info = sim.port_info(node, port).ok()?;
                (info.port_state() != PortState::Down).then_some(info.port_state())
            };
            let peer = sim.peer(node, port).ok().flatten()?;
            let (here, there) = (state((node, port))?, state(peer)?);
            let end = match walker.switches.binary_search(&peer.0) {
                Ok(switch) => End::Switch(switch),
                Err(_) => End::Host(*host_indexes.get(&peer)?),
            };
            let is_active = here == PortState::Active && there == PortState::Active;
            Some(Link { end, is_active })
        };
        let ports = |guid| 0..=sim.num_ports(guid).unwrap_or(0);
        let switches = walker.switches.iter();
        let switches = switches.map(|&guid| {
            let ports = ports(guid).map(|port| link(guid, PortNum(port)));
            ports.collect()
        });
        let hosts = walker.hosts.iter();
        Links {
            switches: switches.collect(),
            hosts: hosts.map(|host| link(host.node, host.port)).collect(),
        }
    }

    /// The switch to which a host is connected; `None` if its link is down or leads to a host.
    fn leaf_of(&self, host: usize) -> Option<usize> {
        match self.hosts[host]?.end {
            End::Switch(switch) => Some(switch),
            End::Host(_) => None,
        }
    }

    /// For each switch, a number that is equal for all switches that links connect.
    fn components(&self) -> Vec<usize> {
        let mut components = vec![usize::MAX; self.switches.len()];
        for start in 0..components.len() {
            if components[start] != usize::MAX {
                continue;
            }
            components[start] = start;
            let mut stack = vec![start];
            while let Some(at) = stack.pop() {
                for link in self.switches[at].iter().flatten() {
                    if let End::Switch(next) = link.end
                        && components[next] == usize::MAX
                    {
                        components[next] = start;
                        stack.push(next);
                    }
                }
            }
        }
        components
    }
}
