//! Roles of identities, the rights that calls need, and grants.

use std::fmt;
use std::ops::RangeInclusive;

/// A role that the operator assigns to identities.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// May read the subnet.
    Read,
    /// May send the inventories of GPU hosts, and nothing else.
    Report,
    /// May read, and act on the fabric without changing its configuration: sweep, drain, expect,
    /// import inventories, and change partitions made through the API.
    Operate,
    /// May see and change partitions, but only those of the granted P_Keys.
    Tenant,
    /// May do everything that the roles above may do, for every P_Key, and change how rsm manages
    /// the subnet.
    Admin,
    /// May see keys.
    Secrets,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 6] = [
        Role::Read,
        Role::Report,
        Role::Operate,
        Role::Tenant,
        Role::Admin,
        Role::Secrets,
    ];

    /// The name of the role in the roles file.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Report => "report",
            Role::Operate => "operate",
            Role::Tenant => "tenant",
            Role::Admin => "admin",
            Role::Secrets => "secrets",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The right that a call needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Need {
    /// The right to read the subnet.
    Read,
    /// The right to see partitions; a tenant sees its own.
    SeePartitions,
    /// The right to ask whether the inventory of a host is known.
    CheckInventory,
    /// The right to import the inventory of a host.
    ImportInventory,
    /// The right to act on the fabric.
    Operate,
    /// The right to change partitions; a tenant changes its own.
    ChangePartitions,
    /// The right to change how rsm manages the subnet.
    Administer,
    /// The right to see keys.
    SeeSecrets,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 8] = [
        Need::Read,
        Need::SeePartitions,
        Need::CheckInventory,
        Need::ImportInventory,
        Need::Operate,
        Need::ChangePartitions,
        Need::Administer,
        Need::SeeSecrets,
    ];

    /// The roles that satisfy the need, the least powerful one first.
    pub const fn roles(self) -> &'static [Role] {
        match self {
            Need::Read => &[Role::Read, Role::Operate, Role::Admin],
            Need::SeePartitions => &[Role::Read, Role::Tenant, Role::Operate, Role::Admin],
            Need::CheckInventory | Need::ImportInventory => {
                &[Role::Report, Role::Operate, Role::Admin]
            }
            Need::Operate => &[Role::Operate, Role::Admin],
            Need::ChangePartitions => &[Role::Tenant, Role::Operate, Role::Admin],
            Need::Administer => &[Role::Admin],
            Need::SeeSecrets => &[Role::Secrets],
        }
    }

    /// Whether a call with this need may change anything.
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Need::ImportInventory | Need::Operate | Need::ChangePartitions | Need::Administer
        )
    }
}

/// The roles of an identity, and the P_Keys of its role tenant.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Grant {
    /// One bit for each role; see [`Role::bit`].
    roles: u8,
    /// The P_Keys without the membership bit, as ascending ranges with gaps between them.
    p_keys: Vec<RangeInclusive<u16>>,
}

impl Grant {
    /// The grant without roles.
    pub const NONE: Grant = Grant {
        roles: 0,
        p_keys: Vec::new(),
    };

    /// A grant of these roles, without P_Keys for the role tenant.
    pub fn of(roles: &[Role]) -> Grant {
        let roles = roles.iter().fold(0, |bits, role| bits | role.bit());
        Grant {
            roles,
            p_keys: Vec::new(),
        }
    }

    /// A grant of the role tenant for these P_Keys, without the membership bit.
    pub fn tenant(p_keys: impl IntoIterator<Item = RangeInclusive<u16>>) -> Grant {
        Grant {
            roles: Role::Tenant.bit(),
            p_keys: merged(p_keys.into_iter().collect()),
        }
    }

    /// A grant of all roles.
    pub fn everything() -> Grant {
        Grant::of(&Role::ALL)
    }

