//! The directory that replaces a node's part of sysfs; it has the structure of `/sys/class`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{
    LinkSpeed, NodeInfo, NodeType, PKey, PortInfo, PortPhysicalState, PortState,
};
use rsm_sim::{Sim, SimError};

use crate::abi::ABI_VERSION;
use crate::seen::{ADAPTER, BOARD_ID};

/// The P_Key of a table that was never written.
const DEFAULT_P_KEY: PKey = PKey(0xFFFF);

/// The content of sysfs for a node.
#[derive(Debug)]
pub(super) struct NodeFacts {
    info: NodeInfo,
    description: String,
    ports: Vec<PortFacts>,
}

/// The content of sysfs for a port.
#[derive(Debug)]
struct PortFacts {
    number: PortNum,
    guid: Guid,
    info: PortInfo,
    p_keys: Vec<PKey>,
}

impl NodeFacts {
    /// Reads the facts of `ports` of a node.
    pub(super) fn of(sim: &Sim, node: Guid, ports: &[PortNum]) -> Result<NodeFacts, SimError> {
        let facts = |&number: &PortNum| {
            Ok::<_, SimError>(PortFacts {
                number,
                guid: sim.port_guid(node, number)?,
                info: *sim.port_info(node, number)?,
                p_keys: sim.p_keys(node, number)?,
            })
        };
        Ok(NodeFacts {
            info: sim.node_info(node)?,
            description: String::from_utf8_lossy(sim.description(node)?).into_owned(),
            ports: ports.iter().map(facts).collect::<Result<_, _>>()?,
        })
    }

    /// The contents of the files, by path below `/sys/class`.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut file = |path: String, line: String| files.insert(path, line + "\n");
        file("infiniband_mad/abi_version".into(), ABI_VERSION.to_string());
        let info = &self.info;
        let adapter = format!("infiniband/{ADAPTER}");
        let kind = match info.node_type() {
            NodeType::Ca => "1: CA",
            NodeType::Switch => "2: SWITCH",
            NodeType::Router => "3: ROUTER",
            _ => "0: <unknown>",
        };
        for (name, line) in [
            ("node_type", kind.to_owned()),
            ("node_guid", colons(info.node_guid().0)),
            ("sys_image_guid", colons(info.system_image_guid().0)),
            ("node_desc", self.description.clone()),
            ("fw_ver", "1.0.0".to_owned()),
            ("hw_rev", format!("{:x}", info.revision())),
            ("hca_type", "simulated".to_owned()),
            ("board_id", BOARD_ID.to_owned()),
        ] {
            file(format!("{adapter}/{name}"), line);
        }
        for (device, port) in self.ports.iter().enumerate() {
            for kind in ["umad", "issm"] {
                let device = format!("infiniband_mad/{kind}{device}");
                file(format!("{device}/ibdev"), ADAPTER.to_owned());
                file(format!("{device}/port"), port.number.to_string());
            }
            for (name, line) in port.lines() {
                file(format!("{adapter}/ports/{}/{name}", port.number), line);
            }
        }
        files
    }
}

impl PortFacts {
    /// The files of the port, each with its path below the folder of the port and its line.
    fn lines(&self) -> Vec<(String, String)> {
        let info = &self.info;
        let line = |name: &str, line: String| (name.to_owned(), line);
        let mut lines = vec![
            line("lid", format!("{:#x}", info.lid().0)),
            line("lid_mask_count", info.lmc().get().to_string()),
            line("sm_lid", format!("{:#x}", info.master_sm_lid().0)),
            line("sm_sl", info.master_sm_sl().to_string()),
            line("state", state(info.port_state())),
            line("phys_state", physical_state(info.port_physical_state())),
            line("rate", rate(info)),
            line("cap_mask", format!("{:#010x}", info.capability_mask().0)),
            line("link_layer", "InfiniBand".to_owned()),
            line(
                "gids/0",
                format!("{}:{}", colons(info.gid_prefix()), colons(self.guid.0)),
            ),
        ];
        let p_keys: &[PKey] = match &self.p_keys[..] {
            [] => &[DEFAULT_P_KEY],
            written => written,
        };
        for (index, p_key) in p_keys.iter().enumerate() {
            lines.push((format!("pkeys/{index}"), format!("{:#06x}", p_key.0)));
        }
        lines
    }
}

