//! Reads `/sys` into lines: the path of each file, with its content or the target of its link.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rsm_gdr::inventory::PciAddress;

use crate::config_space;
use crate::error::ProbeError;
use crate::vpd;

/// The maximum size of a file to read, in bytes: an attribute of /sys takes one page.
const FILE_MAX: usize = 4096;

/// The maximum size of vital product data, in bytes: the address in PCI's register has 15 bits.
const VPD_MAX: usize = 1 << 15;

/// The maximum number of entries of a directory to read: a machine has some thousands of PCI
/// functions.
const ENTRIES_MAX: usize = 65_536;

/// The maximum number of readings of `/sys` until two successive ones are equal. If a device
/// appears or disappears during a reading, the reading may have only some of its files.
const READINGS: usize = 4;

/// The number of bytes of a configuration space that every process may read.
const CONFIG_FOR_ALL: usize = 64;

/// The note if the kernel shows only the first [`CONFIG_FOR_ALL`] bytes of a configuration space.
const NO_CONFIG: &str = "reading the PCIe configuration needs CAP_SYS_ADMIN: ACS redirect and \
                         relaxed ordering are unknown";

/// The attributes to read of every PCI function. For GPUs, whose link slows down while idle, the
/// maximum speed of both ends is read as well.
const OF_FUNCTION: [&str; 4] = ["class", "vendor", "numa_node", "current_link_width"];

/// The PCI vendor ID of AMD.
const AMD: &str = "0x1002";

/// The PCI vendor and device IDs of ConnectX-8's Data Direct function.
const DATA_DIRECT: (&str, &str) = ("0x15b3", "0x2100");

/// The vital product data keyword whose value a Data Direct function shares with its adapter.
const ADAPTER_KEYWORD: &[u8; 2] = b"V3";

/// A reading of `/sys`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// The paths below `/sys`, each with the content of the file or the target of the link.
    pub lines: Vec<(String, String)>,
    /// Notes for the operator about everything that `/sys` did not show.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// Reads the tree mounted at `sys` until two successive readings are equal, at most four times.
    ///
    /// # Errors
    /// A directory exists but cannot be read, or has more than 65,536 entries.
    pub fn take(sys: &Path) -> Result<Snapshot, ProbeError> {
        let mut last = Reader::read(sys)?;
        for _ in 1..READINGS {
            let next = Reader::read(sys)?;
            if next == last {
                return Ok(next);
            }
            last = next;
        }
        let note = format!("{} changed in each of {READINGS} readings", sys.display());
        last.notes.push(note);
        Ok(last)
    }

    /// Joins the lines into the text that [`rsm_gdr::import`] reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, value) in &self.lines {
            text.extend([path, "\t", value, "\n"]);
        }
        text
    }
}

/// One reading of the tree.
struct Reader {
    sys: PathBuf,
    /// The canonical path of `sys`.
    root: Option<PathBuf>,
    snapshot: Snapshot,
}

impl Reader {
    /// Reads the tree at `sys`: the adapters, the functions of GPUs and adapters, and the bridges
    /// above them.
    fn read(sys: &Path) -> Result<Snapshot, ProbeError> {
        let mut reader = Reader {
            sys: sys.to_owned(),
            root: fs::canonicalize(sys).ok(),
            snapshot: Snapshot::default(),
        };
        let all = entries(&sys.join("bus/pci/devices"))?;
        let direct: Vec<&String> = all
            .iter()
            .filter(|one| reader.is_data_direct(one))
            .collect();
        let mut functions = BTreeSet::new();
        for adapter in entries(&sys.join("class/infiniband"))? {
            functions.extend(reader.adapter(&adapter, &direct)?);
        }
        for address in &functions {
            reader.function(address, &["current_link_speed"]);
            reader.config_bit(
                address,
                "relaxed_ordering",
                config_space::has_relaxed_ordering,
            );
        }
        let gpus: Vec<&String> = all
            .iter()
            .filter(|one| !functions.contains(*one))
            .filter(|one| reader.is_gpu(one))
            .collect();
        for address in &gpus {
            reader.function(address, &[]);
        }
        let devices: Vec<&String> = functions.iter().chain(gpus).collect();
        let parents: BTreeSet<String> = devices
            .iter()
            .filter_map(|one| reader.parent_bridge(one))
            .collect();
        for bridge in &parents {
            reader.max_link(bridge);
        }
        let bridges: BTreeSet<String> = devices
            .iter()
            .flat_map(|one| reader.bridges_above(one))
            .collect();
        for bridge in &bridges {
            reader.config_bit(bridge, "acs_redirect", config_space::redirects_peers);
        }
        if !reader.snapshot.lines.is_empty() {
            reader.file("class/dmi/id/product_name");
        }
        Ok(reader.snapshot)
    }

