//! Opens the port through which the daemon manages the subnet: hardware, or a simulated fabric.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::trace::{PcapngWriter, Trace, Traced};
use rsm_mad::transport::umad::{self, UmadError, UmadSelector, UmadTransport};
use rsm_mad::transport::{
    Datagram, IsSmError, LocalPort, PerformancePort, SaPort, SendError, Sinks, Transport,
};
use rsm_mad::wire::attr::PortState;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::Sim;
use rsm_sim::live::{self, SimHandle, SimTransport};
use rsm_sim_host::seen;
use rsm_store::StoreFabric;

use super::findings::{DaemonFindings, DaemonPart};
use crate::offline;

/// Fabric to use: `umad`, `umad:CA`, `umad:CA:PORT` or `sim:SPEC`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricSpec {
    /// Hardware port.
    Umad {
        /// Name of the channel adapter; `None` to choose the first with a link.
        ca: Option<String>,
        /// Port number at the adapter; `None` to choose the first port with a link.
        port: Option<PortNum>,
    },
    /// Simulated fabric: a generator's specification, or a file in ibnetdiscover's or ibsim's
    /// format.
    Sim(String),
}

impl FabricSpec {
    /// Kind of the fabric, as the store records it. `umad` is a simulated fabric if `rsm sim run`
    /// started this process. Otherwise `umad` counts as hardware, even if the library of ibsim or
    /// of `rsm sim run` is preloaded.
    #[must_use]
    pub fn store_fabric(&self) -> StoreFabric {
        match self {
            FabricSpec::Sim(_) => StoreFabric::Simulation,
            FabricSpec::Umad { .. } if seen::is_run_on_a_simulation() => StoreFabric::Simulation,
            FabricSpec::Umad { .. } => StoreFabric::Hardware,
        }
    }
}

impl FromStr for FabricSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<FabricSpec, String> {
        if let Some(spec) = text.strip_prefix("sim:") {
            return Ok(FabricSpec::Sim(spec.to_owned()));
        }
        let expected = || {
            format!(
                "`{text}` names no fabric: expected umad, umad:CA, umad:CA:PORT, sim:GENERATOR or sim:FILE"
            )
        };
        let mut parts = text.splitn(3, ':');
        if parts.next() != Some("umad") {
            return Err(expected());
        }
        let ca = parts.next().filter(|ca| !ca.is_empty()).map(str::to_owned);
        let port = match parts.next() {
            Some(number) => Some(PortNum(number.parse().map_err(|_| expected())?)),
            None => None,
        };
        Ok(FabricSpec::Umad { ca, port })
    }
}

impl std::fmt::Display for FabricSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FabricSpec::Sim(spec) => write!(f, "sim:{spec}"),
            FabricSpec::Umad { ca, port } => {
                f.write_str("umad")?;
                if let Some(ca) = ca {
                    write!(f, ":{ca}")?;
                }
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                Ok(())
            }
        }
    }
}

/// Role in which the daemon uses a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    /// Acts as a subnet manager: receives traps and requests of other nodes.
    Manager,
    /// Sends only Gets, beside a subnet manager that may run on the same port.
    Observer,
}

/// Open port of hardware or of a simulated fabric.
pub(super) enum Attachment {
    Umad(UmadTransport),
    Sim(SimTransport),
}

/// Sending half of a port for the general services: the SA, and performance management.
pub(super) trait GsPort: SaPort + PerformancePort {}

impl<P: SaPort + PerformancePort> GsPort for P {}

impl Transport for Attachment {
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        match self {
            Attachment::Umad(port) => port.send(datagram, timeout),
            Attachment::Sim(port) => port.send(datagram, timeout),
        }
    }

    fn local_port(&self) -> LocalPort {
        match self {
            Attachment::Umad(port) => port.local_port(),
            Attachment::Sim(port) => port.local_port(),
        }
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        match self {
            Attachment::Umad(port) => port.set_is_sm(on),
            Attachment::Sim(port) => port.set_is_sm(on),
        }
    }
}

