//! Traps: the core represses those within the share of their source, does the work of their kind,
//! and merges storms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{
    Attribute, BadMKey, NodeType, Notice, PortThreshold, SmInfo, SmState, TrapDetails,
};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;
use rsm_model::fabric::Delta;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_monitor::health::Babbling;
use rsm_state::Role;

use super::hostile::Hostility;
use super::mastership::role;
use super::stage::Stage;
use super::trap_pauses::TrapPauses;
use super::trap_sources::{TrapSender, TrapSources, is_credible, is_never_honest};
use super::{Core, Effect, Mode};

/// Ports whose error reports are counted one by one; reports of further ports only add to the
/// traps' counts.
const PORTS_REMEMBERED: usize = 4096;

/// Reports of key violations of a port before it gets a finding: hosts of tenants probe. A single Set
/// with a wrong M_Key is one, but from a manager, which may have the key of before a rotation.
const VIOLATIONS_WORTH_A_FINDING: u32 = 10;

/// Sets with a wrong M_Key at switches that are no mistake: a tool of an operator tries once or
/// twice.
const SETS_WORTH_ISOLATION: u32 = 3;

/// Time without a report after which the violations of a port are forgotten.
const VIOLATIONS_KEPT: Duration = Duration::from_secs(3600);

/// A report of a wrong key.
#[derive(Clone, Copy, Debug)]
struct Violation {
    /// The port that used the key.
    port: PortKey,
    reporter: PortKey,
    is_by_switch: bool,
    /// The key was the M_Key of a Set.
    is_set: bool,
}

/// Reported key violations of a port.
#[derive(Clone, Copy, Debug)]
struct Violations {
    count: u32,
    /// One of them was a Set with a wrong M_Key.
    has_set: bool,
    /// Such Sets that a switch reported.
    sets_at_switches: u32,
    /// The port that reported the first one.
    reporter: PortKey,
    /// A switch or another port reported one as well, so that it is not the word of one host
    /// against the other.
    is_confirmed: bool,
    last: Time,
}

impl Violations {
    /// Whether the last report is not too old.
    fn counts(&self, now: Time) -> bool {
        now.since(self.last) < VIOLATIONS_KEPT
    }

    fn is_finding(&self) -> bool {
        self.has_set || self.count >= VIOLATIONS_WORTH_A_FINDING
    }

    /// Whether the finding is about the port, and not about the host that accuses it.
    fn is_proved(&self) -> bool {
        self.sets_at_switches > 0 || self.is_confirmed && self.count >= VIOLATIONS_WORTH_A_FINDING
    }
}

/// The traps so far.
#[derive(Clone, Default, Debug)]
pub(super) struct TrapHandler {
    pauses: TrapPauses,
    sources: TrapSources,
    /// Key violations by the port that used a wrong key.
    violations: BTreeMap<PortKey, Violations>,
    babbling: Babbling,
    /// Number of traps, by trap number.
    counts: BTreeMap<u16, u64>,
}

impl TrapHandler {
    /// Records the changes that a reading found.
    pub(super) fn note_changes(&mut self, delta: &Delta) {
        let links = delta.links_vanished.iter().chain(&delta.links_appeared);
        let ends = links.flat_map(|&(a, b)| [a, b]);
        for port in ends.chain(delta.ports_changed.iter().copied()) {
            self.pauses.note_change(port.node);
        }
    }

    /// Counts a report. Returns whether that makes a finding.
    fn violation(&mut self, report: Violation, now: Time) -> bool {
        let Violation { port, reporter, .. } = report;
        let is_full = |all: &BTreeMap<PortKey, Violations>| {
            all.len() >= PORTS_REMEMBERED && !all.contains_key(&port)
        };
        if is_full(&self.violations) {
            self.violations.retain(|_, reported| reported.counts(now));
        }
        if is_full(&self.violations) {
            return false;
        }
        let fresh = Violations {
            count: 0,
            has_set: false,
            sets_at_switches: 0,
            reporter,
            is_confirmed: false,
            last: now,
        };
        let violations = self.violations.entry(port).or_insert(fresh);
        if !violations.counts(now) {
            *violations = fresh;
        }
        let before = (violations.is_finding(), violations.is_proved());
        violations.count = violations.count.saturating_add(1);
        violations.has_set |= report.is_set;
        let is_at_switch = report.is_set && report.is_by_switch;
        violations.sets_at_switches = violations
            .sets_at_switches
            .saturating_add(u32::from(is_at_switch));
        violations.is_confirmed |= report.is_by_switch || violations.reporter.node != reporter.node;
        violations.last = now;
        before != (violations.is_finding(), violations.is_proved())
    }

