//! Sources of traps: each source has a limited share of the main loop's time, and rsm acts only on
//! its reports about its own node.
//!
//! The source of a trap is the port with the source LID of the trap's packet. A sender can choose
//! the subject and the issuer of a trap freely, but not the source LID. An honest agent repeats a
//! trap until it gets TrapRepress (IBA 13.4.9), so a trap that rsm drops is delayed, not lost.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Lid, PortKey};
use rsm_mad::Time;
use rsm_mad::allowance::{Allowance, Rate};
use rsm_mad::ids::Tid;
use rsm_mad::wire::attr::{Notice, TrapDetails};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// The share of one source: a burst that suffices for the traps of all links of a large switch with
/// some repetitions, then five traps a second, the rate at which an agent repeats traps (IBA
/// 13.4.9).
const SHARE: Rate = Rate {
    burst: 250,
    pause: Duration::from_millis(200),
};

/// The share of one trap of a source in the answers and the work of rsm if TrapRepress does not
/// end the trap. On planar fabrics TrapRepress may not arrive, and each agent then repeats its
/// traps without end.
const REPETITIONS: Rate = Rate {
    burst: 4,
    pause: Duration::from_secs(5),
};

/// Total weight of a port's forged traps that makes a finding, if no [`FORGED_PAUSE`] separates
/// the traps. One trap is not enough: an honest port whose LID has changed repeats a trap with its
/// former LID until the trap is repressed.
const FORGED_FINDING_WEIGHT: u32 = 10;

/// Weight of a trap that no honest port sends; other forged traps weigh 1. Three traps of this kind
/// make a finding, one does not: a switch that comes back may send its first traps from its former
/// LID, which by then belongs to a host.
const NEVER_HONEST_WEIGHT: u32 = 4;

/// Time without a forged trap after which the count of a port starts again at 0.
const FORGED_PAUSE: Duration = Duration::from_secs(60);

/// Time without a forged trap after which the finding about a port ends.
const FORGED_KEPT: Duration = Duration::from_secs(3600);

/// Maximum number of sources with a share: the number of unicast LIDs.
const SOURCES: usize = 0xC000;

/// Traps of a port that were not about itself.
#[derive(Clone, Copy, Debug)]
struct Forged {
    /// Sum of the traps' weights.
    count: u32,
    /// Time of the last forged trap.
    last: Time,
}

impl Forged {
    /// Whether there is a finding about the port at `now`.
    fn has_finding(self, now: Time) -> bool {
        self.count >= FORGED_FINDING_WEIGHT && now.since(self.last) < FORGED_KEPT
    }
}

/// The shares of the sources, and their forged traps.
#[derive(Clone, Default, Debug)]
pub(super) struct TrapSources {
    /// The part of its [`SHARE`] that each port has used.
    shares: BTreeMap<PortKey, Allowance>,
    /// The part of [`REPETITIONS`] that each trap has used, by the port and the transaction that
    /// the trap and its repetitions share; for at most [`SOURCES`] traps.
    repetitions: BTreeMap<(PortKey, Tid), Allowance>,
    /// Forged traps, by the port that sent them.
    forged: BTreeMap<PortKey, Forged>,
}

impl TrapSources {
    /// Charges a trap of `port` to the port's share. Returns `false` if the share is used up: the
    /// caller then drops the trap.
    pub(super) fn admit(&mut self, port: PortKey, now: Time) -> bool {
        if self.shares.len() >= SOURCES && !self.shares.contains_key(&port) {
            self.shares.retain(|_, share| !share.is_whole(now));
            if self.shares.len() >= SOURCES {
                return false;
            }
        }
        let share = self.shares.entry(port).or_insert(Allowance::whole(now));
        share.take(SHARE, now)
    }

    /// Counts a trap of `port` by its transaction. The trap counts as the first of its kind if
    /// further traps are not remembered.
    pub(super) fn count_repetition(&mut self, port: PortKey, tid: Tid, now: Time) -> Repetition {
        let key = (port, tid);
        if self.repetitions.len() >= SOURCES && !self.repetitions.contains_key(&key) {
            self.repetitions.retain(|_, used| !used.is_whole(now));
            if self.repetitions.len() >= SOURCES {
                return Repetition::First;
            }
        }
        let used = self.repetitions.entry(key).or_insert(Allowance::whole(now));
        let is_first = used.is_whole(now);
        match used.take(REPETITIONS, now) {
            true if is_first => Repetition::First,
            true => Repetition::Within,
            false => Repetition::Beyond,
        }
    }

