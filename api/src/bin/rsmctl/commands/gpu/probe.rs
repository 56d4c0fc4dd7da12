use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::arguments::Format;
use crate::failure::Failure;
use crate::output::Output;

/// The longest file to print: attributes of /sys are one page.
const FILE_MAX: usize = 4096;

/// The most entries of a directory to read: a machine has some thousands of PCI functions.
const ENTRIES_MAX: usize = 65_536;

/// Prints this host's GPUs and adapters from /sys, as `rsm gpu` reads them
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl gpu probe > inventory/$(hostname -s).tsv")]
pub(crate) struct ProbeArguments {
    /// The mount point of /sys
    #[arg(long, default_value = "/sys", value_name = "DIR")]
    sys: PathBuf,
}

pub(super) fn run(arguments: &ProbeArguments, format: Format) -> Result<(), Failure> {
    let mut output = Output::new(format);
    let snapshot = Snapshot::take(&arguments.sys)?;
    if snapshot.lines.is_empty() {
        let sys = arguments.sys.display();
        return Err(Failure::Refused(format!(
            "{sys} has neither GPUs nor InfiniBand adapters"
        )));
    }
    match output.is_json() {
        true => output.json(&snapshot.lines)?,
        false => {
            for (path, value) in &snapshot.lines {
                output.line(&format!("{path}\t{value}"))?;
            }
        }
    }
    output.flush()
}

/// Paths below /sys, with the content of files or the target of links.
struct Snapshot<'a> {
    sys: &'a Path,
    lines: Vec<(String, String)>,
}

impl Snapshot<'_> {
    fn take(sys: &Path) -> Result<Snapshot<'_>, Failure> {
        let mut snapshot = Snapshot {
            sys,
            lines: Vec::new(),
        };
        let adapters = entries(&sys.join("class/infiniband"))?;
        let mut functions = BTreeSet::new();
        for adapter in &adapters {
            functions.extend(snapshot.adapter(adapter)?);
        }
        for address in entries(&sys.join("bus/pci/devices"))? {
            let class = read(&sys.join("bus/pci/devices").join(&address).join("class"));
            // VGA and 3D controllers, and AMD's "other display controller".
            let gpu = class.is_some_and(|class| {
                ["0x0300", "0x0302", "0x0380"]
                    .iter()
                    .any(|kind| class.starts_with(kind))
            });
            if gpu {
                functions.insert(address);
            }
        }
        for address in &functions {
            let path = format!("bus/pci/devices/{address}");
            snapshot.link(&path);
            for attribute in ["class", "vendor", "numa_node"] {
                snapshot.file(&format!("{path}/{attribute}"));
            }
        }
        if !snapshot.lines.is_empty() {
            snapshot.file("class/dmi/id/product_name");
        }
        Ok(snapshot)
    }

    /// An adapter and its ports. Returns the address of its function.
    fn adapter(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let path = format!("class/infiniband/{name}");
        self.file(&format!("{path}/node_guid"));
        self.file(&format!("{path}/sys_image_guid"));
        let function = self.link(&format!("{path}/device"));
        for port in entries(&self.sys.join(&path).join("ports"))? {
            for attribute in ["state", "rate", "link_layer", "gids/0"] {
                self.file(&format!("{path}/ports/{port}/{attribute}"));
            }
        }
        Ok(function)
    }

    /// Records the target of a link. Returns the last component of the target.
    fn link(&mut self, path: &str) -> Option<String> {
        let target = fs::canonicalize(self.sys.join(path)).ok()?;
        let root = fs::canonicalize(self.sys).ok()?;
        let below = target.strip_prefix(root).ok()?.to_str()?.to_owned();
        let last = below.rsplit('/').next()?.to_owned();
        self.lines
            .push((format!("/sys/{path}"), format!("/sys/{below}")));
        Some(last)
    }

    fn file(&mut self, path: &str) {
        if let Some(text) = read(&self.sys.join(path)) {
            self.lines.push((format!("/sys/{path}"), text));
        }
    }
}

/// The text of a file as one line; none where it is missing, empty or too long.
fn read(path: &Path) -> Option<String> {
    let text = fs::read(path).ok().filter(|text| text.len() <= FILE_MAX)?;
    let text = String::from_utf8_lossy(&text)
        .trim()
        .replace(['\n', '\t'], " ");
    (!text.is_empty()).then_some(text)
}

/// The sorted names in a directory; none where there is no directory.
fn entries(path: &Path) -> Result<Vec<String>, Failure> {
    let Ok(directory) = fs::read_dir(path) else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in directory {
        if names.len() == ENTRIES_MAX {
            let shown = path.display();
            return Err(Failure::Refused(format!(
                "{shown} has more than {ENTRIES_MAX} entries"
            )));
        }
        // A name that is not UTF-8 is no device.
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