    /// Whether a function is a VGA or 3D controller, or an AMD "other display controller" or
    /// "processing accelerator" (MI300X); other vendors' devices of these classes are not GPUs.
    fn is_gpu(&self, address: &str) -> bool {
        let class = self.attribute(address, "class").unwrap_or_default();
        let is_of_class = |kind: &str| class.starts_with(kind);
        ["0x0300", "0x0302", "0x0380"].into_iter().any(is_of_class)
            || is_of_class("0x1200") && self.attribute(address, "vendor").as_deref() == Some(AMD)
    }

    /// Whether a function is a Data Direct function.
    fn is_data_direct(&self, address: &str) -> bool {
        let has_value =
            |name, wanted: &str| self.attribute(address, name).as_deref() == Some(wanted);
        has_value("vendor", DATA_DIRECT.0) && has_value("device", DATA_DIRECT.1)
    }

    /// The content of a file of a PCI function; `None` if it is missing.
    fn attribute(&self, address: &str, name: &str) -> Option<String> {
        read(&self.sys.join("bus/pci/devices").join(address).join(name))
    }

    /// Records a PCI function: its link, the attributes of every function, and the attributes in
    /// `more`.
    fn function(&mut self, address: &str, more: &[&str]) {
        let path = format!("bus/pci/devices/{address}");
        self.link(&path);
        for attribute in OF_FUNCTION.iter().chain(more) {
            self.file(&format!("{path}/{attribute}"));
        }
        self.file(&format!("{path}/iommu_group/type"));
        self.link(&format!("{path}/physfn"));
        self.max_link(address);
    }

    /// Records a bit of a function's configuration space as `name` with `1` or `0`, or a note if
    /// the kernel shows only the first registers.
    fn config_bit(&mut self, address: &str, name: &str, bit: fn(&[u8]) -> Option<bool>) {
        let path = format!("bus/pci/devices/{address}");
        let config = fs::read(self.sys.join(&path).join("config"));
        let Ok(config) = config.map(|mut config| {
            config.truncate(FILE_MAX);
            config
        }) else {
            return;
        };
        if let Some(is_on) = bit(&config) {
            let value = u8::from(is_on).to_string();
            self.snapshot
                .lines
                .push((format!("/sys/{path}/{name}"), value));
        } else if config.len() <= CONFIG_FOR_ALL
            && self.snapshot.notes.iter().all(|one| one != NO_CONFIG)
        {
            self.snapshot.notes.push(NO_CONFIG.to_owned());
        }
    }

    /// The bridges between the processor and a function, by PCI address.
    fn bridges_above(&self, address: &str) -> Vec<String> {
        let target = self
            .target(&format!("bus/pci/devices/{address}"))
            .unwrap_or_default();
        let parts = target.split('/').filter(|part| *part != address);
        let bridges = parts.filter(|part| part.parse::<PciAddress>().is_ok());
        bridges.map(str::to_owned).collect()
    }

    /// Records the maximum width and speed of a function's end of its PCIe link.
    fn max_link(&mut self, address: &str) {
        for attribute in ["max_link_width", "max_link_speed"] {
            self.file(&format!("bus/pci/devices/{address}/{attribute}"));
        }
    }

    /// The bridge at the other end of a function's PCIe link; `None` if there is none.
    fn parent_bridge(&self, address: &str) -> Option<String> {
        let target = self.target(&format!("bus/pci/devices/{address}"))?;
        let parent = target.rsplit('/').nth(1)?;
        parent
            .parse::<PciAddress>()
            .is_ok()
            .then(|| parent.to_owned())
    }

