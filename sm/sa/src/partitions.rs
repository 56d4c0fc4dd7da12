//! Partitions of ports: the ports that can communicate with each other, and therefore may know
//! about each other.

use std::sync::Arc;

use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::vports::VPortKey;
use rsm_plan::Plan;

use super::ends::{EndIx, EndPort};

/// P_Keys of a port whose table cannot be written (IBA 10.9.2): full membership in the default
/// partition.
const DEFAULT_P_KEYS: [PKey; 1] = [PKey::DEFAULT_FULL];

/// The partitions of each end port.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Memberships {
    /// Tables by end port. Equal tables are shared, so that most comparisons compare only
    /// addresses.
    tables: Vec<Arc<[PKey]>>,
}

impl Memberships {
    /// The planned tables of all end ports. A port that the plan lacks is in no partition until a
    /// later plan contains it.
    pub(super) fn of(fabric: &Arc<Fabric>, plan: &Plan, ends: &[EndPort]) -> Memberships {
        let default: Arc<[PKey]> = Arc::new(DEFAULT_P_KEYS);
        let none: Arc<[PKey]> = Arc::new([]);
        let table = |end: &EndPort| {
            if let Some(index) = end.vport {
                let key = VPortKey::new(fabric.key(end.at), index);
                return plan.partitions.vport_table(key).unwrap_or(&none).clone();
            }
            if fabric.p_key_capacity(end.at) == 0 {
                return default.clone();
            }
            let table = plan.partitions.table(fabric.key(end.at));
            table.unwrap_or(&none).clone()
        };
        Memberships {
            tables: ends.iter().map(table).collect(),
        }
    }

    /// The P_KeyTable of a port, up to the last key in use; empty if the port is in no partition.
    pub(super) fn table(&self, ix: EndIx) -> &[PKey] {
        &self.tables[ix.0 as usize]
    }

    /// The partitions in which `a` and `b` can communicate, in the order of `a`'s table: both are
    /// members, and at least one is a full member (IBA 10.9.3). A port can communicate with itself
    /// in all of its own partitions.
    pub(super) fn common(&self, a: EndIx, b: EndIx) -> impl Iterator<Item = PKey> + '_ {
        let theirs = self.table(b);
        let is_common = move |mine: &PKey| {
            let meets =
                |their: &PKey| their.base() == mine.base() && (their.is_full() || mine.is_full());
            mine.is_valid() && (a == b || theirs.iter().any(meets))
        };
        self.table(a).iter().copied().filter(is_common)
    }

    /// Whether `a` may know about `b` (IBA 15.4.1), because the two can communicate in some
    /// partition.
    pub(super) fn may_see(&self, a: EndIx, b: EndIx) -> bool {
        a == b || self.common(a, b).next().is_some()
    }
}

/// The planned P_Keys of an end port that is not a virtual port. A port without a P_KeyTable has
/// full membership in the default partition; a port that the plan lacks has no P_Keys.
pub fn planned_keys<'a>(fabric: &Fabric, plan: &'a Plan, end: PortRef) -> &'a [PKey] {
    if fabric.p_key_capacity(end) == 0 {
        return &DEFAULT_P_KEYS;
    }
    let table = plan.partitions.table(fabric.key(end));
    table.map_or(&[], |table| &table[..])
}

/// Whether ports with these P_Keys can communicate (IBA 10.9.1.1): both are in one partition, and
/// at least one is a full member.
pub fn can_talk(these: &[PKey], those: &[PKey]) -> bool {
    these.iter().filter(|key| key.is_valid()).any(|mine| {
        let meets =
            |their: &PKey| their.base() == mine.base() && (their.is_full() || mine.is_full());
        those.iter().any(meets)
    })
}

#[cfg(test)]
impl Memberships {
    /// Sets the P_Keys of a port to `table`.
    pub(super) fn set(&mut self, ix: EndIx, table: &[u16]) {
        self.tables[ix.0 as usize] = table.iter().copied().map(PKey).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(a: &[u16], b: &[u16]) -> Vec<u16> {
        let tables = [a, b].map(|table| table.iter().copied().map(PKey).collect());
        let memberships = Memberships {
            tables: tables.into(),
        };
        let common = memberships.common(EndIx(0), EndIx(1));
        let common: Vec<u16> = common.map(|key| key.0).collect();
        assert_eq!(memberships.may_see(EndIx(0), EndIx(1)), !common.is_empty());
        common
    }

    #[test]
    fn two_limited_members_have_no_common_partition() {
        assert_eq!(common(&[0xFFFF], &[0x7FFF]), [0xFFFF]);
        assert_eq!(common(&[0x7FFF], &[0xFFFF]), [0x7FFF]);
        assert!(common(&[0x7FFF], &[0x7FFF]).is_empty());
        assert_eq!(common(&[0x7FFF, 0x8001], &[0x7FFF, 0x0001]), [0x8001]);
    }

    #[test]
    fn empty_table_entries_are_not_a_common_partition() {
        assert_eq!(common(&[0, 0x8000, 0x8002], &[0, 0x8000, 0x8002]), [0x8002]);
        assert!(common(&[], &[0xFFFF]).is_empty());
    }
}
