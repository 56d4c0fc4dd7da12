//! Reads the registrations of hosts in `opensm-sa.dump`: groups and members, services,
//! subscriptions and alias GUIDs, one per line.
//!
//! ```text
//! MC Group 0xc000 (well known): mgid=0xff12…:0x… port_gid=… … proxy_join=0x0
//! mcm_port: port_gid=0xfe80…:0x… scope_state=0x21 proxy_join=0x0
//! Service Record: id=0x… gid=0x…:0x… pkey=0xffff lease=0x… … lease_period=0x…
//! InformInfo Record: subscriber_gid=0x…:0x… … rep_addr: lid=0x… … sl=0x…
//! GUIDInfo Record: base_guid=0x… lid=0x… block_num=0x0 guid0=0x… … guid7=0x…
//! ```
//!
//! Drops only unreadable lines; for a group's line, also drops the members of the group.

mod entry;
mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rsm_config::{ConfigFinding, ConfigSeverity, Findings};
use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_sa::SavedSaState;
use rsm_sa::mcast::SavedGroup;

use self::entry::{Context, Entry};
use super::source::{Files, SourceError};
use super::{Migration, line};

/// OpenSM's default folder of dumps, which `dump_files_dir` replaces.
const FOLDER: &str = "/var/log";
/// Name of the dump.
const FILE: &str = "opensm-sa.dump";

/// Key of `opensm.conf`: the file from which OpenSM restores registrations.
const RESTORE: &str = "sa_db_file";
/// Key of `opensm.conf`: the folder of dumps.
const DUMPS: &str = "dump_files_dir";

/// Registrations of a file.
#[derive(Debug, Default)]
struct SaDump {
    saved: SavedSaState,
    findings: Vec<ConfigFinding>,
}

impl Migration {
    /// Reads the registrations of hosts from the file from which OpenSM restores them, otherwise
    /// from the file to which OpenSM writes them. `now` is in seconds since the Unix epoch.
    pub(super) fn read_registrations(
        &mut self,
        files: &mut Files,
        now: u64,
    ) -> Result<(), SourceError> {
        let path = self.dump_file(files);
        let Some(text) = files.text(&path, &mut self.findings)? else {
            self.findings.push(line::finding(
                &path.display().to_string(),
                ConfigSeverity::Note,
                "there is no such file".to_owned(),
                "every host registers anew, once, when rsm starts".to_owned(),
            ));
            return Ok(());
        };
        let context = Context {
            prefix: self.config.sm.subnet_prefix,
            now,
        };
        let dump = SaDump::parse(&path, &text, &context);
        let saved = dump.saved;
        let members: usize = saved.groups.iter().map(|group| group.members.len()).sum();
        let aliases: usize = saved.guids.by_port.values().map(BTreeMap::len).sum();
        files.set_content(
            &path,
            format!(
                "{} groups with {members} members, {} services, {} subscriptions, {aliases} alias GUIDs",
                saved.groups.len(),
                saved.services.len(),
                saved.subscriptions.len(),
            ),
        );
        self.findings.extend(dump.findings);
        self.registrations = saved;
        Ok(())
    }

    /// File of registrations: `sa_db_file`, otherwise the dump in `dump_files_dir`.
    fn dump_file(&self, files: &Files) -> PathBuf {
        match self.named(RESTORE) {
            Some(file) => files.under(Path::new(&file)),
            None => self.dump_folder(files).join(FILE),
        }
    }

    /// Folder of OpenSM's dumps.
    pub(super) fn dump_folder(&self, files: &Files) -> PathBuf {
        let folder = self.named(DUMPS);
        files.under(Path::new(folder.as_deref().unwrap_or(FOLDER)))
    }

    /// Last value of a key of `opensm.conf`.
    fn named(&self, key: &str) -> Option<String> {
        let mut outcomes = self.outcomes.iter().rev();
        let outcome = outcomes.find(|outcome| outcome.key == key);
        outcome.and_then(|outcome| outcome.value.clone())
    }
}

impl SaDump {
    /// Parses the lines of `text`, the content of `file`.
    fn parse(file: &Path, text: &str, context: &Context) -> SaDump {
        let mut reader = Reader {
            text,
            findings: Findings::new(file, text),
            saved: SavedSaState::default(),
            group: None,
            mgids: BTreeSet::new(),
            mlids: BTreeMap::new(),
            numbers: BTreeMap::new(),
        };
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let start = offset + line.len() - line.trim_start().len();
            let is_cut = !line.ends_with('\n');
            offset += line.len();
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match Entry::parse(line, context) {
                // A number at the end of a truncated file may lack its last digits.
                Ok(_) if is_cut => reader.report_dropped(start, "the file ends within this line"),
                Ok(entry) => reader.add(start, entry),
                Err(expected) => {
                    reader.drop_group(line);
                    reader.report_dropped(start, &expected);
                }
            }
        }
        reader.finish()
    }
}

/// Group of the next members.
enum CurrentGroup {
    /// Group, with the GIDs of its members so far.
    Group(Box<SavedGroup>, BTreeSet<Gid>),
    /// The line of the group was dropped.
    Dropped,
}

