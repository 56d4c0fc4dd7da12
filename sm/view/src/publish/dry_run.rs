//! Report of the Sets that rsm would send, as printed by `rsm --dry-run`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rsm_hardware::link_step::LinkStep;
use rsm_hardware::push::{AdaptiveStep, Foreseen, PortStep, Task};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, MulticastForwardingTable, PKey, PKeyTable, PortInfo,
};
use rsm_mad::wire::fields;
use rsm_model::lft_image::LFT_BLOCK;
use rsm_state::{Handover, Snapshot};
use serde::Serialize;

use super::routes_compared::RoutesCompared;
use super::summary::OnceReport;

/// Exit code of `rsm --dry-run` if it would send any Set.
pub const WOULD_SET: u8 = 3;

/// The Sets that would bring a subnet to rsm's plan for it, and the state of the subnet.
#[derive(Clone, Debug, Serialize)]
pub struct DryRunReport {
    /// Number of Sets.
    pub would_set: usize,
    /// Devices that would be written, in ascending order of GUID.
    pub nodes: Vec<NodeChanges>,
    /// Sets in the order in which they would be sent.
    pub sets: Vec<SetEntry>,
    /// Sets of a takeover that are not among `sets`.
    pub takeover: TakeoverSets,
    /// Comparison of the routes that switches hold with the planned routes; `None` if they are
    /// equal, or if the held routes reach no host.
    pub routes: Option<RoutesCompared>,
    /// The subnet as it was read.
    pub subnet: OnceReport,
}

/// Counts of the ports that a takeover sets although they hold the plan.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct TakeoverSets {
    /// Number of ports whose hosts get ClientReregister at the first start with a store, and then
    /// register again with the SA.
    pub reregistered: usize,
    /// Number of ports that get another MasterSMLID, because the current manager uses another
    /// port.
    pub new_master_lids: usize,
    /// Number of PortInfo Sets for both purposes that are not among [`DryRunReport::sets`].
    pub more_sets: usize,
}

/// Counts of the Sets for one device.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct NodeChanges {
    /// Node GUID of the device.
    pub guid: String,
    /// Node description of the device.
    pub name: String,
    /// Number of SwitchInfo Sets.
    pub switch_info: usize,
    /// Number of PortInfo Sets.
    pub port_info: usize,
    /// Number of blocks of the linear forwarding table, without interim blocks.
    pub lft_blocks: usize,
    /// Number of entries of the linear forwarding table that would change.
    pub(crate) lft_entries: usize,
    /// Number of blocks with interim entries, which keep old and new routes from closing a credit
    /// loop together.
    pub(crate) interim_lft_blocks: usize,
    /// Number of blocks of the multicast forwarding table.
    pub mft_blocks: usize,
    /// Number of P_KeyTable blocks.
    pub(crate) p_key_blocks: usize,
    /// Number of SLtoVLMappingTables.
    pub(crate) sl_to_vl_tables: usize,
    /// Number of GUIDInfo blocks.
    pub guid_blocks: usize,
    /// Number of other attributes, including vendor-specific ones.
    pub others: usize,
}

/// A Set that would be sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetEntry {
    /// Node GUID of the device.
    pub guid: String,
    /// Node description of the device.
    pub name: String,
    /// Name of the attribute.
    pub attribute: String,
    /// Attribute modifier.
    pub modifier: u32,
    /// The part that the modifier selects, such as `block 0` or `port 3`; empty for the whole
    /// device.
    pub part: String,
    /// Reason for the Set.
    pub reason: &'static str,
    /// Fields or entries that would change.
    pub changes: Vec<FieldChange>,
}

/// A field, or an entry of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FieldChange {
    /// The specification's name of the field, or an entry such as `LID 5`, `MLID 0xc001`, `index
    /// 0`.
    pub field: String,
    /// Value that the device holds; null if it is unknown.
    pub from: Option<String>,
    /// Value that the Set would write.
    pub to: String,
}

