//! `rsm sim serve`: runs simulated hardware without a subnet manager, for programs that start with
//! the preloaded library.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rsm_api::{Backend, Listen, Server};
use rsm_routing::ibnetdiscover::Strictness;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Sim, live};
use rsm_sim_host::server;
use rsm_state::Command;
use rsm_view::publish::{Controller, RouteAnalyst, View};
use tokio::sync::{mpsc, oneshot};

use super::attachment::{SEED, default_attachment};
use super::clock::Clock;
use super::signals::{HangUps, Signal, Signals};
use super::simulator::Simulator;
use crate::offline;

/// Time between two checks that the fabric is still served.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Simulated fabric and its addresses.
pub struct FabricServer {
    /// File in ibnetdiscover's or ibsim's format, or a generator's specification.
    pub fabric: String,
    /// Treatment of lines of the file that cannot be read.
    pub strictness: Strictness,
    /// Socket to which the preloaded library connects.
    pub socket: PathBuf,
    /// Address of the gRPC Simulation service; `None` disables the service.
    pub listen: Option<SocketAddr>,
}

/// Simulates a fabric for other programs until a signal stops it. Passes to `ready` a line for the
/// terminal as soon as programs can start.
///
/// # Errors
/// The fabric does not exist, its socket or address cannot be used, or the simulation failed.
pub async fn serve_fabric(
    options: FabricServer,
    ready: impl FnOnce(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let fabric = &options.fabric;
    let spec = fabric.strip_prefix("sim:").unwrap_or(fabric);
    let (netlist, config) = offline::simulated_as(spec, options.strictness)?;
    let (node, _) = default_attachment(&netlist)
        .with_context(|| format!("no host in {spec} has a cable to reach the fabric through"))?;
    let mut signals = Signals::listen(HangUps::listen()?)?;
    let sim = Sim::new(&netlist, config, SEED)?;
    let (switches, hosts) = (sim.count(NodeKind::Switch), sim.count(NodeKind::Ca));
    let handle = live::spawn(sim)?;
    let socket = options.socket;
    let server = server::serve(
        handle.clone(),
        &server::HostServerOptions {
            socket: socket.clone(),
            node,
        },
    )?;
    let simulator = Simulator::new(handle, netlist);
    let api = serve_api(options.listen, simulator, spec).await?;
    let mut line = format!(
        "{spec}: {switches} switches and {hosts} channel adapters at {}; programs run at {node} unless --node names another node",
        socket.display(),
    );
    if let Some((address, _)) = &api {
        line.push_str(&format!("; rsmctl --server http://{address} sim"));
    }
    ready(&line)?;
    loop {
        tokio::select! {
            signal = signals.next() => if signal == Signal::Stop {
                break;
            },
            () = tokio::time::sleep(CHECK_INTERVAL) => {
                anyhow::ensure!(server.is_running(), "the simulated fabric has stopped");
            }
        }
    }
    // Dropping the sender stops the API.
    drop(api);
    drop(server);
    Ok(())
}

/// Serves the Simulation API. Returns its address, and a sender that stops the API when dropped.
/// Without a subnet manager, the other services show an unswept subnet.
async fn serve_api(
    address: Option<SocketAddr>,
    simulator: Simulator,
    spec: &str,
) -> anyhow::Result<Option<(SocketAddr, oneshot::Sender<()>)>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let view = Arc::new(View::new(
        format!("sim:{spec}"),
        true,
        Box::new(Clock::start()),
    ));
    let (unserved, _) = mpsc::channel::<Command>(1);
    let backend = Backend {
        subnet: view.clone(),
        control: Arc::new(Controller::new(unserved, view.clone())),
        routing: Arc::new(RouteAnalyst::new(view)),
        sa: None,
        counters: None,
        simulation: Some(Arc::new(simulator)),
        gpus: None,
        history: None,
        reports: None,
        judge: None,
        actions: None,
    };
    let bound = Server::bind(Listen {
        socket: None,
        tcp: Some(address),
        insecure_admin: true,
        tls: None,
    });
    let api = bound.await.context("cannot serve the API")?;
    let address = api.tcp().unwrap_or(address);
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let until = async move {
            // An error means that the sender was dropped, which also stops the server.
            let _ = stopped.await;
        };
        if let Err(error) = api.run(backend, until).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the API is no longer served"
            );
        }
    });
    Ok(Some((address, stop)))
}
