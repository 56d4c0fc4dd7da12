//! The push: turns the differences that a comparison found into Sets. No other code sends Sets.
//!
//! All switches get their tables in parallel. A port gets its settings and Armed in one Set, as
//! soon as it is discovered. [`Task::needs`] lists the conditions that each Set waits for.
//! Conditions that concern all switches at once follow from the phases of the push ([`Phase`]) and
//! from the two steps of multicast tables ([`crate::diff::MulticastChange`]).
//!
//! The push records every acknowledged Set in the [`Inventory`], and marks every lost Set there, so
//! that the next comparison starts from the true state.
//!
//! A second Set makes a port Active, once both ends of its link are armed and the switches there
//! forward as planned. After a push that clears PortStateChange, the core reads the ports again
//! ([`PushReport::unread`]): the bit also covered changes since the first reading, and some
//! switches send trap 128 only when the bit goes from 0 to 1.

mod adaptive;
mod answers;
mod due;
mod links;
mod managed;
mod multicast;
mod needs;
mod orders;
mod p_keys;
mod phases;
mod ports;
mod refusals;
mod rehearse;
mod report;
mod sl2vl;
mod tables;
mod task;
mod unverified;
mod vports;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::habits::DeviceHabit;
use rsm_model::port_info::FieldIndex;
use rsm_plan::Plan;

use self::adaptive::AdaptivePush;
pub use self::adaptive::AdaptiveStep;
use self::managed::ManagedPush;
use self::multicast::MulticastPush;
pub use self::needs::{AWAITED_LINK, Need, OTHER_LINK};
pub use self::phases::Phase;
use self::phases::Phases;
use self::ports::PortPush;
use self::refusals::refuses;
pub use self::rehearse::{Foreseen, rehearse};
pub use self::report::PushReport;
use self::tables::SwitchPush;
pub use self::task::{Cause, FailedSet, Order, PortStep, PushProgress, Task};
use self::vports::VPortPush;
use crate::diff::{Changes, NotKept};
use crate::link_step::LinkStep;
use crate::sweep::AgentAnswer;
use crate::sweep::inventory::Inventory;
use crate::sweep::reach::KnownRoutes;

/// A push under way.
#[derive(Debug)]
pub struct Push {
    plan: Arc<Plan>,
    /// Whether the subnet manager's own port gets another LID; answers to the old and the new LID
    /// may be lost meanwhile.
    moves_own_lid: bool,
    /// Sets of the tables of each switch.
    switches: BTreeMap<Guid, SwitchPush>,
    /// Sets of PortInfo and P_KeyTable of each port.
    ports: BTreeMap<PortKey, PortPush>,
    /// The planned M_Keys of switches that hold other keys. They are collected once, because every
    /// Set of a block looks for its switch's key, and `ports` may be a hundred times as large.
    switch_keys: BTreeMap<Guid, u64>,
    multicast: MulticastPush,
    adaptive: AdaptivePush,
    managed: ManagedPush,
    /// Sets of virtual ports, by physical port.
    vports: BTreeMap<PortKey, VPortPush>,
    /// Switches with Sets to send, in the order of their turns.
    turn: VecDeque<Guid>,
    /// Sets of ports, links and virtual ports whose conditions are met.
    ready: VecDeque<Task>,
    phases: Phases,
    /// Links that tables wait for: one end → other end.
    awaited: BTreeMap<PortKey, PortKey>,
    /// Number of Sets sent and not yet answered, lost or taken back.
    outstanding: usize,
    stopped: bool,
    /// Whether a Set of a port was considered last. Sets of ports and of tables alternate, so that
    /// neither kind waits for all of the other.
    ports_next: bool,
    report: PushReport,
    /// Nodes that get no more Sets: they left a Set unanswered, or the plan counts them as mute and
    /// does not try them.
    silent: BTreeSet<Guid>,
    known_routes: KnownRoutes,
}

