//! Runs ibdmchk on tables that no subnet manager has written.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::{Lid, PortNum};
use rsm_routing::netlist::{Cable, CableEnd, Netlist, Node, NodeKind};
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_view::dump::{
    DumpLink, DumpNode, DumpPort, DumpSource, DumpTables, HopRule, LinkState, write_all,
};

use super::check_dumps;
use crate::error::Error;
use crate::parse::ibdmchk;

/// Writes a fabric and its tables, from any engine, into `directory` in OpenSM's formats, and runs
/// ibdmchk on these files.
///
/// # Errors
///
/// ibdmchk stops before a verdict, as it does at a missing path, or the files cannot be written.
pub fn check_tables(
    netlist: &Netlist,
    topology: &Topology,
    tables: &Tables,
    directory: &Path,
) -> Result<ibdmchk::Verdict, Error> {
    let mut cables: BTreeMap<CableEnd, Cable> = BTreeMap::new();
    for &cable in netlist.cables() {
        cables.insert(cable.a, cable);
        cables.insert(cable.b, cable);
    }
    let nodes = netlist.nodes().iter().enumerate();
    let nodes = nodes
        // A port without a cable has no LID, and no dump contains it.
        .filter(|(_, node)| {
            node.end_ports()
                .any(|port| node.port(port).lid != Lid::NONE)
        })
        .map(|(index, node)| dump_node(netlist, (index, node), &cables, topology, tables))
        .collect();
    let manager = topology
        .destinations()
        .iter()
        .find(|d| d.kind.is_host())
        .expect("the fabric has hosts");
    let source = DumpSource::new(nodes, manager.lid, HopRule::Shortest).expect("LIDs are unique");
    write_all(directory, &source).map_err(|error| Error::Output {
        program: "the dump for ibdmchk".into(),
        detail: error.to_string(),
    })?;
    check_dumps(directory)
}

/// A node of the dump, with all links Active.
fn dump_node<'a>(
    netlist: &'a Netlist,
    (index, node): (usize, &'a Node),
    cables: &BTreeMap<CableEnd, Cable>,
    topology: &Topology,
    tables: &'a Tables,
) -> DumpNode<'a> {
    let is_switch = node.kind == NodeKind::Switch;
    let numbers = (u8::from(!is_switch)..=node.num_ports).map(PortNum);
    let ports = numbers.map(|number| {
        let spec = node.port(number);
        let has_lid = !is_switch || number == PortNum::ZERO;
        let link = cables.get(&(index, number)).map(|cable| {
            let (peer, port) = cable.across((index, number));
            DumpLink {
                node: netlist.nodes()[peer].guid,
                port,
                width: cable.width,
                speed: cable.speed,
                state: LinkState::Active,
            }
        });
        let port = DumpPort {
            guid: spec.guid,
            lid: if has_lid { spec.lid } else { Lid::NONE },
            lmc: spec.lmc,
            link,
        };
        (number, port)
    });
    let tables = topology.switch_by_guid(node.guid).map(|switch| DumpTables {
        linear: tables.lft(switch).clone(),
        multicast: BTreeMap::new(),
    });
    DumpNode {
        kind: node.kind,
        guid: node.guid,
        system_image_guid: node.guid,
        vendor_id: node.vendor_id,
        device_id: node.device_id,
        revision: 0,
        description: &node.description,
        num_ports: node.num_ports,
        ports: ports.collect(),
        tables,
    }
}
