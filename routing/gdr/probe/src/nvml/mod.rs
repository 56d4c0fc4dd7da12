//! Reads UUIDs, models, NVLinks, C2C links and the NVLink domain from NVIDIA's management library.

mod ffi;

use std::ffi::OsStr;

use rsm_gdr::inventory::{
    Gpu, GpuLinks, HostInventory, InventorySource, LinkFamily, MAX_GPUS, NvLinkDomain, PciAddress,
};

use self::ffi::{Device, Library, Remote};

/// The name of the library, for the system's search.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// The maximum number of NVLinks to query per GPU: twice as many as any GPU has.
const MAX_LINKS: u32 = 36;

/// The maximum number of C2C links to query per GPU; GB200 has 10.
const MAX_C2C_LINKS: u32 = 64;

/// The reason why the library returns no data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// The library is missing, or lacks a function that every version has.
    #[error("{0}")]
    Load(String),
    /// The library refuses a call.
    #[error("{call}: {text} ({code})")]
    Refused {
        /// The name of the function.
        call: &'static str,
        /// The library's text for the error.
        text: String,
        /// The library's error code.
        code: i32,
    },
}

/// The library's part of an inventory, with notes.
#[derive(Clone, Debug)]
pub struct NvmlReading {
    /// The inventory with GPUs and the links between them, but without ports.
    pub inventory: HostInventory,
    /// Notes for the operator about data that NVML did not return.
    pub notes: Vec<String>,
}

/// Queries the library with this name or path.
///
/// The library comes from another vendor, and may hang with its driver or end the process. Call
/// this function in a process that may be killed; see [`NvmlSource::Program`](crate::NvmlSource).
///
/// # Errors
/// The library is missing, or refuses to start. A GPU about which it refuses to answer only causes
/// a note.
pub fn read(library: &OsStr) -> Result<NvmlReading, NvmlError> {
    let library = Library::open(library)?;
    let count = library.count()?;
    let mut reading = NvmlReading {
        inventory: HostInventory::empty(InventorySource::Json),
        notes: Vec::new(),
    };
    if count as usize > MAX_GPUS {
        let note = format!("NVML lists {count} GPUs; the first {MAX_GPUS} are taken");
        reading.notes.push(note);
    }
    let mut links = Vec::new();
    let mut links_known = false;
    // The limit MAX_GPUS fits 16 bits.
    for index in 0..count.min(MAX_GPUS as u32) as u16 {
        match device(&library, index, &mut reading.notes) {
            Ok((gpu, device)) => {
                let own = gpu.pci.map(|pci| links_of(&library, device, pci));
                if let Some(Some(own)) = own {
                    links_known = true;
                    links.extend(own);
                }
                describe(&library, device, &mut reading);
                reading.inventory.gpus.push(gpu);
            }
            Err(error) => reading.notes.push(format!("NVML, GPU{index}: {error}")),
        }
    }
    reading.inventory.add_links(&links);
    reading.inventory.nvlinks_known |= links_known;
    Ok(reading)
}

/// Reads a GPU by its index in the library.
///
/// # Errors
/// The library refuses its handle or its PCI address. Other data that are missing are left out.
fn device(
    library: &Library,
    index: u16,
    notes: &mut Vec<String>,
) -> Result<(Gpu, Device), NvmlError> {
    let device = library.device(index.into())?;
    let pci = library.pci(device)?;
    let mut gpu = Gpu {
        index,
        pci: Some(pci),
        model: library.name(device).map(|name| plain(&name)),
        c2c_gbytes: c2c(library, device),
        ..Gpu::default()
    };
    match library.uuid(device) {
        Ok(uuid) if is_uuid(&uuid) => gpu.uuid = Some(uuid),
        Ok(uuid) => notes.push(format!("NVML, GPU{index}: UUID {}", plain(&uuid))),
        Err(error) => notes.push(format!("NVML, GPU{index}: {error}")),
    }
    Ok((gpu, device))
}

/// Reads the generation of NVLink and the NVLink domain, which all GPUs of a host share.
fn describe(library: &Library, device: Device, reading: &mut NvmlReading) {
    let host = &mut reading.inventory;
    if host.link_family == (LinkFamily::NvLink { generation: None })
        && let Some(capability) = library.compute_capability(device)
    {
        host.link_family = LinkFamily::of_compute_capability(capability);
    }
    let Some((cluster, clique_id)) = library.fabric(device) else {
        return;
    };
    let domain = NvLinkDomain {
        cluster_uuid: uuid_text(&cluster),
        clique_id,
    };
    match &host.domain {
        None => host.domain = Some(domain),
        Some(kept) if *kept != domain => {
            let note = format!("NVML names two NVLink domains: {kept} and {domain}");
            reading.notes.push(note);
        }
        Some(_) => {}
    }
}

/// The active links of a GPU; `None` if it has no NVLinks, or the library does not list them.
fn links_of(library: &Library, device: Device, gpu: PciAddress) -> Option<Vec<GpuLinks>> {
    let mut links: Vec<GpuLinks> = Vec::new();
    let mut has_links = false;
    for link in 0..MAX_LINKS {
        let Some(is_active) = library.link_is_active(device, link) else {
            continue;
        };
        has_links = true;
        if !is_active {
            continue;
        }
        let target = match library.link_remote(device, link) {
            Some(Remote::Switch) => None,
            Some(Remote::Gpu(other)) => Some(other),
            None => continue,
        };
        match links.iter_mut().find(|known| known.target == target) {
            Some(known) => known.count += 1,
            None => links.push(GpuLinks {
                gpu,
                target,
                count: 1,
            }),
        }
    }
    has_links.then_some(links)
}

/// The bandwidth of the C2C links to the processor in GB/s; `None` if there are none.
fn c2c(library: &Library, device: Device) -> Option<u32> {
    let count = library.field(device, ffi::C2C_LINK_COUNT, 0)?;
    let megabytes: u64 = (0..count.min(MAX_C2C_LINKS))
        .filter(|&link| library.field(device, ffi::C2C_LINK_STATUS, link) == Some(1))
        .filter_map(|link| library.field(device, ffi::C2C_LINK_MAX_MBYTES, link))
        .map(u64::from)
        .sum();
    let gbytes = u32::try_from(megabytes / 1000).ok()?;
    (gbytes > 0).then_some(gbytes)
}

/// Whether a GPU's UUID is safe in an inventory: 1 to 64 letters, digits and hyphens, without a
/// leading hyphen.
fn is_uuid(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&text.len())
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

/// The text without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// The usual form of a UUID: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
