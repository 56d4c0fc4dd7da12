//! Files for single processes: UCX, NVSHMEM, Mooncake.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::RenderError;
use super::ports::{Chosen, by_gpu, device, find};
use crate::Analysis;
use crate::host::Host;
use crate::inventory::Gpu;

/// The lines of a shell script that find the GPU of the process that sources it: `gpu` becomes its
/// index among the GPUs of the host, its UUID or the begin of that.
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
";

/// The lines that turn an index into a PCI address. A container may have some of the host's GPUs,
/// counts them from 0 in the order of addresses, and shows the addresses of these alone.
const BY_ADDRESS: &str = "\
here=$(LC_ALL=C ls /proc/driver/nvidia/gpus 2>/dev/null) || here=
case \"$here,$gpu\" in
,*|*,|*,*[!0-9]*) ;;
*) gpu=$(printf '%s\\n' \"$here\" | sed -n \"$((gpu + 1))p\")
  gpu=${gpu:-beyond those that are visible} ;;
esac
";

/// The lines that turn the begin of a UUID into the whole, as CUDA takes it: if one GPU alone has it.
const BY_UUID: &str = "\
  case \"$gpu,$uuid\" in GPU-*,\"$gpu\"*) found=\"$found $uuid\" ;; esac
done
case \"$found\" in ' '*' '*) ;; ' '*) gpu=${found# } ;; esac
";

/// The end of such a script: a GPU that the inventory does not have gets no setting, and is named.
const OTHER_GPU: &str = "\
*) echo \"no adapter is known for GPU $gpu of this host\" >&2 ;;
esac
";

/// The lines before the cases of the GPUs.
fn find_gpu(gpus: &[Gpu]) -> String {
    let mut out = FIND_GPU.to_owned();
    if gpus.iter().all(|gpu| gpu.pci.is_some()) {
        out.push_str(BY_ADDRESS);
    }
    let uuids: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.uuid.as_deref()).collect();
    if !uuids.is_empty() {
        let _ = writeln!(out, "found=\nfor uuid in {}; do", uuids.join(" "));
        out.push_str(BY_UUID);
    }
    out.push_str("case \"$gpu\" in\n");
    out
}

/// The pattern of a GPU: its index, its address, or its UUID in whole, as inventories have it.
/// UUIDs are names of plain characters
/// ([`HostInventory::check`](crate::inventory::HostInventory::check)).
fn pattern(gpu: &Gpu) -> String {
    let mut out = gpu.index.to_string();
    if let Some(pci) = gpu.pci {
        let _ = write!(out, "|{pci}");
    }
    if let Some(uuid) = &gpu.uuid {
        let _ = write!(out, "|{uuid}");
    }
    out
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
    let mut out = find_gpu(&entry.inventory.gpus);
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
/// `NVSHMEM_HCA_PE_MAPPING` is, passes over those whose name lacks `NVSHMEM_HCA_PREFIX` (by itself
/// `mlx5`), and gives the k-th that remains to the k-th process of a host
/// (`nvshmemi_setup_connections`, 3.5). The order of verbs is not the order of GPUs on every host.
/// With the one port of its GPU in the list, a process has no choice.
///
/// # Errors
/// A GPU without a port, or an adapter without a name.
pub fn nvshmem_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find(analysis, host)?;
    let chosen = by_gpu(analysis, place)?;
    let mut out = find_gpu(&entry.inventory.gpus);
    for chosen in &chosen {
        let gpu = pattern(&entry.inventory.gpus[chosen.hint.gpu]);
        let _ = writeln!(
            out,
            "{gpu}) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST={} NVSHMEM_HCA_PREFIX={} ;;",
            chosen.name()?,
            device(chosen.port)?
        );
    }
    out.push_str(OTHER_GPU);
    if let Some((list, prefix)) = several_ports(entry, &chosen)? {
        let _ = writeln!(
            out,
            "case \"${{NVSHMEM_IBGDA_ENABLE_MULTI_PORT:-0}}\" in\n[0NnFf]*) ;;\n\
             *) export NVSHMEM_ENABLE_NIC_PE_MAPPING=0 NVSHMEM_HCA_LIST={list} NVSHMEM_HCA_PREFIX={prefix} ;;\nesac"
        );
    }
    out.push_str("unset NVSHMEM_HCA_PE_MAPPING\n");
    if let Some(sl) = analysis.config.sl {
        let _ = writeln!(out, "export NVSHMEM_IB_SL={sl}");
    }
    Ok(out)
}

/// The list and the prefix of a host whose GPUs have several ports each, as many as the others:
/// NVSHMEM divides the ports of the list by the processes, and gives each process its nearest.
/// `None` where the names of the devices have no common begin.
fn several_ports(
    entry: &Host,
    chosen: &[Chosen<'_>],
) -> Result<Option<(String, String)>, RenderError> {
    let each = chosen.first().map_or(0, |chosen| chosen.hint.ports.len());
    if each < 2 || chosen.iter().any(|chosen| chosen.hint.ports.len() != each) {
        return Ok(None);
    }
    let (mut list, mut prefix): (Vec<String>, Option<&str>) = (Vec::new(), None);
    for &port in chosen.iter().flat_map(|chosen| &chosen.hint.ports) {
        let port = &entry.inventory.hca_ports[port];
        let name = device(port)?;
        let begin = prefix.unwrap_or(name);
        let same = begin.bytes().zip(name.bytes()).take_while(|(a, b)| a == b);
        // Names of devices are ASCII.
        prefix = begin.get(..same.count());
        list.push(format!("{name}:{}", port.port));
    }
    let prefix = prefix.filter(|prefix| !prefix.is_empty());
    Ok(prefix.map(|prefix| (list.join(","), prefix.to_owned())))
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
