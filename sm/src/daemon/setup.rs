//! Starts the daemon's parts: store, port, SA, counters, history, readers and servers.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rsm_config::SymptomLimits;
use rsm_core::Event;
use rsm_mad::transport::Sinks;
use rsm_sa::{SaConfig, SavedSaState};
use rsm_view::publish::{
    Controller, FabricJudge, PublishedCounters, PublishedSa, Reporter, RouteAnalyst,
    SharedStoreSource, View,
};
use tokio::sync::mpsc;

use super::access::Access;
use super::attachment::{self, Line, Presence, Simulated};
use super::clock::Clock;
use super::counters::{self, CountersHandle, CountersSetup};
use super::findings::DaemonFindings;
use super::gpu_hosts::{self, GpuHosts};
use super::history::{self, History};
use super::host_facts::ThisHost;
use super::http::{self, ServingHttp};
use super::notify::Notify;
use super::past::{self, Past};
use super::persistence::{
    self, HistorySink, Kept, SharedSetup, SharedView, StoreHandle, StoredGpus,
};
use super::sa::{self, SaHandle, SaSetup};
use super::server::{self, Serving};
use super::settings;
use super::simulator::Simulator;
use super::{DaemonOptions, Records, core_sink, errors_sink, gpu_sink, joins_sink, sink};

/// Inputs for the start of every part.
pub(super) struct Setup {
    pub(super) options: DaemonOptions,
    pub(super) clock: Clock,
    /// Channel to the core.
    pub(super) inbox: mpsc::Sender<Event>,
    pub(super) findings: DaemonFindings,
}

/// Parts at the port of this host.
pub(super) struct Attached {
    pub(super) line: Line,
    pub(super) sa_handle: SaHandle,
    pub(super) counters: CountersHandle,
    /// Simulated fabric of the port; `None` for hardware, and after [`Attached::backend`].
    simulated: Option<Simulated>,
}

/// Servers of gRPC and HTTP.
pub(super) struct Servers {
    grpc: Serving,
    http: Option<ServingHttp>,
}

impl Servers {
    /// Ends the connections, and then the servers.
    pub(super) async fn stop(self) {
        self.grpc.stop().await;
        if let Some(http) = self.http {
            http.stop().await;
        }
    }
}

impl Setup {
    /// State folder; `None` if nothing is kept on disk.
    pub(super) fn state_dir(&self) -> Option<&Path> {
        let dir = self.options.config.state.dir.as_path();
        (!self.options.stateless).then_some(dir)
    }

    /// Opens the store, and the shared store if several managers share one.
    pub(super) fn open_store(&self) -> anyhow::Result<(StoreHandle, Kept, Option<SharedView>)> {
        let shared = settings::shared_store(&self.options.config);
        let shared = shared.map(|etcd| SharedSetup {
            options: etcd,
            core: self.inbox.clone(),
        });
        persistence::open(
            self.state_dir(),
            self.options.store_fabric,
            shared,
            self.clock,
            self.findings.clone(),
        )
    }

    /// Attaches to the port, and starts the SA and the collector of counters there.
    pub(super) fn attach(
        &self,
        sa_config: SaConfig,
        saved: SavedSaState,
        store_handle: &StoreHandle,
    ) -> anyhow::Result<Attached> {
        let (options, clock) = (&self.options, self.clock);
        let sa_setup = SaSetup::new(Arc::new(move || clock.now()));
        let counters_setup = CountersSetup::new(Arc::new(move || clock.now()));
        let sinks = Sinks {
            others: sink(self.inbox.clone()),
            sa: Some(sa_setup.sink()),
            performance: Some(counters_setup.sink()),
        };
        let (mut line, simulated) = attachment::open(
            &options.fabric,
            options.config.sm.guid,
            options.trace.as_deref(),
            move || clock.now(),
            sinks,
            &self.findings,
            Presence::Manager,
        )
        .with_context(|| format!("cannot attach to {}", options.fabric))?;
        let sa_handle = sa_setup.start(
            sa_config,
            line.sender(),
            sa::SaConnections {
                saved,
                core: core_sink(self.inbox.clone()),
                save: store_handle.sa_sink(),
                findings: joins_sink(self.findings.clone()),
                journal: store_handle.journal(),
            },
        )?;
        store_handle.attach_sa(sa_handle.restorer());
        let counters = counters_setup.start(
            counters::Settings::of(&options.config),
            line.sender(),
            errors_sink(self.inbox.clone()),
        )?;
        Ok(Attached {
            line,
            sa_handle,
            counters,
            simulated,
        })
    }

    /// Opens the parts that record events and counters, or send events elsewhere.
    pub(super) fn open_records(
        &self,
        share: Option<HistorySink>,
        attached: &Attached,
    ) -> anyhow::Result<Records> {
        let notify = self.notify()?;
        Ok(Records {
            history: self.open_history(share, &notify)?,
            past: self.open_past(attached)?,
            notify,
        })
    }

    /// Starts the threads that send events to receivers outside the fabric.
    fn notify(&self) -> anyhow::Result<Notify> {
        let fabric = self.options.fabric.to_string();
        let (config, findings) = (&self.options.config, self.findings.clone());
        Notify::start(
            config,
            self.state_dir(),
            fabric,
            self.now_unix_ms(),
            findings,
        )
    }

    /// Current time, in milliseconds since the Unix epoch.
    fn now_unix_ms(&self) -> u64 {
        rsm_view::publish::UnixClock::unix_ms(&self.clock, self.clock.now())
    }

