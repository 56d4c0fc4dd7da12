//! Finds rails and hosts of ports by the names of devices.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_routing::topology::Topology;

use super::{Fabric, Node};

/// Maximum number of rails that are detected by names. GPU hosts have up to 18 adapters; a fabric
/// with more names than this does not number its adapters in the last word of descriptions.
const RAILS_MAX: usize = 32;

/// Identifies an adapter within its host: the device's name, such as `mlx5_3` or `HCA-1`, and the
/// port.
type Slot<'a> = (&'a str, u64, PortNum);

impl Fabric {
    /// The rail of each destination of `topology`, by its index: adapters of one name are on one
    /// rail. Empty if descriptions name no devices, or all name the same device.
    pub fn rails(&self, topology: &Topology) -> Vec<Option<u16>> {
        let mut slots: HashMap<Guid, Slot<'_>> = HashMap::new();
        for (at, port) in self.end_ports() {
            let node = self.node(at.node);
            if let Some((device, number)) = device(node) {
                slots.insert(port.guid, (device, number, at.port));
            }
        }
        let used: BTreeSet<Slot<'_>> = topology
            .destinations()
            .iter()
            .filter_map(|destination| slots.get(&destination.guid).copied())
            .collect();
        if !(2..=RAILS_MAX).contains(&used.len()) {
            return Vec::new();
        }
        let rails: BTreeMap<_, _> = used.into_iter().zip(0u16..).collect();
        let rail = |guid: &Guid| rails.get(slots.get(guid)?).copied();
        let destinations = topology.destinations().iter();
        destinations
            .map(|destination| rail(&destination.guid))
            .collect()
    }

    /// The host number of each destination, by its index: adapters whose descriptions begin with
    /// the same host name belong to one host. `None` if the description names no device.
    pub fn hosts(&self, topology: &Topology) -> Vec<Option<u32>> {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut hosts: HashMap<Guid, u32> = HashMap::new();
        for (at, port) in self.end_ports() {
            let node = self.node(at.node);
            if device(node).is_none() {
                continue;
            }
            let text = node.reported().trim_end();
            let name = text.rsplit_once(' ').map_or(text, |(name, _)| name);
            // There are fewer hosts than LIDs, so that the number fits.
            let next = numbers.len() as u32;
            hosts.insert(port.guid, *numbers.entry(name).or_insert(next));
        }
        let destinations = topology.destinations().iter();
        destinations
            .map(|destination| hosts.get(&destination.guid).copied())
            .collect()
    }
}

/// Name and number of the device at the end of a description such as `host-001 mlx5_3`; `None` if
/// the description names no device.
fn device(node: &Node) -> Option<(&str, u64)> {
    if node.kind() != NodeType::Ca {
        return None;
    }
    let (_, device) = node.reported().trim_end().rsplit_once(' ')?;
    let digits = device.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, number) = device.split_at(device.len() - digits);
    (name.ends_with(['_', '-'])).then_some((name, number.parse().ok()?))
}
