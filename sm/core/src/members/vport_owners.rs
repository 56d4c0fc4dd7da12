//! Virtual ports as members of multicast groups: their packets pass the port of their host.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_plan::groups::{GroupMembers, GroupSet};

/// Port GUID of the host's port for each virtual port's GUID, in one model of the subnet.
#[derive(Clone, Default, Debug)]
pub(super) struct VPortOwners {
    fabric: Option<Arc<Fabric>>,
    ports: Arc<HashMap<Guid, Guid>>,
}

impl VPortOwners {
    /// Replaces virtual ports in `groups` by their hosts' ports.
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

#[cfg(test)]
mod tests {
    use rsm_ids::Lid;
    use rsm_model::vports::{PortVPorts, VPort};

    use super::*;

    const MLID: Lid = Lid(0xC000);

    /// Groups of which one has these members.
    fn groups(members: &[(Guid, bool)]) -> Arc<GroupSet> {
        let ports = members.iter().copied().collect();
        Arc::new(GroupSet {
            by_mlid: BTreeMap::from([(MLID, Arc::new(GroupMembers { ports }))]),
            ..GroupSet::default()
        })
    }

    #[test]
    fn port_receives_for_its_vports_and_other_groups_are_shared() {
        let netlist = rsm_routing::generate::generate("fat-tree:k=4,levels=2").unwrap();
        let mut fabric = Fabric::of_netlist(&netlist);
        let hosts: Vec<_> = fabric.end_ports().map(|(at, _)| at).collect();
        let hosts = hosts.iter().filter(|at| !fabric.node(at.node).is_switch());
        let [first, second] = hosts.copied().take(2).collect::<Vec<_>>()[..] else {
            panic!("there are hosts");
        };
        let mut vports = PortVPorts::default();
        for (index, guid) in (1..).zip([0xA1, 0xA2]) {
            let mut vport = VPort::default();
            vport.info.set_port_guid(Guid(guid));
            vports.vports.insert(index, vport);
        }
        fabric.port_mut(first).vports = Some(Arc::new(vports));
        let [first, second] = [first, second].map(|at| fabric.port(at).guid);
        let fabric = Arc::new(fabric);
        let mut owners = VPortOwners::default();

        let sends_alone = groups(&[(Guid(0xA1), false), (Guid(0xA2), true), (second, false)]);
        let replaced = owners.replaced(&fabric, sends_alone);
        let expected = BTreeMap::from([(first, true), (second, false)]);
        assert_eq!(replaced.by_mlid[&MLID].ports, expected);
        let of_ports = groups(&[(first, true), (second, true)]);
        let same = owners.replaced(&fabric, of_ports.clone());
        assert!(Arc::ptr_eq(&same, &of_ports));
    }
}
