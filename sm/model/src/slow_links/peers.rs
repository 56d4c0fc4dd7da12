//! Links of hosts that are slower than those of most adapters of their type.
//!
//! A fault of a cable or of an adapter's settings may leave no trace at the adapter: the adapter
//! seems to support no more. The links of adapters of one type to switches of one type show the
//! usual rate. A switch port that supports less than the usual rate is no fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{LinkSpeed, PortKey};
use rsm_mad::wire::attr::{ActiveRate, NodeType, PortInfo};

use super::BelowSiblings;
use super::rates::{best_speed, best_width};
use crate::fabric::{Fabric, Node};

/// Minimum number of adapters of a type that show a usual rate.
const ADAPTERS_MIN: u32 = 3;

/// Vendor and device of an adapter, and of the switch at its cable.
type Types = [(u32, u16); 2];

/// Number of links by their data rate in megabits per second.
type Rates = BTreeMap<u32, u32>;

/// The links of hosts that are slower than those of most adapters of their type. Clones share them.
#[derive(Clone, Default, Debug)]
pub(super) struct SlowHosts {
    /// Rates of the links of all adapters.
    rates: Arc<BTreeMap<Types, Rates>>,
    /// The slow links, each by its lower end.
    pub(super) slow: Arc<BTreeMap<PortKey, BelowSiblings>>,
}

/// The link of an adapter.
struct HostLink {
    low: PortKey,
    high: PortKey,
    types: Types,
    mbps: u32,
    /// Whether an end shows a speed above QDR. If neither end does, the adapter may be of a kind
    /// that refuses to show extended speeds.
    shows_speed: bool,
    /// The best rate that the switch's port supports; `None` if it is not known.
    switch_mbps: Option<u32>,
}

impl SlowHosts {
    /// Follows the fabric from `before` to `now`. Reads only nodes that the two do not share, and
    /// all adapters if the usual rate of a type changes.
    pub(super) fn follow(&mut self, before: &Fabric, now: &Fabric) {
        let differing = before.differing(now);
        if differing.is_empty() {
            return;
        }
        let has_other_type = |pair: &(Option<&Node>, Option<&Node>)| match *pair {
            (Some(old), Some(new)) => {
                new.kind() == NodeType::Switch && type_of(old) != type_of(new)
            }
            _ => false,
        };
        if differing.iter().any(has_other_type) {
            *self = SlowHosts::default();
            return self.follow(&Fabric::default(), now);
        }
        let adapters = |node: &&Node| node.kind() == NodeType::Ca;
        let old = differing.iter().filter_map(|pair| pair.0).filter(adapters);
        let old: Vec<HostLink> = old.flat_map(|node| links(before, node)).collect();
        let new = differing.iter().filter_map(|pair| pair.1).filter(adapters);
        let mut new: Vec<HostLink> = new.flat_map(|node| links(now, node)).collect();
        let changed: BTreeSet<Types> = old.iter().chain(&new).map(|link| link.types).collect();
        let rates = Arc::make_mut(&mut self.rates);
        let usual_before = usual_of(rates, &changed);
        for link in &old {
            let of_type = rates.entry(link.types).or_default();
            if let Some(count) = of_type.get_mut(&link.mbps) {
                *count = count.saturating_sub(1);
            }
        }
        for link in &new {
            let of_type = rates.entry(link.types).or_default();
            *of_type.entry(link.mbps).or_default() += 1;
        }
        let usual = usual_of(rates, &changed);
        let has_other_rate = |types: &Types| usual_before.get(types) != usual.get(types);
        // Another setting of a switch's port may make an adapter comparable.
        let switches = differing.iter().filter_map(|pair| pair.1);
        let switches = switches.filter(|node| node.kind() == NodeType::Switch);
        let beside = switches.flat_map(Node::cables).filter_map(|(_, there)| {
            let node = now.node_of(there.node);
            node.filter(|node| node.kind() == NodeType::Ca)
        });
        new.extend(beside.flat_map(|node| links(now, node)));
        if changed.iter().any(has_other_rate) {
            let all = now.nodes().filter(|node| node.kind() == NodeType::Ca);
            let all = all.flat_map(|node| links(now, node));
            new.extend(
                all.filter(|link| changed.contains(&link.types) && has_other_rate(&link.types)),
            );
        }
        let of_new: BTreeSet<Types> = new.iter().map(|link| link.types).collect();
        let usual = usual_of(rates, &of_new);
        let slow = new.iter().filter_map(|link| {
            let &usual = usual.get(&link.types)?;
            if !link.shows_speed || link.switch_mbps.is_some_and(|most| most < usual) {
                return None;
            }
            let below = BelowSiblings {
                peer: link.high,
                mbps: link.mbps,
                siblings_mbps: usual,
            };
            (link.mbps < usual).then_some((link.low, below))
        });
        let slow: BTreeMap<PortKey, BelowSiblings> = slow.collect();
        let compared = old.iter().chain(&new).map(|link| link.low);
        let compared: BTreeSet<PortKey> =
            compared.filter(|low| self.slow.contains_key(low)).collect();
        if !compared.is_empty() || !slow.is_empty() {
            let held = Arc::make_mut(&mut self.slow);
            held.retain(|low, _| !compared.contains(low));
            held.extend(slow);
        }
    }
}

