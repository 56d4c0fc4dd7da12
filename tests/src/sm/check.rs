//! The state of a subnet as diagnostics see it after bring-up by any subnet manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::ibsim::{Ibsim, SimNode, read_nodes};
use crate::parse::{ibdmchk, iblinkinfo};
use crate::process::Invocation;

/// The port states of a subnet as iblinkinfo reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStates {
    /// The number of ports of CAs and switches (without port 0) whose link is up and Active.
    pub active: u64,
    /// The ports whose link is up in another state, as printed, without ports with a loop-back
    /// plug.
    pub not_active: Vec<String>,
    /// The ports, by node GUID and port number, whose loop-back plug is not Active.
    pub idle_plugs: BTreeSet<(u64, u8)>,
    /// The number of links: pairs of ports with a cable between them.
    pub links: u64,
    /// The base LID of each end port (port GUID of a CA, node GUID of a switch); 0 before the port
    /// has a LID.
    pub lids: BTreeMap<u64, u16>,
}

/// Runs iblinkinfo, attached to `host`, for the state of every port that it reaches.
///
/// # Errors
///
/// iblinkinfo fails, or prints lines of another form.
pub fn check_states(ibsim: &Ibsim, host: &str) -> Result<PortStates, Error> {
    let finished = ibsim.diagnose(host, "iblinkinfo", &["--line"])?.success()?;
    let lines = iblinkinfo::parse(&finished.stdout)?;
    let mut states = PortStates {
        active: 0,
        not_active: Vec::new(),
        idle_plugs: BTreeSet::new(),
        links: 0,
        lids: BTreeMap::new(),
    };
    let mut links = BTreeSet::new();
    for line in lines.iter().filter(|line| line.is_up()) {
        states.lids.insert(line.guid, line.lid);
        let is_plug = line
            .peer
            .is_some_and(|peer| (peer.guid, peer.port) == (line.guid, line.port));
        if line.is_active() {
            states.active += 1;
        } else if is_plug {
            states.idle_plugs.insert((line.guid, line.port));
        } else {
            let port = format!("{:#018x}[{}] {}", line.guid, line.port, line.state);
            states.not_active.push(port);
        }
        if let Some(peer) = line.peer.filter(|_| !is_plug) {
            states.lids.insert(peer.guid, peer.lid);
            let (near, far) = ((line.guid, line.port), (peer.guid, peer.port));
            links.insert((near.min(far), near.max(far)));
        }
    }
    states.links = links.len() as u64;
    Ok(states)
}

/// Runs ibnetdiscover, attached to `host`, for every node that it reaches.
///
/// # Errors
///
/// ibnetdiscover fails.
pub fn discovered_nodes(ibsim: &Ibsim, host: &str) -> Result<Vec<SimNode>, Error> {
    let finished = ibsim.diagnose(host, "ibnetdiscover", &[])?.success()?;
    Ok(read_nodes(&finished.stdout))
}

/// Runs ibdmchk on the routes dumped in `directory` (opensm-subnet.lst and opensm.fdbs).
///
/// # Errors
///
/// ibdmchk stops before a verdict.
pub fn check_dumps(directory: &Path) -> Result<ibdmchk::Verdict, Error> {
    const CHECK_LIMIT: Duration = Duration::from_secs(300);
    // ibdmchk needs a file of multicast tables, which may be empty.
    let multicast = directory.join("opensm.mcfdbs");
    if !multicast.exists() {
        std::fs::write(&multicast, "").map_err(|source| Error::Write {
            path: multicast.clone(),
            source,
        })?;
    }
    let finished = Invocation::new("ibdmchk", directory)
        .args([
            "-s",
            "opensm-subnet.lst",
            "-f",
            "opensm.fdbs",
            "-m",
            "opensm.mcfdbs",
            "-l",
            "0",
        ])
        .run(CHECK_LIMIT)?;
    ibdmchk::parse(&finished.stdout)
}
