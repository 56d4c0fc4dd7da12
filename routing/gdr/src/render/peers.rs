//! Writes which port of a host communicates with which port of each other host.

use std::fmt::Write as _;

use super::RenderError;
use super::ports::find_host;
use crate::Analysis;
use crate::hints::GpuHint;
use crate::inventory::HcaPort;

/// Writes a line for each other host and each GPU index that both hosts have. A library on one host
/// cannot know the other end: it sees neither the other host's devices nor the cables.
///
/// Each line has six fields, separated by tabs:
/// 1. the other host;
/// 2. the index of the GPU;
/// 3. the port of the GPU here, in the form of `UCX_NET_DEVICES`;
/// 4. the port of the GPU with the same index there;
/// 5. `yes` if both ports are on one rail, `no` if not, `-` if a rail is unknown;
/// 6. the index of the GPU there on this GPU's rail, `-` for none. The index differs from the
///    second field if a host numbers its GPUs in another order.
///
/// A GPU without a working port at either end has no line.
///
/// # Errors
/// The host or the fabric is unknown, or a device has no name.
pub fn peer_map(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (here, _) = find_host(analysis, host)?;
    let others = (0..analysis.hosts.len()).filter(|&there| there != here);
    lines(analysis, here, others)
}

/// Writes the lines of [`peer_map`] for one other host.
///
/// # Errors
/// A host or the fabric is unknown, or a device has no name.
pub fn host_pairs(analysis: &Analysis, host: &str, peer: &str) -> Result<String, RenderError> {
    let (here, _) = find_host(analysis, host)?;
    let (there, _) = find_host(analysis, peer)?;
    lines(analysis, here, std::iter::once(there))
}

/// The header line, and the lines of the host at `here` with each of `others`.
fn lines(
    analysis: &Analysis,
    here: usize,
    others: impl Iterator<Item = usize>,
) -> Result<String, RenderError> {
    analysis.joined()?;
    let mut out = "# host\tgpu\tport here\tport there\tone rail\tgpu on the rail\n".to_owned();
    for there in others {
        for hint in &analysis.hints[here] {
            let index = analysis.hosts[here].inventory.gpus[hint.gpu].index;
            let peer = analysis.hosts[there]
                .inventory
                .gpu_at(index)
                .and_then(|gpu| analysis.hints[there].get(gpu));
            let (Some(own), Some(other)) = (
                port(analysis, here, Some(hint))?,
                port(analysis, there, peer)?,
            ) else {
                continue;
            };
            let same = match (hint.rail, peer.and_then(|peer| peer.rail)) {
                (Some(own), Some(other)) if own == other => "yes",
                (Some(_), Some(_)) => "no",
                _ => "-",
            };
            let name = &analysis.hosts[there].name;
            let partner = on_rail(analysis, there, hint.rail, peer)
                .map_or_else(|| "-".to_owned(), |index| index.to_string());
            let _ = writeln!(out, "{name}\t{index}\t{own}\t{other}\t{same}\t{partner}");
        }
    }
    Ok(out)
}

/// The index of a GPU of a host whose port is on a rail: the GPU `preferred` if its port is, else
/// the first such GPU. `None` if no GPU has a port on the rail.
fn on_rail(
    analysis: &Analysis,
    host: usize,
    rail: Option<u16>,
    preferred: Option<&GpuHint>,
) -> Option<u16> {
    let rail = rail?;
    let works = |hint: &&GpuHint| {
        let joined = |port: usize| analysis.hosts[host].joined[port].port();
        hint.rail == Some(rail) && hint.port().and_then(joined).is_some()
    };
    let hints = analysis.hints[host].iter();
    let hint = preferred.into_iter().chain(hints).find(works)?;
    Some(analysis.hosts[host].inventory.gpus[hint.gpu].index)
}

/// The first port of a hint as `device:port`; `None` unless it is in the fabric.
fn port(
    analysis: &Analysis,
    host: usize,
    hint: Option<&GpuHint>,
) -> Result<Option<String>, RenderError> {
    let host = &analysis.hosts[host];
    let joined = |port: &usize| host.joined[*port].port().is_some();
    let Some(port) = hint.and_then(GpuHint::port).filter(joined) else {
        return Ok(None);
    };
    let HcaPort {
        device, port, pci, ..
    } = &host.inventory.hca_ports[port];
    let nameless = || {
        let place = pci.map_or_else(|| host.name.clone(), |pci| pci.to_string());
        RenderError::NoDeviceName(place)
    };
    let device = device.as_ref().ok_or_else(nameless)?;
    Ok(Some(format!("{device}:{port}")))
}
