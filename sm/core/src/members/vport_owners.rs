//! Virtual ports as members of multicast groups: a virtual port receives through its host's port.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_plan::groups::{GroupMembers, GroupSet};

/// The physical port of each virtual port, in one model of the subnet.
#[derive(Clone, Default, Debug)]
pub(super) struct VPortOwners {
    /// The model that `ports` was taken from; `None` before the first one.
    fabric: Option<Arc<Fabric>>,
    /// GUID of a virtual port → GUID of the physical port. A virtual port with the GUID of its
    /// physical port is left out.
    ports: Arc<HashMap<Guid, Guid>>,
}

impl VPortOwners {
    /// Replaces virtual ports in `groups` by their physical ports. A group without virtual ports
    /// keeps its `Arc`; without virtual ports in any group, `groups` is returned as it is.
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
                true => Arc::new(self.by_physical_ports(members)),
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

    /// The members with virtual ports replaced. A physical port receives if one of its virtual
    /// ports receives; otherwise it is a send-only member.
    fn by_physical_ports(&self, members: &GroupMembers) -> GroupMembers {
        let mut ports: BTreeMap<Guid, bool> = BTreeMap::new();
        for (guid, &receives) in &members.ports {
            let port = self.ports.get(guid).unwrap_or(guid);
            *ports.entry(*port).or_default() |= receives;
        }
        GroupMembers { ports }
    }
}

/// GUID of each virtual port in `fabric` → GUID of its physical port.
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

    /// One group, with MLID [`MLID`] and these members: port GUID → whether the port receives.
    fn groups(members: &[(Guid, bool)]) -> Arc<GroupSet> {
        let ports = members.iter().copied().collect();
        Arc::new(GroupSet {
            by_mlid: BTreeMap::from([(MLID, Arc::new(GroupMembers { ports }))]),
            ..GroupSet::default()
        })
    }

    #[test]
    fn port_receives_for_its_vports_and_groups_without_vports_are_not_copied() {
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
