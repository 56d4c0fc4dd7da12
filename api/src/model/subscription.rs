use rsm_ids::Guid;

/// The key of a subscription, by which lists are sorted (IBA 15.2.5.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    /// The GUID of the port that subscribed.
    pub port: Guid,
    /// The number of the subscription among the subscriptions of the port.
    pub number: u16,
}
