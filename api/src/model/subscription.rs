use rsm_ids::{Gid, Guid, Lid};

use super::PortKey;

/// What tells subscriptions apart, in the order in which they are listed (IBA 15.2.5.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    /// The GUID of the port that subscribed.
    pub port: Guid,
    /// What tells it from the port's others.
    pub number: u16,
}

/// The ports whose notices are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionSources {
    /// All.
    All,
    /// The one with this GID.
    Port(Gid),
    /// Those with LIDs from the first to the last; 0 to 0 is a range of nobody.
    Lids(Lid, Lid),
}

/// What a host asked to be told of. Its key is [`Subscription::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// What tells it apart.
    pub key: SubscriptionKey,
    /// The GID of the port that subscribed.
    pub gid: Gid,
    /// The port that subscribed; none while it is not in the fabric.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty where there is no port.
    pub description: String,
    /// The queue pair that reports go to; 24 bits.
    pub qpn: u32,
    /// Whether the subscriber showed the SM_Key.
    pub trusted: bool,
    /// The ports whose notices are reported.
    pub sources: SubscriptionSources,
    /// Notices that the specification names; else those of a vendor.
    pub generic: bool,
    /// Notices of this type (IBA 13.4.8.2); none for all.
    pub notice_type: Option<u16>,
    /// Notices with this trap number, of a vendor's those with this DeviceID; none for all.
    pub trap_or_device: Option<u16>,
    /// Notices of this kind of producer, of a vendor's those with this VendorID, 24 bits; none for
    /// all.
    pub producer_or_vendor: Option<u32>,
}
