//! One side of a comparison: tables on their fabric, before or after a change.

use rsm_ids::{Lid, PortNum};

use super::super::check::StartingPorts;
use super::super::fabric::Sources;
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{Group, Orientation, SwitchIdx, Topology};

/// Tables with their topology and their order.
pub(super) struct Side<'a> {
    pub(super) topology: &'a Topology,
    tables: &'a Tables,
    pub(super) orientation: &'a Orientation,
    starts: StartingPorts,
    /// An empty table, for switches without one.
    empty: Lft,
    /// The number of channels of each switch, as in the whole proof.
    pub(super) stride: usize,
}

impl<'a> Side<'a> {
    pub(super) fn new(
        topology: &'a Topology,
        tables: &'a Tables,
        orientation: &'a Orientation,
    ) -> Side<'a> {
        Side {
            topology,
            tables,
            orientation,
            starts: StartingPorts::new(topology),
            empty: Lft::default(),
            stride: super::super::fabric::stride(topology),
        }
    }

    /// The table of a switch; an empty one if it has none.
    pub(super) fn table(&self, switch: SwitchIdx) -> &Lft {
        self.tables.lfts.get(switch.index()).unwrap_or(&self.empty)
    }

    pub(super) fn entry(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        self.table(switch).entry(lid)
    }

    /// The switch to which packets go next, or `None` if they leave the switches or are dropped. A
    /// loop-back cable leads to the same switch.
    pub(super) fn next(&self, switch: SwitchIdx, lid: Lid) -> Option<SwitchIdx> {
        let port = PortNum(self.entry(switch, lid));
        self.topology.peer(switch, port).map(|(next, _)| next)
    }

    pub(super) fn is_above(&self, high: SwitchIdx, low: SwitchIdx) -> bool {
        self.orientation.is_above(high, low)
    }

    /// Whether the switch sends packets down to a switch that sends them up.
    pub(super) fn turns_below(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.next(switch, lid).is_some_and(|next| {
            self.is_above(switch, next)
                && self
                    .next(next, lid)
                    .is_some_and(|to| self.is_above(to, next))
        })
    }

    /// Whether the switch sends packets up, and some neighbour sends them down to it.
    pub(super) fn turns_here(&self, switch: SwitchIdx, lid: Lid) -> bool {
        let goes_up = self
            .next(switch, lid)
            .is_some_and(|to| self.is_above(to, switch));
        goes_up
            && self
                .feeders(switch, lid)
                .any(|from| self.is_above(from, switch))
    }

    /// The neighbours that send packets for the LID to a switch.
    pub(super) fn feeders(
        &self,
        switch: SwitchIdx,
        lid: Lid,
    ) -> impl Iterator<Item = SwitchIdx> + '_ {
        let feeding = self
            .topology
            .groups(switch)
            .filter(move |group| self.feeds(group, lid));
        feeding.map(|group| group.neighbour)
    }

    /// Whether the neighbour of a port group sends packets to the switch that has the port group.
    pub(super) fn feeds(&self, group: &Group<'_>, lid: Lid) -> bool {
        let entry = self.entry(group.neighbour, lid);
        group.links.iter().any(|link| link.peer_port.0 == entry)
    }

    /// The numbers of ports at a switch where packets start.
    pub(super) fn starts(&self, switch: SwitchIdx) -> Sources {
        self.starts.by_switch[switch.index()]
    }

    /// The number of channels of all switches.
    pub(super) fn channels(&self) -> usize {
        self.topology.switch_count() * self.stride
    }

    /// Whether some destination has a LID; entries of other LIDs do not count.
    pub(super) fn is_in_use(&self, lid: Lid) -> bool {
        self.topology.destination_of(lid).is_some()
    }

    /// The LIDs whose entries lead through one of some ports.
    pub(super) fn lids_through<'s>(
        &'s self,
        switch: SwitchIdx,
        ports: &'s [bool; 256],
    ) -> impl Iterator<Item = Lid> + 's {
        let entries = self.table(switch).iter().enumerate();
        entries
            .filter(|&(_, entry)| entry != NO_PATH && ports[usize::from(entry)])
            // Tables are indexed by LID.
            .map(|(lid, _)| Lid(lid as u16))
    }
}