impl DryRunReport {
    /// Reports `sets`, which are predicted for the subnet of `inventory` and `snapshot`.
    pub fn of(sets: &[Foreseen], inventory: &Inventory, snapshot: &Snapshot) -> DryRunReport {
        let mut nodes: BTreeMap<Guid, NodeChanges> = BTreeMap::new();
        let mut entries = Vec::with_capacity(sets.len());
        for set in sets {
            let guid = set.order.target;
            let name = inventory
                .hardware
                .node(guid)
                .map(|_| inventory.hardware.name(guid));
            let entry = SetEntry {
                guid: guid.to_string(),
                name: name.unwrap_or_default(),
                attribute: set.order.attribute.to_string(),
                modifier: set.order.modifier,
                part: part_of_device(set.order.task),
                reason: reason(set),
                changes: changes(set),
            };
            let node = nodes.entry(guid).or_insert_with(|| NodeChanges {
                guid: entry.guid.clone(),
                name: entry.name.clone(),
                ..NodeChanges::default()
            });
            node.count(set.order.task, entry.changes.len());
            entries.push(entry);
        }
        DryRunReport {
            would_set: entries.len(),
            nodes: nodes.into_values().collect(),
            sets: entries,
            takeover: TakeoverSets::default(),
            routes: snapshot
                .plan
                .as_ref()
                .and_then(|plan| RoutesCompared::of(inventory, plan)),
            subnet: OnceReport::of(snapshot),
        }
    }

    /// Adds the Sets of a takeover. `sets` are the Sets of the report.
    #[must_use]
    pub fn with_handover(mut self, handover: &Handover, sets: &[Foreseen]) -> DryRunReport {
        let written: BTreeSet<PortKey> = sets
            .iter()
            .filter_map(|set| match set.order.task {
                Task::Port(key, _) => Some(key),
                _ => None,
            })
            .collect();
        let ports_set = handover.reregistered.union(&handover.new_master_lids);
        self.takeover = TakeoverSets {
            reregistered: handover.reregistered.len(),
            new_master_lids: handover.new_master_lids.len(),
            more_sets: ports_set.filter(|key| !written.contains(key)).count(),
        };
        self
    }

    /// The report as text: one line for each device; with `details`, also one line for each Set and
    /// each change.
    pub fn text(&self, details: bool) -> impl fmt::Display + '_ {
        Text {
            report: self,
            details,
        }
    }
}

impl NodeChanges {
    fn count(&mut self, task: Task, changes: usize) {
        match task {
            Task::Switch(_) | Task::MulticastTop(_) => self.switch_info += 1,
            Task::Port(..) | Task::Link(..) => self.port_info += 1,
            Task::Block {
                interim: Some(_), ..
            } => self.interim_lft_blocks += 1,
            Task::Block { .. } => {
                self.lft_blocks += 1;
                self.lft_entries += changes;
            }
            Task::Multicast { .. } => self.mft_blocks += 1,
            Task::PKeys(..) => self.p_key_blocks += 1,
            Task::SlToVl { .. } => self.sl_to_vl_tables += 1,
            Task::Managed(key) if key.attribute() == GuidInfo::ID => self.guid_blocks += 1,
            _ => self.others += 1,
        }
    }

    /// Lists the kinds of Sets with their numbers: `3 LFT blocks (17 entries), 1 PortInfo`.
    fn kinds_of_sets(&self) -> String {
        let named = [
            (self.switch_info, "SwitchInfo"),
            (self.port_info, "PortInfo"),
            (self.mft_blocks, "MulticastForwardingTable"),
            (self.p_key_blocks, "P_KeyTable"),
            (self.sl_to_vl_tables, "SLtoVLMappingTable"),
            (self.guid_blocks, "GUIDInfo"),
            (self.others, "other attributes"),
        ];
        let mut parts = Vec::new();
        if self.lft_blocks > 0 {
            parts.push(format!(
                "{} LinearForwardingTable ({} entries)",
                self.lft_blocks, self.lft_entries
            ));
        }
        if self.interim_lft_blocks > 0 {
            let interim = self.interim_lft_blocks;
            parts.push(format!("{interim} LinearForwardingTable (interim entries)"));
        }
        let others = named.into_iter().filter(|&(count, _)| count > 0);
        parts.extend(others.map(|(count, name)| format!("{count} {name}")));
        parts.join(", ")
    }
}

