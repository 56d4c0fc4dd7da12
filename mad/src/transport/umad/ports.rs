use std::fmt;

use rsm_ids::{Guid, PortNum};

use super::UmadError;
use super::ffi::{PortAttributes, Umad};
use crate::transport::LocalPort;
use crate::wire::attr::PortState;

/// The port to open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UmadSelector {
    /// The name of the channel adapter. Without a name, the first adapter with a suitable port is
    /// selected.
    pub ca: Option<String>,
    /// The number of the port. Without a number, the first port whose link is up is selected (Init,
    /// Armed or Active), or else the first port, if the adapter is named or the host has only one
    /// port.
    pub port: Option<PortNum>,
    /// The GUID of the port, in any state.
    pub guid: Option<Guid>,
}

impl fmt::Display for UmadSelector {
    /// Writes the selector as `mlx5_0:1`, with `*` for open fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ca.as_deref().unwrap_or("*"))?;
        match self.port {
            Some(port) => write!(f, ":{port}")?,
            None => f.write_str(":*")?,
        }
        match self.guid {
            Some(guid) => write!(f, " with port GUID {guid}"),
            None => Ok(()),
        }
    }
}

/// The ports as a list for messages: `mlx5_0:1 0x0002c90300001235 Active, mlx5_0:2
/// 0x0002c90300001236 Down`.
pub(super) fn description(ports: &[LocalPort]) -> String {
    let port = |port: &LocalPort| {
        format!(
            "{}:{} {} {}",
            port.ca, port.port, port.port_guid, port.state
        )
    };
    ports.iter().map(port).collect::<Vec<_>>().join(", ")
}

impl PortAttributes {
    pub(super) fn port_state(&self) -> PortState {
        PortState::from_code(self.state)
    }

    /// Whether the port has a link that can carry subnet management packets.
    pub(super) fn is_up(&self) -> bool {
        has_link(self.port_state())
    }

    /// Whether the link layer is InfiniBand. Older kernels do not report the link layer, and
    /// support only InfiniBand.
    fn is_infiniband(&self) -> bool {
        matches!(self.link_layer.as_str(), "" | "IB" | "InfiniBand")
    }
}

/// The properties of a port of the adapter `ca`.
pub(super) fn local_port(
    ca: &str,
    port: PortNum,
    node_guid: Guid,
    attributes: &PortAttributes,
) -> LocalPort {
    LocalPort {
        ca: ca.to_owned(),
        port,
        node_guid,
        port_guid: attributes.port_guid,
        lid: attributes.lid,
        sm_lid: attributes.sm_lid,
        state: attributes.port_state(),
    }
}

/// The adapter that libibumad names on a host without an adapter (`umad_get_cas_names`).
const GUESSED_CA: &str = "mthca0";

/// The InfiniBand ports of this host, adapters in the library's order, ports in ascending order. An
/// adapter or port that cannot be read is left out with a warning: the library may name an adapter
/// that does not exist.
pub(super) fn list(umad: &Umad) -> Vec<LocalPort> {
    let mut ports = Vec::new();
    for name in umad.ca_names() {
        let ca = match umad.ca(&name) {
            Ok(ca) => ca,
            Err(error) if name == GUESSED_CA => {
                tracing::debug!(
                    %error,
                    "there is no channel adapter: libibumad names {GUESSED_CA} when it finds none"
                );
                continue;
            }
            Err(error) => {
                tracing::warn!(
                    ca = name,
                    %error,
                    "cannot read the attributes of the channel adapter"
                );
                continue;
            }
        };
        for port_number in ca.ports {
            match umad.port(&name, port_number) {
                Ok(port) if port.is_infiniband() && has_smi(umad, &name, port_number) => {
                    ports.push(local_port(&name, port_number, ca.node_guid, &port));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(
                        ca = name,
                        port = port_number.0,
                        %error,
                        "cannot read the attributes of the port"
                    );
                }
            }
        }
    }
    ports
}

/// Whether subnet management packets can be sent through the port itself or through its paired
/// device.
fn has_smi(umad: &Umad, ca: &str, port: PortNum) -> bool {
    let disabled = umad.is_smi_disabled(ca, port).unwrap_or(false);
    if disabled && umad.pair(ca, port).is_none() {
        tracing::debug!(
            ca,
            port = port.0,
            "IsSMDisabled is set, and libibumad names no device that has the port's QP 0"
        );
        return false;
    }
    true
}