    /// Records a trap that `port` may not issue. Returns whether a finding about the port begins.
    pub(super) fn count_forged(&mut self, port: PortKey, is_never_honest: bool, now: Time) -> bool {
        if self.forged.len() >= SOURCES && !self.forged.contains_key(&port) {
            self.forged.retain(|_, forged| forged.has_finding(now));
        }
        if self.forged.len() >= SOURCES && !self.forged.contains_key(&port) {
            return false;
        }
        let none_yet = Forged {
            count: 0,
            last: now,
        };
        let forged = self.forged.entry(port).or_insert(none_yet);
        if now.since(forged.last) >= FORGED_PAUSE && !forged.has_finding(now) {
            *forged = none_yet;
        }
        let was_finding = forged.has_finding(now);
        let weight = match is_never_honest {
            true => NEVER_HONEST_WEIGHT,
            false => 1,
        };
        forged.count = forged.count.saturating_add(weight);
        forged.last = now;
        !was_finding && forged.has_finding(now)
    }

    /// Forgets forged traps after [`FORGED_KEPT`]. Returns whether a finding ends.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        let is_old = |forged: &Forged| now.since(forged.last) >= FORGED_KEPT;
        let mut old = self.forged.values().filter(|forged| is_old(forged));
        let has_ended = old.any(|forged| forged.count >= FORGED_FINDING_WEIGHT);
        self.forged.retain(|_, forged| !is_old(forged));
        has_ended
    }

    /// Time at which [`TrapSources::release`] forgets the next port; `None` if there is none.
    pub(crate) fn next_release(&self) -> Option<Time> {
        let forged = self.forged.values();
        forged.map(|forged| forged.last + FORGED_KEPT).min()
    }

    /// The ports with a finding, each with the time of its last forged trap.
    pub(super) fn forgers(&self, now: Time) -> impl Iterator<Item = (PortKey, Time)> {
        let forged = self.forged.iter();
        let forged = forged.filter(move |(_, forged)| forged.has_finding(now));
        forged.map(|(&port, forged)| (port, forged.last))
    }

    /// Findings about the ports that send forged traps. `place` gives the name of a port and its
    /// cable.
    pub(super) fn findings(&self, place: impl Fn(PortKey) -> String, now: Time) -> Vec<Finding> {
        let forged = self.forged.iter();
        let forged = forged.filter(|(_, forged)| forged.has_finding(now));
        let forged = forged.map(|(&port, _)| {
            let text = format!(
                "{} sends notices and traps in the name of other ports: rsm acts on none, and no subscriber gets them; see \
                 what runs on its host, or disable the port",
                place(port)
            );
            Finding::new(
                FindingKind::ForgedTrap,
                Subject::Port(port),
                Severity::Warning,
                text,
            )
        });
        forged.collect()
    }
}

/// How often a source has sent the same trap lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repetition {
    /// The trap is new.
    First,
    /// The trap is repeated, and within its share [`REPETITIONS`].
    Within,
    /// The trap is repeated more often than its share.
    Beyond,
}

/// The sender of a trap.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrapSender {
    /// The source LID of the packet.
    pub(super) source: Lid,
    /// Whether the sender's node is a switch.
    pub(super) is_switch: bool,
}

/// Whether no honest port of the sender's kind issues `notice`: only subnet managers issue traps 64
/// to 67, and only switches issue traps 128 and 259.
pub(super) fn is_never_honest(notice: &Notice, sender: TrapSender) -> bool {
    match notice.details() {
        TrapDetails::GidChange(_) => true,
        TrapDetails::LinkStateChange(_) | TrapDetails::BadPKeyAtSwitch(_) => !sender.is_switch,
        _ => false,
    }
}

