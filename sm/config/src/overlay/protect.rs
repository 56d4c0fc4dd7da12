//! Names that belong to partitions of the overlay.

use std::sync::Arc;

use rsm_mad::wire::attr::PKey;

use super::change::ChangeError;
use super::{MAX_OWNED, Overlay};
use crate::{Partitions, Protection, Protections};

impl Overlay {
    /// Replaces the protection of a partition.
    ///
    /// # Errors
    /// Fails if there are too many prefixes, if a prefix overlaps with another prefix of any
    /// partition, or if the overlay lacks the partition.
    pub(super) fn protect(
        &mut self,
        p_key: u16,
        protection: &Protection,
        file: &Partitions,
    ) -> Result<(), ChangeError> {
        if protection.owned.len() > MAX_OWNED {
            let wanted = protection.owned.len();
            return Err(ChangeError::TooManyOwned { wanted });
        }
        let mut all = file.protections.clone();
        let others = self.partitions.iter().filter(|(key, _)| **key != p_key);
        for (&other, one) in others {
            add_protection(&mut all, other, &one.protection);
        }
        for &owned in &protection.owned {
            all.own(owned, PKey(p_key))
                .map_err(|(other, of)| ChangeError::Owned {
                    owned,
                    other,
                    p_key: of.base(),
                })?;
        }
        let one = self.partitions.get_mut(&p_key);
        let one = one.ok_or(ChangeError::NotFound { p_key })?;
        Arc::make_mut(one).protection = protection.clone();
        Ok(())
    }
}

/// Adds the protection of a partition to `all`. Prefixes that overlap with a prefix in `all` are
/// not added; returns them in words.
pub(super) fn add_protection(
    all: &mut Protections,
    p_key: u16,
    protection: &Protection,
) -> Vec<String> {
    if let Some(mode) = protection.trust {
        all.set_trust(PKey(p_key), mode);
    }
    let owned = protection.owned.iter();
    let lost = owned.filter_map(|&owned| {
        let (other, of) = all.own(owned, PKey(p_key)).err()?;
        Some(format!("{owned} ({other} of {of})"))
    });
    lost.collect()
}
