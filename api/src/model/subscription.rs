use rsm_ids::{Gid, Guid, Lid};

use super::PortKey;

/// The key of a subscription, in the order of lists (IBA 15.2.5.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    /// The GUID of the port that subscribed.
    pub port: Guid,
    /// The number among the port's subscriptions.
    pub number: u16,
}

/// The ports whose notices the SA reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionSources {
    /// All.
    All,
    /// The port with this GID.
    Port(Gid),
    /// Ports with LIDs from the first to the last; 0 to 0 is an empty range.
    Lids(Lid, Lid),
}

/// A subscription of a host. Its key is [`Subscription::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its key.
    pub key: SubscriptionKey,
    /// The GID of the port that subscribed.
    pub gid: Gid,
    /// The port that subscribed; none while it is not in the fabric.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty where there is no port.
    pub description: String,
    /// The queue pair that reports go to; 24 bits.
    pub qpn: u32,
    /// Whether the subscriber sent the SM_Key.
    pub trusted: bool,
    /// The ports whose notices the SA reports.
    pub sources: SubscriptionSources,
    /// Whether the notices are the specification's, rather than a vendor's.
    pub generic: bool,
    /// Notices of this type (IBA 13.4.8.2); none for all.
    pub notice_type: Option<u16>,
    /// Notices with this trap number, or DeviceID of a vendor's notices; none for all.
    pub trap_or_device: Option<u16>,
    /// Notices of this kind of producer, or VendorID (24 bits) of a vendor's notices; none for all.
    pub producer_or_vendor: Option<u32>,
}
