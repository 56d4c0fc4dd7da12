//! Operates a simulated fabric.

#[cfg(test)]
mod tests;

use rsm_api::model::{PortId, Selector, SimulationAction};
use rsm_api::resolve::{NameLookup, resolve_host_or_part, resolve_node_or_port};
use rsm_api::{BoxFuture, LookupError, Simulation, SimulationError};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_mad::wire::header::AttrId;
use rsm_mad::wire::perf::Counter;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::live::SimHandle;
use rsm_sim::{Sim, SimError};

/// Operates a simulated fabric that runs in real time. Names of nodes are looked up in the netlist,
/// so that an action can name a node without power.
pub(super) struct Simulator {
    handle: SimHandle,
    netlist: Netlist,
}

impl Simulator {
    /// Creates the operator of the simulation behind `handle`, which was made from `netlist`.
    pub(super) fn new(handle: SimHandle, netlist: Netlist) -> Simulator {
        Simulator { handle, netlist }
    }

    /// Runs `operation` on the simulation's thread, which answers after it has caught up with the
    /// clock. The answer may take a moment.
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

    /// Converts an action to an operation, and resolves its names.
    async fn operation(&self, action: SimulationAction) -> Result<SimOperation, SimulationError> {
        let names = SimNames {
            netlist: &self.netlist,
            addresses: self.addresses(&action).await?,
        };
        let nodes = |selector: &Selector| resolve_host_or_part(&names, selector);
        Ok(match action {
            SimulationAction::Unlink { node, port } => {
                let end = names.cabled(&node, port)?;
                Box::new(move |sim| sim.unlink(end.node, end.number))
            }
            SimulationAction::Relink { node, port } => {
                let end = names.cabled(&node, port)?;
                Box::new(move |sim| sim.relink(end.node, end.number))
            }
            SimulationAction::SwapCables {
                node,
                port,
                other_node,
                other_port,
            } => {
                let end = names.cabled(&node, port)?;
                let other = names.cabled(&other_node, other_port)?;
                Box::new(move |sim| {
                    sim.swap_cables((end.node, end.number), (other.node, other.number))
                })
            }
            SimulationAction::Reboot { node: name } => on_each(nodes(&name)?, Sim::reboot),
            SimulationAction::PowerOff { node: name } => on_each(nodes(&name)?, Sim::power_off),
            SimulationAction::PowerOn { node: name } => on_each(nodes(&name)?, Sim::power_on),
            SimulationAction::SetLoss { rate, attribute } => Box::new(move |sim| match attribute {
                Some(id) => sim.set_attribute_loss(AttrId(id), rate),
                None => sim.set_loss(rate),
            }),
            SimulationAction::SetErrors {
                node,
                port,
                counter,
                per_second,
            } => {
                let (at, counter) = (names.port(&node, port)?, counter_by_name(counter)?);
                Box::new(move |sim| sim.set_errors(at.node, at.number, counter, per_second))
            }
        })
    }

    /// Finds the ports that an action names by LID, port GUID or GID. A netlist contains no LIDs,
    /// because the subnet manager assigns them, and lacks some port GUIDs.
    async fn addresses(&self, action: &SimulationAction) -> Result<Addresses, SimulationError> {
        let (mut lids, mut guids, mut has_gid) = (Vec::new(), Vec::new(), false);
        for name in names(action) {
            match name {
                Selector::Lid(lid) => lids.push(*lid),
                Selector::Guid { guid, .. } if self.netlist.by_guid(*guid).is_none() => {
                    guids.push(*guid);
                }
                Selector::Gid(gid) => {
                    guids.push(gid.guid());
                    has_gid = true;
                }
                Selector::Guid { .. } | Selector::Description(_) => {}
            }
        }
        if lids.is_empty() && guids.is_empty() {
            return Ok(Addresses::default());
        }
        let find = move |sim: &mut Sim| {
            let port = |(node, number)| PortId { node, number };
            let by_lid = lids.into_iter();
            let by_lid = by_lid.filter_map(|lid| Some((lid, port(sim.holder(lid)?))));
            let by_lid = by_lid.collect();
            let by_guid = guids.into_iter();
            let by_guid = by_guid.filter_map(|guid| Some((guid, port(sim.port_with(guid)?))));
            let by_guid = by_guid.collect();
            // The subnet manager sets the same prefix at all ports.
            let prefix = has_gid.then(|| sim.gid_prefix()).flatten();
            Addresses {
                by_lid,
                by_guid,
                prefix,
            }
        };
        self.with(find).await
    }
}

/// Acts on each node, up to the first failure.
fn on_each(
    nodes: Vec<(Guid, Option<PortNum>)>,
    act: fn(&mut Sim, Guid) -> Result<(), SimError>,
) -> SimOperation {
    Box::new(move |sim| nodes.into_iter().try_for_each(|(node, _)| act(sim, node)))
}

/// Names of nodes and ports in an action.
fn names(action: &SimulationAction) -> Vec<&Selector> {
    match action {
        SimulationAction::SwapCables {
            node, other_node, ..
        } => vec![node, other_node],
        SimulationAction::Unlink { node, .. }
        | SimulationAction::Relink { node, .. }
        | SimulationAction::Reboot { node }
        | SimulationAction::PowerOff { node }
        | SimulationAction::PowerOn { node }
        | SimulationAction::SetErrors { node, .. } => vec![node],
        SimulationAction::SetLoss { .. } => Vec::new(),
    }
}

/// Addresses of ports that an action names.
#[derive(Default)]
struct Addresses {
    /// LIDs, each with the port that holds it.
    by_lid: Vec<(Lid, PortId)>,
    /// GUIDs of ports, each with its port.
    by_guid: Vec<(Guid, PortId)>,
    /// GidPrefix of the subnet; `None` if no name needs it.
    prefix: Option<u64>,
}