    /// Opens the history in the state folder, if there is one. Reports the start of this run to the
    /// history and to receivers outside the fabric.
    fn open_history(
        &self,
        share: Option<HistorySink>,
        notify: &Notify,
    ) -> anyhow::Result<Option<History>> {
        let started = history::started(self.now_unix_ms(), self.options.fabric.to_string());
        notify.put(started.clone());
        let Some(dir) = self.state_dir() else {
            return Ok(None);
        };
        let (config, clock) = (&self.options.config, self.clock);
        let (disk, findings) = (rsm_store::io::Disk::new(), self.findings.clone());
        let history = History::start(dir, config, clock, disk, findings, share)?;
        history.recorder().put(vec![started], None);
        Ok(Some(history))
    }

    /// Starts the record of counters in the state folder, if both are configured.
    fn open_past(&self, attached: &Attached) -> anyhow::Result<Option<Past>> {
        let counters = &self.options.config.counters;
        let Some(dir) = self.state_dir() else {
            return Ok(None);
        };
        if !counters.enabled || counters.past_days == 0 {
            return Ok(None);
        }
        let bounds = rsm_past::Bounds {
            days: counters.past_days,
            bytes: u64::from(counters.past_max_mb) << 20,
        };
        let folder = past::PastFolder {
            state_dir: dir.to_owned(),
            disk: rsm_store::io::Disk::new(),
            bounds,
        };
        let source = attached.counters.source();
        Past::start(folder, self.clock, self.findings.clone(), source).map(Some)
    }

    /// Creates the view for readers.
    pub(super) fn view(
        &self,
        attached: &Attached,
        history: Option<&History>,
        shared: Option<SharedView>,
        notify: &Notify,
    ) -> Arc<View> {
        let view = View::new(
            self.options.fabric.to_string(),
            attached.simulated.is_some(),
            Box::new(self.clock),
        );
        let shared = shared.map(|view| Box::new(view) as Box<dyn SharedStoreSource>);
        let recorder = history.map(History::recorder);
        let dropped_log_lines = self.options.dropped_log_lines.clone();
        let view = view.recorded_by(recorder).sharing(shared);
        let view = view.counting_log(dropped_log_lines);
        Arc::new(view.sending_to(Some(Box::new(notify.clone()))))
    }

    /// Starts the thread that publishes inventories of GPU hosts. `stored` holds the inventories of
    /// an earlier run.
    pub(super) fn gpu_hosts(
        &self,
        view: &Arc<View>,
        store_handle: &StoreHandle,
        stored: StoredGpus,
    ) -> anyhow::Result<Arc<GpuHosts>> {
        let max_age = self.options.config.gpu.max_age_s;
        let max_age = (max_age > 0).then_some(max_age.into());
        let sink = store_handle.gpu_sink();
        let gpu_hosts = Arc::new(GpuHosts::new(view.clone(), sink, stored, max_age));
        let inventory_sink = gpu_sink(self.inbox.clone());
        gpu_hosts::publish(&gpu_hosts, inventory_sink, self.findings.clone())
            .context("cannot start a thread for GPU hosts")?;
        Ok(gpu_hosts)
    }

    /// Starts the access control of gRPC and HTTP.
    pub(super) fn access(&self) -> anyhow::Result<Access> {
        let config = &self.options.config;
        let settings = (&config.api, &config.http);
        let access = Access::start(settings, self.state_dir(), self.findings.clone())?;
        let shared = settings::shared_store(config);
        Ok(access.presenting_to_etcd(shared.and_then(|shared| shared.tls.certificate)))
    }

    /// Starts the servers of gRPC and HTTP, and watches certificates.
    pub(super) async fn serve(
        &self,
        access: &Access,
        backend: rsm_api::Backend,
    ) -> anyhow::Result<Servers> {
        // The task ends with the runtime.
        tokio::spawn(access.clone().watch_certificates());
        let http = http::serve(&self.options.config, access, &backend, &self.findings).await?;
        let grpc = server::serve(&self.options, access, backend, &self.findings).await?;
        Ok(Servers { grpc, http })
    }
}

impl Attached {
    /// Sources of the API's answers. Must be called only once, because the simulated fabric goes
    /// into the result.
    pub(super) fn backend(
        &mut self,
        view: &Arc<View>,
        controller: &Arc<Controller>,
        gpu_hosts: &Arc<GpuHosts>,
        (history, past): (Option<&History>, Option<&Past>),
        host: ThisHost,
        limits: SymptomLimits,
    ) -> rsm_api::Backend {
        let simulation = self.simulated.take().map(|simulated| {
            Arc::new(Simulator::new(simulated.handle, simulated.netlist))
                as Arc<dyn rsm_api::Simulation>
        });
        let routing = Arc::new(RouteAnalyst::new(view.clone()));
        if let Some(past) = past {
            past.name_ports(view);
        }
        let counters = PublishedCounters::new(view.clone(), self.counters.source())
            .keeping(past.map(|past| past.source()));
        let counters: Arc<dyn rsm_api::CountersQueries> = Arc::new(counters);
        let reader = |history: &History| history.reader() as Arc<dyn rsm_api::History>;
        let judge = FabricJudge::new(
            view.clone(),
            self.counters.source(),
            history.map(reader),
            limits,
        )
        .keeping(past.map(|past| past.source()));
        let sa = Arc::new(PublishedSa::new(
            view.clone(),
            self.sa_handle.state_source(),
        ));
        rsm_api::Backend {
            subnet: view.clone(),
            control: controller.clone(),
            routing: routing.clone(),
            sa: Some(sa.clone()),
            counters: Some(counters.clone()),
            simulation,
            gpus: Some(gpu_hosts.clone()),
            history: history.map(reader),
            reports: Some(Arc::new(Reporter::new(
                view.clone(),
                routing,
                counters,
                gpu_hosts.clone(),
                sa,
                Arc::new(host),
            ))),
            judge: Some(Arc::new(judge)),
            actions: Some(view.clone()),
        }
    }
}
