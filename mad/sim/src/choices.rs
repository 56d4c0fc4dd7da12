//! Packets of connections, which switches with adaptive routing may send through any port of a
//! group.

use std::collections::HashMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::PortState;

use crate::counters::DropReason;
use crate::error::SimError;
use crate::fabric::{DROP, NONE, Node, Switch};
use crate::probe::{PAYLOAD, Probe};
use crate::route::{self, MAX_SWITCHES, Traffic, WalkResult};
use crate::sim::Sim;
use crate::tally::{self, Load};

/// The rule by which switches choose one of the ports through which they may send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picks {
    /// Each switch chooses a port at random; the value is the seed.
    Seeded(u64),
    /// Each switch chooses the port with the worst outcome: a loop is worse than a loss, and a loss
    /// is worse than the longest path.
    Worst,
}

/// The outcome of a packet, and the number of switches on its path that had a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// The outcome of the packet.
    pub probe: Probe,
    /// The number of switches on the path that had more than one port to choose from.
    pub free: u32,
}

/// The severity of an outcome: a larger value is a worse outcome.
fn severity(choices: &Choices) -> (u8, u32) {
    match choices.probe {
        Probe::Delivered { hops, .. } => (0, hops),
        Probe::Dropped { hops, .. } => (1, hops),
        Probe::Loop { .. } => (2, 0),
    }
}

/// The outcome as seen from one link earlier on the path.
fn one_hop_earlier(mut choices: Choices) -> Choices {
    match &mut choices.probe {
        Probe::Delivered { hops, .. } | Probe::Dropped { hops, .. } => *hops += 1,
        Probe::Loop { .. } => {}
    }
    choices
}

/// A packet whose path is being searched.
struct Walk<'a> {
    sim: &'a Sim,
    dlid: Lid,
    sl: u8,
    picks: Picks,
    /// The outcomes by the port at which the packet enters a node; `None` while that port is on the
    /// path under search.
    outcomes: HashMap<u32, Option<Choices>>,
    /// The walk that counts the packet; `None` while a search sends no packet.
    counted: Option<tally::Walk<'a>>,
}

impl Sim {
    /// Sends a packet of a reliable connection, 256 bytes, from an end port to a LID. Switches with
    /// adaptive routing send it through any port of the group, if adaptive routing applies to the
    /// service level. Like a packet of [`Sim::probe`], the packet takes no time and changes only
    /// counters. The search for the [worst](Picks::Worst) outcome sends no packet and counts
    /// nothing.
    ///
    /// # Errors
    /// The source does not exist or has no address.
    pub fn probe_choices(
        &self,
        (guid, port): (Guid, PortNum),
        dlid: Lid,
        sl: u8,
        picks: Picks,
    ) -> Result<Choices, SimError> {
        let start = self.fabric.find_end_port(guid, port)?;
        let load = Load::unicast(PAYLOAD);
        let counted =
            (picks != Picks::Worst).then(|| self.performance.walks.begin(&self.fabric, load));
        let mut walk = Walk {
            sim: self,
            dlid,
            sl,
            picks,
            outcomes: HashMap::new(),
            counted,
        };
        if self.fabric.port(start).holds(dlid) {
            return Ok(walk.delivered(start));
        }
        let choices = match self.fabric.node_of(start).is_switch() {
            false => walk.leave(start, start, 0),
            true => walk.enter(start, 0),
        };
        if let Some(counted) = &mut walk.counted {
            counted.end(&self.walk_result_of(&choices.probe)?);
        }
        Ok(choices)
    }

    /// The end of a packet with this outcome.
    fn walk_result_of(&self, probe: &Probe) -> Result<WalkResult, SimError> {
        let (node, port, hops, result) = match *probe {
            Probe::Delivered { node, port, hops } => (node, port, hops, Ok(())),
            Probe::Dropped {
                node,
                port,
                hops,
                why,
            } => (node, port, hops, Err(why)),
            Probe::Loop { node } => (node, PortNum::ZERO, MAX_SWITCHES, Err(DropReason::Loop)),
        };
        Ok(WalkResult {
            port: self.fabric.find_port(node, port)?,
            hops,
            result,
        })
    }
}

