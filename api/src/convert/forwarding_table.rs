use rsm_proto::v1;

use super::messages;
use crate::model::{ForwardingEntry, ForwardingTable};

impl From<ForwardingEntry> for v1::ForwardingEntry {
    fn from(entry: ForwardingEntry) -> Self {
        v1::ForwardingEntry {
            lid: entry.lid.0.into(),
            port: entry.port.0.into(),
            destination: entry.destination.map(v1::PortKey::from),
            destination_description: entry.destination_description,
        }
    }
}

impl From<ForwardingTable> for v1::ForwardingTable {
    fn from(table: ForwardingTable) -> Self {
        v1::ForwardingTable {
            switch_guid: table.switch.to_string(),
            description: table.description,
            lid: table.lid.0.into(),
            top: table.top.0.into(),
            entries: messages(table.entries),
        }
    }
}
