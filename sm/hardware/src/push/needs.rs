//! The order of Sets, as a table of the conditions that each Set waits for.
//!
//! [`Task::needs`] is the table. [`Push::may`] checks exactly the conditions in a Set's row before
//! the Set is sent. The [phases](super::phases) of a push are one of the conditions.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{PortInfo, PortState};
use rsm_model::managed::ManagedAttribute;

use super::phases::Phase;
use super::ports::PortPush;
use super::tables::SwitchPush;
use super::{AdaptiveStep, PortStep, Push, Task};
use crate::sweep::inventory::Inventory;

/// A condition that a Set waits for. A Set that changes the state of a link requires its conditions
/// at both ends of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// The phase of the Set has begun. Sets without a phase of their own belong to the last phase.
    Phase,
    /// The switch answers requests, or the last phase has begun: tables of mute switches are
    /// written only then.
    Answers,
    /// ARInfo of the switch was sent, or need not be.
    AdaptiveRouting,
    /// Every group of adaptive routing that must go out of force is out of force.
    GroupsLeft,
    /// The switch holds everything that precedes the Set in [`AdaptiveStep`](super::AdaptiveStep).
    AdaptiveStep,
    /// A Set is acknowledged whose content would show a later reset of the switch: SwitchInfo with
    /// LinearFDBTop, or, if SwitchInfo is sent last because it raises LinearFDBTop, PortInfo of
    /// port 0 with the LID. A LinearFDBTop that is lowered last shows a reset before.
    ResetShows,
    /// The switch holds all of its tables, if SwitchInfo is sent last: no entry above the old top
    /// may take effect before the whole table is written, and none above a lower top may be left.
    TablesBelowTop,
    /// The switch has answered the PortInfo of port 0 that changes its M_Key. The Set is sent with
    /// the key that the switch holds after that.
    KeyChange,
    /// SwitchInfo of the switch is as planned.
    SwitchInfo,
    /// SwitchInfo and all tables of the switch are as planned.
    Programmed,
    /// Every switch has removed the ports that it must lose from its multicast table.
    MulticastLosses,
    /// The blocks of the switch's multicast table are as planned.
    MulticastBlocks,
    /// PortInfo of port 0 of the switch is settled; its LID shows a later reset of the switch.
    PortZero,
    /// The end port has answered the PortInfo that arms or changes it. The LID and state in this
    /// answer show a reset before it. If the keys were sent first, a reset after them would clear
    /// them without a sign.
    PortInfoAnswered,
    /// The Set of PortInfo that arms the port or changes its settings is settled: it sets the
    /// number of VLs, on which the QoS blocks depend.
    PortSettings,
    /// No packet passes the switch port by old routes, which may need the rows that an engine wrote
    /// in its SLtoVLMappingTables: the port is not Active yet, or the last phase has begun.
    OldRoutesGone,
    /// The QoS blocks of the port are settled, because packets on an Active link use them. The link
    /// of a device that refuses them becomes Active without them.
    Qos,
    /// PortInfo of the port is settled: its answer shows a reset, which would clear the block.
    PortInfoSettled,
    /// The P_KeyTable of the port is as planned.
    PKeys,
    /// The P_KeyTable of the port is as planned, if the port enforces partitions and carries data.
    PKeysIfEnforcing,
    /// The P_Keys of the port at the other end are settled, if that port enforces partitions.
    PKeysOfEnforcingPeer,
    /// The port is Active: its virtual ports can become Active only then.
    PortActive,
    /// The P_KeyTable of the virtual port is as planned.
    VPortPKeys,
    /// The rate limits of the virtual port are settled.
    VPortLimits,
    /// The switch at the other end of the port's cable holds all of its tables.
    NeighbourProgrammed,
    /// The port is Armed or Active: packets from an Active end to one in Init are lost (IBA 7.2.7).
    Armed,
    /// [`AWAITED_LINK`] if tables wait for the link, else [`OTHER_LINK`].
    Link,
    /// [`AWAITED_LINK`] if tables wait for the link, else nothing. Some devices go from Armed to
    /// Active by themselves, so arming such a link needs the same conditions as activating it.
    LinkIfAwaited,
    /// All switches have removed the entries that could close a loop over the link.
    Removals,
    /// All switches hold their SLtoVLMappingTables.
    SlToVlEverywhere,
    /// The switch is programmed, if it is dark: no packet passes it yet. If links of dark switches
    /// come last, all switches also hold the interim tables that other links wait for.
    DarkProgrammed,
}

