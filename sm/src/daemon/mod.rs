//! Connects the core to the outside: transport, clock, signals and gRPC.
//!
//! A single task, the shell, owns the core. All events reach it as [`Event`]s through one bounded
//! channel, and it carries out the core's effects: it sends datagrams at once, computes plans on
//! a thread of their own, passes snapshots to the readers, to [the SA](sa) and to the collector of
//! performance counters, and passes stored state to the thread of the store.

mod access;
mod addresses;
mod arrivals;
mod attachment;
mod clock;
mod compute;
mod counters;
mod dry_run;
mod dumps;
mod events;
mod fabric_server;
mod findings;
mod gpu_hosts;
mod history;
mod host_facts;
mod http;
mod isolation;
mod notify;
mod past;
mod pause;
mod persistence;
mod progress;
mod reload;
pub mod sa;
mod server;
mod service_manager;
mod settings;
mod setup;
mod signals;
mod simulator;
mod state_dir;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rsm_api::Subnet as _;
use rsm_config::m_keys::KeyHolder;
use rsm_config::{Config, HostileHosts, Partitions};
use rsm_core::{Core, CoreConfig, Effect, Event, SavedCoreState};
use rsm_ids::{PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Inbound, IsSmError, LocalPort, PortEvent, Sink};
use rsm_mad::wire::attr::PortState;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{Convergence, Role, Snapshot};
use rsm_store::StoreFabric;
use rsm_view::publish::{Controller, View};
use tokio::sync::mpsc;

use self::access::Access;
use self::arrivals::{ArrivalsFirst, RECHECK_AFTER};
pub use self::attachment::FabricSpec;
use self::attachment::Line;
use self::clock::Clock;
use self::counters::CountersHandle;
pub use self::dry_run::{DryRunOptions, dry_run};
use self::dumps::Dumper;
pub use self::fabric_server::{FabricServer, serve_fabric};
use self::findings::{DaemonFindings, DaemonPart};
use self::gpu_hosts::GpuHosts;
use self::history::History;
use self::host_facts::ThisHost;
use self::isolation::Isolation;
use self::notify::Notify;
use self::past::Past;
use self::pause::PauseWatch;
use self::persistence::StoreHandle;
pub use self::persistence::{ImportError, Imported, import, unix_seconds};
use self::progress::ProgressDisplay;
use self::sa::SaHandle;
use self::service_manager::ServiceManager;
pub use self::settings::log_findings;
use self::setup::Setup;
use self::signals::{HangUps, Signals};
use self::state_dir::StateDir;

/// Number of events that can wait for the core: more than can be in flight (the window is 96 at
/// most), so that the receive thread never waits while the core sends. The channel takes 1.3 MB.
const INBOX: usize = 4096;

/// Number of events that the core handles before the shell carries out effects. Bounds the time
/// that an answer waits to be sent.
const EVENTS_AT_ONCE: usize = 128;

/// Number of unsuccessful repairs after which `--once` reports the subnet in its present state.
const ONCE_REPAIRS: u32 = 3;

/// Time between two attempts to open a vanished port again, or to set its IsSM.
const RESTORE_AFTER: Duration = Duration::from_secs(1);

