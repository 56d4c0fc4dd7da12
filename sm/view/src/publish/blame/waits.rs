//! Congestion: where data waits on the job's paths, and the port that it waits for.
//!
//! A port whose receiver gives no credits waits, and all ports behind it wait as well. The culprit
//! is the last port downstream at which data waits; the other ports are victims.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{PortKey, PortNum};

use super::Case;
use super::evidence::{Evidence, Kind, Place};

/// Minimum share of time in which data waits that slows a job. At full links, data waits a few
/// percent of the time.
pub(super) const WAITING: f64 = 0.10;

/// Minimum share of a link's rate at which the link itself counts as full.
const FULL: f64 = 0.7;

impl Case<'_> {
    /// Finds evidence of congestion: each culprit with the number of its victims on the job's
    /// paths, also on those that routes have left since the start of the question.
    pub(super) fn find_waits(&self, found: &mut Vec<Evidence>) {
        let mut culprits: BTreeMap<PortKey, usize> = BTreeMap::new();
        for (&here, to) in &self.used.directions {
            if self.waits(here).is_some() {
                *culprits.entry(self.culprit(here, to.peer)).or_default() += 1;
            }
        }
        for (culprit, victims) in culprits {
            found.extend(self.congestion(culprit, victims));
        }
    }

    /// The share of time in which data waits at a port; `None` if it is small.
    fn waits(&self, port: PortKey) -> Option<f64> {
        let moves = self.past.moves(port, self.since_unix_ms)?;
        moves.wait_share.filter(|&share| share >= WAITING)
    }

    /// The last port downstream of `port`, which leads to `peer`, at which data waits.
    fn culprit(&self, port: PortKey, peer: PortKey) -> PortKey {
        let fabric = self.published.fabric();
        let (mut at, mut peer) = (port, peer);
        let mut passed = BTreeSet::from([port.node]);
        while fabric.is_switch(peer.node) && passed.insert(peer.node) {
            let Some(node) = fabric.node_of(peer.node) else {
                break;
            };
            // A node has at most 255 ports, including port 0.
            let ports =
                (1..node.ports.len()).map(|port| PortKey::new(node.guid, PortNum(port as u8)));
            let waiting = ports.filter(|&port| port != peer);
            let waiting = waiting.filter_map(|port| Some((self.waits(port)?, port)));
            let longest = waiting.max_by(|one, other| one.0.total_cmp(&other.0));
            let Some((_, next)) = longest else { break };
            at = next;
            let Some(beyond) = node.ports[next.port.index()].peer else {
                break;
            };
            peer = beyond;
        }
        at
    }

    fn congestion(&self, culprit: PortKey, victims: usize) -> Option<Evidence> {
        let fabric = self.published.fabric();
        let peer = fabric.port(fabric.find_port(culprit)?).peer?;
        let moves = self.past.moves(culprit, self.since_unix_ms)?;
        let share = 100.0 * moves.wait_share?;
        let is_full = moves.use_share.is_some_and(|share| share >= FULL);
        let used = moves.use_share.map_or_else(String::new, |share| {
            format!(" (used {:.0} %)", 100.0 * share)
        });
        let waits = format!(
            "data waits {share:.0} % of the time at {}{used}, and at {victims} of the job's ports for it",
            self.port_name(culprit)
        );
        let name = fabric.name(peer.node);
        let port = self.port_name(culprit);
        let is_host = !fabric.is_switch(peer.node);
        let (kind, cause, remedy) = match (is_host, self.job.nodes.contains(&peer.node), is_full) {
            (true, true, false) => (
                Kind::SlowReceiver,
                format!("the host {name} of the job takes less than is sent to it"),
                format!("look at {name}: PCIe, memory, a process that stands still"),
            ),
            (true, true, true) => (
                Kind::Incast,
                format!("more is sent to {name} of the job than its link carries"),
                "the job's own pattern: several hosts send to one at a time".to_owned(),
            ),
            (true, false, _) => (
                Kind::Congestion,
                format!("the host {name}, which is not of the job, takes less than is sent to it"),
                format!("look at {name} and its job: its data fills links that this job shares"),
            ),
            (false, _, false) => (
                Kind::Waits,
                "data waits for this link, which is not full, and nothing behind it says why"
                    .to_owned(),
                "ask again in a minute: a port behind it may just not be read".to_owned(),
            ),
            (false, ..) => (
                Kind::Congestion,
                "more is to pass this link than it carries".to_owned(),
                format!(
                    "`rsmctl link {port}` has the hosts that share it, `rsmctl quality` says whether routes \
                     are even"
                ),
            ),
        };
        Some(Evidence {
            kind,
            place: Place::cable(culprit, peer),
            text: format!("{cause}: {waits}"),
            from_unix_ms: 0,
            remedy,
        })
    }
}
