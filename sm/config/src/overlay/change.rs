//! Changes of the overlay. Each change is made as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::wire::attr::PKey;

use super::{
    MAX_MEMBERSHIPS, MAX_NAME_BYTES, MAX_OWNED, MAX_TENANT_MEMBERSHIPS, Member, Overlay,
    OverlayPartition, PartitionSettings,
};
use crate::{Membership, Owned, PartitionLoss, PartitionOrigin, Partitions, Protection};

/// P_Key of the default partition, without the membership bit.
const DEFAULT: u16 = PKey::DEFAULT_LIMITED.0;

/// A change of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// P_Key of the partition without the membership bit, 0x0001 to 0x7fff; 0x7fff for
    /// [`Action::LimitDefault`].
    pub p_key: u16,
    /// The action on the partition.
    pub action: Action,
    /// Identity of the caller.
    pub by: String,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// P_Keys that the caller may change. A claim to index 0 of a port ends another partition's
    /// claim to it, if the caller may change that partition.
    pub may_change: Vec<RangeInclusive<u16>>,
    /// Whether ports may lose communication partners by the change.
    pub when_cut_off: WhenCutOff,
}

/// Treatment of a request that cuts ports off from communication partners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenCutOff {
    /// Refuse the change: the caller must first see which ports lose partners.
    Refuse,
    /// Make the change: the caller has seen these ports, or cannot answer a question.
    Accept,
}

/// The kinds of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Creates a partition with members.
    Create {
        /// Settings of the new partition.
        settings: PartitionSettings,
        /// Members of the new partition.
        members: BTreeMap<Guid, Member>,
        /// Treatment of a partition that exists.
        existing: Existing,
    },
    /// Adds members, or changes the membership of existing ones.
    Add(BTreeMap<Guid, Member>),
    /// Replaces all members by the given members.
    Replace(BTreeMap<Guid, Member>, WhenEmpty),
    /// Removes members. Ports that are not members are ignored.
    Remove(BTreeSet<Guid>, WhenEmpty),
    /// Replaces the settings of the partition.
    Configure(PartitionSettings),
    /// Replaces the names that the partition owns, and the treatment of requests against its
    /// members.
    Protect(Protection),
    /// Removes the partition with all members.
    Delete,
    /// Makes all ports limited members of the default partition (`true`), or applies the
    /// memberships of the file (`false`).
    LimitDefault(bool),
}

impl Action {
    /// GUIDs of the ports that the action names.
    pub fn named(&self) -> BTreeSet<Guid> {
        match self {
            Action::Create { members, .. } | Action::Add(members) | Action::Replace(members, _) => {
                members.keys().copied().collect()
            }
            Action::Remove(guids, _) => guids.clone(),
            Action::Configure(_)
            | Action::Protect(_)
            | Action::Delete
            | Action::LimitDefault(_) => BTreeSet::new(),
        }
    }
}

/// Treatment of a request to create a partition that exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Refuse the change.
    Refuse,
    /// Add the members if the settings are equal; otherwise refuse the change.
    Same,
    /// Add the members and keep the settings.
    Extend,
}

/// Treatment of a partition whose last member is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenEmpty {
    /// Keep the partition.
    Keep,
    /// Delete the partition.
    Delete,
}

