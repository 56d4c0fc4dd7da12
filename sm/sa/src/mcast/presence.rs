//! Ports that appear, vanish or change partitions, and the effect on their memberships.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;

use super::{GroupRegistry, Ports};

/// Number of ports and groups that are examined in one turn: few enough to take less than a
/// millisecond.
pub(super) const WORK_PER_TURN: usize = 1024;

/// The ports whose memberships must be examined after a change of the subnet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unexamined {
    /// Lower bound of the GUIDs that are left, if all ports must be examined; `None` if only
    /// `ports` are left.
    all: Option<Bound<Guid>>,
    /// Single ports to examine.
    ports: BTreeSet<Guid>,
}

impl Unexamined {
    /// Adds all ports.
    pub fn add_all(&mut self) {
        self.all = Some(Bound::Unbounded);
        self.ports.clear();
    }

    /// Adds these ports.
    pub fn add(&mut self, ports: BTreeSet<Guid>) {
        self.ports.extend(ports);
    }

    /// Whether no port is left to examine.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.ports.is_empty()
    }

    /// Removes and returns the next port. If all ports are left, skips ports that `members` does
    /// not contain.
    fn take_next<T>(&mut self, members: &BTreeMap<Guid, T>) -> Option<Guid> {
        let from = match self.all {
            Some(from) => from,
            None => return self.ports.pop_first(),
        };
        let next = members.range((from, Bound::Unbounded)).next();
        match next {
            Some((&guid, _)) => {
                self.all = Some(Bound::Excluded(guid));
                Some(guid)
            }
            None => {
                self.all = None;
                self.ports.pop_first()
            }
        }
    }
}

/// Absent ports, each with the time until which it keeps its memberships.
#[derive(Default, Debug)]
pub(super) struct AbsentPorts {
    until: BTreeMap<Guid, Time>,
    by_time: BTreeSet<(Time, Guid)>,
}

impl AbsentPorts {
    /// Records that a port is absent, and that it keeps its memberships until `until`.
    pub(super) fn insert(&mut self, port: Guid, until: Time) {
        self.remove(port);
        self.until.insert(port, until);
        self.by_time.insert((until, port));
    }

    pub(super) fn remove(&mut self, port: Guid) {
        if let Some(until) = self.until.remove(&port) {
            self.by_time.remove(&(until, port));
        }
    }

    fn contains(&self, port: Guid) -> bool {
        self.until.contains_key(&port)
    }

    /// Number of absent ports.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.until.len()
    }

    /// Time at which the next port loses its memberships; `None` if no port is absent.
    fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(until, _)| until)
    }

    /// Removes and returns a port whose time has ended; `None` if no time has ended.
    fn take_due(&mut self, now: Time) -> Option<Guid> {
        let &(until, port) = self.by_time.first()?;
        if until > now {
            return None;
        }
        self.remove(port);
        Some(port)
    }
}

impl GroupRegistry {
    /// Examines ports in `unexamined` after a change of the subnet. Absent ports lose their
    /// memberships unless they return in time; ports that left a partition lose their memberships
    /// in its groups at once.
    ///
    /// Examines at most `WORK_PER_TURN` ports and groups, and removes these ports from
    /// `unexamined`. The remaining ports are left to the next call, after other work had its turn.
    pub fn ports_changed(&mut self, ports: &impl Ports, unexamined: &mut Unexamined, now: Time) {
        let mut expelled: Vec<(Gid, Guid)> = Vec::new();
        let mut work = 0;
        while work < WORK_PER_TURN {
            let Some(guid) = unexamined.take_next(&self.by_port) else {
                break;
            };
            work += 1;
            let Some(groups) = self.by_port.get(&guid) else {
                continue;
            };
            work += groups.len();
            let Some(port) = ports.by_guid(guid) else {
                if !self.absent_ports.contains(guid) {
                    self.absent_ports.insert(guid, now + self.config.keep);
                }
                continue;
            };
            self.absent_ports.remove(guid);
            for (&mgid, aliases) in groups {
                let group = self.groups.get(&mgid);
                if group.is_some_and(|group| !port.is_in(group.parameters.p_key)) {
                    expelled.extend(aliases.iter().map(|&alias| (mgid, alias)));
                }
            }
        }
        for (mgid, alias) in expelled {
            self.remove_member(mgid, alias);
        }
    }

    /// Removes the memberships of ports that were absent for too long. Returns those ports.
    pub fn handle_deadline(&mut self, now: Time) -> Vec<Guid> {
        let mut lost = Vec::new();
        while let Some(guid) = self.absent_ports.take_due(now) {
            lost.push(guid);
            self.remove_memberships(guid);
        }
        lost
    }

    /// Time at which [`GroupRegistry::handle_deadline`] next has work; `None` if no port is absent.
    pub fn next_deadline(&self) -> Option<Time> {
        self.absent_ports.next()
    }

    /// Removes the memberships of a port with the GID of one of its alias GUIDs.
    pub(crate) fn remove_memberships_as(&mut self, port: Guid, alias: Guid) {
        let groups = self.by_port.get(&port).into_iter().flatten();
        let of_alias = groups.filter(|(_, aliases)| aliases.contains(&alias));
        let mgids: Vec<Gid> = of_alias.map(|(&mgid, _)| mgid).collect();
        for mgid in mgids {
            self.remove_member(mgid, alias);
        }
    }

    /// Removes all memberships of a port.
    fn remove_memberships(&mut self, guid: Guid) {
        let groups = self.by_port.get(&guid).cloned().unwrap_or_default();
        for (mgid, aliases) in groups {
            for alias in aliases {
                self.remove_member(mgid, alias);
            }
        }
    }
}