/// The rate that more than half of the links of each of these types have, in megabits per second.
/// Types with fewer than [`ADAPTERS_MIN`] links, or with no such rate, are left out.
fn usual_of(rates: &BTreeMap<Types, Rates>, types: &BTreeSet<Types>) -> BTreeMap<Types, u32> {
    let usual = types.iter().filter_map(|types| {
        let rates = rates.get(types)?;
        let total: u32 = rates.values().sum();
        let mut most = rates.iter().filter(|&(_, &count)| 2 * count > total);
        let usual = most.next().filter(|_| total >= ADAPTERS_MIN)?;
        Some((*types, *usual.0))
    });
    usual.collect()
}

/// VendorID and DeviceID of a node.
fn type_of(node: &Node) -> (u32, u16) {
    (node.info.vendor_id(), node.info.device_id())
}

/// The links of an adapter that are up and lead to switches.
fn links(fabric: &Fabric, node: &Node) -> Vec<HostLink> {
    let links = node.cables().filter_map(|(here, there)| {
        let port = &node.ports[here.port.index()];
        let switch = fabric.node_of(there.node).filter(|node| node.is_switch())?;
        let near = port.info.as_ref().filter(|_| port.up)?;
        let is_inside = node.is_aggregation_node(switch.ports.get(there.port.index())?);
        let far = switch.ports.get(there.port.index())?.info.as_ref();
        let rate = near.link_rate()?;
        (!is_inside).then_some(HostLink {
            low: here.min(there),
            high: here.max(there),
            types: [type_of(node), type_of(switch)],
            mbps: rate.data_mbps(),
            shows_speed: rate.speed > LinkSpeed::Fdr10,
            switch_mbps: far.and_then(supported_mbps),
        })
    });
    links.collect()
}

/// The best data rate that a port supports and has enabled, in megabits per second; `None` if it
/// is not known.
fn supported_mbps(info: &PortInfo) -> Option<u32> {
    let rate = ActiveRate {
        lanes: best_width(info, info)?.lanes(),
        speed: best_speed(info, info)?,
    };
    Some(rate.data_mbps())
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::{LinkSpeedExt, LinkWidths};
    use rsm_routing::generate::generate;
    use rsm_routing::netlist::{LinkSpeed, Netlist, NodeKind};

    use super::*;

    /// A tree of eight hosts; the hosts at the indices in `slow` have half the rate.
    fn fabric(slow: &[usize]) -> Fabric {
        let netlist = generate("pgft:2;4,2;1,2;1,1").expect("a fabric");
        let (nodes, mut cables) = netlist.into_parts();
        let is_host = |index: usize| nodes[index].kind == NodeKind::Ca;
        let of_hosts = cables.iter_mut();
        let of_hosts = of_hosts.filter(|cable| is_host(cable.a.0) || is_host(cable.b.0));
        for (at, cable) in of_hosts.enumerate() {
            cable.speed = match slow.contains(&at) {
                true => LinkSpeed::Hdr,
                false => LinkSpeed::Ndr,
            };
        }
        Fabric::of_netlist(&Netlist::new(nodes, cables).expect("each port has one cable"))
    }

    #[test]
    fn host_is_slow_while_it_is_below_most_adapters_of_its_type() {
        let (none, one) = (fabric(&[]), fabric(&[5]));
        let mut hosts = SlowHosts::default();
        hosts.follow(&Fabric::default(), &none);
        assert!(hosts.slow.is_empty());
        hosts.follow(&none, &one);
        let [below] = &hosts.slow.values().collect::<Vec<_>>()[..] else {
            panic!("{:?}", hosts.slow);
        };
        assert_eq!(below.mbps * 2, below.siblings_mbps);
        hosts.follow(&one, &none);
        assert!(hosts.slow.is_empty());
    }

    #[test]
    fn a_host_at_a_switch_port_that_supports_no_more_is_not_slow() {
        let mut fabric = fabric(&[5]);
        let mut hosts = SlowHosts::default();
        hosts.follow(&Fabric::default(), &fabric);
        let (&low, below) = hosts.slow.iter().next().expect("one is slow");
        let ends = [low, below.peer].into_iter();
        let switch = ends.filter_map(|end| fabric.find_port(end));
        let mut switch = switch.filter(|at| fabric.node(at.node).is_switch());
        let at = switch.next().expect("the other end");
        let before = fabric.clone();
        let info = fabric.port_mut(at).info.as_mut().expect("it was read");
        info.set_link_width_supported(LinkWidths::X4)
            .set_link_width_enabled(LinkWidths::X4)
            .set_link_speed_ext_supported(LinkSpeedExt::HDR)
            .set_link_speed_ext_enabled(LinkSpeedExt::HDR);
        hosts.follow(&before, &fabric);
        assert!(hosts.slow.is_empty(), "{:?}", hosts.slow);
    }

    #[test]
    fn followed_changes_give_the_slow_hosts_of_a_fresh_comparison() {
        let steps = [&[][..], &[1, 2, 3, 4], &[1], &[0, 1, 2, 3, 4, 6], &[7], &[]];
        let mut hosts = SlowHosts::default();
        let mut before = Fabric::default();
        for slow in steps {
            let now = fabric(slow);
            hosts.follow(&before, &now);
            let mut anew = SlowHosts::default();
            anew.follow(&Fabric::default(), &now);
            assert_eq!(hosts.slow, anew.slow, "{slow:?}");
            let expected = if slow.len() < 4 { slow.len() } else { 0 };
            assert_eq!(hosts.slow.len(), expected, "{slow:?}");
            before = now;
        }
    }
}
