//! Builds a QoS policy from the parsed sections.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::PortNum;
use rsm_mad::wire::sa::Rate;

use super::super::c_number::number;
use super::super::partitions::report::{Report, quoted};
use super::super::partitions::value::{mtu, rate};
use super::lines::{Block, Entry, Part};
use super::model::{GroupKind, MatchRule, PortGroup, QosLevel, QosPolicy};
use super::ranges::Ranges;
use super::ulp;

/// Name of the level for queries that match no rule.
const DEFAULT_LEVEL: &str = "DEFAULT";

/// Maximum number of rules, of groups and of levels: a query is compared with all rules.
pub(super) const ENTRIES_MAX: usize = 1024;

/// Highest P_Key without the membership bit.
const P_KEY_BASE: u64 = 0x7fff;

/// A policy under construction, with the reports about its text.
pub(super) struct Builder<'a, 'b> {
    pub(super) report: &'a mut Report<'b>,
    text: &'a str,
    pub(super) policy: QosPolicy,
    /// SL of `default` in `qos-ulps`, for queries that match no rule; `None` if there is no such
    /// entry.
    pub(super) simple_default: Option<u8>,
    /// Rules of `qos-ulps`, which follow all other rules.
    pub(super) services: Vec<MatchRule>,
    /// Index of the level for each SL that rules of `qos-ulps` use.
    simple_levels: BTreeMap<u8, usize>,
}

