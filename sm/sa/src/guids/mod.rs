//! Alias GUIDs of ports (IBA 15.2.5.18).
//!
//! An [`AliasRegistry`] is a state machine without I/O: it handles Set and Delete of
//! GUIDInfoRecord, maps alias GUIDs to ports, and returns the GUIDs that the core must write. A
//! port's own GUID, at index 0 of block 0, never changes. An alias GUID belongs to only one port,
//! and ends when that port is absent for too long, or when a physical port appears whose own GUID
//! it is.

mod change;
pub mod limits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::alias_guids::AliasGuids;

pub(crate) use self::change::AliasRequester;
use super::alias_index::AliasIndex;
use super::directory::Directory;

/// Time for which an absent port keeps its alias GUIDs, equal to the time for which it keeps its
/// memberships.
const KEEP: Duration = Duration::from_secs(10);

/// All alias GUIDs.
#[derive(Debug, Default)]
pub struct AliasRegistry {
    /// Alias GUIDs, shared with readers; a change copies the index while a reader holds it.
    index: AliasIndex,
    /// Absent ports with alias GUIDs, each with the time at which it loses its alias GUIDs.
    absent_ports: BTreeMap<Guid, Time>,
    /// Number of generated alias GUIDs.
    generated: u32,
    /// Whether the core lacks the latest alias GUIDs.
    is_pending: bool,
    /// Whether anything has changed since the last [`AliasRegistry::take_unsaved`].
    unsaved: bool,
}

impl AliasRegistry {
    /// All alias GUIDs at this moment.
    pub fn alias_index(&self) -> &AliasIndex {
        &self.index
    }

    /// All alias GUIDs; `None` if they have not changed since the last call.
    pub(crate) fn take_pending(&mut self) -> Option<Arc<AliasGuids>> {
        std::mem::take(&mut self.is_pending).then(|| self.index.aliases.clone())
    }

    /// Whether the core lacks the latest alias GUIDs.
    pub(crate) fn has_pending(&self) -> bool {
        self.is_pending
    }

    /// Whether there are changes to save.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Whether there are changes to save; marks them as saved.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.unsaved)
    }

    /// Handles a change of the subnet: absent ports lose their alias GUIDs, unless they return in
    /// time. Ends the alias GUIDs that are the own GUIDs of present physical ports, and returns the
    /// port that had each of them, with the GUID.
    pub(crate) fn ports_changed(&mut self, directory: &Directory, now: Time) -> Vec<(Guid, Guid)> {
        for &port in self.index.aliases.by_port.keys() {
            if directory.by_guid(port).is_some() {
                self.absent_ports.remove(&port);
            } else {
                self.absent_ports.entry(port).or_insert(now + KEEP);
            }
        }
        let is_port = |alias| {
            let found = directory.by_guid(alias);
            found.is_some_and(|ix| directory.vport(ix).is_none())
        };
        let aliases = self.index.aliases.by_port.iter();
        let aliases = aliases.flat_map(|(&port, aliases)| {
            let aliases = aliases.iter();
            aliases.map(move |(&index, &alias)| (port, index, alias))
        });
        let ended: Vec<(Guid, u8, Guid)> =
            aliases.filter(|&(_, _, alias)| is_port(alias)).collect();
        for &(port, index, _) in &ended {
            self.remove(port, index);
        }
        let ended = ended.into_iter();
        ended.map(|(port, _, alias)| (port, alias)).collect()
    }

    /// Removes the alias GUIDs of ports that were absent for too long. Returns whether such ports
    /// existed.
    pub fn handle_deadline(&mut self, now: Time) -> bool {
        let is_over = |&(_, &until): &(&Guid, &Time)| until <= now;
        let lost: Vec<Guid> = self
            .absent_ports
            .iter()
            .filter(is_over)
            .map(|(&port, _)| port)
            .collect();
        for port in &lost {
            self.absent_ports.remove(port);
            let aliases_of_port = self.index.aliases.by_port.get(port).cloned();
            for index in aliases_of_port.unwrap_or_default().into_keys() {
                self.remove(*port, index);
            }
        }
        !lost.is_empty()
    }

    /// Time at which [`AliasRegistry::handle_deadline`] next has work; `None` if no port with alias
    /// GUIDs is absent.
    pub fn next_deadline(&self) -> Option<Time> {
        self.absent_ports.values().copied().min()
    }

    /// Restores saved alias GUIDs at the start of the daemon. Every port counts as absent until
    /// [`AliasRegistry::ports_changed`] finds it; absent ports keep their alias GUIDs until
    /// `until`. Alias GUIDs that are invalid, contradict others or exceed the limits are skipped.
    /// Returns the number of skipped GUIDs.
    pub fn restore(&mut self, saved: &AliasGuids, until: Time) -> usize {
        let mut skipped = 0;
        for (&port, aliases_of_port) in &saved.by_port {
            for (&index, &alias) in aliases_of_port {
                let is_valid = index != 0
                    && !alias.is_zero()
                    && alias != port
                    && !saved.by_port.contains_key(&alias)
                    && self.index.owner(alias).is_none()
                    && self.index.owners.len() < limits::MAX_ALIASES;
                if is_valid {
                    self.insert(port, index, alias);
                    self.absent_ports.insert(port, until);
                } else {
                    skipped += 1;
                }
            }
        }
        skipped
    }

    /// Sets the alias GUID at this index of a port's table.
    fn insert(&mut self, port: Guid, index: u8, alias: Guid) {
        self.remove(port, index);
        let aliases = Arc::make_mut(&mut self.index.aliases);
        aliases
            .by_port
            .entry(port)
            .or_default()
            .insert(index, alias);
        Arc::make_mut(&mut self.index.owners).insert(alias, port);
        self.changed();
    }

    /// Removes the alias GUID at this index of a port's table, if there is one.
    fn remove(&mut self, port: Guid, index: u8) {
        let aliases = Arc::make_mut(&mut self.index.aliases);
        let Some(aliases_of_port) = aliases.by_port.get_mut(&port) else {
            return;
        };
        let Some(alias) = aliases_of_port.remove(&index) else {
            return;
        };
        if aliases_of_port.is_empty() {
            aliases.by_port.remove(&port);
            self.absent_ports.remove(&port);
        }
        Arc::make_mut(&mut self.index.owners).remove(&alias);
        self.changed();
    }

    /// Records a change, for the core and for the next save.
    fn changed(&mut self) {
        self.is_pending = true;
        self.unsaved = true;
    }
}
