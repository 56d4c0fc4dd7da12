//! Checks every state that was ever on the wire.
//!
//! The watch replays the fabric's journal of effective Sets entry by entry, so it also sees states
//! that lasted only until the next Set.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{
    Attribute, LinearForwardingTable, MulticastForwardingTable, PortInfo, PortState, SwitchInfo,
};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{SetJournalEntry, Sim};

use super::record::Record;

/// The number of violations that are kept; further violations add no information.
const MAX_VIOLATIONS: usize = 4;

/// The number of entries in a block of a forwarding table.
const BLOCK_LEN: usize = 64;

/// A port whose unique LID was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The time of the change.
    pub at: Time,
    /// The port.
    pub port: (Guid, PortNum),
    /// The old LID.
    pub from: Lid,
    /// The new LID.
    pub to: Lid,
}

/// A block of a forwarding table that a Set has changed.
#[derive(Clone, Debug)]
pub struct BlockWrite {
    /// The time of the change.
    pub at: Time,
    /// The switch.
    pub switch: Guid,
    /// The entries that have changed: LID and new port.
    pub entries: Vec<(Lid, u8)>,
}

/// The forwarding tables of one switch.
#[derive(Clone, Default)]
struct Table {
    /// The exit port of each LID; 255 drops packets.
    entries: Vec<u8>,
    /// The highest LID whose entry is in effect.
    top: u16,
    /// The masks by multicast LID, only for written entries; the bits are ports.
    masks: BTreeMap<u16, [u64; 4]>,
    multicast_top: u16,
}

impl Table {
    /// The output port for a unicast LID; `None` if packets are dropped.
    fn exit(&self, lid: usize) -> Option<u8> {
        if lid > usize::from(self.top) {
            return None;
        }
        self.entries.get(lid).copied().filter(|&port| port != 255)
    }

    /// The output ports for a multicast LID.
    fn exits(&self, mlid: u16) -> [u64; 4] {
        let in_effect = self.multicast_top == 0 || mlid <= self.multicast_top;
        let mask = self.masks.get(&mlid).filter(|_| in_effect);
        mask.copied().unwrap_or_default()
    }

    /// Stores a written block of the multicast table. Returns whether the block has changed.
    fn set_masks(&mut self, modifier: u32, data: &[u8; 64]) -> bool {
        let block = MulticastForwardingTable::modifier_block(modifier);
        let first_port = usize::from(MulticastForwardingTable::modifier_position(modifier)) * 16;
        let (word, shift) = (first_port / 64, first_port % 64);
        let first = Lid::MULTICAST_FIRST.0 + block * MulticastForwardingTable::ENTRIES as u16;
        let masks = MulticastForwardingTable::from_data(data).masks();
        let mut has_changed = false;
        for (mlid, ports) in (first..).zip(masks) {
            let mask = self.masks.entry(mlid).or_default();
            let before = mask[word];
            mask[word] = before & !(0xFFFF << shift) | u64::from(ports) << shift;
            has_changed |= mask[word] != before;
        }
        has_changed
    }
}

/// Replays the journal of a fabric, and checks each state in it.
pub struct Watch {
    /// The GUIDs of the switches, ascending.
    switches: Vec<Guid>,
    tables: Vec<Table>,
    /// For each switch and port, the index of the switch at the other end of an Active link, and
    /// its port.
    links: Vec<Vec<Option<(usize, u8)>>>,
    lids: BTreeMap<(Guid, PortNum), (Lid, Lmc)>,
    /// For each switch and table block, the sending time of the latest effective Set.
    latest: BTreeMap<(usize, usize), Time>,
    /// The entries, as (switch, LID), in which a Set that was sent earlier has overwritten a later
    /// Set, until they change. A slow device on the path delayed the earlier Set, and a manager
    /// that repeats Sets on other routes cannot know this. The watch does not check such entries.
    overtaken: BTreeSet<(usize, usize)>,
    states: u64,
    credit_loops: Vec<String>,
    moved: Vec<Moved>,
    pub(super) record: Record,
    /// The changed blocks since the first call of [`Watch::keep_writes`].
    writes: Option<Vec<BlockWrite>>,
}

impl Watch {
    pub(super) fn start(sim: &Sim) -> Watch {
        let mut watch = Watch {
            switches: Vec::new(),
            tables: Vec::new(),
            links: Vec::new(),
            lids: BTreeMap::new(),
            latest: BTreeMap::new(),
            overtaken: BTreeSet::new(),
            states: 0,
            credit_loops: Vec::new(),
            moved: Vec::new(),
            record: Record::default(),
            writes: None,
        };
        watch.read_all(sim);
        watch
    }

