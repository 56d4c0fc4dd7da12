//! Reads back in light sweeps whether switches and hosts still hold what was written.
//!
//! A switch without an M_Key accepts Sets from any host. A light sweep therefore asks each switch
//! that answers SwitchInfo for some of its parts, in turn: blocks of its forwarding tables; PortInfo,
//! P_KeyTable and managed attributes (SLtoVLMappingTable, VLArbitrationTable, GUIDInfo) of its ports
//! that are up and of the hosts behind them. If a part differs without a report of a change, all
//! parts of the switch are read in the same sweep. The answers are
//! handled like all others: the difference from the plan is written after its proof.
//!
//! A sweep and a push never overlap, so that an answer shows what the switch held after its last
//! acknowledged Set. Nothing waits for the queries asked here: silence counts for nothing, and the
//! sweep ends without the answers once there is other work.
//!
//! The SMPs use directed routes: a forged entry of a forwarding table cannot lead them to another
//! agent.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{MulticastForwardingTable, PKeyTable, PortInfo, PortState, SwitchInfo};
use rsm_model::lft_image::LFT_BLOCK;
use rsm_model::managed::{BlockKey, BlockPlace};
use rsm_model::mft_image::{self, Extent, MftBlock};
use rsm_model::{InventoryNode, InventorySwitch};

use super::inventory::Inventory;
use super::{Query, Sweep, SweepScope};

/// Bound of the switches that a light sweep reads as a whole. On the largest subnets a switch has
/// some 930 parts, and with quality of service some thousand more.
const WHOLE_SWITCHES: usize = 16;

/// The parts to read back in a light sweep.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    /// Number of parts of each of the two lists of a switch; 0 for none.
    pub per_list: usize,
    /// Number of this reading, which continues after the parts of the reading before.
    pub turn: u64,
    /// Switches that differed before, to be read as a whole; the sweep takes the first
    /// `WHOLE_SWITCHES` of them.
    pub whole: BTreeSet<Guid>,
    /// Nodes that are not read back.
    pub paused: BTreeSet<Guid>,
    /// Ports that do not keep what is written to them: repairs read and write these, at their own
    /// intervals.
    pub failing: BTreeSet<PortKey>,
}

/// The fields of SwitchInfo that no device changes by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SwitchField {
    /// LinearFDBTop.
    LinearFdbTop,
    /// MulticastFDBTop.
    MulticastFdbTop,
    /// LifeTimeValue.
    LifeTimeValue,
}

impl SwitchField {
    /// Name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            SwitchField::LinearFdbTop => "LinearFDBTop",
            SwitchField::MulticastFdbTop => "MulticastFDBTop",
            SwitchField::LifeTimeValue => "LifeTimeValue",
        }
    }
}

/// The parts of a node that differ from what it held, without a report of a change.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Overwritten {
    /// Fields of SwitchInfo.
    pub fields: BTreeSet<SwitchField>,
    /// Blocks of the linear forwarding table.
    pub blocks: BTreeSet<u16>,
    /// Blocks of the multicast forwarding table.
    pub masks: BTreeSet<MftBlock>,
    /// Blocks of P_KeyTables, by port.
    pub p_keys: BTreeSet<(PortNum, u16)>,
    /// Blocks of managed attributes, by port.
    pub managed: BTreeSet<(PortNum, BlockPlace)>,
    /// Former PortInfo of the ports whose PortInfo differs while their link stayed up.
    pub ports: BTreeMap<PortNum, PortInfo>,
}

impl Overwritten {
    /// Whether anything but PortInfo differs.
    pub fn has_blocks(&self) -> bool {
        let tables = self.blocks.len() + self.masks.len();
        let settings = self.p_keys.len() + self.managed.len() + self.fields.len();
        tables + settings > 0
    }
}

/// State of reading back in a sweep.
#[derive(Default, Debug)]
pub(super) struct ReadBack {
    samples: Samples,
    /// Queries for reading back only: no other part of the sweep needs their answers.
    asked: HashSet<Query>,
    /// Whether an attempt of a query in `asked` was left unanswered.
    is_late: bool,
    /// Switches of which all parts were asked for.
    whole: BTreeSet<Guid>,
    /// Switches with a part that was not answered.
    missed: BTreeSet<Guid>,
    /// Switches whose LinearFDBTop is 0 by now, without a change of a port: they were reset, unless
    /// they still have a LID.
    without_top: BTreeSet<Guid>,
    found: BTreeMap<Guid, Overwritten>,
}

