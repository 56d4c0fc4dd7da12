//! The SA's timed work: deadlines, groups and alias GUIDs for the core, and registrations to save.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::alias_guids::AliasGuids;
use rsm_plan::groups::GroupSet;

use super::events::PublishedNotice;
use super::memory::Unsaved;
use super::{Directory, Sa, mcast};

/// Minimum time between two group sets for the core. Thousands of ports that join at once share one
/// set, and no host notices the delay.
const GROUPS_PAUSE: Duration = Duration::from_millis(20);

/// Time added to [`GROUPS_PAUSE`] for each membership that the last set examined: ten times the
/// time of that examination, so that the SA still answers while a whole subnet joins one group.
const PAUSE_PER_MEMBER: Duration = Duration::from_micros(2);

/// Minimum time between two sets of alias GUIDs for the core, to which [`PAUSE_PER_MEMBER`] is
/// added for each alias GUID. The pause keeps a host that changes its alias GUIDs repeatedly from
/// loading the core.
const ALIASES_PAUSE: Duration = GROUPS_PAUSE;

/// Minimum time between two saves. Each save costs a disk write, and a copy of the state that
/// changes during the write.
const SAVE_PAUSE: Duration = Duration::from_millis(250);

impl Sa {
    /// Does the work due at `now`, up to the limit of one turn. The owner must also call this
    /// method after each [`Sa::answer_from`].
    pub fn handle_deadline(&mut self, now: Time) {
        if self.is_examining()
            && let Some(directory) = self.sa_snapshot.in_force().cloned()
        {
            if std::mem::take(&mut self.must_compare_ports) {
                self.compare_ports(&directory, now);
            }
            let ports = directory.as_ref();
            self.multicast
                .ports_changed(ports, &mut self.unexamined, now);
        }
        self.reregister
            .record_lost(self.multicast.handle_deadline(now));
        self.reregister
            .record_lost(self.events.handle_deadline(now));
        self.services.handle_deadline(now);
        self.refused_joins.handle_deadline(now);
        self.offences.handle_deadline(now);
        if let Some(directory) = &self.sa_snapshot.directory {
            while let Some(event) = self.multicast.poll_event() {
                let published = match event {
                    mcast::GroupEvent::Created(mgid, p_key) => {
                        PublishedNotice::of_group(directory, mgid, p_key, true)
                    }
                    mcast::GroupEvent::Deleted(mgid, p_key) => {
                        PublishedNotice::of_group(directory, mgid, p_key, false)
                    }
                };
                self.events.publish(published, now);
            }
        }
        if self.guids.handle_deadline(now) {
            self.publish_alias_guids();
        }
    }

    /// Handles a change of the subnet: finds the ports that appeared, vanished or changed
    /// partitions since the last compared directory.
    fn compare_ports(&mut self, directory: &Arc<Directory>, now: Time) {
        self.services.ports_changed(directory, now);
        let ended = self.guids.ports_changed(directory, now);
        for &(port, alias) in &ended {
            self.multicast.remove_memberships_as(port, alias);
        }
        if !ended.is_empty() {
            self.publish_alias_guids();
        }
        self.events.ports_changed(directory, now);
        self.reregister.ports_changed(directory);
        self.refused_joins.ports_changed(directory);
        let before = self.compared.replace(Arc::clone(directory));
        // The first directory causes no notices, because there is no earlier one to compare with.
        if let Some(before) = &before {
            self.events.publish_port_changes(before, directory, now);
        }
        match before.and_then(|before| directory.differing_members(&before)) {
            Some(ports) => self.unexamined.add(ports),
            None => self.unexamined.add_all(),
        }
    }

    /// Time of the next call of [`Sa::handle_deadline`], or of the next poll for reports, groups,
    /// alias GUIDs, saves or findings; `None` if no work is pending.
    pub fn next_deadline(&self) -> Option<Time> {
        let groups = self.multicast.is_stale().then(|| self.next_groups());
        let unsaved = self.multicast.is_unsaved()
            || self.services.is_unsaved()
            || self.guids.is_unsaved()
            || self.events.is_unsaved();
        let save = unsaved.then(|| self.next_save());
        let of_groups = self.multicast.next_deadline();
        let of_services = self.services.next_deadline();
        let of_guids = self.guids.next_deadline();
        let of_events = self.sa_snapshot.in_force().and(self.events.next_deadline());
        let aliases = self.guids.has_pending().then(|| self.next_aliases());
        let examining = self.is_examining().then_some(Time::ZERO);
        [
            groups,
            aliases,
            save,
            examining,
            of_groups,
            of_services,
            of_guids,
            of_events,
            self.refused_joins.next_deadline(),
            self.offences.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether there are ports left to examine.
    fn is_examining(&self) -> bool {
        let is_left = self.must_compare_ports || !self.unexamined.is_empty();
        is_left && self.sa_snapshot.in_force().is_some()
    }

    /// The members of multicast groups, for the core's plans. `None` if they have not changed, or
    /// if the last set is too recent: changes in quick succession share one set.
    pub fn poll_groups(&mut self, now: Time) -> Option<Arc<GroupSet>> {
        if !self.multicast.is_stale() || now < self.next_groups() {
            return None;
        }
        self.last_group_set = Some((now, self.multicast.stale_members()));
        Some(self.multicast.group_set())
    }

    /// The alias GUIDs of all ports, for the core to write. `None` if they have not changed, or if
    /// the last set is too recent: changes in quick succession share one set.
    pub fn poll_guids(&mut self, now: Time) -> Option<Arc<AliasGuids>> {
        if now < self.next_aliases() {
            return None;
        }
        let aliases = self.guids.take_pending()?;
        let count = u32::try_from(self.guids.alias_index().len()).unwrap_or(u32::MAX);
        self.last_aliases = Some((now, count));
        Some(aliases)
    }

    /// The ports whose hosts must register again, each returned once; `None` if there are none.
    pub fn poll_reregister(&mut self) -> Option<BTreeSet<Guid>> {
        self.reregister.take_due()
    }

    /// The registrations to save; `None` if nothing has changed, or if the last save is too recent.
    pub fn poll_save(&mut self, now: Time) -> Option<Unsaved> {
        if now < self.next_save() {
            return None;
        }
        let groups = self.multicast.take_unsaved();
        let services = self.services.take_unsaved();
        let guids = self.guids.take_unsaved();
        let subscriptions = self.events.take_unsaved();
        let unsaved = Unsaved {
            groups: groups.then(|| self.multicast.view()),
            services: services.then(|| self.services.view()),
            guids: guids.then(|| self.guids.alias_index().aliases().clone()),
            subscriptions: subscriptions.then(|| self.events.view()),
        };
        if unsaved.is_empty() {
            return None;
        }
        self.last_save = Some(now);
        Some(unsaved)
    }

    /// Time from which on the next set of groups may be polled.
    fn next_groups(&self) -> Time {
        self.last_group_set
            .map_or(Time::ZERO, |(last_group_set, members)| {
                last_group_set + GROUPS_PAUSE + PAUSE_PER_MEMBER * members
            })
    }

    /// Time from which on the next set of alias GUIDs may be polled.
    fn next_aliases(&self) -> Time {
        self.last_aliases.map_or(Time::ZERO, |(polled, count)| {
            polled + ALIASES_PAUSE + PAUSE_PER_MEMBER * count
        })
    }

    /// Time from which on the next save may be polled.
    fn next_save(&self) -> Time {
        self.last_save
            .map_or(Time::ZERO, |saved| saved + SAVE_PAUSE)
    }
}
