use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rsm_gdr::import::{InventoryFormat, import, to_json};
use rsm_gdr::inventory::{Gpu, HostInventory, InventorySource, NvLinkDomain, PciAddress};

use crate::error::ProbeError;
use crate::nvml;
use crate::snapshot::Snapshot;
use crate::tool::{self, Deadline, ToolError};

/// The way to call NVML.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NvmlSource {
    /// NVML is not called.
    Off,
    /// NVML is loaded into this process, by the name or path of the library.
    Library(OsString),
    /// A program with its arguments calls NVML, and prints the result of [`program_output`]: a
    /// library that hangs or crashes takes down only that program.
    Program(Vec<OsString>),
}

/// The sources of a reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// The mount point of /sys.
    pub sys: PathBuf,
    /// The way to call NVIDIA's library.
    pub nvml: NvmlSource,
    /// The folder of the drivers' programs; if empty, the search path.
    pub tools: PathBuf,
    /// The time limit of each program.
    pub limit: Duration,
}

/// The result of reading a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The inventory, which is valid.
    pub inventory: HostInventory,
    /// Notes for the operator about data that no source stated, and about sources that disagree.
    pub notes: Vec<String>,
}

/// Reads the host.
///
/// If a source fails, the data that only this source has are missing, and a note says so. If the
/// driver lists some GPUs, GPUs that it omits are left out: no program can use them.
///
/// # Errors
/// There is nothing to read, or the sources together form no inventory.
pub fn read(settings: &ProbeSettings) -> Result<Reading, ProbeError> {
    let snapshot = Snapshot::take(&settings.sys)?;
    if snapshot.lines.is_empty() {
        return Err(ProbeError::NoDevices {
            sys: settings.sys.clone(),
        });
    }
    let sys = import(InventoryFormat::Sysfs, snapshot.text().as_bytes()).map_err(|error| {
        ProbeError::InvalidSys {
            sys: settings.sys.clone(),
            error: Box::new(error),
        }
    })?;
    let mut notes = snapshot.notes;
    let vendors = Vendors::of(&snapshot.lines);
    let mut driver = None;
    if vendors.has_nvidia {
        driver = nvidia(settings, &mut notes);
    } else if vendors.has_amd {
        driver = amd(settings, &mut notes);
    }
    let mut host = combined(sys, driver, &mut notes);
    host.source = InventorySource::Sysfs;
    if vendors.has_nvidia && lacks_peer_memory(&settings.sys) {
        host.gpus.iter_mut().for_each(|gpu| gpu.gdr = Some(false));
    }
    host.check()?;
    Ok(Reading {
        inventory: host,
        notes,
    })
}

/// Whether adapters cannot reach the memory of NVIDIA's GPUs: the driver is the proprietary one,
/// which lacks dma-buf, and the module that replaces dma-buf is not loaded.
fn lacks_peer_memory(sys: &Path) -> bool {
    let module = |name: &str| sys.join("module").join(name);
    // The kernel marks a proprietary module as such, and NVIDIA's open modules only as built out of
    // tree.
    let taint = std::fs::read_to_string(module("nvidia/taint")).unwrap_or_default();
    let is_loaded = |name: &str| module(name).is_dir();
    taint.contains('P') && !["nvidia_peermem", "nv_peer_mem"].into_iter().any(is_loaded)
}

/// The GPU vendors whose PCI devices are present.
struct Vendors {
    has_nvidia: bool,
    has_amd: bool,
}

impl Vendors {
    /// The vendors of the PCI devices in a snapshot of `/sys`.
    fn of(lines: &[(String, String)]) -> Vendors {
        let has = |vendor: &str| {
            let names_vendor =
                |(path, value): &(String, String)| path.ends_with("/vendor") && value == vendor;
            lines.iter().any(names_vendor)
        };
        Vendors {
            has_nvidia: has("0x10de"),
            has_amd: has("0x1002"),
        }
    }
}