/// The first port that `selector` admits and whose link is up, as OpenSM chooses it; a port that
/// has no manager yet is Init. If no such port has a link, the first port that `selector` admits,
/// if the selector or the host leaves no choice of the adapter.
pub(super) fn choose(
    selector: &UmadSelector,
    ports: Vec<LocalPort>,
) -> Result<LocalPort, UmadError> {
    if ports.is_empty() {
        return Err(UmadError::NoAdapter);
    }
    let description = description(&ports);
    let is_named = selector.ca.is_some() || selector.guid.is_some() || ports.len() == 1;
    let is_admitted = |port: &LocalPort| {
        selector.ca.as_ref().is_none_or(|ca| *ca == port.ca)
            && selector.port.is_none_or(|number| number == port.port)
            && selector.guid.is_none_or(|guid| guid == port.port_guid)
    };
    // Of several ports with a link, `min_by_key` returns the first.
    let admitted = ports.into_iter().filter(is_admitted);
    match admitted.min_by_key(|port| !has_link(port.state)) {
        Some(chosen) if is_named || has_link(chosen.state) => Ok(chosen),
        Some(_) => Err(UmadError::NoLink { seen: description }),
        None => Err(UmadError::NoPort {
            wanted: selector.to_string(),
            seen: description,
        }),
    }
}

/// Whether a port in this state has a link that can carry subnet management packets.
fn has_link(state: PortState) -> bool {
    matches!(
        state,
        PortState::Init | PortState::Armed | PortState::Active
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsm_ids::Lid;

    fn port(ca: &str, port_number: u8, state: PortState) -> LocalPort {
        LocalPort {
            ca: ca.to_owned(),
            port: PortNum(port_number),
            node_guid: Guid(1),
            port_guid: Guid(0x20 + u64::from(port_number)),
            lid: Lid::NONE,
            sm_lid: Lid::NONE,
            state,
        }
    }

    fn chosen(ca: Option<&str>, port_number: Option<u8>) -> Option<(String, u8)> {
        let selector = UmadSelector {
            ca: ca.map(str::to_owned),
            port: port_number.map(PortNum),
            guid: None,
        };
        let ports = vec![
            port("mlx5_0", 1, PortState::Down),
            port("mlx5_0", 2, PortState::Init),
            port("mlx5_1", 1, PortState::Active),
            port("mlx5_2", 1, PortState::Down),
        ];
        let chosen = choose(&selector, ports).ok()?;
        Some((chosen.ca, chosen.port.0))
    }

    #[test]
    fn the_first_port_with_a_link_that_the_selector_admits_is_chosen_active_or_not() {
        let found = |ca: &str, port_number| Some((ca.to_owned(), port_number));
        assert_eq!(chosen(None, None), found("mlx5_0", 2));
        assert_eq!(chosen(None, Some(1)), found("mlx5_1", 1));
        assert_eq!(chosen(None, Some(2)), found("mlx5_0", 2));
        assert_eq!(chosen(Some("mlx5_0"), None), found("mlx5_0", 2));
        assert_eq!(chosen(Some("mlx5_0"), Some(1)), found("mlx5_0", 1));
        assert_eq!(chosen(Some("mlx5_2"), None), found("mlx5_2", 1));
        assert_eq!(chosen(Some("mlx5_3"), None), None);
        assert_eq!(chosen(None, Some(3)), None);
    }

    #[test]
    fn the_only_port_is_chosen_while_it_is_down() {
        let any_port = UmadSelector::default();
        let only = choose(&any_port, vec![port("mlx5_0", 1, PortState::Down)]).unwrap();
        assert_eq!(only.ca, "mlx5_0");
        let two_ports = vec![
            port("mlx5_0", 1, PortState::Down),
            port("mlx5_1", 1, PortState::Down),
        ];
        let text = choose(&any_port, two_ports).unwrap_err().to_string();
        assert!(text.contains("mlx5_1:1 0x0000000000000021 Down"), "{text}");
        let none = choose(&any_port, Vec::new());
        assert!(matches!(none, Err(UmadError::NoAdapter)));
    }

    #[test]
    fn an_error_for_no_match_lists_the_ports() {
        let selector = UmadSelector {
            ca: Some("mlx5_7".to_owned()),
            ..UmadSelector::default()
        };
        let error = choose(&selector, vec![port("mlx5_0", 1, PortState::Down)]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("mlx5_7:*") && text.contains("mlx5_0:1 0x0000000000000021 Down"),
            "{text}"
        );
    }

    #[test]
    fn a_port_named_by_guid_is_chosen_in_any_state_and_no_other() {
        let ports = || {
            vec![
                port("mlx5_0", 1, PortState::Active),
                port("mlx5_0", 2, PortState::Down),
            ]
        };
        let by_guid = |guid| UmadSelector {
            guid: Some(Guid(guid)),
            ..UmadSelector::default()
        };
        let chosen = choose(&by_guid(0x22), ports()).unwrap();
        assert_eq!(chosen.port, PortNum(2));
        let text = choose(&by_guid(0x23), ports()).unwrap_err().to_string();
        for part in [
            "port GUID 0x0000000000000023",
            "mlx5_0:1 0x0000000000000021 Active",
            "mlx5_0:2 0x0000000000000022 Down",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
