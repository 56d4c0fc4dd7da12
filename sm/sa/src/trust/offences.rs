//! Counts requests of ports that violate trust rules or exceed the port's share, for findings.
//!
//! Each port has findings of its own, with the counts and the cable of the port. The daemon gets a
//! new list of findings at most once per second, and only if a port or kind of request is new, the
//! requests of a port have doubled, or a port is no longer listed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use crate::directory::Directory;
use crate::ends::EndPort;
use crate::pace::Pace;

/// Time for which a port is listed after its last offence, longer than hosts take to repeat a join.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Maximum number of ports with separate counts: the ports of a large partition, for which some
/// hundred kilobytes are needed. Requests of all other ports are counted together.
const MAX_PORTS: usize = 2048;

/// Maximum number of ports with separate findings of one kind, in the order of their first offence.
/// If more ports offend, the cause is a program that the site runs everywhere. One finding counts
/// all other ports, including ports that have vanished.
const MAX_FINDINGS_PER_KIND: usize = 256;

/// A kind of request that violates trust rules, or exceeds a port's share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Offence {
    /// A join of a multicast group for another port.
    Join,
    /// A leave for another port.
    Leave,
    /// A service registered or deleted for another port.
    Service,
    /// Alias GUIDs assigned to or released from another port.
    AliasGuid,
    /// The GID of another port in the global route header.
    SourceGid,
    /// A join of a multicast group whose MGID belongs to another partition.
    ForeignGroup,
    /// Alias GUIDs that belong to another partition.
    ForeignAlias,
    /// More new multicast groups than a port may make.
    Groups,
    /// More memberships in multicast groups than a port may have.
    Memberships,
    /// More services than a port may register.
    Services,
    /// More subscriptions than a port may have.
    Subscriptions,
    /// More tables at once, or more bytes of tables, than a port may get.
    Tables,
    /// More requests per second than a port may send while other ports wait.
    Requests,
}

impl Offence {
    /// Number of kinds.
    const COUNT: usize = 13;

