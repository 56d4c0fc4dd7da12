//! Traps: the core represses every one, does the work of its kind, and merges storms.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{Attribute, BadMKey, Notice, SmInfo, TrapDetails};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;

use super::role::Role;
use super::stage::Stage;
use super::{Core, Effect, Mode};
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::sweep::inventory::PortKey;

/// After a report, a switch that reports again within this time is swept again only after a pause,
/// which doubles as long as the reports go on.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The longest such pause.
const PAUSE_LAST: Duration = Duration::from_secs(2);

/// Number of ports whose error reports are counted one by one; reports of further ports only add to
/// the traps' counts.
const PORTS_REMEMBERED: usize = 4096;

/// Error reports of a port before it has a finding: every link has an error now and then.
const REPORTS_WORTH_A_FINDING: u32 = 10;

/// The traps so far.
#[derive(Clone, Default, Debug)]
pub(super) struct TrapHandler {
    /// When a switch may be swept again, and the pause after that.
    pauses: BTreeMap<Guid, (Time, Duration)>,
    errors: BTreeMap<(FindingKind, PortKey), u32>,
    /// Traps by number.
    counts: BTreeMap<u16, u64>,
}

impl TrapHandler {
    /// Whether a sweep of the switch may begin now; otherwise when.
    fn admit(&mut self, switch: Guid, now: Time) -> Result<(), Time> {
        let (next, pause) = self
            .pauses
            .entry(switch)
            .or_insert((Time::ZERO, PAUSE_FIRST));
        if now < *next {
            return Err(*next);
        }
        let quiet = now.since(*next) > *pause * 2;
        *pause = if quiet {
            PAUSE_FIRST
        } else {
            (*pause * 2).min(PAUSE_LAST)
        };
        *next = now + *pause;
        Ok(())
    }

