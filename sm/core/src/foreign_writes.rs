//! Foreign writes: devices whose content differs from the content that this manager wrote. This
//! module decides what light sweeps read back, and reports the differences.
//!
//! The pass that finds a difference writes the planned content. If a node differs repeatedly, light
//! sweeps read it back less and less often: an attacker, or a switch with arbitrary answers, causes
//! at most one plan and one push per minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_hardware::diff::Comparison;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::read_back::{Overwritten, ReadBack, Samples, SwitchField};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_model::InventoryPort;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::managed::BlockPlace;
use rsm_model::mft_image::MftBlock;
use rsm_model::port_info::{FieldIndex, FieldMask};

use super::work::doubled;

/// Maximum number of settings that a light sweep reads back; also its maximum number of table
/// blocks. With 250 switches and the default interval, a foreign write is found within a minute.
const SAMPLES: usize = 8192;

/// Maximum number of settings, and of table blocks, that a light sweep reads back from one switch;
/// the minimum is one.
const SAMPLES_OF_SWITCH: usize = 32;

/// Pause before a node is read back again after a second successive difference. Each further
/// difference doubles the pause.
const PAUSE_FIRST: Duration = Duration::from_secs(10);

/// Longest pause before a node is read back again.
const PAUSE_LAST: Duration = Duration::from_secs(60);

/// Time for which the differences of a node are kept, and shown as a finding, after the last
/// difference.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Number of light sweeps for which a Set with an unanswered attempt may explain a difference: one
/// hour at the default interval. Even in large subnets, light sweeps read much of each switch in
/// that time.
const LATE_SET_TURNS: u64 = 360;

/// Maximum number of nodes with a separate finding. Nodes with an earlier first difference take
/// precedence.
const MAX_NODE_FINDINGS: usize = 64;

/// Maximum number of blocks, and of ports, that a finding names.
const MAX_NAMES: usize = 5;

/// The nodes whose content differed from the content that this manager wrote.
#[derive(Default)]
pub(super) struct ForeignWrites {
    /// Number of the last light sweep that read back.
    turn: u64,
    /// Whether a report of a change ended the last reading back.
    is_cut_short: bool,
    nodes: BTreeMap<Guid, ForeignWrite>,
    /// Nodes that left an attempt of a Set unanswered, or that may have been reset, each with the
    /// value of `turn` at that time. A node may execute that attempt after it has acknowledged a
    /// later Set, and a Set under way hides a reset.
    late: BTreeMap<Guid, u64>,
}

impl ForeignWrites {
    /// Records that a node left an attempt of a Set unanswered.
    pub(super) fn record_late_set(&mut self, node: Guid) {
        self.late.insert(node, self.turn);
    }

    /// Whether a late Set of this manager may have caused the difference of a node. Forgets the
    /// late Set, which explains only one difference.
    fn take_late_set(&mut self, node: Guid) -> bool {
        self.late.remove(&node).is_some()
    }
}

/// Differences of one node so far.
#[derive(Debug)]
struct ForeignWrite {
    // The content that differed, as in `Overwritten`.
    fields: BTreeSet<SwitchField>,
    blocks: BTreeSet<u16>,
    masks: BTreeSet<MftBlock>,
    p_keys: BTreeSet<(PortNum, u16)>,
    managed: BTreeSet<(PortNum, BlockPlace)>,
    /// Ports whose PortInfo differed, each with the fields.
    ports: BTreeMap<PortNum, FieldMask>,
    /// Number of light sweeps that found a difference.
    sweeps: u32,
    /// Number of light sweeps in the present series that found a difference; 0 without a series.
    /// The series of a switch ends when a reading of the whole switch finds no difference.
    sweeps_in_series: u32,
    /// Time of the first difference.
    first: Time,
    /// Time of the last difference.
    last: Time,
    /// Time until which light sweeps read nothing back from the node.
    paused_until: Time,
}

impl ForeignWrite {
    /// A node without differences so far.
    fn new(now: Time) -> ForeignWrite {
        ForeignWrite {
            fields: BTreeSet::new(),
            blocks: BTreeSet::new(),
            masks: BTreeSet::new(),
            p_keys: BTreeSet::new(),
            managed: BTreeSet::new(),
            ports: BTreeMap::new(),
            sweeps: 0,
            sweeps_in_series: 0,
            first: now,
            last: now,
            paused_until: now,
        }
    }

