//! Ports that appear and vanish: the effect on subscriptions, and the notices about such ports.

use rsm_ids::Guid;
use rsm_mad::Time;

use super::limits::KEEP;
use super::{Events, PublishedNotice};
use crate::directory::Directory;

impl Events {
    /// Handles a change of the subnet. A subscriber whose port is absent gets no reports. If the
    /// port returns in time, the subscriber gets the reports that it missed; otherwise its
    /// subscriptions end.
    pub(crate) fn ports_changed(&mut self, directory: &Directory, now: Time) {
        for port in self.ports() {
            if directory.by_guid(port).is_none() {
                self.absent_ports.entry(port).or_insert(now + KEEP);
            } else if self.absent_ports.remove(&port).is_some() {
                self.reports.wake_port(port, &self.journal);
            }
        }
    }

    /// Adds notices about ports that appeared (trap 64) or vanished (trap 65) between two
    /// directories.
    pub(crate) fn publish_port_changes(
        &mut self,
        before: &Directory,
        after: &Directory,
        now: Time,
    ) {
        let (old, new) = (before.in_service(), after.in_service());
        if std::ptr::eq(old, new) {
            return;
        }
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let published = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(vanished), appeared) if appeared.is_none_or(|port| vanished < port) => {
                    let ix = old.next().and_then(|&guid| before.by_guid(guid));
                    ix.map(|ix| PublishedNotice::of_port(before, ix, false))
                }
                (vanished, Some(appeared)) if vanished.is_none_or(|port| appeared < port) => {
                    let ix = new.next().and_then(|&guid| after.by_guid(guid));
                    ix.map(|ix| PublishedNotice::of_port(after, ix, true))
                }
                _ => {
                    old.next();
                    new.next();
                    None
                }
            };
            if let Some(published) = published {
                self.publish(published, now);
            }
        }
    }

    /// Does the work due at `now`. Returns the ports that lost their subscriptions because they
    /// were absent for too long.
    pub(crate) fn handle_deadline(&mut self, now: Time) -> Vec<Guid> {
        if self.journal.handle_deadline(now) {
            self.reports.wake_all(&self.journal);
        }
        self.handle_reports(now);
        let due = self.absent_ports.iter().filter(|&(_, &until)| until <= now);
        let lost: Vec<Guid> = due.map(|(&port, _)| port).collect();
        for port in &lost {
            self.absent_ports.remove(port);
            for subscriber in self.reports.of_port(*port) {
                self.end_all_of(subscriber);
            }
        }
        lost
    }
}
