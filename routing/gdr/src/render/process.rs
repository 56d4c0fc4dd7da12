//! Files for single processes: UCX, NVSHMEM, Mooncake.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::RenderError;
use super::ports::{by_gpu, device, find};
use crate::Analysis;
use crate::inventory::Gpu;

/// The lines of a shell script that find the GPU of the process that sources it: `gpu` becomes its
/// index among the GPUs of the host, or its UUID.
///
/// A launcher either shows a process all of its GPUs, then the k-th local process uses the k-th of
/// them, or one alone. CUDA numbers GPUs by speed unless told to follow PCIe, as NVML and the
/// inventories do.
const FIND_GPU: &str = "\
export CUDA_DEVICE_ORDER=PCI_BUS_ID
gpu=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
if [ -n \"$visible\" ]; then
  count=$(printf '%s,' \"$visible\" | tr -cd ',' | wc -c)
  gpu=$(printf '%s' \"$visible\" | cut -d, -f$((gpu % count + 1)))
fi
case \"$gpu\" in
";

/// The end of such a script: a GPU that the inventory does not have gets no setting, and is named.
const OTHER_GPU: &str = "\
*) echo \"no adapter is known for GPU $gpu of this host\" >&2 ;;
esac
";

/// The pattern of a GPU: its index, or its UUID in whole, as inventories have it. UUIDs are names
/// of plain characters ([`HostInventory::check`](crate::inventory::HostInventory::check)).
fn pattern(gpu: &Gpu) -> String {
    match &gpu.uuid {
        Some(uuid) => format!("{}|{uuid}", gpu.index),
        None => gpu.index.to_string(),
    }
}

/// UCX's environment for each process of a host, as a shell script to be sourced.
///
/// Path bits are stated where the port at the other end of a path can have them: UCX is the one
/// library that uses the LIDs of an LMC.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn ucx_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find(analysis, host)?;
    let mut out = FIND_GPU.to_owned();
    for chosen in by_gpu(analysis, place)? {
        let mut devices = Vec::with_capacity(chosen.hint.ports.len());
        for &port in &chosen.hint.ports {
            let port = &entry.inventory.hca_ports[port];
            devices.push(format!("{}:{}", device(port)?, port.port));
        }
        let gpu = pattern(&entry.inventory.gpus[chosen.hint.gpu]);
        let mut line = format!("{gpu}) export UCX_NET_DEVICES={}", devices.join(","));
        if let Some(sl) = analysis.config.level() {
            let _ = write!(line, " UCX_IB_SL={sl}");
        }
        if let Some(is_adaptive) = analysis.config.is_adaptive() {
            let wanted = if is_adaptive { "try" } else { "no" };
            let _ = write!(line, " UCX_IB_AR_ENABLE={wanted}");
        }
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
    out.push_str(OTHER_GPU);
    Ok(out)
}

/// NVSHMEM's environment for each process of a host (DeepEP's too), as a shell script to be sourced.
///
/// NVSHMEM walks adapters in the order of verbs, whatever the order of `NVSHMEM_HCA_LIST` or
/// `NVSHMEM_HCA_PE_MAPPING` is, and gives the k-th that remains to the k-th process of a host
/// (`nvshmemi_setup_connections`, 3.4). The order of verbs is not the order of GPUs on every host.
/// With the one port of its GPU in the list, a process has no choice.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn nvshmem_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find(analysis, host)?;
    let mut out = FIND_GPU.to_owned();
    for chosen in by_gpu(analysis, place)? {
        let gpu = pattern(&entry.inventory.gpus[chosen.hint.gpu]);
        let _ = writeln!(
            out,
            "{gpu}) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST={} ;;",
            chosen.name()?
        );
    }
    out.push_str(OTHER_GPU);
    out.push_str("unset NVSHMEM_HCA_PE_MAPPING\n");
    if let Some(sl) = analysis.config.sl {
        let _ = writeln!(out, "export NVSHMEM_IB_SL={sl}");
    }
    Ok(out)
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
