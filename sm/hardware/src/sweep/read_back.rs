//! Reading back: light sweeps check that switches and hosts still hold the written content.
//!
//! A switch without an M_Key accepts Sets from any host. A light sweep therefore reads some parts
//! of each switch that answers SwitchInfo, and each sweep reads other parts: blocks of forwarding
//! tables; PortInfo, P_KeyTable and managed attributes (SLtoVLMappingTable, VLArbitrationTable,
//! GUIDInfo) of the switch's ports that are up and of the hosts behind them. If a part differs
//! without a report of a change, the same sweep reads all parts of the switch. Answers that differ
//! from the plan have the usual effect: a proved plan follows, and a push writes the differences.
//!
//! A sweep and a push never overlap, so an answer shows the content after the last acknowledged
//! Set. The sweep does not wait for queries that only read back: silence has no consequence, and
//! the sweep ends without these answers once other work is due. A report of a change ends reading
//! back, because packets are lost until the change is repaired; the next light sweep asks for the
//! same parts, and completes its reading whatever is reported.
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
use super::reading::Reading;
use super::{Query, SweepScope};

/// Maximum number of switches of which a light sweep reads all parts. In the largest subnets, a
/// switch has some 930 parts, and with quality of service about a thousand more.
const WHOLE_SWITCHES: usize = 16;

/// The parts to read back in a light sweep.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    /// Number of parts to read from each of a switch's two lists, settings and tables; 0 to read
    /// none.
    pub per_list: usize,
    /// Number of this reading. Each reading continues after the parts of the previous reading.
    pub turn: u64,
    /// Switches that differed before, of which all parts must be read. One sweep reads all parts of
    /// at most `WHOLE_SWITCHES` switches.
    pub whole: BTreeSet<Guid>,
    /// Nodes that are not read back.
    pub paused: BTreeSet<Guid>,
    /// Ports that are not read back, because Sets to them have failed: repairs read and write these
    /// ports at intervals of their own.
    pub failing: BTreeSet<PortKey>,
    /// Whether a report of a change ends reading back.
    pub yields_to_reports: bool,
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
    /// The field's name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            SwitchField::LinearFdbTop => "LinearFDBTop",
            SwitchField::MulticastFdbTop => "MulticastFDBTop",
            SwitchField::LifeTimeValue => "LifeTimeValue",
        }
    }
}

/// The parts of a node that differed from their known content without a report of a change.
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
    /// Ports whose PortInfo differs although their state is the same, each with its former
    /// PortInfo.
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
pub struct ReadBack {
    samples: Samples,
    /// Queries that only read back: no other part of the sweep needs their answers.
    asked: HashSet<Query>,
    /// Whether an attempt of a query in `asked` was not answered in time.
    is_late: bool,
    /// Whether a report of a change has ended reading back.
    is_ended: bool,
    /// Switches of which all parts were asked for.
    whole: BTreeSet<Guid>,
    /// Switches that left a query for a part unanswered, or refused it.
    missed: BTreeSet<Guid>,
    /// Switches whose LinearFDBTop has become 0 without a change of a port. PortInfo of port 0
    /// decides: a switch without a LID was reset; in a switch with a LID, the field was
    /// overwritten.
    without_top: BTreeSet<Guid>,
    /// Switches of which a port has lost its settings, so that they were reset, perhaps.
    lost_settings: BTreeSet<Guid>,
    /// The nodes that differed.
    found: BTreeMap<Guid, Overwritten>,
}

impl ReadBack {
    /// Records that the sweep needs the answer to `query` for more than reading back.
    pub(super) fn record_needed(&mut self, query: Query) {
        self.asked.remove(&query);
    }

    /// Makes the light sweep read back `samples`.
    pub fn set_samples(&mut self, samples: Samples) {
        self.samples = samples;
    }

    /// Whether only reading back needs the answer to `query`.
    pub fn is_sample(&self, query: Query) -> bool {
        self.asked.contains(&query)
    }

    /// Records an unanswered attempt of `query`. Returns whether the query only reads back
    /// ([`ReadBack::is_sample`]), so that its node does not become a suspect.
    pub(super) fn is_late_sample(&mut self, query: Query) -> bool {
        let is_sample = self.is_sample(query);
        self.is_late |= is_sample;
        is_sample
    }

    /// Whether the answer to a query that only reads back is late.
    pub(super) fn has_late_samples(&self) -> bool {
        self.is_late
    }