    /// The offences in findings about trust, with their names in the text.
    const OF_TRUST: [(Offence, &'static str); 7] = [
        (Offence::Join, "joins"),
        (Offence::Leave, "leaves"),
        (Offence::Service, "services"),
        (Offence::AliasGuid, "alias GUIDs"),
        (Offence::SourceGid, "requests with another GID"),
        (
            Offence::ForeignGroup,
            "joins of groups of another partition",
        ),
        (Offence::ForeignAlias, "alias GUIDs of another partition"),
    ];
    /// The offences in findings about shares, with their names in the text.
    const OF_SHARE: [(Offence, &'static str); 6] = [
        (Offence::Groups, "new multicast groups"),
        (Offence::Memberships, "memberships"),
        (Offence::Services, "services"),
        (Offence::Subscriptions, "subscriptions"),
        (Offence::Tables, "tables"),
        (Offence::Requests, "requests and other packets"),
    ];
}

/// The offences of one port.
#[derive(Clone, Copy, Debug)]
struct Offender {
    /// Position of the port in the order of first offences, from 1.
    order: u64,
    /// Number of requests of each kind, in the order of [`Offence`].
    counts: [u64; Offence::COUNT],
    /// Number of requests against trust rules that the SA refused.
    refused: u64,
    /// Number of requests of all kinds when the findings were last listed.
    listed: u64,
    /// Time at which the port is no longer listed, unless another offence follows.
    until: Time,
}

impl Offender {
    /// Number of requests of all kinds.
    fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of the port's requests against trust rules, and the number of refused ones.
    fn violations(&self) -> Violations {
        let counts = Offence::OF_TRUST.map(|(offence, _)| self.counts[offence as usize]);
        Violations {
            all: counts.iter().sum(),
            refused: self.refused,
        }
    }

    /// The counts of `offences`, in words; `None` if all are zero.
    fn counts_in_words(&self, offences: &[(Offence, &str)]) -> Option<String> {
        let counts = offences.iter().filter_map(|&(offence, name)| {
            let count = self.counts[offence as usize];
            (count > 0).then(|| format!("{count} {name}"))
        });
        let counts: Vec<String> = counts.collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    }
}

/// Numbers of requests against trust rules.
#[derive(Clone, Copy, Default, Debug)]
struct Violations {
    all: u64,
    /// Number of requests that the SA refused.
    refused: u64,
}

impl Violations {
    /// The effect on other ports, and what the operator should do.
    fn in_words(self) -> String {
        let Violations { all, refused } = self;
        let obeyed = "ports get or lose groups, services or GUIDs that their hosts did not ask for";
        let manager = "ports that manage other ports belong in `sa.trust_proxies`";
        let enforce = "set `sa.trust_mode = \"enforce\"`, or `trust=enforce` for the partition";
        match refused {
            0 => format!(
                "the SA obeys, and {obeyed}; see what runs on these hosts; {manager}; {enforce}"
            ),
            _ if refused >= all => format!(
                "the SA refuses them, and nothing of other ports changes; see what runs on these hosts; {manager}"
            ),
            _ => format!(
                "the SA refused {refused} of them and obeyed the others, so that {obeyed}; see what runs on these \
                 hosts; {manager}; {enforce}"
            ),
        }
    }
}

/// The ports with offences.
#[derive(Default, Debug)]
pub(crate) struct Offences {
    ports: BTreeMap<Guid, Offender>,
    /// The offences of all ports beyond [`MAX_PORTS`], counted as one offender.
    overflow: Option<Offender>,
    /// Number of ports that have offended so far, including ports that have vanished.
    offender_count: u64,
    /// Limits how often the findings are listed.
    pace: Pace,
}

impl Offences {
    /// Counts `requests` of this kind that the port with this GUID made beyond its share.
    pub(crate) fn record_excess(&mut self, port: Guid, offence: Offence, requests: u64, now: Time) {
        self.count(port, (offence, requests), 0, now);
    }

    /// Counts a request of this kind that the port with this GUID made against trust rules.
    pub(crate) fn record_violation(
        &mut self,
        port: Guid,
        offence: Offence,
        is_refused: bool,
        now: Time,
    ) {
        self.count(port, (offence, 1), u64::from(is_refused), now);
    }

    /// Counts requests of one kind, `refused` of which count as refused for lack of trust.
    fn count(&mut self, port: Guid, (offence, requests): (Offence, u64), refused: u64, now: Time) {
        let is_overflow = self.ports.len() >= MAX_PORTS && !self.ports.contains_key(&port);
        let offender_count = &mut self.offender_count;
        let new_offender = || {
            *offender_count += 1;
            Offender {
                order: *offender_count,
                counts: [0; Offence::COUNT],
                refused: 0,
                listed: 0,
                until: now,
            }
        };
        let offender = match is_overflow {
            true => self.overflow.get_or_insert_with(new_offender),
            false => self.ports.entry(port).or_insert_with(new_offender),
        };
        let count = &mut offender.counts[offence as usize];
        let is_first = *count == 0;
        *count = count.saturating_add(requests);
        offender.refused = offender.refused.saturating_add(refused);
        offender.until = now + KEPT_FOR;
        self.pace
            .record_change(is_first || offender.sum() >= offender.listed.saturating_mul(2));
    }

    /// Forgets the ports whose last offence is [`KEPT_FOR`] ago.
    pub(crate) fn handle_deadline(&mut self, now: Time) {
        let before = self.ports.len();
        self.ports.retain(|_, offender| offender.until > now);
        let ended = self.overflow.take_if(|offender| offender.until <= now);
        self.pace
            .record_change(self.ports.len() != before || ended.is_some());
    }

    /// Forgets all ports.
    pub(crate) fn clear(&mut self) {
        self.pace.record_change(!self.ports.is_empty());
        self.ports.clear();
        self.overflow = None;
    }

    /// Time of the next [`Offences::handle_deadline`] or [`Offences::poll`].
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let all = self.ports.values().chain(&self.overflow);
        let ends = all.map(|offender| offender.until).min();
        [self.pace.deadline(), ends].into_iter().flatten().min()
    }

    /// The findings; an empty list if there is no directory. `None` if the findings cannot differ
    /// from those of the last call.
    pub(crate) fn poll(
        &mut self,
        directory: Option<&Directory>,
        now: Time,
    ) -> Option<Vec<Finding>> {
        if !self.pace.is_due(now) {
            return None;
        }
        for offender in self.ports.values_mut().chain(&mut self.overflow) {
            offender.listed = offender.sum();
        }
        let Some(directory) = directory else {
            return Some(Vec::new());
        };
        let of_trust = self.findings(directory, FindingKind::SaTrust, &Offence::OF_TRUST, |named, violations| {
            format!(
                "{named}: these requests to the SA are in the name of other ports, or for names of other \
                 partitions; {}",
                violations.in_words()
            )
        });
        let of_share = self.findings(directory, FindingKind::SaShare, &Offence::OF_SHARE, |named, _| {
            format!(
                "{named}: the SA refused these requests, of the port or for lack of what it holds, because it \
                 has its share or the most of a full table; programs lack what was refused; see what runs there"
            )
        });
        Some([of_trust, of_share].concat())
    }

    /// The findings of `kind` about the ports with `offences`. `text_of` makes the text from the
    /// name of the port with the counts in words, and from its requests against trust rules.
    fn findings(
        &self,
        directory: &Directory,
        kind: FindingKind,
        offences: &[(Offence, &str)],
        text_of: impl Fn(String, Violations) -> String,
    ) -> Vec<Finding> {
        let ports = self.ports.iter();
        let all = ports.filter_map(|(&port, offender)| {
            Some((offender.order, port, offender.counts_in_words(offences)?))
        });
        let mut all: Vec<(u64, Guid, String)> = all.collect();
        all.sort_unstable();
        let named = all.iter().filter_map(|(_, port, counts)| {
            let end = directory.end(directory.by_guid(*port)?);
            let subject = Subject::Port(directory.fabric.key(end.at));
            let named = format!("{}: {counts}", port_name(directory, end));
            let text = text_of(named, self.ports.get(port)?.violations());
            Some((*port, Finding::new(kind, subject, Severity::Warning, text)))
        });
        let (with_findings, mut findings): (BTreeSet<Guid>, Vec<Finding>) =
            named.take(MAX_FINDINGS_PER_KIND).unzip();
        let more = all.len() - findings.len();
        if more > 0 {
            let ports = if more == 1 { "port" } else { "ports" };
            let unnamed = all
                .iter()
                .filter(|(_, port, _)| !with_findings.contains(port));
            let unnamed =
                unnamed.filter_map(|(_, port, _)| Some(self.ports.get(port)?.violations()));
            let violations = unnamed.fold(Violations::default(), |sum, one| Violations {
                all: sum.all + one.all,
                refused: sum.refused + one.refused,
            });
            let text = text_of(format!("{more} more {ports}"), violations);
            let subject = Subject::Subnet;
            findings.push(Finding::new(kind, subject, Severity::Warning, text));
        }
        let overflow = self.overflow.iter();
        findings.extend(overflow.filter_map(|offender| {
            let counts = offender.counts_in_words(offences)?;
            let named =
                format!("all other ports, after {MAX_PORTS} ports with their own counts: {counts}");
            let text = text_of(named, offender.violations());
            Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
        }));
        findings
    }
}

/// Name of a port, with the port at the other end of its cable, for the operator.
fn port_name(directory: &Directory, end: &EndPort) -> String {
    let fabric = &directory.fabric;
    let name = |at| fabric.port_name(fabric.key(at));
    let vport = end.vport.map(|index| format!(" (virtual port {index})"));
    let own = format!("{}{}", name(end.at), vport.unwrap_or_default());
    match fabric.peer(end.at) {
        Some(peer) => format!("{own} at {}", name(peer)),
        None => own,
    }
}
