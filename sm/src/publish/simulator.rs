//! Operating a simulated fabric.

use rsm_api::model::{PortId, Selector, SimulationAction};
use rsm_api::resolve::{NameLookup, resolve_node};
use rsm_api::{BoxFuture, LookupError, Simulation, SimulationError};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_mad::wire::header::AttrId;
use rsm_mad::wire::perf::Counter;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::live::SimHandle;
use rsm_sim::{Sim, SimError};

/// Operates a simulated fabric that runs in real time. Nodes are named as the netlist has them,
/// powered or not.
pub struct Simulator {
    handle: SimHandle,
    netlist: Netlist,
}

impl Simulator {
    /// Operates through `handle` the simulation that was made of `netlist`.
    pub fn new(handle: SimHandle, netlist: Netlist) -> Simulator {
        Simulator { handle, netlist }
    }

    /// Runs `operation` on the simulation's thread, which answers when it has caught up with the
    /// clock; that may take a moment.
    async fn with<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Sim) -> R + Send + 'static,
    ) -> Result<R, SimulationError> {
        let handle = self.handle.clone();
        match tokio::task::spawn_blocking(move || handle.with(operation)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) | Err(_) => Err(SimulationError::Ended),
        }
    }

    /// The operation, with its names looked up.
    fn operation(&self, action: SimulationAction) -> Result<Operation, SimulationError> {
        let floor = Floor(&self.netlist);
        let node = |selector: &Selector| resolve_node(&floor, selector);
        Ok(match action {
            SimulationAction::Unlink { node: name, port } => {
                let end = floor.cabled(node(&name)?, port)?;
                Box::new(move |sim| sim.unlink(end.node, end.number))
            }
            SimulationAction::Relink { node: name, port } => {
                let end = floor.cabled(node(&name)?, port)?;
                Box::new(move |sim| sim.relink(end.node, end.number))
            }
            SimulationAction::SwapCables {
                node: name,
                port,
                other_node,
                other_port,
            } => {
                let end = floor.cabled(node(&name)?, port)?;
                let other = floor.cabled(node(&other_node)?, other_port)?;
                Box::new(move |sim| {
                    sim.swap_cables((end.node, end.number), (other.node, other.number))
                })
            }
            SimulationAction::Reboot { node: name } => {
                let guid = node(&name)?;
                Box::new(move |sim| sim.reboot(guid))
            }
            SimulationAction::PowerOff { node: name } => {
                let guid = node(&name)?;
                Box::new(move |sim| sim.power_off(guid))
            }
            SimulationAction::PowerOn { node: name } => {
                let guid = node(&name)?;
                Box::new(move |sim| sim.power_on(guid))
            }
            SimulationAction::SetLoss { rate, attribute } => Box::new(move |sim| match attribute {
                Some(id) => sim.set_attribute_loss(AttrId(id), rate),
                None => sim.set_loss(rate),
            }),
            SimulationAction::SetErrors {
                node: name,
                port,
                counter,
                per_second,
            } => {
                let (node, counter) = (node(&name)?, counter_by_name(counter)?);
                Box::new(move |sim| sim.set_errors(node, port, counter, per_second))
            }
        })
    }
}

fn counter_by_name(name: String) -> Result<Counter, SimulationError> {
    let mut all = Counter::ALL.into_iter();
    let counter = all.find(|counter| counter.name().eq_ignore_ascii_case(&name));
    counter.ok_or_else(|| SimulationError::NoCounter {
        name,
        expected: Counter::ALL.map(Counter::name).to_vec(),
    })
}

type Operation = Box<dyn FnOnce(&mut Sim) -> Result<(), SimError> + Send>;

impl Simulation for Simulator {
    fn act(&self, action: SimulationAction) -> BoxFuture<'_, Result<(), SimulationError>> {
        Box::pin(async move {
            let brings_links_up = brings_links_up(&action);
            let operation = self.operation(action)?;
            let training = self
                .with(move |sim| operation(sim).map(|()| sim.config().link_training))
                .await?
                .map_err(refused)?;
            if brings_links_up {
                tokio::time::sleep(training).await;
                // By the answer to this the fabric has caught up with the clock: links are up.
                self.with(|_| ()).await?;
            }
            Ok(())
        })
    }
}

/// Whether links train after the action at once. A reboot takes longer than a caller waits.
fn brings_links_up(action: &SimulationAction) -> bool {
    matches!(
        action,
        SimulationAction::Relink { .. }
            | SimulationAction::SwapCables { .. }
            | SimulationAction::PowerOn { .. }
    )
}

/// Converts an error of the simulation, whose fabric may differ from the netlist by now.
fn refused(error: SimError) -> SimulationError {
    match error {
        SimError::NotCabled { guid, port } => SimulationError::NoCable {
            port: PortId {
                node: guid,
                number: port,
            },
        },
        SimError::NoSuchPort { guid, port, .. } => LookupError::NoSuchPort {
            port: PortId {
                node: guid,
                number: port,
            },
        }
        .into(),
        SimError::NoSuchNode { guid } => LookupError::NotFound {
            selector: guid.to_string(),
        }
        .into(),
        other => {
            tracing::error!(error = %other, "the simulated fabric refused an operation");
            SimulationError::Ended
        }
    }
}

/// Looks names up in the netlist.
struct Floor<'a>(&'a Netlist);

impl Floor<'_> {
    fn cabled(&self, node: Guid, number: PortNum) -> Result<PortId, SimulationError> {
        let port = PortId { node, number };
        if !self.has_port(port) {
            return Err(LookupError::NoSuchPort { port }.into());
        }
        let index = self.0.by_guid(node);
        index
            .and_then(|index| self.0.cable((index, number)))
            .map(|_| port)
            .ok_or(SimulationError::NoCable { port })
    }
}

impl NameLookup for Floor<'_> {
    fn has_node(&self, guid: Guid) -> bool {
        self.0.by_guid(guid).is_some()
    }

    fn port_of_guid(&self, guid: Guid) -> Option<PortId> {
        let (index, number) = self.0.by_port_guid(guid)?;
        Some(PortId {
            node: self.0.nodes()[index].guid,
            number,
        })
    }

    /// The subnet manager assigns LIDs; a netlist has none.
    fn port_of_lid(&self, _: Lid) -> Option<PortId> {
        None
    }

    /// The subnet manager sets the prefix of GIDs as well.
    fn port_of_gid(&self, _: Gid) -> Option<PortId> {
        None
    }

    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
        let nodes = self.0.nodes().iter();
        let mut guids: Vec<Guid> = nodes
            .filter(|node| is_meant(&node.name()))
            .map(|node| node.guid)
            .collect();
        guids.sort_unstable();
        guids
    }

    fn has_port(&self, port: PortId) -> bool {
        self.0.by_guid(port.node).is_some_and(|index| {
            let node = &self.0.nodes()[index];
            port.number.0 <= node.num_ports
                && (port.number != PortNum::ZERO || node.kind == NodeKind::Switch)
        })
    }

    /// Any port with an address of its own may hold a LID.
    fn end_ports(&self, node: Guid) -> Vec<PortNum> {
        let index = self.0.by_guid(node);
        index.map_or_else(Vec::new, |index| {
            self.0.nodes()[index].end_ports().collect()
        })
    }
}
