//! The common input of the renderers of one host: its GPUs, each with the port to use.

use crate::Analysis;
use crate::fabric::FabricPort;
use crate::hints::GpuHint;
use crate::host::Host;
use crate::inventory::HcaPort;

use super::RenderError;

/// A GPU of a host, with the port that it uses.
pub(super) struct GpuWithPort<'a> {
    pub(super) hint: &'a GpuHint,
    pub(super) port: &'a HcaPort,
    /// The position of the port in the inventory.
    pub(super) at: usize,
    /// The port of the fabric; `None` if the port is not joined.
    pub(super) fabric: Option<&'a FabricPort>,
}

impl GpuWithPort<'_> {
    /// The port's name in the form that libraries use, `mlx5_0:1`.
    pub(super) fn name(&self) -> Result<String, RenderError> {
        device(self.port).map(|device| format!("{device}:{}", self.port.port))
    }
}

/// The device name of a port.
///
/// # Errors
/// [`RenderError::NoDeviceName`].
pub(super) fn device(port: &HcaPort) -> Result<&str, RenderError> {
    port.device
        .as_deref()
        .ok_or_else(|| RenderError::NoDeviceName(port.label()))
}

/// The position of a host, given by name, and the host.
///
/// # Errors
/// [`RenderError::UnknownHost`].
pub(super) fn find_host<'a>(
    analysis: &'a Analysis,
    host: &str,
) -> Result<(usize, &'a Host), RenderError> {
    let place = analysis
        .place(host)
        .ok_or_else(|| RenderError::UnknownHost(host.to_owned()))?;
    Ok((place, &analysis.hosts[place]))
}

/// The GPUs of a host by index, each with its port.
pub(super) fn by_gpu(
    analysis: &Analysis,
    place: usize,
) -> Result<Vec<GpuWithPort<'_>>, RenderError> {
    let host = &analysis.hosts[place];
    let chosen = |hint: &'_ GpuHint| -> Option<usize> { hint.port() };
    analysis.hints[place]
        .iter()
        .map(|hint| {
            let index = host.inventory.gpus[hint.gpu].index;
            let at = chosen(hint).ok_or(RenderError::NoPort(index))?;
            Ok(GpuWithPort {
                hint,
                port: &host.inventory.hca_ports[at],
                at,
                fabric: of_fabric(analysis, host, at),
            })
        })
        .collect()
}

/// The compute ports that GPUs use, each with its rail, sorted by rail and then by slot.
pub(super) fn by_rail(analysis: &Analysis, place: usize) -> Vec<(usize, Option<u16>)> {
    let host = &analysis.hosts[place];
    let mut ports: Vec<(usize, Option<u16>)> = Vec::new();
    for hint in &analysis.hints[place] {
        for (choice, &port) in hint.ports.iter().enumerate() {
            let rail = match choice {
                0 => hint.rail,
                _ => rail_of(analysis, place, port),
            };
            if !ports.iter().any(|&(seen, _)| seen == port) {
                ports.push((port, rail));
            }
        }
    }
    ports.sort_by_key(|&(port, rail)| (rail.unwrap_or(u16::MAX), host.slot(port)));
    ports
}

/// The rail of a port: the number of its slot if the port reaches the slot's leaf, else the first
/// rail at the port's leaf.
fn rail_of(analysis: &Analysis, place: usize, port: usize) -> Option<u16> {
    let host = &analysis.hosts[place];
    let leaf = of_fabric(analysis, host, port)?.leaf;
    let slot = host.slot(port)?;
    match analysis.rails.rail(place, slot) {
        Some(rail) if rail.leaf == leaf => u16::try_from(slot).ok(),
        _ => analysis.rails.rails_at(place, leaf).next(),
    }
}

/// The port of the fabric that a host's port is; `None` if the port is not joined.
pub(super) fn of_fabric<'a>(
    analysis: &'a Analysis,
    host: &Host,
    port: usize,
) -> Option<&'a FabricPort> {
    Some(analysis.fabric.as_ref()?.port(host.joined[port].port()?))
}

/// The plane of a port: the connected part of the fabric that contains its leaf.
pub(super) fn plane(analysis: &Analysis, port: &FabricPort) -> usize {
    let topology = analysis.fabric.as_ref().map(|fabric| &fabric.topology);
    topology.map_or(0, |topology| topology.component_of(port.leaf))
}
