//! A subnet manager in the world, which tests can kill, restart and pause.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::KeyHolder;
use rsm_core::{Core, CoreConfig, Effect, EpochRequest, Event, Mode, SavedCoreState};
use rsm_gdr::hosts::GpuInventory;
use rsm_hardware::push::Foreseen;
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{Attribute, Notice, SmInfo};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::findings::Finding;
use rsm_plan::groups::GroupSet;
use rsm_sa::SaSnapshot;
use rsm_sim::{AttachId, Sim};
use rsm_state::{ChangeEffect, Convergence, Role, Snapshot};

use super::ledger::Ledger;
use super::record::Record;
use super::settings::Settings;
use super::watch::Watch;

/// The state that a subnet manager has after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The last state that the manager saved before it was killed.
    Kept,
    /// No state.
    Lost,
}

/// The events that a subnet manager handles first after a stall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterStall {
    /// The packets that arrived during the stall.
    PacketsFirst,
    /// The deadlines of the manager: the thread that reads the socket is as late as the core.
    DeadlinesFirst,
}

/// A subnet manager at a port of the fabric. It can be killed and restarted.
pub struct Manager {
    pub(super) attach: AttachId,
    config: CoreConfig,
    /// The core; `None` while the manager is dead.
    core: Option<Core>,
    /// The number of starts so far.
    incarnation: u16,
    /// The last state that the manager saved.
    remembered: SavedCoreState,
    /// The multicast groups that the SA beside the core holds.
    groups: Option<Arc<GroupSet>>,
    /// The alias GUIDs of ports that the SA holds.
    guids: Arc<AliasGuids>,
    /// The inventory of GPU hosts that the daemon holds.
    gpus: Arc<GpuInventory>,
    /// The plan in computation: its time of completion and its result.
    planning: Option<(Time, Event)>,
    /// The plan in advance preparation: its time of completion and its result.
    preparing: Option<(Time, Event)>,
    snapshot: Option<Arc<Snapshot>>,
    /// The snapshot of the SA beside the core, if a test keeps it.
    sa_snapshot: Option<SaSnapshot>,
    convergences: Vec<Arc<Convergence>>,
    /// The tickets of completed commands; see [`Manager::done`].
    done: VecDeque<u64>,
    notices: Vec<Notice>,
    /// The declined tickets with their reasons; see [`Manager::declined`].
    declined: Vec<(u64, String)>,
    /// The accepted partition changes; see [`Manager::taken`].
    taken: Vec<(u64, ChangeEffect)>,
    /// The packets in the manager's sockets while it is stopped; `None` while it runs.
    paused: Option<VecDeque<Event>>,
    sets: u64,
    gets: u64,
    foreseen: Option<Vec<Foreseen>>,
    /// Requests to the shared store that the world has not handled yet.
    requests: Vec<EpochRequest>,
    /// The last saved state, until the world has written it to the shared store.
    pending_store: Option<Box<SavedCoreState>>,
    /// All findings of the snapshots since [`Manager::keep_findings`].
    shown: Option<BTreeSet<Finding>>,
    /// The time since which an SA beside the core answers hosts, and the snapshot from which the SA
    /// answers.
    serving: Option<(Time, Arc<Snapshot>)>,
}

impl Manager {
    pub(super) fn new(attach: AttachId, config: CoreConfig) -> Manager {
        Manager {
            attach,
            config,
            core: None,
            incarnation: 0,
            remembered: SavedCoreState::default(),
            groups: None,
            guids: Arc::default(),
            gpus: Arc::default(),
            planning: None,
            preparing: None,
            snapshot: None,
            sa_snapshot: None,
            convergences: Vec::new(),
            done: VecDeque::new(),
            notices: Vec::new(),
            declined: Vec::new(),
            taken: Vec::new(),
            paused: None,
            sets: 0,
            gets: 0,
            foreseen: None,
            requests: Vec::new(),
            pending_store: None,
            shown: None,
            serving: None,
        }
    }

