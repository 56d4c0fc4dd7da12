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

mod guids;
mod multicast;
mod p_keys;
mod ports;
mod tables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo,
    PortState, SwitchInfo,
};
use rsm_mad::wire::header::{AttrId, Status};

use self::multicast::MulticastPush;
use self::ports::PortPush;
use self::tables::SwitchPush;
use crate::diff::{Changes, GuidBlock, NotKept, PortRole};
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, NodeRecord, PortKey};
use crate::sweep::mft_image::MftBlock;
use crate::sweep::{Answer, p_keys as image, reach};

/// One Set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// SwitchInfo of a switch.
    Switch(Guid),
    /// A block of a forwarding table.
    Block {
        /// The switch.
        switch: Guid,
        /// Which block.
        block: u16,
        /// Write what is held on the way, rather than what is held in the end.
        first: bool,
    },
    /// A block of a multicast forwarding table.
    Multicast {
        /// The switch.
        switch: Guid,
        /// Which block.
        at: MftBlock,
        /// Write what is kept of what it holds, rather than what is held in the end.
        first: bool,
    },
    /// SwitchInfo of a switch, with another MulticastFDBTop.
    MulticastTop(Guid),
    /// PortInfo of a port.
    Port(PortKey, Step),
    /// A block of a port's P_KeyTable.
    PKeys(PortKey, u16),
    /// A block of a port's GUIDInfo.
    Guids(PortKey, u8),
}

/// How far a Set of PortInfo takes a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Its settings; the state stays.
    Configure,
    /// Its settings, and Armed.
    Arm,
    /// Active.
    Activate,
}

/// A Set with its content and the way it goes.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What it is for.
    pub task: Task,
    /// The attribute.
    pub attribute: AttrId,
    /// Its modifier.
    pub modifier: u32,
    /// Its content.
    pub data: [u8; 64],
    /// The node whose agent works on it.
    pub target: Guid,
    /// The LID by which it is reached first, where that is known to get through.
    pub lid: Option<Lid>,
    /// The way there.
    pub path: DirectedPath,
    /// Another way, where one is known.
    pub alternate: Option<DirectedPath>,
}

/// Why a Set had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It was never answered.
    Silence,
    /// It was refused.
    Refused(Status),
    /// It was accepted, and the answer holds something else.
    NotHeld,
}

/// A Set that had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What it was for.
    pub task: Task,
    /// Why.
    pub cause: Cause,
}

impl Failure {
    /// The node that it was for.
    pub fn node(&self) -> Guid {
        match self.task {
            Task::Switch(guid)
            | Task::Block { switch: guid, .. }
            | Task::Multicast { switch: guid, .. }
            | Task::MulticastTop(guid) => guid,
            Task::Port(key, _) | Task::PKeys(key, _) | Task::Guids(key, _) => key.node,
        }
    }
}

