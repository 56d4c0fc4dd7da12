//! Resolves the names of a design to nodes and ports of a fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::NodeType;

use super::choices::Choice;
use super::{
    AbsentNode, Design, DesignedCable, DesignedEnd, FarEnds, GoneNode, Place, Spot, UnclearCable,
    WILDCARD,
};
use crate::fabric::Fabric;

/// The cables of a design, with names resolved to nodes and ports.
#[derive(Default)]
pub(super) struct Resolved {
    /// Cables whose two ends are certain ports, by both ends.
    pub(super) wanted: FarEnds,
    /// Cables with one open end, which may be at any of several ports.
    pub(super) choices: Vec<Choice>,
    /// Candidate ports of open ends, by the name and port in the design. Lines with the same name
    /// and port share one set.
    candidates: BTreeMap<(String, Option<PortNum>), Arc<BTreeSet<Spot>>>,
    /// Nodes that the design names unambiguously.
    pub(super) named: BTreeSet<Guid>,
    /// Names that no node has.
    pub(super) absent: Vec<AbsentNode>,
    /// Cables that cannot be compared.
    pub(super) unclear: Vec<UnclearCable>,
}

/// The nodes that a name stands for.
#[derive(Clone)]
pub(super) enum NameMatch {
    /// One node, or a name that no node has.
    One(Place),
    /// Any one of several nodes.
    AnyOf(Arc<[Guid]>),
}

/// The nodes of a fabric by each of their names, with the number of their ports.
struct Directory {
    by_name: BTreeMap<String, BTreeSet<Guid>>,
    /// Number of the last port of each node; 255 if the number is not known.
    ports: BTreeMap<Guid, u8>,
}

