//! A QoS policy, in the form in which queries are matched.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::Mtu;
use rsm_mad::wire::sa::Rate;

use super::ranges::Ranges;

/// A QoS policy: the level of each query for paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosPolicy {
    /// File that defines the policy.
    pub file: PathBuf,
    /// Groups of ports, including the groups made from rules for services.
    pub groups: Vec<PortGroup>,
    /// Levels, including the levels made from rules for services.
    pub levels: Vec<QosLevel>,
    /// Rules in the order of comparison; the first match counts.
    pub rules: Vec<MatchRule>,
    /// Index of the level for queries that match no rule.
    pub default_level: usize,
}

/// A group of ports.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PortGroup {
    /// Line of the definition, from 1.
    pub line: usize,
    /// Name of the group.
    pub name: String,
    /// The operator's description.
    pub description: String,
    /// Port GUIDs.
    pub guids: Ranges,
    /// Ports by NodeDescription and number.
    pub ports: BTreeSet<(String, PortNum)>,
    /// P_Keys without the membership bit, for the members of these partitions.
    pub p_keys: Ranges,
    /// Names of partitions, for their members.
    pub partitions: BTreeSet<String>,
    /// Kinds of nodes, for all of their ports.
    pub kinds: BTreeSet<GroupKind>,
}

/// Ports by the kind of their node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupKind {
    /// Channel adapters.
    ChannelAdapter,
    /// Switches.
    Switch,
    /// Routers.
    Router,
    /// The port of the subnet manager.
    Own,
}

impl GroupKind {
    /// Every kind, with its word in the file.
    pub(super) const WORDS: [(&'static str, &'static [GroupKind]); 5] = [
        ("CA", &[GroupKind::ChannelAdapter]),
        ("SWITCH", &[GroupKind::Switch]),
        ("ROUTER", &[GroupKind::Router]),
        ("SELF", &[GroupKind::Own]),
        (
            "ALL",
            &[
                GroupKind::ChannelAdapter,
                GroupKind::Switch,
                GroupKind::Router,
            ],
        ),
    ];
}

/// A QoS level: the limits of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosLevel {
    /// Line of the definition, from 1.
    pub line: usize,
    /// Name of the level.
    pub name: String,
    /// The operator's description.
    pub description: String,
    /// Service level of the path's packets, 0 to 15.
    pub sl: u8,
    /// Maximum MTU; `None` for no limit.
    pub mtu: Option<Mtu>,
    /// Maximum rate; `None` for no limit.
    pub rate: Option<Rate>,
    /// PacketLifeTime, 0 to 63: 4.096 us * 2^n; `None` for the default.
    pub packet_life: Option<u8>,
    /// Path bits of LIDs. As with OpenSM, they are parsed but select no path.
    pub path_bits: Ranges,
    /// P_Keys without the membership bit; empty for any.
    pub p_keys: Ranges,
}

/// Criteria for queries, and the level of queries that meet all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchRule {
    /// Line of the definition, from 1.
    pub line: usize,
    /// The operator's description, or the rule for a service as written.
    pub description: String,
    /// Indices of groups, one of which must contain the source; empty for any source.
    pub sources: Vec<usize>,
    /// Indices of groups, one of which must contain the destination; empty for any destination.
    pub destinations: Vec<usize>,
    /// QoSClass of the query; empty for any.
    pub qos_classes: Ranges,
    /// ServiceID of the query; empty for any.
    pub service_ids: Ranges,
    /// P_Key of the query, without the membership bit; empty for any.
    pub p_keys: Ranges,
    /// Index of the level.
    pub level: usize,
}

impl MatchRule {
    /// Whether every query matches.
    pub fn is_open(&self) -> bool {
        let lists = [&self.qos_classes, &self.service_ids, &self.p_keys];
        self.sources.is_empty()
            && self.destinations.is_empty()
            && lists.into_iter().all(Ranges::is_empty)
    }
}

impl QosPolicy {
    /// The level for queries that match no rule.
    ///
    /// # Panics
    ///
    /// Never panics for a policy that was read from a file.
    pub fn default_level(&self) -> &QosLevel {
        &self.levels[self.default_level]
    }

    /// The level of a rule.
    ///
    /// # Panics
    ///
    /// Panics for a rule of another policy.
    pub fn level_of(&self, rule: &MatchRule) -> &QosLevel {
        &self.levels[rule.level]
    }

    /// The SLs that the policy assigns to paths, ascending.
    pub fn service_levels(&self) -> BTreeSet<u8> {
        let of_rules = self.rules.iter().map(|rule| self.level_of(rule).sl);
        of_rules.chain([self.default_level().sl]).collect()
    }

    /// The criteria of a rule in words.
    pub fn criteria(&self, rule: &MatchRule) -> String {
        let names = |groups: &[usize]| {
            let names = groups.iter().map(|&group| self.groups[group].name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let mut all = Vec::new();
        for (name, groups) in [("from", &rule.sources), ("to", &rule.destinations)] {
            if !groups.is_empty() {
                all.push(format!("{name} {}", names(groups)));
            }
        }
        let lists = [
            ("QoS class", &rule.qos_classes),
            ("service ID", &rule.service_ids),
            ("P_Key", &rule.p_keys),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        all.extend(lists.map(|(name, list)| format!("{name} {list}")));
        if all.is_empty() {
            return "any query".to_owned();
        }
        all.join("; ")
    }
}

/// Formats the limits of a level in words.
impl fmt::Display for QosLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SL {}", self.sl)?;
        if let Some(bytes) = self.mtu.and_then(Mtu::bytes) {
            write!(f, ", MTU up to {bytes}")?;
        }
        if let Some(tenths) = self.rate.and_then(Rate::tenth_gbps) {
            write!(f, ", up to {}", tenths / 10)?;
            if tenths % 10 != 0 {
                write!(f, ".{}", tenths % 10)?;
            }
            f.write_str(" Gb/s")?;
        }
        if let Some(life) = self.packet_life {
            write!(f, ", packet life time {life}")?;
        }
        if !self.p_keys.is_empty() {
            write!(f, ", P_Key {}", self.p_keys)?;
        }
        Ok(())
    }
}
