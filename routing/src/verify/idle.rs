//! Links between switches that have come up but carry no packets yet.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use rsm_ids::PortNum;

use crate::tables::{Lft, Tables};
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

/// Links between switches that are up, but not Active at both ends. No entry should lead to them
/// yet.
///
/// These links become Active after all switches hold the first stage, and before the second stage
/// begins.
#[derive(Clone, Default, Debug)]
pub struct IdleLinks {
    /// The output ports that lead to idle links, by switch.
    ports: BTreeMap<SwitchIdx, FixedBitSet>,
    /// The dark switches, by switch number; see [`IdleLinks::is_dark`].
    dark: FixedBitSet,
}

impl IdleLinks {
    /// Finds the links of `topology` with an end that is not Active. `not_active` lists such ports
    /// with their state; ports that lead to no switch are ignored.
    pub fn of(
        topology: &Topology,
        not_active: impl IntoIterator<Item = (SwitchIdx, PortNum, LinkEnd)>,
    ) -> IdleLinks {
        let mut idle = IdleLinks {
            ports: BTreeMap::new(),
            dark: FixedBitSet::with_capacity(topology.switch_count()),
        };
        let mut closed: BTreeMap<SwitchIdx, FixedBitSet> = BTreeMap::new();
        for (switch, port, end) in not_active {
            let Some((peer, peer_port)) = topology.peer(switch, port) else {
                continue;
            };
            for (switch, port) in [(switch, port), (peer, peer_port)] {
                if end < LinkEnd::Active {
                    let ports = idle.ports.entry(switch).or_default();
                    ports.grow_and_insert(port.index());
                }
                if end == LinkEnd::Closed {
                    let ports = closed.entry(switch).or_default();
                    ports.grow_and_insert(port.index());
                }
            }
        }
        for (switch, closed) in closed {
            let uses = topology.port_uses(switch).iter();
            let links = uses.filter(|used| matches!(used, PortUse::Link { .. }));
            idle.dark
                .set(switch.index(), links.count() == closed.count_ones(..));
        }
        idle
    }

    /// Whether `port` of a switch leads to an idle link.
    pub fn contains(&self, switch: SwitchIdx, port: PortNum) -> bool {
        let ports = self.ports.get(&switch);
        ports.is_some_and(|ports| ports.contains(port.index()))
    }

    /// Whether the switch is dark: all of its links to switches have a closed end, so that no
    /// packet passes.
    pub fn is_dark(&self, switch: SwitchIdx) -> bool {
        self.dark.contains(switch.index())
    }

    /// The output ports that lead to idle links, sorted by switch and number.
    pub fn ports(&self) -> impl Iterator<Item = (SwitchIdx, PortNum)> + '_ {
        self.ports.iter().flat_map(|(&switch, ports)| {
            // Ports are numbered with 8 bits.
            ports.ones().map(move |port| (switch, PortNum(port as u8)))
        })
    }

    /// The dark switches: all of their links to switches have a closed end, so that no packet
    /// passes.
    pub fn dark(&self) -> impl Iterator<Item = SwitchIdx> + '_ {
        // Switches are numbered with 32 bits.
        self.dark.ones().map(|switch| SwitchIdx(switch as u32))
    }

    /// Whether there are no idle links.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Returns `tables` in which entries that differ from `old` and lead to idle links have their
    /// old content, except at dark switches. Switches can hold the result before the links are
    /// Active. `None` if there are no such entries.
    pub fn before_opening(&self, old: &Tables, tables: &Tables) -> Option<Tables> {
        let none = Lft::default();
        let mut before = None;
        for &switch in self.ports.keys().filter(|&&switch| !self.is_dark(switch)) {
            let Some(lft) = tables.lfts.get(switch.index()) else {
                continue;
            };
            let held = old.lfts.get(switch.index()).unwrap_or(&none);
            for lid in held.differing(lft) {
                if self.contains(switch, PortNum(lft.entry(lid))) {
                    before.get_or_insert_with(|| tables.clone()).lfts[switch.index()]
                        .set_entry(lid, held.entry(lid));
                }
            }
        }
        before
    }
}