impl Walk<'_> {
    fn delivered(&self, at: u32) -> Choices {
        let fabric = &self.sim.fabric;
        let probe = Probe::Delivered {
            node: fabric.node_of(at).guid,
            port: PortNum(fabric.port(at).number),
            hops: 0,
        };
        Choices { probe, free: 0 }
    }

    fn dropped(&self, at: u32, why: DropReason) -> Choices {
        let fabric = &self.sim.fabric;
        let probe = Probe::Dropped {
            node: fabric.node_of(at).guid,
            port: PortNum(fabric.port(at).number),
            hops: 0,
            why,
        };
        Choices { probe, free: 0 }
    }

    /// The outcome of a packet that enters a node through the port `at`.
    fn enter(&mut self, at: u32, hops: u32) -> Choices {
        let fabric = &self.sim.fabric;
        let node = fabric.node_of(at);
        let Some(switch) = &node.switch else {
            return match fabric.port(at).holds(self.dlid) {
                true => self.delivered(at),
                false => self.dropped(at, DropReason::WrongPort),
            };
        };
        let looping = Choices {
            probe: Probe::Loop { node: node.guid },
            free: 0,
        };
        if hops > MAX_SWITCHES {
            return looping;
        }
        if self.picks == Picks::Worst {
            match self.outcomes.get(&at) {
                Some(Some(outcomes)) => return *outcomes,
                Some(None) => return looping,
                None => drop(self.outcomes.insert(at, None)),
            }
        }
        let ports = self.ports(node, switch);
        let outcome = self.outcome(at, &ports, hops);
        self.outcomes.insert(at, Some(outcome));
        outcome
    }

    /// The outcome of a packet that the switch sends through one of `ports`.
    fn outcome(&mut self, at: u32, ports: &[u8], hops: u32) -> Choices {
        if ports.is_empty() {
            return self.dropped(at, DropReason::NoRoute);
        }
        let is_free = ports.len() > 1;
        let picked: &[u8] = match self.picks {
            Picks::Worst => ports,
            Picks::Seeded(seed) => {
                let guid = self.sim.fabric.node_of(at).guid.0;
                let hash = [guid, u64::from(self.dlid.0), u64::from(hops)]
                    .into_iter()
                    .fold(seed, |hash, value| {
                        let hash = (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        hash ^ hash >> 29
                    });
                let pick = (hash % ports.len() as u64) as usize;
                &ports[pick..=pick]
            }
        };
        let outcomes: Vec<Choices> = picked
            .iter()
            .map(|&number| self.leave_by_number(at, number, hops))
            .collect();
        let worst = outcomes
            .into_iter()
            .max_by_key(severity)
            .unwrap_or_else(|| self.dropped(at, DropReason::NoRoute));
        Choices {
            free: worst.free + u32::from(is_free),
            ..worst
        }
    }

    /// The outcome of a packet that leaves through the port with this number.
    fn leave_by_number(&mut self, at: u32, number: u8, hops: u32) -> Choices {
        let fabric = &self.sim.fabric;
        let node = fabric.node_of(at);
        if number == 0 {
            let port0 = node.first_port;
            return match fabric.port(port0).holds(self.dlid) {
                true => self.delivered(port0),
                false => self.dropped(port0, DropReason::WrongPort),
            };
        }
        match node.port(number) {
            Some(exit) => self.leave(at, exit, hops),
            None => self.dropped(at, DropReason::NoSuchPort),
        }
    }

    /// The outcome of a packet that leaves a node through the port `exit`.
    fn leave(&mut self, at: u32, exit: u32, hops: u32) -> Choices {
        let traffic = Traffic::Data {
            sl: self.sl,
            payload: PAYLOAD,
            key: None,
        };
        let fabric = &self.sim.fabric;
        if let Err(why) = route::pass(fabric, at, exit, traffic) {
            return self.dropped(exit, why);
        }
        if let Some(counted) = &mut self.counted {
            counted.cross(exit);
        }
        let next = fabric.port(exit).peer;
        one_hop_earlier(self.enter(next, hops + 1))
    }

    /// The ports through which the switch may send the packet.
    fn ports(&self, node: &Node, switch: &Switch) -> Vec<u8> {
        let fixed = switch.exit(self.dlid);
        let Some(adaptive) = &switch.adaptive else {
            return fixed.into_iter().collect();
        };
        let (routes, recovers) = (
            adaptive.info.enabled(),
            adaptive.info.fast_recovery_enabled(),
        );
        if !(routes || recovers) || self.dlid > switch.info.linear_fdb_top() {
            return fixed.into_iter().collect();
        }
        let group = adaptive.group_of(self.dlid, self.sl);
        let mut all: Vec<u8> = match group {
            0 => Vec::new(),
            _ => adaptive.ports(group).iter().map(|port| port.0).collect(),
        };
        all.extend(fixed.filter(|&port| port != DROP));
        all.sort_unstable();
        all.dedup();
        let up = |number: u8| {
            let port = node.port(number).map(|index| self.sim.fabric.port(index));
            number == 0
                || port.is_some_and(|port| {
                    port.peer != NONE && port.info.port_state() == PortState::Active
                })
        };
        if recovers && all.iter().any(|&port| up(port)) {
            all.retain(|&port| up(port));
        }
        match fixed {
            Some(port) if !routes && up(port) => vec![port],
            _ => all,
        }
    }
}