/// Options of the daemon's command line.
pub struct DaemonOptions {
    /// Fabric to manage.
    pub fabric: FabricSpec,
    /// Kind of `fabric`, for its store.
    pub store_fabric: StoreFabric,
    /// Settings of the configuration file, with the command line applied.
    pub config: Config,
    /// File from which `config` was read, and which SIGHUP reads again; `None` for the defaults.
    pub config_file: Option<PathBuf>,
    /// Applies the command line to the file's settings, again after each reading.
    pub overrides: Overrides,
    /// Folder of the socket for `rsmctl`; `None` for the default folder.
    pub socket_dir: Option<PathBuf>,
    /// Whether the daemon keeps nothing on disk.
    pub stateless: bool,
    /// Whether the daemon ends after it has brought the subnet up and reported.
    pub once: bool,
    /// File to write all datagrams to; `None` for no trace.
    pub trace: Option<PathBuf>,
    /// Whether routes with credit loops, which can deadlock, are accepted.
    pub accept_credit_loops: bool,
    /// Whether the terminal shows progress.
    pub progress: bool,
    /// Number of lines that the log has dropped so far.
    pub dropped_log_lines: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Applies the command line to the configuration of a file.
pub type Overrides = Box<dyn Fn(&mut Config) + Send + Sync>;

/// Runs the subnet manager until a signal stops it, or with `once` until the subnet is up. Returns
/// the last published state; `None` if the core published none.
///
/// # Errors
/// The port, the state directory or a socket cannot be used, or a part of the daemon failed while
/// it ran.
pub async fn run(options: DaemonOptions) -> anyhow::Result<Option<Arc<Snapshot>>> {
    let hang_ups = HangUps::listen()?;
    compute::lower_pool_priority();
    let mut core_config =
        settings::core_config(&options.config, options.accept_credit_loops, None)?;
    let sa_config = settings::sa_config(&options.config)?;
    let (inbox, events) = mpsc::channel(INBOX);
    let setup = Setup {
        clock: Clock::start(),
        findings: DaemonFindings::new(),
        inbox,
        options,
    };
    // The first answer of the shared store may take seconds; no part waits for it yet.
    let (store_handle, mut kept, shared_view) = setup.open_store()?;
    let shares_store = shared_view.is_some();
    core_config.mastership.shares_store = shares_store;
    // With `once` the SA ends, so hosts need not register with it.
    kept.core.reregister &= !setup.options.once;
    let mut attached = setup.attach(sa_config, kept.sa, &store_handle)?;
    let local = attached.line.transport().local_port();
    let _events = events::watch(&setup.options.fabric, &local, sink(setup.inbox.clone()));
    let records = setup.open_records(store_handle.history_sink(), &attached)?;
    let history = records.history.as_ref();
    let view = setup.view(&attached, history, shared_view, &records.notify);
    let controller = Arc::new(Controller::new(setup.inbox.clone(), view.clone()));
    let access = setup.access()?;
    let (gpu_hosts, servers) = if setup.options.once {
        (None, None)
    } else {
        let gpu_hosts = setup.gpu_hosts(&view, &store_handle, kept.gpus)?;
        let state_dir = setup.state_dir().map(Path::to_owned);
        let host = ThisHost::new(state_dir, shares_store, access.clone());
        let limits = core_config.health.limits;
        let kept = (history, records.past.as_ref());
        let backend = attached.backend(&view, &controller, &gpu_hosts, kept, host, limits);
        let servers = setup.serve(&access, backend).await?;
        (Some(gpu_hosts), Some(servers))
    };
    store_handle.attach(gpu_hosts.as_ref(), history.map(History::recorder).as_ref());
    let checksums = core_config.mastership.checksums.clone();
    let partitions = core_config.policy.partitions.clone();
    let core = core_at(&mut attached.line, core_config, kept.core);
    let shell = Shell {
        partitions,
        core,
        clock: setup.clock,
        line: attached.line,
        view,
        controller,
        access: access.clone(),
        sa_handle: attached.sa_handle,
        counters: attached.counters,
        store_handle,
        gpu_hosts,
        records,
        dumper: Dumper::start(
            setup.options.config.dump.dir.clone(),
            setup.findings.clone(),
        )?,
        state_dir: StateDir::start(setup.state_dir(), setup.findings.clone())?,
        service_manager: ServiceManager::from_environment(|name| std::env::var_os(name)),
        progress: ProgressDisplay::start(setup.options.progress)?,
        config_read: setup.options.config.clone(),
        inbox: setup.inbox,
        findings: setup.findings,
        options: setup.options,
        pauses: PauseWatch::start(shares_store),
        isolation: Isolation::new(),
        last: None,
        lack: None,
        checksums,
    };
    let result = shell.run(events, hang_ups).await;
    if let Some(servers) = servers {
        servers.stop().await;
    }
    access.finish();
    result
}

/// The core of a manager at this line's port, with what the store remembers.
fn core_at(line: &mut Line, config: CoreConfig, remembered: SavedCoreState) -> Core {
    let mut core = Core::new(config, remembered);
    core.attach(key_holder(&line.transport().local_port()));
    core
}

/// Identity of this manager's port, as the holder of an M_Key.
fn key_holder(local: &LocalPort) -> KeyHolder {
    KeyHolder {
        port: PortKey::new(local.node_guid, local.port),
        guid: local.port_guid,
        is_switch: local.port == PortNum::ZERO,
    }
}

/// Whether the port has no link. Port 0 of a switch has no link to lose.
fn is_down(local: &LocalPort) -> bool {
    local.port != PortNum::ZERO && local.state == PortState::Down
}

/// Delivers the datagrams of a transport to the core.
fn sink(inbox: mpsc::Sender<Event>) -> Sink {
    // A closed channel means that the daemon is ending, so the datagram no longer matters.
    Box::new(move |inbound| drop(inbox.blocking_send(Event::Inbound(inbound))))
}

/// Delivers the SA's events to the core, without waiting.
fn core_sink(inbox: mpsc::Sender<Event>) -> sa::CoreSink {
    Box::new(move |event| match inbox.try_send(event) {
        Ok(()) => true,
        Err(mpsc::error::TrySendError::Full(_)) => false,
        // The daemon is ending.
        Err(mpsc::error::TrySendError::Closed(_)) => true,
    })
}

/// Publishes the SA's findings about refused joins among those of the daemon's parts.
fn joins_sink(findings: DaemonFindings) -> sa::FindingsSink {
    Box::new(move |refused| findings.report(DaemonPart::Joins, refused))
}

/// Delivers ports with link errors to the core, without waiting.
fn errors_sink(inbox: mpsc::Sender<Event>) -> counters::ErrorsSink {
    Box::new(
        move |errors| match inbox.try_send(Event::PortErrors(errors)) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
            // The daemon is ending.
            Err(mpsc::error::TrySendError::Closed(_)) => true,
        },
    )
}

