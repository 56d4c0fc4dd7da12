//! Reads the switches and links of the subnet, and makes a [`Graph`] of them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rsm_api::model::{
    GoneSwitch, GoneSwitches, Keyed, LinkFilter, NodeFilter, NodeKind, PortId, PortState,
};
use rsm_api::v1::Avoidance;
use rsm_api::{AGGREGATION_NODE, Subnet, v1};
use rsm_ids::{Guid, PortNum};
use rsm_routing::picture::layout::{Layout, LayoutSwitch, layout};

use super::{Graph, LinkKind, Switches};
use crate::limits::GRAPH_ATTEMPTS;

/// The parts of the subnet that a graph shows.
struct Parts {
    /// The generation of the snapshot; the earlier one if the switches and links are of two.
    generation: u64,
    switches: Vec<Keyed<Guid, v1::Node>>,
    links: Vec<v1::Link>,
    gone: GoneSwitches,
}

impl Parts {
    /// Reads all parts, and reads again if the subnet has changed meanwhile. If the parts still
    /// belong to two generations, the result states the earlier generation, so that the reader
    /// knows that a newer generation exists.
    fn read(subnet: &dyn Subnet) -> Parts {
        let filter = NodeFilter {
            kind: Some(NodeKind::Switch),
            ..NodeFilter::default()
        };
        let mut attempt = 1;
        loop {
            let switches = subnet.nodes(None, usize::MAX, &filter);
            let links = subnet.links(None, usize::MAX, &LinkFilter::default());
            let gone = subnet.gone_switches();
            if links.generation == switches.generation || attempt == GRAPH_ATTEMPTS {
                return Parts {
                    generation: switches.generation.min(links.generation),
                    switches: switches.items,
                    links: links.items.into_iter().map(|link| link.message).collect(),
                    gone,
                };
            }
            attempt += 1;
        }
    }
}

/// A link whose ends are indices of switches; `None` is an end at a host or router.
struct SwitchLink {
    ends: (u32, Option<u32>),
    /// The ports at both ends.
    ports: [Option<PortId>; 2],
    kind: LinkKind,
}

impl SwitchLink {
    /// Whether the page counts the link among those that need a look.
    fn is_bad(&self) -> bool {
        self.kind != LinkKind::Good
    }
}

/// The links between the same two switches.
#[derive(Clone, Copy)]
struct Bundle {
    /// The two switches, the lower index first.
    ends: (u32, u32),
    count: u32,
    /// The number of bad links.
    bad: u32,
    worst: LinkKind,
}

impl Graph {
    /// Reads the subnet in its current state. Takes a few tenths of a second on the largest
    /// fabrics.
    pub fn read(subnet: &dyn Subnet) -> Graph {
        Graph::of(Parts::read(subnet))
    }