    /// Forgets ports that no longer babble at `now`. Returns whether there were any.
    pub(super) fn release(&mut self, now: Time) -> bool {
        self.babbling.release(now)
    }

    /// Time at which [`TrapHandler::release`] forgets the next port; `None` if there is none.
    pub(super) fn next_release(&self) -> Option<Time> {
        self.babbling.next_release()
    }

    /// The ports with proof that their hosts act against the subnet, each with its last act.
    pub(super) fn hostile(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (PortKey, Hostility, Time)> + '_ {
        let violations = self.violations.iter();
        let violations = violations.filter(move |(_, reported)| {
            reported.counts(now) && reported.sets_at_switches >= SETS_WORTH_ISOLATION
        });
        let violations =
            violations.map(|(&port, reported)| (port, Hostility::WrongMKeys, reported.last));
        let forgers = self.sources.forgers(now);
        let forgers = forgers.map(|(port, last)| (port, Hostility::ForgesTraps, last));
        let storms = self.babbling.storms();
        let storms = storms.map(|(port, last)| (port, Hostility::FloodsTraps, last));
        violations.chain(forgers).chain(storms)
    }

    /// Number of traps received, by trap number (IBA 14.2.5.1).
    pub(super) fn counts(&self) -> &BTreeMap<u16, u64> {
        &self.counts
    }

    /// Findings about ports with many reports.
    ///
    /// `place` has the name of a port and its cable, and `is_disabled` whether the link of a babbling
    /// port is disabled, or about to be.
    pub(super) fn findings(
        &self,
        name: impl Fn(PortKey) -> String,
        place: impl Fn(PortKey) -> String,
        is_disabled: impl Fn(PortKey) -> bool,
        now: Time,
    ) -> Vec<Finding> {
        let violations = self.violations.iter();
        let violations =
            violations.filter(|(_, reported)| reported.is_finding() && reported.counts(now));
        let violations = violations.map(|(&port, reported)| {
            let Violations {
                count, reporter, ..
            } = *reported;
            let times = match count {
                1 => "once".to_owned(),
                _ => format!("{count} times"),
            };
            let (subject, text) = match reported.is_proved() {
                true => (
                    port,
                    format!(
                        "{} used a wrong M_Key, P_Key or Q_Key {times}, as others report: its packets are dropped; \
                         see what runs on its host",
                        place(port)
                    ),
                ),
                false => (
                    reporter,
                    format!(
                        "{} reports {times} a packet with a wrong M_Key, P_Key or Q_Key from {}, and no other port does: \
                         that port uses a wrong key, or the report is false; see what runs on both hosts",
                        place(reporter),
                        place(port)
                    ),
                ),
            };
            (FindingKind::KeyViolation, subject, text)
        });
        let babbling = self.babbling.ports().map(|(port, count)| {
            let remedy = if is_disabled(port) {
                "the link is disabled (health.disable_babbling); repair its host, and enable the port of \
                 the switch again five minutes after the last trap"
            } else {
                "look for its fault in the other findings, repair it, or disable the port"
            };
            let text = format!(
                "{} sends traps without an end, {count} in a minute: each costs an answer, and reports of others may get lost; \
                 {remedy}",
                name(port)
            );
            (FindingKind::BabblingPort, port, text)
        });
        let all = violations.chain(babbling);
        let all = all.map(|(kind, port, text)| {
            Finding::new(kind, Subject::Port(port), Severity::Warning, text)
        });
        all.chain(self.sources.findings(&place, now)).collect()
    }
}

impl Core {
    /// Handles a datagram that answers no request of this manager.
    pub(super) fn on_unsolicited(&mut self, datagram: &Datagram, now: Time) {
        let smp = Smp::from_bytes(&datagram.mad);
        if !smp.header().class().is_subnet_management() || self.config.mode == Mode::DryRun {
            return;
        }
        match (smp.header().method(), smp.header().attribute()) {
            // Only the master sends to agents; a standby that represses would take the trap away
            // from the master.
            (Method::TRAP, Notice::ID) if self.election.role == Role::Master => {
                self.on_trap_datagram(datagram, now);
            }
            (Method::GET | Method::SET, SmInfo::ID) => self.on_sm_info(datagram, now),
            _ => {}
        }
    }

