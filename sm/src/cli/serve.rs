//! `rsm` without a subcommand: runs the daemon.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use rsm_config::{Config, NotifyConfig};
use rsm_store::StoreFabric;
use rsm_view::publish::dry_run::WOULD_SET;
use rsm_view::publish::summary::OnceReport;

use super::log::Log;
use super::output::{print, print_json};
use super::{Detail, Format, ServeArgs, heap};
use crate::daemon::{self, DaemonOptions, DryRunOptions};

/// Seconds between two readings of an adapter's counters on a simulated fabric: the interval of the
/// ports of switches.
const SIMULATED_ADAPTERS_S: u32 = 30;

/// Runs the subnet manager, or only a single bring-up or a dry run.
pub(super) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    heap::limit_arenas();
    let shows_progress = std::io::stderr().is_terminal() && args.log.is_none() && !args.log_json;
    let (mut config, findings) = match &args.config {
        Some(file) => {
            let loaded = Config::load(file)?;
            (loaded.config, loaded.findings)
        }
        None => (Config::default(), Vec::new()),
    };
    let store_fabric = args.fabric.store_fabric();
    let overrides = overrides(&args, store_fabric)?;
    overrides(&mut config);
    let is_short = args.once || args.dry_run.is_some();
    let filter = args.log.as_deref();
    let filter = filter.unwrap_or(if is_short { "warn" } else { "info" });
    let log = Log::start(filter, args.log_json, &config.log)?;
    daemon::log_findings(&findings);
    if let Some(detail) = args.dry_run {
        let options = DryRunOptions {
            fabric: args.fabric,
            config,
            trace: args.trace,
            accept_credit_loops: args.accept_credit_loops,
        };
        return dry_run(options, detail, args.format);
    }
    let stateless = is_stateless(&args, store_fabric);
    if store_fabric == StoreFabric::Simulation && args.config.is_some() {
        let kept = if stateless {
            "nothing is kept in"
        } else {
            "the state is in"
        };
        tracing::info!(
            "the fabric is simulated: {kept} {}; state.dir, log.file, dump.dir, section [notify] and api.socket of the configuration are the \
             site's and not used (--state-dir, --dump-dir and --socket are), and store.prefix is {}",
            config.state.dir.display(),
            config.store.prefix
        );
    }
    let (once, format) = (args.once, args.format);
    let options = DaemonOptions {
        fabric: args.fabric,
        store_fabric,
        config,
        config_file: args.config,
        overrides,
        socket_dir: args.state_dir,
        stateless,
        once,
        trace: args.trace,
        accept_credit_loops: args.accept_credit_loops,
        progress: shows_progress,
        dropped_log_lines: log.dropped(),
    };
    let last = runtime()?.block_on(daemon::run(options))?;
    if !once {
        return Ok(ExitCode::SUCCESS);
    }
    let snapshot = last.context("it was stopped before it had seen the subnet")?;
    let report = OnceReport::of(&snapshot);
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(|out| write!(out, "{}", report.text()))?,
    }
    Ok(if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Starts the runtime of the daemon.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Prints the Sets that a run would send.
fn dry_run(options: DryRunOptions, detail: Detail, format: Format) -> anyhow::Result<ExitCode> {
    let report = runtime()?.block_on(daemon::dry_run(options))?;
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(|out| write!(out, "{}", report.text(detail == Detail::Full)))?,
    }
    Ok(match report.would_set {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(WOULD_SET),
    })
}

/// Whether rsm keeps no state on disk. Without `--state-dir`, it keeps no state in two cases: for a
/// simulated fabric, even with the site's configuration, because the simulation's state is not the
/// site's; and for a single pass without a configuration.
fn is_stateless(args: &ServeArgs, store_fabric: StoreFabric) -> bool {
    let is_simulated = store_fabric == StoreFabric::Simulation;
    args.state_dir.is_none() && (is_simulated || args.once && args.config.is_none())
}

/// Removes from a site's configuration everything that a simulation would write to: log, dumps,
/// socket and receivers of events; keys in etcd get another prefix. The command line may name
/// replacements.
fn drop_site_targets(config: &mut Config) {
    config.log.file = None;
    config.dump.dir = None;
    config.api.socket = None;
    config.notify = NotifyConfig::default();
    config.store.prefix = format!("{}/simulation", config.store.prefix.trim_end_matches('/'));
}

/// Turns on the counters of a simulated fabric, and reads adapters often, so that a trial without a
/// configuration shows errors, traffic and firmware.
fn enable_counters(config: &mut Config) {
    config.counters.enabled = true;
    config.counters.adapters_interval_s = SIMULATED_ADAPTERS_S;
}

/// Parses the address of an option: `None` without the option, `Some(None)` for `off`.
fn address(option: Option<&str>) -> anyhow::Result<Option<Option<SocketAddr>>> {
    let Some(text) = option else {
        return Ok(None);
    };
    if text == "off" {
        return Ok(Some(None));
    }
    let address = text.parse().with_context(|| {
        format!("`{text}` is no address to listen on: expected ADDRESS:PORT, or off")
    })?;
    Ok(Some(Some(address)))
}

/// Settings from the command line, which override the configuration file.
fn overrides(args: &ServeArgs, store_fabric: StoreFabric) -> anyhow::Result<daemon::Overrides> {
    let listen = address(args.listen.as_deref())?;
    let http = address(args.http.as_deref())?;
    let (state_dir, socket) = (args.state_dir.clone(), args.socket.clone());
    let (dump_dir, partitions) = (args.dump_dir.clone(), args.partitions.clone());
    let (engine, insecure_admin) = (args.engine, args.insecure_admin);
    let (webhook, syslog, otlp) = (args.webhook.clone(), args.syslog.clone(), args.otlp.clone());
    let is_trial = args.config.is_none() && !args.once;
    Ok(Box::new(move |config: &mut Config| {
        if store_fabric == StoreFabric::Simulation {
            drop_site_targets(config);
            if is_trial {
                enable_counters(config);
            }
        }
        if let Some(listen) = listen {
            config.api.listen = listen;
        }
        if let Some(http) = http {
            config.http.listen = http;
        }
        if let Some(dir) = &state_dir {
            config.state.dir.clone_from(dir);
        }
        if let Some(path) = &socket {
            config.api.socket = Some(path.clone());
        }
        if let Some(dir) = &dump_dir {
            config.dump.dir = Some(dir.clone());
        }
        if let Some(file) = &partitions {
            config.partitions.file = Some(file.clone());
            config.partitions.file_may_be_missing = false;
        }
        let notify = &mut config.notify;
        notify.webhook_url = webhook.clone().or(notify.webhook_url.take());
        notify.syslog = syslog.clone().or(notify.syslog.take());
        notify.otlp_endpoint = otlp.clone().or(notify.otlp_endpoint.take());
        if let Some(engine) = engine {
            config.routing.engine = engine;
        }
        config.api.insecure_admin |= insecure_admin;
    }))
}