    /// Tells whether a switch holds an entry that a later sent block should have replaced.
    #[must_use]
    pub fn was_overtaken(&self) -> bool {
        !self.overtaken.is_empty()
    }

    /// Keeps all further changes of forwarding tables, and returns the changes kept so far.
    pub fn keep_writes(&mut self) -> Vec<BlockWrite> {
        self.writes.replace(Vec::new()).unwrap_or_default()
    }

    /// The number of states checked.
    #[must_use]
    pub fn states(&self) -> u64 {
        self.states
    }

    /// The first few credit loops over Active links, as text.
    #[must_use]
    pub fn credit_loops(&self) -> &[String] {
        &self.credit_loops
    }

    /// The first few changes of unique LIDs.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Asserts that no harmful state was on the wire.
    ///
    /// # Panics
    ///
    /// A credit loop was on the wire, a LID in use was moved, or a manager that is not master wrote
    /// or saved one LID for two ports.
    pub fn assert_harmless(&self) {
        assert!(
            self.credit_loops.is_empty(),
            "credit loops: {:#?}",
            self.credit_loops
        );
        assert!(self.moved.is_empty(), "LIDs moved: {:#?}", self.moved);
        let violations = self.record.violations();
        assert!(violations.is_empty(), "against the model: {violations:#?}");
    }

    /// Adopts a change of the hardware: cables, power, reboots.
    pub(super) fn hardware_changed(&mut self, sim: &Sim) {
        self.read_all(sim);
        self.check(sim.now(), "the hardware changed");
    }

    /// Applies an effective Set.
    pub(super) fn replay(&mut self, sim: &Sim, entry: &SetJournalEntry) {
        let switch = self.switches.binary_search(&entry.node).ok();
        match (entry.attribute, switch) {
            (LinearForwardingTable::ID, Some(switch)) => {
                let first = entry.modifier as usize * BLOCK_LEN;
                let entries = &mut self.tables[switch].entries;
                if entries.len() < first + BLOCK_LEN {
                    entries.resize(first + BLOCK_LEN, 255);
                }
                let held = &mut entries[first..][..BLOCK_LEN];
                let pairs = (first..).zip(held.iter().zip(&entry.data));
                let changed: Vec<(usize, u8)> = pairs
                    .filter(|(_, (before, now))| before != now)
                    .map(|(lid, (_, &now))| (lid, now))
                    .collect();
                held.copy_from_slice(&entry.data);
                let block = self.latest.entry((switch, entry.modifier as usize));
                let latest = block.or_insert(entry.sent);
                let is_overtaken = entry.sent < *latest;
                *latest = entry.sent.max(*latest);
                for &(lid, _) in &changed {
                    match is_overtaken {
                        true => self.overtaken.insert((switch, lid)),
                        false => self.overtaken.remove(&(switch, lid)),
                    };
                }
                if !changed.is_empty() {
                    if let Some(writes) = &mut self.writes {
                        let entries = changed.iter().map(|&(lid, now)| (Lid(lid as u16), now));
                        writes.push(BlockWrite {
                            at: entry.time,
                            switch: entry.node,
                            entries: entries.collect(),
                        });
                    }
                    self.check(
                        entry.time,
                        &format!("block {} of {}", entry.modifier, entry.node),
                    );
                }
            }
            (MulticastForwardingTable::ID, Some(switch)) => {
                let has_changed = self.tables[switch].set_masks(entry.modifier, &entry.data);
                if has_changed {
                    let change = format!("multicast block {:#x} of {}", entry.modifier, entry.node);
                    self.check(entry.time, &change);
                }
            }
            (SwitchInfo::ID, Some(switch)) => {
                let info = SwitchInfo::from_data(&entry.data);
                let tops = (info.linear_fdb_top().0, info.multicast_fdb_top().0);
                let table = &mut self.tables[switch];
                let before = (table.top, table.multicast_top);
                (table.top, table.multicast_top) = tops;
                if before != tops {
                    self.check(entry.time, &format!("tops of {}", entry.node));
                }
            }
            (PortInfo::ID, _) => {
                let info = PortInfo::from_data(&entry.data);
                let number = PortNum(entry.modifier as u8);
                if switch.is_none() || number == PortNum::ZERO {
                    let port = if switch.is_some() {
                        PortNum::ZERO
                    } else {
                        entry.port
                    };
                    self.record_lids(entry.time, (entry.node, port), (info.lid(), info.lmc()));
                }
                if switch.is_some() && info.port_state() == PortState::Active {
                    let before = self.links.clone();
                    self.read_links(sim);
                    if before != self.links {
                        self.check(entry.time, &format!("{} port {number} Active", entry.node));
                    }
                }
            }
            _ => {}
        }
    }

