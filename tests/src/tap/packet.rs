//! A MAD that passed the tap.

use std::time::Duration;

/// The size of the frame that ibsim exchanges with its clients, in bytes: addresses, status and
/// length, then the MAD.
pub(super) const FRAME_LEN: usize = 288;

/// The offset of the MAD in a frame.
const MAD_OFFSET: usize = 32;

/// The offset of the status in a frame (big-endian; 110 for a lost MAD).
const STATUS_OFFSET: usize = 16;

/// Management methods (IBA 13.4.5).
pub mod method {
    /// Get.
    pub const GET: u8 = 0x01;
    /// Set.
    pub const SET: u8 = 0x02;
    /// Trap.
    pub const TRAP: u8 = 0x05;
    /// TrapRepress.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// GetResp.
    pub const GET_RESPONSE: u8 = 0x81;

    /// The name of a method for reports.
    #[must_use]
    pub fn name(method: u8) -> String {
        match method {
            GET => "Get".into(),
            SET => "Set".into(),
            TRAP => "Trap".into(),
            TRAP_REPRESS => "TrapRepress".into(),
            GET_RESPONSE => "GetResp".into(),
            _ => format!("method {method:#04x}"),
        }
    }
}

/// Subnet management attributes (IBA 14.2.5).
pub mod attribute {
    /// Notice.
    pub const NOTICE: u16 = 0x02;
    /// NodeDescription.
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// NodeInfo.
    pub const NODE_INFO: u16 = 0x11;
    /// SwitchInfo.
    pub const SWITCH_INFO: u16 = 0x12;
    /// PortInfo.
    pub const PORT_INFO: u16 = 0x15;
    /// P_KeyTable.
    pub const P_KEY_TABLE: u16 = 0x16;
    /// LinearForwardingTable.
    pub const LINEAR_FORWARDING_TABLE: u16 = 0x19;
    /// SMInfo.
    pub const SM_INFO: u16 = 0x20;

    /// The name of an attribute for reports.
    #[must_use]
    pub fn name(id: u16) -> String {
        match id {
            NOTICE => "Notice".into(),
            NODE_DESCRIPTION => "NodeDescription".into(),
            NODE_INFO => "NodeInfo".into(),
            SWITCH_INFO => "SwitchInfo".into(),
            0x14 => "GUIDInfo".into(),
            PORT_INFO => "PortInfo".into(),
            P_KEY_TABLE => "P_KeyTable".into(),
            0x17 => "SLtoVLMappingTable".into(),
            0x18 => "VLArbitrationTable".into(),
            LINEAR_FORWARDING_TABLE => "LinearForwardingTable".into(),
            0x1b => "MulticastForwardingTable".into(),
            SM_INFO => "SMInfo".into(),
            other => format!("{other:#06x}"),
        }
    }
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The packet goes from a client into the fabric.
    IntoFabric,
    /// The packet goes from the fabric to a client.
    ToClient,
}

/// A packet that the tap has recorded.
#[derive(Clone)]
pub struct Packet {
    /// The time since the tap was opened.
    pub at: Duration,
    /// The process ID of the client.
    pub client: u32,
    /// The direction of the packet.
    pub direction: Direction,
    frame: [u8; FRAME_LEN],
}

impl Packet {
    pub(super) fn new(
        at: Duration,
        client: u32,
        direction: Direction,
        frame: [u8; FRAME_LEN],
    ) -> Self {
        Self {
            at,
            client,
            direction,
            frame,
        }
    }

    fn mad(&self) -> &[u8] {
        &self.frame[MAD_OFFSET..]
    }

    fn mad_u16(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.mad()[offset], self.mad()[offset + 1]])
    }

    /// The management class: 0x01 for LID routed and 0x81 for directed route SMPs; packets of other
    /// classes are not SMPs.
    #[must_use]
    pub fn class(&self) -> u8 {
        self.mad()[1]
    }

    /// The method; see [`method`].
    #[must_use]
    pub fn method(&self) -> u8 {
        self.mad()[3]
    }

    /// The attribute; see [`attribute`].
    #[must_use]
    pub fn attribute(&self) -> u16 {
        self.mad_u16(16)
    }

    /// The attribute modifier.
    #[must_use]
    pub fn modifier(&self) -> u32 {
        u32::from(self.mad_u16(20)) << 16 | u32::from(self.mad_u16(22))
    }

    /// Tells whether this is a subnet management packet.
    #[must_use]
    pub fn is_smp(&self) -> bool {
        matches!(self.class(), 0x01 | 0x81)
    }

    /// Tells whether this SMP takes a directed route.
    #[must_use]
    pub fn is_directed(&self) -> bool {
        self.class() == 0x81
    }

    /// Tells whether this is a Get or Set SMP on its way into the fabric.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.direction == Direction::IntoFabric
            && self.is_smp()
            && matches!(self.method(), method::GET | method::SET)
    }

    /// Tells whether this is a Set SMP on its way into the fabric.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.is_request() && self.method() == method::SET
    }

    /// Tells whether this is a trap that is delivered to a client.
    #[must_use]
    pub fn is_trap(&self) -> bool {
        self.direction == Direction::ToClient && self.is_smp() && self.method() == method::TRAP
    }

    /// Tells whether ibsim reports a lost MAD with this packet.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.direction == Direction::ToClient
            && self.frame[STATUS_OFFSET..STATUS_OFFSET + 4] != [0; 4]
    }

    /// The destination LID of the packet; 0xffff for a directed route.
    #[must_use]
    pub fn destination_lid(&self) -> u16 {
        // The 16-bit value in network order is at the start of a 32-bit field in host order.
        u16::from_be_bytes([self.frame[0], self.frame[1]])
    }

    /// The exit ports of a directed route, starting at the client's node; empty for the node
    /// itself.
    #[must_use]
    pub fn directed_path(&self) -> &[u8] {
        if !self.is_directed() {
            return &[];
        }
        // The initial path is 64 bytes at offset 128, with entry 0 unused (IBA 14.2.1.2).
        let hops = usize::from(self.mad()[7]).min(63);
        &self.mad()[129..129 + hops]
    }

    /// The 64 data bytes of an SMP.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.mad()[64..128]
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} {:?} class {:#04x} method {:#04x} {} modifier {:#x} lid {:#x} path {:?}",
            self.at,
            self.direction,
            self.class(),
            self.method(),
            attribute::name(self.attribute()),
            self.modifier(),
            self.destination_lid(),
            self.directed_path(),
        )
    }
}
