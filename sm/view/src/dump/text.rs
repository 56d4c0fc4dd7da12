use std::io::{self, Write};

use rsm_routing::netlist::NodeKind;

/// Writes a node description. Bytes that would break the line are replaced by `?`; all other bytes
/// are unchanged, in any encoding.
pub(super) fn description(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let shown: Vec<u8> = bytes[..end]
        .iter()
        .map(|&b| if b.is_ascii_control() { b'?' } else { b })
        .collect();
    out.write_all(&shown)
}

/// OpenSM's name for a kind of node.
pub(super) fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "Switch",
        NodeKind::Ca => "Channel Adapter",
        NodeKind::Router => "Router",
    }
}