struct Text<'a> {
    report: &'a DryRunReport,
    details: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        write!(f, "{}", report.subnet.text())?;
        if let Some(routes) = &report.routes {
            write!(f, "{routes}")?;
        }
        if report.sets.is_empty() {
            writeln!(f, "nothing would be set: the subnet is as rsm plans it")?;
            return write!(f, "{}", report.takeover);
        }
        let (sets, nodes) = (report.would_set, report.nodes.len());
        writeln!(
            f,
            "nothing was set; rsm would send {sets} Sets to {nodes} devices:"
        )?;
        for node in &report.nodes {
            writeln!(
                f,
                "  {} ({}): {}",
                node.name,
                node.guid,
                node.kinds_of_sets()
            )?;
        }
        write!(f, "{}", report.takeover)?;
        if !self.details {
            return Ok(());
        }
        writeln!(f, "in this order:")?;
        for (number, set) in (1..).zip(&report.sets) {
            write!(
                f,
                "  {number} {} ({}): {}",
                set.name, set.guid, set.attribute
            )?;
            if !set.part.is_empty() {
                write!(f, " {}", set.part)?;
            }
            writeln!(f, ": {}", set.reason)?;
            for change in &set.changes {
                let from = change.from.as_deref().unwrap_or("unknown");
                writeln!(f, "      {}: {from} -> {}", change.field, change.to)?;
            }
        }
        Ok(())
    }
}

/// Writes one line for each kind of takeover Sets; nothing if there are no such Sets.
impl fmt::Display for TakeoverSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TakeoverSets {
            reregistered,
            new_master_lids,
            more_sets,
        } = self;
        if *more_sets == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "taking over, rsm also sends {more_sets} Sets of PortInfo, which change no route and no link:"
        )?;
        if *new_master_lids > 0 {
            writeln!(
                f,
                "  MasterSMLID of {new_master_lids} ports: this port is not the present manager's"
            )?;
        }
        if *reregistered > 0 {
            writeln!(
                f,
                "  ClientReregister to {reregistered} ports, at the first start with a store: their hosts register \
                 anew with the SA (sm.client_reregister)"
            )?;
        }
        Ok(())
    }
}

/// The part of a device that a Set concerns.
fn part_of_device(task: Task) -> String {
    match task {
        Task::Block { block, .. } => format!("block {block}"),
        Task::Multicast { at, .. } => format!("block {} position {}", at.block, at.position),
        Task::SlToVl { input, output, .. } => format!("from port {input} to port {output}"),
        Task::Port(PortKey { port, .. }, _) | Task::Link(PortKey { port, .. }, _) => {
            format!("port {port}")
        }
        Task::PKeys(PortKey { port, .. }, block) => format!("port {port} block {block}"),
        Task::Managed(key) => format!("port {} block {}", key.port.port, key.place.block),
        Task::Virtualization(key) => format!("port {}", key.port),
        Task::VPort(key, index) => format!("port {} vport {index}", key.port),
        Task::VPortPKeys(key, index, block) => {
            format!("port {} vport {index} block {block}", key.port)
        }
        _ => String::new(),
    }
}

fn reason(set: &Foreseen) -> &'static str {
    match set.order.task {
        Task::Switch(_) => {
            "LinearFDBTop or LifeTimeValue differ, or PortStateChange is to be cleared"
        }
        Task::MulticastTop(_) => "multicast LIDs in use differ",
        Task::Block {
            interim: Some(_), ..
        } => "interim entries, so that old and new routes close no credit loop together",
        Task::Block { .. } if set.before.is_none() => {
            "what the block holds is not known, or not trusted (sm.takeover)"
        }
        Task::Block { .. } => "routes differ from the plan",
        Task::Multicast { .. } => "multicast trees differ from the plan",
        Task::SlToVl { .. } => "the engine's routes need this mapping",
        Task::Port(_, PortStep::Configure) => "settings differ from the configuration",
        Task::Port(_, PortStep::Arm) => "the link is in Initialize: settings, and Armed",
        Task::Port(_, PortStep::Activate) => "both ends of the link are Armed",
        Task::Link(_, LinkStep::Bounce) => {
            "MTU or VLs differ, and only change while the link is down"
        }
        Task::Link(_, LinkStep::Disable) => {
            "an operator has disabled the port, or the host behind it sends traps without an end"
        }
        Task::Link(_, LinkStep::Enable) => "an operator enables the port",
        Task::PKeys(..) => "partitions differ from the configuration",
        Task::Managed(key) => key.place.managed().reason,
        Task::Virtualization(_) => {
            "virtual ports are not enabled, or VPortStateChange is to be cleared"
        }
        Task::VPort(..) => "LID or state of a virtual port differ from the plan",
        Task::VPortPKeys(..) => "partitions of a virtual port differ from the configuration",
        Task::Adaptive(_, AdaptiveStep::Prepare) => {
            "adaptive routing is off while its tables, or the forwarding table, change"
        }
        Task::Adaptive(_, AdaptiveStep::Enable) => "groups and entries are as planned",
        Task::Adaptive(..) => "groups or entries differ from the plan",
        Task::AdaptiveRouting(_) => {
            "adaptive routing is on, so that the forwarding table is not what forwards"
        }
    }
}