/// Reason why a change was refused. The overlay is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// No partition has the P_Key.
    #[error("no partition has the P_Key {}", PKey(*.p_key))]
    NotFound {
        /// The P_Key.
        p_key: u16,
    },
    /// A partition with the P_Key exists already.
    #[error("the partition {} exists already, with the name `{name}`{}", PKey(*.p_key), differing_clause(.differing))]
    Exists {
        /// The P_Key.
        p_key: u16,
        /// Name of the partition.
        name: String,
        /// Settings that differ from the request; empty if any creation is refused.
        differing: Vec<&'static str>,
    },
    /// The file defines the partition.
    #[error(
        "the partition {} (`{name}`) is defined in {file}: change it there, and send SIGHUP", PKey(*.p_key)
    )]
    InFile {
        /// The P_Key.
        p_key: u16,
        /// Name of the partition.
        name: String,
        /// The file.
        file: String,
    },
    /// The default partition can be neither created, deleted nor configured.
    #[error(
        "0x7fff is the default partition, which is always there: ports can be added to it and removed, and \
         the membership of all others be set"
    )]
    Default,
    /// Another partition has this name.
    #[error("the name `{name}` belongs to the partition {}: give another one", PKey(*.p_key))]
    NameTaken {
        /// The name.
        name: String,
        /// P_Key of the partition with the name.
        p_key: u16,
    },
    /// The name is empty, too long or has control characters.
    #[error("the name `{}` cannot be used: expected 1 to {MAX_NAME_BYTES} bytes without control characters", .name.escape_debug())]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// A port GUID that no port can have.
    #[error("{guid} is no port GUID: expected 1 to 16 hexadecimal digits that are not all 0 or f")]
    Guid {
        /// The GUID.
        guid: Guid,
    },
    /// Ports cannot hold both keys.
    #[error(
        "{guid}: a port can be a full and a limited member at once only with `allow_both = true` in section [partitions] of \
         the configuration"
    )]
    BothNotAllowed {
        /// The port.
        guid: Guid,
    },
    /// Another partition has index 0 of the port, and the caller may not change that partition. The
    /// other partition was created by the API, or is the default partition, which has index 0
    /// unless a partition claims it.
    #[error(
        "{guid}: index 0 of its P_Key table belongs to the partition {}, which you may not change: ask without index 0",
        PKey(*.p_key)
    )]
    Index0 {
        /// The port.
        guid: Guid,
        /// P_Key of the other partition.
        p_key: u16,
    },
    /// A port would have more keys of a tenant than the tenant's share of its table.
    #[error(
        "{guid} would be in {wanted} of your partitions, and its P_Key table has room for {share} of one tenant: remove it from \
         another of them first, or ask an operator"
    )]
    TenantShare {
        /// The port.
        guid: Guid,
        /// Number of the tenant's partitions that the port would be a member of.
        wanted: usize,
        /// Number of keys for one tenant.
        share: usize,
    },
    /// The overlay would have too many members.
    #[error(
        "there would be {wanted} memberships in all partitions together, and at most {MAX_MEMBERSHIPS} are kept: remove members \
         first"
    )]
    TooMany {
        /// Number of memberships after the change.
        wanted: usize,
    },
    /// The partitions of a tenant would have too many members.
    #[error(
        "there would be {wanted} memberships in your partitions together, and at most {MAX_TENANT_MEMBERSHIPS} are kept of one \
         tenant: remove members first"
    )]
    TooManyOfTenant {
        /// Number of the tenant's memberships after the change.
        wanted: usize,
    },
    /// The partition would own too many prefixes.
    #[error("{wanted} prefixes of MGIDs and GUIDs for one partition: expected at most {MAX_OWNED}")]
    TooManyOwned {
        /// Number of prefixes in the request.
        wanted: usize,
    },
    /// A prefix of names overlaps with a prefix that a partition owns.
    #[error("{owned}: {other} belongs to the partition {} already, and each name has one owner", PKey(*.p_key))]
    Owned {
        /// The prefix in the request.
        owned: Owned,
        /// The prefix that a partition owns already.
        other: Owned,
        /// P_Key of the partition that owns the name; may equal the requested P_Key.
        p_key: u16,
    },
    /// The P_Key table of a port is full.
    #[error(
        "{guid} ({place}) would be in {wanted} partitions, and its P_Key table holds {capacity} keys: remove it from another \
         partition first"
    )]
    TableFull {
        /// The port.
        guid: Guid,
        /// Node and number of the port.
        place: String,
        /// Number of keys that the port would need.
        wanted: usize,
        /// Number of keys that its table holds.
        capacity: usize,
    },
    /// Ports would lose communication partners, and the caller has not accepted that.
    #[error(
        "partition {}: {loss}; they lose their connections there. Nothing is changed", PKey(*.p_key)
    )]
    CutOff {
        /// The P_Key.
        p_key: u16,
        /// The ports that would be cut off.
        loss: PartitionLoss,
    },
    /// The plan was refused. Changes made together share the refusal.
    #[error("the plan with this change was refused: {reason}")]
    Plan {
        /// Reason of the refusal.
        reason: String,
    },
    /// The change was abandoned before its end.
    #[error("{reason}")]
    Dropped {
        /// Reason.
        reason: String,
    },
}

