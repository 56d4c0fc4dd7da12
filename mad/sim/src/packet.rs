//! Packets in flight.

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Class, MadHeader, Method};
use rsm_mad::wire::rmpp::RmppHeader;
use rsm_mad::wire::smp::Smp;

use crate::directed;
use crate::fabric::NONE;

/// A management datagram with its packet headers and its current place in the fabric.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) mad: MadBytes,
    /// The source LID; [`Lid::PERMISSIVE`] in an SMP whose whole route is directed.
    pub(crate) slid: Lid,
    /// The destination LID; [`Lid::PERMISSIVE`] in an SMP whose whole route is directed.
    pub(crate) dlid: Lid,
    /// The index of the port at which the packet started, arrived last, or waits.
    pub(crate) at: u32,
    /// The epoch of the node whose agent holds the packet.
    pub(crate) epoch: u32,
    pub(crate) sl: u8,
    /// The P_Key; unused in an SMP.
    pub(crate) p_key: PKey,
    /// The time at which a client sent the packet; unused if an agent sent it.
    pub(crate) sent: Time,
    /// The index of the sending client's port.
    pub(crate) sender: u32,
    /// Whether the packet has not yet left the node that sent it.
    pub(crate) is_at_origin: bool,
    /// Whether the packet answers a request that never left this node, so that the packet's LIDs
    /// are unused.
    pub(crate) answers_local_request: bool,
}

impl Packet {
    /// Creates a packet that is at no port and has no address yet.
    pub(crate) fn new(mad: MadBytes) -> Packet {
        Packet {
            mad,
            slid: Lid::PERMISSIVE,
            dlid: Lid::PERMISSIVE,
            at: NONE,
            epoch: 0,
            sl: 0,
            p_key: PKey::DEFAULT_FULL,
            sent: Time::ZERO,
            sender: NONE,
            is_at_origin: true,
            answers_local_request: false,
        }
    }

    pub(crate) fn header(&self) -> &MadHeader {
        MadHeader::of(&self.mad)
    }

    pub(crate) fn smp(&self) -> &Smp {
        Smp::from_bytes(&self.mad)
    }

    pub(crate) fn smp_mut(&mut self) -> &mut Smp {
        Smp::from_bytes_mut(&mut self.mad)
    }

    pub(crate) fn is_directed(&self) -> bool {
        self.header().class() == Class::SUBNET_DIRECTED
    }

    pub(crate) fn is_smp(&self) -> bool {
        self.header().class().is_subnet_management()
    }

    /// Whether the packet is a directed-route SMP that its current node must forward.
    pub(crate) fn must_be_forwarded(&self) -> bool {
        self.is_directed() && !self.is_at_origin && !directed::ends_here(self.smp())
    }

    /// Whether the packet is an RMPP segment of an SA message (IBA 13.6).
    pub(crate) fn is_segment(&self) -> bool {
        self.header().class() == Class::SUBNET_ADMINISTRATION
            && RmppHeader::of(&self.mad).is_active()
    }

    /// Whether an agent rather than a client handles the packet first at its destination.
    pub(crate) fn is_for_agent(&self) -> bool {
        match self.header().method() {
            Method::GET | Method::SET => self.is_smp() || self.is_of_general_agent(),
            Method::TRAP_REPRESS => self.is_smp(),
            _ => false,
        }
    }

    /// Whether the packet belongs to a general service class for which every node has an agent.
    pub(crate) fn is_of_general_agent(&self) -> bool {
        let class = self.header().class();
        matches!(class, Class::PERFORMANCE | Class::VENDOR_DEVICE) || self.is_congestion_control()
    }

    /// Whether the packet belongs to the congestion control class.
    pub(crate) fn is_congestion_control(&self) -> bool {
        self.header().class() == Class::CONGESTION_CONTROL
    }
}

/// The packets in flight, by index; slots are reused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    /// The indices of slots that can be reused.
    free: Vec<u32>,
}

impl Packets {
    /// Stores a packet, and returns its index.
    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = packet;
                index
            }
            None => {
                // The caller bounds the number of packets far below 2^32.
                self.slots.push(packet);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Frees a slot. The caller frees every index exactly once, when the packet ends.
    pub(crate) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(crate) fn get(&self, index: u32) -> &Packet {
        &self.slots[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.slots[index as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