    /// Adds the differences that a light sweep found; `ports` are the overwritten fields of
    /// PortInfo, by port.
    fn add(&mut self, overwritten: Overwritten, ports: BTreeMap<PortNum, FieldMask>, now: Time) {
        self.fields.extend(overwritten.fields);
        self.blocks.extend(overwritten.blocks);
        self.masks.extend(overwritten.masks);
        self.p_keys.extend(overwritten.p_keys);
        self.managed.extend(overwritten.managed);
        for (port, fields) in ports {
            self.ports.entry(port).or_default().0 |= fields.0;
        }
        self.sweeps = self.sweeps.saturating_add(1);
        self.last = now;
        let pause = match self.sweeps_in_series {
            0 => Duration::ZERO,
            sweeps => doubled(PAUSE_FIRST, sweeps - 1, PAUSE_LAST),
        };
        self.paused_until = now + pause;
        self.sweeps_in_series = self.sweeps_in_series.saturating_add(1);
    }

    /// The ports whose LID differed from the LID that this manager had set.
    fn ports_with_other_lids(&self) -> impl Iterator<Item = PortNum> + '_ {
        let lid = FieldMask(1 << FieldIndex::BaseLid as u32);
        let ports = self.ports.iter();
        let ports = ports.filter(move |(_, fields)| !fields.and(lid).is_empty());
        ports.map(|(&port, _)| port)
    }

    /// The content that differed, as one phrase for a finding.
    fn differing_content(&self) -> String {
        let blocks = self.blocks.iter().map(u16::to_string);
        let masks = self.masks.iter();
        let masks = masks.map(|mask| format!("{} position {}", mask.block, mask.position));
        let p_keys = self.p_keys.iter();
        let p_keys = p_keys.map(|(port, block)| format!("{port} block {block}"));
        let managed = self.managed.iter();
        let managed = managed.map(|(port, block)| {
            let name = block.managed().name;
            format!("{name} of port {port}, block {}", block.block)
        });
        let fields: Vec<&str> = self.fields.iter().map(|field| field.name()).collect();
        let ports = self.ports.iter();
        let ports = ports.map(|(port, fields)| format!("{port} ({})", fields.names().join(", ")));
        let parts = [
            ("its forwarding table, block ", shortened(blocks)),
            ("its multicast forwarding table, block ", shortened(masks)),
            ("", (!fields.is_empty()).then(|| fields.join(", "))),
            ("PortInfo of port ", shortened(ports)),
            ("P_KeyTable of port ", shortened(p_keys)),
            ("", shortened(managed)),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(content, names)| Some(format!("{content}{}", names?)));
        parts.collect::<Vec<_>>().join("; ")
    }
}

/// The first [`MAX_NAMES`] names, and the number of further names; `None` without any name.
fn shortened(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let text = names.join(", ");
    match (text.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(text),
        (false, more) => Some(format!("{text} and {more} more")),
    }
}

