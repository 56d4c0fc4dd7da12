//! Ports that appear and vanish, and the effect on their memberships.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;

use super::{GroupRegistry, Ports};

/// Number of memberships examined in one turn: few enough to take less than a millisecond.
pub(super) const LOOKED_AT: usize = 1024;

/// The ports whose memberships must be examined after a change of the subnet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unexamined {
    /// All ports after this one, or all ports; `None` if only `ports` are left.
    all: Option<Bound<Guid>>,
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

    /// Takes the next port. If all ports are left, returns only ports with memberships.
    fn take<T>(&mut self, members: &BTreeMap<Guid, T>) -> Option<Guid> {
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
pub(super) struct Gone {
    until: BTreeMap<Guid, Time>,
    by_time: BTreeSet<(Time, Guid)>,
}

impl Gone {
    /// Records that a port is absent, and keeps its memberships until `until`.
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

    fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(until, _)| until)
    }

    /// Takes a port whose time has ended.
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
    /// Handles a change of the subnet at these ports. Absent ports lose their memberships unless
    /// they return in time; ports that left a partition lose the memberships in its groups at once.
    ///
    /// Takes from `unexamined` as many ports as have about a thousand memberships. The remaining
    /// ones are left to the next call, after other work had its turn.
    pub fn ports_changed(&mut self, ports: &impl Ports, unexamined: &mut Unexamined, now: Time) {
        let mut expelled: Vec<(Gid, Guid)> = Vec::new();
        let mut work = 0;
        while work < LOOKED_AT {
            let Some(guid) = unexamined.take(&self.by_port) else {
                break;
            };
            work += 1;
            let Some(groups) = self.by_port.get(&guid) else {
                continue;
            };
            work += groups.len();
            let Some(port) = ports.by_guid(guid) else {
                if !self.gone.contains(guid) {
                    self.gone.insert(guid, now + self.config.keep);
                }
                continue;
            };
            self.gone.remove(guid);
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
        while let Some(guid) = self.gone.take_due(now) {
            lost.push(guid);
            self.expel(guid);
        }
        lost
    }

    /// Time at which [`GroupRegistry::handle_deadline`] next has work; `None` if never.
    pub fn next_deadline(&self) -> Option<Time> {
        self.gone.next()
    }

    /// Removes all memberships of a port.
    fn expel(&mut self, guid: Guid) {
        let groups = self.by_port.get(&guid).cloned().unwrap_or_default();
        for (mgid, aliases) in groups {
            for alias in aliases {
                self.remove_member(mgid, alias);
            }
        }
    }
}