/// Whether the subnet manager's own port gets another LID.
fn moves_own_lid(changes: &Changes, inventory: &Inventory) -> bool {
    let own = inventory.hardware.local.and_then(|local| {
        let held = inventory.hardware.port(local)?.info.as_ref()?.lid();
        let change = changes.ports.get(&local)?;
        Some((held, change.settings.value(FieldIndex::BaseLid)?))
    });
    own.is_some_and(|(held, planned)| u64::from(held.0) != planned)
}

impl Push {
    /// Starts a push of `changes`, the differences between the hardware and `plan`.
    pub fn start(plan: Arc<Plan>, changes: Changes, inventory: &Inventory) -> Push {
        let progress = PushProgress {
            expected: changes.sets(),
            switches: changes
                .switches
                .values()
                .filter(|change| change.has_blocks())
                .count(),
            ..PushProgress::default()
        };
        let mute = plan.transition.mute.clone();
        let mut changes = changes;
        let adaptive = changes.switches.iter_mut();
        let adaptive = adaptive.map(|(&guid, change)| (guid, std::mem::take(&mut change.adaptive)));
        let adaptive = AdaptivePush::new(adaptive);
        let switches = std::mem::take(&mut changes.switches);
        let mut push = Push {
            plan: plan.clone(),
            moves_own_lid: moves_own_lid(&changes, inventory),
            switches: switches
                .into_iter()
                .map(|(guid, change)| {
                    let switch = inventory
                        .hardware
                        .node(guid)
                        .and_then(|node| node.switch.as_ref());
                    let held = switch.map(|switch| &switch.info);
                    let zero = PortKey::new(guid, PortNum::ZERO);
                    let sets_lid = changes.ports.get(&zero).is_some_and(|change| change.info);
                    let top_first = refuses(inventory, zero, DeviceHabit::RefusesBlocksAboveTop);
                    (guid, SwitchPush::new(change, held, sets_lid, top_first))
                })
                .collect(),
            // A map collected from a sorted iterator takes half the memory of a growing map.
            ports: changes
                .ports
                .into_iter()
                .map(|(key, change)| {
                    let settings_first =
                        refuses(inventory, key, DeviceHabit::RefusesStateWithSettings);
                    (key, PortPush::new(change, settings_first))
                })
                .collect(),
            multicast: MulticastPush::new(changes.multicast, &mute),
            adaptive,
            managed: ManagedPush::new(changes.managed),
            switch_keys: BTreeMap::new(),
            vports: changes
                .vports
                .into_iter()
                .map(|(key, changes)| (key, VPortPush::new(changes)))
                .collect(),
            turn: VecDeque::new(),
            ready: VecDeque::new(),
            phases: Phases::last(),
            awaited: BTreeMap::new(),
            outstanding: 0,
            stopped: false,
            ports_next: false,
            report: PushReport::new(progress),
            silent: mute.difference(&plan.transition.retried).copied().collect(),
            known_routes: KnownRoutes::default(),
        };
        push.begin(inventory);
        let bounce = changes.bounce.map(|(near, _)| (near, LinkStep::Bounce));
        let links = bounce.into_iter().chain(changes.links);
        push.ready
            .extend(links.map(|(port, step)| Task::Link(port, step)));
        push
    }

    /// Starts the phases, and queues the Sets whose conditions are met.
    fn begin(&mut self, inventory: &Inventory) {
        self.switch_keys = self.changing_keys(inventory);
        self.awaited = links::awaited(&self.plan, inventory);
        self.start_phases();
        self.advance(inventory);
        let keys: Vec<PortKey> = self.ports.keys().copied().collect();
        for key in keys {
            self.consider(inventory, key);
        }
        self.release_all_managed(inventory);
        self.release_all_vports(inventory);
    }

    /// The planned M_Keys of the switches that hold other keys.
    fn changing_keys(&self, inventory: &Inventory) -> BTreeMap<Guid, u64> {
        let zeros = self.ports.iter();
        let zeros = zeros.filter(|(key, _)| key.port == PortNum::ZERO);
        let changing = zeros.filter_map(|(&key, port)| {
            let info = inventory.hardware.port(key)?.info.as_ref()?;
            let planned = port.m_key()?;
            (planned != info.m_key()).then_some((key.node, planned))
        });
        changing.collect()
    }

