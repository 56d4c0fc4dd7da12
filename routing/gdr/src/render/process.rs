//! Files for single processes: UCX, NVSHMEM, Mooncake.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::RenderError;
use super::ports::{by_gpu, device, find};
use crate::Analysis;

/// UCX's environment for each process of a host, as a shell script to be sourced: the k-th local
/// process uses GPU k.
///
/// Path bits are stated where the port at the other end of a path can have them: UCX is the one
/// library that uses the LIDs of an LMC.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn ucx_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find(analysis, host)?;
    let mut out = "case \"${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${LOCAL_RANK:-0}}}\" in\n"
        .to_owned();
    for chosen in by_gpu(analysis, place)? {
        let index = entry.inventory.gpus[chosen.hint.gpu].index;
        let mut devices = Vec::with_capacity(chosen.hint.ports.len());
        for &port in &chosen.hint.ports {
            let port = &entry.inventory.hca_ports[port];
            devices.push(format!("{}:{}", device(port)?, port.port));
        }
        let mut line = format!("{index}) export UCX_NET_DEVICES={}", devices.join(","));
        let _ = write!(line, " UCX_IB_SL={}", analysis.config.sl);
        if let Some(port) = chosen.fabric
            && port.lmc.lids() > 1
        {
            let _ = write!(line, " UCX_IB_LID_PATH_BITS=0-{}", port.lmc.lids() - 1);
        }
        if devices.len() > 1 {
            let _ = write!(line, " UCX_MAX_RNDV_RAILS={}", devices.len());
        }
        let _ = writeln!(out, "{line} ;;");
    }
    out.push_str("esac\n");
    Ok(out)
}

/// NVSHMEM's environment for a host: one `NAME=value` a line. Processing elements are given out in
/// the order of GPUs, each port as often as it has GPUs.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn nvshmem_environment(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, _) = find(analysis, host)?;
    let mut list: Vec<(String, usize)> = Vec::new();
    for chosen in by_gpu(analysis, place)? {
        let name = chosen.name()?;
        match list.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => list.push((name, 1)),
        }
    }
    let list: Vec<String> = list
        .into_iter()
        .map(|(name, count)| format!("{name}:{count}"))
        .collect();
    Ok(format!(
        "NVSHMEM_ENABLE_NIC_PE_MAPPING=1\nNVSHMEM_HCA_PE_MAPPING={}\nNVSHMEM_IB_SL={}\n",
        list.join(","),
        analysis.config.sl
    ))
}

/// Mooncake's matrix of preferred and other adapters, for `MC_CUSTOM_TOPO_JSON`.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn mooncake_json(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find(analysis, host)?;
    let chosen = by_gpu(analysis, place)?;
    let mut matrix: BTreeMap<String, [Vec<&str>; 2]> = BTreeMap::new();
    let name = |port: usize| device(&entry.inventory.hca_ports[port]);
    for gpu in &chosen {
        let preferred = gpu
            .hint
            .ports
            .iter()
            .map(|&port| name(port))
            .collect::<Result<_, _>>()?;
        let others = gpu
            .hint
            .fallbacks
            .iter()
            .map(|&port| name(port))
            .collect::<Result<_, _>>()?;
        let index = entry.inventory.gpus[gpu.hint.gpu].index;
        matrix.insert(format!("cuda:{index}"), [preferred, others]);
    }
    let nodes: std::collections::BTreeSet<u16> =
        chosen.iter().filter_map(|gpu| gpu.port.numa).collect();
    for node in nodes {
        let mut sides = [Vec::new(), Vec::new()];
        for gpu in &chosen {
            let name = name(gpu.at)?;
            let side = &mut sides[usize::from(gpu.port.numa != Some(node))];
            if !side.contains(&name) {
                side.push(name);
            }
        }
        matrix.insert(format!("cpu:{node}"), sides);
    }
    // Text and lists of text are always written.
    Ok(serde_json::to_string_pretty(&matrix).unwrap_or_default() + "\n")
}