impl ForeignWrites {
    /// Forgets nodes without a difference for [`KEPT_FOR`]. Returns whether it forgot a node.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let count_before = self.nodes.len();
        self.nodes
            .retain(|_, write| now.since(write.last) < KEPT_FOR);
        self.nodes.len() < count_before
    }

    /// Forgets all nodes, because another manager was master and may have written them.
    pub(super) fn forget_all(&mut self) {
        self.nodes.clear();
    }

    /// The queries with which the next light sweep reads back. The sweep leaves out `failing`, the ports with failed
    /// Sets.
    pub(super) fn next_samples(
        &mut self,
        inventory: &Inventory,
        failing: BTreeSet<PortKey>,
        now: Time,
    ) -> Samples {
        let was_cut_short = std::mem::take(&mut self.is_cut_short);
        if !was_cut_short {
            self.turn = self.turn.wrapping_add(1);
        }
        let turn = self.turn;
        self.late
            .retain(|_, &mut set_turn| turn.wrapping_sub(set_turn) < LATE_SET_TURNS);
        let nodes = self.nodes.iter();
        let nodes_with = |keep: fn(&ForeignWrite, Time) -> bool| {
            let nodes = nodes.clone().filter(|(_, write)| keep(write, now));
            nodes.map(|(&guid, _)| guid).collect()
        };
        let switches = inventory.hardware.switches().count().max(1);
        Samples {
            per_list: (SAMPLES / switches).clamp(1, SAMPLES_OF_SWITCH),
            turn,
            whole: nodes_with(|write, _| write.sweeps_in_series > 0),
            paused: nodes_with(|write, now| write.paused_until > now),
            failing,
            // Under reports without end, every second light sweep still reads back all of its parts.
            yields_to_reports: !was_cut_short,
        }
    }

    /// Records the differences that a light sweep found; called before a push writes the planned
    /// content. `comparison` compares the hardware with the plan in force. Returns whether a
    /// foreign write was recorded.
    pub(super) fn record_differences(
        &mut self,
        read_back: &mut ReadBack,
        inventory: &Inventory,
        comparison: Option<&Comparison>,
        now: Time,
    ) -> bool {
        self.is_cut_short |= read_back.is_ended();
        for switch in read_back.take_lost_settings() {
            // A reset that a Set under way has hidden explains a difference as a late Set does.
            self.record_late_set(switch);
        }
        for guid in read_back.read_as_a_whole() {
            if !read_back.is_overwritten(guid)
                && let Some(write) = self.nodes.get_mut(&guid)
            {
                write.sweeps_in_series = 0;
            }
        }
        self.end_series_of_hosts(inventory, now);
        let mut has_recorded = false;
        for (guid, mut overwritten) in read_back.take_overwritten() {
            let ports = overwritten_ports(guid, &overwritten, comparison);
            let active = |port| active_port(inventory, PortKey::new(guid, port));
            overwritten.p_keys.retain(|&(port, block)| {
                let image = active(port).and_then(|port| port.p_keys.as_deref());
                image.is_some_and(|image| image.is_known(block))
            });
            overwritten.managed.retain(|&(port, place)| {
                active(port).is_some_and(|port| port.managed.is_known(place))
            });
            if ports.is_empty() && !overwritten.has_blocks() {
                continue;
            }
            if self.take_late_set(guid) {
                continue;
            }
            let write = self
                .nodes
                .entry(guid)
                .or_insert_with(|| ForeignWrite::new(now));
            write.add(overwritten, ports, now);
            has_recorded = true;
        }
        has_recorded
    }

    /// Ends the series of each host without a difference for twice the longest pause: no sweep
    /// reads a whole host back, as the end of a switch's series requires.
    fn end_series_of_hosts(&mut self, inventory: &Inventory, now: Time) {
        for (&guid, write) in &mut self.nodes {
            if !inventory.hardware.is_switch(guid) && now.since(write.last) > 2 * PAUSE_LAST {
                write.sweeps_in_series = 0;
            }
        }
    }

    /// GUIDs of the ports whose LID was overwritten, until [`KEPT_FOR`] after the last difference
    /// of their node.
    pub(super) fn ports_with_other_lids(&self, inventory: &Inventory) -> BTreeSet<Guid> {
        let keys = self.nodes.iter().flat_map(|(&guid, write)| {
            let ports = write.ports_with_other_lids();
            ports.map(move |port| PortKey::new(guid, port))
        });
        keys.filter_map(|key| Some(inventory.hardware.port(key)?.guid))
            .collect()
    }

    /// Findings about the nodes whose content differed. `have_one_key` says whether all ports have
    /// the same M_Key.
    pub(super) fn findings(&self, inventory: &Inventory, have_one_key: bool) -> Vec<Finding> {
        let (kind, nodes) = (FindingKind::ForeignWrite, &self.nodes);
        let remedy = match have_one_key {
            true => {
                "give each port an M_Key of its own, which keeps others from writing (sm.m_keys = \"per-port\")"
            }
            false => "if the node holds its own M_Key, others know the key: rsmctl rotate-m-keys",
        };
        let mut nodes: Vec<(&Guid, &ForeignWrite)> = nodes.iter().collect();
        nodes.sort_by_key(|(guid, write)| (write.first, **guid));
        let more = nodes.len().saturating_sub(MAX_NODE_FINDINGS);
        let findings = nodes.into_iter().take(MAX_NODE_FINDINGS).map(|(&guid, write)| {
            let times = match write.sweeps {
                1 => "once".to_owned(),
                times => format!("{times} times in light sweeps"),
            };
            let text = format!(
                "{} held other values than this manager had written: {}; packets may have been lost or gone astray; found {times} \
                 and written as planned each time; another host or manager sends it Sets, or it loses its tables: {remedy}",
                inventory.hardware.name(guid),
                write.differing_content()
            );
            let severity = match write.sweeps_in_series {
                0 | 1 => Severity::Warning,
                _ => Severity::Error,
            };
            Finding::new(kind, Subject::Node(guid), severity, text)
        });
        let more = (more > 0).then(|| {
            let text = format!(
                "{more} more nodes held other values than this manager had written, which were written as planned: {remedy}"
            );
            Finding::new(kind, Subject::Subnet, Severity::Warning, text)
        });
        findings.chain(more).collect()
    }
}

/// The port, if it is Active. `None` for other ports, which may have been reset and lost their
/// tables.
fn active_port(inventory: &Inventory, key: PortKey) -> Option<&InventoryPort> {
    inventory.hardware.port(key).filter(|port| port.is_active())
}

/// The fields of PortInfo that were as planned and no longer are as planned, by port of the node
/// `guid`. Empty without a `comparison`.
fn overwritten_ports(
    guid: Guid,
    overwritten: &Overwritten,
    comparison: Option<&Comparison>,
) -> BTreeMap<PortNum, FieldMask> {
    let Some(comparison) = comparison else {
        return BTreeMap::new();
    };
    let ports = overwritten.ports.iter();
    let fields = ports.map(|(&port, before)| (port, comparison.diverged(guid, port, before)));
    fields.filter(|(_, fields)| !fields.is_empty()).collect()
}