/// What a push has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Sets acknowledged.
    pub done: usize,
    /// Blocks of forwarding tables acknowledged, those on the way included.
    pub blocks: usize,
    /// Blocks of multicast forwarding tables acknowledged, both steps counted.
    pub multicast_blocks: usize,
    /// Switches on which at least one block was written.
    pub switches: usize,
    /// Ports that became Active.
    pub activated: usize,
}

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
    outstanding: usize,
    stopped: bool,
    /// Ports and tables alternate, so that neither waits for all of the other.
    ports_next: bool,
    failures: Vec<Failure>,
    progress: Progress,
    learned: bool,
    /// See [`Push::unread`].
    unread: BTreeSet<PortKey>,
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
            outstanding: 0,
            stopped: false,
            ports_next: false,
            failures: Vec::new(),
            progress,
            learned: false,
            unread: BTreeSet::new(),
            doubted: false,
        };
        // What multicast lets go of first is part of the way: the last unicast tables must not meet it. That holds also where
        // the hardware is at the waypoint already.
        let lets_go = push.plan.waypoint.is_some() && push.multicast.unmet() > 0;
        if lets_go || push.switches.values().any(SwitchPush::has_waypoint) {
            push.unmet = push.switches.values().map(SwitchPush::on_the_way).sum();
            push.unmet += push.multicast.unmet();
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

    /// Gives a turn to every switch that has something to send now.
    fn give_turns(&mut self) {
        let on_the_way = self.unmet > 0;
        for (&guid, switch) in &mut self.switches {
            if !switch.in_turn && switch.has_next(on_the_way) {
                switch.in_turn = true;
                self.turn.push_back(guid);
            }
        }
    }

    /// Gives a turn to a switch if it has something to send now.
    fn give_turn(&mut self, guid: Guid) {
        let on_the_way = self.unmet > 0;
        if let Some(switch) = self.switches.get_mut(&guid)
            && !switch.in_turn
            && switch.has_next(on_the_way)
        {
            switch.in_turn = true;
            self.turn.push_back(guid);
        }
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

    /// A port that is Armed refuses to be armed: if an attempt whose answer was lost armed it, nothing failed. The port has
    /// to be read to know.
    fn doubt(&mut self, key: PortKey) {
        self.doubted = true;
        if let Some(port) = self.ports.get_mut(&key) {
            port.give_up();
        }
        self.lid_settled(key);
        self.unread.insert(key);
    }

    fn next_table(&mut self, inventory: &Inventory) -> Option<Order> {
        let on_the_way = self.unmet > 0;
        for _ in 0..self.turn.len() {
            let guid = self.turn.pop_front()?;
            let Some(switch) = self.switches.get_mut(&guid) else {
                continue;
            };
            let task = switch.next(guid, on_the_way);
            switch.in_turn = switch.has_next(on_the_way);
            if switch.in_turn {
                self.turn.push_back(guid);
            }
            let Some(task) = task else { continue };
            match self.write_table(inventory, task) {
                Some(order) => return Some(order),
                None => self.failures.push(Failure {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    fn write_table(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (guid, attribute, modifier, data) = match task {
            Task::Switch(guid) => (
                guid,
                SwitchInfo::ID,
                0,
                *self.switches.get(&guid)?.info()?.as_data(),
            ),
            Task::Block {
                switch,
                block,
                first,
            } => {
                let entries = self.wanted(switch, block, first)?;
                (switch, LinearForwardingTable::ID, u32::from(block), entries)
            }
            Task::Multicast { switch, at, first } => {
                let masks = self.wanted_masks(inventory, switch, at, first)?;
                let mut table = MulticastForwardingTable::default();
                table.set_masks(masks);
                let data = *table.as_data();
                (switch, MulticastForwardingTable::ID, at.modifier(), data)
            }
            Task::MulticastTop(guid) => {
                let mut info = inventory.node(guid)?.switch.as_ref()?.info;
                info.set_multicast_fdb_top(self.multicast.top(guid)?)
                    .set_port_state_change(false);
                (guid, SwitchInfo::ID, 0, *info.as_data())
            }
            Task::Port(..) | Task::PKeys(..) | Task::Guids(..) => return None,
        };
        let node = inventory.node(guid)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: guid,
            lid: reach::lid_of(inventory, guid),
            path: node.path,
            alternate: node.alternate,
        })
    }

    /// What a block is to hold, on the way or in the end.
    fn wanted(&self, switch: Guid, block: u16, first: bool) -> Option<[u8; 64]> {
        let table = if first {
            self.plan.table_on_the_way(switch)?
        } else {
            self.plan.table(switch)?
        };
        Some(table.block(usize::from(block)))
    }

    fn next_port(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(task) = self.ready.pop_front() {
            match self.write_port(inventory, task) {
                Some(order) => return Some(order),
                None => self.failures.push(Failure {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    fn write_port(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (key, attribute, modifier, data) = match task {
            Task::Port(key, step) => {
                let current = inventory.port(key)?.info.as_ref()?;
                let data = *self.ports.get(&key)?.content(current, step).as_data();
                let modifier = PortInfo::modifier(key.port, true);
                (key, PortInfo::ID, modifier, data)
            }
            Task::PKeys(key, block) => {
                let table = self.ports.get(&key)?.p_keys.block(block)?.table();
                let is_switch = inventory.node(key.node).is_some_and(NodeRecord::is_switch);
                let modifier = image::modifier(is_switch, key.port, block);
                (key, PKeyTable::ID, modifier, *table.as_data())
            }
            Task::Guids(key, block) => {
                let mut info = GuidInfo::default();
                info.set_guids(self.wanted_guids(key, block)?.guids);
                let modifier = GuidInfo::modifier(block);
                (key, GuidInfo::ID, modifier, *info.as_data())
            }
            Task::Switch(_)
            | Task::Block { .. }
            | Task::Multicast { .. }
            | Task::MulticastTop(_) => return None,
        };
        let (path, alternate) = inventory.way_to(key)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: key.node,
            lid: None,
            path,
            alternate,
        })
    }

    fn acknowledged(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        task: Task,
        data: &[u8; 64],
    ) {
        match task {
            Task::Switch(guid) => {
                let unread = self.made_unread(inventory, guid);
                self.unread.extend(unread);
                if let Some(record) = inventory
                    .node_mut(guid)
                    .and_then(|node| node.switch.as_mut())
                {
                    record.info = *SwitchInfo::from_data(data);
                    record.unheard = false;
                }
                self.table_settled(inventory, task, guid, false);
            }
            Task::Block {
                switch,
                block,
                first,
            } => {
                self.progress.blocks += 1;
                if let Some(record) = inventory
                    .node_mut(switch)
                    .and_then(|node| node.switch.as_mut())
                {
                    record
                        .lft
                        .store(usize::from(block), LinearForwardingTable::from_data(data));
                }
                if self.wanted(switch, block, first).as_ref() == Some(data) {
                    self.table_settled(inventory, task, switch, false);
                } else {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            Task::Multicast { .. } => {
                let masks = MulticastForwardingTable::from_data(data).masks();
                self.masks_answered(inventory, task, &masks);
            }
            Task::MulticastTop(guid) => {
                self.top_answered(inventory, guid, SwitchInfo::from_data(data));
            }
            Task::Port(key, step) => {
                self.port_answered(inventory, not_kept, key, step, PortInfo::from_data(data))
            }
            Task::PKeys(key, block) => {
                self.p_keys_answered(inventory, key, block, PKeyTable::from_data(data));
            }
            Task::Guids(key, block) => {
                self.guids_answered(inventory, key, block, GuidInfo::from_data(data));
            }
        }
    }

    /// The ports that have to be read again because SwitchInfo of `guid` was set.
    fn made_unread(&self, inventory: &Inventory, guid: Guid) -> Vec<PortKey> {
        let (Some(node), Some(set)) = (
            inventory.node(guid),
            self.switches.get(&guid).and_then(SwitchPush::info),
        ) else {
            return Vec::new();
        };
        let zero = PortKey::new(guid, PortNum::ZERO);
        // Had the switch been reset since it was read, this Set covered that up; the lost LID of port 0 tells.
        let mut unread = vec![zero];
        let unheard = node.switch.as_ref().is_some_and(|switch| switch.unheard);
        if set.port_state_change() && unheard {
            let external = node.external_ports();
            unread.extend(external.map(|(number, _)| PortKey::new(guid, number)));
        }
        unread
    }

    fn port_answered(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        key: PortKey,
        step: Step,
        info: &PortInfo,
    ) {
        let Some(kind) = inventory
            .node(key.node)
            .map(|node| crate::diff::DeviceKind::of(&node.info, key.port))
        else {
            return;
        };
        let Some(record) = inventory.port_mut(key) else {
            return;
        };
        self.unread.remove(&key);
        self.lid_settled(key);
        let before = record.answered(info);
        let fell_back = before
            .as_ref()
            .is_some_and(|before| before.port_state() != PortState::Init);
        if kind.role == PortRole::End && fell_back && info.port_state() == PortState::Init {
            // It was reset in between, or its link trained again.
            record.forget_tables();
        }
        if let (Some(port), Some(before)) = (self.ports.get_mut(&key), before) {
            let unkept = port.take_answer(&before, info, step);
            self.learned |= not_kept.learn(kind, unkept);
            if port.is_active(info) && step == Step::Activate {
                self.progress.activated += 1;
            }
            if !port.reached(info, step) {
                self.failures.push(Failure {
                    task: Task::Port(key, step),
                    cause: Cause::NotHeld,
                });
                self.consider_others_after(inventory, key);
                return;
            }
        }
        self.consider_others_after(inventory, key);
        self.consider(inventory, key);
        self.release_guids(key);
        if let Some(peer) = self.ports.get(&key).and_then(|port| port.peer()) {
            self.consider(inventory, peer);
        }
    }

    fn failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        self.failures.push(Failure { task, cause });
        match task {
            Task::Switch(guid) => self.table_settled(inventory, task, guid, true),
            Task::Block { switch, block, .. } => {
                if cause == Cause::Silence
                    && let Some(record) = inventory
                        .node_mut(switch)
                        .and_then(|node| node.switch.as_mut())
                {
                    record.lft.mark_dirty(usize::from(block));
                }
                self.table_settled(inventory, task, switch, true);
            }
            Task::Multicast { .. } => self.masks_failed(inventory, task, cause),
            Task::MulticastTop(_) => self.multicast_settled(task, true),
            Task::Port(key, _) => {
                if let Some(port) = self.ports.get_mut(&key) {
                    port.give_up();
                }
                self.lid_settled(key);
                self.consider_others_after(inventory, key);
            }
            Task::PKeys(key, block) => self.p_keys_failed(inventory, key, block, cause),
            Task::Guids(key, block) => Self::guids_failed(inventory, key, block),
        }
    }

    /// A Set of PortInfo was settled; tables may have waited for that of port 0.
    fn lid_settled(&mut self, key: PortKey) {
        if key.port == PortNum::ZERO
            && !self.stopped
            && let Some(switch) = self.switches.get_mut(&key.node)
        {
            switch.lid_settled();
            self.give_turn(key.node);
        }
    }

    /// The PortInfo of a port was written or given up; if it is port 0, the switch's other ports may have waited for it.
    fn consider_others_after(&mut self, inventory: &Inventory, key: PortKey) {
        if key.port != PortNum::ZERO {
            return;
        }
        let external = PortKey::new(key.node, PortNum(1))..=PortKey::new(key.node, PortNum(255));
        let others: Vec<PortKey> = self.ports.range(external).map(|(&key, _)| key).collect();
        for other in others {
            self.consider(inventory, other);
        }
    }

    /// A Set to a switch's tables was answered or given up: see what that makes possible.
    fn table_settled(&mut self, inventory: &Inventory, task: Task, guid: Guid, failed: bool) {
        let Some(switch) = self.switches.get_mut(&guid) else {
            return;
        };
        switch.settle(task, failed);
        let is_programmed = switch.is_programmed();
        let on_the_way = self.unmet > 0;
        if on_the_way {
            self.unmet -= 1;
        }
        if failed && on_the_way {
            // A switch that does not hold the waypoint could close a loop with what would follow.
            self.stop();
        }
        if self.stopped {
            return;
        }
        if on_the_way && self.unmet == 0 {
            self.give_turns();
            self.multicast.give_turns();
        } else {
            self.give_turn(guid);
            self.multicast.give_turn(guid);
        }
        if is_programmed {
            let ports: Vec<PortKey> = inventory
                .node(guid)
                .map(|node| {
                    node.external_ports()
                        .flat_map(|(number, port)| [Some(PortKey::new(guid, number)), port.peer])
                        .flatten()
                        .collect()
                })
                .unwrap_or_default();
            for key in ports {
                self.consider(inventory, key);
            }
        }
    }

    /// Whether a switch forwards as planned: it never had to change, or all of its changes are acknowledged.
    fn is_programmed(&self, guid: Guid) -> bool {
        self.switches
            .get(&guid)
            .is_none_or(SwitchPush::is_programmed)
    }

    /// Whether a port holds its keys: they never had to change, or all changes are acknowledged.
    fn holds_p_keys(&self, key: PortKey) -> bool {
        let port = self.ports.get(&key);
        port.is_none_or(|port| port.p_keys.is_held())
    }

    /// Queues the next Sets of a port if they are due.
    fn consider(&mut self, inventory: &Inventory, key: PortKey) {
        if self.stopped {
            return;
        }
        let Some(port) = self.ports.get(&key) else {
            return;
        };
        let peer = port.peer();
        let open = [Some(key), peer]
            .into_iter()
            .flatten()
            .all(|end| self.is_programmed(end.node) && self.holds_p_keys(end));
        let waits_for_peer = peer
            .and_then(|peer| self.ports.get(&peer))
            .is_some_and(|peer| peer.is_enforcing() && !peer.p_keys.is_settled());
        // The LID of port 0 tells of a reset of the switch; it has to be there before anything else of the switch is.
        let zero = PortKey::new(key.node, PortNum::ZERO);
        let waits_for_zero =
            port.is_enforcing() && self.ports.get(&zero).is_some_and(PortPush::awaits_info);
        let state_of = |key: PortKey| inventory.port(key).and_then(|record| record.state());
        let peer_state = peer.and_then(state_of);
        let Some(info) = inventory.port(key).and_then(|record| record.info.as_ref()) else {
            return;
        };
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        if !waits_for_peer && !waits_for_zero && !port.info_goes_first(info) {
            let blocks = port.p_keys.take_due();
            self.ready
                .extend(blocks.into_iter().map(|block| Task::PKeys(key, block)));
        }
        if let Some(step) = port.due(info, peer_state, open) {
            port.sent();
            self.ready.push_back(Task::Port(key, step));
        }
    }
}