    /// Adds the roles and P_Keys of `other`.
    pub fn add(&mut self, other: &Grant) {
        self.roles |= other.roles;
        let both = self.p_keys.iter().chain(&other.p_keys);
        self.p_keys = merged(both.cloned().collect());
    }

    /// Whether the grant includes a role.
    pub fn has(&self, role: Role) -> bool {
        self.roles & role.bit() != 0
    }

    /// Whether one of the roles satisfies a need.
    pub fn satisfies(&self, need: Need) -> bool {
        need.roles().iter().any(|&role| self.has(role))
    }

    /// Whether the identity may see the partition with this P_Key; the membership bit is ignored.
    pub fn sees(&self, p_key: u16) -> bool {
        self.satisfies(Need::Read) || self.owns(p_key)
    }

    /// Whether the identity may change the partition with this P_Key; the membership bit is
    /// ignored.
    pub fn changes(&self, p_key: u16) -> bool {
        self.changes_all() || self.owns(p_key)
    }

    /// The P_Keys of the partitions that the identity may change, without the membership bit.
    pub fn changeable(&self) -> Vec<RangeInclusive<u16>> {
        match self.changes_all() {
            true => vec![0..=0x7fff],
            false if self.has(Role::Tenant) => self.p_keys.clone(),
            false => Vec::new(),
        }
    }

    fn changes_all(&self) -> bool {
        self.has(Role::Admin) || self.has(Role::Operate)
    }

    /// Whether the role tenant has this P_Key.
    fn owns(&self, p_key: u16) -> bool {
        let base = p_key & 0x7fff;
        let after = self.p_keys.partition_point(|range| *range.start() <= base);
        let range = after.checked_sub(1).map(|at| &self.p_keys[at]);
        self.has(Role::Tenant) && range.is_some_and(|range| range.contains(&base))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.roles == 0 {
            return f.write_str("no role");
        }
        let mut separator = "";
        for role in Role::ALL.into_iter().filter(|&role| self.has(role)) {
            write!(f, "{separator}{}", role.name())?;
            separator = " ";
            let marks = [":"].into_iter().chain(std::iter::repeat(","));
            let ranges = self.p_keys.iter().filter(|_| role == Role::Tenant);
            for (mark, range) in marks.zip(ranges) {
                write!(f, "{mark}{:#x}-{:#x}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}

/// Sorts the ranges, drops empty ones, and merges ranges that overlap or touch.
fn merged(mut ranges: Vec<RangeInclusive<u16>>) -> Vec<RangeInclusive<u16>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (*range.start(), *range.end()));
    let mut merged: Vec<RangeInclusive<u16>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if u32::from(*range.start()) <= u32::from(*last.end()) + 1 => {
                *last = *last.start()..=(*last.end()).max(*range.end());
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_changes_and_sees_only_its_p_keys_with_either_membership_bit() {
        let mut grant = Grant::tenant([0x30..=0x30, 0x10..=0x1f, 0x18..=0x20]);
        for (p_key, owned) in [
            (0x0f, false),
            (0x10, true),
            (0x8010, true),
            (0x20, true),
            (0x21, false),
            (0x30, true),
            (0x31, false),
            (0x7fff, false),
        ] {
            assert_eq!(grant.changes(p_key), owned, "{p_key:#x}");
            assert_eq!(grant.sees(p_key), owned, "{p_key:#x}");
        }
        assert_eq!(grant.to_string(), "tenant:0x10-0x20,0x30-0x30");
        grant.add(&Grant::of(&[Role::Read]));
        assert!(grant.sees(0x7fff));
        assert!(!grant.changes(0x7fff));
    }

    #[test]
    fn admin_changes_every_partition_and_sees_no_secret() {
        let admin = Grant::of(&[Role::Admin]);
        assert!(admin.changes(0x7fff));
        assert!(!admin.satisfies(Need::SeeSecrets));
        assert!(!Grant::NONE.satisfies(Need::Read));
    }
}
