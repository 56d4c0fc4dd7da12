//! Builds partitions from parsed definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;

use super::super::c_number::number;
use super::super::suggest::nearest;
use super::flags::{
    Flags, GroupFlags, definition_flags, find_name, flag_name, group_flag, membership,
};
use super::group::{ANY_BROADCAST, BROADCAST, IPOIB_Q_KEY, P_KEY_SHIFT, full, in_scopes};
use super::model::{
    Membership, Partition, PartitionGroup, PartitionMembers, PartitionOrigin, Partitions, Rule,
};
use super::protection::{Owned, OwnedKind, Protections, is_ip};
use super::report::{Report, quoted};
use super::syntax::{Definition, GroupLine, Item, Word};
use super::value;

/// Maximum length of a partition's name in characters.
const NAME_MAX: usize = 128;

const DEFAULT_NAME: &str = "Default";

/// The partitions if there is no file: all ports can communicate with each other, also over IP.
pub(super) fn without_file() -> Partitions {
    let mut builder = Builder::new(Membership::Full, false);
    let flags = Flags {
        ipoib: true,
        ..Flags::default()
    };
    builder.broadcast_groups(PKey::DEFAULT_LIMITED, &flags);
    builder.finish(None)
}

/// Builds the partitions of `definitions`. Faulty definitions are reported and skipped.
pub(super) fn build(
    file: &Path,
    definitions: &[Definition<'_>],
    allow_both: bool,
    report: &mut Report<'_>,
) -> Partitions {
    let mut builder = Builder::new(Membership::Limited, allow_both);
    let heads: Vec<_> = definitions
        .iter()
        .map(|definition| head(definition.head, report))
        .collect();
    let taken: BTreeSet<u16> = heads
        .iter()
        .filter_map(|head| Some((*head)?.1?.base()))
        .collect();
    // Name in the first definition of each partition.
    let mut first_names = BTreeMap::new();
    for (definition, head) in definitions.iter().zip(heads) {
        let flags = definition_flags(&definition.flags, allow_both, report);
        // Members are parsed even if the head is wrong, to report their errors as well.
        let p_key = head.and_then(|(name, p_key)| {
            builder.define(name, p_key, &flags, &taken, definition.head.name, report)
        });
        if let Some(p_key) = p_key {
            first_names
                .entry(p_key.base())
                .or_insert(definition.head.name);
        }
        let p_key = p_key.unwrap_or(PKey::INVALID);
        if flags.ipoib {
            builder.broadcast_groups(p_key, &flags);
        }
        for &item in &definition.members {
            if let Some(rule) = rule(item, p_key, &flags, allow_both, report) {
                builder.rules.push(rule);
            }
        }
        for line in &definition.groups {
            builder.group(line, p_key, &flags, report);
        }
        if let Some(mode) = flags.trust {
            builder.protections.set_trust(p_key, mode);
        }
        for &(kind, word) in &definition.owned {
            builder.add_owned_prefix(kind, word, p_key, report);
        }
    }
    warn_of_limited_partitions(&builder.rules, &first_names, report);
    builder.finish(Some(file))
}

/// Warns about each partition whose members are all limited: limited members can communicate only
/// with full members, and there are none. Partitions with a rule for all ports do not count,
/// because full members may be added to them. Errors of the file take precedence, because a file
/// with an error defines nothing.
fn warn_of_limited_partitions(
    rules: &[Rule],
    first_names: &BTreeMap<u16, Word<'_>>,
    report: &mut Report<'_>,
) {
    if report.has_errors() {
        return;
    }
    let mut are_limited: BTreeMap<u16, bool> = BTreeMap::new();
    // The subnet manager's own limited port does not count, because it offers nothing to hosts.
    let is_counted = |rule: &&Rule| {
        rule.membership != Membership::Limited || rule.members != PartitionMembers::Own
    };
    for rule in rules.iter().filter(is_counted) {
        let is_limited =
            rule.membership == Membership::Limited && rule.members != PartitionMembers::All;
        *are_limited.entry(rule.p_key.base()).or_insert(true) &= is_limited;
    }
    for (_, at) in first_names
        .iter()
        .filter(|(p_key, _)| are_limited.get(p_key) == Some(&true))
    {
        let found = format!("all members of {} are limited", quoted(at.text));
        let expected = "limited members talk to full members only, and so not to each other: give those that all \
                        others talk to, such as servers, `=full`, or all by `defmember=full` before the colon";
        report.warning(at.offset, found, expected);
    }
}

/// Parses the name and the P_Key of a definition; the P_Key is `None` if the definition has none.
/// Returns `None` after an error.
fn head<'a>(item: Item<'a>, report: &mut Report<'_>) -> Option<(&'a str, Option<PKey>)> {
    let Item { name, value } = item;
    let (name, p_key) = match value {
        Some(value) => (name.text, Some(value)),
        None if name.text.starts_with(|c: char| c.is_ascii_digit()) => ("", Some(name)),
        None => (name.text, None),
    };
    let printable = !name.chars().any(char::is_control);
    if !printable || name.chars().nth(NAME_MAX).is_some() {
        let expected = format!("expected a name of up to {NAME_MAX} printable characters");
        report.error(item.name.offset, quoted(name), expected);
        return None;
    }
    let Some(word) = p_key else {
        return Some((name, None));
    };
    match number(word.text).and_then(|value| u16::try_from(value).ok()) {
        Some(key) if PKey(key).is_valid() => Some((name, Some(PKey(PKey(key).base())))),
        _ => {
            let found = format!("P_Key {}", quoted(word.text));
            let expected = "expected 0x0001 to 0x7fff, with or without the bit 0x8000";
            report.error(word.offset, found, expected);
            None
        }
    }
}

