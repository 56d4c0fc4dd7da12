//! The service levels and virtual lanes that tables need in addition to their entries (IBA 3.5.8,
//! 7.6).
//!
//! A packet carries a service level (SL) from its source to its destination. Each switch looks up
//! the virtual lane (VL) for the next link in the SLtoVLMappingTable (IBA 14.2.5.8), by the SL, the
//! input port and the output port. VLs have separate buffers, so that tables that close cycles of
//! links need not close cycles of (link, VL).
//!
//! SLs are assigned by switch rather than by LID: all destinations at one switch share the paths to
//! it.
//!
//! A pair of switches has one level in both directions, because answers have the level of their
//! request. The sweep reads SLtoVLMappingTables back only if the engine needs them, and all
//! switches hold the planned SLtoVLMappingTables before the push writes the first forwarding table
//! that needs them.

use std::sync::Arc;

use rsm_ids::PortNum;

use crate::topology::{PortUse, SwitchIdx, Topology};

/// The number of service levels.
pub const SERVICE_LEVELS: usize = 16;

/// A row of an SLtoVLMappingTable: the VL of each service level.
pub type Row = [u8; SERVICE_LEVELS];

/// The value in an SLtoVLMappingTable that makes a switch drop packets (IBA 14.2.5.8).
pub const DROP: u8 = 15;

/// The service level that a packet must have for the proof of its path to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServiceLevels {
    /// Any service level.
    #[default]
    Any,
    /// A service level for each destination switch. The proof does not cover answers: they have the
    /// level of their request, which was chosen for the other switch.
    ByDestination(Vec<u8>),
    /// A service level for each pair of source and destination switch; packets may have the level
    /// of either direction.
    ByPair(PairLevels),
}

/// The service level of each pair of switches, in one byte per pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLevels {
    switches: usize,
    /// The levels, by source and then by destination.
    levels: Arc<[u8]>,
}

impl PairLevels {
    /// Creates the levels by calling `level` for each (source, destination) among `switches`
    /// switches.
    pub fn new(switches: usize, level: impl Fn(SwitchIdx, SwitchIdx) -> u8) -> PairLevels {
        let indices = 0..switches as u32;
        let levels = indices
            .clone()
            .flat_map(|from| {
                indices
                    .clone()
                    .map(move |to| (SwitchIdx(from), SwitchIdx(to)))
            })
            .map(|(from, to)| level(from, to))
            .collect();
        PairLevels { switches, levels }
    }

    /// The level of the packets from one switch to another.
    fn level(&self, from: SwitchIdx, to: SwitchIdx) -> u8 {
        self.levels[from.index() * self.switches + to.index()]
    }
}

/// The SLtoVLMappingTables of all switches, stored as the kind of each port and one row for each
/// pair of kinds. A row for each pair of ports would take 4,000 rows for a switch with 64 ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The kind of each port, by switch and by port from port 0 on.
    kinds: Vec<Vec<u8>>,
    /// The number of kinds.
    count: usize,
    /// The rows, by input kind and then by output kind.
    rows: Vec<Row>,
}

impl Mapping {
    /// Creates the tables of `topology`'s switches. `kind` returns the kind of a port, below
    /// `count`, and `row` returns the VLs of packets from a port of one kind to a port of another.
    pub fn new(
        topology: &Topology,
        count: u8,
        kind: impl Fn(SwitchIdx, PortNum) -> u8,
        row: impl Fn(u8, u8) -> Row,
    ) -> Mapping {
        let ports = |switch: SwitchIdx| {
            (0..=topology.switch(switch).num_ports).map(move |port| (switch, PortNum(port)))
        };
        Mapping {
            kinds: topology
                .indices()
                .map(|switch| {
                    ports(switch)
                        .map(|(switch, port)| kind(switch, port))
                        .collect()
                })
                .collect(),
            count: usize::from(count),
            rows: (0..count)
                .flat_map(|input| (0..count).map(move |output| (input, output)))
                .map(|(input, output)| row(input, output))
                .collect(),
        }
    }

    /// The kind of a port; 0 for a port that the switch does not have.
    fn kind(&self, switch: SwitchIdx, port: PortNum) -> usize {
        let kinds = &self.kinds[switch.index()];
        usize::from(kinds.get(port.index()).copied().unwrap_or(0))
    }
}

/// The service levels and VLs that a set of tables needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The service levels of packets.
    levels: ServiceLevels,
    /// The SLtoVLMappingTables; `None` if any will do.
    mapping: Option<Mapping>,
    vls: u8,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            levels: ServiceLevels::Any,
            mapping: None,
            vls: 1,
        }
    }
}

impl Lanes {
    /// Combines service levels with tables that use the VLs `0..vls`.
    pub fn new(levels: ServiceLevels, mapping: Mapping, vls: u8) -> Lanes {
        Lanes {
            levels,
            mapping: Some(mapping),
            vls,
        }
    }

    /// Gives each of the service levels `0..vls` a VL of its own on all links between switches;
    /// higher levels share the VLs in turn. Links to hosts, which may have fewer VLs, use VL 0
    /// only.
    pub fn layers(topology: &Topology, levels: ServiceLevels, vls: u8) -> Lanes {
        let kind = |switch, port| u8::from(topology.peer(switch, port).is_some());
        let row = |_, output| match output {
            0 => [0; SERVICE_LEVELS],
            _ => std::array::from_fn(|level| level as u8 % vls.max(1)),
        };
        Lanes::new(levels, Mapping::new(topology, 2, kind, row), vls)
    }

    /// Whether the tables are sound on one VL, with any SLs of packets and any SLtoVLMappingTables.
    pub fn is_single(&self) -> bool {
        self.mapping.is_none()
    }