/// Port, with or without a trace of its datagrams.
pub(super) enum Line {
    Plain(Attachment),
    Traced(Traced<Attachment>, Trace),
}

impl Line {
    /// Transport of the core.
    pub(super) fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Line::Plain(port) => port,
            Line::Traced(port, _) => port,
        }
    }

    /// Whether an arrived datagram has not been passed to a sink yet.
    pub(super) fn has_unread(&self) -> bool {
        let port = match self {
            Line::Plain(port) => port,
            Line::Traced(port, _) => port.get_ref(),
        };
        match port {
            Attachment::Umad(port) => port.has_unread(),
            Attachment::Sim(port) => port.has_unread(),
        }
    }

    /// Sending half for the SA and for performance management.
    pub(super) fn sender(&mut self) -> Arc<dyn GsPort> {
        let (port, trace) = match self {
            Line::Plain(port) => (port, None),
            Line::Traced(port, trace) => (port.get_mut(), Some(trace)),
        };
        match (port, trace) {
            (Attachment::Umad(port), None) => Arc::new(port.sa()),
            (Attachment::Umad(port), Some(trace)) => Arc::new(trace.sa(port.sa())),
            (Attachment::Sim(port), None) => Arc::new(port.sa()),
            (Attachment::Sim(port), Some(trace)) => Arc::new(trace.sa(port.sa())),
        }
    }

    /// Opens the port again after its device vanished.
    pub(super) fn reopen(&mut self) -> anyhow::Result<()> {
        let port = match self {
            Line::Plain(port) => port,
            Line::Traced(port, _) => port.get_mut(),
        };
        match port {
            Attachment::Umad(port) => Ok(port.reopen()?),
            // A simulated port does not vanish.
            Attachment::Sim(_) => Ok(()),
        }
    }

    /// Flushes the buffered trace.
    pub(super) fn finish(&mut self) {
        if let Line::Traced(_, trace) = self {
            // `report_trace_end` reports this error as it reports any other error of the trace.
            let _ = trace.flush();
        }
    }
}