    /// Stops sending Sets. [`Push::is_done`] is true once the Sets under way are answered.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.turn.clear();
        self.ready.clear();
        self.multicast.stop();
        self.adaptive.stop();
    }

    /// Whether the push was stopped before it was done.
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether no Set is left to send, and none is under way.
    pub fn is_done(&self) -> bool {
        self.outstanding == 0
            && (self.stopped || self.phases.is_last())
            && self.turn.is_empty()
            && self.ready.is_empty()
            && self.multicast.is_idle()
            && self.adaptive.is_idle()
    }

    /// Whether there are nodes that get no more Sets because they do not answer.
    pub fn left_out_nodes(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Takes back `count` Sets that [`Push::poll_order`] returned and the caller never sent.
    pub fn taken_back(&mut self, count: usize) {
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    /// Whether all Sets were acknowledged, and the answers show that ports hold their values.
    pub fn is_complete(&self) -> bool {
        self.report.is_complete() && !self.stopped
    }

    /// Achievements and failures of the push so far.
    pub fn report(&self) -> &PushReport {
        &self.report
    }

    /// The plan that the push puts in force.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Stops sending Sets to `node`, which does not answer.
    pub fn give_up_on(&mut self, node: Guid) {
        self.silent.insert(node);
    }

    /// The next Set; `None` if none may be sent now.
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

    /// The next Set, even to a silent node; `None` if none may be sent now.
    fn next_order(&mut self, inventory: &Inventory) -> Option<Order> {
        for _ in 0..2 {
            self.ports_next = !self.ports_next;
            let order = if self.ports_next {
                self.next_port(inventory)
            } else if self.phases.current() == Phase::Adaptive {
                self.next_adaptive(inventory)
            } else {
                self.next_table(inventory)
                    .or_else(|| self.next_multicast(inventory))
                    .or_else(|| self.next_adaptive(inventory))
            };
            if order.is_some() {
                return order;
            }
        }
        self.end_if_stuck();
        None
    }

    /// Handles the answer to the Set of `task`.
    pub fn handle(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        task: Task,
        answer: AgentAnswer<'_>,
    ) {
        self.outstanding = self.outstanding.saturating_sub(1);
        match (answer, task) {
            (AgentAnswer::Data(data), _) => {
                self.report.progress.done += 1;
                self.acknowledged(inventory, not_kept, task, data);
            }
            (AgentAnswer::Refused(_), Task::Port(key, PortStep::Arm))
                if self.separates_settings(inventory, key) => {}
            (
                AgentAnswer::Refused(status) | AgentAnswer::RefusedRepetition(status),
                Task::Port(key, step @ (PortStep::Arm | PortStep::Activate)),
            ) => self.state_refused(inventory, key, step, status),
            (AgentAnswer::RefusedRepetition(_), Task::Port(key, PortStep::Configure)) => {
                self.await_reading(inventory, key)
            }
            (
                AgentAnswer::Refused(_) | AgentAnswer::RefusedRepetition(_),
                Task::Block { switch, .. },
            ) if self.raises_top_first(inventory, switch, task) => {}
            (
                AgentAnswer::Refused(_) | AgentAnswer::RefusedRepetition(_),
                Task::AdaptiveRouting(guid),
            ) => self.ar_info_answered(inventory, guid, None),
            (AgentAnswer::RefusedRepetition(status), _) => {
                // The device may have executed an earlier attempt whose answer was lost.
                self.mark_uncertain(inventory, task);
                self.failed(inventory, task, Cause::Refused(status));
            }
            (AgentAnswer::Refused(status), _) => {
                self.failed(inventory, task, Cause::Refused(status));
            }
            (AgentAnswer::Silence, _) => {
                if task.is_of_vports() {
                    // Virtual ports of this port get no more Sets.
                    self.vports.remove(&task.port());
                } else {
                    self.give_up_on(task.node());
                }
                self.failed(inventory, task, Cause::Silence);
            }
        }
    }
}