    /// Records the LIDs of a port. If the port held other LIDs before, and no other port claims one
    /// of these, the port counts as moved.
    fn record_lids(&mut self, at: Time, port: (Guid, PortNum), (to, lmc): (Lid, Lmc)) {
        let before = self.lids.insert(port, (to, lmc));
        let Some((from, from_lmc)) = before.filter(|&(from, _)| from.is_unicast() && from != to)
        else {
            return;
        };
        let range = |base: Lid, lmc: Lmc| base.0..base.0.saturating_add(lmc.lids());
        let held = range(from, from_lmc);
        let contested = self.lids.iter().any(|(&other, &(base, lmc))| {
            let theirs = range(base, lmc);
            other != port && base.is_unicast() && theirs.start < held.end && held.start < theirs.end
        });
        if !contested && self.moved.len() < MAX_VIOLATIONS {
            self.moved.push(Moved { at, port, from, to });
        }
    }

    /// Reads the whole state from the fabric.
    fn read_all(&mut self, sim: &Sim) {
        self.switches = sim
            .nodes()
            .filter(|&(_, kind)| kind == NodeKind::Switch)
            .map(|(guid, _)| guid)
            .collect();
        self.switches.sort_unstable();
        self.tables = self
            .switches
            .iter()
            .map(|&guid| {
                let info = sim.switch_info(guid).expect("the switch exists");
                let mut table = Table {
                    entries: sim.lft(guid).expect("the switch exists").to_vec(),
                    top: info.linear_fdb_top().0,
                    masks: BTreeMap::new(),
                    multicast_top: info.multicast_fdb_top().0,
                };
                for (modifier, data) in sim.mft(guid).expect("the switch exists") {
                    table.set_masks(modifier, data);
                }
                table
            })
            .collect();
        self.lids = sim
            .end_ports()
            .map(|(guid, port)| {
                let info = sim.port_info(guid, port).expect("the port exists");
                ((guid, port), (info.lid(), info.lmc()))
            })
            .collect();
        self.read_links(sim);
    }

    /// Reads the Active links between switches.
    fn read_links(&mut self, sim: &Sim) {
        let active = |(guid, port)| {
            sim.port_info(guid, port)
                .is_ok_and(|info| info.port_state() == PortState::Active)
        };
        self.links = self
            .switches
            .iter()
            .map(|&guid| {
                let ports = sim.num_ports(guid).expect("the switch exists");
                (0..=ports)
                    .map(|port| {
                        let here = (guid, PortNum(port));
                        let there = sim.peer(guid, PortNum(port)).ok().flatten()?;
                        let switch = self.switches.binary_search(&there.0).ok()?;
                        (active(here) && active(there)).then_some((switch, there.1.0))
                    })
                    .collect()
            })
            .collect();
    }

    /// Checks the current state for credit loops; `change` describes the last change.
    fn check(&mut self, at: Time, change: &str) {
        self.states += 1;
        if self.credit_loops.len() < MAX_VIOLATIONS
            && let Some(cycle) = self.credit_loop()
        {
            let ends = cycle.iter().zip(cycle.iter().cycle().skip(1));
            let channels: Vec<String> = ends
                .map(|(&from, &to)| {
                    let lid = self.lid_between(from, to);
                    format!("{}:{} by {lid:#x}", self.switches[from.0], from.1)
                })
                .collect();
            self.credit_loops
                .push(format!("at {at:?}, {change}: {}", channels.join(" -> ")));
        }
    }

    /// A LID whose packets leave through the exit `from` and then through the exit `to`; 0 if no
    /// LID does.
    fn lid_between(&self, from: (usize, u8), to: (usize, u8)) -> usize {
        let exits_through = |exit: (usize, u8), lid: usize| {
            let masks = self.tables[exit.0].exits(lid as u16);
            let by_mask = masks[usize::from(exit.1 / 64)] >> (exit.1 % 64) & 1 == 1;
            self.tables[exit.0].exit(lid) == Some(exit.1) || by_mask
        };
        let unicast = 1..self.tables[from.0].entries.len();
        let multicast = self.tables[from.0].masks.keys().copied().map(usize::from);
        let mut lids = unicast.chain(multicast);
        lids.find(|&lid| exits_through(from, lid) && exits_through(to, lid))
            .unwrap_or(0)
    }

