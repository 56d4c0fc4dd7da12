//! Bounds of the registry of groups. Requests beyond them are answered with ERR_NO_RESOURCES.

/// Bound of the groups: twice the number of multicast LIDs, which groups share if they run short.
pub const MAX_GROUPS: usize = 1 << 15;

/// Groups that the requests of one port have made and that are still there, whichever ports take
/// part: no single port can take all multicast LIDs, of which switches have some thousand. IP over
/// InfiniBand makes a group for each IP multicast address that no other host of the partition has.
pub(crate) const MAX_CREATED_PER_PORT: usize = 1 << 10;

/// Memberships in all groups: 45,056 hosts in two dozen groups each. About 200 bytes each.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Bound of the groups of one port, whichever port requests the membership. A host with many IP
/// multicast addresses has hundreds.
pub(crate) const MAX_GROUPS_PER_PORT: usize = 1 << 12;

/// Bound of the GIDs with which one port is a member of one group: one for each alias GUID, of
/// which GUIDCap allows 255.
pub(crate) const MAX_ALIASES_PER_GROUP: usize = 256;

/// Bound of the events that wait to be polled.
pub(crate) const MAX_EVENTS: usize = 1 << 12;

/// Bound of the versions of the groups that answers in progress hold. Each keeps a copy of the
/// groups changed since. A table is fetched within milliseconds, so that there are rarely two; but
/// a requester that starts thousands of transfers and fetches none, while members come and go,
/// could otherwise hold as many.
pub(crate) const MAX_VERSIONS: usize = 64;