    /// Takes a trap: nothing comes of one from a LID that no port has, beyond the share of its
    /// source, or about another port than its sender.
    fn on_trap_datagram(&mut self, datagram: &Datagram, now: Time) {
        let smp = Smp::from_bytes(&datagram.mad);
        let mut notice = *Notice::from_data(smp.data());
        let number = notice.nvidia_trap().unwrap_or(notice.trap_number().0);
        *self.traps.counts.entry(number).or_default() += 1;
        let source = self.source_of(datagram);
        if !notice.issuer_lid().is_unicast() {
            notice.set_issuer_lid(source);
        }
        let sender = match datagram.remote.lid {
            Lid::NONE => self.inventory.local,
            _ => self.holder(source),
        };
        let Some(sender) = sender else {
            // Without a plan, ports are yet to get their LIDs.
            if self.plans.in_force().is_none() {
                self.believe_trap(datagram, &notice, source, now);
            }
            return;
        };
        self.listen_for_babbling(&notice, sender, now);
        let is_within_share = self.traps.sources.admit(sender, now);
        let is_switch = self.inventory.is_switch(sender.node);
        let trap_sender = TrapSender { source, is_switch };
        let is_of_node = |lid| self.holder(lid).is_some_and(|at| at.node == sender.node);
        if !is_credible(&notice, trap_sender, is_of_node) {
            if is_within_share {
                self.repress(datagram, source);
                self.read_sender(source, is_switch, now);
            }
            // While LIDs change, the port that holds the source by the plan may not have sent it.
            let info = self.inventory.port(sender).and_then(|port| port.info);
            let is_sender = info.is_some_and(|info| info.lid() == source);
            let is_settled = is_sender && !matches!(self.stage, Stage::Pushing(_));
            let is_never_honest = is_settled && is_never_honest(&notice, trap_sender);
            if self.traps.sources.note_forged(sender, is_never_honest, now) {
                self.publish(now);
            }
        } else if is_within_share {
            self.believe_trap(datagram, &notice, source, now);
        } else if let TrapDetails::LinkStateChange(change) = notice.details() {
            // The readings of a switch have pauses of their own.
            self.on_link_state_change(change.lid(), now);
        }
    }

    /// Reads the sender of a trap that names another port: the LID of an honest sender has changed
    /// since, and its trap must not be lost.
    fn read_sender(&mut self, source: Lid, is_switch: bool, now: Time) {
        if is_switch {
            self.on_link_state_change(source, now);
        } else if self.config.reads_on_trap {
            self.look_at_holder(source);
        }
    }

    /// Represses a trap, does its work and passes it on to the SA.
    fn believe_trap(&mut self, datagram: &Datagram, notice: &Notice, source: Lid, now: Time) {
        self.repress(datagram, source);
        self.on_trap(notice, source, now);
        self.outbox.push(Effect::Notice(Box::new(*notice)));
    }

    /// The LID that sent a trap. A trap of the own node may never have been on the wire; it then
    /// states 0.
    fn source_of(&self, trap: &Datagram) -> Lid {
        if trap.remote.lid != Lid::NONE {
            return trap.remote.lid;
        }
        self.local_port().map_or(Lid::NONE, |info| info.lid())
    }

    /// Answers a trap so that it is not repeated (IBA 13.4.9). Agents may check the M_Key as for a
    /// Set (IBA 14.2.4.1).
    fn repress(&mut self, trap: &Datagram, source: Lid) {
        if source == Lid::NONE {
            // No datagram can be sent there; the agent repeats the trap, and the own port has its
            // LID by then.
            return;
        }
        let policy = &self.config.policy.ports.m_keys;
        let m_key = match self.holder(source).filter(|_| !policy.is_uniform()) {
            Some(port) => self.inventory.m_keys_to(port).first(),
            None => policy.one,
        };
        let mut reply = *trap;
        reply.remote.lid = source;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        smp.header_mut().set_method(Method::TRAP_REPRESS);
        smp.set_m_key(m_key);
        self.outbox.reply(reply);
    }