    /// Starts the manager. `at` is the manager's port, which the host's driver reports; `stored` is
    /// the state that the manager has read from the shared store.
    pub(super) fn start(
        &mut self,
        memory: Memory,
        at: Option<KeyHolder>,
        stored: Option<&SavedCoreState>,
        now: Time,
    ) {
        if memory == Memory::Lost {
            self.remembered = SavedCoreState::default();
        }
        let mut config = self.config.clone();
        // An answer to the previous incarnation must not match a request of this incarnation; the
        // daemon uses a random number for this.
        config.client.first_generation = self.incarnation.wrapping_mul(0x1357);
        self.incarnation += 1;
        let mut remembered = SavedCoreState {
            gpus: self.gpus.clone(),
            ..self.remembered.clone()
        };
        if let Some(stored) = stored {
            remembered.cabling = stored.cabling.clone();
            remembered.generations = stored.generations;
        }
        let mut core = Core::new(config, remembered);
        if let Some(port) = at {
            core.attach(port);
        }
        if let Some(groups) = &self.groups {
            core.handle(Event::Groups(groups.clone()), now);
        }
        core.handle(Event::Guids(self.guids.clone()), now);
        core.handle_deadline(now);
        self.core = Some(core);
        self.snapshot = None;
        self.sa_snapshot = self.sa_snapshot.is_some().then(SaSnapshot::default);
        self.convergences.clear();
        self.done.clear();
        self.notices.clear();
        self.declined.clear();
    }

    /// Kills the manager: only its saved state remains.
    pub(super) fn kill(&mut self) {
        self.core = None;
        self.paused = None;
        (self.planning, self.preparing) = (None, None);
        self.requests.clear();
        self.pending_store = None;
        self.serving = None;
    }

    /// Stops the manager at once, as SIGSTOP does; arriving packets wait.
    pub(super) fn pause(&mut self) {
        self.paused = Some(VecDeque::new());
    }

    /// Resumes the manager after `pause`, as SIGCONT does.
    pub(super) fn resume(&mut self, pause: Duration, now: Time) {
        let Some(waiting) = self.paused.take() else {
            return;
        };
        self.handle(Event::Paused(pause), now);
        for event in waiting {
            self.handle(event, now);
        }
    }

    /// Resumes the manager after a stall that the manager cannot notice.
    pub(super) fn resume_late(&mut self, order: AfterStall, now: Time) {
        let waiting = self.paused.take().unwrap_or_default();
        if order == AfterStall::DeadlinesFirst {
            self.wake(now);
        }
        for event in waiting {
            self.handle(event, now);
        }
        self.wake(now);
    }

    /// Keeps the findings of all further snapshots.
    pub(super) fn keep_findings(&mut self) {
        self.shown = Some(BTreeSet::new());
    }

    /// The findings of all snapshots since [`Manager::keep_findings`].
    ///
    /// # Panics
    ///
    /// The findings are not kept.
    #[must_use]
    pub fn shown(&self) -> &BTreeSet<Finding> {
        self.shown.as_ref().expect("findings are kept")
    }