/// The names of settings that differ from an existing partition, as the end of a sentence.
fn differing_clause(settings: &[&str]) -> String {
    match settings {
        [] => String::new(),
        some => format!(" and another {}", some.join(", ")),
    }
}

impl Overlay {
    /// Returns the overlay after `change`. `file` has the partitions of the partition file.
    ///
    /// # Errors
    ///
    /// The first reason why the change cannot be made.
    pub fn apply(&self, change: &Change, file: &Partitions) -> Result<Overlay, ChangeError> {
        let mut next = self.clone();
        let p_key = PKey(change.p_key).base();
        match &change.action {
            Action::LimitDefault(limits) => {
                next.limits_default = *limits;
                return Ok(next);
            }
            _ if p_key == DEFAULT => {}
            _ => not_in_file(p_key, file)?,
        }
        match &change.action {
            Action::Create {
                settings,
                members,
                existing,
            } => next.create(change, settings, members, *existing, file)?,
            Action::Add(members) => next.add(change, members, file)?,
            Action::Replace(members, when_empty) => {
                let before = match next.partitions.get(&p_key) {
                    Some(one) => one.members.keys(),
                    None if p_key == DEFAULT => Default::default(),
                    None => return Err(ChangeError::NotFound { p_key }),
                };
                let removed = before.filter(|guid| !members.contains_key(guid));
                let removed: BTreeSet<Guid> = removed.copied().collect();
                // Members are added first, so that a partition that keeps some members is never
                // empty.
                next.add(change, members, file)?;
                next.remove(p_key, &removed, *when_empty)?;
            }
            Action::Remove(guids, when_empty) => next.remove(p_key, guids, *when_empty)?,
            Action::Configure(settings) => {
                not_default(p_key)?;
                next.existing(p_key)?;
                next.check_name(p_key, &settings.name, file)?;
                if let Some(one) = next.partitions.get_mut(&p_key) {
                    Arc::make_mut(one).settings = settings.clone();
                }
            }
            Action::Protect(protection) => {
                not_default(p_key)?;
                next.existing(p_key)?;
                next.protect(p_key, protection, file)?;
            }
            Action::Delete => {
                not_default(p_key)?;
                let removed = next.existing(p_key)?.members.len();
                next.memberships -= removed;
                next.partitions.remove(&p_key);
            }
            Action::LimitDefault(_) => {}
        }
        if next.memberships > MAX_MEMBERSHIPS && next.memberships > self.memberships {
            let wanted = next.memberships;
            return Err(ChangeError::TooMany { wanted });
        }
        next.check_quota(change, self)?;
        Ok(next)
    }

    /// GUIDs of the ports whose membership in a partition differs between the two overlays. A port
    /// that is a member in only one of them differs.
    pub fn differing(&self, other: &Overlay, p_key: u16) -> BTreeSet<Guid> {
        let none = BTreeMap::new();
        let of = |overlay: &Overlay| overlay.find(p_key).cloned();
        let (one, two) = (of(self), of(other));
        let one = one.as_ref().map_or(&none, |one| &one.members);
        let two = two.as_ref().map_or(&none, |two| &two.members);
        let changed = one
            .iter()
            .filter(|&(guid, member)| two.get(guid) != Some(member));
        let added = two.keys().filter(|guid| !one.contains_key(guid));
        changed
            .map(|(&guid, _)| guid)
            .chain(added.copied())
            .collect()
    }

    /// The partition with this P_Key, without the membership bit. Fails if it does not exist.
    fn existing(&self, p_key: u16) -> Result<&OverlayPartition, ChangeError> {
        let found = self.partitions.get(&p_key).map(|one| &**one);
        found.ok_or(ChangeError::NotFound { p_key })
    }