/// Builds the policy that `blocks` define.
pub(super) fn build(
    file: &Path,
    text: &str,
    blocks: &[Block<'_>],
    report: &mut Report<'_>,
) -> QosPolicy {
    let mut builder = Builder {
        report,
        text,
        policy: QosPolicy {
            file: file.to_owned(),
            groups: Vec::new(),
            levels: Vec::new(),
            rules: Vec::new(),
            default_level: 0,
        },
        simple_default: None,
        services: Vec::new(),
        simple_levels: BTreeMap::new(),
    };
    let sections =
        |keyword: &'static str| blocks.iter().filter(move |it| it.keyword.text == keyword);
    for block in sections("port-groups").flat_map(|block| &block.blocks) {
        builder.port_group(block);
    }
    for block in sections("qos-levels").flat_map(|block| &block.blocks) {
        builder.level(block);
    }
    for block in sections("qos-setup") {
        builder.setup(block);
    }
    // Groups and levels may be defined after the rules that name them.
    for block in sections("qos-match-rules").flat_map(|block| &block.blocks) {
        builder.rule(block);
    }
    for entry in sections("qos-ulps").flat_map(|block| &block.entries) {
        ulp::rule(&mut builder, entry);
    }
    builder.finish()
}

impl Builder<'_, '_> {
    /// Completes the policy: rules of `qos-ulps` follow all match rules, and the default level is
    /// the level named DEFAULT, or the service level of `default` in `qos-ulps`.
    fn finish(mut self) -> QosPolicy {
        self.policy.rules.append(&mut self.services);
        let is_default = |level: &QosLevel| level.name.eq_ignore_ascii_case(DEFAULT_LEVEL);
        let default = self.policy.levels.iter().position(is_default);
        match (default, self.simple_default) {
            (Some(level), _) => self.policy.default_level = level,
            (None, Some(sl)) => self.policy.default_level = self.simple_level(sl),
            (None, None) => {
                let end = self.text.trim_end().len();
                self.report.error(
                    end,
                    "no level for queries that match no rule",
                    "expected a `qos-level` with the name DEFAULT, or `default : SL` in `qos-ulps`",
                );
            }
        }
        let counts = [
            ("rules", self.policy.rules.len()),
            ("groups of ports", self.policy.groups.len()),
            ("levels", self.policy.levels.len()),
        ];
        for (name, count) in counts.into_iter().filter(|&(_, count)| count > ENTRIES_MAX) {
            let expected = format!("expected {ENTRIES_MAX} at most");
            self.report.error(0, format!("{count} {name}"), expected);
        }
        let open_rule = self.policy.rules.iter().position(MatchRule::is_open);
        let hidden_rule = open_rule.and_then(|open| self.policy.rules.get(open + 1));
        if let Some(rule) = hidden_rule {
            let offset = self.line_start(rule.line);
            self.report.warning(
                offset,
                "an earlier rule has no criteria, and matches every query",
                "this rule and those after it have no effect",
            );
        }
        self.policy
    }

    /// Index of the level for an SL that rules of `qos-ulps` use; adds the level, with OpenSM's
    /// name, at the first use of the SL.
    pub(super) fn simple_level(&mut self, sl: u8) -> usize {
        let levels = &mut self.policy.levels;
        *self.simple_levels.entry(sl).or_insert_with(|| {
            levels.push(QosLevel {
                line: 0,
                name: format!("SimpleQoSLevel_SL{sl}"),
                description: String::new(),
                sl,
                mtu: None,
                rate: None,
                packet_life: None,
                path_bits: Ranges::default(),
                p_keys: Ranges::default(),
            });
            levels.len() - 1
        })
    }

    /// Number, from 1, of the line that contains a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
            + 1
    }

    /// Byte offset of the start of a line, counted from 1.
    fn line_start(&self, line: usize) -> usize {
        let mut starts = self.text.match_indices('\n').map(|(offset, _)| offset + 1);
        line.checked_sub(2)
            .and_then(|index| starts.nth(index))
            .unwrap_or(0)
    }

    /// Parses a `port-group`.
    fn port_group(&mut self, block: &Block<'_>) {
        let mut group = PortGroup {
            line: self.line(block.keyword.offset),
            ..PortGroup::default()
        };
        let mut unique_keys = UniqueKeys::default();
        for entry in &block.entries {
            let value = entry.value;
            match entry.key.text {
                "name" if unique_keys.is_first(self, entry) => group.name = self.text_of(entry),
                "use" if unique_keys.is_first(self, entry) => group.description = value.plain(),
                "port-guid" => group.guids = group.guids.with(self.ranges(value, u64::MAX, GUIDS)),
                "pkey" => group.p_keys = group.p_keys.with(self.p_keys(value)),
                "port-name" => {
                    for item in value.items() {
                        group.ports.extend(self.port_name(item));
                    }
                }
                "partition" => {
                    let names = value.items().into_iter().map(Part::plain);
                    group
                        .partitions
                        .extend(names.filter(|name| !name.is_empty()));
                }
                "node-type" => {
                    for item in value.items() {
                        group.kinds.extend(self.kinds(item));
                    }
                }
                _ => {}
            }
        }
        self.require(block, &unique_keys, "name");
        let has_same_name = |other: &&PortGroup| other.name.eq_ignore_ascii_case(&group.name);
        if let Some(other) = self.policy.groups.iter().find(has_same_name) {
            let (found, expected) = duplicate_name(&group.name, other.line);
            self.report.error(block.keyword.offset, found, expected);
        }
        self.policy.groups.push(group);
    }

    /// Parses a port such as `host-1 HCA-1/P1` into the description of its node and its number.
    /// Reports an error and returns `None` if the text has another form.
    fn port_name(&mut self, item: Part<'_>) -> Option<(String, PortNum)> {
        let plain = item.plain();
        let port = plain.rsplit_once('/').and_then(|(node, port)| {
            let digits = port.strip_prefix(['P', 'p'])?;
            let port = number(digits).filter(|port| (1..=254).contains(port))?;
            (!node.is_empty()).then(|| (node.to_owned(), PortNum(port as u8)))
        });
        if port.is_none() {
            self.report.error(
                item.offset,
                quoted(item.text),
                "expected a description, a slash, P and the number of a port, such as `node-1 HCA-1/P1`",
            );
        }
        port
    }

    /// Parses a word of `node-type` into the kinds of nodes that it means. Reports an error and
    /// returns no kinds for an unknown word.
    fn kinds(&mut self, item: Part<'_>) -> &'static [GroupKind] {
        let word = GroupKind::WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(item.text));
        let Some((_, kinds)) = word else {
            let words = GroupKind::WORDS.map(|(word, _)| word).join(", ");
            let expected = format!("expected one of {words}");
            self.report.error(item.offset, quoted(item.text), expected);
            return &[];
        };
        kinds
    }

    /// Parses a `qos-level`.
    fn level(&mut self, block: &Block<'_>) {
        let mut level = QosLevel {
            line: self.line(block.keyword.offset),
            name: String::new(),
            description: String::new(),
            sl: 0,
            mtu: None,
            rate: None,
            packet_life: None,
            path_bits: Ranges::default(),
            p_keys: Ranges::default(),
        };
        let mut unique_keys = UniqueKeys::default();
        for entry in &block.entries {
            let value = entry.value;
            match entry.key.text {
                "path-bits" => {
                    let bits = self.ranges(value, 127, "expected numbers or ranges up to 127");
                    level.path_bits = level.path_bits.with(bits);
                }
                "pkey" => level.p_keys = level.p_keys.with(self.p_keys(value)),
                _ if !unique_keys.is_first(self, entry) => {}
                "name" => level.name = self.text_of(entry),
                "use" => level.description = value.plain(),
                "sl" => level.sl = self.sl(value).unwrap_or(0),
                "mtu-limit" => level.mtu = self.value(value, mtu(value.text), MTUS),
                "rate-limit" => {
                    level.rate = self.value(value, rate(value.text).map(Rate), RATES);
                }
                "packet-life" => {
                    let life = number(value.text).filter(|&life| life < 64);
                    let life = life.map(|life| life as u8);
                    level.packet_life = self.value(value, life, "expected 0 to 63");
                }
                _ => {}
            }
        }
        for key in ["name", "sl"] {
            self.require(block, &unique_keys, key);
        }
        if !level.path_bits.is_empty() {
            self.report.warning(
                block.keyword.offset,
                format!("`path-bits` of {}", quoted(&level.name)),
                "they choose no LIDs of paths, neither here nor with OpenSM",
            );
        }
        let has_same_name = |other: &&QosLevel| other.name.eq_ignore_ascii_case(&level.name);
        if let Some(other) = self.policy.levels.iter().find(has_same_name) {
            let (found, expected) = duplicate_name(&level.name, other.line);
            self.report.error(block.keyword.offset, found, expected);
        }
        self.policy.levels.push(level);
    }

    /// Parses a `qos-match-rule`.
    fn rule(&mut self, block: &Block<'_>) {
        let mut rule = MatchRule {
            line: self.line(block.keyword.offset),
            description: String::new(),
            sources: Vec::new(),
            destinations: Vec::new(),
            qos_classes: Ranges::default(),
            service_ids: Ranges::default(),
            p_keys: Ranges::default(),
            level: 0,
        };
        let mut unique_keys = UniqueKeys::default();
        for entry in &block.entries {
            let value = entry.value;
            match entry.key.text {
                "use" if unique_keys.is_first(self, entry) => rule.description = value.plain(),
                "qos-level-name" if unique_keys.is_first(self, entry) => {
                    rule.level = self.level_named(value).unwrap_or(0);
                }
                "source" => rule.sources.extend(self.groups_named(value)),
                "destination" => rule.destinations.extend(self.groups_named(value)),
                "qos-class" => {
                    let expected = "expected numbers or ranges up to 0xfff, such as 7-9,11";
                    rule.qos_classes = rule.qos_classes.with(self.ranges(value, 0xfff, expected));
                }
                "service-id" => {
                    let ids = self.ranges(value, u64::MAX, SERVICE_IDS);
                    rule.service_ids = rule.service_ids.with(ids);
                }
                "pkey" => rule.p_keys = rule.p_keys.with(self.p_keys(value)),
                _ => {}
            }
        }
        self.require(block, &unique_keys, "qos-level-name");
        self.policy.rules.push(rule);
    }

    /// Index of the level that `value` names. Reports an error and returns `None` if there is no
    /// such level.
    fn level_named(&mut self, value: Part<'_>) -> Option<usize> {
        let name = value.plain();
        let has_name = |level: &QosLevel| level.name.eq_ignore_ascii_case(&name);
        let level = self.policy.levels.iter().position(has_name);
        self.value(value, level, "expected the name of a `qos-level`")
    }

    /// Indices of the groups that `value` names. Reports an error for each name without a group.
    fn groups_named(&mut self, value: Part<'_>) -> Vec<usize> {
        let mut groups = Vec::new();
        for item in value.items() {
            let name = item.plain();
            let has_name = |group: &PortGroup| group.name.eq_ignore_ascii_case(&name);
            let group = self.policy.groups.iter().position(has_name);
            groups.extend(self.value(item, group, "expected the name of a `port-group`"));
        }
        groups
    }

    /// Checks the tables of `qos-setup`, which have no effect.
    fn setup(&mut self, block: &Block<'_>) {
        for scope in block.blocks.iter().flat_map(|tables| &tables.blocks) {
            for entry in &scope.entries {
                self.setup_entry(entry);
            }
        }
        self.report.warning(
            block.keyword.offset,
            "`qos-setup` has no effect, neither here nor with OpenSM",
            "the keys `sl2vl`, `vlarb_high`, `vlarb_low` and `high_limit` of section `qos` set tables",
        );
    }

    /// Checks an entry of a table of `qos-setup`.
    fn setup_entry(&mut self, entry: &Entry<'_>) {
        let value = entry.value;
        let is_up_to = |text: &str, most: u64| number(text).is_some_and(|number| number <= most);
        let items = value.items();
        let is_valid = match entry.key.text {
            "sl2vl-table" => items.len() == 16 && items.iter().all(|vl| is_up_to(vl.text, 15)),
            "vl-high-limit" => is_up_to(value.text, 255),
            "vlarb-high" | "vlarb-low" => items.iter().all(|item| {
                let pair = item.text.split_once(':');
                pair.is_some_and(|(vl, weight)| {
                    is_up_to(vl.trim(), 15) && is_up_to(weight.trim(), 255)
                })
            }),
            "from" | "to" if value.text != "*" => {
                self.ranges(
                    value,
                    254,
                    "expected `*`, or numbers or ranges of ports up to 254",
                );
                true
            }
            _ => true,
        };
        if !is_valid {
            let expected = match entry.key.text {
                "sl2vl-table" => "expected 16 VLs, 0 to 15, with commas between them",
                "vl-high-limit" => "expected 0 to 255",
                _ => "expected pairs of a VL, 0 to 15, and a weight, 0 to 255, such as 0:255,1:127",
            };
            self.report
                .error(value.offset, quoted(value.text), expected);
        }
    }

    /// The value of an entry without quotes. Reports an error if the value is empty.
    fn text_of(&mut self, entry: &Entry<'_>) -> String {
        let text = entry.value.plain();
        if text.is_empty() {
            let found = format!("`{}` without a value", entry.key.text);
            self.report
                .error(entry.value.offset, found, "expected a name");
        }
        text
    }

    /// Returns `parsed`, the value of `part`. Reports an error if it is `None`.
    fn value<T>(&mut self, part: Part<'_>, parsed: Option<T>, expected: &str) -> Option<T> {
        if parsed.is_none() {
            self.report.error(part.offset, quoted(part.text), expected);
        }
        parsed
    }

    /// Parses a service level. Reports an error and returns `None` unless it is 0 to 15.
    pub(super) fn sl(&mut self, part: Part<'_>) -> Option<u8> {
        let sl = number(part.text).filter(|&sl| sl < 16);
        self.value(
            part,
            sl.map(|sl| sl as u8),
            "expected a service level, 0 to 15",
        )
    }

    /// Parses P_Keys and ranges of P_Keys; the membership bit is ignored. A range that crosses
    /// 0x8000 has the P_Keys from its beginning to 0x7fff and the P_Keys from 0 to its end.
    pub(super) fn p_keys(&mut self, part: Part<'_>) -> Ranges {
        let expected = "expected P_Keys or ranges of them, such as 0x0f00-0x0fff";
        let mut keys = Vec::new();
        for (first, last) in self.pairs(part, 0xffff, expected) {
            match (first > P_KEY_BASE, last > P_KEY_BASE) {
                (false, true) => keys.extend([(first, P_KEY_BASE), (0, last & P_KEY_BASE)]),
                (true, false) => {
                    let ascending = "expected a range across 0x8000 in ascending order";
                    keys.extend(self.value::<(u64, u64)>(part, None, ascending));
                }
                _ => keys.push(ordered(first & P_KEY_BASE, last & P_KEY_BASE)),
            }
        }
        Ranges::of(keys)
    }

    /// Parses numbers and ranges of numbers up to `most`, separated by commas. The ends of a range
    /// may be in either order.
    pub(super) fn ranges(&mut self, part: Part<'_>, most: u64, expected: &str) -> Ranges {
        let pairs = self.pairs(part, most, expected);
        Ranges::of(pairs.into_iter().map(|(a, b)| ordered(a, b)).collect())
    }

    /// Parses numbers and ranges up to `most`, as (first, last) in the order of the text. Reports
    /// an error for each invalid number or range, and leaves it out.
    fn pairs(&mut self, part: Part<'_>, most: u64, expected: &str) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for item in part.items() {
            let (first, last) = item.text.split_once('-').unwrap_or((item.text, item.text));
            let end = |text: &str| number(text.trim()).filter(|&number| number <= most);
            let pair = end(first).zip(end(last));
            pairs.extend(self.value(item, pair, expected));
        }
        pairs
    }

    /// Reports an error if a block has no entry with this key.
    fn require(&mut self, block: &Block<'_>, unique_keys: &UniqueKeys<'_>, key: &str) {
        if !unique_keys.seen.iter().any(|&(seen, _)| seen == key) {
            let found = format!("`{}` without `{key}`", block.keyword.text);
            self.report
                .error(block.keyword.offset, found, format!("expected `{key}: …`"));
        }
    }
}