    fn report(&mut self, kind: FindingKind, port: PortKey) {
        if self.errors.len() < PORTS_REMEMBERED || self.errors.contains_key(&(kind, port)) {
            let count = self.errors.entry((kind, port)).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Traps received so far, by number (IBA 14.2.5.1).
    pub(super) fn counts(&self) -> &BTreeMap<u16, u64> {
        &self.counts
    }

    /// Findings about ports with many reports.
    pub(super) fn findings(&self, name: impl Fn(PortKey) -> String) -> Vec<Finding> {
        self.errors
            .iter()
            .filter(|&(_, &count)| count >= REPORTS_WORTH_A_FINDING)
            .map(|(&(kind, port), count)| {
                let what = match kind {
                    FindingKind::KeyViolation => {
                        "key violations; a host uses a wrong M_Key, P_Key or Q_Key"
                    }
                    _ => "link integrity, buffer overrun or flow control errors; check the cable",
                };
                let text = format!("{} reported {count} times {what}", name(port));
                Finding::new(kind, Subject::Port(port), Severity::Warning, text)
            })
            .collect()
    }
}

impl Core {
    /// Takes a datagram that answers no request of this manager.
    pub(super) fn on_unsolicited(&mut self, datagram: &Datagram, now: Time) {
        let smp = Smp::from_bytes(&datagram.mad);
        if !smp.header().class().is_subnet_management() || self.config.mode == Mode::DryRun {
            return;
        }
        match (smp.header().method(), smp.header().attribute()) {
            // Only the master sends to agents; a standby that represses takes the trap away from
            // the master.
            (Method::TRAP, Notice::ID) if self.role == Role::Master => {
                let source = self.source_of(datagram);
                self.repress(datagram, source);
                let mut notice = *Notice::from_data(smp.data());
                if !notice.issuer_lid().is_unicast() {
                    notice.set_issuer_lid(source);
                }
                self.on_trap(&notice, now);
                self.effects.push_back(Effect::Notice(Box::new(notice)));
            }
            (Method::GET | Method::SET, SmInfo::ID) => self.on_sm_info(datagram),
            _ => {}
        }
    }

    /// The LID that sent a trap. A trap of the own node may never have been on the wire; it then
    /// states 0.
    fn source_of(&self, trap: &Datagram) -> Lid {
        if trap.remote.lid != Lid::NONE {
            return trap.remote.lid;
        }
        let own = self
            .inventory
            .local
            .and_then(|local| self.inventory.port(local));
        own.and_then(|port| port.info.as_ref())
            .map_or(Lid::NONE, |info| info.lid())
    }

    /// Answers a trap so that it is not repeated (IBA 13.4.9). Agents may check the M_Key as that
    /// of a Set (IBA 14.2.4.1).
    fn repress(&mut self, trap: &Datagram, source: Lid) {
        if source == Lid::NONE {
            // No datagram can go there; the agent repeats the trap, and the own port has its LID by
            // then.
            return;
        }
        let mut reply = *trap;
        reply.remote.lid = source;
        let smp = Smp::from_bytes_mut(&mut reply.mad);
        smp.header_mut().set_method(Method::TRAP_REPRESS);
        smp.set_m_key(self.config.policy.ports.m_key);
        self.replies.push_back(reply);
    }

    fn on_trap(&mut self, notice: &Notice, now: Time) {
        *self.traps.counts.entry(notice.trap_number().0).or_default() += 1;
        match notice.details() {
            TrapDetails::LinkStateChange(_)
            | TrapDetails::LocalChange(_)
            | TrapDetails::SystemImageGuidChange(_)
                if !self.config.reads_on_trap => {}
            TrapDetails::LinkStateChange(change) => {
                if let Some(at) = self.holder(change.lid()) {
                    match self.traps.admit(at.node, now) {
                        Ok(()) => {
                            let name = self.name(at.node);
                            self.work.look_at(at.node, format!("trap 128 from {name}"));
                        }
                        // The sweep under way reads the switch anyway.
                        Err(_) if self.joins_sweep(at.node) => {}
                        Err(when) => self.work.look_at_later(at.node, when),
                    }
                } else {
                    // The switch is unknown: ask each of them.
                    self.work.sweep_lightly();
                }
            }
            TrapDetails::PortThreshold(threshold) => {
                if let Some(at) = self.holder(threshold.lid()) {
                    self.traps.report(
                        FindingKind::LinkErrors,
                        PortKey::new(at.node, threshold.port_num()),
                    );
                }
            }
            TrapDetails::LocalChange(change) => self.look_at_holder(change.lid()),
            TrapDetails::SystemImageGuidChange(change) => self.look_at_holder(change.lid()),
            TrapDetails::BadMKey(violation) => self.on_bad_m_key(notice, violation, now),
            TrapDetails::BadKeys(violation) => self.count_violation(violation.lid1()),
            TrapDetails::BadPKeyAtSwitch(violation) => self.count_violation(violation.lid1()),
            // Subnet managers send 64 to 67 and do not get them; vendors' traps are only counted.
            TrapDetails::GidChange(_) | TrapDetails::Other(_) => {}
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

    fn look_at_holder(&mut self, lid: Lid) {
        if let Some(at) = self.holder(lid) {
            self.work.look_at_port(at);
        }
    }

    /// Handles a wrong M_Key: a stranger's, or one of this subnet manager, whose Sets the port then
    /// ignores.
    fn on_bad_m_key(&mut self, notice: &Notice, violation: &BadMKey, now: Time) {
        let own = self
            .inventory
            .local
            .and_then(|local| self.inventory.port(local));
        let own_lid = own
            .and_then(|port| port.info.as_ref())
            .map(|info| info.lid());
        let is_own = violation.m_key() == self.config.policy.ports.m_key
            && (own_lid == Some(violation.lid()) || violation.dr_notice());
        if !is_own {
            return self.count_violation(violation.lid());
        }
        if let Some(port) = self.holder(notice.issuer_lid())
            && self.inventory.key_refused(port)
        {
            self.publish(now);
        }
    }

    fn count_violation(&mut self, lid: Lid) {
        if let Some(at) = self.holder(lid) {
            self.traps.report(FindingKind::KeyViolation, at);
        }
    }

    /// The port that has `lid` by the plan in force, or, before there is one, by the last sweep.
    fn holder(&self, lid: Lid) -> Option<PortKey> {
        // Traps come by the thousand, with any LID: with a plan no trap searches all ports.
        let Some(plan) = &self.plan else {
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

    /// The GUID of this subnet manager's port; zero before the first answer.
    pub(super) fn own_guid(&self) -> Guid {
        self.inventory
            .local
            .and_then(|local| self.inventory.port(local))
            .map_or(Guid::ZERO, |port| port.guid)
    }

    /// The name of this subnet manager's port, for the operator.
    pub(super) fn own_place(&self) -> String {
        match self.inventory.local {
            Some(local) => format!("port {} of {}", local.port, self.name(local.node)),
            None => "this host".to_owned(),
        }
    }

    /// The name of a node, for the operator.
    pub(super) fn name(&self, guid: Guid) -> String {
        self.inventory.name(guid)
    }
}