    /// Makes the graph of `parts`.
    fn of(mut parts: Parts) -> Graph {
        let present = parts.switches.len();
        let gone_switches = std::mem::take(&mut parts.gone.switches);
        parts.switches.extend(gone_switches.iter().map(as_node));
        let index: HashMap<Guid, u32> = (0u32..)
            .zip(&parts.switches)
            .map(|(index, switch)| (switch.key, index))
            .collect();
        let links = parts.links.iter();
        let gone_cables = parts.gone.cables.iter();
        let switch_links: Vec<SwitchLink> = links
            .filter_map(|link| switch_link(link, &index))
            .chain(gone_cables.filter_map(|&ends| gone_link(ends, &index)))
            .collect();
        let mut hosts = vec![0u32; parts.switches.len()];
        for link in switch_links.iter().filter(|link| link.ends.1.is_none()) {
            hosts[link.ends.0 as usize] += 1;
        }
        let mut has_hosts: Vec<bool> = hosts.iter().map(|&hosts| hosts > 0).collect();
        for (has_hosts, gone) in has_hosts[present..].iter_mut().zip(&gone_switches) {
            *has_hosts = gone.has_hosts;
        }
        // A switch whose hosts are all missing stays among the leaves.
        for leaf in parts.gone.leaves.iter().filter_map(|leaf| index.get(leaf)) {
            has_hosts[*leaf as usize] = true;
        }
        rank_gone(&mut parts.switches, present, &has_hosts, &switch_links);
        let drawing = lay_out(&parts.switches, &has_hosts, &switch_links);
        let mut hosts_bad = vec![0u32; hosts.len()];
        for link in switch_links.iter().filter(|link| link.ends.1.is_none()) {
            hosts_bad[link.ends.0 as usize] += u32::from(link.is_bad());
        }
        let (bundles, places) = bundle(&switch_links);
        let active = |link: &&v1::Link| link.state() == PortState::Active;
        let links_active = parts.links.iter().filter(active).count() as u64;
        let drawing_order = drawing_order(&drawing);
        let mut new_index = vec![0u32; drawing_order.len()];
        for (new, &old) in (0u32..).zip(&drawing_order) {
            new_index[old] = new;
        }
        let switches = columns(
            &parts.switches,
            present,
            &drawing_order,
            &drawing,
            [&hosts, &hosts_bad],
        );
        let links = flat(&bundles, &new_index);
        Graph {
            generation: parts.generation,
            shape: shape(&switches.guid, &links),
            tiers: drawing.tiers,
            width: rounded(drawing.width),
            height: rounded(drawing.height),
            switches,
            groups: groups(&drawing),
            links,
            missing: missing(&parts.gone.cables, present, &index, &new_index),
            links_active,
            links_not_active: parts.links.len() as u64 - links_active,
            places,
        }
    }
}