impl ReadBack {
    /// Records that another part of the sweep needs the answer to `query`.
    pub(super) fn is_wanted(&mut self, query: Query) {
        self.asked.remove(&query);
    }

    fn found(&mut self, guid: Guid) -> &mut Overwritten {
        self.found.entry(guid).or_default()
    }
}

/// The parts of a switch, in two lists. Light sweeps go round in each of them, so that what ports and
/// hosts hold does not wait for the tables of a large subnet.
struct Parts<'a> {
    guid: Guid,
    switch: &'a InventorySwitch,
    /// Queries for the settings of the ports of the switch and of the hosts behind them.
    settings: Vec<Query>,
    /// Number of blocks of the forwarding table in use.
    blocks: usize,
    /// Multicast blocks in use: the number of blocks, and of positions of each.
    mask_blocks: usize,
    positions: usize,
}

impl<'a> Parts<'a> {
    fn of(inventory: &'a Inventory, guid: Guid) -> Option<Parts<'a>> {
        let node = inventory.node(guid)?;
        let switch = node.switch.as_deref()?;
        let top = switch.info.linear_fdb_top();
        let last = multicast_top(inventory, switch)
            .and_then(MulticastForwardingTable::block_and_index_of)
            .filter(|_| top != Lid::NONE);
        Some(Parts {
            guid,
            switch,
            settings: settings(inventory, &ports(inventory, guid, node)),
            blocks: match top {
                Lid::NONE => 0,
                top => top.index() / LFT_BLOCK + 1,
            },
            mask_blocks: last.map_or(0, |(block, _)| usize::from(block) + 1),
            positions: usize::from(mft_image::positions(node.info.num_ports())),
        })
    }

    /// Number of blocks of both forwarding tables.
    fn tables(&self) -> usize {
        self.blocks + self.mask_blocks * self.positions
    }

    /// The query for a block of a forwarding table; `None` if the block is not known, and is read
    /// anyway.
    fn table(&self, index: usize) -> Option<Query> {
        if index < self.blocks {
            let is_known = self.switch.lft.is_known(index);
            return is_known.then_some(Query::Table(self.guid, index as u16));
        }
        let index = index - self.blocks;
        let at = MftBlock {
            block: (index / self.positions) as u16,
            position: (index % self.positions) as u8,
        };
        let is_known = self.switch.mft.is_known(at);
        is_known.then_some(Query::Multicast(self.guid, at))
    }

    /// The queries of a turn, `count` of each list.
    fn of_turn(&self, turn: u64, count: usize) -> Vec<Query> {
        let settings = window(self.settings.len(), turn, count).map(|index| self.settings[index]);
        let tables = window(self.tables(), turn, count).filter_map(|index| self.table(index));
        settings.chain(tables).collect()
    }

    fn all(self) -> Vec<Query> {
        let tables = (0..self.tables()).filter_map(|index| self.table(index));
        let tables: Vec<Query> = tables.collect();
        [self.settings, tables].concat()
    }
}

/// The indices of a turn, `count` of `all`: the turns go round.
fn window(all: usize, turn: u64, count: usize) -> impl Iterator<Item = usize> {
    let first = (turn % all.max(1) as u64) as usize * count;
    (first..first + count.min(all)).map(move |index| index % all)
}

/// The queries for PortInfo of `ports`, and for the blocks of their tables that are known: the used
/// ones of P_KeyTables, and those of managed attributes. A port that is not Active may be booting,
/// and its tables are read once it is up.
fn settings(inventory: &Inventory, ports: &[PortKey]) -> Vec<Query> {
    let mut settings: Vec<Query> = ports.iter().map(|&key| Query::Port(key)).collect();
    for &key in ports {
        let port = inventory.port(key).filter(|port| port.is_active());
        let Some(port) = port else { continue };
        if let Some(image) = port.p_keys.as_deref() {
            let blocks = image.keys().chunks(PKeyTable::ENTRIES).enumerate();
            let used = blocks.filter(|(_, keys)| keys.iter().any(|key| key.is_valid()));
            let used = used.map(|(block, _)| block as u16);
            let known = used.filter(|&block| image.is_known(block));
            settings.extend(known.map(|block| Query::PKeys(key, block)));
        }
        let places = port.managed.touched();
        let known = places.filter(|&place| place.is_read_back() && port.managed.is_known(place));
        settings.extend(known.map(|place| Query::Managed(BlockKey { port: key, place })));
    }
    settings
}

/// The ports of a switch that are read back: port 0, those that are up, and the ports of hosts
/// behind them.
fn ports(inventory: &Inventory, guid: Guid, node: &InventoryNode) -> Vec<PortKey> {
    let mut ports = vec![PortKey::new(guid, PortNum::ZERO)];
    for (number, port) in node.external_ports().filter(|(_, port)| port.is_up()) {
        ports.push(PortKey::new(guid, number));
        let is_host = |peer: &PortKey| {
            let node = inventory.node(peer.node);
            let is_read = inventory
                .port(*peer)
                .is_some_and(|port| port.info.is_some());
            is_read && node.is_some_and(|node| !node.is_switch())
        };
        ports.extend(port.peer.filter(is_host));
    }
    ports
}

/// The last multicast LID that counts in the table of a switch; `None` if none does.
pub(super) fn multicast_top(inventory: &Inventory, switch: &InventorySwitch) -> Option<Lid> {
    let last = switch.info.multicast_fdb_cap().checked_sub(1)?;
    let last = Lid(Lid::MULTICAST_FIRST.0.saturating_add(last));
    let top = match mft_image::extent(&switch.info) {
        Extent::Nothing => None,
        Extent::UpTo(top) => Some(top),
        Extent::Everything => inventory.multicast_top,
    };
    top.map(|top| top.min(last))
}

impl Sweep {
    /// Makes this light sweep read back `samples`.
    pub fn read_back(&mut self, samples: Samples) {
        self.read_back.samples = samples;
    }

