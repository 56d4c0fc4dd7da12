//! From what differs to Sets on the wire: the only code that sends Set.
//!
//! Tables are written to all switches side by side; a port is armed together with its settings in
//! one Set as soon as it is met. A link goes Active as soon as both of its ends are armed and hold
//! their P_Keys, and
//!
//! * where tables wait for it ([`Transition::awaited`](crate::plan::Transition)): as soon as the
//!   switches at its ends are in use, or hold all of their tables;
//! * else, so of hosts: as soon as the switches at its ends forward as planned.
//!
//! P_Keys are written after what tells of a reset: the state of an end port, the LID of a switch.
//! Fabric-wide barriers are those of [`phases`]: interim tables, and the links that later ones lead
//! to. Multicast tables take a way of their own beside all that, in two steps; see
//! [`crate::diff::MulticastChange`].
//!
//! Every acknowledged Set is written into the [`Inventory`], every lost one is marked there, so
//! that the next difference starts from the truth whatever happened.

mod answers;
mod doubts;
mod due;
mod links;
mod managed;
mod multicast;
mod orders;
mod p_keys;
mod phases;
mod ports;
mod refusals;
mod rehearse;
mod sl2vl;
mod tables;
mod task;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};

use self::multicast::MulticastPush;
use self::phases::Phases;
use self::ports::PortPush;
use self::refusals::refuses;
pub use self::rehearse::{Foreseen, rehearse};
use self::tables::SwitchPush;
pub use self::task::{Cause, Failure, Order, Progress, Step, Task};
use crate::diff::{BlockChange, Changes, NotKept};
use crate::habits::Habit;
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
    /// Blocks of managed attributes to be written, by port.
    managed: BTreeMap<PortKey, Vec<BlockChange>>,
    /// Those of them that were queued.
    managed_queued: BTreeSet<Task>,
    /// Switches that have something to send, in turn.
    turn: VecDeque<Guid>,
    /// Ports that have something to send.
    ready: VecDeque<Task>,
    phases: Phases,
    /// Links that tables wait for: one end, and the other.
    awaited: BTreeMap<PortKey, PortKey>,
    /// See [`Push::unopened`].
    unopened: BTreeSet<PortKey>,
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
    /// Nodes that left a Set unanswered, and mute ones that are not tried: nothing is sent to them.
    silent: BTreeSet<Guid>,
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
                .filter(|change| change.has_blocks())
                .count(),
            ..Progress::default()
        };
        let mute = plan.transition.mute.clone();
        let mut push = Push {
            plan: plan.clone(),
            switches: changes
                .switches
                .into_iter()
                .map(|(guid, change)| {
                    let switch = inventory.node(guid).and_then(|node| node.switch.as_ref());
                    let held = switch.map(|switch| &switch.info);
                    let zero = PortKey::new(guid, PortNum::ZERO);
                    let sets_lid = changes.ports.get(&zero).is_some_and(|change| change.info);
                    let top_first = refuses(inventory, zero, Habit::RefusesBlocksAboveTop);
                    let switch = SwitchPush::new(change, held, sets_lid, top_first);
                    let is_mute = mute.contains(&guid);
                    (
                        guid,
                        if is_mute {
                            switch.coming_last()
                        } else {
                            switch
                        },
                    )
                })
                .collect(),
            // Made whole, the map takes half the room of one that grows.
            ports: changes
                .ports
                .into_iter()
                .map(|(key, change)| {
                    let apart = refuses(inventory, key, Habit::RefusesStateWithSettings);
                    (key, PortPush::new(change, apart))
                })
                .collect(),
            multicast: MulticastPush::new(changes.multicast, &mute),
            managed: changes.managed,
            managed_queued: BTreeSet::new(),
            turn: VecDeque::new(),
            ready: VecDeque::new(),
            phases: Phases::last(),
            awaited: BTreeMap::new(),
            unopened: BTreeSet::new(),
            outstanding: 0,
            stopped: false,
            ports_next: false,
            failures: Vec::new(),
            progress,
            learned: false,
            unread: BTreeSet::new(),
            reregistered: BTreeSet::new(),
            silent: mute.difference(&plan.transition.tried).copied().collect(),
            doubted: false,
        };
        push.awaited = links::awaited(&push.plan, inventory);
        push.start_phases();
        push.advance(inventory);
        let keys: Vec<PortKey> = push.ports.keys().copied().collect();
        for key in keys {
            push.consider(inventory, key);
        }
        let managed: Vec<PortKey> = push.managed.keys().copied().collect();
        for key in managed {
            push.release_managed(key);
        }
        let bounce = changes.bounce.map(|(near, _)| Task::Bounce(near));
        push.ready.extend(bounce);
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
            && (self.stopped || self.phases.is_last())
            && self.turn.is_empty()
            && self.ready.is_empty()
            && self.multicast.is_idle()
    }

    /// Whether something was not written because a node did not answer.
    pub fn left_out_nodes(&self) -> bool {
        !self.silent.is_empty()
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
    /// To clear PortStateChange also clears what it reported since the ports were last read. A
    /// switch that had no LID or another manager could send no trap for that, and some send none
    /// while the bit is set. And to set LinearFDBTop hides that a switch was reset. A port whose
    /// answers were lost may or may not have done what it was told.
    pub fn unread(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.unread.iter().copied()
    }

    /// Whether everything was done, and is known to be.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty() && !self.stopped && !self.doubted
    }

    /// One end of each link that tables wait for, and that cannot become Active in this push; it
    /// ended before these tables.
    pub fn unopened(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.unopened.iter().copied()
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

    /// Sends nothing more to `node`, which does not answer.
    pub fn give_up_on(&mut self, node: Guid) {
        self.silent.insert(node);
    }

    /// The next Set, if one can go now.
    pub fn poll_order(&mut self, inventory: &mut Inventory) -> Option<Order> {
        loop {
            let order = self.next_order(inventory)?;
            if !self.silent.contains(&order.target) {
                self.outstanding += 1;
                return Some(order);
            }
            self.failed(inventory, order.task, Cause::NotSent);
        }
    }

    fn next_order(&mut self, inventory: &Inventory) -> Option<Order> {
        for _ in 0..2 {
            self.ports_next = !self.ports_next;
            let order = if self.ports_next {
                self.next_port(inventory)
            } else {
                self.next_table(inventory)
                    .or_else(|| self.next_multicast(inventory))
            };
            if order.is_some() {
                return order;
            }
        }
        self.end_if_stuck();
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
            (Answer::Refused(_), Task::Port(key, Step::Arm)) if self.goes_apart(inventory, key) => {
            }
            (
                Answer::Refused(status) | Answer::RefusedRepetition(status),
                Task::Port(key, step @ (Step::Arm | Step::Activate)),
            ) => self.state_refused(inventory, key, step, status),
            (Answer::RefusedRepetition(_), Task::Port(key, Step::Configure)) => self.doubt(key),
            (Answer::Refused(_) | Answer::RefusedRepetition(_), Task::Block { switch, .. })
                if self.raises_top_first(inventory, switch, task) => {}
            (Answer::Refused(_) | Answer::RefusedRepetition(_), Task::AdaptiveRouting(guid)) => {
                self.ar_info_answered(inventory, guid, None)
            }
            (Answer::Refused(status) | Answer::RefusedRepetition(status), _) => {
                self.failed(inventory, task, Cause::Refused(status));
            }
            (Answer::Silence, _) => {
                self.give_up_on(task.node());
                self.failed(inventory, task, Cause::Silence);
            }
        }
    }
}
