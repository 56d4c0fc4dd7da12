//! A fabric under construction.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::spec::Spec;
use super::{GenerateError, GenerateReason};
use crate::netlist::{Cable, LinkSpeed, LinkWidth, MAX_PORTS, Netlist, Node, NodeKind, PortSpec};

/// The base of switch GUIDs: an OUI of NVIDIA's switches, and the next part of an EUI-64.
const SWITCH_GUIDS: u64 = 0x1070_fd03_0000_0000;
/// The base of adapter GUIDs, with an OUI of NVIDIA's adapters.
const ADAPTER_GUIDS: u64 = 0xe09d_7303_0000_0000;
/// The distance between the GUIDs of two switches: real switches use the numbers between for their
/// inner devices.
const SWITCH_STRIDE: u64 = 0x40;
/// The distance between the GUIDs of two adapters.
const ADAPTER_STRIDE: u64 = 8;
/// The vendor of every node: Mellanox, now NVIDIA.
const VENDOR: u32 = 0x2c9;

/// The models that support a speed: switch name, switch device ID, adapter device ID.
const fn models(speed: LinkSpeed) -> (&'static str, u16, u16) {
    match speed {
        LinkSpeed::Sdr | LinkSpeed::Ddr | LinkSpeed::Qdr => ("IS5030", 0xbd36, 0x673c),
        LinkSpeed::Fdr10 | LinkSpeed::Fdr => ("SX6036", 0xc738, 0x1003),
        LinkSpeed::Edr => ("MSB7800", 0xcf08, 0x1013),
        LinkSpeed::Hdr => ("MQM8700", 0xd2f0, 0x101b),
        LinkSpeed::Ndr => ("MQM9700", 0xd2f2, 0x1021),
        LinkSpeed::Xdr => ("Q3400", 0xd2f4, 0x1023),
    }
}

/// The nodes and cables built so far.
pub(super) struct Fabric {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    speed: LinkSpeed,
    /// The number of switches so far, from which the next GUID is derived.
    switches: u64,
    /// The number of adapters so far, from which the next GUID is derived.
    adapters: u64,
}

impl Fabric {
    /// Creates an empty fabric with room for the given numbers of switches and host ports; fails if
    /// they need too many LIDs, or if the largest switch has too many ports.
    ///
    /// Generators call this before they build anything, because numbers may be too large for
    /// memory, or saturated.
    pub(super) fn with_room(
        spec: &Spec<'_>,
        speed: LinkSpeed,
        switches: u64,
        host_ports: u64,
        largest_switch: u64,
    ) -> Result<Fabric, GenerateError> {
        let lids = switches.saturating_add(host_ports);
        let most = u64::from(Lid::UNICAST_LAST.0);
        if lids > most {
            let reason = GenerateReason::TooLarge { lids };
            let expected = format!("at most {most}, one for each switch and host port");
            return Err(spec.parameter_error(reason, expected));
        }
        if largest_switch > u64::from(MAX_PORTS) {
            let ports = largest_switch;
            let reason = GenerateReason::Radix { ports };
            return Err(spec.parameter_error(reason, format!("at most {MAX_PORTS}")));
        }
        Ok(Fabric {
            nodes: Vec::with_capacity(lids as usize),
            cables: Vec::new(),
            speed,
            switches: 0,
            adapters: 0,
        })
    }

    /// Adds a switch, named like `leaf-07`, and returns its index.
    pub(super) fn switch(&mut self, name: &str, num_ports: u64) -> usize {
        let (model, device_id, _) = models(self.speed);
        let guid = Guid(SWITCH_GUIDS + (self.switches + 1) * SWITCH_STRIDE);
        self.switches += 1;
        self.node(Node {
            kind: NodeKind::Switch,
            guid,
            system_image_guid: guid,
            vendor_id: VENDOR,
            device_id,
            description: format!("MF0;{name}:{model}/U1").into_bytes(),
            // `with_room` has checked the largest switch.
            num_ports: num_ports.clamp(1, u64::from(MAX_PORTS)) as u8,
            enhanced_port0: true,
            ports: end_port(PortNum::ZERO, guid),
        })
    }

    /// Adds adapter number `adapter` of a host, named like `host-007 mlx5_0`, with a cable to a
    /// port of a switch.
    pub(super) fn adapter(&mut self, host: &str, adapter: u64, switch: usize, port: u64) {
        let (_, _, device_id) = models(self.speed);
        let guid = Guid(ADAPTER_GUIDS + (self.adapters + 1) * ADAPTER_STRIDE);
        self.adapters += 1;
        let index = self.node(Node {
            kind: NodeKind::Ca,
            guid,
            system_image_guid: guid,
            vendor_id: VENDOR,
            device_id,
            description: format!("{host} mlx5_{adapter}").into_bytes(),
            num_ports: 1,
            enhanced_port0: false,
            ports: end_port(PortNum(1), guid),
        });
        self.cable((switch, port), (index, 1));
    }

