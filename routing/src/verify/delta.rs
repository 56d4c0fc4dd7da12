//! Whether tables that were proved stay so, by what changed alone.
//!
//! Packets that meet no changed entry, and no switch where a cable or a port has come or gone, go as they went. So it is
//! enough that every changed entry leads to its destination, that the switches where something has gone send nothing
//! there, and that nothing new goes up after it went down, which an order of the switches tells turn by turn.

use rsm_ids::{Lid, PortNum};

use super::Witness;
use super::transition::Change;
use crate::tables::{NO_PATH, Tables};
use crate::topology::{EndpointKind, PortUse, SwitchIdx, Topology};

/// A switch at which cables or end ports have come or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The switch.
    pub switch: SwitchIdx,
    /// Its ports that lead to another switch, and did not lead to that port of it before.
    pub new_links: Vec<PortNum>,
}

/// The switches of `after` at which `before` had other cables or other end ports, or that it did not have.
pub fn ends(before: &Topology, after: &Topology) -> Vec<End> {
    let is_same = |now: SwitchIdx| {
        let Some(then) = before.switch_by_guid(after.switch(now).guid) else {
            return false;
        };
        let links_are = || {
            let far = |of: &Topology, switch: SwitchIdx| of.switch(switch).guid;
            before.links(then) == after.links(now)
                && before.groups(then).len() == after.groups(now).len()
                && before
                    .groups(then)
                    .zip(after.groups(now))
                    .all(|(then, now)| {
                        then.links.len() == now.links.len()
                            && far(before, then.neighbour) == far(after, now.neighbour)
                    })
        };
        let ports = |of: &Topology, switch: SwitchIdx| -> Vec<_> {
            let found = of.destinations_of(switch).iter();
            found.map(|d| (d.lid, d.lmc, d.port, d.guid)).collect()
        };
        links_are() && ports(before, then) == ports(after, now)
    };
    let new_links = |switch: SwitchIdx| {
        let far = |of: &Topology, at: SwitchIdx, port: PortNum| {
            let (peer, peer_port) = of.peer(at, port)?;
            Some((of.switch(peer).guid, peer_port))
        };
        let then = before.switch_by_guid(after.switch(switch).guid);
        (1..=after.switch(switch).num_ports)
            .map(PortNum)
            .filter(|&port| {
                let now = far(after, switch, port);
                now.is_some() && now != then.and_then(|then| far(before, then, port))
            })
            .collect()
    };
    after
        .indices()
        .filter(|&switch| !is_same(switch))
        .map(|switch| End {
            switch,
            new_links: new_links(switch),
        })
        .collect()
}

/// The first fault that `changes` bring into tables that were proved on a fabric that differs from `topology` at `ends`
/// alone (see [`ends`]), and that follow the order that `is_above` tells, as [`Dependencies::follows`] has it; `None` where
/// the proof still holds.
///
/// `new` are the tables with the changes. A pair of two switches that carry nothing may be without a path, as in
/// [`Report`](super::Report).
///
/// [`Dependencies::follows`]: super::Dependencies::follows
pub fn fault_in_changes(
    topology: &Topology,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
    new: &Tables,
    changes: &[Change],
    ends: &[End],
) -> Option<Witness> {
    let check = Check {
        topology,
        tables: new,
    };
    let goes_wrong = |switch: SwitchIdx, lid: Lid| {
        check
            .lost(switch, lid)
            .or_else(|| check.turned(&is_above, switch, lid))
    };
    let at_ends = ends.iter().find_map(|end| {
        let in_use = topology.destinations().iter();
        let mut lids = in_use.flat_map(|destination| destination.lids());
        lids.find_map(|lid| {
            let port = PortNum(check.entry(end.switch, lid));
            if end.new_links.contains(&port) {
                goes_wrong(end.switch, lid)
            } else {
                check.dropped(end.switch, lid)
            }
        })
    });
    let mut changes = changes.iter();
    at_ends.or_else(|| changes.find_map(|change| goes_wrong(change.switch, change.lid)))
}

struct Check<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
}

impl Check<'_> {
    fn entry(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        self.tables.lft(switch).entry(lid)
    }

    fn next(&self, switch: SwitchIdx, lid: Lid) -> Option<SwitchIdx> {
        let port = PortNum(self.entry(switch, lid));
        self.topology.peer(switch, port).map(|(next, _)| next)
    }

    /// The switch itself drops what it should pass on.
    fn dropped(&self, switch: SwitchIdx, lid: Lid) -> Option<Witness> {
        let topology = self.topology;
        let destination = topology.destination_of(lid)?;
        let entry = self.entry(switch, lid);
        let passes_on = if destination.switch == switch {
            entry == destination.port.0
        } else {
            let leads_to = topology.port_use(switch, PortNum(entry));
            matches!(leads_to, PortUse::Link { peer, .. } if peer != switch)
        };
        let carries =
            destination.kind != EndpointKind::Switch0 || topology.destinations_of(switch).len() > 1;
        let joined = topology.component_of(switch) == topology.component_of(destination.switch);
        (!passes_on && carries && joined).then(|| Witness::Dropped {
            switch: topology.switch(switch).guid,
            lid,
            port: (entry != NO_PATH).then_some(PortNum(entry)),
        })
    }

    /// Packets from the switch are dropped somewhere, or go round.
    fn lost(&self, from: SwitchIdx, lid: Lid) -> Option<Witness> {
        let destination = self.topology.destination_of(lid)?;
        if self.next(from, lid).is_none() {
            return self.dropped(from, lid);
        }
        let mut passed = vec![from];
        let mut switch = from;
        while switch != destination.switch {
            let Some(next) = self.next(switch, lid) else {
                // Whoever is passed on to is expected to pass on, whatever it carries itself.
                let entry = self.entry(switch, lid);
                return Some(Witness::Dropped {
                    switch: self.topology.switch(switch).guid,
                    lid,
                    port: (entry != NO_PATH).then_some(PortNum(entry)),
                });
            };
            if let Some(first) = passed.iter().position(|&was| was == next) {
                let hop = |&switch: &SwitchIdx| {
                    let port = PortNum(self.entry(switch, lid));
                    (self.topology.switch(switch).guid, port)
                };
                let mut hops: Vec<_> = passed[first..].iter().map(hop).collect();
                let lowest = (0..hops.len()).min_by_key(|&place| hops[place].0)?;
                hops.rotate_left(lowest);
                return Some(Witness::Loop { lid, hops });
            }
            passed.push(next);
            switch = next;
        }
        self.dropped(switch, lid)
    }

    /// A turn from down to up at either end of what the entry sends to.
    fn turned(
        &self,
        is_above: &impl Fn(SwitchIdx, SwitchIdx) -> bool,
        switch: SwitchIdx,
        lid: Lid,
    ) -> Option<Witness> {
        let next = self.next(switch, lid)?;
        let turn = |from: SwitchIdx, at: SwitchIdx| {
            let channel = |switch: SwitchIdx| {
                let port = PortNum(self.entry(switch, lid));
                (self.topology.switch(switch).guid, port)
            };
            Witness::CreditLoop {
                channels: vec![channel(from), channel(at)],
            }
        };
        let goes_up = |at: SwitchIdx| self.next(at, lid).is_some_and(|to| is_above(to, at));
        if is_above(switch, next) {
            return goes_up(next).then(|| turn(switch, next));
        }
        let mut feeders = self.topology.groups(switch).map(|group| group.neighbour);
        feeders
            .find(|&from| is_above(from, switch) && self.next(from, lid) == Some(switch))
            .map(|from| turn(from, switch))
    }
}