    /// Whether the answer to `query` is needed only for reading back.
    pub fn is_sample(&self, query: Query) -> bool {
        self.read_back.asked.contains(&query)
    }

    /// Records an unanswered attempt of `query`. Returns whether [`Sweep::is_sample`] holds for it:
    /// then its node does not become a suspect.
    pub(super) fn is_late_sample(&mut self, query: Query) -> bool {
        let is_sample = self.is_sample(query);
        self.read_back.is_late |= is_sample;
        is_sample
    }

    /// Whether answers to queries of [`Sweep::is_sample`] are late.
    pub(super) fn has_late_samples(&self) -> bool {
        self.read_back.is_late
    }

    /// Whether a node differed without a report.
    pub fn is_overwritten(&self, guid: Guid) -> bool {
        self.read_back.found.contains_key(&guid)
    }

    /// The nodes that differed without a report.
    pub fn take_overwritten(&mut self) -> BTreeMap<Guid, Overwritten> {
        std::mem::take(&mut self.read_back.found)
    }

    /// The switches of which all parts were read back.
    pub fn read_as_a_whole(&self) -> impl Iterator<Item = Guid> + '_ {
        let ReadBack { whole, missed, .. } = &self.read_back;
        whole.difference(missed).copied()
    }

    /// Handles silence or refusal of a part to read back: the next turn asks for it again. Returns
    /// whether `query` asked for such a part.
    pub(super) fn misses_sample(&mut self, query: Query) -> bool {
        let is_sample = self.read_back.asked.remove(&query);
        if let Some(guid) = query.node().filter(|_| is_sample) {
            self.read_back.missed.insert(guid);
        }
        is_sample
    }

    /// Handles SwitchInfo of a switch that was not reset: asks for the parts whose turn it is.
    pub(super) fn ask_samples(&mut self, inventory: &Inventory, guid: Guid) {
        let samples = &self.read_back.samples;
        if self.scope != SweepScope::Light
            || self.is_outward()
            || samples.per_list == 0
            || samples.paused.contains(&guid)
        {
            return;
        }
        if samples.whole.contains(&guid) && self.read_whole(inventory, guid) {
            return;
        }
        let Some(parts) = Parts::of(inventory, guid) else {
            return;
        };
        let Samples { turn, per_list, .. } = self.read_back.samples;
        let queries = parts.of_turn(turn, per_list);
        self.ask_back(queries);
    }

    /// Asks for all parts of a switch, if this sweep may. Returns whether it does.
    fn read_whole(&mut self, inventory: &Inventory, guid: Guid) -> bool {
        let whole = &mut self.read_back.whole;
        if whole.contains(&guid) {
            return true;
        }
        let Some(parts) = Parts::of(inventory, guid).filter(|_| whole.len() < WHOLE_SWITCHES)
        else {
            return false;
        };
        whole.insert(guid);
        self.ask_back(parts.all());
        true
    }

