//! P_KeyTables of virtual ports.
//!
//! Rules about all ports, about virtual adapters (`ALL_VCAS`) and about GUIDs apply to virtual
//! ports. A rule may name a GUID long before a virtual port has the GUID. A physical function has
//! the table of its port.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::PortRef;
use rsm_model::findings::FindingKind;
use rsm_model::vports::{VPort, VPortKey};

use super::members::EndPorts;
use super::table::{Arrangement, Index0, arrange};
use super::{Assignment, listed};

impl Assignment<'_> {
    /// Assigns tables to the virtual ports of `ports`. Returns the number of virtual ports that
    /// have other keys than full membership in the default partition.
    pub(super) fn assign_vports(&mut self, ports: &EndPorts) -> usize {
        let fabric = self.fabric;
        let mut all: Vec<(PortRef, VPortKey, &VPort)> = Vec::new();
        for &at in ports.list() {
            let port = fabric.port(at);
            let vports = port.vports.iter().flat_map(|vports| &vports.vports);
            let vports = vports.filter(|(_, vport)| vport.is_usable() && vport.guid() != port.guid);
            let key = fabric.key(at);
            all.extend(vports.map(|(&index, vport)| (at, VPortKey::new(key, index), vport)));
        }
        if all.is_empty() {
            return 0;
        }
        let guids = all.iter().map(|(at, _, vport)| (*at, vport.guid()));
        let members = EndPorts::of_vports(guids.collect());
        let wanted = members.members(&self.policy.partitions);
        for ((at, key, vport), wanted) in all.into_iter().zip(&wanted) {
            let capacity = usize::from(vport.node.partition_cap);
            let index_0 = match wanted.claimed {
                true => Index0::Claimed(wanted.index_0),
                false => Index0::Default(wanted.index_0),
            };
            let held = vport.p_keys.as_deref();
            let Arrangement { keys, left_out } = arrange(held, &wanted.keys, index_0, capacity);
            let needs_no_table = capacity == 0 && wanted.is_default();
            if !left_out.is_empty() && !needs_no_table {
                let text = format!(
                    "the P_Key table of its vport {} holds {capacity} keys: the vport is left out of {}",
                    key.index,
                    listed(&left_out)
                );
                self.findings
                    .add(FindingKind::PartitionTableTooSmall, fabric, at, text);
            }
            if capacity > 0 {
                let table = self.shared.table(keys);
                self.plan.vports.insert(key, table);
            }
        }
        wanted.iter().filter(|wanted| !wanted.is_default()).count()
    }

    /// The keys of a port and of its virtual ports without duplicates, that is, the keys of all
    /// packets on its link. `None` if the port has no table.
    pub(super) fn keys_on_link(&self, at: PortRef) -> Option<Vec<PKey>> {
        let key = self.fabric.key(at);
        let mut keys = self.plan.tables.get(&key)?.to_vec();
        let vports = self.plan.vports.range(VPortKey::all_of(key));
        for key in vports.flat_map(|(_, table)| table.iter().copied()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Some(keys)
    }
}

/// Replaces the tables of all virtual ports of the ports `concerned` by the tables `assigned`.
pub(super) fn replace(
    tables: &mut BTreeMap<VPortKey, Arc<[PKey]>>,
    concerned: impl IntoIterator<Item = PortKey>,
    assigned: BTreeMap<VPortKey, Arc<[PKey]>>,
) {
    if !tables.is_empty() {
        for port in concerned {
            let old: Vec<VPortKey> = tables
                .range(VPortKey::all_of(port))
                .map(|(&key, _)| key)
                .collect();
            for key in old {
                tables.remove(&key);
            }
        }
    }
    tables.extend(assigned);
}