/// The rule of an entry in a list of members; `None` for the member `NONE`, and after an error.
fn rule(
    item: Item<'_>,
    p_key: PKey,
    flags: &Flags,
    allow_both: bool,
    report: &mut Report<'_>,
) -> Option<Rule> {
    let members = members(item.name, report);
    let membership = match item.value {
        Some(value) => membership(value, allow_both, report)?,
        None => flags.membership,
    };
    Some(Rule {
        p_key,
        members: members?,
        membership,
        index0: flags.index0,
    })
}

/// Words that stand for members, and the first word of a line about a group.
const MEMBERS: [&str; 8] = [
    "ALL",
    "ALL_CAS",
    "ALL_SWITCHES",
    "ALL_ROUTERS",
    "ALL_VCAS",
    "SELF",
    "NONE",
    "mgid",
];

/// Whether a member is probably the name of a host, or a range or pattern of names, and not a
/// misspelt word.
fn is_host_name(text: &str) -> bool {
    let is_of_names = |c: char| c.is_lowercase() || "-.[]*?".contains(c);
    let looks_like_name = !text.contains(' ') && text.contains(is_of_names);
    looks_like_name
        && value::keyword(text, &MEMBERS).is_none()
        && nearest(text, MEMBERS.into_iter()).is_none()
}

/// Parses a member: a port GUID, or a word that stands for several ports.
fn members(word: Word<'_>, report: &mut Report<'_>) -> Option<PartitionMembers> {
    if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        let guid = number(word.text).filter(|&guid| guid != 0);
        if guid.is_none() {
            let expected = "expected a port GUID, in hexadecimal with 0x, and a comma after it";
            report.error(word.offset, quoted(word.text), expected);
        }
        return guid.map(|guid| PartitionMembers::Port(Guid(guid)));
    }
    if is_host_name(word.text) {
        let found = format!("member {}", quoted(word.text));
        let expected = "expected a port GUID: partitions have no names of hosts, ranges or wildcards; `ibstat -p` on \
                        the host shows the GUIDs of its ports, of which each is a member of its own";
        report.error(word.offset, found, expected);
        return None;
    }
    Some(match find_name(word, "member", &MEMBERS, report)? {
        "ALL" => PartitionMembers::All,
        "ALL_CAS" => PartitionMembers::ChannelAdapters,
        "ALL_SWITCHES" => PartitionMembers::Switches,
        "ALL_ROUTERS" => PartitionMembers::Routers,
        "ALL_VCAS" => PartitionMembers::VirtualAdapters,
        "SELF" => PartitionMembers::Own,
        "NONE" => return None,
        _ => {
            let expected = "expected `mgid=GID`, with its flags up to the end of the line";
            report.error(word.offset, quoted(word.text), expected);
            return None;
        }
    })
}