/// The changes that a Set would make, one for each field or entry.
fn changes(set: &Foreseen) -> Vec<FieldChange> {
    match set.order.task {
        Task::Block { block, .. } => entries(set, LFT_BLOCK, |data, index| {
            let lid = usize::from(block) * LFT_BLOCK + index;
            (format!("LID {lid}"), port_text(data[index]))
        }),
        Task::Multicast { at, .. } => {
            let first = usize::from(at.block) * MulticastForwardingTable::ENTRIES;
            let first_port =
                u16::from(at.position) * u16::from(MulticastForwardingTable::PORTS_PER_POSITION);
            entries(set, MulticastForwardingTable::ENTRIES, |data, index| {
                let mlid = Lid(Lid::MULTICAST_FIRST
                    .0
                    .saturating_add((first + index) as u16));
                let mask = MulticastForwardingTable::from_data(data)
                    .mask(index)
                    .unwrap_or(0);
                let ports: Vec<String> = (0..16)
                    .filter(|bit| mask >> bit & 1 != 0)
                    .map(|bit| (first_port + bit).to_string())
                    .collect();
                (
                    format!("MLID {mlid}"),
                    format!("ports [{}]", ports.join(" ")),
                )
            })
        }
        Task::PKeys(_, block) => entries(set, PKeyTable::ENTRIES, |data, index| {
            let keys = PKeyTable::from_data(data).p_keys();
            let key = keys.get(index).copied().unwrap_or(PKey::INVALID);
            let at = usize::from(block) * PKeyTable::ENTRIES + index;
            (format!("index {at}"), format!("{:#06x}", key.0))
        }),
        Task::Port(..) | Task::Link(..) => {
            let mut changes = attribute_changes(set);
            if PortInfo::from_data(&set.order.data).client_reregister() {
                changes.push(FieldChange {
                    field: "ClientReregister".to_owned(),
                    from: Some("0".to_owned()),
                    to: "1".to_owned(),
                });
            }
            changes
        }
        _ => attribute_changes(set),
    }
}

/// Entries of a table that would change; all entries of a block whose content is unknown.
fn entries(
    set: &Foreseen,
    count: usize,
    show: impl Fn(&[u8; 64], usize) -> (String, String),
) -> Vec<FieldChange> {
    let unread = set.before.is_none();
    (0..count)
        .filter_map(|index| {
            let (field, to) = show(&set.after, index);
            let from = set.before.as_ref().map(|before| show(before, index).1);
            (unread || from.as_ref() != Some(&to)).then_some(FieldChange { field, from, to })
        })
        .collect()
}

fn attribute_changes(set: &Foreseen) -> Vec<FieldChange> {
    let Some(table) = fields::of_attribute(set.order.attribute) else {
        return Vec::new();
    };
    table
        .iter()
        .filter_map(|field| {
            let from = set
                .before
                .as_ref()
                .map(|data| field.value(data).to_string());
            let to = field.value(&set.after).to_string();
            (from.as_ref() != Some(&to)).then(|| FieldChange {
                field: field.name.to_owned(),
                from,
                to,
            })
        })
        .collect()
}

/// Output port of a forwarding table entry, as text.
fn port_text(port: u8) -> String {
    match port {
        255 => "no path".to_owned(),
        port => format!("port {port}"),
    }
}