    /// Creates a partition with members. If the partition exists, `existing` decides between an
    /// error and the addition of the members.
    fn create(
        &mut self,
        change: &Change,
        settings: &PartitionSettings,
        members: &BTreeMap<Guid, Member>,
        existing: Existing,
        file: &Partitions,
    ) -> Result<(), ChangeError> {
        let p_key = PKey(change.p_key).base();
        if p_key == DEFAULT && existing == Existing::Extend {
            return self.add(change, members, file);
        }
        not_default(p_key)?;
        if let Some(known) = self.partitions.get(&p_key) {
            let differing = match existing {
                Existing::Extend => Vec::new(),
                Existing::Refuse | Existing::Same => known.settings.differing(settings),
            };
            if existing == Existing::Refuse || !differing.is_empty() {
                let name = known.settings.name.clone();
                return Err(ChangeError::Exists {
                    p_key,
                    name,
                    differing,
                });
            }
        } else {
            self.check_name(p_key, &settings.name, file)?;
            self.insert(change, settings.clone());
        }
        self.add(change, members, file)
    }

    /// Inserts the partition of the change, without members.
    fn insert(&mut self, change: &Change, settings: PartitionSettings) {
        let partition = OverlayPartition {
            settings,
            by: change.by.clone(),
            since_unix_ms: change.at_unix_ms,
            protection: Protection::default(),
            members: BTreeMap::new(),
        };
        self.partitions
            .insert(PKey(change.p_key).base(), Arc::new(partition));
    }

    /// Checks that a name is valid, and that no other partition of the overlay or file has it.
    fn check_name(&self, p_key: u16, name: &str, file: &Partitions) -> Result<(), ChangeError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let name = name.chars().take(MAX_NAME_BYTES).collect();
            return Err(ChangeError::Name { name });
        }
        let ours = self.partitions.iter();
        let ours = ours.map(|(&key, one)| (key, one.settings.name.as_str()));
        let theirs = file.list.iter();
        let theirs = theirs.map(|one| (one.p_key.base(), one.name.as_str()));
        let taken = ours
            .chain(theirs)
            .find(|&(key, of)| key != p_key && of == name);
        match taken {
            None => Ok(()),
            Some((p_key, name)) => Err(ChangeError::NameTaken {
                name: name.to_owned(),
                p_key,
            }),
        }
    }

    /// Adds members to the partition of the change, or replaces their membership. Fails if a member
    /// is invalid or the partition does not exist.
    fn add(
        &mut self,
        change: &Change,
        members: &BTreeMap<Guid, Member>,
        file: &Partitions,
    ) -> Result<(), ChangeError> {
        let p_key = PKey(change.p_key).base();
        for (&guid, member) in members {
            if matches!(guid.0, 0 | u64::MAX) {
                return Err(ChangeError::Guid { guid });
            }
            if member.membership == Membership::Both && !file.allow_both {
                return Err(ChangeError::BothNotAllowed { guid });
            }
        }
        if p_key == DEFAULT && !self.partitions.contains_key(&p_key) && !members.is_empty() {
            self.insert(change, PartitionSettings::plain(p_key));
        }
        if p_key != DEFAULT {
            self.existing(p_key)?;
        }
        self.take_index0(change, members)?;
        if let Some(one) = self.partitions.get_mut(&p_key) {
            let before = one.members.len();
            let is_same = members
                .iter()
                .all(|(guid, member)| one.members.get(guid) == Some(member));
            if !is_same {
                Arc::make_mut(one).members.extend(members);
            }
            self.memberships += one.members.len() - before;
        }
        Ok(())
    }

    /// Ends the claims of other partitions to index 0 of the ports for which `members` claim it.
    ///
    /// # Errors
    /// [`ChangeError::Index0`] if the caller may not change the partition that has index 0.
    fn take_index0(
        &mut self,
        change: &Change,
        members: &BTreeMap<Guid, Member>,
    ) -> Result<(), ChangeError> {
        let p_key = PKey(change.p_key).base();
        let claims = members.iter().filter(|(_, member)| member.index0);
        let claims: BTreeSet<Guid> = claims.map(|(&guid, _)| guid).collect();
        let mut own = BTreeSet::new();
        for one in self.of_caller(change) {
            own.extend(one.claims_among(&claims));
        }
        for (&other, one) in &mut self.partitions {
            if other == p_key {
                continue;
            }
            let lost = one.claims_among(&claims);
            let Some(&guid) = lost.first() else {
                continue;
            };
            if !change.may_change.iter().any(|range| range.contains(&other)) {
                return Err(ChangeError::Index0 { guid, p_key: other });
            }
            let one = Arc::make_mut(one);
            for guid in lost {
                if let Some(member) = one.members.get_mut(&guid) {
                    member.index0 = false;
                }
            }
        }
        // Otherwise, a tenant could displace the default partition's key at other tenants' ports.
        match claims.difference(&own).next() {
            Some(&guid) if change.is_of_tenant() => Err(ChangeError::Index0 {
                guid,
                p_key: DEFAULT,
            }),
            _ => Ok(()),
        }
    }

    /// Removes members from a partition, and the emptied partition itself if `when_empty` permits.
    /// The entry of the default partition is always removed when it is empty.
    fn remove(
        &mut self,
        p_key: u16,
        guids: &BTreeSet<Guid>,
        when_empty: WhenEmpty,
    ) -> Result<(), ChangeError> {
        let Some(one) = self.partitions.get_mut(&p_key) else {
            return match p_key {
                DEFAULT => Ok(()),
                _ => Err(ChangeError::NotFound { p_key }),
            };
        };
        let removed = guids.iter().filter(|guid| one.members.contains_key(guid));
        let removed = removed.count();
        if removed > 0 {
            Arc::make_mut(one)
                .members
                .retain(|guid, _| !guids.contains(guid));
            self.memberships -= removed;
        }
        let is_unused = one.members.is_empty()
            && (p_key == DEFAULT || removed > 0 && when_empty == WhenEmpty::Delete);
        if is_unused {
            self.partitions.remove(&p_key);
        }
        Ok(())
    }
}

