//! Compares the routes of OpenSM's dump with the planned ones.
//!
//! OpenSM dumps its tables only if its log flags say so. `neighbors` has the cables, without their
//! rates: all links count as equally fast, and the dry run beside OpenSM compares again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_config::{CableEnd, ConfigSeverity, load_guid_file};
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::engine::{self, AbsentRoots, EngineKind, Options};
use rsm_routing::lfts::{self, Dump};
use rsm_routing::netlist::{
    Cable, LinkSpeed, LinkWidth, MAX_DESCRIPTION, MAX_PORTS, Netlist, Node, NodeKind, PortSpec,
};
use rsm_routing::topology::Topology;
use rsm_view::publish::routes_compared::RoutesCompared;

use super::source::{self, Files, SourceError};
use super::{Migration, line};

/// OpenSM's dump of forwarding tables, in its folder of dumps.
const FILE: &str = "opensm-lfts.dump";

/// Compares the tables of OpenSM's dump with the routes of the configured engine over the
/// cables `neighbors`. Nothing is compared without a dump or cables, or for the engine `file`,
/// whose routes are those of a file.
pub(super) fn compare_routes(
    migration: &mut Migration,
    files: &mut Files,
) -> Result<(), SourceError> {
    let path = migration.dump_folder(files).join(FILE);
    let is_file = migration.config.routing.engine == EngineKind::File;
    if migration.cables.is_empty() || is_file || !source::is_present(&path) {
        return Ok(());
    }
    let place = path.display().to_string();
    let text = match files.text(&path, &mut migration.findings) {
        Err(SourceError::TooLong { .. }) => {
            let found = "the file is too long to compare routes here".to_owned();
            report_not_compared(migration, &place, found);
            return Ok(());
        }
        text => text?,
    };
    let text = text.unwrap_or_default();
    let dump = match lfts::parse(text.as_bytes(), &place) {
        Ok(dump) => dump,
        Err(error) => {
            let place = format!("{place}:{}", error.line);
            report_not_compared(migration, &place, error.reason.to_string());
            return Ok(());
        }
    };
    let count = dump.switches.len();
    files.set_content(
        &path,
        format!("tables of {count} switches, compared as if all links had one rate"),
    );
    match compared(migration, &dump, &names(&text)) {
        Ok(routes) => migration.routes = routes,
        Err(why) => report_not_compared(migration, &place, why),
    }
    Ok(())
}

/// Adds a note that routes are not compared, because of `found`.
fn report_not_compared(migration: &mut Migration, place: &str, found: String) {
    let instead = "the dry run compares routes with those in the switches".to_owned();
    let finding = line::finding(place, ConfigSeverity::Note, found, instead);
    migration.findings.push(finding);
}

/// Compares the dump with the routes of the configured engine; `None` if they do not differ.
///
/// # Errors
/// The reason why the cables, or the engine's routes over them, cannot be used.
fn compared(
    migration: &Migration,
    dump: &Dump,
    names: &BTreeMap<Guid, &str>,
) -> Result<Option<RoutesCompared>, String> {
    let netlist = netlist(migration, dump, names)?;
    let topology = Topology::from_netlist(&netlist);
    let topology = topology.map_err(|error| format!("its fabric has no routes: {error}"))?;
    let roots = match &migration.config.routing.root_guid_file {
        Some(file) => roots(file)?,
        None => Vec::new(),
    };
    let options = Options {
        root_guids: roots,
        absent_roots: AbsentRoots::LeaveOut,
        ..Options::default()
    };
    let engine = migration.config.routing.engine;
    let planned = engine::route(engine, &topology, &options, None);
    let planned = planned.map_err(|error| format!("{engine} finds no routes here: {error}"))?;
    let held = dump.fit(&topology).tables;
    Ok(RoutesCompared::between(&topology, &held, &planned.tables))
}

/// The fabric with the cables of OpenSM's table. Switches are the GUIDs that have tables or
/// several cables; every other GUID is a port of a channel adapter.
///
/// # Errors
/// The cables contradict each other.
fn netlist(
    migration: &Migration,
    dump: &Dump,
    names: &BTreeMap<Guid, &str>,
) -> Result<Netlist, String> {
    let mut ports: BTreeMap<Guid, BTreeSet<u8>> = BTreeMap::new();
    for &(guid, port) in migration.cables.iter().flat_map(|(a, b)| [a, b]) {
        ports.entry(guid).or_default().insert(port);
    }
    let tables: BTreeSet<Guid> = dump.switches.iter().map(|switch| switch.guid).collect();
    let node = |(&guid, ports): (&Guid, &BTreeSet<u8>)| {
        let is_switch = tables.contains(&guid) || ports.len() > 1;
        let last = ports.last().copied().unwrap_or(1);
        let claim = migration.claims.get(&guid);
        let spec = PortSpec {
            guid,
            lid: claim.map_or(Lid::NONE, |claim| claim.lid),
            lmc: claim.map_or(Lmc::ZERO, |claim| claim.lmc),
        };
        let name = names.get(&guid).copied().unwrap_or_default();
        Node {
            kind: match is_switch {
                true => NodeKind::Switch,
                false => NodeKind::Ca,
            },
            guid,
            system_image_guid: Guid::ZERO,
            vendor_id: 0,
            device_id: 0,
            // Names distinguish the reduction engines of switches from hosts.
            description: name.bytes().take(MAX_DESCRIPTION).collect(),
            num_ports: last.min(MAX_PORTS),
            enhanced_port0: false,
            ports: BTreeMap::from([(PortNum(if is_switch { 0 } else { last }), spec)]),
        }
    };
    let nodes: Vec<Node> = ports.iter().map(node).collect();
    let number: BTreeMap<Guid, usize> = ports.keys().copied().zip(0..).collect();
    let end = |&(guid, port): &CableEnd| (number[&guid], PortNum(port));
    let cable = |(a, b): &(CableEnd, CableEnd)| Cable {
        a: end(a),
        b: end(b),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    };
    let cables: Vec<Cable> = migration.cables.iter().map(cable).collect();
    Netlist::new(nodes, cables).map_err(|error| format!("the cables of neighbors: {error}"))
}

/// The names of the ports in a dump, whose lines end in `portguid 0xGUID: 'NAME'`.
fn names(text: &str) -> BTreeMap<Guid, &str> {
    text.lines().filter_map(name).collect()
}

/// The port GUID and the name at the end of a line.
fn name(line: &str) -> Option<(Guid, &str)> {
    let (_, port) = line.split_once("portguid 0x")?;
    let (guid, name) = port.split_once(": '")?;
    let guid = u64::from_str_radix(guid, 16).ok()?;
    Some((Guid(guid), name.trim_end().strip_suffix('\'')?))
}

/// GUIDs of the root switches in a file.
fn roots(file: &Path) -> Result<Vec<Guid>, String> {
    let roots = load_guid_file(file).map_err(|error| error.to_string())?;
    Ok(roots.into_iter().collect())
}
