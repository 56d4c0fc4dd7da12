//! What the registry holds at most. Beyond it requests are answered with ERR_NO_RESOURCES.

/// Groups. Twice the multicast LIDs that there can be: they are shared where they run short.
pub const MAX_GROUPS: usize = 1 << 15;

/// Memberships in all groups: 45,056 hosts in two dozen groups each. About 200 bytes each.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Groups that one port takes part in, by whoever's request. A host with many IP multicast
/// addresses has hundreds.
pub const MAX_GROUPS_PER_PORT: usize = 1 << 12;

/// GIDs by which one port takes part in one group: one for each of its alias GUIDs, of which
/// GUIDCap allows 255.
pub const MAX_ALIASES_PER_GROUP: usize = 256;

/// Events that wait for somebody to ask for them.
pub const MAX_EVENTS: usize = 1 << 12;

/// Versions of all groups that answers under way hold on to: what has changed since is there once
/// more for each. A table is fetched within milliseconds, so that there are hardly ever two; who
/// asks and does not fetch, while members come and go, could otherwise have one for each of
/// thousands of transfers.
pub const MAX_VERSIONS: usize = 64;