/// Delivers new GPU inventories to the core.
fn gpu_sink(inbox: mpsc::Sender<Event>) -> gpu_hosts::InventorySink {
    // Inventories arrive on threads that may wait. A closed channel means that the daemon is
    // ending.
    Box::new(move |gpus| drop(inbox.blocking_send(Event::GpuHosts(gpus))))
}

/// Parts that record the subnet's events and counters, or send them elsewhere.
struct Records {
    history: Option<History>,
    past: Option<Past>,
    notify: Notify,
}

/// A lack of the port.
#[derive(Clone, Copy)]
enum Lack {
    /// The device has vanished.
    Device,
    /// The port is open, and IsSM is not set.
    IsSm,
}

impl Lack {
    /// The lack, with the time of the next attempt to restore it.
    fn restored_later(self) -> (Lack, tokio::time::Instant) {
        (self, tokio::time::Instant::now() + RESTORE_AFTER)
    }
}

/// Core, and the parts with which it exchanges events and effects.
struct Shell {
    core: Core,
    /// Partitions in force.
    partitions: Arc<Partitions>,
    clock: Clock,
    line: Line,
    inbox: mpsc::Sender<Event>,
    view: Arc<View>,
    controller: Arc<Controller>,
    access: Access,
    sa_handle: SaHandle,
    counters: CountersHandle,
    store_handle: StoreHandle,
    gpu_hosts: Option<Arc<GpuHosts>>,
    records: Records,
    dumper: Dumper,
    state_dir: StateDir,
    findings: DaemonFindings,
    service_manager: ServiceManager,
    progress: Option<ProgressDisplay>,
    options: DaemonOptions,
    /// Configuration that was last read without errors.
    config_read: Config,
    pauses: PauseWatch,
    isolation: Isolation,
    /// Last published snapshot; `None` before the first one.
    last: Option<Arc<Snapshot>>,
    /// The lack of the port, and the time of the next attempt to restore it; `None` while the port
    /// is open and has IsSM.
    lack: Option<(Lack, tokio::time::Instant)>,
    /// Checksums of the settings in force, for managers that share the store.
    checksums: String,
}

