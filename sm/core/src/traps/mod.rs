//! Traps: the core represses the traps of each source up to the source's share, does the work that
//! each trap requires, and merges storms.

mod pauses;
mod sources;
mod violations;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, BadMKey, Notice, PortThreshold, TrapDetails};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_model::fabric::Delta;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_monitor::health::{Babbling, HeardTrap};
use rsm_plan::Plan;

use super::hostile::Hostility;
use super::settings::CoreConfig;
use pauses::TrapPauses;
use sources::{Repetition, TrapSender, TrapSources, is_credible, is_never_honest};
use violations::{Violation, ViolationTable};

/// Key under which traps with unknown numbers are counted together. A host may send any number, so
/// separate counts could grow without bound.
const OTHER_TRAPS: u16 = u16::MAX;

/// The routes of a TrapRepress.
#[derive(Clone, Copy, Debug)]
struct RepressRoutes {
    is_by_lid: bool,
    /// The port to which a TrapRepress takes a directed route; `None` if none does.
    directed: Option<PortKey>,
}

impl RepressRoutes {
    /// TrapRepress goes by LID only.
    const LID: RepressRoutes = RepressRoutes {
        is_by_lid: true,
        directed: None,
    };
}

/// The state of the core at a trap.
pub(super) struct TrapContext<'a> {
    pub(super) inventory: &'a mut Inventory,
    pub(super) config: &'a CoreConfig,
    /// The plan in force; `None` if there is none.
    pub(super) plan: Option<&'a Arc<Plan>>,
    /// Whether a push is under way, so that LIDs may be changing.
    pub(super) is_pushing: bool,
}

impl TrapContext<'_> {
    /// The port that has `lid` according to the plan in force, or to the last sweep if there is no
    /// plan yet.
    fn holder(&self, lid: Lid) -> Option<PortKey> {
        Plan::holder(self.plan.map(Arc::as_ref), &self.inventory.hardware, lid)
    }

    /// Whether SMPs to this end port may go by LID: none was lost to its node, nor to the switch at
    /// the other end of its cable. Those to the own port never leave the node.
    fn takes_smps_by_lid(&self, port: PortKey) -> bool {
        let hardware = &self.inventory.hardware;
        let peer = hardware.port(port).and_then(|port| port.peer);
        hardware.local == Some(port)
            || hardware.takes_smps_by_lid(port.node)
                && peer.is_none_or(|peer| hardware.takes_smps_by_lid(peer.node))
    }
}

/// Work of the core that a trap requires.
#[derive(Debug)]
pub(super) enum TrapWork {
    /// Send a TrapRepress.
    Repress(Box<Datagram>),
    /// Pass the notice on to the SA.
    Notify(Box<Notice>),
    /// Ask every switch for SwitchInfo, because the reporting switch is unknown.
    AskSwitches,
    /// Sweep a switch.
    Read(Guid),
    /// Sweep a switch at this time, unless the sweep under way reads the switch.
    ReadLater(Guid, Time),
    /// Read a port.
    ReadPort(PortKey),
    /// Count an error report of a port: routes may go around its link.
    CountErrors(PortKey),
    /// Disable the links of hosts that send traps without an end.
    DisableLink,
    /// Publish the findings.
    Publish,
}

/// Handles traps, and keeps what they have reported.
#[derive(Default, Debug)]
pub(super) struct TrapHandler {
    pauses: TrapPauses,
    sources: TrapSources,
    violations: ViolationTable,
    babbling: Babbling,
    /// Number of traps, by trap number; [`OTHER_TRAPS`] stands for all unknown numbers.
    counts: BTreeMap<u16, u64>,
    /// Work that waits for the core.
    work: VecDeque<TrapWork>,
}

impl TrapHandler {
    /// Records the changes that a sweep found, which shorten the pauses between readings.
    pub(super) fn record_changes(&mut self, delta: &Delta) {
        let links = delta.links_vanished.iter().chain(&delta.links_appeared);
        let ends = links.flat_map(|&(a, b)| [a, b]);
        for port in ends.chain(delta.ports_changed.iter().copied()) {
            self.pauses.record_change(port.node);
        }
    }

    /// Forgets ports that no longer send traps without an end, and old reports. Returns whether a
    /// finding ends.
    pub(super) fn release(&mut self, now: Time) -> bool {
        self.violations.release(now) | self.babbling.release(now) | self.sources.release(now)
    }

