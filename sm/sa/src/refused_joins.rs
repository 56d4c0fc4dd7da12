//! Findings about refused joins of multicast groups: the host only sees a status, and its IP over
//! InfiniBand stays down silently.
//!
//! The findings are listed at most once per second.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::directory::Directory;
use super::mcast::{JoinRefusal, described, is_broadcast};
use super::pace::Pace;

/// Time for which a refusal is kept after the last request: hosts repeat the join of a broadcast
/// group at least every 16 s.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Maximum number of refusals of all ports, which take at most a megabyte. Further refusals are not
/// recorded until a recorded refusal ends.
const MAX_REFUSALS: usize = 4096;

/// Maximum number of refusals of one port, so that no host uses up the room of other hosts.
const MAX_PER_PORT: usize = 8;

/// Number of refusals with separate findings; one more finding counts all others.
const MAX_FINDINGS: usize = 64;

/// The joins of multicast groups that are refused at present.
#[derive(Default, Debug)]
pub(super) struct RefusedJoins {
    /// Refusals by port GUID and MGID.
    refusals: BTreeMap<(Guid, Gid), Refusal>,
    /// Pace at which the findings are listed.
    pace: Pace,
}

#[derive(Debug)]
struct Refusal {
    why: JoinRefusal,
    /// Time at which the refusal ends unless the request is repeated.
    until: Time,
}

impl RefusedJoins {
    /// Records that the port with this GUID was refused membership of a group.
    pub(super) fn record(&mut self, port: Guid, mgid: Gid, why: JoinRefusal, now: Time) {
        let of_port = (port, Gid(0))..=(port, Gid(u128::MAX));
        let is_full = self.refusals.len() >= MAX_REFUSALS
            || self.refusals.range(of_port).count() >= MAX_PER_PORT;
        let until = now + KEPT_FOR;
        match self.refusals.entry((port, mgid)) {
            Entry::Occupied(mut existing) => {
                self.pace.record_change(existing.get().why != why);
                existing.insert(Refusal { why, until });
            }
            Entry::Vacant(vacant) if !is_full => {
                vacant.insert(Refusal { why, until });
                self.pace.record_change(true);
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Records that the port with this GUID has joined or left a group.
    pub(super) fn end(&mut self, port: Guid, mgid: Gid) {
        self.pace
            .record_change(self.refusals.remove(&(port, mgid)).is_some());
    }

    /// Keeps only the refusals of ports in `directory`.
    pub(super) fn ports_changed(&mut self, directory: &Directory) {
        self.retain(|port, _| directory.by_guid(port).is_some());
    }

    /// Ends the refusals whose requests have not been repeated for [`KEPT_FOR`].
    pub(super) fn handle_deadline(&mut self, now: Time) {
        self.retain(|_, refusal| refusal.until > now);
    }

    /// Ends all refusals.
    pub(super) fn clear(&mut self) {
        self.retain(|_, _| false);
    }

    fn retain(&mut self, keeps: impl Fn(Guid, &Refusal) -> bool) {
        let before = self.refusals.len();
        self.refusals
            .retain(|&(port, _), refusal| keeps(port, refusal));
        self.pace.record_change(self.refusals.len() != before);
    }

    /// Time of the next [`RefusedJoins::handle_deadline`] or [`RefusedJoins::poll`].
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let ends = self.refusals.values().map(|refusal| refusal.until).min();
        [self.pace.deadline(), ends].into_iter().flatten().min()
    }

    /// The findings; an empty list if there is no directory. `None` if the findings cannot differ
    /// from the last list, or if the last list is less than a second old.
    pub(super) fn poll(
        &mut self,
        directory: Option<&Directory>,
        now: Time,
    ) -> Option<Vec<Finding>> {
        if !self.pace.is_due(now) {
            return None;
        }
        let mut findings: Vec<Finding> = directory
            .map(|directory| {
                let refusals = self.refusals.iter().take(MAX_FINDINGS);
                let findings = refusals
                    .map(|(&(port, mgid), refusal)| finding(directory, port, mgid, &refusal.why));
                findings.flatten().collect()
            })
            .unwrap_or_default();
        let more = self.refusals.len().saturating_sub(MAX_FINDINGS);
        if more > 0 && directory.is_some() {
            let text = format!(
                "{more} more joins of multicast groups are refused: resolve the named refusals first, then look again"
            );
            let kind = FindingKind::JoinRefused;
            findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
        }
        Some(findings)
    }
}

/// The finding about a refusal; `None` if the port is no longer in the directory.
fn finding(directory: &Directory, port: Guid, mgid: Gid, why: &JoinRefusal) -> Option<Finding> {
    let end = directory.end(directory.by_guid(port)?);
    let fabric = &directory.fabric;
    let node = fabric.node(end.at.node).name();
    let group = described(mgid, why.p_key(), &directory.plan.policy.partitions);
    let loss = match is_broadcast(mgid) {
        true => "it has no IP over InfiniBand there",
        false => "it gets no packets of that group",
    };
    let text = format!(
        "{node} port {}: its join of {group} is refused: {why}; {loss}; {}",
        end.at.port,
        why.remedy()
    );
    Some(Finding::new(
        FindingKind::JoinRefused,
        Subject::Port(fabric.key(end.at)),
        Severity::Warning,
        text,
    ))
}