/// Combines the driver's GPUs, completed by `/sys`, with the ports of `/sys`.
fn combined(
    sys: HostInventory,
    driver: Option<HostInventory>,
    notes: &mut Vec<String>,
) -> HostInventory {
    let Some(mut host) = driver.filter(|driver| !driver.gpus.is_empty()) else {
        return sys;
    };
    // A source without addresses counts like /sys, in the order of addresses.
    let listed = |gpu: &Gpu, host: &HostInventory| {
        let by_address = host.gpus.iter().all(|one| one.pci.is_some());
        match by_address {
            true => host.gpus.iter().any(|one| one.pci == gpu.pci),
            false => host.gpu_at(gpu.index).is_some(),
        }
    };
    let mut sys = sys;
    for at in (0..sys.gpus.len()).rev() {
        let gpu = &sys.gpus[at];
        if !listed(gpu, &host) {
            let place = gpu.pci.map_or_else(String::new, |pci| pci.to_string());
            notes.push(format!(
                "the driver does not list the GPU at {place}: left out"
            ));
            sys.remove_gpu(at);
        }
    }
    for conflict in host.merge(&sys) {
        notes.push(format!(
            "{} of {} is {} for the driver and {} in /sys: the driver's holds",
            conflict.what, conflict.device, conflict.kept, conflict.other
        ));
    }
    host
}

/// Reads NVIDIA's GPUs through NVML or, if that fails, through `nvidia-smi`.
fn nvidia(settings: &ProbeSettings, notes: &mut Vec<String>) -> Option<HostInventory> {
    match &settings.nvml {
        NvmlSource::Off => {}
        NvmlSource::Library(library) => match nvml::read(library) {
            Ok(reading) => {
                notes.extend(reading.notes);
                return Some(reading.inventory);
            }
            Err(error) => notes.push(format!("NVML: {error}")),
        },
        NvmlSource::Program(program) => match by_program(program, settings.limit) {
            Ok((host, notes_of_program)) => {
                notes.extend(notes_of_program);
                return Some(host);
            }
            Err(error) => notes.push(format!("NVML: {error}")),
        },
    }
    by_nvidia_smi(settings, notes)
}

/// Calls NVML in a separate program.
fn by_program(
    program: &[OsString],
    limit: Duration,
) -> Result<(HostInventory, Vec<String>), String> {
    let Some((program, arguments)) = program.split_first() else {
        return Err("no program".to_owned());
    };
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    let bytes = tool::output(program, &arguments, limit).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut rest, mut notes) = (&*text, Vec::new());
    while let Some((note, after)) = rest
        .strip_prefix(NOTE)
        .and_then(|rest| rest.split_once('\n'))
    {
        notes.push(shown(note));
        rest = after;
    }
    match import(InventoryFormat::Json, rest.as_bytes()) {
        Ok(host) => Ok((host, notes)),
        // The last note explains why there is no GPU.
        Err(error) => Err(notes.pop().unwrap_or_else(|| error.to_string())),
    }
}

/// The prefix of a line with a note.
const NOTE: &str = "note ";

/// Formats NVML's part of an inventory for [`NvmlSource::Program`]: lines with notes, then the
/// inventory in rsm's own format.
pub fn program_output(reading: &nvml::NvmlReading) -> String {
    let notes = reading.notes.iter();
    let mut text: String = notes
        .map(|note| format!("{NOTE}{}\n", shown(note)))
        .collect();
    text.push_str(&to_json(&reading.inventory));
    text
}

