use rsm_ids::Guid;

/// The key of a subscription, in the order of lists (IBA 15.2.5.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    /// The GUID of the port that subscribed.
    pub port: Guid,
    /// The number among the port's subscriptions.
    pub number: u16,
}