    /// Whether packets need certain SLs, which their sources must request from the SA.
    pub fn needs_levels(&self) -> bool {
        !matches!(self.levels, ServiceLevels::Any)
    }

    /// The number of data VLs that every link between switches must have (1 to 15).
    pub fn vls(&self) -> u8 {
        self.vls
    }

    /// One bit for each service level that packets may have; all bits if any level is permitted.
    pub fn used_levels(&self) -> u16 {
        let levels = match &self.levels {
            ServiceLevels::Any => return u16::MAX,
            ServiceLevels::ByDestination(levels) => levels.as_slice(),
            ServiceLevels::ByPair(pairs) => &pairs.levels,
        };
        levels
            .iter()
            .fold(0, |mask, &level| mask | 1 << (level & 15))
    }

    /// For each service level, the lowest level that all switches map to the same VLs; the two
    /// levels have equal dependencies.
    pub fn alike(&self) -> [u8; SERVICE_LEVELS] {
        let rows: Vec<&Row> = self
            .mapping
            .iter()
            .flat_map(|mapping| &mapping.rows)
            .collect();
        let is_alike = |one: usize, other: usize| rows.iter().all(|row| row[one] == row[other]);
        // There are sixteen service levels.
        std::array::from_fn(|level| {
            (0..level)
                .find(|&low| is_alike(low, level))
                .unwrap_or(level) as u8
        })
    }

    /// One bit for each VL on which switches send packets of the levels in use: by ports to
    /// switches if `to_switches`, else by all other ports. No bits if any SLtoVLMappingTables will
    /// do.
    pub fn used_vls(&self, topology: &Topology, to_switches: bool) -> u16 {
        let mut outputs = vec![false; self.kinds()];
        for switch in topology.indices() {
            let ports = (0..=topology.switch(switch).num_ports).map(PortNum);
            for port in ports {
                let leads_to_switch = topology.peer(switch, port).is_some();
                outputs[self.kind(switch, port)] |= leads_to_switch == to_switches;
            }
        }
        let kinds = 0..self.kinds();
        let pairs = kinds
            .clone()
            .flat_map(|input| kinds.clone().map(move |output| (input, output)));
        let rows = pairs
            .filter(|&(_, output)| outputs[output])
            .filter_map(|(input, output)| self.row_of_kinds(input, output));
        let levels = self.used_levels();
        let lanes = rows.flat_map(|row| {
            let used = row.iter().enumerate();
            used.filter(move |(level, _)| levels >> level & 1 == 1)
        });
        lanes.fold(0, |mask, (_, &vl)| mask | 1 << (vl & 15))
    }

    /// The service levels of packets.
    pub fn levels(&self) -> &ServiceLevels {
        &self.levels
    }

    /// The SL of packets between the destinations of two switches; `None` if any SL is permitted.
    pub fn level(&self, from: SwitchIdx, to: SwitchIdx) -> Option<u8> {
        match &self.levels {
            ServiceLevels::Any => None,
            ServiceLevels::ByDestination(levels) => levels.get(to.index()).copied(),
            ServiceLevels::ByPair(levels) => Some(levels.level(from, to)),
        }
    }

    /// Whether packets sent with the lanes `other` on the fabric `before` are sound on these lanes
    /// as well. That is so if any two switches of both fabrics have the same service level, and
    /// each switch maps levels to the same VLs between ports that both fabrics use.
    pub fn agree_with(&self, topology: &Topology, other: &Lanes, before: &Topology) -> bool {
        let common: Vec<(SwitchIdx, SwitchIdx)> = topology
            .indices()
            .filter_map(|now| {
                let earlier = before.switch_by_guid(topology.switch(now).guid)?;
                Some((now, earlier))
            })
            .collect();
        let is_used_in_both = |(now, earlier): (SwitchIdx, SwitchIdx), port: PortNum| {
            topology.port_use(now, port) != PortUse::Unused
                && before.port_use(earlier, port) != PortUse::Unused
        };
        let maps_alike = |&(now, earlier): &(SwitchIdx, SwitchIdx)| {
            let all_ports = (0..=topology.switch(now).num_ports).map(PortNum);
            let ports: Vec<PortNum> = all_ports
                .filter(|&port| is_used_in_both((now, earlier), port))
                .collect();
            ports.iter().all(|&input| {
                ports.iter().all(|&output| {
                    self.row(now, input, output) == other.row(earlier, input, output)
                })
            })
        };
        self.vls == other.vls
            && common.iter().all(maps_alike)
            && common.iter().all(|&(from, old_from)| {
                common
                    .iter()
                    .all(|&(to, old_to)| self.level(from, to) == other.level(old_from, old_to))
            })
    }

    /// The SLtoVLMappingTable row of a switch for packets from one port to another; `None` if any
    /// row will do.
    pub fn row(&self, switch: SwitchIdx, input: PortNum, output: PortNum) -> Option<&Row> {
        let [input, output] = [input, output].map(|port| self.kind(switch, port));
        self.row_of_kinds(input, output)
    }

    /// The number of kinds of ports; 1 if any row will do.
    pub(crate) fn kinds(&self) -> usize {
        self.mapping.as_ref().map_or(1, |mapping| mapping.count)
    }

    /// The kind of a port, below [`Lanes::kinds`].
    pub(crate) fn kind(&self, switch: SwitchIdx, port: PortNum) -> usize {
        let mapping = self.mapping.as_ref();
        mapping.map_or(0, |mapping| mapping.kind(switch, port))
    }

    /// The SLtoVLMappingTable row for packets from a port of one kind to a port of another; `None`
    /// if any row will do.
    pub(crate) fn row_of_kinds(&self, input: usize, output: usize) -> Option<&Row> {
        let mapping = self.mapping.as_ref()?;
        Some(&mapping.rows[input * mapping.count + output])
    }
}