/// The shape of a graph with these switches and links, see [`Graph::shape`].
fn shape(guids: &[String], links: &[u32]) -> String {
    let mut hasher = DefaultHasher::new();
    guids.hash(&mut hasher);
    for link in links.chunks_exact(5) {
        link[..2].hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// A gone switch as a node with the fields that a drawing needs; it has no rank yet.
fn as_node(gone: &GoneSwitch) -> Keyed<Guid, v1::Node> {
    let lids = Some(gone.lid).filter(|lid| lid.is_unicast());
    Keyed {
        key: gone.guid,
        message: v1::Node {
            guid: gone.guid.to_string(),
            kind: NodeKind::Switch.into(),
            description: gone.description.clone(),
            lids: lids.into_iter().map(|lid| lid.0.into()).collect(),
            ..v1::Node::default()
        },
    }
}

/// The link of a missing cable; `None` unless both ends are drawn switches.
fn gone_link(ends: [PortId; 2], index: &HashMap<Guid, u32>) -> Option<SwitchLink> {
    let [a, b] = ends.map(|end| index.get(&end.node).copied());
    Some(SwitchLink {
        ends: (a?, b),
        ports: ends.map(Some),
        kind: LinkKind::Gone,
    })
    .filter(|_| b.is_some())
}

/// Ranks the gone switches, from index `present` on. Routing no longer ranks gone switches; with
/// these ranks, they stay in their tier.
///
/// A gone switch gets the most frequent rank among similar switches, or the highest of several such
/// ranks. A present switch is similar if it shares a neighbour with the gone switch, and if both or
/// neither of them have hosts. Without a similar switch, the rank is `None`.
fn rank_gone(
    switches: &mut [Keyed<Guid, v1::Node>],
    present: usize,
    has_hosts: &[bool],
    switch_links: &[SwitchLink],
) {
    if present == switches.len() {
        return;
    }
    let mut neighbours = vec![Vec::new(); switches.len()];
    for (a, b) in switch_links
        .iter()
        .filter_map(|link| Some((link.ends.0, link.ends.1?)))
    {
        neighbours[a as usize].push(b as usize);
        neighbours[b as usize].push(a as usize);
    }
    for gone in present..switches.len() {
        let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
        let second_neighbours = neighbours[gone]
            .iter()
            .flat_map(|&neighbour| &neighbours[neighbour]);
        for &similar in second_neighbours.filter(|&&similar| has_hosts[similar] == has_hosts[gone])
        {
            if let (true, Some(rank)) = (similar < present, switches[similar].message.rank) {
                *votes.entry(rank).or_default() += 1;
            }
        }
        let most_frequent = votes.into_iter().max_by_key(|&(_, votes)| votes);
        switches[gone].message.rank = most_frequent.map(|(rank, _)| rank);
    }
}

/// Parses a GUID; `None` if `text` is not a GUID.
fn guid(text: &str) -> Option<Guid> {
    text.parse().ok()
}

/// A link with at least one end at a switch, the switch first; `None` for links to reduction
/// engines.
fn switch_link(link: &v1::Link, index: &HashMap<Guid, u32>) -> Option<SwitchLink> {
    let port = |end: &Option<v1::LinkEnd>| {
        let port = end.as_ref()?.port.as_ref()?;
        Some(PortId {
            node: guid(&port.node_guid)?,
            number: PortNum(u8::try_from(port.number).ok()?),
        })
    };
    // GUIDs are parsed only once: a large fabric has 135,000 links.
    let ports = [port(&link.a), port(&link.b)];
    let [a, b] = ports.map(|port| index.get(&port?.node).copied());
    let ends = match (a, b) {
        (Some(a), b) => (a, b),
        (None, Some(b)) => (b, None),
        (None, None) => return None,
    };
    let mut both = [&link.a, &link.b].into_iter().flatten();
    if both.any(|end| end.description.starts_with(AGGREGATION_NODE)) {
        return None;
    }
    let kind = match link.avoidance() {
        Avoidance::Draining | Avoidance::Drained | Avoidance::DrainedInUse => LinkKind::Drained,
        _ if link.state() != PortState::Active => LinkKind::Inactive,
        Avoidance::Isolated | Avoidance::IsolatedInUse => LinkKind::Avoided,
        Avoidance::Unspecified if link.damped => LinkKind::Avoided,
        Avoidance::Unspecified if link.slow.is_some() => LinkKind::Slow,
        Avoidance::Unspecified => LinkKind::Good,
    };
    Some(SwitchLink { ends, ports, kind })
}

/// Bundles the links between the same two switches. Returns the bundles, and for each port the
/// index of the bundle to which it belongs.
fn bundle(switch_links: &[SwitchLink]) -> (Vec<Bundle>, Vec<(PortId, u32)>) {
    let between = |link: &'_ SwitchLink| Some((link.ends.0, link.ends.1?));
    let mut links: Vec<((u32, u32), &SwitchLink)> = switch_links
        .iter()
        .filter_map(|link| between(link).map(|(a, b)| ((a.min(b), a.max(b)), link)))
        .collect();
    links.sort_unstable_by_key(|&(ends, _)| ends);
    let mut places = Vec::with_capacity(2 * links.len());
    let mut bundles: Vec<Bundle> = Vec::new();
    for (bundle, links) in (0u32..).zip(links.chunk_by(|one, two| one.0 == two.0)) {
        let kinds = links.iter().map(|(_, link)| link.kind);
        bundles.push(Bundle {
            ends: links[0].0,
            count: links.len() as u32,
            bad: links.iter().filter(|(_, link)| link.is_bad()).count() as u32,
            worst: kinds.max().unwrap_or(LinkKind::Good),
        });
        let ports = links
            .iter()
            .flat_map(|(_, link)| link.ports.iter().flatten());
        places.extend(ports.map(|&port| (port, bundle)));
    }
    (bundles, places)
}

/// Computes the position of each switch; `has_hosts` says for each switch whether it is a leaf.
fn lay_out(
    switches: &[Keyed<Guid, v1::Node>],
    has_hosts: &[bool],
    switch_links: &[SwitchLink],
) -> Layout {
    let shapes: Vec<LayoutSwitch<'_>> = switches
        .iter()
        .zip(has_hosts)
        .map(|(switch, &has_hosts)| LayoutSwitch {
            name: &switch.message.description,
            rank: switch.message.rank,
            has_hosts,
        })
        .collect();
    let cables: Vec<(u32, u32)> = switch_links
        .iter()
        .filter_map(|link| Some((link.ends.0, link.ends.1?)))
        .collect();
    layout(&shapes, &cables)
}

/// The indices of the switches, sorted by group, then by line, then from left to right.
fn drawing_order(drawing: &Layout) -> Vec<usize> {
    let mut order: Vec<usize> = (0..drawing.places.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&drawing.places[a], &drawing.places[b]);
        (a.group.cmp(&b.group))
            .then(a.y.total_cmp(&b.y))
            .then(a.x.total_cmp(&b.x))
    });
    order
}