    /// The number of Sets that the manager has sent, including retries. SubnSet(SMInfo) changes no
    /// hardware and does not count.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.sets
    }

    /// The number of Gets that the manager has sent, including retries, except for SMInfo.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.gets
    }

    /// The Sets that a dry run foresees; `None` before the dry run has planned.
    #[must_use]
    pub fn foreseen(&self) -> Option<&[Foreseen]> {
        self.foreseen.as_deref()
    }

    /// Tells whether the manager sets hardware; false for a dry run.
    pub(super) fn manages(&self) -> bool {
        self.config.mode == Mode::Manage
    }

    /// Tells whether the manager runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.core.is_some()
    }

    /// The running core.
    ///
    /// # Panics
    ///
    /// The manager is dead.
    #[must_use]
    pub fn core(&self) -> &Core {
        self.core.as_ref().expect("the subnet manager is alive")
    }

    /// The manager's identity as a client of the fabric.
    #[must_use]
    pub fn attachment(&self) -> AttachId {
        self.attach
    }

    /// The manager's port.
    #[must_use]
    pub fn local(&self, sim: &Sim) -> Option<(Guid, PortNum)> {
        let local = sim.local_port(self.attach)?;
        Some((local.node_guid, local.port))
    }

    /// The last snapshot that the manager published in this life.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// Keeps all further snapshots of the SA beside the core. Each snapshot requires building a
    /// directory.
    pub(super) fn keep_sa_snapshot(&mut self) {
        self.sa_snapshot = Some(SaSnapshot::default());
    }

    /// The snapshot of the SA beside the core.
    ///
    /// # Panics
    ///
    /// The snapshot is not kept.
    #[must_use]
    pub fn sa_snapshot(&self) -> &SaSnapshot {
        self.sa_snapshot
            .as_ref()
            .expect("the snapshot of the SA is kept")
    }

    /// Makes the SA beside the core answer from `snapshot`, if this manager is the master.
    fn serve(&mut self, snapshot: &Arc<Snapshot>, now: Time) {
        let answers = snapshot.role == Role::Master && snapshot.plan.is_some();
        let since = self.serving.as_ref().map_or(now, |(since, _)| *since);
        self.serving = answers.then(|| (since, snapshot.clone()));
        if let Some(last) = &self.sa_snapshot {
            self.sa_snapshot = Some(SaSnapshot::of(snapshot, Some(last)));
        }
    }

    /// The time since which an SA beside the core answers hosts, and the snapshot from which the SA
    /// answers; `None` while the SA does not answer.
    #[must_use]
    pub fn serving(&self) -> Option<(Time, &Arc<Snapshot>)> {
        let (since, snapshot) = self.serving.as_ref()?;
        Some((*since, snapshot))
    }

    pub(super) fn take_requests(&mut self) -> Vec<EpochRequest> {
        std::mem::take(&mut self.requests)
    }

    pub(super) fn take_pending_store(&mut self) -> Option<Box<SavedCoreState>> {
        self.pending_store.take()
    }

    /// Tells whether the manager is stopped but not dead.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.paused.is_some()
    }

    /// Tells whether the manager is alive and not stopped.
    pub(super) fn is_running(&self) -> bool {
        self.core.is_some() && self.paused.is_none()
    }

    /// The convergences of this life, oldest first.
    #[must_use]
    pub fn convergences(&self) -> &[Arc<Convergence>] {
        &self.convergences
    }

    /// The saved state for the next incarnation.
    #[must_use]
    pub fn remembered(&self) -> &SavedCoreState {
        &self.remembered
    }

    /// The tickets of completed commands, oldest first.
    #[must_use]
    pub fn done(&self) -> &VecDeque<u64> {
        &self.done
    }

    /// The notices of ports in this life that the manager would report to subscribers, oldest
    /// first.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The declined tickets with their reasons.
    #[must_use]
    pub fn declined(&self) -> &[(u64, String)] {
        &self.declined
    }

    /// The accepted changes of partitions, with their effects.
    pub fn taken(&self) -> &[(u64, ChangeEffect)] {
        &self.taken
    }

    /// The codes and subjects of the findings that the manager last published, sorted.
    #[must_use]
    pub fn findings(&self) -> Vec<(&'static str, String)> {
        let mut findings: Vec<_> = self
            .snapshot
            .iter()
            .flat_map(|snapshot| snapshot.findings.iter())
            .map(|finding| (finding.kind.code(), finding.subject.to_string()))
            .collect();
        findings.sort();
        findings
    }

    pub(super) fn is_settled(&self) -> bool {
        self.paused.is_some()
            || self.planning.is_none()
                && self.preparing.is_none()
                && self.core.as_ref().is_none_or(Core::is_settled)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.paused.is_some() {
            return None;
        }
        let core = self.core.as_ref()?.next_deadline();
        let planned = [&self.planning, &self.preparing].into_iter().flatten();
        let planned = planned.map(|(when, _)| *when);
        core.into_iter().chain(planned).min()
    }

    /// Passes the multicast groups of the SA to the core.
    pub(super) fn regroup(&mut self, groups: Arc<GroupSet>, now: Time) {
        self.groups = Some(groups.clone());
        self.handle(Event::Groups(groups), now);
    }

    /// Passes the alias GUIDs of the SA to the core.
    pub(super) fn set_alias_guids(&mut self, guids: Arc<AliasGuids>, now: Time) {
        self.guids = guids.clone();
        self.handle(Event::Guids(guids), now);
    }

    /// Passes the inventory of GPU hosts to the core.
    pub(super) fn set_gpus(&mut self, gpus: Arc<GpuInventory>, now: Time) {
        self.gpus = gpus.clone();
        self.handle(Event::GpuHosts(gpus), now);
    }

    pub(super) fn forget_groups(&mut self) {
        self.groups = None;
    }

    /// Passes an event to the core; while the manager is stopped, the event waits.
    pub(super) fn handle(&mut self, event: Event, now: Time) {
        if let Some(waiting) = &mut self.paused {
            waiting.push_back(event);
        } else if let Some(core) = &mut self.core {
            core.handle(event, now);
        }
    }

    /// Does the work that is due at `now`.
    pub(super) fn wake(&mut self, now: Time) {
        if self.paused.is_some() {
            return;
        }
        let is_due = |(when, _): &mut (Time, Event)| *when <= now;
        let planned = [
            self.planning.take_if(is_due),
            self.preparing.take_if(is_due),
        ];
        for (_, planned) in planned.into_iter().flatten() {
            self.handle(planned, now);
        }
        if let Some(core) = &mut self.core
            && core.next_deadline().is_some_and(|due| due <= now)
        {
            core.handle_deadline(now);
        }
    }

    /// Carries out the core's effects. Returns the number of effects.
    pub(super) fn take_effects(
        &mut self,
        sim: &mut Sim,
        settings: &Settings,
        (ledger, watch): (&mut Option<Ledger>, &mut Option<Watch>),
        now: Time,
    ) -> usize {
        let mut count = 0;
        if self.paused.is_some() {
            return count;
        }
        while let Some(effect) = self.core.as_mut().and_then(|core| core.poll_effect(now)) {
            count += 1;
            if let Some(watch) = watch {
                self.record_effect(&mut watch.record, &effect, now);
            }
            match effect {
                Effect::Send { datagram, timeout } => {
                    self.sets += u64::from(is_smp(&datagram, Method::SET));
                    self.gets += u64::from(is_smp(&datagram, Method::GET));
                    if let Some(ledger) = ledger {
                        ledger.record(sim, self.attach, &datagram);
                    }
                    if settings.kernel_timeouts {
                        sim.send_with_timeout(self.attach, &datagram, timeout, now);
                    } else {
                        sim.send(self.attach, &datagram, now);
                    }
                }
                Effect::Plan(job) => {
                    let event = Event::Planned {
                        generation: job.generation,
                        outcome: rsm_plan::plan(&job),
                    };
                    self.planning = Some((now + settings.planning_time, event));
                }
                Effect::Prepare(job) => {
                    let event = Event::Prepared(rsm_plan::plan(&job));
                    self.preparing = Some((now + settings.planning_time, event));
                }
                Effect::Serve(forthcoming) => {
                    let snapshot = Arc::new(forthcoming.snapshot());
                    self.serve(&snapshot, now);
                }
                Effect::Publish(snapshot) => {
                    self.serve(&snapshot, now);
                    if let Some(shown) = &mut self.shown {
                        shown.extend(snapshot.findings.iter().cloned());
                    }
                    self.snapshot = Some(snapshot);
                }
                Effect::Foreseen(sets) => self.foreseen = Some(sets),
                Effect::Epoch(request) => self.requests.push(request),
                Effect::Remember(remembered) => {
                    self.pending_store = Some(remembered.clone());
                    self.remembered = *remembered;
                }
                Effect::Converged(convergence) => self.convergences.push(convergence),
                Effect::Done { ticket, .. } => self.done.push_back(ticket),
                Effect::Notice(notice) => self.notices.push(*notice),
                Effect::Declined { ticket, reason } => self.declined.push((ticket, reason)),
                Effect::CutOff { ticket, reason, .. } => self.declined.push((ticket, reason)),
                Effect::OfAnother { ticket, order } => self.declined.push((ticket, order.by)),
                Effect::PartitionTaken { ticket, effect } => {
                    self.taken.push((ticket, *effect));
                }
                Effect::PartitionRefused { ticket, error } => {
                    self.declined.push((ticket, error.to_string()));
                }
            }
        }
        count
    }

    /// Records a sent datagram or a saved state.
    fn record_effect(&self, record: &mut Record, effect: &Effect, now: Time) {
        match effect {
            Effect::Send { datagram, .. } => {
                record.on_send(now, self.core().role(), datagram);
            }
            Effect::Remember(saved) => record.on_save(now, saved),
            _ => {}
        }
    }
}

/// Tells whether a datagram is an SMP with this method, other than SMInfo.
fn is_smp(datagram: &Datagram, method: Method) -> bool {
    let smp = Smp::from_bytes(&datagram.mad);
    let header = smp.header();
    header.class().is_subnet_management()
        && header.method() == method
        && header.attribute() != SmInfo::ID
}
