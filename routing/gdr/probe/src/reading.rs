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

/// How NVML is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NvmlSource {
    /// Not at all.
    Off,
    /// In this process, by the name or path of the library.
    Library(OsString),
    /// A program and its arguments that print what [`program_output`] makes: a library that
    /// hangs or crashes then costs that program.
    Program(Vec<OsString>),
}

/// The sources of a reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// The mount point of /sys.
    pub sys: PathBuf,
    /// NVIDIA's library.
    pub nvml: NvmlSource,
    /// The folder of the drivers' programs; empty for the search path.
    pub tools: PathBuf,
    /// The time that each program may take.
    pub limit: Duration,
}

/// A host as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The inventory, which keeps all rules of inventories.
    pub inventory: HostInventory,
    /// Notes for people about all that no source told, and where sources disagree.
    pub notes: Vec<String>,
}

/// Reads the host.
///
/// A source that fails leaves out what it alone knows, with a note. GPUs that the driver does not
/// list while it lists others are left out: no program can use them.
///
/// # Errors
/// There is nothing to read, or together it is no inventory.
pub fn read(settings: &ProbeSettings) -> Result<Reading, ProbeError> {
    let snapshot = Snapshot::take(&settings.sys)?;
    if snapshot.lines.is_empty() {
        return Err(ProbeError::Nothing {
            sys: settings.sys.clone(),
        });
    }
    let sys = import(InventoryFormat::Sysfs, snapshot.text().as_bytes());
    let sys = sys.map_err(|error| ProbeError::Sys {
        sys: settings.sys.clone(),
        error: Box::new(error),
    })?;
    let mut notes = snapshot.notes;
    let vendors = Vendors::of(&snapshot.lines);
    let mut driver = None;
    if vendors.nvidia {
        driver = nvidia(settings, &mut notes);
    } else if vendors.amd {
        driver = amd(settings, &mut notes);
    }
    let mut host = together(sys, driver, &mut notes);
    host.source = InventorySource::Sysfs;
    if vendors.nvidia && lacks_peer_memory(&settings.sys) {
        host.gpus.iter_mut().for_each(|gpu| gpu.gdr = Some(false));
    }
    host.check()?;
    Ok(Reading {
        inventory: host,
        notes,
    })
}

/// Whether adapters cannot reach the memory of NVIDIA's GPUs: the driver is the proprietary one,
/// which has no dma-buf, and the module that stands in for it is not loaded.
fn lacks_peer_memory(sys: &Path) -> bool {
    let module = |name: &str| sys.join("module").join(name);
    // The kernel marks a proprietary module; NVIDIA's open ones only as built out of its tree.
    let taint = std::fs::read_to_string(module("nvidia/taint")).unwrap_or_default();
    let is_loaded = |name: &str| module(name).is_dir();
    taint.contains('P') && !["nvidia_peermem", "nv_peer_mem"].into_iter().any(is_loaded)
}

/// The vendors of the GPUs.
struct Vendors {
    nvidia: bool,
    amd: bool,
}

impl Vendors {
    fn of(lines: &[(String, String)]) -> Vendors {
        let has = |vendor: &str| {
            let is =
                |(path, value): &(String, String)| path.ends_with("/vendor") && value == vendor;
            lines.iter().any(is)
        };
        Vendors {
            nvidia: has("0x10de"),
            amd: has("0x1002"),
        }
    }
}

/// The driver's GPUs with what `/sys` knows of them, and the ports of `/sys`.
fn together(
    sys: HostInventory,
    driver: Option<HostInventory>,
    notes: &mut Vec<String>,
) -> HostInventory {
    let Some(mut host) = driver.filter(|driver| !driver.gpus.is_empty()) else {
        return sys;
    };
    // A source without addresses counts as /sys does, in the order of addresses.
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
            Ok((host, told)) => {
                notes.extend(told);
                return Some(host);
            }
            Err(error) => notes.push(format!("NVML: {error}")),
        },
    }
    by_nvidia_smi(settings, notes)
}

/// NVML by a program of its own.
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
        // Notes say why there is no GPU.
        Err(error) => Err(notes.pop().unwrap_or_else(|| error.to_string())),
    }
}

/// The begin of a line with a note.
const NOTE: &str = "note ";

/// NVML's part of an inventory as a program prints it for [`NvmlSource::Program`]: lines with
/// notes, then the inventory in rsm's own format.
pub fn program_output(reading: &nvml::NvmlReading) -> String {
    let notes = reading.notes.iter();
    let mut text: String = notes
        .map(|note| format!("{NOTE}{}\n", shown(note)))
        .collect();
    text.push_str(&to_json(&reading.inventory));
    text
}

/// `nvidia-smi`: addresses and UUIDs from one call, links from another, the NVLink domain from a
/// third, which older drivers refuse.
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
        match listed(line) {
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
        // Drivers before 550 do not know the fields.
        Err(ToolError::Failed(_)) => {}
        Err(error) => notes.push(format!("nvidia-smi: {error}")),
    }
    Some(host)
}

/// A matrix without its adapters, of which /sys knows more.
fn links_only(mut host: HostInventory) -> HostInventory {
    host.hca_ports.clear();
    host.tiers.clear();
    host
}

/// `3, 00000000:5D:00.0, GPU-…, NVIDIA H100 80GB HBM3`.
fn listed(line: &str) -> Option<Gpu> {
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

/// `3f1a7c1e-…, 7`; `N/A` and UUIDs of zeros are no domain.
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

fn shown(text: &str) -> String {
    let plain = text.trim().chars().filter(|char| !char.is_control());
    plain.take(160).collect()
}
