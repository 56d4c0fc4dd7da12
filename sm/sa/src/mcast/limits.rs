//! Bounds of the registry of groups. Requests beyond these bounds are answered with
//! ERR_NO_RESOURCES.

/// Maximum number of groups: twice the number of multicast LIDs, which groups share if LIDs run
/// short.
pub const MAX_GROUPS: usize = 1 << 15;

/// Maximum number of existing groups that requests of one port and its virtual ports have created,
/// whichever ports are members. The bound keeps a single port from taking all multicast LIDs, of
/// which switches support a few thousand. IP over InfiniBand creates a group for each IP multicast
/// address that no other host of the partition has joined.
pub(crate) const MAX_CREATED_PER_PORT: usize = 1 << 10;

/// Maximum number of memberships in all groups: 23 groups for each of 45,056 hosts, at about 200
/// bytes for each membership.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Maximum number of memberships of one port, its alias GUIDs and its virtual ports, whichever port
/// requested them. A host with many IP multicast addresses is in hundreds of groups.
pub(crate) const MAX_MEMBERSHIPS_PER_PORT: usize = 1 << 12;

/// Maximum number of events that wait to be polled.
pub(crate) const MAX_EVENTS: usize = 1 << 12;

/// Maximum number of versions of the groups that answers in progress keep. Each version costs a
/// copy of the groups that have changed since. A table is fetched within milliseconds, so that
/// there are rarely two versions. Without the bound, a requester that starts thousands of transfers
/// and fetches none, while members join and leave, could make the SA keep thousands of versions.
pub(crate) const MAX_VERSIONS: usize = 64;