/// Creates the file of a trace, which has M_Keys and SA keys in it: only its owner may read it. Does
/// not follow a symbolic link, which another user may have put there.
fn create_trace(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
    // The file may have been there before, with another mode.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens the port that `spec` names. If `spec` names no adapter, opens the port with the configured
/// GUID (`sm.guid`). For a simulated fabric, also returns its handle and netlist.
pub(super) fn open(
    spec: &FabricSpec,
    guid: Option<Guid>,
    trace: Option<&Path>,
    clock: impl Fn() -> Time + Send + Sync + 'static,
    sinks: Sinks,
    findings: &DaemonFindings,
    presence: Presence,
) -> anyhow::Result<(Line, Option<Simulated>)> {
    let trace = match trace {
        Some(path) => {
            let file = create_trace(path)
                .with_context(|| format!("cannot write the trace {}", path.display()))?;
            let writer = PcapngWriter::new(BufWriter::new(file), &spec.to_string())
                .with_context(|| format!("cannot write the trace {}", path.display()))?;
            let trace = Trace::new(writer, clock);
            report_trace_end(&trace, path, findings.clone());
            Some(trace)
        }
        None => None,
    };
    let sinks = match &trace {
        Some(trace) => trace.sinks(sinks),
        None => sinks,
    };
    let (port, simulated) = match spec {
        FabricSpec::Umad { ca, port } => {
            let selector = UmadSelector {
                ca: ca.clone(),
                port: *port,
                guid: guid.filter(|_| ca.is_none()),
            };
            let port = match presence {
                Presence::Manager => umad::open(&selector, sinks),
                Presence::Observer => umad::observe(&selector, sinks),
            };
            let port = port.map_err(|error| explain(error, &selector))?;
            warn_if_another_port(guid, &port.local_port());
            if selector.ca.is_none()
                && selector.guid.is_none()
                && let Some(warning) = choice_warning(&umad::list_ports()?, &port.local_port())
            {
                tracing::warn!("{warning}");
            }
            (Attachment::Umad(port), None)
        }
        FabricSpec::Sim(spec) => {
            let (netlist, config) = offline::simulated(spec)?;
            let (node, port) = match guid {
                Some(guid) => attachment_at(&netlist, guid)?,
                None => default_attachment(&netlist).with_context(|| {
                    format!("no host in {spec} has a cable to manage the fabric through")
                })?,
            };
            let sim = Sim::new(&netlist, config, SEED)?;
            let handle = live::spawn(sim)?;
            let transport = handle.attach(node, port, sinks)?;
            (
                Attachment::Sim(transport),
                Some(Simulated { handle, netlist }),
            )
        }
    };
    let line = match trace {
        Some(trace) => Line::Traced(trace.transport(port), trace),
        None => Line::Plain(port),
    };
    Ok((line, simulated))
}

/// Adds to the error what the operator can do, or the option that chose the port.
fn explain(error: UmadError, selector: &UmadSelector) -> anyhow::Error {
    let context = match (&error, selector.guid) {
        (UmadError::NoAdapter | UmadError::Library(_), _) => {
            "no hardware to manage (without any: --fabric sim:superpod:su=1)"
        }
        (UmadError::NoLink { .. } | UmadError::Register { .. }, _) => {
            "no port to manage the subnet through: name one with --fabric umad:CA:PORT or sm.guid"
        }
        (_, Some(_)) => "the port of sm.guid",
        (_, None) => "the port of --fabric",
    };
    anyhow::Error::new(error).context(context)
}

/// Warns if `--fabric` names an adapter that lacks the port of `sm.guid`.
fn warn_if_another_port(configured: Option<Guid>, opened: &LocalPort) {
    if let Some(guid) = configured.filter(|&guid| guid != opened.port_guid) {
        tracing::warn!(
            "sm.guid is {guid}, and --fabric names {}:{} with GUID {}: the command line holds",
            opened.ca,
            opened.port,
            opened.port_guid
        );
    }
}

/// The warning that no port was named although several ports of this host have a link, which may
/// belong to different fabrics; `None` if only one has a link. `opened` is the port in use.
fn choice_warning(ports: &[LocalPort], opened: &LocalPort) -> Option<String> {
    let has_link = |port: &&LocalPort| {
        matches!(
            port.state,
            PortState::Init | PortState::Armed | PortState::Active
        )
    };
    let describe = |port: &LocalPort| {
        format!(
            "{}:{} (GUID {}, {})",
            port.ca, port.port, port.port_guid, port.state
        )
    };
    let linked: Vec<String> = ports.iter().filter(has_link).map(describe).collect();
    (linked.len() > 1).then(|| {
        format!(
            "several ports of this host have a link, and none is named: {}. rsm manages the fabric at the first one, {}:{}; \
             name the port with --fabric umad:CA:PORT or sm.guid",
            linked.join(", "),
            opened.ca,
            opened.port
        )
    })
}

/// Reports a finding when the trace ends early. The trace does not resume, because no reader can
/// read past a partly written record.
fn report_trace_end(trace: &Trace, path: &Path, findings: DaemonFindings) {
    let path = path.display().to_string();
    trace.on_error(move |error| {
        let text = format!(
            "the trace {path} has ended ({error}): datagrams are not recorded any more, traffic goes on; make room there, \
             and start rsm again for another trace"
        );
        findings.fail(DaemonPart::Trace, text);
    });
}

/// Seed of the simulation's faults. The daemon runs in real time, so no seed makes a run
/// repeatable, and any fixed seed serves.
pub(super) const SEED: u64 = 1;

/// Simulated fabric that runs.
pub(super) struct Simulated {
    pub(super) handle: SimHandle,
    pub(super) netlist: Netlist,
}

/// Port of the subnet manager in a simulated fabric: a cabled port of the host with the lowest GUID
/// among hosts with a cable; without such a host, port 0 of the switch with the lowest GUID. `None`
/// if there is neither.
pub(super) fn default_attachment(netlist: &Netlist) -> Option<(Guid, PortNum)> {
    let nodes = netlist.nodes();
    let host = netlist
        .cables()
        .iter()
        .flat_map(|cable| [cable.a, cable.b])
        .map(|end| (&nodes[end.0], end.1))
        .filter(|(node, _)| node.kind == NodeKind::Ca && !node.is_aggregation_node())
        .min_by_key(|(node, port)| (node.guid, *port))
        .map(|(node, port)| (node.guid, port));
    host.or_else(|| {
        let switch = nodes.iter().filter(|node| node.kind == NodeKind::Switch);
        switch.map(|node| (node.guid, PortNum::ZERO)).min()
    })
}

/// Largest number of GUIDs of a simulated fabric that an error names; the error counts the others.
const NAMED_GUIDS: usize = 8;

/// Port of a simulated fabric with the GUID `guid`, as node GUID and number. Fails if no end port
/// has this GUID.
fn attachment_at(netlist: &Netlist, guid: Guid) -> anyhow::Result<(Guid, PortNum)> {
    let nodes = netlist.nodes();
    if let Some((node, port)) = netlist.by_port_guid(guid) {
        return Ok((nodes[node].guid, port));
    }
    let guids = nodes.iter().flat_map(|node| {
        node.end_ports()
            .map(|port| node.port(port).guid.to_string())
    });
    let mut named: Vec<String> = guids.collect();
    let more = named.len().saturating_sub(NAMED_GUIDS);
    named.truncate(NAMED_GUIDS);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    anyhow::bail!(
        "sm.guid: no port has the GUID {guid}; there are: {}{more}",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_is_for_its_owner_alone_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        std::fs::write(&old, "before").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        for path in [&new, &old] {
            create_trace(path).unwrap();
            assert_eq!((mode(path), std::fs::read(path).unwrap().len()), (0o600, 0));
        }
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        create_trace(&link).unwrap_err();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    }

    #[test]
    fn warning_names_all_ports_with_a_link_if_none_is_named() {
        let port = |ca: &str, state| LocalPort {
            ca: ca.to_owned(),
            port: PortNum(1),
            node_guid: Guid(1),
            port_guid: Guid(0x21),
            lid: rsm_ids::Lid::NONE,
            sm_lid: rsm_ids::Lid::NONE,
            state,
        };
        let ports = [
            port("mlx5_0", PortState::Down),
            port("mlx5_1", PortState::Init),
            port("mlx5_2", PortState::Active),
        ];
        let warning = choice_warning(&ports, &ports[1]).expect("two ports have a link");
        for part in [
            "mlx5_1:1 (GUID 0x0000000000000021, Init), mlx5_2:1",
            "at the first one, mlx5_1:1",
            "--fabric umad:CA:PORT or sm.guid",
        ] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        assert!(!warning.contains("mlx5_0"), "{warning}");
        assert_eq!(choice_warning(&ports[..2], &ports[1]), None);
    }

    #[test]
    fn port_with_the_configured_guid_is_used_and_an_unknown_guid_is_an_error() {
        let netlist = rsm_routing::generate::generate("fat-tree:k=4,levels=2").expect("a fabric");
        let is_host = |node: &&rsm_routing::netlist::Node| node.kind == NodeKind::Ca;
        let last = netlist.nodes().iter().rfind(is_host).expect("a host");
        let guid = last.port(PortNum(1)).guid;
        let found = attachment_at(&netlist, guid).expect("the port is there");
        assert_eq!(found, (last.guid, PortNum(1)));
        assert_ne!(Some(found), default_attachment(&netlist));
        let error = attachment_at(&netlist, Guid(5)).expect_err("no such port");
        let text = error.to_string();
        let first = netlist.nodes().iter().find(is_host).expect("a host");
        let first = first.port(PortNum(1)).guid;
        assert!(
            text.contains("no port has the GUID 0x0000000000000005"),
            "{text}"
        );
        assert!(
            text.contains(&first.to_string()) && text.contains("more"),
            "{text}"
        );
    }
}
