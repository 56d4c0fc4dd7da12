//! From what differs to Sets on the wire: the only code that sends Set.
//!
//! There are no fabric-wide barriers. Tables are written to all switches side by side; a port is armed
//! together with its settings in one Set as soon as it is met, and goes Active as soon as both ends of its
//! link are armed, both hold their P_Keys, and the switches at its ends forward as planned. P_Keys are written after what tells
//! of a reset: the state of an end port, the LID of a switch. The one exception is a plan with a waypoint: some
//! mixture of old and new tables could close a loop, so that all switches hold the waypoint before the first new
//! table is written. Multicast tables take a way of their own beside all that, in two steps; see
//! [`crate::diff::MulticastChange`].
//!
//! Every acknowledged Set is written into the [`Inventory`], every lost one is marked there, so that the
//! next difference starts from the truth whatever happened.

mod answers;
mod due;
mod guids;
mod lanes;
mod multicast;
mod orders;
mod p_keys;
mod ports;
mod tables;
mod task;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};

use self::multicast::MulticastPush;
use self::ports::PortPush;
use self::tables::SwitchPush;
pub use self::task::{Cause, Failure, Order, Progress, Step, Task};
use crate::diff::{Changes, GuidBlock, NotKept};
use crate::plan::Plan;
use crate::sweep::Answer;
use crate::sweep::inventory::{Inventory, PortKey};

/// A push under way.
#[derive(Debug)]
pub struct Push {
    plan: Arc<Plan>,
    switches: BTreeMap<Guid, SwitchPush>,
    ports: BTreeMap<PortKey, PortPush>,
    multicast: MulticastPush,
    /// Blocks of GUIDInfo to be written, by port.
    guids: BTreeMap<PortKey, Vec<GuidBlock>>,
    /// Those of them that were queued.
    guids_queued: BTreeSet<Task>,
    /// Switches that have something to send, in turn.
    turn: VecDeque<Guid>,
    /// Ports that have something to send.
    ready: VecDeque<Task>,
    /// Sets on the way that are not acknowledged; while there are any, no block of the end is written.
    unmet: usize,
    /// Whether SLtoVLMappingTables may be written, or have been.
    lanes_open: bool,
    outstanding: usize,
    stopped: bool,
    /// Ports and tables alternate, so that neither waits for all of the other.
    ports_next: bool,
    failures: Vec<Failure>,
    progress: Progress,
    learned: bool,
    /// See [`Push::unread`].
    unread: BTreeSet<PortKey>,
    /// See [`Push::reregistered`].
    reregistered: BTreeSet<Guid>,
    /// Whether a port has to be read to know whether it holds what was set.
    doubted: bool,
}

impl Push {
    /// Starts to make `changes`, which lead to `plan`.
    pub fn start(plan: Arc<Plan>, changes: Changes, inventory: &Inventory) -> Push {
        let progress = Progress {
            switches: changes
                .switches
                .values()
                .filter(|change| !change.blocks.is_empty() || !change.first.is_empty())
                .count(),
            ..Progress::default()
        };
        let mut push = Push {
            plan,
            switches: changes
                .switches
                .into_iter()
                .map(|(guid, change)| {
                    let switch = inventory.node(guid).and_then(|node| node.switch.as_ref());
                    let held = switch.map(|switch| &switch.info);
                    let zero = PortKey::new(guid, PortNum::ZERO);
                    let sets_lid = changes.ports.get(&zero).is_some_and(|change| change.info);
                    (guid, SwitchPush::new(change, held, sets_lid))
                })
                .collect(),
            ports: BTreeMap::new(),
            multicast: MulticastPush::new(changes.multicast),
            guids: changes.guids,
            guids_queued: BTreeSet::new(),
            turn: VecDeque::new(),
            ready: VecDeque::new(),
            unmet: 0,
            lanes_open: false,
            outstanding: 0,
            stopped: false,
            ports_next: false,
            failures: Vec::new(),
            progress,
            learned: false,
            unread: BTreeSet::new(),
            reregistered: BTreeSet::new(),
            doubted: false,
        };
        // What multicast lets go of first is part of the way: the last unicast tables must not meet it. That holds also where
        // the hardware is at the waypoint already.
        let lets_go = push.plan.waypoint.is_some() && push.multicast.unmet() > 0;
        let has_lanes = push.switches.values().any(|switch| switch.lanes() > 0);
        if lets_go || has_lanes || push.switches.values().any(SwitchPush::has_waypoint) {
            push.unmet = push.switches.values().map(SwitchPush::on_the_way).sum();
            push.unmet += push.multicast.unmet();
        }
        if push.unmet == 0 {
            push.open_lanes();
        }
        push.give_turns();
        for (key, change) in changes.ports {
            push.ports.insert(key, PortPush::new(change));
        }
        let keys: Vec<PortKey> = push.ports.keys().copied().collect();
        for key in keys {
            push.consider(inventory, key);
        }
        let named: Vec<PortKey> = push.guids.keys().copied().collect();
        for key in named {
            push.release_guids(key);
        }
        push
    }

    /// Sends nothing more; [`Push::is_done`] once what is on its way is answered.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.turn.clear();
        self.ready.clear();
        self.multicast.stop();
    }

    /// Whether it was stopped before its end.
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing is left to send and nothing is on its way.
    pub fn is_done(&self) -> bool {
        self.outstanding == 0
            && self.turn.is_empty()
            && self.ready.is_empty()
            && self.multicast.is_idle()
    }

    /// `count` Sets that were handed out will not be answered: they were never sent.
    pub fn taken_back(&mut self, count: usize) {
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    /// Whether a device turned out not to keep a field.
    pub fn learned(&self) -> bool {
        self.learned
    }

    /// Ports that may have changed unnoticed, and that did not answer since.
    ///
    /// To clear PortStateChange also clears what it reported since the ports were last read. A switch that knows its
    /// manager sends a trap for that; one that had no LID or another manager could not. And to set LinearFDBTop hides that a
    /// switch was reset. A port whose answers were lost may or may not have done what it was told.
    pub fn unread(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.unread.iter().copied()
    }

    /// Whether everything was done, and is known to be.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty() && !self.stopped && !self.doubted
    }

    /// GUIDs of the ports whose hosts were told to register anew because that was due.
    pub fn reregistered(&self) -> &BTreeSet<Guid> {
        &self.reregistered
    }

    /// What was refused or lost.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// How far it got.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The plan that it leads to.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The next Set, if one can go now.
    pub fn poll_order(&mut self, inventory: &Inventory) -> Option<Order> {
        for _ in 0..2 {
            self.ports_next = !self.ports_next;
            let order = if self.ports_next {
                self.next_port(inventory)
            } else {
                self.next_table(inventory)
                    .or_else(|| self.next_multicast(inventory))
            };
            if order.is_some() {
                self.outstanding += 1;
                return order;
            }
        }
        None
    }

    /// Takes the answer to the Set of `task`.
    pub fn handle(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        task: Task,
        answer: Answer<'_>,
    ) {
        self.outstanding = self.outstanding.saturating_sub(1);
        match (answer, task) {
            (Answer::Data(data), _) => {
                self.progress.done += 1;
                self.acknowledged(inventory, not_kept, task, data);
            }
            (Answer::RefusedRepetition(_), Task::Port(key, _)) => self.doubt(key),
            (Answer::Refused(status) | Answer::RefusedRepetition(status), _) => {
                self.failed(inventory, task, Cause::Refused(status));
            }
            (Answer::Silence, _) => self.failed(inventory, task, Cause::Silence),
        }
    }
}
