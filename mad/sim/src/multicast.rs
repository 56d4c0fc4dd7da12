//! Probes of multicast: the copies of one packet to a multicast LID.

use std::collections::{BTreeMap, VecDeque};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::MulticastForwardingTable;

use crate::counters::DropReason;
use crate::error::SimError;
use crate::fabric::{Fabric, Node, Switch};
use crate::probe::PAYLOAD;
use crate::route::{self, Traffic, WalkResult};
use crate::sim::Sim;
use crate::tally::{Load, Walk};

/// The fate of the copies of a multicast packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MulticastProbe {
    /// The number of copies that reached each end port, which is port 0 of a switch or a port of
    /// another node.
    pub delivered: BTreeMap<(Guid, PortNum), u32>,
    /// The ports that could not forward a copy, with the reason.
    pub dropped: Vec<(Guid, PortNum, DropReason)>,
    /// Whether copies of the packet are in a loop.
    pub loops: bool,
}

/// The number of copies above which the packet counts as looping. A tree makes at most one copy for
/// each link of the largest fabric; a loop soon makes more.
const MAX_COPIES: usize = 1 << 17;

impl Sim {
    /// Sends a multicast data packet of 256 bytes from an end port, and returns the fate of its
    /// copies. Like a packet of [`Sim::probe`], the packet takes no time and changes only counters.
    ///
    /// Switches forward the packet by their multicast forwarding tables up to MulticastFDBTop,
    /// through every port but the entry port, over links that carry data (see [`Sim::probe`]).
    /// Partitions and loss are ignored.
    ///
    /// # Errors
    /// The source does not exist or has no address.
    pub fn probe_multicast(
        &self,
        (guid, port): (Guid, PortNum),
        mlid: Lid,
        sl: u8,
    ) -> Result<MulticastProbe, SimError> {
        let start = self.fabric.find_end_port(guid, port)?;
        let load = Load::multicast(PAYLOAD);
        let traffic = Traffic::Data {
            sl,
            payload: PAYLOAD,
            key: None,
        };
        let mut copies = Copies {
            fabric: &self.fabric,
            walk: self.performance.walks.begin(&self.fabric, load),
            traffic,
            waiting: VecDeque::new(),
            probe: MulticastProbe::default(),
        };
        let first = PacketCopy {
            entry: start,
            hops: 0,
        };
        match self.fabric.node_of(start).is_switch() {
            true => copies.waiting.push_back(first),
            false => copies.leave(first, start),
        }
        let mut followed = 0;
        while let Some(copy) = copies.waiting.pop_front() {
            followed += 1;
            if followed > MAX_COPIES || copy.hops > route::MAX_SWITCHES {
                copies.end(copy, copy.entry, DropReason::Loop);
                copies.probe.loops = true;
                break;
            }
            copies.arrive(copy, mlid);
        }
        Ok(copies.probe)
    }
}

/// A copy of a packet.
#[derive(Clone, Copy)]
struct PacketCopy {
    /// The port through which the copy entered its node.
    entry: u32,
    /// The number of links crossed.
    hops: u32,
}

/// The copies of a packet that are still in the fabric.
struct Copies<'a> {
    fabric: &'a Fabric,
    walk: Walk<'a>,
    traffic: Traffic,
    /// The copies that have arrived at a node and are not yet handled there.
    waiting: VecDeque<PacketCopy>,
    probe: MulticastProbe,
}

impl Copies<'_> {
    /// Handles a copy that has arrived at a node.
    fn arrive(&mut self, copy: PacketCopy, mlid: Lid) {
        let node = self.fabric.node_of(copy.entry);
        let Some(switch) = &node.switch else {
            let number = self.fabric.port(copy.entry).number;
            return self.deliver(node.guid, PortNum(number));
        };
        let mut has_exit = false;
        for exit in exits(node, switch, mlid) {
            has_exit = true;
            if exit == copy.entry {
                continue;
            }
            if exit == node.first_port {
                self.deliver(node.guid, PortNum::ZERO);
            } else {
                self.leave(copy, exit);
            }
        }
        if !has_exit {
            self.end(copy, copy.entry, DropReason::NoRoute);
        }
    }

    fn deliver(&mut self, guid: Guid, port: PortNum) {
        *self.probe.delivered.entry((guid, port)).or_default() += 1;
    }

    /// Sends a copy out of its node through the port `exit`.
    fn leave(&mut self, copy: PacketCopy, exit: u32) {
        match route::pass(self.fabric, copy.entry, exit, self.traffic) {
            Ok(()) => {
                self.walk.cross(exit);
                let entry = self.fabric.port(exit).peer;
                let hops = copy.hops + 1;
                self.waiting.push_back(PacketCopy { entry, hops });
            }
            Err(reason) => {
                let guid = self.fabric.node_of(exit).guid;
                let number = PortNum(self.fabric.port(exit).number);
                self.probe.dropped.push((guid, number, reason));
                self.end(copy, exit, reason);
            }
        }
    }

    /// Records that a copy is lost at a port of its node.
    fn end(&mut self, copy: PacketCopy, port: u32, reason: DropReason) {
        let last_exit = (copy.hops > 0).then(|| self.fabric.port(copy.entry).peer);
        self.walk.turn_to(last_exit);
        self.walk.end(&WalkResult {
            port,
            hops: copy.hops,
            result: Err(reason),
        });
    }
}

/// The ports through which a switch forwards packets to a multicast LID.
fn exits(node: &Node, switch: &Switch, mlid: Lid) -> impl Iterator<Item = u32> {
    let in_effect = switch.multicast_in_effect(mlid);
    let place = MulticastForwardingTable::block_and_index_of(mlid).filter(|_| in_effect);
    let per_position = MulticastForwardingTable::PORTS_PER_POSITION;
    let first = node.first_port;
    (0..=node.num_ports)
        .filter(move |number| {
            place.is_some_and(|(block, index)| {
                let modifier = MulticastForwardingTable::modifier(block, number / per_position);
                switch
                    .multicast_mask(modifier, index)
                    .is_some_and(|mask| mask >> (number % per_position) & 1 != 0)
            })
        })
        .map(move |number| first + u32::from(number))
}