/// The conditions of a link that tables wait for ([`Transition`](rsm_plan::Transition)).
pub const AWAITED_LINK: &[Need] = &[
    Need::PortZero,
    Need::Removals,
    Need::SlToVlEverywhere,
    Need::DarkProgrammed,
];

/// The conditions of any other link, such as a link to a host.
pub const OTHER_LINK: &[Need] = &[Need::Programmed];

impl Task {
    /// The conditions that the Set waits for.
    pub fn needs(&self) -> &'static [Need] {
        match self {
            Task::AdaptiveRouting(_) => &[Need::Answers],
            Task::Adaptive(_, AdaptiveStep::Prepare) => &[Need::AdaptiveStep],
            // Groups are proved only together with the planned tables.
            Task::Adaptive(..) => &[Need::Phase, Need::GroupsLeft, Need::AdaptiveStep],
            Task::Switch(_) => &[
                Need::Answers,
                Need::AdaptiveRouting,
                Need::TablesBelowTop,
                Need::KeyChange,
            ],
            Task::Block { .. } | Task::SlToVl { .. } => &[
                Need::Phase,
                Need::Answers,
                Need::AdaptiveRouting,
                Need::ResetShows,
                Need::KeyChange,
            ],
            Task::Link(..) => &[],
            Task::Multicast { first: true, .. } => &[Need::KeyChange],
            // Old unicast tables could close a credit loop with the new multicast trees.
            Task::Multicast { .. } => &[Need::Phase, Need::MulticastLosses, Need::KeyChange],
            Task::MulticastTop(_) => &[
                Need::KeyChange,
                Need::Phase,
                Need::MulticastLosses,
                Need::MulticastBlocks,
                Need::SwitchInfo,
            ],
            Task::Port(_, PortStep::Configure) => &[Need::PKeysIfEnforcing],
            Task::Port(_, PortStep::Arm) => &[Need::LinkIfAwaited],
            Task::Port(_, PortStep::Activate) => &[Need::Armed, Need::Link, Need::PKeys, Need::Qos],
            Task::PKeys(..) => &[
                Need::PortInfoAnswered,
                Need::PKeysOfEnforcingPeer,
                Need::PortZero,
            ],
            Task::Managed(block) if block.place.attribute == ManagedAttribute::SlToVl => {
                &[Need::PortSettings, Need::OldRoutesGone]
            }
            Task::Managed(block) if block.is_qos() => &[Need::PortSettings],
            Task::Managed(_) | Task::Virtualization(_) | Task::VPortPKeys(..) => {
                &[Need::PortInfoSettled]
            }
            Task::VPort(..) => &[
                Need::Phase,
                Need::PortActive,
                Need::VPortPKeys,
                Need::VPortLimits,
                Need::NeighbourProgrammed,
            ],
        }
    }
}

/// A Set, the port at which its conditions are checked, and the push of that port's switch, if any.
type At<'a> = (Task, PortKey, Option<&'a SwitchPush>);

impl Push {
    /// Whether the Set of `task` may be sent now.
    pub(super) fn may(&self, inventory: &Inventory, task: Task) -> bool {
        let peer = match task {
            Task::Port(key, PortStep::Arm | PortStep::Activate) => {
                self.ports.get(&key).and_then(PortPush::peer)
            }
            _ => None,
        };
        let mut ends = [Some(task.port()), peer].into_iter().flatten();
        ends.all(|at| {
            let switch = self.switches.get(&at.node);
            self.are_met(inventory, task.needs(), (task, at, switch))
        })
    }

    /// Whether all `needs` are met at one port.
    pub(super) fn are_met(&self, inventory: &Inventory, needs: &[Need], place: At<'_>) -> bool {
        let mut needs = needs.iter();
        needs.all(|&need| self.is_met(inventory, need, place))
    }

