//! Which port of a host talks to which port of each other host.

use std::fmt::Write as _;

use super::RenderError;
use crate::Analysis;
use crate::hints::GpuHint;
use crate::inventory::HcaPort;

/// For each other host and each GPU that both hosts have: the port of the GPU here, and that of the
/// GPU with the same index there, as `UCX_NET_DEVICES` takes them. A library on one host cannot
/// know the other end: it sees neither the other host's devices nor the cables.
///
/// Lines of five fields, separated by tabs: host, GPU, port here, port there, and `yes` if both are
/// on one rail, `no` if not, `-` if a rail is unknown. A GPU without a port that works, on either
/// side, has no line.
///
/// # Errors
/// No such host, no fabric, or a device without a name.
pub fn peer_map(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    analysis.joined()?;
    let unknown = || RenderError::UnknownHost(host.to_owned());
    let here = analysis.place(host).ok_or_else(unknown)?;
    let mut out = "# host\tgpu\tport here\tport there\tone rail\n".to_owned();
    for there in (0..analysis.hosts.len()).filter(|&there| there != here) {
        for hint in &analysis.hints[here] {
            let index = analysis.hosts[here].inventory.gpus[hint.gpu].index;
            let peer = analysis.hosts[there].inventory.gpu_at(index);
            let peer = peer.and_then(|gpu| analysis.hints[there].get(gpu));
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
            let _ = writeln!(out, "{name}\t{index}\t{own}\t{other}\t{same}");
        }
    }
    Ok(out)
}

/// The first port of a hint, if it is in the fabric.
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