    fn ask_back(&mut self, queries: Vec<Query>) {
        for query in queries {
            let Samples {
                failing, paused, ..
            } = &self.read_back.samples;
            let port = match query {
                Query::Port(key) | Query::PKeys(key, _) => Some(key),
                Query::Managed(block) => Some(block.port),
                _ => None,
            };
            let is_skipped =
                port.is_some_and(|key| failing.contains(&key) || paused.contains(&key.node));
            if !is_skipped && !self.queries.has(query) {
                self.ask(query);
                self.read_back.asked.insert(query);
            }
        }
    }

    /// Records that a part differs, and reads the rest of its switch. Returns the record.
    fn on_overwritten(&mut self, inventory: &Inventory, guid: Guid) -> &mut Overwritten {
        let is_switch = inventory.is_switch(guid);
        if is_switch && self.read_back.samples.per_list > 0 {
            self.read_whole(inventory, guid);
        }
        self.read_back.found(guid)
    }

    /// Handles a block of a table or of a managed attribute, asked for by `query`, that differs from
    /// the known one.
    pub(super) fn on_other_block(&mut self, inventory: &Inventory, query: Query) {
        match query {
            _ if !self.is_sample(query) => {}
            Query::Table(guid, block) => {
                self.on_overwritten(inventory, guid).blocks.insert(block);
            }
            Query::Multicast(guid, at) => {
                self.on_overwritten(inventory, guid).masks.insert(at);
            }
            Query::PKeys(key, block) => {
                // PortInfo shows whether the port was reset.
                self.again(Query::Port(key));
                let found = self.on_overwritten(inventory, key.node);
                found.p_keys.insert((key.port, block));
            }
            Query::Managed(BlockKey { port: key, place }) => {
                self.again(Query::Port(key));
                let found = self.on_overwritten(inventory, key.node);
                found.managed.insert((key.port, place));
            }
            _ => {}
        }
    }

    /// Compares PortInfo of a port with `before`, the former answer.
    pub(super) fn on_other_port(&mut self, inventory: &Inventory, key: PortKey, before: &PortInfo) {
        let now = inventory.port(key).and_then(|port| port.info.as_ref());
        let Some(now) = now else { return };
        let kept_top = key.port == PortNum::ZERO
            && now.lid() != Lid::NONE
            && self.read_back.without_top.remove(&key.node);
        if kept_top {
            let found = self.on_overwritten(inventory, key.node);
            found.fields.insert(SwitchField::LinearFdbTop);
        }
        let stayed = before.port_state() == now.port_state() && before != now;
        // Who changes a LID may also report the change, so that the port is read at once.
        let is_part = !matches!(self.scope, SweepScope::Full { .. });
        let is_used = now.port_state() == PortState::Active && now.lid().is_unicast();
        let has_other_lid = is_part && is_used && before.lid() != now.lid();
        if stayed && (has_other_lid || self.is_sample(Query::Port(key))) {
            let found = self.read_back.found(key.node);
            found.ports.entry(key.port).or_insert(*before);
        }
    }

    /// Compares SwitchInfo with `before`, the former answer.
    pub(super) fn on_other_switch_info(
        &mut self,
        inventory: &Inventory,
        guid: Guid,
        before: &SwitchInfo,
        now: &SwitchInfo,
    ) {
        use SwitchField::{LifeTimeValue, LinearFdbTop, MulticastFdbTop};
        let differing = [
            (
                LinearFdbTop,
                before.linear_fdb_top() != now.linear_fdb_top(),
            ),
            (
                MulticastFdbTop,
                before.multicast_fdb_top() != now.multicast_fdb_top(),
            ),
            (
                LifeTimeValue,
                before.life_time_value() != now.life_time_value(),
            ),
        ];
        let fields: Vec<SwitchField> = differing
            .into_iter()
            .filter_map(|(field, differs)| differs.then_some(field))
            .collect();
        // The difference from the plan must be written, whatever the scope of the sweep.
        self.changed |= !fields.is_empty();
        if self.read_back.samples.per_list > 0 {
            match fields.contains(&LinearFdbTop) && now.linear_fdb_top() == Lid::NONE {
                // In a reset the ports came up as well. A LID that the switch has nevertheless was set
                // after the reset, by the rest of a push.
                true if now.port_state_change() => {}
                true => {
                    self.read_back.without_top.insert(guid);
                }
                false if !fields.is_empty() => {
                    self.on_overwritten(inventory, guid).fields.extend(&fields);
                }
                false => {}
            }
        }
    }
}