    /// A cycle of directed links between switches in which each link can wait for the next, with
    /// packets for any LID, unicast or multicast, injected at any switch. A looping multicast
    /// packet counts as well. `None` if there is no cycle.
    fn credit_loop(&self) -> Option<Vec<(usize, u8)>> {
        // For each switch and exit port, the exits of the next switch that packets over this link
        // take.
        let mut onward: Vec<Vec<[u64; 4]>> = self
            .links
            .iter()
            .map(|ports| vec![[0; 4]; ports.len()])
            .collect();
        for (switch, table) in self.tables.iter().enumerate() {
            for lid in 1..table.entries.len() {
                let Some((exit, next)) = self.hop(switch, lid) else {
                    continue;
                };
                if let Some((port, _)) = self.hop(next, lid) {
                    onward[switch][usize::from(exit)][usize::from(port / 64)] |= 1 << (port % 64);
                }
            }
            for &mlid in table.masks.keys() {
                self.add_multicast(switch, mlid, &mut onward);
            }
        }
        let mut marks: Vec<Vec<Mark>> = self
            .links
            .iter()
            .map(|ports| vec![Mark::New; ports.len()])
            .collect();
        let mut path = Vec::new();
        for switch in 0..self.links.len() {
            for port in 0..self.links[switch].len() {
                path.clear();
                if self.find_cycle((switch, port as u8), &onward, &mut marks, &mut path) {
                    return Some(path);
                }
            }
        }
        None
    }

    /// The exit port for a unicast LID, and the next switch. `None` if packets do not go to another
    /// switch, or the entry is overtaken.
    fn hop(&self, switch: usize, lid: usize) -> Option<(u8, usize)> {
        let exit = self.tables[switch].exit(lid)?;
        if self.overtaken.contains(&(switch, lid)) {
            return None;
        }
        let next = *self.links[switch].get(usize::from(exit))?;
        next.map(|(next, _)| (exit, next))
    }

    /// For each link on which packets to a multicast LID leave a switch, adds the exits that these
    /// packets take at the next switch.
    fn add_multicast(&self, switch: usize, mlid: u16, onward: &mut [Vec<[u64; 4]>]) {
        let exits = self.tables[switch].exits(mlid);
        for (exit, link) in self.links[switch].iter().enumerate() {
            let Some((next, entry)) = *link else { continue };
            if exits[exit / 64] >> (exit % 64) & 1 == 0 {
                continue;
            }
            let mut next_exits = self.tables[next].exits(mlid);
            next_exits[usize::from(entry / 64)] &= !(1 << (entry % 64));
            for (word, bits) in onward[switch][exit].iter_mut().zip(next_exits) {
                *word |= bits;
            }
        }
    }

    /// Searches depth first, at most as deep as the number of links, which is small here. Returns
    /// whether a cycle was found; `path` then contains exactly this cycle.
    fn find_cycle(
        &self,
        channel: (usize, u8),
        onward: &[Vec<[u64; 4]>],
        marks: &mut [Vec<Mark>],
        path: &mut Vec<(usize, u8)>,
    ) -> bool {
        let (switch, port) = channel;
        match marks[switch][usize::from(port)] {
            Mark::Done => return false,
            Mark::OnPath => {
                let start = path.iter().position(|&passed| passed == channel);
                path.drain(..start.unwrap_or(0));
                return true;
            }
            Mark::New => {}
        }
        let Some((next, _)) = self.links[switch][usize::from(port)] else {
            return false;
        };
        marks[switch][usize::from(port)] = Mark::OnPath;
        path.push(channel);
        for (word, &bits) in onward[switch][usize::from(port)].iter().enumerate() {
            let mut rest = bits;
            while rest != 0 {
                let exit = (word * 64) as u8 + rest.trailing_zeros() as u8;
                rest &= rest - 1;
                let exists = usize::from(exit) < self.links[next].len();
                if exists && self.find_cycle((next, exit), onward, marks, path) {
                    return true;
                }
            }
        }
        path.pop();
        marks[switch][usize::from(port)] = Mark::Done;
        false
    }
}

/// The state of a link in the search for a cycle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}