/// The number in the format of sysfs: four groups of four hexadecimal digits with colons between
/// them.
fn colons(bits: u64) -> String {
    let mut text = String::new();
    for shift in [48, 32, 16, 0] {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{}{:04x}",
            if shift == 48 { "" } else { ":" },
            bits >> shift & 0xFFFF
        );
    }
    text
}

/// The logical state of a port in the format of sysfs: number and name.
fn state(state: PortState) -> String {
    let name = match state {
        PortState::Down => "DOWN",
        PortState::Init => "INIT",
        PortState::Armed => "ARMED",
        PortState::Active => "ACTIVE",
        _ => "<unknown>",
    };
    format!("{}: {name}", state.code())
}

/// The physical state of a port in the format of sysfs: number and name.
fn physical_state(state: PortPhysicalState) -> String {
    let name = match state {
        PortPhysicalState::Sleep => "Sleep",
        PortPhysicalState::Polling => "Polling",
        PortPhysicalState::Disabled => "Disabled",
        PortPhysicalState::PortConfigurationTraining => "PortConfigurationTraining",
        PortPhysicalState::LinkUp => "LinkUp",
        PortPhysicalState::LinkErrorRecovery => "LinkErrorRecovery",
        PortPhysicalState::PhyTest => "Phy Test",
        _ => "<unknown>",
    };
    format!("{}: {name}", state.code())
}

/// The rate of a link as text, with its width and speed. The rate of one lane is counted in tenths
/// of Gb/s, as in Linux.
fn rate(info: &PortInfo) -> String {
    let Some(rate) = info.link_rate() else {
        // A port without a link, such as port 0 of a switch.
        return "2.5 Gb/sec (1X)".to_owned();
    };
    let (tenths, name) = match rate.speed {
        LinkSpeed::Sdr => (25, ""),
        LinkSpeed::Ddr => (50, " DDR"),
        LinkSpeed::Qdr => (100, " QDR"),
        LinkSpeed::Fdr10 => (100, " FDR10"),
        LinkSpeed::Fdr => (140, " FDR"),
        LinkSpeed::Edr => (250, " EDR"),
        LinkSpeed::Hdr => (500, " HDR"),
        LinkSpeed::Ndr => (1000, " NDR"),
        LinkSpeed::Xdr => (2000, " XDR"),
    };
    let tenths = tenths * u32::from(rate.lanes);
    let half = if tenths % 10 == 0 { "" } else { ".5" };
    format!("{}{half} Gb/sec ({}X{name})", tenths / 10, rate.lanes)
}

/// The directory of a node, and the content of its files.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    files: BTreeMap<String, String>,
}

impl Tree {
    /// An empty directory, which will be at `root`.
    pub(super) fn new(root: PathBuf) -> Tree {
        Tree {
            root,
            files: BTreeMap::new(),
        }
    }

    /// The path of the directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes the content of `facts`. Files are replaced rather than written to, so that a reader
    /// sees one state.
    pub(super) fn update(&mut self, facts: &NodeFacts) -> io::Result<()> {
        let files = facts.files();
        for (path, text) in &files {
            if self.files.get(path) == Some(text) {
                continue;
            }
            let target = self.root.join(path);
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let new = self.root.join("new");
            std::fs::write(&new, text)?;
            std::fs::rename(&new, &target)?;
        }
        for path in self.files.keys().filter(|path| !files.contains_key(*path)) {
            std::fs::remove_file(self.root.join(path))?;
        }
        self.files = files;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_format_of_sysfs() {
        assert_eq!(colons(0x0002_C903_0000_1234), "0002:c903:0000:1234");
        assert_eq!(state(PortState::Active), "4: ACTIVE");
        assert_eq!(physical_state(PortPhysicalState::Polling), "2: Polling");
        assert_eq!(rate(&PortInfo::default()), "2.5 Gb/sec (1X)");
    }
}