/// The partitions under construction.
struct Builder {
    list: BTreeMap<u16, Partition>,
    names: BTreeMap<String, PKey>,
    rules: Vec<Rule>,
    groups: BTreeMap<Gid, PartitionGroup>,
    allow_both: bool,
    protections: Protections,
    /// The last P_Key that was chosen for a definition without one.
    chosen: u16,
}

impl Builder {
    /// Starts with the default partition, in which all ports have the membership `everybody`.
    fn new(everybody: Membership, allow_both: bool) -> Builder {
        let p_key = PKey::DEFAULT_LIMITED;
        let rule = |members, membership| Rule {
            p_key,
            members,
            membership,
            index0: false,
        };
        let default = Partition {
            p_key,
            name: DEFAULT_NAME.to_owned(),
            sl: 0,
            ipoib: false,
            groups: Vec::new(),
            origin: PartitionOrigin::BuiltIn,
        };
        Builder {
            list: BTreeMap::from([(p_key.base(), default)]),
            names: BTreeMap::from([(DEFAULT_NAME.to_owned(), p_key)]),
            rules: vec![
                rule(PartitionMembers::All, everybody),
                rule(PartitionMembers::Own, Membership::Full),
            ],
            groups: BTreeMap::new(),
            allow_both,
            protections: Protections::default(),
            chosen: 0,
        }
    }

    /// Adds a partition, or extends an earlier definition. Returns its P_Key; `None` after an
    /// error.
    fn define(
        &mut self,
        name: &str,
        p_key: Option<PKey>,
        flags: &Flags,
        taken: &BTreeSet<u16>,
        at: Word<'_>,
        report: &mut Report<'_>,
    ) -> Option<PKey> {
        let p_key = match p_key.or_else(|| self.names.get(name).copied()) {
            Some(p_key) => p_key,
            None => {
                let free = (self.chosen + 1..PKey::DEFAULT_LIMITED.0)
                    .find(|key| !taken.contains(key) && !self.list.contains_key(key));
                let Some(free) = free else {
                    let expected = "expected fewer partitions: there are 32767 P_Keys";
                    report.error(at.offset, "no P_Key is left", expected);
                    return None;
                };
                self.chosen = free;
                let p_key = PKey(free);
                let found = format!("{} has no P_Key", quoted(name));
                let expected = format!("{p_key} is chosen, as long as nothing changes above it");
                report.note(at.offset, found, expected);
                p_key
            }
        };
        let partition = self.list.entry(p_key.base()).or_insert_with(|| Partition {
            p_key,
            name: match name {
                "" => p_key.to_string(),
                name => name.to_owned(),
            },
            sl: flags.group.sl,
            ipoib: false,
            groups: Vec::new(),
            origin: PartitionOrigin::File,
        });
        if partition.origin == PartitionOrigin::File && !name.is_empty() && partition.name != name {
            let found = format!(
                "{} has the P_Key of {}",
                quoted(name),
                quoted(&partition.name)
            );
            let expected = format!(
                "both are one partition, {p_key}, with the first name and the members of both: give each a P_Key of its own"
            );
            report.warning(at.offset, found, expected);
        }
        partition.origin = PartitionOrigin::File;
        if flags.group.sl != 0 {
            // A definition without a service level keeps the service level of an earlier
            // definition.
            partition.sl = flags.group.sl;
        }
        partition.ipoib |= flags.ipoib;
        let first = *self.names.entry(partition.name.clone()).or_insert(p_key);
        if first != p_key && partition.name == name {
            let found = format!("{} is the name of {first} as well", quoted(name));
            let expected = "a definition of this name without a P_Key continues that one: give each a name of its own";
            report.warning(at.offset, found, expected);
        }
        Some(p_key)
    }

