//! Writes Mooncake's matrix of adapters, as a file and as a script for each process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::RenderError;
use super::ports::{by_gpu, device, find_host};
use super::process::{find_gpu, pattern};
use crate::Analysis;

/// The names of the preferred adapters, and the names of the other adapters.
type Adapters<'a> = [Vec<&'a str>; 2];

/// A host's matrix: the adapters of each GPU, by position in the inventory, and of each NUMA node.
struct Matrix<'a> {
    gpus: Vec<(usize, Adapters<'a>)>,
    nodes: BTreeMap<u16, Adapters<'a>>,
}

/// Builds the matrix of a host, given by position.
fn matrix(analysis: &Analysis, place: usize) -> Result<Matrix<'_>, RenderError> {
    let entry = &analysis.hosts[place];
    let chosen = by_gpu(analysis, place)?;
    let name = |port: usize| device(&entry.inventory.hca_ports[port]);
    let names = |ports: &[usize]| -> Result<Vec<&str>, RenderError> {
        ports.iter().map(|&port| name(port)).collect()
    };
    let of_gpu = |gpu: &super::ports::GpuWithPort<'_>| {
        let hint = gpu.hint;
        let adapters = [names(&hint.ports)?, names(&hint.fallbacks)?];
        Ok::<_, RenderError>((hint.gpu, adapters))
    };
    let gpus = chosen.iter().map(of_gpu).collect::<Result<_, _>>()?;
    let numbers: BTreeSet<u16> = chosen.iter().filter_map(|gpu| gpu.port.numa).collect();
    let mut nodes = BTreeMap::new();
    for node in numbers {
        let mut sides = Adapters::default();
        for gpu in &chosen {
            let name = name(gpu.at)?;
            let side = &mut sides[usize::from(gpu.port.numa != Some(node))];
            if !side.contains(&name) {
                side.push(name);
            }
        }
        nodes.insert(node, sides);
    }
    Ok(Matrix { gpus, nodes })
}

/// Writes Mooncake's matrix of preferred and other adapters, for `MC_CUSTOM_TOPO_JSON`.
///
/// A process asks for `cuda:0` for the first GPU that it sees, so the file suits only processes
/// that see all GPUs of the host. [`mooncake_script`] creates a matrix for each process.
///
/// # Errors
/// A GPU has no port, or an adapter has no name.
pub fn mooncake_json(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let Matrix { gpus, nodes } = matrix(analysis, place)?;
    let gpus = gpus.into_iter().map(|(gpu, adapters)| {
        let index = entry.inventory.gpus[gpu].index;
        (format!("cuda:{index}"), adapters)
    });
    let nodes = nodes
        .into_iter()
        .map(|(node, adapters)| (format!("cpu:{node}"), adapters));
    let rows: BTreeMap<String, Adapters<'_>> = gpus.chain(nodes).collect();
    // Serialising text and lists of text cannot fail.
    Ok(serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n")
}

/// Writes a shell script for a process to source: it writes the matrix of the GPUs that the process
/// sees, with the process's numbers, and sets `MC_CUSTOM_TOPO_JSON`. If a GPU of the process is
/// unknown, the script sets nothing, and Mooncake searches for adapters itself.
///
/// # Errors
/// A GPU has no port, or an adapter has no name.
pub fn mooncake_script(analysis: &Analysis, host: &str) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let gpus = &entry.inventory.gpus;
    let Matrix { gpus: rows, nodes } = matrix(analysis, place)?;
    let mut out = find_gpu(gpus) + "rsm_mooncake() (\nunset MC_CUSTOM_TOPO_JSON\n";
    out.push_str(COUNT_VISIBLE_GPUS);
    let _ = writeln!(out, "most={}", rows.len());
    out.push_str(EACH_GPU);
    for (gpu, adapters) in rows {
        let gpu = pattern(&gpus[gpu]);
        let _ = writeln!(out, "  {gpu}) row='{}' ;;", json(&adapters));
    }
    out.push_str(ROW);
    for (node, adapters) in nodes {
        let row = json(&adapters);
        let _ = writeln!(out, "all=\"$all,\n  \\\"cpu:{node}\\\": \"'{row}'");
    }
    out.push_str(WRITE);
    Ok(out)
}

/// Writes adapters as JSON: names are plain characters, as in inventories.
fn json(adapters: &Adapters<'_>) -> String {
    // Serialising lists of text cannot fail.
    serde_json::to_string(adapters).unwrap_or_default()
}

/// The script's count of GPUs that the process sees; 0 if the environment does not state it.
const COUNT_VISIBLE_GPUS: &str = "\
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
seen=$(printf %s \"${visible:+$visible,}\" | tr -cd , | wc -c)
";

/// The beginning of the loop over these GPUs. Without a list, the loop ends at the first missing
/// GPU.
const EACH_GPU: &str = "\
all= number=0
while [ $number -lt $((seen > 0 ? seen : most)) ]; do
  gpu=$(rsm_gpu $number)
  case \"$gpu\" in
";

/// The end of the loop over GPUs.
const ROW: &str = "\
  *) if [ $seen -eq 0 ] && [ $number -gt 0 ]; then break; fi
    echo \"this host has no adapter for GPU $gpu\" >&2
    exit 1 ;;
  esac
  all=\"${all:+$all,}
  \\\"cuda:$number\\\": $row\"
  number=$((number + 1))
done
";

/// The end of the script, which writes the file.
const WRITE: &str = "\
file=$(mktemp \"${TMPDIR:-/tmp}/mooncake.XXXXXX\") || exit 1
printf '{%s\\n}\\n' \"$all\" >\"$file\" || exit 1
printf '%s\\n' \"$file\"
)
if file=$(rsm_mooncake); then export MC_CUSTOM_TOPO_JSON=\"$file\"; else unset MC_CUSTOM_TOPO_JSON; fi
";