/// The expectation in errors about port GUIDs.
pub(super) const GUIDS: &str = "expected port GUIDs or ranges of them, such as 0x1000-0x10ff";
/// The expectation in errors about service IDs.
pub(super) const SERVICE_IDS: &str =
    "expected service IDs or ranges of them, such as 0x10000-0x1ffff";
/// The expectation in errors about MTUs.
const MTUS: &str = "expected the code of an MTU, 1 to 5, or its bytes, 256 to 4096";
/// The expectation in errors about rates.
const RATES: &str = "expected the code of a rate, 2 to 24, or Gb/s such as 100G";

/// The keys of a block so far that the block may have only once.
#[derive(Default)]
struct UniqueKeys<'a> {
    /// Each key with its byte offset.
    seen: Vec<(&'a str, usize)>,
}

impl<'a> UniqueKeys<'a> {
    /// Records the key of `entry`, and returns whether the block has it for the first time. Reports
    /// an error otherwise.
    fn is_first(&mut self, builder: &mut Builder<'_, '_>, entry: &Entry<'a>) -> bool {
        let key = entry.key;
        let earlier = self.seen.iter().find(|&&(seen, _)| seen == key.text);
        if let Some(&(_, offset)) = earlier {
            let line = builder.line(offset);
            let (found, expected) = (format!("a second `{}`", key.text), only_one_expected(line));
            builder.report.error(key.offset, found, expected);
            return false;
        }
        self.seen.push((key.text, key.offset));
        true
    }
}

/// Texts of the error about a block with the same name as the block in `line`: the mistake, and the
/// expectation.
fn duplicate_name(name: &str, line: usize) -> (String, String) {
    (
        format!("a second {}", quoted(name)),
        only_one_expected(line),
    )
}

/// The expectation in the error about a key or name that already stands in `line`.
fn only_one_expected(line: usize) -> String {
    format!("expected one only: the first is in line {line}")
}

/// The two numbers, the lower one first.
fn ordered(a: u64, b: u64) -> (u64, u64) {
    (a.min(b), a.max(b))
}
