//! Virtual ports as members of multicast groups: their packets pass the port of their host.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rsm_ids::Guid;

use crate::fabric::Fabric;
use crate::plan::groups::{GroupMembers, GroupSet};

/// The port GUID of each virtual port's GUID, of one model of the subnet.
#[derive(Clone, Default, Debug)]
pub(super) struct VPortOwners {
    fabric: Option<Arc<Fabric>>,
    ports: Arc<HashMap<Guid, Guid>>,
}

impl VPortOwners {
    /// `groups` with ports in the place of their virtual ports.
    pub(super) fn replaced(
        &mut self,
        fabric: &Arc<Fabric>,
        groups: Arc<GroupSet>,
    ) -> Arc<GroupSet> {
        let is_same = self
            .fabric
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, fabric));
        if !is_same {
            self.ports = Arc::new(owners(fabric));
            self.fabric = Some(fabric.clone());
        }
        let has_any = |members: &GroupMembers| {
            let mut guids = members.ports.keys();
            !self.ports.is_empty() && guids.any(|guid| self.ports.contains_key(guid))
        };
        if !groups.by_mlid.values().any(|members| has_any(members)) {
            return groups;
        }
        let by_mlid = groups.by_mlid.iter().map(|(&mlid, members)| {
            let members = match has_any(members) {
                true => Arc::new(self.at_ports(members)),
                false => members.clone(),
            };
            (mlid, members)
        });
        Arc::new(GroupSet {
            by_mlid: by_mlid.collect(),
            levels: groups.levels.clone(),
            partial: groups.partial,
        })
    }

    fn at_ports(&self, members: &GroupMembers) -> GroupMembers {
        let mut ports: BTreeMap<Guid, bool> = BTreeMap::new();
        for (guid, &receives) in &members.ports {
            let port = self.ports.get(guid).unwrap_or(guid);
            *ports.entry(*port).or_default() |= receives;
        }
        GroupMembers { ports }
    }
}

fn owners(fabric: &Fabric) -> HashMap<Guid, Guid> {
    let mut owners = HashMap::new();
    for (_, port) in fabric.end_ports() {
        if let Some(vports) = &port.vports {
            let vports = vports
                .vports
                .values()
                .filter(|vport| vport.guid() != port.guid);
            owners.extend(vports.map(|vport| (vport.guid(), port.guid)));
        }
    }
    owners
}
