//! The nodes of a net file as ibsim sees them, from which tests choose hosts and links.
//!
//! This parser deliberately shares no code with `rsm-routing`: the reference of a test must not
//! come from rsm's own code.

use std::collections::BTreeMap;

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimNodeKind {
    /// A channel adapter, aggregation nodes included.
    Ca,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// A node of a net file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimNode {
    /// The kind of the node.
    pub kind: SimNodeKind,
    /// The node's name in console commands and in `SIM_HOST`, such as `S-0002c902400bc4b0`.
    pub id: String,
    /// The number of ports; port 0 of a switch is not counted.
    pub num_ports: u8,
    /// For each cabled port, the ID of the node at the other end, and its port.
    pub cables: BTreeMap<u8, (String, u8)>,
}

/// Reads the nodes of a file in ibnetdiscover format or of an ibsim example.
///
/// Skips lines that are neither the head of a node nor a port of a node, as ibsim does.
#[must_use]
pub fn read_nodes(text: &str) -> Vec<SimNode> {
    let mut nodes: Vec<SimNode> = Vec::new();
    for line in text.lines() {
        if let Some(node) = node_line(line) {
            nodes.push(node);
        } else if let (Some(node), Some((port, far_end))) = (nodes.last_mut(), port_line(line)) {
            node.cables.insert(port, far_end);
        }
    }
    nodes
}

/// Parses the head of a node: `Switch 36 "S-…"`, `Ca 2 "H-…"`, `Hca 2 "Hca1"`, `Rt 1 "R-…"`.
fn node_line(line: &str) -> Option<SimNode> {
    let (head, rest) = line.split_once('"')?;
    let (id, _) = rest.split_once('"')?;
    // Terminal logs have lost the tab between the kind and the number of ports.
    let head = head.trim();
    let digits = head.find(|c: char| c.is_ascii_digit())?;
    let kind = match head[..digits].trim() {
        "Switch" => SimNodeKind::Switch,
        "Ca" | "Hca" => SimNodeKind::Ca,
        "Rt" | "Router" => SimNodeKind::Router,
        _ => return None,
    };
    let num_ports = head[digits..].trim().parse().ok()?;
    Some(SimNode {
        kind,
        id: id.to_owned(),
        num_ports,
        cables: BTreeMap::new(),
    })
}

/// Parses a port line: `[1](guid) "H-…"[2](guid) …`.
fn port_line(line: &str) -> Option<(u8, (String, u8))> {
    let (port, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (id, rest) = rest.split_once('"')?;
    let (far_port, _) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((
        port.trim().parse().ok()?,
        (id.to_owned(), far_port.trim().parse().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::{SimNodeKind, read_nodes};

    #[test]
    fn nodes_and_cables_are_read_from_all_dialects() {
        let text = "Switch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1]\n\n\
                    Switch41 \"S-00ff\"\t# \"x \"quoted\"\" base port 0\r\n\
                    [2](1a)\t\"H-1\"[1](2b)\t# \"x\" lid 3 4xHDR\r\n\n\
                    Hca 2 \"Hca1\"\n[1] \"Switch1\"[1]\nRt 1 \"R-1\"\n";
        let nodes = read_nodes(text);
        let ids: Vec<_> = nodes
            .iter()
            .map(|node| (node.kind, node.id.as_str(), node.num_ports))
            .collect();
        assert_eq!(
            ids,
            [
                (SimNodeKind::Switch, "Switch1", 8),
                (SimNodeKind::Switch, "S-00ff", 41),
                (SimNodeKind::Ca, "Hca1", 2),
                (SimNodeKind::Router, "R-1", 1),
            ]
        );
        assert_eq!(nodes[0].cables[&1], ("Hca1".into(), 1));
        assert_eq!(nodes[1].cables[&2], ("H-1".into(), 1));
    }
}