    /// Whether one condition is met at one port.
    fn is_met(&self, inventory: &Inventory, need: Need, place: At<'_>) -> bool {
        let (task, at, switch) = place;
        let (transition, phases) = (&self.plan.transition, &self.phases);
        let zero = PortKey::new(at.node, PortNum::ZERO);
        let port = || self.ports.get(&at);
        let info = || inventory.hardware.port(at)?.info.as_ref();
        let shown = || port().zip(info());
        let awaits_info = |key: PortKey| self.ports.get(&key).is_some_and(PortPush::awaits_info);
        let is_awaited = || transition.awaited.contains(&at);
        match need {
            Need::Phase => self.is_in_phase(task),
            Need::Answers => phases.is_last() || !transition.mute.contains(&at.node),
            Need::AdaptiveRouting => switch.is_none_or(SwitchPush::is_ar_info_sent),
            Need::GroupsLeft => self.adaptive.has_left(),
            Need::AdaptiveStep => match task {
                Task::Adaptive(guid, step) => self.adaptive.has_reached(guid, step),
                _ => true,
            },
            Need::ResetShows => switch.is_none_or(SwitchPush::shows_reset),
            Need::TablesBelowTop => switch.is_none_or(SwitchPush::holds_tables_below_top),
            Need::KeyChange => !awaits_info(zero) || self.accepts_key(inventory, at.node),
            Need::SwitchInfo => switch.is_none_or(SwitchPush::is_info_held),
            Need::Programmed => switch.is_none_or(SwitchPush::is_programmed),
            Need::MulticastLosses => self.multicast.unmet() == 0,
            Need::MulticastBlocks => self.multicast.holds_blocks(at.node),
            Need::PortZero => at == zero || !awaits_info(zero),
            Need::PortInfoAnswered => {
                shown().is_none_or(|(port, info)| !port.info_goes_first(info))
            }
            Need::PortSettings => shown().is_none_or(|(port, info)| !port.awaits_settings(info)),
            Need::OldRoutesGone => {
                let is_of_engine = at != zero && inventory.hardware.is_switch(at.node);
                let is_active = info().is_some_and(|info| info.port_state() == PortState::Active);
                phases.is_last() || !is_of_engine || !is_active
            }
            Need::Qos => self.managed.qos_is_settled(at),
            Need::PortInfoSettled => !awaits_info(at),
            Need::PKeys => port().is_none_or(|port| port.p_keys.is_held()),
            Need::PKeysIfEnforcing => shown().is_none_or(|(port, info)| port.may_enforce(info)),
            Need::PKeysOfEnforcingPeer => {
                let peer = port().and_then(PortPush::peer);
                let peer = peer.and_then(|peer| self.ports.get(&peer));
                peer.is_none_or(|peer| !peer.is_enforcing() || peer.p_keys.is_settled())
            }
            Need::PortActive => info().is_some_and(|info| info.port_state() == PortState::Active),
            Need::VPortPKeys => match task {
                Task::VPort(_, index) => {
                    let push = self.vports.get(&at);
                    push.is_none_or(|push| push.holds_keys(index))
                }
                _ => true,
            },
            Need::VPortLimits => match task {
                Task::VPort(_, index) => self.managed.limits_are_settled(at, index),
                _ => true,
            },
            Need::NeighbourProgrammed => {
                let neighbour = inventory.hardware.port(at).and_then(|port| port.peer);
                let switch = neighbour.and_then(|peer| self.switches.get(&peer.node));
                switch.is_none_or(SwitchPush::is_programmed)
            }
            Need::Armed => {
                let state = info().map(|info| info.port_state());
                matches!(state, Some(PortState::Armed | PortState::Active))
            }
            Need::Link if is_awaited() => self.are_met(inventory, AWAITED_LINK, place),
            Need::Link => self.are_met(inventory, OTHER_LINK, place),
            Need::LinkIfAwaited => !is_awaited() || self.is_met(inventory, Need::Link, place),
            Need::Removals => phases.have_passed(transition.cuts),
            Need::SlToVlEverywhere => phases.is_sl2vl_held(),
            Need::DarkProgrammed => {
                let has_phase = !transition.dark_last || phases.have_passed(transition.cuts + 1);
                let is_held = has_phase && switch.is_none_or(SwitchPush::is_programmed);
                is_held || !transition.dark.contains(&at.node)
            }
        }
    }

    /// Whether the phase of a task has begun.
    fn is_in_phase(&self, task: Task) -> bool {
        match task {
            Task::Block {
                interim: Some(stage),
                ..
            } => self.phases.current() == Phase::Interim(stage),
            Task::SlToVl { .. } => self.phases.current() == Phase::SlToVl,
            _ => self.phases.is_last(),
        }
    }

    /// Whether a change of the switch's M_Key does not matter to other Sets: the switch accepts the
    /// key that it holds before and after the change.
    fn accepts_key(&self, inventory: &Inventory, switch: Guid) -> bool {
        let Some(&planned) = self.switch_keys.get(&switch) else {
            return true;
        };
        let zero = inventory.hardware.port(PortKey::new(switch, PortNum::ZERO));
        let held = zero.and_then(|port| port.info.as_ref());
        let held = held.map_or(0, PortInfo::m_key);
        // A switch without a key accepts any key, before the change and after it.
        held == 0 || planned == held
    }
}