    /// Does the work of a trap from the LID `source`.
    fn on_trap(&mut self, notice: &Notice, source: Lid, now: Time) {
        match notice.details() {
            TrapDetails::LocalChange(_) | TrapDetails::SystemImageGuidChange(_)
                if !self.config.reads_on_trap => {}
            TrapDetails::LinkStateChange(change) => self.on_link_state_change(change.lid(), now),
            TrapDetails::PortThreshold(threshold) => self.on_threshold(threshold, now),
            TrapDetails::LocalChange(change) => self.look_at_holder(change.lid()),
            TrapDetails::SystemImageGuidChange(change) => self.look_at_holder(change.lid()),
            TrapDetails::BadMKey(violation) => self.on_bad_m_key(notice, violation, now),
            TrapDetails::BadKeys(violation) => {
                self.count_violation((violation.lid1(), source), false, now);
            }
            TrapDetails::BadPKeyAtSwitch(violation) => {
                self.count_violation((violation.lid1(), source), false, now);
            }
            TrapDetails::VPortStateChange(change) => self.on_vport_change(change.lid(), None),
            TrapDetails::VPortLocalChange(change) => {
                self.on_vport_change(change.lid(), Some(change.vport_index()));
            }
            // Subnet managers send traps 64 to 67 and do not get them; other vendors' traps are
            // only counted.
            TrapDetails::GidChange(_) | TrapDetails::Other(_) => {}
        }
    }

    /// The switch with this LID reports that the state of a link changed.
    fn on_link_state_change(&mut self, lid: Lid, now: Time) {
        if !self.config.reads_on_trap {
            return;
        }
        let Some(at) = self.holder(lid) else {
            // The switch is unknown: ask each of them.
            self.work.sweep_lightly();
            return;
        };
        let node = self.inventory.node(at.node);
        let ports = node.map_or(0, |node| u32::from(node.info.num_ports()));
        match self.traps.pauses.admit(at.node, ports, now) {
            Ok(()) => {
                let name = self.name(at.node);
                self.work.look_at(at.node, format!("trap 128 from {name}"));
            }
            // The sweep under way reads the switch anyway.
            Err(_) if self.joins_sweep(at.node) => {}
            Err(when) => self.work.look_at_later(at.node, when),
        }
    }

    /// Whether the sweep under way, of which `switch` is a target, takes the new report in.
    fn joins_sweep(&mut self, switch: Guid) -> bool {
        match &mut self.stage {
            Stage::Sweeping(sweep) => {
                sweep.is_target(switch) && sweep.add_target(&self.inventory, switch)
            }
            _ => false,
        }
    }

    /// A port reports errors of its link: routes may go around the link for it.
    fn on_threshold(&mut self, threshold: &PortThreshold, now: Time) {
        let Some(at) = self.holder(threshold.lid()) else {
            return;
        };
        let port = PortKey::new(at.node, threshold.port_num());
        if self.inventory.port(port).is_some() && self.links.report(port, now) {
            self.health_changed(now);
        }
    }

    /// Counts the trap for its port, or else for the port that it came from.
    fn listen_for_babbling(&mut self, notice: &Notice, sender: PortKey, now: Time) {
        let port = match notice.details() {
            TrapDetails::PortThreshold(threshold) => {
                PortKey::new(sender.node, threshold.port_num())
            }
            _ => sender,
        };
        if self.inventory.port(port).is_some() && self.traps.babbling.heard(port, now) {
            if self.link_of_babbling(port).is_some() {
                self.writing.leave_open();
                self.work
                    .plan_again("a host sends traps without an end: its link is disabled");
            }
            self.publish(now);
        }
    }

    /// The ports of switches that shall be disabled, because a host's port behind them babbles and
    /// the operator wants it.
    pub(super) fn babbling_links(&self) -> BTreeSet<PortKey> {
        let babbling = self.traps.babbling.ports();
        let links = babbling.filter_map(|(port, _)| self.link_of_babbling(port));
        links.collect()
    }

    /// The ports of hosts that act against the subnet, each with the time of the last act; zero for
    /// what a host is and not does.
    pub fn hostile_ports(&self, now: Time) -> BTreeMap<PortKey, (Hostility, Time)> {
        let managers = role::others(&self.inventory).into_iter();
        let managers = managers.filter(|other| {
            other.state != SmState::NotActive && !self.counts(other.guid, other.sm_key)
        });
        let managers = managers.map(|other| (other.port, Hostility::Manages, Time::ZERO));
        let orders = self.election.orders.senders();
        let orders = orders.map(|(port, last)| (port, Hostility::OrdersManager, last));
        let acts = managers.chain(orders).chain(self.traps.hostile(now));
        let mut ports: BTreeMap<PortKey, (Hostility, Time)> = BTreeMap::new();
        for (port, what, last) in acts.filter(|&(port, ..)| self.is_of_host(port)) {
            let known = ports.entry(port).or_insert((what, last));
            if last > known.1 {
                *known = (what, last);
            }
        }
        ports
    }

