//! Limits of the registry. Beyond them requests are answered with ERR_NO_RESOURCES.

/// Groups. Twice the multicast LIDs that there can be: they are shared where they run short.
pub const MAX_GROUPS: usize = 1 << 15;

/// Groups that the requests of one port have made and that are still there, whichever ports take
/// part: no single port can take all multicast LIDs, of which switches have some thousand. IP over
/// InfiniBand makes a group for each IP multicast address that no other host of the partition has.
pub(crate) const MAX_CREATED_PER_PORT: usize = 1 << 10;

/// Memberships in all groups: 45,056 hosts in two dozen groups each. About 200 bytes each.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Groups that one port takes part in, whichever port requests it. A host with many IP multicast
/// addresses has hundreds.
pub(crate) const MAX_GROUPS_PER_PORT: usize = 1 << 12;

/// GIDs by which one port takes part in one group: one for each of its alias GUIDs, of which
/// GUIDCap allows 255.
pub(crate) const MAX_ALIASES_PER_GROUP: usize = 256;

/// Events that wait to be polled.
pub(crate) const MAX_EVENTS: usize = 1 << 12;

/// Versions of all groups that answers in progress hold: each keeps a copy of the groups changed
/// since. A table is fetched within milliseconds, so that there are hardly ever two; a requester
/// that starts thousands of transfers and fetches none, while members come and go, could otherwise
/// hold as many.
pub(crate) const MAX_VERSIONS: usize = 64;
