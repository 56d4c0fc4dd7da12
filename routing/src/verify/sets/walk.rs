//! Follows all sequences of choices for one LID.

use rsm_ids::{Guid, PortNum};

use super::super::check::StartingPorts;
use super::super::dependencies::Turns;
use super::super::fabric::{Fabric, Sources};
use crate::tables::PortMask;
use crate::topology::{Destination, PortUse, SwitchIdx, Topology};

/// The fate of packets at a switch, or the state of the search for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    /// The switch is on the sequence of choices that is being followed.
    OnSequence,
    /// Packets arrive by every choice.
    Arrives,
    /// Packets do not arrive by some choice.
    Fails,
}

/// The outcome of all sequences of choices for one LID.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    /// The numbers of ports whose packets arrive by every choice.
    pub(super) arrived: Sources,
    /// The switch where some choice discards packets, and the port of that choice; `None` if none
    /// does.
    pub(super) dropped: Option<(Guid, Option<PortNum>)>,
}

/// Follows sets of ports from all switches.
pub(super) struct SetWalker<'a, 'f> {
    fabric: &'f Fabric<'a>,
    /// The fate of packets at each switch.
    fates: Vec<Fate>,
    /// For each switch, whether some choice tried so far does not arrive.
    fails: Vec<bool>,
    /// For each switch, the number of hops of its longest sequence that arrives.
    hops: Vec<u32>,
    /// The sequence that is being followed: a switch, the port taken, and the ports not yet tried.
    sequence: Vec<(usize, PortNum, PortMask)>,
    outcome: Outcome,
    /// The first loop found.
    found_loop: Option<Vec<(Guid, PortNum)>>,
}

impl<'a, 'f> SetWalker<'a, 'f> {
    pub(super) fn new(fabric: &'f Fabric<'a>) -> SetWalker<'a, 'f> {
        SetWalker {
            fabric,
            fates: vec![Fate::Unknown; fabric.switches],
            fails: vec![false; fabric.switches],
            hops: vec![0; fabric.switches],
            sequence: Vec::new(),
            outcome: Outcome::default(),
            found_loop: None,
        }
    }

    pub(super) fn topology(&self) -> &'a Topology {
        self.fabric.topology
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// A loop of choices, as switches and ports from the lowest GUID on; `None` if there is none.
    pub(super) fn found_loop(&self) -> Option<&[(Guid, PortNum)]> {
        self.found_loop.as_deref()
    }

    /// The hops of the longest sequence that arrives, from any switch.
    pub(super) fn longest(&self) -> u32 {
        let fates = self.fates.iter().zip(&self.hops);
        let hops = fates.filter(|(fate, _)| **fate == Fate::Arrives);
        hops.map(|(_, hops)| *hops).max().unwrap_or(0)
    }

    /// Follows every sequence of choices to one LID; `choices` holds for each switch the ports to
    /// choose from.
    pub(super) fn follow(
        &mut self,
        destination: &Destination,
        choices: &[PortMask],
        sources: &StartingPorts,
    ) {
        self.fates.fill(Fate::Unknown);
        self.fails.fill(false);
        self.hops.fill(0);
        self.outcome = Outcome::default();
        self.found_loop = None;
        for start in 0..self.fabric.switches {
            if self.fates[start] == Fate::Unknown {
                self.follow_from(start, destination, choices);
            }
            if self.fates[start] == Fate::Arrives {
                self.outcome.arrived += sources.by_switch[start];
            }
        }
    }

    /// Follows every sequence of choices from one switch.
    fn follow_from(&mut self, start: usize, destination: &Destination, choices: &[PortMask]) {
        self.enter(start, choices);
        while let Some((switch, _, untried)) = self.sequence.last() {
            let (switch, untried) = (*switch, *untried);
            let Some(port) = untried.ports().next() else {
                self.leave();
                continue;
            };
            if let Some((_, taken, untried)) = self.sequence.last_mut() {
                *taken = port;
                *untried = untried.without(port);
            }
            let at = SwitchIdx(switch as u32);
            match self.fabric.topology.port_use(at, port) {
                PortUse::Link { peer, .. } => match self.fates[peer.index()] {
                    Fate::Unknown => self.enter(peer.index(), choices),
                    Fate::OnSequence => {
                        self.record_loop(peer.index());
                        self.fails[switch] = true;
                    }
                    Fate::Fails => self.fails[switch] = true,
                    Fate::Arrives => {
                        self.hops[switch] = self.hops[switch].max(self.hops[peer.index()] + 1);
                    }
                },
                PortUse::Destination(_) if at == destination.switch && port == destination.port => {
                }
                PortUse::Destination(_) | PortUse::Unused => self.drop_at(switch, Some(port)),
            }
        }
    }

    /// Adds a switch to the sequence.
    fn enter(&mut self, switch: usize, choices: &[PortMask]) {
        let ports = choices[switch];
        self.fates[switch] = Fate::OnSequence;
        self.sequence.push((switch, PortNum::ZERO, ports));
        if ports.is_empty() {
            self.drop_at(switch, None);
        }
    }

    /// Leaves the last switch, all of whose ports have been tried.
    fn leave(&mut self) {
        let Some((switch, _, _)) = self.sequence.pop() else {
            return;
        };
        let fails = self.fails[switch];
        self.fates[switch] = if fails { Fate::Fails } else { Fate::Arrives };
        if let Some(&(before, _, _)) = self.sequence.last() {
            if fails {
                self.fails[before] = true;
            } else {
                self.hops[before] = self.hops[before].max(self.hops[switch] + 1);
            }
        }
    }

    /// Records that a choice at a switch discards packets.
    fn drop_at(&mut self, switch: usize, port: Option<PortNum>) {
        self.fails[switch] = true;
        if self.outcome.dropped.is_none() {
            self.outcome.dropped = Some((self.fabric.guid(switch), port));
        }
    }

    /// Records the loop from a switch on the sequence back to itself, unless one was found before.
    fn record_loop(&mut self, back_to: usize) {
        if self.found_loop.is_some() {
            return;
        }
        let place = self
            .sequence
            .iter()
            .position(|&(switch, _, _)| switch == back_to);
        let Some(place) = place else { return };
        let cycle = self.sequence[place..].iter();
        let mut hops: Vec<(Guid, PortNum)> = cycle
            .map(|&(switch, port, _)| (self.fabric.guid(switch), port))
            .collect();
        if let Some(lowest) = (0..hops.len()).min_by_key(|&place| hops[place].0) {
            hops.rotate_left(lowest);
        }
        self.found_loop = Some(hops);
    }

    /// Adds to `turns`, for each link, the ports for which it can wait under the sets.
    pub(super) fn add_turns(&self, choices: &[PortMask], turns: &mut Turns) {
        for (switch, ports) in choices.iter().enumerate() {
            for port in ports
                .ports()
                .take_while(|port| port.index() < self.fabric.stride)
            {
                let channel = self.fabric.channel(switch, port.0);
                let next = self.fabric.next(channel);
                if next != self.fabric.nowhere() {
                    turns.add_ports(channel, &choices[next]);
                }
            }
        }
    }
}
