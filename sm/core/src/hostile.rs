//! Acts of hosts against the subnet, where the core has proof of it ([`Core::hostile_ports`]).
//!
//! Proof is the LID in a packet, which the sender's adapter writes, or the report of a switch; the
//! word of a host against another one is none. Switches, routers and the port of this manager are
//! never among them.
//!
//! [`Core::hostile_ports`]: super::Core::hostile_ports

/// An act of the host of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hostility {
    /// Notices and traps in the name of other ports.
    ForgesTraps,
    /// Sets with wrong M_Keys at switches, again and again.
    WrongMKeys,
    /// Orders to this manager that no manager gives a master, or handovers without an end.
    OrdersManager,
    /// A manager that does not count: not allowed, or with another SM_Key.
    Manages,
    /// Traps without an end.
    FloodsTraps,
}

impl Hostility {
    /// Words for the operator.
    pub const fn in_words(self) -> &'static str {
        match self {
            Hostility::ForgesTraps => "forges notices and traps",
            Hostility::WrongMKeys => "sends Sets with wrong M_Keys",
            Hostility::OrdersManager => "gives orders to the subnet manager",
            Hostility::Manages => "runs a subnet manager that is not allowed",
            Hostility::FloodsTraps => "sends traps without an end",
        }
    }
}