    /// Whether a port is a host's, other than this manager's.
    fn is_of_host(&self, port: PortKey) -> bool {
        let own = self.inventory.local.map(|local| local.node);
        let node = self.inventory.node(port.node);
        let is_ca = node.is_some_and(|node| node.kind() == NodeType::Ca);
        is_ca && own != Some(port.node)
    }

    /// The switch port to disable for a babbling port. `None` if its link stays: the operator does
    /// not want it, the port is a switch's, or it is this manager's link.
    fn link_of_babbling(&self, port: PortKey) -> Option<PortKey> {
        let peer = self.inventory.port(port)?.peer?;
        (self.disables_babbling(port) && self.inventory.is_switch(peer.node)).then_some(peer)
    }

    /// Whether the link of a babbling port is disabled, or about to be.
    pub(super) fn disables_babbling(&self, port: PortKey) -> bool {
        let is_own = self.inventory.local == Some(port);
        self.config.health.disables_babbling && !is_own && !self.inventory.is_switch(port.node)
    }

    /// Handles a change of virtual ports of the port with this LID: of the one at `index`, or of
    /// any.
    fn on_vport_change(&mut self, lid: Lid, index: Option<u16>) {
        if self.config.reads_on_trap
            && let Some(at) = self.holder(lid)
            && self.inventory.mark_vports_stale(at)
        {
            if let Some(index) = index {
                self.inventory.mark_vport_guids_stale(at, index);
            }
            self.work.look_at_port(at);
        }
    }

    fn look_at_holder(&mut self, lid: Lid) {
        if let Some(at) = self.holder(lid) {
            self.work.look_at_port(at);
        }
    }

    /// Handles a wrong M_Key: a stranger's, or one of this subnet manager, whose Sets the port then
    /// ignores.
    fn on_bad_m_key(&mut self, notice: &Notice, violation: &BadMKey, now: Time) {
        let own_lid = self.local_port().map(|info| info.lid());
        let port = self.holder(notice.issuer_lid());
        let is_own = self.inventory.may_have_sent(port, violation.m_key())
            && (own_lid == Some(violation.lid()) || violation.dr_notice());
        if !is_own {
            let is_set = violation.method() == Method::SET;
            let who = (violation.lid(), notice.issuer_lid());
            return self.count_violation(who, is_set, now);
        }
        let Some(port) = port else { return };
        if self.inventory.holds_m_key(port, violation.m_key()) {
            // Another manager has changed the key, or the report is from before a rotation.
            self.work.look_at_port(port);
        } else if self.inventory.key_refused(port) {
            self.publish(now);
        }
    }

    /// Counts a wrong key of the port with the first LID, as the port at the second one reports it;
    /// `is_set`: the M_Key of a Set.
    fn count_violation(&mut self, (lid, source): (Lid, Lid), is_set: bool, now: Time) {
        if let Some(port) = self.holder(lid)
            && let Some(reporter) = self.holder(source)
        {
            let report = Violation {
                port,
                reporter,
                is_by_switch: self.inventory.is_switch(reporter.node),
                is_set: is_set && self.inventory.manager(port).is_none(),
            };
            if self.traps.violation(report, now) {
                self.publish(now);
            }
        }
    }

    /// The port that has `lid` by the plan in force, or, before there is one, by the last sweep.
    pub(super) fn holder(&self, lid: Lid) -> Option<PortKey> {
        // Traps come by the thousand, with any LID: with a plan no trap searches all ports.
        let Some(plan) = self.plans.in_force() else {
            return self.inventory.by_lid(lid);
        };
        let destination = plan.topology.destination_of(lid)?;
        let exit = PortKey::new(
            plan.topology.switch(destination.switch).guid,
            destination.port,
        );
        let holder = match exit.port {
            PortNum::ZERO => exit,
            _ => self.inventory.port(exit)?.peer?,
        };
        let guid = self.inventory.port(holder)?.guid;
        let is_another = holder != exit && !guid.is_zero() && guid != destination.guid;
        (!is_another).then_some(holder)
    }

    /// GUID of this subnet manager's port; zero before the first answer.
    pub(super) fn own_guid(&self) -> Guid {
        self.inventory
            .own_port()
            .map_or(Guid::ZERO, |port| port.guid)
    }

    /// Name of this subnet manager's port, for the operator.
    pub(super) fn own_place(&self) -> String {
        match self.inventory.local {
            Some(local) => format!("port {} of {}", local.port, self.name(local.node)),
            None => "this host".to_owned(),
        }
    }

    /// Name of a node, for the operator.
    pub(super) fn name(&self, guid: Guid) -> String {
        self.inventory.name(guid)
    }
}
