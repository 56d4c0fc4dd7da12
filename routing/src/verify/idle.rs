//! Links between switches that are up and carry no packets yet.

use fixedbitset::FixedBitSet;
use rsm_ids::PortNum;

use crate::tables::{Lft, PortMask, Tables};
use crate::topology::{PortUse, SwitchIdx, Topology};

/// The state of a port at the end of a link between switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkEnd {
    /// The port takes no packets.
    Closed,
    /// The port is Armed: it sends no packets, and some devices move it to Active by themselves.
    Armed,
    /// The port is Active.
    Active,
}

/// Links between switches that are up, but not Active at both ends: no entry should lead to them
/// yet.
///
/// These links become Active after all switches hold the first stage, and before the second stage
/// begins.
#[derive(Clone, Default, Debug)]
pub struct IdleLinks {
    /// The output ports of each switch that lead to idle links.
    ports: Vec<PortMask>,
    /// The dark switches: all of their links to switches have a closed end, so that no packet
    /// passes.
    dark: FixedBitSet,
}

impl IdleLinks {
    /// Finds the links of `topology` with an end that is not Active. `inactive_ends` lists such
    /// ports with their state; ports that lead to no switch are ignored.
    pub fn of(
        topology: &Topology,
        inactive_ends: impl IntoIterator<Item = (SwitchIdx, PortNum, LinkEnd)>,
    ) -> IdleLinks {
        let none = vec![PortMask::EMPTY; topology.switch_count()];
        let (mut idle, mut closed) = (none.clone(), none);
        for (switch, port, end) in inactive_ends {
            let Some((peer, peer_port)) = topology.peer(switch, port) else {
                continue;
            };
            for (switch, port) in [(switch, port), (peer, peer_port)] {
                if end < LinkEnd::Active {
                    idle[switch.index()].insert(port);
                }
                if end == LinkEnd::Closed {
                    closed[switch.index()].insert(port);
                }
            }
        }
        let is_dark = |switch: &SwitchIdx| {
            let uses = topology.port_uses(*switch).iter();
            let links = uses.filter(|used| matches!(used, PortUse::Link { .. }));
            let closed = closed[switch.index()];
            !closed.is_empty() && links.count() == closed.len()
        };
        let dark = topology.indices().filter(is_dark).map(SwitchIdx::index);
        IdleLinks {
            ports: idle,
            dark: dark.collect(),
        }
    }

    /// Whether `port` of a switch leads to an idle link.
    pub fn contains(&self, switch: SwitchIdx, port: PortNum) -> bool {
        let ports = self.ports.get(switch.index());
        ports.is_some_and(|ports| ports.contains(port))
    }

    /// Whether the switch is dark: all of its links to switches have a closed end, so that no
    /// packet passes.
    pub fn is_dark(&self, switch: SwitchIdx) -> bool {
        self.dark.contains(switch.index())
    }

    /// The output ports that lead to idle links, sorted by switch and number.
    pub fn ports(&self) -> impl Iterator<Item = (SwitchIdx, PortNum)> + '_ {
        // Switches are numbered with 32 bits.
        let switches = (0..).map(SwitchIdx).zip(&self.ports);
        switches.flat_map(|(switch, ports)| ports.ports().map(move |port| (switch, port)))
    }

    /// The dark switches: all of their links to switches have a closed end, so that no packet
    /// passes.
    pub fn dark(&self) -> impl Iterator<Item = SwitchIdx> + '_ {
        // Switches are numbered with 32 bits.
        self.dark.ones().map(|switch| SwitchIdx(switch as u32))
    }

    /// Whether there are no idle links.
    pub fn is_empty(&self) -> bool {
        self.ports.iter().all(PortMask::is_empty)
    }

    /// Removes from `tables` new entries (entries that `old` lacks) that lead to idle links from
    /// switches that packets pass. Switches can hold the result before the links are Active. `None`
    /// if there are no such entries.
    pub fn before_opening(&self, old: &Tables, tables: &Tables) -> Option<Tables> {
        let none = Lft::default();
        let mut before = None;
        for ((switch, ports), lft) in (0..).map(SwitchIdx).zip(&self.ports).zip(&tables.lfts) {
            if ports.is_empty() || self.is_dark(switch) {
                continue;
            }
            let held = old.lfts.get(switch.index()).unwrap_or(&none);
            for lid in held.differing(lft) {
                if ports.contains(PortNum(lft.entry(lid))) {
                    before.get_or_insert_with(|| tables.clone()).lfts[switch.index()]
                        .set_entry(lid, held.entry(lid));
                }
            }
        }
        before
    }
}
