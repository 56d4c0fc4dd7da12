//! Key violations that traps report: which port used a wrong key, who reports it, and whether the
//! reports suffice for a finding.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;

/// Maximum number of ports whose key violations are counted. Violations of further ports only add
/// to the counts of traps.
const PORTS_REMEMBERED: usize = 4096;

/// Maximum number of ports about which one host may report violations that no other node reports. A
/// host can name any port, and few ports send wrong keys to an honest one.
const UNCONFIRMED_PER_REPORTER: usize = 16;

/// Number of reported key violations that make a finding about a port. Fewer violations are normal,
/// because hosts of tenants probe keys. One Set with a wrong M_Key suffices, unless a manager sent
/// it, which may still use the key from before a rotation.
const VIOLATIONS_FOR_FINDING: u32 = 10;

/// Number of Sets with a wrong M_Key to switches that make a port count as hostile: an operator's
/// tool tries only once or twice.
const HOSTILE_SETS: u32 = 3;

/// Time without a report after which the violations of a port are forgotten.
const VIOLATIONS_KEPT: Duration = Duration::from_secs(3600);

/// A report of a wrong key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation {
    /// The port that used the key.
    pub(super) port: PortKey,
    /// The port that reported it.
    pub(super) reporter: PortKey,
    pub(super) is_by_switch: bool,
    /// Whether the wrong key was the M_Key of a Set.
    pub(super) is_set: bool,
}

/// Reported key violations of a port.
#[derive(Clone, Copy, Debug)]
struct Violations {
    count: u32,
    /// Whether one of the violations was a Set with a wrong M_Key.
    has_set: bool,
    /// Number of Sets with a wrong M_Key that a switch reported.
    sets_at_switches: u32,
    /// Port that reported the first violation.
    reporter: PortKey,
    /// Whether a switch, or a port of a second node, has reported a violation as well.
    is_confirmed: bool,
    /// Time of the last report.
    last: Time,
}

impl Violations {
    /// Whether the last report is less than [`VIOLATIONS_KEPT`] old.
    fn is_recent(&self, now: Time) -> bool {
        now.since(self.last) < VIOLATIONS_KEPT
    }

    /// Whether there are enough violations for a finding.
    fn has_finding(&self) -> bool {
        self.has_set || self.count >= VIOLATIONS_FOR_FINDING
    }

    /// Whether the violations are proved. The finding is then about the port that used wrong keys,
    /// otherwise about the port that reported them.
    fn is_proved(&self) -> bool {
        self.sets_at_switches > 0 || self.is_confirmed && self.count >= VIOLATIONS_FOR_FINDING
    }
}

/// Key violations, by the port that used a wrong key.
#[derive(Default, Debug)]
pub(super) struct ViolationTable {
    by_port: BTreeMap<PortKey, Violations>,
}

impl ViolationTable {
    /// Makes room for the violations of another port. Returns `false` if there is no room: the host
    /// has reported too many ports alone, or too many ports are remembered. A report of a switch
    /// replaces the oldest violations that no switch has seen, unproved ones first.
    fn makes_room(&mut self, report: Violation, now: Time) -> bool {
        let by_reporter = self
            .by_port
            .values()
            .filter(|known| known.reporter == report.reporter && !known.is_confirmed);
        if !report.is_by_switch && by_reporter.count() >= UNCONFIRMED_PER_REPORTER {
            return false;
        }
        if self.by_port.len() >= PORTS_REMEMBERED {
            self.by_port.retain(|_, reported| reported.is_recent(now));
        }
        if self.by_port.len() >= PORTS_REMEMBERED && report.is_by_switch {
            let unseen = self.by_port.iter();
            let unseen = unseen.filter(|(_, known)| known.sets_at_switches == 0);
            let oldest = unseen.min_by_key(|(_, known)| (known.is_proved(), known.last));
            if let Some((&port, _)) = oldest {
                self.by_port.remove(&port);
            }
        }
        self.by_port.len() < PORTS_REMEMBERED
    }

    /// Counts a reported violation. Returns whether a finding begins or changes.
    pub(super) fn count(&mut self, report: Violation, now: Time) -> bool {
        let Violation { port, reporter, .. } = report;
        if !self.by_port.contains_key(&port) && !self.makes_room(report, now) {
            return false;
        }
        let none_yet = Violations {
            count: 0,
            has_set: false,
            sets_at_switches: 0,
            reporter,
            is_confirmed: false,
            last: now,
        };
        let violations = self.by_port.entry(port).or_insert(none_yet);
        if !violations.is_recent(now) {
            *violations = none_yet;
        }
        let before = (violations.has_finding(), violations.is_proved());
        violations.count = violations.count.saturating_add(1);
        violations.has_set |= report.is_set;
        let is_at_switch = report.is_set && report.is_by_switch;
        violations.sets_at_switches = violations
            .sets_at_switches
            .saturating_add(u32::from(is_at_switch));
        violations.is_confirmed |= report.is_by_switch || violations.reporter.node != reporter.node;
        violations.last = now;
        before != (violations.has_finding(), violations.is_proved())
    }