    /// Time at which [`TrapHandler::release`] forgets the next port; `None` if there is none.
    pub(super) fn next_release(&self) -> Option<Time> {
        let releases = [
            self.violations.next_release(),
            self.babbling.next_release(),
            self.sources.next_release(),
        ];
        releases.into_iter().flatten().min()
    }

    /// The ports whose hosts provably act against the subnet, each with the act and the time of its
    /// last occurrence.
    pub(super) fn hostile(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (PortKey, Hostility, Time)> + '_ {
        let violations = self.violations.hostile(now);
        let violations = violations.map(|(port, last)| (port, Hostility::WrongMKeys, last));
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

    /// Findings about ports with wrong keys, endless traps or forged traps.
    ///
    /// `name` gives the name of a port, `place` its name and its cable. `is_disabled` tells whether
    /// the link of a babbling port is disabled, or about to be.
    pub(super) fn findings(
        &self,
        name: impl Fn(PortKey) -> String,
        place: impl Fn(PortKey) -> String,
        is_disabled: impl Fn(PortKey) -> bool,
        now: Time,
    ) -> Vec<Finding> {
        let violations = self.violations.texts(&place, now).into_iter();
        let violations = violations.map(|(port, text)| (FindingKind::KeyViolation, port, text));
        let babbling = self.babbling.ports().map(|(port, count)| {
            let remedy = if is_disabled(port) {
                "the link is disabled (health.disable_babbling); repair its host, and enable the port of \
                 the switch again five minutes after the last trap"
            } else {
                "look for its fault in the other findings, repair it, or disable the port"
            };
            let text = format!(
                "{} sends traps without an end, {count} in a minute: each costs an answer, and reports of other ports may get lost; \
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

impl TrapHandler {
    /// The next work that the traps handled so far require; `None` if there is none.
    pub(super) fn poll(&mut self) -> Option<TrapWork> {
        self.work.pop_front()
    }

    /// Handles a trap; [`TrapHandler::poll`] returns the resulting work. A trap is only counted if
    /// no port has its source LID, if it exceeds the share of its source, or if it is not about its
    /// sender. A report of a link change still makes the core read the switch. A trap that no
    /// TrapRepress ends, because its sender takes no SMPs by LID, is only counted beyond its share.
    pub(super) fn handle(&mut self, datagram: &Datagram, context: &mut TrapContext<'_>, now: Time) {
        let smp = Smp::from_bytes(&datagram.mad);
        let mut notice = *Notice::from_data(smp.data());
        let number = notice.nvidia_trap().unwrap_or(notice.trap_number().0);
        let counted = match notice.details() {
            TrapDetails::Other(_) => OTHER_TRAPS,
            _ => number,
        };
        *self.counts.entry(counted).or_default() += 1;
        let source = source_of(datagram, context.inventory);
        if !notice.issuer_lid().is_unicast() {
            notice.set_issuer_lid(source);
        }
        let sender = match datagram.remote.lid {
            Lid::NONE => context.inventory.hardware.local,
            _ => context.holder(source),
        };
        let Some(sender) = sender else {
            // Before the first plan, ports may have no LIDs, so senders cannot be identified.
            if context.plan.is_none() {
                let routes = RepressRoutes::LID;
                self.accept(datagram, &notice, source, routes, context, now);
            }
            return;
        };
        let is_within_share = self.sources.admit(sender, now);
        let heard = HeardTrap {
            notice: smp.data(),
            is_within_share,
            is_caused_by_others: is_caused_by_others(&notice),
        };
        self.count_for_babbling(&notice, heard, sender, context, now);
        let Some(routes) = self.repress_routes(smp.header().tid(), sender, context, now) else {
            return;
        };
        let is_switch = context.inventory.hardware.is_switch(sender.node);
        let trap_sender = TrapSender { source, is_switch };
        let is_of_node = |lid| context.holder(lid).is_some_and(|at| at.node == sender.node);
        if !is_credible(&notice, trap_sender, is_of_node) {
            if is_within_share {
                self.repress(datagram, source, routes, context);
                self.read_sender(source, is_switch, context, now);
            }
            // While LIDs change, the planned holder of the source LID may not be the sender.
            let info = context
                .inventory
                .hardware
                .port(sender)
                .and_then(|port| port.info);
            let is_sender = info.is_some_and(|info| info.lid() == source);
            let is_settled = is_sender && !context.is_pushing;
            let is_never_honest = is_settled && is_never_honest(&notice, trap_sender);
            if self.sources.count_forged(sender, is_never_honest, now) {
                self.work.push_back(TrapWork::Publish);
            }
        } else if is_within_share {
            self.accept(datagram, &notice, source, routes, context, now);
        } else if let TrapDetails::LinkStateChange(change) = notice.details() {
            // `TrapPauses` limits the readings of a switch, so the report may cause one.
            self.on_link_state_change(change.lid(), context, now);
        }
    }

    /// Queues a reading of the sender of a trap about another port. If the sender is honest, its
    /// LID has changed, and the change that it reports must not be missed.
    fn read_sender(&mut self, source: Lid, is_switch: bool, context: &TrapContext<'_>, now: Time) {
        if is_switch {
            self.on_link_state_change(source, context, now);
        } else if context.config.reads_on_trap {
            self.read_holder(source, context);
        }
    }

    /// Represses a credible trap, does its work and passes the notice on to the SA.
    fn accept(
        &mut self,
        datagram: &Datagram,
        notice: &Notice,
        source: Lid,
        routes: RepressRoutes,
        context: &mut TrapContext<'_>,
        now: Time,
    ) {
        self.repress(datagram, source, routes, context);
        self.on_notice(notice, source, context, now);
        self.work.push_back(TrapWork::Notify(Box::new(*notice)));
    }

    /// The routes of the TrapRepress to a trap of `sender` with this transaction: by LID, and by a
    /// directed route as well if the trap is repeated; by a directed route alone to a port that
    /// takes no SMPs by LID. `None` if such a port repeats the trap beyond its share.
    fn repress_routes(
        &mut self,
        tid: Tid,
        sender: PortKey,
        context: &TrapContext<'_>,
        now: Time,
    ) -> Option<RepressRoutes> {
        let is_by_lid = context.takes_smps_by_lid(sender);
        let repetition = self.sources.count_repetition(sender, tid, now);
        let is_directed = !is_by_lid || repetition != Repetition::First;
        (is_by_lid || repetition != Repetition::Beyond).then_some(RepressRoutes {
            is_by_lid,
            directed: Some(sender).filter(|_| is_directed),
        })
    }

    /// Answers a trap so that it is not repeated (IBA 13.4.9). Agents may check the M_Key as for a
    /// Set (IBA 14.2.4.1). They take a TrapRepress of either class: the kernel's driver of ConnectX
    /// passes both to the firmware. Without a known path for a directed route, the answer goes by
    /// LID.
    fn repress(
        &mut self,
        trap: &Datagram,
        source: Lid,
        routes: RepressRoutes,
        context: &TrapContext<'_>,
    ) {
        if source == Lid::NONE {
            // There is no LID to answer to yet. The agent repeats the trap; by then, the own port
            // has its LID.
            return;
        }
        let policy = &context.config.policy.ports.m_keys;
        let holder = match policy.is_uniform() {
            true => None,
            false => context.holder(source),
        };
        let m_key = match holder {
            Some(port) => context.inventory.m_keys_to(port).first(),
            None => policy.one,
        };
        let hardware = &context.inventory.hardware;
        let directed = routes.directed.and_then(|port| hardware.paths_to(port));
        if let Some((path, _)) = directed {
            let smp = Smp::from_bytes(&trap.mad);
            let request = SmpRequest {
                method: Method::TRAP_REPRESS,
                attribute: smp.header().attribute(),
                modifier: smp.header().modifier(),
                tid: smp.header().tid(),
                m_key,
                data: *smp.data(),
            };
            let reply = Datagram {
                mad: *Smp::directed(&path, &request).as_bytes(),
                remote: RemoteAddress::directed(),
            };
            self.work.push_back(TrapWork::Repress(Box::new(reply)));
        }
        if routes.is_by_lid || directed.is_none() {
            let mut reply = *trap;
            reply.remote.lid = source;
            let smp = Smp::from_bytes_mut(&mut reply.mad);
            smp.header_mut().set_method(Method::TRAP_REPRESS);
            smp.set_m_key(m_key);
            self.work.push_back(TrapWork::Repress(Box::new(reply)));
        }
    }

    /// Queues the work that a trap from the LID `source` requires.
    fn on_notice(
        &mut self,
        notice: &Notice,
        source: Lid,
        context: &mut TrapContext<'_>,
        now: Time,
    ) {
        match notice.details() {
            TrapDetails::LocalChange(_) | TrapDetails::SystemImageGuidChange(_)
                if !context.config.reads_on_trap => {}
            TrapDetails::LinkStateChange(change) => {
                self.on_link_state_change(change.lid(), context, now);
            }
            TrapDetails::PortThreshold(threshold) => self.on_threshold(threshold, context),
            TrapDetails::LocalChange(change) => self.read_holder(change.lid(), context),
            TrapDetails::SystemImageGuidChange(change) => {
                self.read_holder(change.lid(), context);
            }
            TrapDetails::BadMKey(violation) => {
                self.on_bad_m_key(notice, violation, context, now);
            }
            TrapDetails::BadKeys(violation) => {
                self.count_violation((violation.lid1(), source), false, context, now);
            }
            TrapDetails::BadPKeyAtSwitch(violation) => {
                self.count_violation((violation.lid1(), source), false, context, now);
            }
            TrapDetails::VPortStateChange(change) => {
                self.on_vport_change(change.lid(), None, context);
            }
            TrapDetails::VPortLocalChange(change) => {
                self.on_vport_change(change.lid(), Some(change.vport_index()), context);
            }
            // Subnet managers send traps 64 to 67 and do not get them; other vendors' traps are
            // only counted.
            TrapDetails::GidChange(_) | TrapDetails::Other(_) => {}
        }
    }

    /// Handles the report of the switch with this LID that the state of a link changed.
    fn on_link_state_change(&mut self, lid: Lid, context: &TrapContext<'_>, now: Time) {
        if !context.config.reads_on_trap {
            return;
        }
        let Some(at) = context.holder(lid) else {
            self.work.push_back(TrapWork::AskSwitches);
            return;
        };
        let node = context.inventory.hardware.node(at.node);
        let ports = node.map_or(0, |node| u32::from(node.info.num_ports()));
        self.work
            .push_back(match self.pauses.admit(at.node, ports, now) {
                Ok(()) => TrapWork::Read(at.node),
                Err(when) => TrapWork::ReadLater(at.node, when),
            });
    }

    /// Handles an error report of a port.
    fn on_threshold(&mut self, threshold: &PortThreshold, context: &TrapContext<'_>) {
        let Some(at) = context.holder(threshold.lid()) else {
            return;
        };
        let port = PortKey::new(at.node, threshold.port_num());
        if context.inventory.hardware.port(port).is_some() {
            self.work.push_back(TrapWork::CountErrors(port));
        }
    }

    /// Counts the trap, to detect ports that send traps without an end. A trap about a threshold
    /// counts for the port that it names, any other trap for the sending port. No trap within the
    /// share of a port that takes no SMPs by LID counts: TrapRepress may not end it.
    fn count_for_babbling(
        &mut self,
        notice: &Notice,
        heard: HeardTrap<'_>,
        sender: PortKey,
        context: &TrapContext<'_>,
        now: Time,
    ) {
        if heard.is_within_share && !context.takes_smps_by_lid(sender) {
            return;
        }
        let port = match notice.details() {
            TrapDetails::PortThreshold(threshold) => {
                PortKey::new(sender.node, threshold.port_num())
            }
            _ => sender,
        };
        if context.inventory.hardware.port(port).is_some() && self.babbling.heard(port, heard, now)
        {
            if link_of_babbling(port, context.inventory, context.config).is_some() {
                self.work.push_back(TrapWork::DisableLink);
            }
            self.work.push_back(TrapWork::Publish);
        }
    }

    /// Switch ports to disable because the host's port behind them sends traps without an end;
    /// empty unless `health.disable_babbling` is set.
    pub(super) fn babbling_links(
        &self,
        inventory: &Inventory,
        config: &CoreConfig,
    ) -> BTreeSet<PortKey> {
        let babbling = self.babbling.ports();
        let links = babbling.filter_map(|(port, _)| link_of_babbling(port, inventory, config));
        links.collect()
    }

    /// Handles a change of virtual ports at the port with this LID. `index` names the virtual port
    /// that changed; `None` if the trap does not.
    fn on_vport_change(&mut self, lid: Lid, index: Option<u16>, context: &mut TrapContext<'_>) {
        if context.config.reads_on_trap
            && let Some(at) = context.holder(lid)
            && context.inventory.mark_vports_stale(at)
        {
            if let Some(index) = index {
                context.inventory.mark_vport_guids_stale(at, index);
            }
            self.work.push_back(TrapWork::ReadPort(at));
        }
    }

    /// Queues a reading of the port with this LID.
    fn read_holder(&mut self, lid: Lid, context: &TrapContext<'_>) {
        if let Some(at) = context.holder(lid) {
            self.work.push_back(TrapWork::ReadPort(at));
        }
    }

    /// Handles the report of a wrong M_Key. If another host used the key, that is a violation. If
    /// this manager did, the reporting port holds another key and ignores this manager's Sets.
    fn on_bad_m_key(
        &mut self,
        notice: &Notice,
        violation: &BadMKey,
        context: &mut TrapContext<'_>,
        now: Time,
    ) {
        let own_lid = context.inventory.own_info().map(|info| info.lid());
        let port = context.holder(notice.issuer_lid());
        let is_own = context.inventory.may_have_sent(port, violation.m_key())
            && (own_lid == Some(violation.lid()) || violation.dr_notice());
        if !is_own {
            let is_set = violation.method() == Method::SET;
            let lids = (violation.lid(), notice.issuer_lid());
            return self.count_violation(lids, is_set, context, now);
        }
        let Some(port) = port else { return };
        if context.inventory.holds_m_key(port, violation.m_key()) {
            // Another manager has changed the key, or the report is from before a rotation.
            self.work.push_back(TrapWork::ReadPort(port));
        } else if context.inventory.key_refused(port) {
            self.work.push_back(TrapWork::Publish);
        }
    }

    /// Counts a key violation by the port with `lid`, as the port with the LID `source` reports it.
    /// `is_set` says whether the key was the M_Key of a Set.
    fn count_violation(
        &mut self,
        (lid, source): (Lid, Lid),
        is_set: bool,
        context: &TrapContext<'_>,
        now: Time,
    ) {
        if let Some(port) = context.holder(lid)
            && let Some(reporter) = context.holder(source)
        {
            let report = Violation {
                port,
                reporter,
                is_by_switch: context.inventory.hardware.is_switch(reporter.node),
                is_set: is_set && context.inventory.hardware.manager(port).is_none(),
            };
            if self.violations.count(report, now) {
                self.work.push_back(TrapWork::Publish);
            }
        }
    }
}

/// Whether the trap reports a wrong key of another port, or belongs to a virtual port. Other hosts
/// and virtual machines can cause any number of such traps, so they are not the sender's fault.
fn is_caused_by_others(notice: &Notice) -> bool {
    matches!(
        notice.details(),
        TrapDetails::BadMKey(_)
            | TrapDetails::BadKeys(_)
            | TrapDetails::BadPKeyAtSwitch(_)
            | TrapDetails::VPortStateChange(_)
            | TrapDetails::VPortLocalChange(_)
    )
}

/// Source LID of a trap. A trap of the own node, which was never on the wire, has source LID 0; the
/// result is then the own LID.
fn source_of(trap: &Datagram, inventory: &Inventory) -> Lid {
    if trap.remote.lid != Lid::NONE {
        return trap.remote.lid;
    }
    inventory.own_info().map_or(Lid::NONE, |info| info.lid())
}

/// The switch port to disable if `port` sends traps without an end. `None` if the link stays:
/// `health.disable_babbling` is off, the port belongs to a switch or is this manager's port, or no
/// switch is behind its cable.
fn link_of_babbling(port: PortKey, inventory: &Inventory, config: &CoreConfig) -> Option<PortKey> {
    let peer = inventory.hardware.port(port)?.peer?;
    (disables_babbling(port, inventory, config) && inventory.hardware.is_switch(peer.node))
        .then_some(peer)
}

/// Whether rsm disables the link of this port if it sends traps without an end.
pub(super) fn disables_babbling(port: PortKey, inventory: &Inventory, config: &CoreConfig) -> bool {
    let is_own = inventory.hardware.local == Some(port);
    config.health.disables_babbling && !is_own && !inventory.hardware.is_switch(port.node)
}
