//! Stores the generations of M_Keys, and this machine's port. No key is stored: keys are derived
//! from the secret, which is in a file.

use rsm_config::m_keys::Generations;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_store::{ChangeSet, Persisted};

use super::table;

/// Table of generations. Its only row holds the generations of switches and of other ports,
/// big-endian.
const GENERATIONS: &str = "m-keys";

/// Table of this machine's port, as a node GUID and a port number. Other managers do not share it.
const LOCAL: &str = "local-port";

/// Key of the only row in each table.
const KEY: &[u8] = b"now";

/// Generations in the store; the default without a valid row.
pub(super) fn restored(persisted: &Persisted) -> Generations {
    let rows = table::read(persisted, GENERATIONS, |_, value| {
        let (switches, others) = value.split_first_chunk()?;
        Some(Generations {
            switches: u64::from_be_bytes(*switches),
            others: u64::from_be_bytes(others.try_into().ok()?),
        })
    });
    let rows = rows.into_iter();
    rows.fold(Generations::default(), Generations::later)
}

/// This machine's port in the store; `None` without a valid row.
pub(super) fn restored_port(persisted: &Persisted) -> Option<PortKey> {
    let rows = table::read(persisted, LOCAL, |_, value| {
        let (node, port) = value.split_first_chunk()?;
        let &[port] = port else { return None };
        Some(PortKey::new(Guid(u64::from_be_bytes(*node)), PortNum(port)))
    });
    rows.into_iter().next()
}

/// Adds the changes after which `persisted` holds these generations and this port. A stored port
/// stays if `local` is `None`.
pub(super) fn changes(
    persisted: &Persisted,
    generations: Generations,
    local: Option<PortKey>,
    changes: &mut ChangeSet,
) {
    let Generations { switches, others } = generations;
    let value = [switches.to_be_bytes(), others.to_be_bytes()].concat();
    let is_set = generations != Generations::default();
    let value = is_set.then_some(&value[..]);
    table::put(persisted, GENERATIONS, KEY, value, changes);
    if let Some(port) = local {
        let mut value = port.node.0.to_be_bytes().to_vec();
        value.push(port.port.0);
        table::put(persisted, LOCAL, KEY, Some(&value), changes);
    }
}

#[cfg(test)]
mod tests {
    use rsm_store::Namespace;

    use super::*;

    #[test]
    fn generations_are_restored_and_broken_rows_left_out() {
        let wanted = Generations {
            switches: 7,
            others: u64::MAX,
        };
        let port = PortKey::new(Guid(5), PortNum(2));
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        changes(&persisted, wanted, Some(port), &mut set);
        persisted.apply(&set);
        assert_eq!(restored(&persisted), wanted);
        assert_eq!(restored_port(&persisted), Some(port));
        let mut again = ChangeSet::new();
        changes(&persisted, wanted, None, &mut again);
        assert!(again.is_empty(), "nothing is written twice");
        for name in [GENERATIONS, LOCAL] {
            let table = Namespace::new(name).expect("a name");
            set.set_record(&table, KEY, &[1; 10]).expect("room");
        }
        persisted.apply(&set);
        assert_eq!(restored(&persisted), Generations::default());
        assert_eq!(restored_port(&persisted), None);
    }
}