impl Shell {
    /// Passes events to the core and carries out its effects, until a signal, the end of `--once`
    /// or a failure ends the daemon.
    async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        hang_ups: HangUps,
    ) -> anyhow::Result<Option<Arc<Snapshot>>> {
        let mut signals = Signals::listen(hang_ups)?;
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut arrivals = ArrivalsFirst::default();
        let (failed, mut failure) = mpsc::channel::<String>(1);
        let mut reports = self.findings.subscribe();
        self.take_reports();
        self.set_is_sm();
        // The core's first sweep is due at once.
        self.core.handle_deadline(self.clock.now());
        loop {
            self.carry_out(&failed);
            self.service_manager.turn(self.clock.now());
            if self.view.show_progress(self.core.progress()) {
                self.service_manager.report_status(&self.view.status());
            }
            self.sa_handle
                .statistics()
                .show_act_count(self.core.act_count());
            if let Some(progress) = &self.progress {
                progress.show(&self.core);
            }
            self.isolate_hostile();
            if self.options.once && self.is_finished() {
                break;
            }
            if let Some(pause) = self.pauses.begin_turn() {
                self.on_pause(pause);
                continue;
            }
            let has_waiting = !events.is_empty();
            let Some(wake) = self.handle_deadlines(&mut arrivals, has_waiting) else {
                // Many deadlines in a row must not starve other tasks.
                tokio::task::consume_budget().await;
                continue;
            };
            let wake = self.clock.instant(wake);
            tokio::select! {
                biased;
                count = events.recv_many(&mut batch, EVENTS_AT_ONCE) => {
                    if count == 0 {
                        break;
                    }
                    self.check_mastership();
                    for event in batch.drain(..) {
                        if let Event::Inbound(Inbound::Port(PortEvent::Gone)) = &event {
                            self.lack = Some(Lack::Device.restored_later());
                        }
                        self.core.handle(event, self.clock.now());
                    }
                }
                signal = signals.next() => match signal {
                    signals::Signal::Stop => break,
                    signals::Signal::Reload => self.reload(),
                },
                // The next turn handles the deadlines or postpones them.
                () = sleep_until(wake) => {}
                () = sleep_until(self.lack.map(|(_, at)| at)) => self.restore(),
                Some(what) = failure.recv() => anyhow::bail!(what),
                // The shell owns the sender, so the channel stays open.
                Ok(()) = reports.changed() => self.take_reports(),
                // Detects a pause of the process even if no event is due for long.
                () = tokio::time::sleep(pause::TURN) => {
                    self.check_mastership();
                }
            }
        }
        drop(events);
        Ok(self.finish())
    }

    /// Stops all parts, each after the parts that it serves. Returns the final state; `None` if the
    /// core published no state while it ran.
    fn finish(mut self) -> Option<Arc<Snapshot>> {
        self.service_manager.stopping();
        self.controller.stop();
        self.counters.stop();
        // The recorded past receives the last readings.
        if let Some(past) = self.records.past {
            past.finish();
        }
        self.sa_handle.stop();
        self.line.finish();
        self.dumper.finish();
        if let Some(gpu_hosts) = &self.gpu_hosts {
            gpu_hosts.save_seen();
        }
        self.records.notify.stop();
        // The history passes its last events to the store.
        if let Some(history) = self.records.history {
            history.finish();
        }
        self.store_handle.close();
        self.state_dir.finish();
        let now = self.clock.now();
        self.core.set_daemon_findings(self.findings.all(), now);
        let end = self.core.snapshot(now);
        self.last.map(|_| Arc::new(end))
    }

    /// Handles due deadlines, unless datagrams that have arrived must come first. `has_waiting`
    /// tells whether events wait in the channel. Returns `None` if deadlines were handled, else the
    /// time of the next check, which is `None` without a deadline.
    fn handle_deadlines(
        &mut self,
        arrivals: &mut ArrivalsFirst,
        has_waiting: bool,
    ) -> Option<Option<Time>> {
        let now = self.clock.now();
        let deadline = self.core.next_deadline();
        if deadline.is_none_or(|deadline| deadline > now) {
            *arrivals = ArrivalsFirst::default();
            return Some(deadline);
        }
        let has_unread = has_waiting || self.line.has_unread();
        if !arrivals.permits_deadlines(has_unread, now) {
            return Some(Some(now + RECHECK_AFTER));
        }
        self.check_mastership();
        self.core.handle_deadline(self.clock.now());
        None
    }

    /// Passes the findings of the daemon's parts to the core, which publishes them.
    fn take_reports(&mut self) {
        let now = self.clock.now();
        self.core.set_daemon_findings(self.findings.all(), now);
    }

    /// Whether `--once` may end: this manager is not the master, the subnet is up, or repairs do
    /// not succeed.
    fn is_finished(&self) -> bool {
        let is_standby = matches!(self.core.role(), Role::Standby { .. } | Role::NotActive);
        let is_settled = self.core.is_settled()
            && !self.core.is_inquiring()
            && self.core.history().next().is_some();
        let is_stuck = self.core.repairs() >= ONCE_REPAIRS && self.core.is_idle();
        self.last.is_some() && (is_standby || is_settled || is_stuck)
    }

    /// Carries out all effects of the core. `failed` receives the reason why the daemon must end.
    fn carry_out(&mut self, failed: &mpsc::Sender<String>) {
        let mut now = self.clock.now();
        loop {
            if self.check_mastership() {
                now = self.clock.now();
            }
            let Some(effect) = self.core.poll_effect(now) else {
                break;
            };
            match effect {
                Effect::Send { datagram, timeout } => {
                    if let Err(error) = self.line.transport().send(&datagram, timeout) {
                        tracing::debug!(
                            error = &error as &dyn std::error::Error,
                            "a datagram was not sent"
                        );
                        self.core.send_failed(&datagram, now);
                    }
                }
                Effect::Plan(job) => {
                    let generation = job.generation;
                    let planned = move |outcome| Event::Planned {
                        generation,
                        outcome,
                    };
                    self.start_plan(job, planned, failed.clone());
                }
                Effect::Prepare(job) => self.start_plan(job, Event::Prepared, failed.clone()),
                Effect::Serve(forthcoming) => self.sa_handle.serve(forthcoming),
                // Only a dry run causes this effect.
                Effect::Foreseen(_) => {}
                Effect::Publish(snapshot) => {
                    log_role(self.last.as_deref(), &snapshot);
                    self.sa_handle.publish(snapshot.clone());
                    self.counters.publish(snapshot.clone());
                    self.store_handle
                        .announce(snapshot.own_guid, &self.checksums);
                    self.view.replace(snapshot.clone());
                    self.service_manager.report_status(&self.view.status());
                    self.controller.recheck();
                    self.last = Some(snapshot);
                }
                Effect::Remember(remembered) => self.store_handle.keep(remembered),
                Effect::Epoch(request) => self.store_handle.ask(request),
                Effect::Notice(notice) => self.sa_handle.notice(*notice),
                Effect::Converged(convergence) => {
                    if let Some(snapshot) = &self.last {
                        log_convergence(&convergence, snapshot, &self.view);
                        self.dumper.dump(snapshot.clone());
                    }
                }
                Effect::Done {
                    ticket,
                    convergence,
                } => self.controller.request_done(ticket, &convergence),
                Effect::Declined { ticket, reason } => {
                    self.controller.request_declined(ticket, reason)
                }
                Effect::CutOff {
                    ticket,
                    ports,
                    reason,
                } => self.controller.cut_off(ticket, ports, reason),
                Effect::OfAnother { ticket, order } => self.controller.of_another(ticket, &order),
                Effect::PartitionTaken { ticket, effect } => {
                    self.controller.partition_taken(ticket, *effect);
                }
                Effect::PartitionRefused { ticket, error } => {
                    self.controller.partition_refused(ticket, &error);
                }
            }
        }
    }

    /// Isolates hostile hosts, if the configuration demands it and this manager is the master.
    fn isolate_hostile(&mut self) {
        let now = self.clock.now();
        let is_wanted = self.config_read.health.hostile_hosts == HostileHosts::Isolate
            && matches!(self.core.role(), Role::Master);
        if is_wanted && self.isolation.is_due(now) {
            let hostile = self.core.hostile_ports(now);
            self.isolation
                .isolate_new(&hostile, &self.controller, &self.view, now);
        }
    }

    /// Tells the core of a pause of this process, and of an epoch that has superseded this
    /// manager's epoch. Must precede everything that the core receives or sends. Returns whether
    /// there was a pause.
    fn check_mastership(&mut self) -> bool {
        let pause = self.pauses.check();
        if let Some(pause) = pause {
            self.on_pause(pause);
        }
        if let Some(deposed) = self.store_handle.take_deposed() {
            self.core.handle(Event::Epoch(deposed), self.clock.now());
        }
        pause.is_some()
    }

    /// Passes a pause of this process to the core.
    fn on_pause(&mut self, pause: Duration) {
        tracing::warn!(
            pause_s = pause.as_secs_f64(),
            "this process did not run; nothing is set until it is known that no other subnet manager has taken over"
        );
        self.core.handle(Event::Paused(pause), self.clock.now());
    }

    /// Computes a plan on a thread of its own; `planned` turns the outcome into the event for the
    /// core.
    fn start_plan(
        &self,
        job: Box<rsm_plan::PlanJob>,
        planned: impl FnOnce(rsm_plan::Outcome) -> Event + Send + 'static,
        failed: mpsc::Sender<String>,
    ) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            match compute::run_on_thread("plan", move || rsm_plan::plan(&job)).await {
                Ok(outcome) => {
                    log_unchanged(&outcome);
                    // A closed channel means that the daemon is ending.
                    drop(inbox.send(planned(outcome)).await);
                }
                // If planning panics, only a new process is safe: it reads the whole hardware.
                Err(error) => drop(
                    failed
                        .send(format!("computing a plan failed: {error:#}"))
                        .await,
                ),
            }
        });
    }

    /// Restores what the port lacks. Schedules another attempt after a failure.
    fn restore(&mut self) {
        match self.lack {
            Some((Lack::Device, _)) => self.reopen(),
            Some((Lack::IsSm, _)) => self.set_is_sm(),
            None => {}
        }
    }

    /// Tries to reopen a vanished port.
    fn reopen(&mut self) {
        if let Err(error) = self.line.reopen() {
            tracing::debug!("{error:#}");
            self.lack = Some(Lack::Device.restored_later());
            return;
        }
        let event = match is_down(&self.line.transport().local_port()) {
            true => PortEvent::Down,
            false => PortEvent::Up,
        };
        tracing::info!(?event, "the port is back");
        self.core
            .handle(Event::Inbound(Inbound::Port(event)), self.clock.now());
        self.set_is_sm();
    }

    /// Tries to set IsSM, and reports a refusal.
    fn set_is_sm(&mut self) {
        let refusal = match self.line.transport().set_is_sm(true) {
            Err(error @ IsSmError::Io { .. }) => Some(error),
            // The event that the port has vanished is on its way.
            Ok(()) | Err(IsSmError::Closed) => None,
        };
        self.lack = refusal.as_ref().map(|_| Lack::IsSm.restored_later());
        let port = key_holder(&self.line.transport().local_port()).port;
        let finding = refusal.map(|error| is_sm_finding(port, error));
        self.findings
            .report(DaemonPart::IsSm, finding.into_iter().collect());
    }
}