    /// Forgets old reports. Returns whether a finding ends.
    pub(super) fn release(&mut self, now: Time) -> bool {
        let ended = self.by_port.values();
        let mut ended = ended.filter(|reported| !reported.is_recent(now));
        let has_ended = ended.any(Violations::has_finding);
        self.by_port.retain(|_, reported| reported.is_recent(now));
        has_ended
    }

    /// Time at which [`ViolationTable::release`] forgets the next port; `None` if there is none.
    pub(super) fn next_release(&self) -> Option<Time> {
        let releases = self.by_port.values();
        releases
            .map(|reported| reported.last + VIOLATIONS_KEPT)
            .min()
    }

    /// The ports that tried Sets with wrong M_Keys on switches, each with the time of its last
    /// reported violation.
    pub(super) fn hostile(&self, now: Time) -> impl Iterator<Item = (PortKey, Time)> + '_ {
        let hostile = self.by_port.iter().filter(move |(_, reported)| {
            reported.is_recent(now) && reported.sets_at_switches >= HOSTILE_SETS
        });
        hostile.map(|(&port, reported)| (port, reported.last))
    }

    /// Texts of the findings about wrong keys, each with the port of its subject: a port that used
    /// wrong keys, or one that reports them alone.
    pub(super) fn texts(
        &self,
        place: impl Fn(PortKey) -> String,
        now: Time,
    ) -> Vec<(PortKey, String)> {
        let times = |count: u32| match count {
            1 => "once".to_owned(),
            _ => format!("{count} times"),
        };
        let mut texts = Vec::new();
        // By reporter: the first port that it reports, the number of its reports, and of its ports.
        let mut unproved: BTreeMap<PortKey, (PortKey, u32, usize)> = BTreeMap::new();
        let violations = self.by_port.iter();
        let violations =
            violations.filter(|(_, reported)| reported.has_finding() && reported.is_recent(now));
        for (&port, reported) in violations {
            let Violations {
                count, reporter, ..
            } = *reported;
            if !reported.is_proved() {
                let (_, reports, ports) = unproved.entry(reporter).or_insert((port, 0, 0));
                (*reports, *ports) = (reports.saturating_add(count), *ports + 1);
                continue;
            }
            let text = format!(
                "{} used a wrong M_Key, P_Key or Q_Key {}, as other ports report: its packets are dropped; \
                 see what runs on its host",
                place(port),
                times(count)
            );
            texts.push((port, text));
        }
        for (reporter, (port, reports, ports)) in unproved {
            let from = place(port);
            let text = format!(
                "{} reports {} a packet with a wrong M_Key, P_Key or Q_Key from {}",
                place(reporter),
                times(reports),
                match ports {
                    1 => format!(
                        "{from}, and no other port does: that port uses a wrong key, or the report is false; \
                         see what runs on both hosts"
                    ),
                    _ => format!(
                        "{from} and {} more, and no other port does: these ports use wrong keys, or the reports \
                         are false; see first what runs on the reporting host",
                        ports - 1
                    ),
                }
            );
            texts.push((reporter, text));
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn port(node: u64) -> PortKey {
        PortKey::new(Guid(node), PortNum(1))
    }

    /// A report of a Set with a wrong M_Key.
    fn set(port: PortKey, reporter: PortKey, is_by_switch: bool) -> Violation {
        Violation {
            port,
            reporter,
            is_by_switch,
            is_set: true,
        }
    }

    #[test]
    fn reports_of_hosts_leave_room_for_reports_of_switches() {
        let mut violations = ViolationTable::default();
        let hosts = PORTS_REMEMBERED / UNCONFIRMED_PER_REPORTER;
        for reporter in 0..hosts as u64 {
            let reporter = port(1 << 32 | reporter);
            for named in 0..100 {
                let named = port(reporter.node.0 << 8 | named);
                violations.count(set(named, reporter, false), Time::ZERO);
            }
        }
        assert_eq!(violations.by_port.len(), PORTS_REMEMBERED);
        let (culprit, switch) = (port(1), PortKey::new(Guid(2), PortNum::ZERO));
        for _ in 0..HOSTILE_SETS {
            violations.count(set(culprit, switch, true), Time::ZERO);
        }
        let hostile: Vec<PortKey> = violations
            .hostile(Time::ZERO)
            .map(|(port, _)| port)
            .collect();
        assert_eq!(hostile, [culprit]);
        assert_eq!(violations.by_port.len(), PORTS_REMEMBERED);
    }
}