/// Makes the columns of the switches in the given order; switches with an index from `present` on
/// have gone. For each switch, `hosts` is the number of links to hosts, and `hosts_bad` the number
/// of bad ones among them.
fn columns(
    switches: &[Keyed<Guid, v1::Node>],
    present: usize,
    order: &[usize],
    drawing: &Layout,
    [hosts, hosts_bad]: [&[u32]; 2],
) -> Switches {
    let mut columns = Switches::default();
    for &switch in order {
        let node = &switches[switch].message;
        let place = &drawing.places[switch];
        let (is_drained, is_isolated) = match node.avoidance() {
            Avoidance::Unspecified => (false, false),
            Avoidance::Isolated | Avoidance::IsolatedInUse => (false, true),
            Avoidance::Draining | Avoidance::Drained | Avoidance::DrainedInUse => (true, false),
        };
        columns.guid.push(node.guid.clone());
        columns.name.push(node.description.clone());
        columns.lid.push(node.lids.first().copied().unwrap_or(0));
        columns.group.push(place.group);
        columns.x.push(rounded(place.x));
        columns.y.push(rounded(place.y));
        columns.hosts.push(hosts[switch]);
        columns.hosts_bad.push(hosts_bad[switch]);
        let flags = u8::from(node.suspected)
            | u8::from(is_drained) << 1
            | u8::from(is_isolated) << 2
            | u8::from(switch >= present) << 3;
        columns.flags.push(flags);
    }
    columns
}

/// The rectangles of the groups, in the form of [`Graph::groups`].
fn groups(drawing: &Layout) -> Vec<[f64; 9]> {
    drawing
        .groups
        .iter()
        .map(|group| {
            [
                f64::from(group.tier),
                group.pod.map_or(-1.0, f64::from),
                f64::from(group.count),
                rounded(group.x),
                rounded(group.y),
                rounded(group.width),
                rounded(group.height),
                rounded(group.pitch),
                rounded(group.line),
            ]
        })
        .collect()
}

/// The bundles in the form of [`Graph::links`]; `new_index` maps indices of switches to their
/// indices in drawing order.
fn flat(bundles: &[Bundle], new_index: &[u32]) -> Vec<u32> {
    let numbers = |bundle: &Bundle| {
        let index = |switch: u32| new_index[switch as usize];
        [
            index(bundle.ends.0),
            index(bundle.ends.1),
            bundle.count,
            bundle.bad,
            bundle.worst as u32,
        ]
    };
    bundles.iter().flat_map(numbers).collect()
}

/// The ends of missing cables between two present switches, in the form of [`Graph::missing`].
fn missing(
    cables: &[[PortId; 2]],
    present: usize,
    index: &HashMap<Guid, u32>,
    new_index: &[u32],
) -> Vec<(u32, u32)> {
    let drawn_end = |end: PortId| {
        let switch = *index.get(&end.node)? as usize;
        (switch < present).then(|| (new_index[switch], end.number.0.into()))
    };
    let ends = cables
        .iter()
        .filter_map(|&[a, b]| Some([drawn_end(a)?, drawn_end(b)?]));
    ends.flatten().collect()
}

/// Rounds to two decimals: a hundredth of a cell is less than a pixel.
fn rounded(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
