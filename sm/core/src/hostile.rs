//! Proved acts of hosts against the subnet ([`Core::hostile_ports`]).
//!
//! The source LID of a packet is proof, because the sender's adapter writes it; so is the report of
//! a switch. The report of one host about another is no proof. Switches, routers and this manager's
//! port never count as hostile.
//!
//! [`Core::hostile_ports`]: super::Core::hostile_ports

/// An act of the host of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hostility {
    /// Sends notices and traps in the name of other ports.
    ForgesTraps,
    /// Repeatedly sends Sets with wrong M_Keys to switches.
    WrongMKeys,
    /// Sends SMInfo control packets that no manager sends to a master, or endless handovers.
    OrdersManager,
    /// Runs a subnet manager that is not allowed, or has another SM_Key.
    Manages,
    /// Sends traps without an end.
    FloodsTraps,
}

impl Hostility {
    /// The act in words for the operator, as the predicate of a sentence about the host.
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
