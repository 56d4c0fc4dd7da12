//! The fabrics on which the tests run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::topology::{Topology, TopologyError};

use crate::error::Error;

/// The directory in which Debian installs ibsim's example nets.
const IBSIM_EXAMPLES: &str = "/usr/share/doc/ibsim-utils/net-examples";

/// The environment variable that names the directory of real topologies.
const TOPOLOGIES: &str = "RSM_TOPOLOGIES";

/// The example nets of ibsim, sorted by name.
///
/// # Errors
///
/// The directory of the examples cannot be read.
pub fn ibsim_examples() -> Result<Vec<PathBuf>, Error> {
    let mut nets = files_of(Path::new(IBSIM_EXAMPLES))?;
    nets.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("net"))
    });
    Ok(nets)
}

/// The example net of ibsim with the name `name`.
#[must_use]
pub fn ibsim_example(name: &str) -> PathBuf {
    Path::new(IBSIM_EXAMPLES).join(name)
}

/// Real fabrics in ibnetdiscover's output format, sorted by name; empty if the collection
/// (`../shared/data/topologies`, or `RSM_TOPOLOGIES`) is absent.
///
/// # Errors
///
/// The directory of the collection cannot be read.
pub fn real_topologies() -> Result<Vec<PathBuf>, Error> {
    let directory = std::env::var_os(TOPOLOGIES).map_or_else(
        || crate::binaries::workspace().join("../shared/data/topologies"),
        PathBuf::from,
    );
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut nets = files_of(&directory)?;
    nets.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    Ok(nets)
}

/// The fabric with the port GUIDs that ibsim assigns in place of the file's GUIDs, so that ibsim's
/// dumps name ports of the fabric; unchanged if two ports would share a GUID.
#[must_use]
pub fn as_ibsim_numbers(netlist: &Netlist) -> Netlist {
    let (mut nodes, cables) = netlist.clone().into_parts();
    for node in nodes
        .iter_mut()
        .filter(|node| node.kind != NodeKind::Switch)
    {
        let Guid(guid) = node.guid;
        for (port, spec) in &mut node.ports {
            spec.guid = Guid(guid + u64::from(port.0));
        }
    }
    Netlist::new(nodes, cables).unwrap_or_else(|_| netlist.clone())
}

/// Writes the generated fabric `spec` to a file in `directory`, as `rsm generate` does.
///
/// # Errors
///
/// rsm cannot generate the fabric, or the file cannot be written.
pub fn generate(spec: &str, directory: &Path) -> Result<PathBuf, Error> {
    const GENERATION_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
    let finished = crate::process::Invocation::new(crate::binaries::rsm(), directory)
        .args(["generate", spec])
        .run(GENERATION_LIMIT)?
        .success()?;
    let path = directory.join("generated.net");
    std::fs::write(&path, finished.stdout).map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// The fabric with a LID for every port to which a switch forwards packets. Ports keep their LIDs
/// where possible.
///
/// # Errors
///
/// The fabric needs more LIDs than exist.
pub fn with_lids(netlist: Netlist) -> Result<Netlist, TopologyError> {
    let topology = Topology::from_netlist(&netlist)?;
    let destinations = topology.destinations().iter();
    let lids: BTreeMap<Guid, Lid> = destinations.map(|found| (found.guid, found.lid)).collect();
    let (mut nodes, cables) = netlist.into_parts();
    for node in &mut nodes {
        let ports: Vec<PortNum> = node.end_ports().collect();
        for port in ports {
            let mut spec = node.port(port);
            if let Some(&lid) = lids.get(&spec.guid) {
                spec.lid = lid;
                node.ports.insert(port, spec);
            }
        }
    }
    Ok(Netlist::new(nodes, cables).expect("only LIDs are different"))
}

/// The paths of the entries of a directory, sorted.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let read_error = |source| Error::Read {
        path: directory.to_owned(),
        source,
    };
    let mut files = std::fs::read_dir(directory)
        .map_err(read_error)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(read_error)?;
    files.sort();
    Ok(files)
}