    /// Whether a report of a change has ended reading back.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether a node differed without a report of a change.
    pub fn is_overwritten(&self, guid: Guid) -> bool {
        self.found.contains_key(&guid)
    }

    /// Records that a port of a switch has lost its settings.
    pub(super) fn record_lost_settings(&mut self, switch: Guid) {
        self.lost_settings.insert(switch);
    }

    /// Takes the switches of which a port has lost its settings.
    pub fn take_lost_settings(&mut self) -> BTreeSet<Guid> {
        std::mem::take(&mut self.lost_settings)
    }

    /// Takes the nodes that differed without a report of a change.
    pub fn take_overwritten(&mut self) -> BTreeMap<Guid, Overwritten> {
        std::mem::take(&mut self.found)
    }

    /// The switches of which this sweep has read back all parts.
    pub fn read_as_a_whole(&self) -> impl Iterator<Item = Guid> + '_ {
        let ReadBack { whole, missed, .. } = self;
        whole.difference(missed).copied()
    }

    /// The record of a node that differed.
    fn found(&mut self, guid: Guid) -> &mut Overwritten {
        self.found.entry(guid).or_default()
    }
}

/// The parts of a switch, in two lists: settings and tables. Light sweeps read some parts of each
/// list, so that settings of ports and hosts do not wait for the tables of a large subnet.
struct Parts<'a> {
    guid: Guid,
    switch: &'a InventorySwitch,
    /// Queries for the settings of the ports of the switch and of the hosts behind them.
    settings: Vec<Query>,
    /// Number of blocks of the forwarding table in use.
    blocks: usize,
    /// Number of multicast blocks in use.
    mask_blocks: usize,
    /// Number of positions of each multicast block: groups of 16 ports.
    positions: usize,
}