/// Finds a counter by its name, in any case.
fn counter_by_name(name: String) -> Result<Counter, SimulationError> {
    let mut all = Counter::ALL.into_iter();
    let counter = all.find(|counter| counter.name().eq_ignore_ascii_case(&name));
    counter.ok_or_else(|| SimulationError::NoCounter {
        name,
        expected: Counter::ALL.map(Counter::name).to_vec(),
    })
}

/// Operation on the simulation.
type SimOperation = Box<dyn FnOnce(&mut Sim) -> Result<(), SimError> + Send>;

impl Simulation for Simulator {
    fn act(&self, action: SimulationAction) -> BoxFuture<'_, Result<(), SimulationError>> {
        Box::pin(async move {
            let brings_links_up = brings_links_up(&action);
            let operation = self.operation(action).await?;
            let training = self
                .with(move |sim| operation(sim).map(|()| sim.config().link_training))
                .await?
                .map_err(simulation_error)?;
            if brings_links_up {
                tokio::time::sleep(training).await;
                // The answer shows that the fabric has caught up with the clock, and that links are
                // up.
                self.with(|_| ()).await?;
            }
            Ok(())
        })
    }
}

/// Whether links train immediately after the action. A reboot takes longer than a caller waits.
fn brings_links_up(action: &SimulationAction) -> bool {
    matches!(
        action,
        SimulationAction::Relink { .. }
            | SimulationAction::SwapCables { .. }
            | SimulationAction::PowerOn { .. }
    )
}

/// Converts an error of the simulation. An operation can fail although its names were found in the
/// netlist, because the fabric may have changed since.
fn simulation_error(error: SimError) -> SimulationError {
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

/// Resolves names in the netlist, and addresses in the fabric.
struct SimNames<'a> {
    netlist: &'a Netlist,
    addresses: Addresses,
}

impl SimNames<'_> {
    /// Finds the port that `name` and `number` identify. An adapter with one port needs no number.
    fn port(&self, name: &Selector, number: Option<PortNum>) -> Result<PortId, SimulationError> {
        let (node, named) = resolve_node_or_port(self, name)?;
        // The LID and the port GUID of a switch belong to its port 0.
        let named = named.filter(|&named| named != PortNum::ZERO);
        let only = || match *self.end_ports(node).as_slice() {
            [only] if only != PortNum::ZERO => Some(only),
            _ => None,
        };
        let number = match (named, number) {
            (Some(named), Some(number)) if named != number => {
                return Err(SimulationError::TwoPorts {
                    name: name.to_string(),
                    named,
                    number,
                });
            }
            (named, number) => number.or(named).or_else(only),
        };
        let number = number.ok_or_else(|| SimulationError::NoPort {
            name: name.to_string(),
        })?;
        let port = PortId { node, number };
        if !self.has_port(port) {
            return Err(LookupError::NoSuchPort { port }.into());
        }
        Ok(port)
    }

    /// Finds a port as [`SimNames::port`] does. Fails if the port has no cable.
    fn cabled(&self, name: &Selector, number: Option<PortNum>) -> Result<PortId, SimulationError> {
        let port = self.port(name, number)?;
        let index = self.netlist.by_guid(port.node);
        index
            .and_then(|index| self.netlist.cable((index, port.number)))
            .map(|_| port)
            .ok_or(SimulationError::NoCable { port })
    }
}

impl NameLookup for SimNames<'_> {
    fn has_node(&self, guid: Guid) -> bool {
        self.netlist.by_guid(guid).is_some()
    }

    fn port_of_guid(&self, guid: Guid) -> Option<PortId> {
        let mut by_guid = self.addresses.by_guid.iter();
        let named = by_guid.find(|&&(of, _)| of == guid).map(|&(_, at)| at);
        named.or_else(|| {
            let (index, number) = self.netlist.by_port_guid(guid)?;
            let node = self.netlist.nodes()[index].guid;
            Some(PortId { node, number })
        })
    }

    fn port_of_lid(&self, lid: Lid) -> Option<PortId> {
        let by_lid = self.addresses.by_lid.iter();
        by_lid.copied().find(|&(of, _)| of == lid).map(|(_, at)| at)
    }

    fn port_of_gid(&self, gid: Gid) -> Option<PortId> {
        let is_here =
            gid.prefix() == Gid::LINK_LOCAL || Some(gid.prefix()) == self.addresses.prefix;
        is_here.then(|| self.port_of_guid(gid.guid())).flatten()
    }

    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
        let nodes = self.netlist.nodes().iter();
        let mut guids: Vec<Guid> = nodes
            .filter(|node| is_meant(&node.name()))
            .map(|node| node.guid)
            .collect();
        guids.sort_unstable();
        guids
    }

    fn has_port(&self, port: PortId) -> bool {
        self.netlist.by_guid(port.node).is_some_and(|index| {
            let node = &self.netlist.nodes()[index];
            port.number.0 <= node.num_ports
                && (port.number != PortNum::ZERO || node.kind == NodeKind::Switch)
        })
    }

    fn cable_ports(&self, node: Guid) -> Vec<(PortNum, bool)> {
        let Some(index) = self.netlist.by_guid(node) else {
            return Vec::new();
        };
        let numbers = (1..=self.netlist.nodes()[index].num_ports).map(PortNum);
        numbers
            .map(|number| (number, self.netlist.cable((index, number)).is_some()))
            .collect()
    }

    /// Ports of a node that may have an address.
    fn end_ports(&self, node: Guid) -> Vec<PortNum> {
        let index = self.netlist.by_guid(node);
        index.map_or_else(Vec::new, |index| {
            self.netlist.nodes()[index].end_ports().collect()
        })
    }
}
