//! Limits of tenants: how many memberships and entries of P_Key tables one tenant may use.
//!
//! A tenant is a caller that may not change all partitions. Any GUID can be a member of a tenant's
//! partitions, including the GUID of another tenant's port, so tenants share the P_Key tables of
//! ports.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use super::{Action, Change, ChangeError, Overlay, OverlayPartition};

/// Number of keys in the P_Key table of most ports, assumed for ports that are not present.
const USUAL_KEYS: usize = 128;

/// Divisor of the size of a port's P_Key table: each tenant may use a quarter of the table.
const SHARE_DIVISOR: usize = 4;

/// Maximum number of memberships in all partitions of a tenant: every port of 45,056 hosts in one
/// partition, and a sixteenth of [`MAX_MEMBERSHIPS`](super::MAX_MEMBERSHIPS).
pub const MAX_TENANT_MEMBERSHIPS: usize = 1 << 16;

impl Change {
    /// Whether the caller may change only some partitions.
    pub fn is_of_tenant(&self) -> bool {
        let mut ranges = self.may_change.iter();
        !ranges.any(|range| range.contains(&0) && range.contains(&0x7fff))
    }

    /// Whether the caller may change the partition with this P_Key, without the membership bit.
    fn permits(&self, p_key: u16) -> bool {
        let mut ranges = self.may_change.iter();
        ranges.any(|range| range.contains(&p_key))
    }
}

impl Overlay {
    /// The partitions that the caller of `change` may change.
    pub(super) fn of_caller<'a>(
        &'a self,
        change: &'a Change,
    ) -> impl Iterator<Item = &'a OverlayPartition> {
        let all = self.partitions();
        all.filter(|&(p_key, _)| change.permits(p_key))
            .map(|(_, one)| &**one)
    }

    /// Checks that the partitions of a tenant have at most [`MAX_TENANT_MEMBERSHIPS`] memberships
    /// in this overlay, into which `change` turns `before`. A change that adds no memberships is
    /// permitted.
    ///
    /// # Errors
    /// [`ChangeError::TooManyOfTenant`].
    pub(super) fn check_quota(&self, change: &Change, before: &Overlay) -> Result<(), ChangeError> {
        if !change.is_of_tenant() || self.memberships <= before.memberships {
            return Ok(());
        }
        let of_tenant = self.of_caller(change).map(|one| one.members.len());
        match of_tenant.sum() {
            wanted if wanted > MAX_TENANT_MEMBERSHIPS => {
                Err(ChangeError::TooManyOfTenant { wanted })
            }
            _ => Ok(()),
        }
    }

    /// Checks that no port has more keys of a tenant in this overlay, into which `change` turns
    /// `before`, than the tenant's share of the port's table. A port whose keys do not increase is
    /// permitted. `keys` returns the capacity of a port's table; `None` for a port that is not
    /// present.
    ///
    /// # Errors
    /// [`ChangeError::TenantShare`] with the lowest GUID that has too many keys.
    pub fn check_shares(
        &self,
        change: &Change,
        before: &Overlay,
        keys: impl Fn(Guid) -> Option<usize>,
    ) -> Result<(), ChangeError> {
        let (Action::Create { members, .. } | Action::Add(members) | Action::Replace(members, _)) =
            &change.action
        else {
            return Ok(());
        };
        if !change.is_of_tenant() {
            return Ok(());
        }
        let guids: BTreeSet<Guid> = members.keys().copied().collect();
        let (had, wants) = (
            before.count_keys(change, &guids),
            self.count_keys(change, &guids),
        );
        for (guid, wanted) in wants {
            let share = (keys(guid).unwrap_or(USUAL_KEYS) / SHARE_DIVISOR).max(1);
            if wanted > share && wanted > had.get(&guid).copied().unwrap_or(0) {
                return Err(ChangeError::TenantShare {
                    guid,
                    wanted,
                    share,
                });
            }
        }
        Ok(())
    }

    /// Number of the caller's partitions with each of the GUIDs as a member, by GUID. A GUID in no
    /// such partition has no entry.
    fn count_keys(&self, change: &Change, guids: &BTreeSet<Guid>) -> BTreeMap<Guid, usize> {
        let mut counts = BTreeMap::new();
        for one in self.of_caller(change) {
            let found: Vec<Guid> = match guids.len() <= one.members.len() {
                true => guids
                    .iter()
                    .filter(|guid| one.members.contains_key(guid))
                    .copied()
                    .collect(),
                false => one
                    .members
                    .keys()
                    .filter(|guid| guids.contains(guid))
                    .copied()
                    .collect(),
            };
            for guid in found {
                *counts.entry(guid).or_default() += 1;
            }
        }
        counts
    }
}