/// The finding about a port whose IsSM cannot be set.
fn is_sm_finding(port: PortKey, error: IsSmError) -> Finding {
    let is_held =
        matches!(&error, IsSmError::Io { source, .. } if source.kind() == ErrorKind::WouldBlock);
    let remedy = match is_held {
        true => "another subnet manager of this host holds it: end that one",
        false => "let rsm open /dev/infiniband/issm*",
    };
    let text = format!(
        "{:#}: other subnet managers do not see this one, and a second one may set the same fabric; {remedy}; rsm tries again every second",
        anyhow::Error::new(error)
    );
    let (kind, subject) = (FindingKind::LocalPort, Subject::Port(port));
    Finding::new(kind, subject, Severity::Warning, text)
}

/// Waits until `when`; never returns if it is `None`.
async fn sleep_until(when: Option<tokio::time::Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Logs why rebalancing changes no routes.
fn log_unchanged(outcome: &rsm_plan::Outcome) {
    if let rsm_plan::Outcome::Unchanged { why, .. } = outcome {
        tracing::info!("no route is moved off the fullest links: {why}");
    }
}

/// Logs a change of the role.
fn log_role(before: Option<&Snapshot>, now: &Snapshot) {
    let known = before.map(|before| &before.role);
    if known == Some(&now.role) {
        return;
    }
    match &now.role {
        Role::Standby { master } => tracing::warn!(
            master = master.name,
            guid = %master.guid,
            priority = master.priority,
            "another subnet manager is master; this one stands by and sets nothing"
        ),
        Role::Master => tracing::info!("this subnet manager is master"),
        Role::Discovering => tracing::info!("looking for other subnet managers"),
        Role::NotActive => {
            tracing::warn!(
                "this subnet manager is not active: it manages nothing until another one orders it to stand by"
            );
        }
    }
}

/// Logs the end of a convergence, with its costs.
fn log_convergence(convergence: &Convergence, snapshot: &Snapshot, view: &View) {
    // The view has counted the nodes of this snapshot, because it was published before this call.
    let status = view.status();
    tracing::info!(
        generation = status.generation,
        cause = convergence.cause,
        complete = convergence.complete,
        gets = convergence.gets,
        sets = convergence.sets,
        lft_blocks = convergence.lft_blocks,
        mft_blocks = convergence.mft_blocks,
        ports_active = status.ports_active,
        ports_not_active = status.ports_not_active,
        whole = convergence
            .whole
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; "),
        proof = snapshot.plan.as_ref().map(|plan| plan.proved.to_string()),
        discover_ms = convergence.discover.as_secs_f64() * 1e3,
        plan_ms = convergence.plan.as_secs_f64() * 1e3,
        push_ms = convergence.push.as_secs_f64() * 1e3,
        "converged"
    );
}