/// State during the parsing of a file.
struct Reader<'a> {
    text: &'a str,
    findings: Findings,
    saved: SavedSaState,
    group: Option<CurrentGroup>,
    /// MGIDs of the groups so far.
    mgids: BTreeSet<Gid>,
    /// MLID → partition of the groups that use it.
    mlids: BTreeMap<Lid, PKey>,
    /// Port GUID → number of its subscriptions so far.
    numbers: BTreeMap<Guid, u16>,
}

impl Reader<'_> {
    /// Adds the entry of the line at the offset `start`.
    fn add(&mut self, start: usize, entry: Entry) {
        match entry {
            Entry::Member(member) => match &mut self.group {
                Some(CurrentGroup::Group(group, gids)) => match gids.insert(member.gid) {
                    true => group.members.push(member),
                    false => {
                        self.report_dropped(start, "the group has this member in a line before")
                    }
                },
                Some(CurrentGroup::Dropped) => self.report_dropped(start, "its group is dropped"),
                None => self.report_dropped(start, "expected a line `MC Group` before"),
            },
            Entry::Group(group) => {
                self.end_group();
                self.begin_group(start, group);
            }
            other => {
                self.end_group();
                self.add_other(start, other);
            }
        }
    }

    /// Begins a group, or drops it if it contradicts an earlier group.
    fn begin_group(&mut self, start: usize, group: Box<SavedGroup>) {
        let p_key = group.parameters.p_key;
        let is_new = self.mgids.insert(group.parameters.mgid);
        let is_free = *self.mlids.entry(group.mlid).or_insert(p_key) == p_key;
        if is_new && is_free {
            self.group = Some(CurrentGroup::Group(group, BTreeSet::new()));
            return;
        }
        self.group = Some(CurrentGroup::Dropped);
        self.report_dropped(
            start,
            "another group has this MGID, or this MLID with another P_Key",
        );
    }

    /// Adds an entry that is neither a group nor a member.
    fn add_other(&mut self, start: usize, entry: Entry) {
        match entry {
            Entry::Service(service) => self.saved.services.push(*service),
            Entry::Subscription(mut subscription) => {
                let count = self.numbers.entry(subscription.port).or_default();
                subscription.number = *count;
                *count = count.saturating_add(1);
                self.saved.subscriptions.push(*subscription);
            }
            Entry::AliasGuids(port, aliases) => {
                if !aliases.is_empty() {
                    let known = self.saved.guids.by_port.entry(port).or_default();
                    known.extend(aliases);
                }
            }
            Entry::Expired => self.report_dropped(start, "the lease of this service has ended"),
            Entry::Foreign(gid) => self.report_dropped(
                start,
                &format!("expected a GID of this subnet: {gid} is of another one"),
            ),
            Entry::Group(_) | Entry::Member(_) => {}
        }
    }

    /// Drops the members that follow an unreadable group.
    fn drop_group(&mut self, line: &str) {
        if line.starts_with(entry::GROUP) {
            self.end_group();
            self.group = Some(CurrentGroup::Dropped);
        }
    }

    /// Ends the current group, and keeps it if it has members. A group without members is not
    /// needed: OpenSM ends such a group, or the configuration of partitions creates it again.
    fn end_group(&mut self) {
        if let Some(CurrentGroup::Group(group, _)) = self.group.take()
            && !group.members.is_empty()
        {
            self.saved.groups.push(*group);
        }
    }

    /// Reports that the line at the offset `start` is dropped.
    fn report_dropped(&mut self, start: usize, expected: &str) {
        let line = self.text.get(start..).and_then(|rest| rest.lines().next());
        let kind = line.and_then(|line| line.split(':').next()).unwrap_or("");
        let kind: String = kind.chars().take(KIND_SHOWN).collect();
        self.findings.at(
            self.text,
            start,
            ConfigSeverity::Warning,
            format!("`{kind}` is dropped"),
            expected,
        );
    }

    /// Ends the last group, and returns the result.
    fn finish(mut self) -> SaDump {
        self.end_group();
        self.assign_alias_owners();
        SaDump {
            saved: self.saved,
            findings: self.findings.finish(),
        }
    }

    /// Assigns each registration under an alias GUID to the port that owns the alias.
    fn assign_alias_owners(&mut self) {
        let mut owners = BTreeMap::new();
        for (&port, aliases) in &self.saved.guids.by_port {
            owners.extend(aliases.values().map(|&alias| (alias, port)));
        }
        let owner = |port: &mut Guid| *port = owners.get(port).copied().unwrap_or(*port);
        for group in &mut self.saved.groups {
            group
                .members
                .iter_mut()
                .for_each(|member| owner(&mut member.port));
        }
        for service in &mut self.saved.services {
            owner(&mut service.port);
            owner(&mut service.owner);
        }
        for subscription in &mut self.saved.subscriptions {
            owner(&mut subscription.port);
        }
    }
}

/// Largest number of characters of a line that a finding shows.
const KIND_SHOWN: usize = 40;

/// Whether a GID belongs to the subnet with the prefix `prefix`.
fn is_of(gid: Gid, prefix: u64) -> bool {
    (gid.0 >> 64) as u64 == prefix
}

#[cfg(test)]
mod tests;
