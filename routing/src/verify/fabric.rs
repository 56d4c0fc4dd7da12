//! The topology in the form that proofs look up: the next switch by (switch, table entry).

use rsm_ids::{Guid, PortNum};

use crate::tables::{BLOCK_LIDS, NO_PATH, PAGE_BLOCKS, Page, Tables};
use crate::topology::{EndpointKind, PortUse, SwitchIdx, Topology};

/// The next switch for every switch and table entry.
#[derive(Clone)]
pub(crate) struct Fabric<'a> {
    pub(crate) topology: &'a Topology,
    /// The number of switches.
    pub(crate) switches: usize,
    /// The number of channels of each switch: those of its ports, and at least one more that leads
    /// nowhere.
    pub(crate) stride: usize,
    /// For each channel, the next switch, or `nowhere`. A loop-back cable leads back to the switch
    /// itself.
    next: Vec<u16>,
}

impl<'a> Fabric<'a> {
    pub(crate) fn new(topology: &'a Topology) -> Fabric<'a> {
        let stride = stride(topology);
        let switches = topology.switch_count();
        // The builder refuses more switches than LIDs.
        let mut next = vec![switches as u16; switches * stride];
        for switch in topology.indices() {
            for (port, leads_to) in topology.port_uses(switch).iter().enumerate() {
                if let PortUse::Link { peer, .. } = leads_to {
                    next[switch.index() * stride + port] = peer.0 as u16;
                }
            }
        }
        Fabric {
            topology,
            switches,
            stride,
            next,
        }
    }

    /// The number of the channel into which a table entry sends packets.
    pub(crate) fn channel(&self, switch: usize, byte: u8) -> usize {
        switch * self.stride + self.port(byte)
    }

    /// A table entry as a port; entries above all ports become the port that leads nowhere.
    pub(crate) fn port(&self, byte: u8) -> usize {
        usize::from(byte).min(self.stride - 1)
    }

    /// The switch at the far end of a channel, or [`Fabric::nowhere`].
    pub(crate) fn next(&self, channel: usize) -> usize {
        usize::from(self.next[channel])
    }

    /// The switch at the far end of each of a switch's channels, or [`Fabric::nowhere`].
    pub(crate) fn next_of(&self, switch: usize) -> &[u16] {
        &self.next[switch * self.stride..][..self.stride]
    }

    /// The number that means "no switch": packets are discarded. Since it is one past the last
    /// switch, arrays with one more element than there are switches need no special case for it.
    pub(crate) fn nowhere(&self) -> usize {
        self.switches
    }

    /// The number of channels of all switches.
    pub(crate) fn channels(&self) -> usize {
        self.next.len()
    }

    /// The switch and port that send into a channel.
    pub(crate) fn name(&self, channel: usize) -> (Guid, PortNum) {
        let switch = SwitchIdx((channel / self.stride) as u32);
        // A stride is at most 256.
        let port = PortNum((channel % self.stride) as u8);
        (self.topology.switch(switch).guid, port)
    }

    pub(crate) fn guid(&self, switch: usize) -> Guid {
        self.topology.switch(SwitchIdx(switch as u32)).guid
    }
}

/// The number of channels of each switch: port 0, the external ports of the largest switch, and one
/// for all higher entries.
pub(super) fn stride(topology: &Topology) -> usize {
    let ports = topology.switches().iter().map(|switch| switch.num_ports);
    usize::from(ports.max().unwrap_or(0)) + 2
}

/// The tables of all switches, block by block.
pub(crate) struct Blocks<'t> {
    tables: &'t Tables,
    switches: usize,
    /// The number of the page that `pages` holds. Looking pages up costs as much as reading them.
    page: Option<usize>,
    /// The page of each switch's table.
    pages: Vec<&'t Page>,
}

impl<'t> Blocks<'t> {
    pub(crate) fn new(tables: &'t Tables, switches: usize) -> Blocks<'t> {
        Blocks {
            tables,
            switches,
            page: None,
            pages: Vec::with_capacity(switches),
        }
    }

    /// Copies block `index` of every switch's table to `block`, one switch after the other,
    /// followed by a block without paths for `nowhere`. LIDs whose bit in `mask` is 0 get no path.
    pub(crate) fn gather(&mut self, (index, mask): (usize, u64), block: &mut Vec<u8>) {
        let page = index / PAGE_BLOCKS;
        if self.page != Some(page) {
            let lfts = self.tables.lfts.iter().take(self.switches);
            self.pages.clear();
            self.pages.extend(lfts.map(|lft| lft.page(page)));
            self.page = Some(page);
        }
        block.clear();
        let start = index % PAGE_BLOCKS * BLOCK_LIDS;
        for page in &self.pages {
            block.extend_from_slice(&page[start..][..BLOCK_LIDS]);
        }
        block.resize((self.switches + 1) * BLOCK_LIDS, NO_PATH);
        for offset in (0..BLOCK_LIDS).filter(|offset| mask >> offset & 1 == 0) {
            for row in block.chunks_exact_mut(BLOCK_LIDS) {
                row[offset] = NO_PATH;
            }
        }
    }
}

/// The numbers of ports of the three kinds at which packets start, packed into 21 bits each, so
/// that one addition adds all three. The room is enough for twice the ports that can have LIDs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sources(pub(super) u64);

impl Sources {
    const WIDTH: u32 = 21;
    const MASK: u64 = (1 << Self::WIDTH) - 1;

    /// The count for a single port of a kind.
    pub(super) const fn one(kind: EndpointKind) -> Sources {
        match kind {
            EndpointKind::Switch0 => Sources(1 << Self::WIDTH),
            EndpointKind::AggregationNode => Sources(1),
            EndpointKind::Ca | EndpointKind::Router => Sources(1 | 1 << (2 * Self::WIDTH)),
        }
    }

    /// The number of ports of channel adapters, routers and aggregation nodes.
    pub(super) const fn ports(self) -> u64 {
        self.0 & Self::MASK
    }

    /// The number of switches.
    pub(super) const fn switches(self) -> u64 {
        self.0 >> Self::WIDTH & Self::MASK
    }

    /// The number of hosts' ports, which `ports` includes.
    pub(super) const fn hosts(self) -> u64 {
        self.0 >> (2 * Self::WIDTH)
    }
}

impl std::ops::AddAssign for Sources {
    fn add_assign(&mut self, other: Sources) {
        self.0 += other.0;
    }
}
