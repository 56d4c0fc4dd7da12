//! Data packets that follow the programmed tables at one moment.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::PKey;

use crate::counters::DropReason;
use crate::error::SimError;
use crate::route::{self, Traffic, WalkResult};
use crate::sim::Sim;
use crate::tally::Load;

/// The result of sending a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The packet reached the port that holds the LID.
    Delivered {
        /// The GUID of the node.
        node: Guid,
        /// The port; 0 on a switch.
        port: PortNum,
        /// The number of links that the packet crossed.
        hops: u32,
    },
    /// The packet was lost.
    Dropped {
        /// The node that dropped the packet, or whose link did not accept the packet.
        node: Guid,
        /// The port through which the packet should have left the node, or, without such a port,
        /// the port through which it entered.
        port: PortNum,
        /// The number of links that the packet crossed before it was lost.
        hops: u32,
        /// The reason for the loss.
        why: DropReason,
    },
    /// The packet is in a forwarding loop.
    Loop {
        /// A switch on the loop.
        node: Guid,
    },
}

impl Probe {
    /// Whether the packet arrived.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Probe::Delivered { .. })
    }
}

/// The default payload of a probe in bytes: the length of a management datagram.
pub(crate) const PAYLOAD: u16 = 256;

impl Sim {
    /// Sends a data packet of 256 bytes from an end port to a LID, and returns the result. The
    /// packet takes no time and changes only counters: [`port_counters`](Sim::port_counters) counts
    /// the packet at both ends of each link that it crosses, and at the place of its loss.
    ///
    /// A packet needs Active ports, entries in the forwarding tables up to LinearFDBTop, VLs in
    /// operation, and a NeighborMTU of at least its size. Partitions and loss are not considered.
    ///
    /// # Errors
    /// The source does not exist or has no address.
    pub fn probe(&self, source: (Guid, PortNum), dlid: Lid, sl: u8) -> Result<Probe, SimError> {
        self.probe_with(source, dlid, sl, PAYLOAD)
    }

    /// Sends a data packet like [`probe`](Sim::probe), with a payload of this many bytes.
    ///
    /// # Errors
    /// The source does not exist or has no address.
    pub fn probe_with(
        &self,
        source: (Guid, PortNum),
        dlid: Lid,
        sl: u8,
        payload: u16,
    ) -> Result<Probe, SimError> {
        let key = None;
        self.walk(source, dlid, Traffic::Data { sl, payload, key })
    }

    /// Sends a data packet like [`probe`](Sim::probe), with this P_Key. The source must hold the
    /// key; the destination, and each port of a switch on the path that enforces partitions, must
    /// hold a key that admits the packet (IBA 10.9.3).
    ///
    /// # Errors
    /// The source does not exist or has no address.
    pub fn probe_partition(
        &self,
        source: (Guid, PortNum),
        dlid: Lid,
        sl: u8,
        key: PKey,
    ) -> Result<Probe, SimError> {
        let traffic = Traffic::Data {
            sl,
            payload: PAYLOAD,
            key: Some(key),
        };
        self.walk(source, dlid, traffic)
    }

    /// Sends a packet of `traffic` from an end port, and returns the result.
    fn walk(
        &self,
        (guid, port): (Guid, PortNum),
        dlid: Lid,
        traffic: Traffic,
    ) -> Result<Probe, SimError> {
        let start = self.fabric.find_end_port(guid, port)?;
        let load = Load::unicast(traffic.payload());
        let walk_result = self.walk_from(start, dlid, traffic, load);
        let node = self.fabric.node_of(walk_result.port).guid;
        let port = PortNum(self.fabric.port(walk_result.port).number);
        let hops = walk_result.hops;
        Ok(match walk_result.result {
            Ok(()) => Probe::Delivered { node, port, hops },
            Err(DropReason::Loop) => Probe::Loop { node },
            Err(why) => Probe::Dropped {
                node,
                port,
                hops,
                why,
            },
        })
    }

    /// Follows a data packet to its end, and counts it on the links that it crosses.
    pub(crate) fn walk_from(
        &self,
        start: u32,
        dlid: Lid,
        traffic: Traffic,
        load: Load,
    ) -> WalkResult {
        let fabric = &self.fabric;
        let mut walk = self.performance.walks.begin(fabric, load);
        let key = traffic.key();
        let has_key = key.is_none_or(|key| fabric.port(start).holds_p_key(key));
        let mut walk_result = match has_key {
            true => route::follow(fabric, start, dlid, traffic, |exit| {
                walk.cross(exit);
                Ok(())
            }),
            false => WalkResult {
                port: start,
                hops: 0,
                result: Err(DropReason::PKey),
            },
        };
        let admits = |key| fabric.port(walk_result.port).p_key_index(key).is_some();
        if walk_result.result.is_ok() && !key.is_none_or(admits) {
            walk_result.result = Err(DropReason::PKey);
        }
        walk.end(&walk_result);
        walk_result
    }
}