/// Whether the sender may issue `notice`: the subject is the sender's own node, and so is the
/// issuer LID. `is_of_node` tells whether a LID belongs to a port of the sender's node.
pub(super) fn is_credible(
    notice: &Notice,
    sender: TrapSender,
    is_of_node: impl Fn(Lid) -> bool,
) -> bool {
    // Most agents name the LID that they send from.
    let is_own = |lid: Lid| lid == sender.source || is_of_node(lid);
    let is_about_own = match notice.details() {
        TrapDetails::GidChange(_) => false,
        TrapDetails::LinkStateChange(change) => sender.is_switch && is_own(change.lid()),
        TrapDetails::LocalChange(change) => is_own(change.lid()),
        TrapDetails::SystemImageGuidChange(change) => is_own(change.lid()),
        TrapDetails::PortThreshold(threshold) => is_own(threshold.lid()),
        TrapDetails::VPortStateChange(change) => is_own(change.lid()),
        TrapDetails::VPortLocalChange(change) => is_own(change.lid()),
        // The reporter must be the destination of the packet with the bad key.
        TrapDetails::BadKeys(violation) => {
            !violation.lid2().is_unicast() || is_own(violation.lid2())
        }
        TrapDetails::BadPKeyAtSwitch(_) => sender.is_switch,
        TrapDetails::BadMKey(_) | TrapDetails::Other(_) => true,
    };
    is_about_own && is_own(notice.issuer_lid())
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};
    use rsm_mad::wire::attr::*;

    use super::*;

    const HOST: Lid = Lid(5);
    const SECOND_PORT: Lid = Lid(6);
    const VICTIM: Lid = Lid(9);

    fn port(node: u64) -> PortKey {
        PortKey::new(Guid(node), PortNum(1))
    }

    fn notice<D: Details>(trap: Trap, issuer: Lid, details: &D) -> Notice {
        Notice::generic(NoticeType::Urgent, ProducerType::CA, trap, issuer, details)
    }

    fn link_state(lid: Lid) -> LinkStateChange {
        let mut details = LinkStateChange::default();
        details.set_lid(lid);
        details
    }

    fn local(lid: Lid) -> LocalChange {
        let mut details = LocalChange::default();
        details.set_lid(lid);
        details
    }

    fn threshold(lid: Lid) -> PortThreshold {
        let mut details = PortThreshold::default();
        details.set_lid(lid);
        details
    }

    fn keys(from: Lid, to: Lid) -> BadKeys {
        let mut details = BadKeys::default();
        details.set_lid1(from).set_lid2(to);
        details
    }

    #[test]
    fn trap_is_credible_only_if_it_is_about_the_senders_own_node() {
        use Trap as T;
        let m_key = BadMKey::default();
        let gid = GidChange::default();
        let at_switch = BadPKeyAtSwitch::default();
        let rows = [
            // The notice, and whether a host and a switch with LID 5 may send it.
            (
                notice(T::LINK_STATE_CHANGED, HOST, &link_state(HOST)),
                [false, true],
            ),
            (
                notice(T::LINK_STATE_CHANGED, HOST, &link_state(VICTIM)),
                [false, false],
            ),
            (notice(T::LOCAL_CHANGE, HOST, &local(HOST)), [true, true]),
            (
                notice(T::LOCAL_CHANGE, HOST, &local(SECOND_PORT)),
                [true, true],
            ),
            (
                notice(T::LOCAL_CHANGE, HOST, &local(VICTIM)),
                [false, false],
            ),
            (
                notice(T::LOCAL_CHANGE, VICTIM, &local(HOST)),
                [false, false],
            ),
            (
                notice(T::LINK_INTEGRITY, HOST, &threshold(HOST)),
                [true, true],
            ),
            (
                notice(T::LINK_INTEGRITY, HOST, &threshold(VICTIM)),
                [false, false],
            ),
            (notice(T::BAD_M_KEY, HOST, &m_key), [true, true]),
            (notice(T::BAD_M_KEY, VICTIM, &m_key), [false, false]),
            (
                notice(T::BAD_P_KEY, HOST, &keys(VICTIM, HOST)),
                [true, true],
            ),
            (
                notice(T::BAD_P_KEY, HOST, &keys(VICTIM, Lid(0xC001))),
                [true, true],
            ),
            (
                notice(T::BAD_Q_KEY, HOST, &keys(VICTIM, VICTIM)),
                [false, false],
            ),
            (
                notice(T::BAD_P_KEY_AT_SWITCH, HOST, &at_switch),
                [false, true],
            ),
            (notice(T::GID_IN_SERVICE, HOST, &gid), [false, false]),
            (notice(T::GID_OUT_OF_SERVICE, HOST, &gid), [false, false]),
            (notice(T::GROUP_CREATED, HOST, &gid), [false, false]),
            (notice(T::GROUP_DELETED, HOST, &gid), [false, false]),
        ];
        for (notice, expected) in rows {
            let believed = [false, true].map(|is_switch| {
                let sender = TrapSender {
                    source: HOST,
                    is_switch,
                };
                is_credible(&notice, sender, |lid| lid == SECOND_PORT)
            });
            assert_eq!(believed, expected, "{notice:?}");
        }
    }

    #[test]
    fn traps_of_a_source_beyond_its_share_are_dropped_and_other_sources_are_admitted() {
        let mut sources = TrapSources::default();
        let admitted = (0..10_000).filter(|_| sources.admit(port(1), Time::ZERO));
        assert_eq!(admitted.count(), SHARE.burst as usize);
        assert!(sources.admit(port(2), Time::ZERO));
        // Five a second from then on.
        let later = Time::ZERO + Duration::from_secs(2);
        let admitted = (0..1000).filter(|_| sources.admit(port(1), later));
        assert_eq!(admitted.count(), 10);
    }

    #[test]
    fn two_forged_traps_a_minute_make_no_finding() {
        let mut sources = TrapSources::default();
        for minute in 0..100 {
            let now = Time::ZERO + FORGED_PAUSE * minute;
            assert!(!sources.count_forged(port(1), false, now));
            assert!(!sources.count_forged(port(1), false, now));
            assert!(sources.findings(|_| String::new(), now).is_empty());
        }
    }

    #[test]
    fn third_trap_that_no_honest_port_sends_makes_a_finding() {
        let mut sources = TrapSources::default();
        let news = [(); 4].map(|()| sources.count_forged(port(1), true, Time::ZERO));
        assert_eq!(news, [false, false, true, false]);
        let sender = |is_switch| TrapSender {
            source: HOST,
            is_switch,
        };
        let change = notice(Trap::LINK_STATE_CHANGED, HOST, &link_state(HOST));
        let gone = notice(Trap::GID_OUT_OF_SERVICE, HOST, &GidChange::default());
        let own = notice(Trap::LOCAL_CHANGE, HOST, &local(VICTIM));
        assert!(is_never_honest(&change, sender(false)));
        assert!(!is_never_honest(&change, sender(true)));
        assert!(is_never_honest(&gone, sender(true)));
        assert!(!is_never_honest(&own, sender(false)));
    }

    #[test]
    fn trap_repeated_without_end_counts_once_in_five_seconds() {
        let mut sources = TrapSources::default();
        let mut count = |tid, times: u64, from: u64| {
            let at = |n| Time::ZERO + Duration::from_millis(from + 200 * n);
            let all = (0..times).map(|n| sources.count_repetition(port(1), Tid(tid), at(n)));
            let all: Vec<Repetition> = all.collect();
            let of = |kind| all.iter().filter(|&&one| one == kind).count();
            [Repetition::First, Repetition::Within].map(of)
        };
        assert_eq!(count(1, 4, 0), [1, 3]);
        assert_eq!(count(1, 250, 800), [0, 11]);
        assert_eq!(count(2, 1, 800), [1, 0], "a new trap is not repeated");
        assert_eq!(count(1, 1, 200_000), [1, 0], "the trap has ended");
    }

    #[test]
    fn finding_about_forged_traps_begins_once_and_ends_after_an_hour_of_quiet() {
        let mut sources = TrapSources::default();
        let named = (0..100).filter(|_| sources.count_forged(port(1), false, Time::ZERO));
        assert_eq!(named.count(), 1);
        let place = |port: PortKey| format!("host {}", port.node.0);
        let ended = Time::ZERO + FORGED_KEPT;
        assert!(sources.findings(place, ended).is_empty());
        let found = sources.findings(place, Time::ZERO);
        let [finding] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(finding.kind, FindingKind::ForgedTrap);
        assert!(
            finding
                .text
                .starts_with("host 1 sends notices and traps in the name")
        );
        assert!(!sources.release(Time::ZERO + FORGED_KEPT / 2));
        assert_eq!(sources.next_release(), Some(ended));
        assert!(sources.release(ended), "the finding ends by itself");
        assert_eq!(sources.next_release(), None);
    }
}
