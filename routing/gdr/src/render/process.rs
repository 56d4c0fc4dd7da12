//! Files for single processes, for UCX and NVSHMEM.

use std::fmt::Write as _;

use super::RenderError;
use super::ports::{GpuWithPort, by_gpu, device, find_host};
use crate::Analysis;
use crate::host::Host;
use crate::inventory::Gpu;

/// The beginning of a shell script that finds the GPU of the process that sources the script, and
/// the list of GPUs that the process may use.
///
/// A launcher shows a process either all of its GPUs, of which the k-th local process uses the
/// k-th, or a single GPU. CUDA numbers GPUs by speed unless told to follow PCIe, as NVML and the
/// inventories do.
///
/// The script defines a function that runs in a shell of its own, so that its variables are not the
/// caller's. The function prints the GPU of the process or, with an argument, the GPU of the
/// process with this local rank.
const BEGIN: &str = "\
export CUDA_DEVICE_ORDER=PCI_BUS_ID
rsm_gpu() (
rank=${1:-${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
visible=$(printf %s \"$visible\" | tr -d '[:blank:]')
allotted=$(printf %s \"${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}\" | tr -d '[:blank:]')
";

/// The lines that list the host's GPUs by PCI address (`here`), and the GPUs among them that this
/// process may open (`open`): CUDA counts only these, from 0. A container has some of the host's
/// GPUs, and shows only their addresses. The control group of a job (Slurm's ConstrainDevices)
/// refuses to open the other GPUs, but still shows their addresses. `minors` is empty if the driver
/// does not state the device file of a GPU.
const OPEN_GPUS: &str = "\
here= open= minors=yes
for at in $(LC_ALL=C ls /proc/driver/nvidia/gpus 2>/dev/null); do
  here=\"$here $at\"
  minor=$(sed -n 's/^Device Minor:[[:blank:]]*//p' \"/proc/driver/nvidia/gpus/$at/information\" 2>/dev/null) || minor=
  case \"$minor\" in
  ''|*[!0-9]*) minors= ;;
  *) (: <\"/dev/nvidia$minor\") 2>/dev/null || continue ;;
  esac
  open=\"$open $at\"
done
";

/// The function that converts a GPU number as CUDA counts (`$1`) into the host's GPU, in `gpu`: a
/// PCI address, or an index if no address is known. Other text, such as a UUID, does not change.
///
/// If the driver states no device files, the numbers that Slurm gives (the host's) show whether the
/// process counts from 0 within its job. If both interpretations fit and differ, `gpu` becomes a
/// text that matches no GPU.
const GPU_OF: &str = "\
gpu_of() {
  gpu=$1
  case \"$gpu\" in
  ''|*[!0-9]*|0?*) ;;
  *) if [ -n \"$here\" ] && { [ -n \"$minors\" ] || [ -z \"$allotted\" ]; }; then
      gpu=$(printf '%s\\n' $open | sed -n \"$((gpu + 1))p\")
      gpu=${gpu:-\"$1 (the process sees fewer GPUs)\"}
    elif [ -n \"$allotted\" ]; then
      by_slurm
    fi ;;
  esac
}
by_slurm() {
  job= host=yes
  listed=${visible:-$gpu}
  seen=$(printf '%s,' \"$listed\" | tr -cd , | wc -c)
  total=$(printf '%s,' \"$allotted\" | tr -cd , | wc -c)
  if [ -z \"$visible\" ] || [ \"$seen\" -eq \"$total\" ]; then job=yes; fi
  for one in $(printf %s \"$listed\" | tr , ' '); do
    case \",$allotted,\" in *\",$one,\"*) ;; *) host= ;; esac
    case \"$one\" in
    ''|*[!0-9]*|0?*) job= host= ;;
    *) [ \"$one\" -lt \"$total\" ] || job= ;;
    esac
  done
  nth=$(printf '%s,\\n' \"$allotted\" | cut -d, -f$((gpu + 1)))
  case \"$job,$host\" in
  yes,yes) [ \"$listed\" = \"$allotted\" ] || [ \"$nth\" = \"$gpu\" ] || gpu=\"$gpu (ambiguous: the host's number, or a position among the GPUs that Slurm allotted: $allotted)\" ;;
  yes,) gpu=$nth ;;
  ,yes) ;;
  *) gpu=\"$gpu (cannot be matched with the GPUs that Slurm allotted: $allotted)\" ;;
  esac
}
";

/// The lines of [`GPU_OF`]'s caller for inventories without addresses: they convert an address into
/// an index if all GPUs of the host are visible.
fn index_of(gpus: usize) -> String {
    format!(
        "all=$(printf '%s\\n' $here | grep -c .) || all=0\n\
         case \"$gpu\" in\n\
         *:*:*.*) if [ \"$all\" -eq {gpus} ]; then\n    \
         gpu=$(($(printf '%s\\n' $here | grep -nxF \"$gpu\" | cut -d: -f1) - 1))\n  \
         fi ;;\n\
         esac\n"
    )
}

/// The lines that choose the GPU of this process.
const CHOOSE: &str = "\
gpu=$rank
if [ -n \"$visible\" ]; then
  count=$(printf '%s,' \"$visible\" | tr -cd , | wc -c)
  gpu=$(printf '%s,\\n' \"$visible\" | cut -d, -f$((rank % count + 1)))
fi
gpu_of \"$gpu\"
";

/// The lines that extend the beginning of a UUID to the whole UUID, if only one GPU matches, as
/// CUDA does.
const BY_UUID: &str = "\
  case \"$gpu,$uuid\" in GPU-*,\"$gpu\"*) found=\"$found $uuid\" ;; esac
done
case \"$found\" in ' '*' '*) ;; ' '*) gpu=${found# } ;; esac
";

/// The last case of a script: a GPU that the inventory lacks gets an error message and no setting.
const OTHER_GPU: &str = "\
*) echo \"this host has no adapter for GPU $gpu\" >&2 ;;
esac
";

/// Builds the function that finds the GPU of a process.
pub(super) fn find_gpu(gpus: &[Gpu]) -> String {
    let mut out = [BEGIN, OPEN_GPUS, GPU_OF, CHOOSE].concat();
    if gpus.iter().any(|gpu| gpu.pci.is_none()) {
        out.push_str(&index_of(gpus.len()));
    }
    let uuids: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.uuid.as_deref()).collect();
    if !uuids.is_empty() {
        let _ = writeln!(out, "found=\nfor uuid in {}; do", uuids.join(" "));
        out.push_str(BY_UUID);
    }
    out.push_str("printf '%s\\n' \"$gpu\"\n)\n");
    out
}

/// The lines before the cases of the GPUs.
const CASES: &str = "gpu=$(rsm_gpu)\ncase \"$gpu\" in\n";

/// The shell pattern of a GPU: its index, its address, or its whole UUID, as inventories have it.
/// UUIDs are names of plain characters
/// ([`HostInventory::check`](crate::inventory::HostInventory::check)).
pub(super) fn pattern(gpu: &Gpu) -> String {
    let mut out = gpu.index.to_string();
    if let Some(pci) = gpu.pci {
        let _ = write!(out, "|{pci}");
    }
    if let Some(uuid) = &gpu.uuid {
        let _ = write!(out, "|{uuid}");
    }
    out
}

/// The major firmware version of ConnectX-5, the first adapter that matches tags in hardware;
/// earlier adapters have lower versions.
const FIRST_WITH_TAGS: u32 = 16;

/// Whether some compute ports of the hosts belong to adapters that match tags in hardware, and
/// other compute ports do not.
///
/// Hardware matching is off unless the environment asks for it (`UCX_RC_MLX5_TM_ENABLE`,
/// `UCX_DC_MLX5_TM_ENABLE`), and an adapter without it ignores the request. RC and DC then do not
/// connect such an adapter with an adapter that matches in hardware
/// (`uct_rc_mlx5_iface_is_reachable_v2`,
/// 1.20).
fn differ_in_tag_matching(analysis: &Analysis) -> bool {
    let mut seen = [false; 2];
    for host in &analysis.hosts {
        for port in host.compute_ports() {
            let firmware = host.inventory.hca_ports[port].firmware.as_deref();
            let first = firmware.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
            if let Some(first) = first {
                seen[usize::from(first >= FIRST_WITH_TAGS)] = true;
            }
        }
    }
    seen == [true; 2]
}

/// Builds UCX's environment for each process of a host, as a shell script to be sourced.
///
/// Sets UCX_IB_LID_PATH_BITS if the GPU's port has more than one LID (LMC > 0). Of the supported
/// libraries, only UCX uses the further LIDs.
///
/// # Errors
/// A GPU has no port, or an adapter has no name.
pub fn ucx_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let mut out = find_gpu(&entry.inventory.gpus) + CASES;
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
    if differ_in_tag_matching(analysis) {
        out.push_str("export UCX_RC_MLX5_TM_ENABLE=n UCX_DC_MLX5_TM_ENABLE=n\n");
    }
    Ok(out)
}

/// Builds NVSHMEM's environment (also DeepEP's) for each process of a host, as a shell script to be
/// sourced.
///
/// NVSHMEM walks adapters in the order of verbs, whatever the order of `NVSHMEM_HCA_LIST` or
/// `NVSHMEM_HCA_PE_MAPPING`. It skips adapters whose name lacks `NVSHMEM_HCA_PREFIX` (`mlx5` by
/// default), and gives the k-th remaining adapter to the k-th process of a host
/// (`nvshmemi_setup_connections`, 3.5). The order of verbs differs from the order of GPUs on some
/// hosts. A list with the single port of its GPU leaves a process no choice.
///
/// # Errors
/// A GPU has no port, or an adapter has no name.
pub fn nvshmem_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let chosen = by_gpu(analysis, place)?;
    let mut out = find_gpu(&entry.inventory.gpus) + CASES;
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

/// The list and the prefix for a host whose GPUs have several ports each, all equally many: NVSHMEM
/// divides the ports of the list by the processes, and gives each process its nearest ports. `None`
/// if the names of the devices share no prefix.
fn several_ports(
    entry: &Host,
    chosen: &[GpuWithPort<'_>],
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