impl<'a> Parts<'a> {
    /// The parts of the switch `guid`; `None` if its SwitchInfo is not known.
    fn of(inventory: &'a Inventory, guid: Guid) -> Option<Parts<'a>> {
        let node = inventory.hardware.node(guid)?;
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

    /// Number of blocks in use of both forwarding tables.
    fn tables(&self) -> usize {
        self.blocks + self.mask_blocks * self.positions
    }

    /// The query for the table block at this index, linear blocks first. `None` if the block is
    /// unknown, so that the sweep reads it in any case.
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

    /// The queries of turn `turn`: at most `count` from each list.
    fn of_turn(&self, turn: u64, count: usize) -> Vec<Query> {
        let settings = window(self.settings.len(), turn, count).map(|index| self.settings[index]);
        let tables = window(self.tables(), turn, count).filter_map(|index| self.table(index));
        settings.chain(tables).collect()
    }

    /// The queries for all parts.
    fn all(self) -> Vec<Query> {
        let tables = (0..self.tables()).filter_map(|index| self.table(index));
        let tables: Vec<Query> = tables.collect();
        [self.settings, tables].concat()
    }
}

/// The indices of turn `turn` in a list of `all` parts: the `count` indices after the indices of
/// the previous turn. After the last index comes 0 again.
fn window(all: usize, turn: u64, count: usize) -> impl Iterator<Item = usize> {
    let first = (turn % all.max(1) as u64) as usize * count;
    (first..first + count.min(all)).map(move |index| index % all)
}

/// The queries for PortInfo of `ports`, and for the known blocks of their tables: used blocks of
/// P_KeyTables, and blocks of managed attributes. A port that is not Active may be booting; its
/// tables are read once it is up.
fn settings(inventory: &Inventory, ports: &[PortKey]) -> Vec<Query> {
    let mut settings: Vec<Query> = ports.iter().map(|&key| Query::Port(key)).collect();
    for &key in ports {
        let port = inventory.hardware.port(key).filter(|port| port.is_active());
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

/// The ports to read back with a switch: its port 0, its ports that are up, and the ports of hosts
/// behind these.
fn ports(inventory: &Inventory, guid: Guid, node: &InventoryNode) -> Vec<PortKey> {
    let mut ports = vec![PortKey::new(guid, PortNum::ZERO)];
    for (number, port) in node.external_ports().filter(|(_, port)| port.is_up()) {
        ports.push(PortKey::new(guid, number));
        let is_host = |peer: &PortKey| {
            let node = inventory.hardware.node(peer.node);
            let is_read = inventory
                .hardware
                .port(*peer)
                .is_some_and(|port| port.info.is_some());
            is_read && node.is_some_and(|node| !node.is_switch())
        };
        ports.extend(port.peer.filter(is_host));
    }
    ports
}

/// The last valid multicast LID in the table of a switch; `None` if there is none.
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

impl Reading {
    /// Handles a missing answer. Returns whether `query` only reads back: a later turn then asks
    /// for the part again, and the missing answer has no other consequence.
    pub(super) fn misses_sample(&mut self, query: Query) -> bool {
        let is_sample = self.read_back.asked.remove(&query);
        if let Some(guid) = query.node().filter(|_| is_sample) {
            self.read_back.missed.insert(guid);
        }
        is_sample
    }

    /// Ends reading back, if a report may end it: takes back the queries that only read back and are
    /// not sent yet.
    pub(super) fn yield_to_report(&mut self) {
        if self.read_back.is_ended || !self.read_back.samples.yields_to_reports {
            return;
        }
        self.read_back.is_ended = true;
        let read_back = &self.read_back;
        let taken_back = self.queries.take_back(|query| read_back.is_sample(query));
        for query in taken_back {
            self.misses_sample(query);
        }
    }

    /// Handles SwitchInfo of a switch that was not reset: asks for the parts whose turn it is.
    pub(super) fn ask_samples(&mut self, inventory: &Inventory, guid: Guid) {
        let samples = &self.read_back.samples;
        if self.scope != SweepScope::Light
            || samples.per_list == 0
            || self.read_back.is_ended
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

    /// Asks for all parts of a switch, unless the sweep has done so for [`WHOLE_SWITCHES`]
    /// switches. Returns whether all parts are asked for.
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

    /// Queues queries that only read back, except queries that the sweep has already asked or that
    /// [`Samples`] excludes.
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
            if !is_skipped && !self.queries.has_asked(query) {
                self.ask(query);
                self.read_back.asked.insert(query);
            }
        }
    }

    /// Records that a part of a node differs. If the node is a switch, asks for all its parts.
    /// Returns the record of the node.
    fn on_overwritten(&mut self, inventory: &Inventory, guid: Guid) -> &mut Overwritten {
        let is_switch = inventory.hardware.is_switch(guid);
        if is_switch && self.read_back.samples.per_list > 0 {
            self.read_whole(inventory, guid);
        }
        self.read_back.found(guid)
    }

    /// Handles a block of a table or managed attribute, asked for by `query`, that differs from the
    /// known content.
    pub(super) fn on_differing_block(&mut self, inventory: &Inventory, query: Query) {
        match query {
            _ if !self.read_back.is_sample(query) => {}
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

    /// Compares PortInfo of a port with `before`, its former answer.
    pub(super) fn compare_port_info(
        &mut self,
        inventory: &Inventory,
        key: PortKey,
        before: &PortInfo,
    ) {
        let now = inventory
            .hardware
            .port(key)
            .and_then(|port| port.info.as_ref());
        let Some(now) = now else { return };
        let kept_top = key.port == PortNum::ZERO
            && now.lid() != Lid::NONE
            && self.read_back.without_top.remove(&key.node);
        if kept_top {
            let found = self.on_overwritten(inventory, key.node);
            found.fields.insert(SwitchField::LinearFdbTop);
        }
        let stayed = before.port_state() == now.port_state() && before != now;
        // A change of the LID counts even if it was reported: the host that changed the LID may
        // have sent the report as well.
        let is_part = !matches!(self.scope, SweepScope::Full { .. });
        let is_used = now.port_state() == PortState::Active && now.lid().is_unicast();
        let has_other_lid = is_part && is_used && before.lid() != now.lid();
        if stayed && (has_other_lid || self.read_back.is_sample(Query::Port(key))) {
            let found = self.read_back.found(key.node);
            found.ports.entry(key.port).or_insert(*before);
        }
    }

    /// Compares SwitchInfo with `before`, its former answer.
    pub(super) fn compare_switch_info(
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
        // In a sweep of any scope, a push must follow that writes the difference from the plan.
        self.changed |= !fields.is_empty();
        if self.read_back.samples.per_list > 0 {
            match fields.contains(&LinearFdbTop) && now.linear_fdb_top() == Lid::NONE {
                // Ports changed as well, so the switch was reset. If it has a LID, a push that was
                // under way has set the LID after the reset.
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