    /// Connects two ports.
    pub(super) fn cable(&mut self, a: (usize, u64), b: (usize, u64)) {
        // Ports are below `with_room`'s largest; `Netlist::new` refuses others.
        let end = |(node, port): (usize, u64)| (node, PortNum(port.min(255) as u8));
        self.cables.push(Cable {
            a: end(a),
            b: end(b),
            width: LinkWidth::X4,
            speed: self.speed,
        });
    }

    /// Converts a finished fabric into one under construction.
    pub(super) fn from_netlist(netlist: Netlist, speed: LinkSpeed) -> Fabric {
        let (nodes, cables) = netlist.into_parts();
        let last = |base: u64, stride: u64| {
            let guids = nodes.iter().map(|node: &Node| node.guid.0);
            let numbers = guids.filter_map(|guid| Some(guid.checked_sub(base)? / stride));
            let own = numbers.filter(|&number| number <= u64::from(Lid::UNICAST_LAST.0));
            own.max().unwrap_or(0)
        };
        Fabric {
            switches: last(SWITCH_GUIDS, SWITCH_STRIDE),
            adapters: last(ADAPTER_GUIDS, ADAPTER_STRIDE),
            nodes,
            cables,
            speed,
        }
    }

    /// Adds a host's adapter at the lowest free port of a switch; a switch without a free port gets
    /// one more.
    pub(super) fn adapter_at_free_port(
        &mut self,
        host: &str,
        switch: usize,
        spec: &Spec<'_>,
    ) -> Result<(), GenerateError> {
        let ends = self.cables.iter().flat_map(|cable| [cable.a, cable.b]);
        let used: Vec<PortNum> = ends
            .filter(|&(node, _)| node == switch)
            .map(|(_, port)| port)
            .collect();
        let free = (1..=MAX_PORTS).find(|&port| !used.contains(&PortNum(port)));
        let Some(free) = free else {
            let ports = u64::from(MAX_PORTS) + 1;
            let reason = GenerateReason::Radix { ports };
            return Err(spec.parameter_error(reason, format!("at most {MAX_PORTS}")));
        };
        let node = &mut self.nodes[switch];
        node.num_ports = node.num_ports.max(free);
        self.adapter(host, 0, switch, u64::from(free));
        Ok(())
    }

    /// Builds the netlist.
    pub(super) fn finish(self, spec: &Spec<'_>) -> Result<Netlist, GenerateError> {
        finish(self.nodes, self.cables, spec)
    }

    /// Adds a node, and returns its index.
    fn node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

/// Builds the fabric from these parts.
pub(super) fn finish(
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    spec: &Spec<'_>,
) -> Result<Netlist, GenerateError> {
    Netlist::new(nodes, cables).map_err(|error| {
        let reason = GenerateReason::Netlist(error);
        spec.parameter_error(reason, "parts that fit together")
    })
}

/// Removes the nodes whose flag in `gone` is set, with their cables.
pub(super) fn remove(gone: &[bool], nodes: &mut Vec<Node>, cables: &mut Vec<Cable>) {
    let mut new_index = Vec::with_capacity(nodes.len());
    let mut kept = 0;
    for gone in gone {
        new_index.push(kept);
        kept += usize::from(!gone);
    }
    cables.retain(|cable| !gone[cable.a.0] && !gone[cable.b.0]);
    for cable in cables {
        cable.a.0 = new_index[cable.a.0];
        cable.b.0 = new_index[cable.b.0];
    }
    let mut gone = gone.iter();
    nodes.retain(|_| !gone.next().copied().unwrap_or(false));
}

/// The only end port of a node: this GUID, and no LID.
fn end_port(port: PortNum, guid: Guid) -> BTreeMap<PortNum, PortSpec> {
    let spec = PortSpec {
        guid,
        lid: Lid::NONE,
        lmc: Lmc::ZERO,
    };
    BTreeMap::from([(port, spec)])
}

/// A name with the number `index + 1`, which has as many digits as `count`, and at least two:
/// `leaf-07`.
pub(super) fn numbered(name: &str, index: u64, count: u64) -> String {
    numbered_from(name, index, count, 2)
}

/// The name of a host, with a number of at least three digits: `host-007`.
pub(super) fn host_name(index: u64, count: u64) -> String {
    numbered_from("host", index, count, 3)
}

/// A name with the number `index + 1`, which has as many digits as `count`, and at least `digits`.
fn numbered_from(name: &str, index: u64, count: u64, digits: usize) -> String {
    let digits = count.to_string().len().max(digits);
    format!("{name}-{:0digits$}", index + 1)
}
