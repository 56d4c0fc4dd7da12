use std::collections::{BTreeMap, VecDeque};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::MulticastForwardingTable;

use crate::counters::DropReason;
use crate::error::SimError;
use crate::fabric::{Fabric, Node, Switch};
use crate::probe::PAYLOAD;
use crate::route::{self, Traffic};
use crate::sim::Sim;

/// The result for the copies of a multicast packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MulticastProbe {
    /// How many copies reached each end port: port 0 of a switch, the ports of other nodes.
    pub delivered: BTreeMap<(Guid, PortNum), u32>,
    /// Ports that could not forward a copy, with the reason.
    pub dropped: Vec<(Guid, PortNum, DropReason)>,
    /// Whether copies loop.
    pub loops: bool,
}

/// The bound on copies before they count as a loop. A tree makes at most one for each link of the
/// largest fabric; a loop soon makes more.
const MAX_COPIES: usize = 1 << 17;

impl Sim {
    /// Sends a multicast data packet of 256 bytes from an end port, and returns the result for its
    /// copies. It takes no time and changes nothing.
    ///
    /// Switches forward it by their multicast forwarding tables up to MulticastFDBTop, by every
    /// port but the entry port, over links that carry data (see [`Sim::probe`]). Partitions and
    /// loss are not considered.
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
        let traffic = Traffic::Data {
            sl,
            payload: PAYLOAD,
        };
        let mut probe = MulticastProbe::default();
        // The entry ports of copies, each with the number of links crossed.
        let mut copies = VecDeque::new();
        if self.fabric.node_of(start).is_switch() {
            copies.push_back((start, 0));
        } else {
            self.pass_copy(start, start, traffic, 0, &mut copies, &mut probe);
        }
        let mut followed = 0;
        while let Some((entry, hops)) = copies.pop_front() {
            followed += 1;
            if followed > MAX_COPIES || hops > route::MAX_SWITCHES {
                probe.loops = true;
                break;
            }
            let node = self.fabric.node_of(entry);
            let Some(switch) = &node.switch else {
                let number = self.fabric.port(entry).number;
                *probe
                    .delivered
                    .entry((node.guid, PortNum(number)))
                    .or_default() += 1;
                continue;
            };
            for exit in exits(node, switch, mlid).filter(|&exit| exit != entry) {
                if exit == node.first_port {
                    *probe
                        .delivered
                        .entry((node.guid, PortNum::ZERO))
                        .or_default() += 1;
                } else {
                    self.pass_copy(entry, exit, traffic, hops, &mut copies, &mut probe);
                }
            }
        }
        Ok(probe)
    }

    fn pass_copy(
        &self,
        entry: u32,
        exit: u32,
        traffic: Traffic,
        hops: u32,
        copies: &mut VecDeque<(u32, u32)>,
        probe: &mut MulticastProbe,
    ) {
        let fabric: &Fabric = &self.fabric;
        match route::pass(fabric, entry, exit, traffic) {
            Ok(()) => copies.push_back((fabric.port(exit).peer, hops + 1)),
            Err(why) => {
                let guid = fabric.node_of(exit).guid;
                let number = PortNum(fabric.port(exit).number);
                probe.dropped.push((guid, number, why));
            }
        }
    }
}

/// The ports by which a switch forwards packets to a multicast LID.
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