impl OverlayPartition {
    /// The members in `guids` that claim index 0. Iterates over the smaller of the two sets.
    fn claims_among(&self, guids: &BTreeSet<Guid>) -> Vec<Guid> {
        let claims = |guid: &Guid| self.members.get(guid).is_some_and(|member| member.index0);
        if guids.len() <= self.members.len() {
            return guids.iter().copied().filter(claims).collect();
        }
        let claiming = self.members.iter().filter(|(_, member)| member.index0);
        let guids = claiming
            .map(|(&guid, _)| guid)
            .filter(|guid| guids.contains(guid));
        guids.collect()
    }
}

impl PartitionSettings {
    /// The names of the settings that differ from `other`.
    fn differing(&self, other: &PartitionSettings) -> Vec<&'static str> {
        let settings = [
            ("name", self.name != other.name),
            ("setting of ipoib", self.ipoib != other.ipoib),
            ("service level", self.sl != other.sl),
            ("MTU", self.mtu != other.mtu),
            ("rate", self.rate != other.rate),
        ];
        let differing = settings.into_iter().filter(|&(_, differs)| differs);
        differing.map(|(name, _)| name).collect()
    }
}

/// Fails if the P_Key is the P_Key of the default partition.
fn not_default(p_key: u16) -> Result<(), ChangeError> {
    match p_key {
        DEFAULT => Err(ChangeError::Default),
        _ => Ok(()),
    }
}

/// Fails if the partition file or the configuration defines the partition.
fn not_in_file(p_key: u16, file: &Partitions) -> Result<(), ChangeError> {
    let found = file.find(PKey(p_key));
    let Some(found) = found.filter(|found| found.origin != PartitionOrigin::BuiltIn) else {
        return Ok(());
    };
    let path = file.file.as_ref();
    let path = path.map_or_else(
        || "the configuration".to_owned(),
        |path| path.display().to_string(),
    );
    Err(ChangeError::InFile {
        p_key,
        name: found.name.clone(),
        file: path,
    })
}
