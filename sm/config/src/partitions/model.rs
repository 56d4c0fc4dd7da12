use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};

/// Partitions and their members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitions {
    /// The file that defines them; `None` without one: then every port is a full member of the
    /// default partition, and no port is in another one.
    pub file: Option<PathBuf>,
    /// By ascending P_Key. The default partition is always among them.
    pub list: Vec<Partition>,
    /// Memberships, in the order of the file: of two rules for one port in one partition the later
    /// counts.
    ///
    /// Despite all rules, the port of the subnet manager is a full member of the default partition:
    /// limited members could not reach the SA otherwise.
    pub rules: Vec<Rule>,
    /// Whether a port can hold both keys of a partition. Where it cannot, [`Membership::Both`]
    /// counts as full.
    pub allow_both: bool,
}

/// Rules that name a port, by its GUID, each with how many rules for all ports of a kind come
/// before it.
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

    /// The rules for all ports of a kind, and those that name a port. Their order matters: of two
    /// rules for one port the later counts.
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
    /// Its P_Key without the membership bit: 0x0001 to 0x7fff.
    pub p_key: PKey,
    /// Its name in its first definition; its P_Key without one.
    pub name: String,
    /// Service level of its packets, 0 to 15.
    pub sl: u8,
    /// Whether IP over InfiniBand is to run in it, so that its broadcast group is among
    /// [`Partition::groups`].
    pub ipoib: bool,
    /// Multicast groups that exist even without members.
    pub groups: Vec<PartitionGroup>,
    /// Where it is defined.
    pub origin: PartitionOrigin,
}

/// Where a partition is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionOrigin {
    /// Nowhere: the default partition is always there.
    BuiltIn,
    /// In the file.
    File,
    /// In the [overlay](crate::overlay), by a request while rsm ran.
    Api,
}

/// Makes some ports members of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The partition's P_Key without the membership bit.
    pub p_key: PKey,
    /// Which ports.
    pub members: PartitionMembers,
    /// Their membership.
    pub membership: Membership,
    /// Whether the key is to be at index 0 of their tables; without such a rule the default
    /// partition's is.
    pub index0: bool,
}

/// Ports, as a rule names them.
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

/// The rights of a member of a partition (IBA 10.9.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// Talk to all members of the partition.
    Full,
    /// Talk to full members.
    Limited,
    /// Hold the keys of both.
    Both,
}

/// A multicast group of a partition (MCMemberRecord, IBA 15.2.5.17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionGroup {
    /// Its MGID, with scope and, for IP groups, P_Key filled in.
    pub mgid: Gid,
    /// Its P_Key, with the bit of full membership.
    pub p_key: PKey,
    /// Its MTU, exactly.
    pub mtu: Mtu,
    /// Its rate, exactly, as PathRecord codes it (IBA 15.2.5.16): 2 to 24.
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
    /// Scope of groups that do not leave the subnet.
    pub const LINK_LOCAL: u8 = 2;

    /// How many routers packets to the group may pass.
    pub const fn hop_limit(&self) -> u8 {
        if self.scope == Self::LINK_LOCAL {
            0
        } else {
            u8::MAX
        }
    }
}

impl Partitions {
    /// The partition with this P_Key, whichever its membership bit.
    pub fn find(&self, p_key: PKey) -> Option<&Partition> {
        let key = |partition: &Partition| partition.p_key.base();
        let at = self.list.binary_search_by_key(&p_key.base(), key).ok()?;
        self.list.get(at)
    }

    /// All multicast groups of all partitions.
    pub fn groups(&self) -> impl Iterator<Item = &PartitionGroup> {
        self.list.iter().flat_map(|partition| &partition.groups)
    }
}

/// As without a file.
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