/// Reads GPUs by three calls of `nvidia-smi`: addresses and UUIDs, links, and the NVLink domain,
/// which older drivers refuse.
fn by_nvidia_smi(settings: &ProbeSettings, notes: &mut Vec<String>) -> Option<HostInventory> {
    let deadline = Deadline::after(settings.limit);
    let run = |arguments: &[&str]| {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        tool::output(
            settings.tools.join("nvidia-smi").as_os_str(),
            &arguments,
            deadline.left(),
        )
    };
    let query = "--query-gpu=index,pci.bus_id,uuid,name";
    let list = match run(&[query, "--format=csv,noheader"]) {
        Ok(list) => list,
        Err(error) => {
            notes.push(format!("nvidia-smi: {error}"));
            return None;
        }
    };
    let mut host = HostInventory::empty(InventorySource::NvidiaSmi);
    let list = String::from_utf8_lossy(&list).into_owned();
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        match gpu_of_line(line) {
            Some(gpu) if host.gpus.iter().all(|one| one.index != gpu.index) => host.gpus.push(gpu),
            _ => notes.push(format!("nvidia-smi: `{}` is no GPU", shown(line))),
        }
    }
    host.gpus.sort_by_key(|gpu| gpu.index);
    match run(&["topo", "-m"]).map(|matrix| import(InventoryFormat::NvidiaSmi, &matrix)) {
        Ok(Ok(matrix)) => drop(host.merge(&links_only(matrix))),
        Ok(Err(error)) => notes.push(format!("nvidia-smi topo -m: {error}")),
        Err(error) => notes.push(format!("nvidia-smi topo -m: {error}")),
    }
    let query = "--query-gpu=fabric.clusterUuid,fabric.cliqueId";
    match run(&[query, "--format=csv,noheader"]) {
        Ok(list) => host.domain = String::from_utf8_lossy(&list).lines().find_map(domain),
        // Drivers before 550 lack the fields.
        Err(ToolError::Failed(_)) => {}
        Err(error) => notes.push(format!("nvidia-smi: {error}")),
    }
    Some(host)
}

/// Reduces a matrix to its GPUs and links, because /sys knows more about adapters.
fn links_only(mut host: HostInventory) -> HostInventory {
    host.hca_ports.clear();
    host.tiers.clear();
    host
}

/// Parses a GPU such as `3, 00000000:5D:00.0, GPU-…, NVIDIA H100 80GB HBM3`.
fn gpu_of_line(line: &str) -> Option<Gpu> {
    let mut fields = line.splitn(4, ',').map(str::trim);
    let index = fields.next()?.parse().ok()?;
    let pci = PciAddress::from_str(fields.next()?).ok()?;
    let uuid = fields.next()?;
    let is_uuid = uuid.starts_with("GPU-") && uuid.len() <= 64;
    let plain = uuid
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Some(Gpu {
        index,
        pci: Some(pci),
        uuid: (is_uuid && plain).then(|| uuid.to_owned()),
        model: fields.next().map(shown).filter(|name| !name.is_empty()),
        ..Gpu::default()
    })
}

/// Parses an NVLink domain such as `3f1a7c1e-…, 7`; `N/A` and UUIDs of zeros give `None`.
fn domain(line: &str) -> Option<NvLinkDomain> {
    let (cluster, clique) = line.split_once(',')?;
    let cluster = cluster.trim().to_ascii_lowercase();
    let is_uuid = cluster.len() == 36
        && cluster.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        && cluster.bytes().any(|b| b.is_ascii_hexdigit() && b != b'0');
    is_uuid.then_some(NvLinkDomain {
        cluster_uuid: cluster,
        clique_id: clique.trim().parse().ok()?,
    })
}

/// Reads AMD's GPUs through `amd-smi` or, if that fails, through `rocm-smi`.
fn amd(settings: &ProbeSettings, notes: &mut Vec<String>) -> Option<HostInventory> {
    let deadline = Deadline::after(settings.limit);
    let tools: [(&str, &[&str]); 2] = [("amd-smi", &["topology"]), ("rocm-smi", &["--showtopo"])];
    for (name, arguments) in tools {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let program = settings.tools.join(name);
        match tool::output(program.as_os_str(), &arguments, deadline.left()) {
            Ok(bytes) => match import(InventoryFormat::AmdSmi, &bytes) {
                Ok(host) => return Some(host),
                Err(error) => notes.push(format!("{name}: {error}")),
            },
            Err(error) => notes.push(format!("{name}: {error}")),
        }
    }
    None
}

/// At most 160 characters of a text, without control characters.
fn shown(text: &str) -> String {
    let plain = text.trim().chars().filter(|char| !char.is_control());
    plain.take(160).collect()
}
