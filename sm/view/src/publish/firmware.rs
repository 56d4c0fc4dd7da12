//! Firmware of nodes, as the collector of counters has read it.

use rsm_api::model::Keyed;
use rsm_api::v1;
use rsm_ids::Guid;
use rsm_mad::wire::attr::NodeType;
use rsm_model::capabilities::device_name;
use rsm_model::fabric::Node;
use rsm_monitor::counters::{CountersSnapshot, DeviceFirmware};

use super::api_view::kind;
use super::published::Published;

/// Nodes with a GUID above `after`, in ascending order, each with its firmware or the reason why it
/// is not known.
pub(super) fn shown<'a>(
    published: &'a Published,
    counters: &'a CountersSnapshot,
    after: Option<Guid>,
) -> impl Iterator<Item = Keyed<Guid, v1::DeviceFirmware>> + 'a {
    let nodes = published.fabric().nodes();
    let nodes = nodes.filter(move |node| after.is_none_or(|after| node.guid > after));
    nodes.map(|node| Keyed {
        key: node.guid,
        message: item(node, counters),
    })
}

fn item(node: &Node, counters: &CountersSnapshot) -> v1::DeviceFirmware {
    // The ports of an adapter have one firmware.
    let known = counters.of_node(node.guid).map(|agent| &agent.firmware);
    let known = known.max_by_key(|firmware| matches!(firmware, DeviceFirmware::Known { .. }));
    let (version, psid, reason) = match known {
        Some(DeviceFirmware::Known { version, psid }) => {
            (version.to_string(), psid.clone(), String::new())
        }
        other => {
            let reason = reason(node, other, counters.is_collecting);
            (String::new(), String::new(), reason.to_owned())
        }
    };
    let (vendor, device) = (node.info.vendor_id(), node.info.device_id());
    let name = device_name(vendor, device);
    v1::DeviceFirmware {
        node_guid: node.guid.to_string(),
        kind: kind(node).into(),
        description: node.description.clone(),
        device: name.map_or_else(|| format!("{vendor:#08x}:{device:#06x}"), str::to_owned),
        version,
        psid,
        reason,
    }
}

/// Why the firmware of a node is not known.
fn reason(node: &Node, known: Option<&DeviceFirmware>, is_collecting: bool) -> &'static str {
    match known {
        Some(DeviceFirmware::OtherVendor) => "its vendor has no public attribute for it",
        Some(DeviceFirmware::Refused) => "it refuses the attribute",
        Some(DeviceFirmware::Silent) => "it does not answer",
        _ if !is_collecting => "rsm reads no counters: `counters.enabled = true` turns them on",
        None if node.kind() != NodeType::Switch => {
            "it has no LID, or `counters.adapters = false` leaves adapters out"
        }
        None => "it has no LID yet",
        Some(DeviceFirmware::New | DeviceFirmware::Known { .. }) => "it has not been asked yet",
    }
}
