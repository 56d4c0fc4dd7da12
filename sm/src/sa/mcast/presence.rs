//! Ports that come and go.

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;

use super::{Ports, Registry};

impl Registry {
    /// The subnet has changed: ports that are gone lose their memberships when they do not come back in time; those that
    /// left a partition lose the memberships of its groups now.
    pub fn ports_changed(&mut self, ports: &impl Ports, now: Time) {
        let mut expelled: Vec<(Gid, Guid)> = Vec::new();
        for (&guid, groups) in &self.by_port {
            let Some(port) = ports.by_guid(guid) else {
                let until = now + self.config.keep;
                self.gone.entry(guid).or_insert(until);
                continue;
            };
            self.gone.remove(&guid);
            for group in groups.iter().filter_map(|mgid| self.groups.get(mgid)) {
                if !port.is_in(group.parameters.p_key) {
                    let members = group.members.iter();
                    let own = members.filter(|(_, member)| member.port == guid);
                    expelled.extend(own.map(|(&alias, _)| (group.parameters.mgid, alias)));
                }
            }
        }
        for (mgid, alias) in expelled {
            self.remove_member(mgid, alias);
        }
    }

    /// Takes the memberships of ports that have been gone for too long. Returns those ports.
    pub fn handle_deadline(&mut self, now: Time) -> Vec<Guid> {
        let lost: Vec<Guid> = self
            .gone
            .iter()
            .filter(|&(_, &until)| until <= now)
            .map(|(&guid, _)| guid)
            .collect();
        for &guid in &lost {
            self.gone.remove(&guid);
            self.expel(guid);
        }
        lost
    }

    /// When [`Registry::handle_deadline`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.gone.values().copied().min()
    }

    /// Takes all memberships of a port.
    fn expel(&mut self, guid: Guid) {
        for mgid in self.by_port.get(&guid).cloned().unwrap_or_default() {
            let Some(group) = self.groups.get(&mgid) else {
                continue;
            };
            let members = group.members.iter();
            let own = members.filter(|(_, member)| member.port == guid);
            let aliases: Vec<Guid> = own.map(|(&alias, _)| alias).collect();
            for alias in aliases {
                self.remove_member(mgid, alias);
            }
        }
    }
}