impl Resolved {
    /// Looks up the names of `design`.
    pub(super) fn of(design: &Design, fabric: &Fabric, gone: &[GoneNode<'_>]) -> Resolved {
        let directory = Directory::of(fabric, gone);
        let mut resolved = Resolved::default();
        let mut matches: BTreeMap<&str, NameMatch> = BTreeMap::new();
        for cable in &design.cables {
            let ends = cable.ends.each_ref().map(|end| {
                let name = end.node.as_str();
                let entry = matches.entry(name);
                entry
                    .or_insert_with(|| resolved.look_up(name, cable.line, &directory))
                    .clone()
            });
            match resolved.add(cable, &ends, &directory) {
                Ok(()) => resolved.count_at_absent(&ends),
                Err(reason) => {
                    let line = cable.line;
                    resolved.unclear.push(UnclearCable { line, reason });
                }
            }
        }
        resolved
    }

    /// Finds the nodes for a name that the design first uses in `line`. Adds a name that no node
    /// has to [`Resolved::absent`].
    fn look_up(&mut self, name: &str, line: usize, directory: &Directory) -> NameMatch {
        let nodes = directory.find(name);
        match nodes[..] {
            [] => {
                self.absent.push(AbsentNode {
                    name: name.to_owned(),
                    line,
                    cables: 0,
                });
                NameMatch::One(Place::Absent(self.absent.len() - 1))
            }
            [node] => {
                self.named.insert(node);
                NameMatch::One(Place::Node(node))
            }
            _ => NameMatch::AnyOf(nodes.into()),
        }
    }

    /// Counts a compared cable at each absent node at its ends, once for a cable between two ports
    /// of one node.
    fn count_at_absent(&mut self, ends: &[NameMatch; 2]) {
        let absent = ends.iter().filter_map(|end| match *end {
            NameMatch::One(Place::Absent(index)) => Some(index),
            _ => None,
        });
        for index in absent.collect::<BTreeSet<usize>>() {
            self.absent[index].cables += 1;
        }
    }

    /// Adds a cable; `node_matches` are the nodes at which each end may be.
    ///
    /// # Errors
    /// The reason why the cable cannot be compared.
    fn add(
        &mut self,
        cable: &DesignedCable,
        node_matches: &[NameMatch; 2],
        directory: &Directory,
    ) -> Result<(), String> {
        let mut spots = [None; 2];
        for (index, (end, node_match)) in cable.ends.iter().zip(node_matches).enumerate() {
            if let (&NameMatch::One(place), Some(port)) = (node_match, end.port) {
                directory.check(place, port, &end.node)?;
                let spot = Spot { place, port };
                if self.wanted.contains_key(&spot) {
                    return Err(format!(
                        "{} port {port} has another cable, by another name",
                        end.node
                    ));
                }
                spots[index] = Some(spot);
            }
        }
        match spots {
            [Some(a), Some(b)] if a == b => Err("both its ends are one port".to_owned()),
            [Some(a), Some(b)] => {
                self.wanted.insert(a, b);
                self.wanted.insert(b, a);
                Ok(())
            }
            [Some(spot), None] => self.add_choice(
                cable.line,
                spot,
                &node_matches[1],
                &cable.ends[1],
                directory,
            ),
            [None, Some(spot)] => self.add_choice(
                cable.line,
                spot,
                &node_matches[0],
                &cable.ends[0],
                directory,
            ),
            [None, None] => Err("neither end is one port: several nodes have its names".to_owned()),
        }
    }

    /// Adds a cable from `spot` to an open end at any node in `node_match`. The open end is at the
    /// port that the design states, or at any port if the design states none.
    ///
    /// # Errors
    /// The reason why the cable cannot be compared.
    fn add_choice(
        &mut self,
        line: usize,
        spot: Spot,
        node_match: &NameMatch,
        end: &DesignedEnd,
        directory: &Directory,
    ) -> Result<(), String> {
        let nodes: &[Guid] = match node_match {
            &NameMatch::One(Place::Absent(index)) => {
                // Any free port of the absent node fits. The search begins with the highest number,
                // because the ports that a design states usually have low numbers.
                let place = Place::Absent(index);
                let ports = (1..u8::MAX).rev().map(|number| Spot {
                    place,
                    port: PortNum(number),
                });
                let free = ports
                    .into_iter()
                    .find(|free| !self.wanted.contains_key(free));
                let far_end = free.ok_or("it has more cables than a node has ports")?;
                self.wanted.insert(spot, far_end);
                self.wanted.insert(far_end, spot);
                return Ok(());
            }
            NameMatch::One(Place::Node(guid)) => std::slice::from_ref(guid),
            NameMatch::AnyOf(nodes) => nodes,
        };
        let candidates = self.candidates.entry((end.node.clone(), end.port));
        let candidates = candidates.or_insert_with(|| {
            let ports = nodes.iter();
            let ports = ports.flat_map(|&guid| directory.spots(guid, end.port));
            Arc::new(ports.collect())
        });
        self.choices.push(Choice {
            line,
            spot,
            candidates: Arc::clone(candidates),
        });
        Ok(())
    }
}

impl Directory {
    /// Collects the names of all nodes in `fabric` and `gone`.
    fn of(fabric: &Fabric, gone: &[GoneNode<'_>]) -> Directory {
        let mut directory = Directory {
            by_name: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for node in fabric.nodes() {
            directory
                .ports
                .insert(node.guid, (node.ports.len().max(1) - 1) as u8);
            for name in [node.description.as_str(), node.reported()] {
                directory.add(name, node.guid, node.kind() == NodeType::Switch);
            }
        }
        for node in gone.iter().filter(|node| fabric.find(node.guid).is_none()) {
            directory.add(node.description, node.guid, node.is_switch);
            directory.ports.insert(node.guid, u8::MAX);
        }
        directory
    }

    /// Adds a name of a node; for a switch, also the operator's name that `name` contains, if any.
    fn add(&mut self, name: &str, node: Guid, is_switch: bool) {
        let short = switch_name(name).filter(|_| is_switch);
        for name in [Some(name), short].into_iter().flatten() {
            self.by_name
                .entry(name.to_owned())
                .or_default()
                .insert(node);
        }
    }

    /// The ports of a node; with `port`, only the port with this number.
    fn spots(&self, node: Guid, port: Option<PortNum>) -> impl Iterator<Item = Spot> + use<> {
        let last = self.ports.get(&node).copied().unwrap_or(0);
        let all = (1..=last).map(PortNum);
        let wanted = all.filter(move |&number| port.is_none_or(|port| port == number));
        wanted.map(move |port| Spot {
            place: Place::Node(node),
            port,
        })
    }

    /// The nodes that `name`, a name of the design, stands for, ascending by GUID: nodes with this
    /// name, else the node with this GUID, else nodes with names that match the wildcards.
    fn find(&self, name: &str) -> Vec<Guid> {
        if let Some(nodes) = self.by_name.get(name) {
            return nodes.iter().copied().collect();
        }
        let guid = name
            .starts_with("0x")
            .then(|| name.parse::<Guid>().ok())
            .flatten();
        if let Some(guid) = guid.filter(|guid| self.ports.contains_key(guid)) {
            return vec![guid];
        }
        let Some((prefix, _)) = name.split_once(WILDCARD) else {
            return Vec::new();
        };
        let candidates = self.by_name.range(prefix.to_owned()..);
        let candidates = candidates.take_while(|(other, _)| other.starts_with(prefix));
        let nodes = candidates
            .filter(|(other, _)| matches_pattern(name, other))
            .flat_map(|(_, nodes)| nodes);
        nodes
            .copied()
            .collect::<BTreeSet<Guid>>()
            .into_iter()
            .collect()
    }

    /// Checks that a node, which the design calls `name`, has a port with this number. An absent
    /// node may have any port.
    ///
    /// # Errors
    /// A sentence saying that the port does not exist.
    fn check(&self, place: Place, port: PortNum, name: &str) -> Result<(), String> {
        let Place::Node(guid) = place else {
            return Ok(());
        };
        match self.ports.get(&guid) {
            Some(&last) if port.0 > last => {
                Err(format!("{name} has no port {port}: its last one is {last}"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether `name` matches `pattern`, in which each [`WILDCARD`] stands for any text, even none.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split(WILDCARD);
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The operator's name of a switch, taken from the description that managed switches derive from
/// it: `leaf-03` in `MF0;leaf-03:MQM8700/U1`.
fn switch_name(description: &str) -> Option<&str> {
    let (chassis, rest) = description.split_once(';')?;
    let (name, model) = rest.rsplit_once(':')?;
    (chassis.starts_with("MF") && model.contains('/') && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_names_with_any_text_in_place_of_wildcards() {
        for (pattern, name, expected) in [
            ("leaf-*", "leaf-03", true),
            ("leaf-*", "leaf-", true),
            ("leaf-*", "spine-leaf-03", false),
            ("*leaf-03:*", "MF0;leaf-03:MQM9700/U1", true),
            ("*leaf-03:*", "MF0;leaf-033:MQM9700/U1", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn name_of_a_managed_switch_is_taken_from_its_description() {
        assert_eq!(switch_name("MF0;leaf-03:MQM8700/U1"), Some("leaf-03"));
        assert_eq!(switch_name("MF0;rack:7:MQM8700/U1"), Some("rack:7"));
        for other in ["leaf-03", "host;x:y", "MF0;:MQM8700/U1"] {
            assert_eq!(switch_name(other), None, "{other}");
        }
    }
}
