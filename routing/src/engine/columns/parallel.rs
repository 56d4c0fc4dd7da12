//! Shares traffic among the parallel links between two switches.

use rsm_ids::PortNum;

use super::Column;
use crate::engine::channels::Channels;
use crate::tables::Tables;
use crate::topology::{Destination, SwitchIdx, Topology};

/// At every switch that reaches a host over parallel links, gives the host's base LID the link with
/// the lowest traffic of hosts relative to its rate. Entries for the other LIDs of hosts stay.
/// `ends` lists the destinations of each switch, absent ones included.
pub(super) fn share(
    topology: &Topology,
    ends: &[&[Destination]],
    columns: &[Vec<Column>],
    tables: &mut Tables,
) {
    let is_parallel =
        |switch: &SwitchIdx| topology.groups(*switch).any(|group| group.links.len() > 1);
    let switches: Vec<SwitchIdx> = topology.indices().filter(is_parallel).collect();
    if switches.is_empty() {
        return;
    }
    let channels = Channels::of(topology).with_hosts(ends);
    let mut loads = LinkLoads {
        topology,
        load: vec![0; topology.half_link_count()],
    };
    for to in topology.indices() {
        let columns_to = &columns[to.index()];
        for (number, column) in columns_to.iter().enumerate() {
            let flows = channels.flows(column);
            let is_host = |destination: &&Destination| destination.kind.is_host();
            let hosts = ends[to.index()].iter().filter(is_host);
            for host in hosts.skip(number).step_by(columns_to.len()) {
                for &switch in switches.iter().filter(|&&switch| switch != to) {
                    let flow = flows[switch.index()];
                    if let Some(port) = loads.assign(switch, column, flow)
                        && topology.destination_of(host.lid).is_some()
                    {
                        tables.lfts[switch.index()].set_entry(host.lid, port.0);
                    }
                }
            }
        }
    }
}

/// The host traffic on each link.
struct LinkLoads<'a> {
    topology: &'a Topology,
    /// The number of pairs of hosts on each link, by link number.
    load: Vec<u64>,
}

impl LinkLoads<'_> {
    /// Adds a flow to one of the parallel links that a column takes at a switch, and returns the
    /// link's port; `None` if there is only one link, or the column has no path.
    fn assign(&mut self, switch: SwitchIdx, column: &Column, flow: u64) -> Option<PortNum> {
        let groups = self.topology.group_range(switch);
        let group = groups.start + usize::from(column[switch.index()]);
        if group >= groups.end {
            return None;
        }
        let links = self.topology.group(group).links;
        let numbered = self.topology.link_range(group).zip(links);
        let (least, link) = numbered.min_by(|one, other| {
            // Products of path counts and rates stay below 2^64.
            let [one, other] = [(one, other), (other, one)]
                .map(|(own, against)| (self.load[own.0] + flow) * u64::from(against.1.weight));
            one.cmp(&other)
        })?;
        if self.topology.is_counted(switch, link.port) {
            self.load[least] += flow;
        }
        (links.len() > 1).then_some(link.port)
    }
}
