use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};

use super::protection::Protections;

/// Partitions and their members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitions {
    /// The file that defines the partitions. `None` without a file: every port is a full member of
    /// the default partition, and of no other partition.
    pub file: Option<PathBuf>,
    /// Partitions by ascending P_Key, always including the default partition.
    pub list: Vec<Partition>,
    /// Memberships in the order of the file: if two rules apply to one port, the later rule counts.
    ///
    /// Regardless of the rules, the port of the subnet manager is a full member of the default
    /// partition, because limited members could not reach the SA otherwise.
    pub rules: Vec<Rule>,
    /// Whether a port can hold both keys of a partition. If not, [`Membership::Both`] counts as
    /// full membership.
    pub allow_both: bool,
    /// Names that belong to partitions, and the treatment of requests against their members. No
    /// table of a port depends on them.
    pub protections: Protections,
}

/// Rules that name a port, by its GUID, each with the number of preceding rules for all ports of a
/// kind.
type NamedRules = BTreeMap<Guid, Vec<(usize, Rule)>>;

impl Partitions {
    /// The port GUIDs whose rules differ from those in `before`; `None` if anything else differs.
    pub fn changed_members(&self, before: &Partitions) -> Option<BTreeSet<Guid>> {
        let ((common, named), (old_common, old_named)) = (self.by_members(), before.by_members());
        let is_alike = self.list == before.list
            && self.allow_both == before.allow_both
            && self.file.is_some() == before.file.is_some()
            && common == old_common;
        is_alike.then(|| {
            let guids = named.keys().chain(old_named.keys());
            let changed = guids.filter(|guid| named.get(guid) != old_named.get(guid));
            changed.copied().collect()
        })
    }

    /// The rules for all ports of a kind, and the rules that name a port. The order matters: if two
    /// rules apply to one port, the later rule counts.
    fn by_members(&self) -> (Vec<Rule>, NamedRules) {
        let (mut common, mut named) = (Vec::new(), NamedRules::new());
        for &rule in &self.rules {
            match rule.members {
                PartitionMembers::Port(guid) => {
                    named.entry(guid).or_default().push((common.len(), rule))
                }
                _ => common.push(rule),
            }
        }
        (common, named)
    }
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// P_Key without the membership bit: 0x0001 to 0x7fff.
    pub p_key: PKey,
    /// Name in the first definition; the P_Key as text if that definition has no name.
    pub name: String,
    /// Service level of the partition's packets, 0 to 15.
    pub sl: u8,
    /// Whether IP over InfiniBand runs in the partition, so that [`Partition::groups`] contains its
    /// broadcast group.
    pub ipoib: bool,
    /// Multicast groups that exist even without members.
    pub groups: Vec<PartitionGroup>,
    /// Origin of the definition.
    pub origin: PartitionOrigin,
}

/// Origin of the definition of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionOrigin {
    /// Built in: the default partition always exists.
    BuiltIn,
    /// The partition file.
    File,
    /// The [overlay](crate::overlay): a request to the API at run time.
    Api,
}

/// Makes a set of ports members of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// P_Key of the partition, without the membership bit.
    pub p_key: PKey,
    /// The ports that become members.
    pub members: PartitionMembers,
    /// Membership of the ports.
    pub membership: Membership,
    /// Whether the key must be at index 0 of the ports' tables. Without such a rule, the default
    /// partition's key is at index 0.
    pub index0: bool,
}

/// The ports that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionMembers {
    /// Every end port.
    All,
    /// The ports of channel adapters.
    ChannelAdapters,
    /// Port 0 of every switch.
    Switches,
    /// The ports of routers.
    Routers,
    /// Virtual ports.
    VirtualAdapters,
    /// The port of the subnet manager.
    Own,
    /// One port.
    Port(Guid),
}

/// Kind of membership in a partition (IBA 10.9.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// The port may communicate with all members of the partition.
    Full,
    /// The port may communicate only with full members.
    Limited,
    /// The port holds both the full and the limited key.
    Both,
}

/// A multicast group of a partition (MCMemberRecord, IBA 15.2.5.17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionGroup {
    /// MGID, in which scope and, for IP groups, P_Key are filled in.
    pub mgid: Gid,
    /// P_Key, with the bit of full membership.
    pub p_key: PKey,
    /// Exact MTU.
    pub mtu: Mtu,
    /// Exact rate, as PathRecord encodes it (IBA 15.2.5.16): 2 to 24.
    pub rate: u8,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Scope, 1 to 15; 2 is the subnet.
    pub scope: u8,
    /// Q_Key.
    pub q_key: u32,
    /// Traffic class.
    pub t_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl PartitionGroup {
    /// Scope of groups that are confined to the subnet.
    pub const LINK_LOCAL: u8 = 2;

    /// HopLimit of packets to the group: the number of routers that they may pass.
    pub const fn hop_limit(&self) -> u8 {
        if self.scope == Self::LINK_LOCAL {
            0
        } else {
            u8::MAX
        }
    }
}

impl Partitions {
    /// The partition with this P_Key; ignores the membership bit.
    pub fn find(&self, p_key: PKey) -> Option<&Partition> {
        let key = |partition: &Partition| partition.p_key.base();
        let at = self.list.binary_search_by_key(&p_key.base(), key).ok()?;
        self.list.get(at)
    }

    /// The multicast groups of all partitions.
    pub fn groups(&self) -> impl Iterator<Item = &PartitionGroup> {
        self.list.iter().flat_map(|partition| &partition.groups)
    }
}

/// The partitions if there is no partition file.
impl Default for Partitions {
    fn default() -> Partitions {
        super::build::without_file()
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Membership::Full => "full",
            Membership::Limited => "limited",
            Membership::Both => "both",
        })
    }
}
