//! Names of parts in a report.

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;

/// `leaf-03:7`, in the form that names the port on a command line.
pub(super) fn port_name(fabric: &Fabric, port: PortKey) -> String {
    format!("{}:{}", fabric.name(port.node), port.port)
}

/// `leaf-03:7 - spine-01:4`.
pub(super) fn cable_name(fabric: &Fabric, one: PortKey, other: PortKey) -> String {
    format!("{} - {}", port_name(fabric, one), port_name(fabric, other))
}