    /// Records an adapter and its ports. Returns the address of its function.
    fn adapter(&mut self, name: &str, direct: &[&String]) -> Result<Option<String>, ProbeError> {
        let path = format!("class/infiniband/{name}");
        self.file(&format!("{path}/node_guid"));
        self.file(&format!("{path}/sys_image_guid"));
        self.file(&format!("{path}/fw_ver"));
        let function = self.link(&format!("{path}/device"));
        if let Some(function) = &function
            && !direct.is_empty()
        {
            self.data_direct(&path, function, direct);
        }
        for port in entries(&self.sys.join(&path).join("ports"))? {
            for attribute in ["state", "rate", "link_layer", "gids/0"] {
                self.file(&format!("{path}/ports/{port}/{attribute}"));
            }
        }
        Ok(function)
    }

    /// Finds the Data Direct function of an adapter by the vital product data of both.
    fn data_direct(&mut self, adapter: &str, function: &str, direct: &[&String]) {
        let Some(own) = self.adapter_id(function) else {
            return;
        };
        for other in direct {
            if self.adapter_id(other).as_ref() != Some(&own) {
                continue;
            }
            if let Some(target) = self.target(&format!("bus/pci/devices/{other}")) {
                let line = (format!("/sys/{adapter}/data_direct"), target);
                self.snapshot.lines.push(line);
            }
        }
    }

    /// The value that the functions of one adapter share; `None` if it cannot be read. Adds a note
    /// if only root may read it.
    fn adapter_id(&mut self, address: &str) -> Option<Vec<u8>> {
        let path = self.sys.join("bus/pci/devices").join(address).join("vpd");
        match fs::read(&path) {
            Ok(vpd) if vpd.len() <= VPD_MAX => {
                vpd::keyword(&vpd, ADAPTER_KEYWORD).map(<[u8]>::to_vec)
            }
            Ok(_) => None,
            Err(error) => {
                let note = format!("{}: {error}: Data Direct unknown", path.display());
                let is_new = !self.snapshot.notes.contains(&note);
                if error.kind() == io::ErrorKind::PermissionDenied && is_new {
                    self.snapshot.notes.push(note);
                }
                None
            }
        }
    }

    /// Records the target of a link. Returns the last component of the target.
    fn link(&mut self, path: &str) -> Option<String> {
        let target = self.target(path)?;
        let last = target.rsplit('/').next()?.to_owned();
        self.snapshot.lines.push((format!("/sys/{path}"), target));
        Some(last)
    }

    /// The target of a link as a path below `/sys`; `None` if it leads elsewhere.
    fn target(&self, path: &str) -> Option<String> {
        let target = fs::canonicalize(self.sys.join(path)).ok()?;
        let below = target.strip_prefix(self.root.as_ref()?).ok()?.to_str()?;
        Some(format!("/sys/{below}"))
    }

    /// Records a file, unless it is missing, empty or too long.
    fn file(&mut self, path: &str) {
        if let Some(text) = read(&self.sys.join(path)) {
            self.snapshot.lines.push((format!("/sys/{path}"), text));
        }
    }
}

/// Reads a file as one line of text; `None` if it is missing, empty or too long.
fn read(path: &Path) -> Option<String> {
    let text = fs::read(path).ok().filter(|text| text.len() <= FILE_MAX)?;
    let text = String::from_utf8_lossy(&text)
        .trim()
        .replace(['\n', '\t', '\r'], " ");
    (!text.is_empty()).then_some(text)
}

/// Lists the sorted names in a directory; empty if there is no directory. An unreadable directory
/// is an error.
fn entries(path: &Path) -> Result<Vec<String>, ProbeError> {
    let unreadable = |error| ProbeError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let directory = match fs::read_dir(path) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in directory {
        if names.len() == ENTRIES_MAX {
            return Err(ProbeError::TooManyEntries {
                path: path.to_owned(),
                limit: ENTRIES_MAX,
            });
        }
        // A name that is not UTF-8 belongs to no device.
        if let Ok(name) = entry.map_err(unreadable)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