    /// Adds the broadcast groups of a partition in which IP over InfiniBand runs.
    fn broadcast_groups(&mut self, p_key: PKey, flags: &Flags) {
        if let Some(partition) = self.list.get_mut(&p_key.base()) {
            partition.ipoib = true;
        }
        let mut flags = flags.group;
        if flags.q_key == 0 {
            flags.q_key = IPOIB_Q_KEY;
        }
        for group in in_scopes(BROADCAST, p_key, &flags) {
            // A second definition of the partition does not change the group of the first
            // definition.
            self.groups.entry(group.mgid).or_insert(group);
        }
    }

    /// Adds the groups of an `mgid` line.
    fn group(&mut self, line: &GroupLine<'_>, p_key: PKey, of: &Flags, report: &mut Report<'_>) {
        let GroupLine { mgid, flags: items } = line;
        let mut flags = GroupFlags {
            t_class: 0,
            ..of.group
        };
        for item in items {
            if let Some(name) = flag_name(item.name, &[], report) {
                group_flag(name, item, &mut flags, report);
            }
        }
        let Some(gid) = value::mgid(mgid.text) else {
            let expected = "expected the GID of a multicast group, such as ff12:401b::16";
            report.error(mgid.offset, format!("mgid {}", quoted(mgid.text)), expected);
            return;
        };
        if is_ip(gid) {
            let found =
                |what: &str| format!("IP group {gid} has another {what} than its partition");
            let given = PKey((gid.0 >> P_KEY_SHIFT) as u16);
            let any = PKey(0);
            if p_key.is_valid() && given != any && given != full(p_key) && gid != ANY_BROADCAST {
                let expected = format!("expected {} or 0 in its P_Key bits", full(p_key));
                report.error(mgid.offset, found("P_Key"), expected);
            }
            if flags.mtu != of.group.mtu {
                let expected = format!("expected mtu={}", of.group.mtu.code());
                report.error(mgid.offset, found("MTU"), expected);
            }
            if flags.rate != of.group.rate {
                let expected = format!("expected rate={}", of.group.rate);
                report.error(mgid.offset, found("rate"), expected);
            }
            if flags.q_key == 0 {
                flags.q_key = IPOIB_Q_KEY;
            }
        }
        for group in in_scopes(gid, p_key, &flags) {
            let first = *self.groups.entry(group.mgid).or_insert(group);
            if first != group {
                let found = format!("group {} is there before, and different", group.mgid);
                report.warning(mgid.offset, found, "the first one counts");
            }
        }
    }

    /// Parses the prefix of MGIDs or GUIDs in `word`, and gives it to a partition.
    fn add_owned_prefix(
        &mut self,
        kind: OwnedKind,
        word: Word<'_>,
        p_key: PKey,
        report: &mut Report<'_>,
    ) {
        let (name, parsed) = match kind {
            OwnedKind::Mgids => ("mgids", Owned::mgids(word.text)),
            OwnedKind::Guids => ("guids", Owned::guids(word.text)),
        };
        let found = || format!("{name} {}", quoted(word.text));
        match parsed {
            Err(expected) => report.error(word.offset, found(), expected),
            Ok(owned) => {
                if let Err((other, of)) = self.protections.own(owned, p_key) {
                    let expected = format!(
                        "{other} belongs to the partition {of} already: each name has one owner"
                    );
                    report.error(word.offset, found(), expected);
                }
            }
        }
    }

    fn finish(mut self, file: Option<&Path>) -> Partitions {
        for group in self.groups.into_values() {
            if let Some(partition) = self.list.get_mut(&group.p_key.base()) {
                partition.groups.push(group);
            }
        }
        Partitions {
            file: file.map(Path::to_owned),
            list: self.list.into_values().collect(),
            rules: self.rules,
            allow_both: self.allow_both,
            protections: self.protections,
        }
    }
}
