//! Names of parts in a report.

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;

/// The name of a port in the form of a command line: `leaf-03:7`.
pub(super) fn port_name(fabric: &Fabric, port: PortKey) -> String {
    format!("{}:{}", fabric.name(port.node), port.port)
}

/// The name of a cable, such as `leaf-03:7 - spine-01:4`.
pub(super) fn cable_name(fabric: &Fabric, one: PortKey, other: PortKey) -> String {
    format!("{} - {}", port_name(fabric, one), port_name(fabric, other))
}
