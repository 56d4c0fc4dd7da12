//! NodeRecord: the NodeInfo and NodeDescription of the node of each end port.

use rsm_mad::wire::attr::NodeDescription;
use rsm_mad::wire::sa::NodeRecord;

use super::{EndIndices, Query, indices_of, vport};
use crate::directory::Directory;
use crate::ends::EndIx;

/// The records of all ends; `None` for an end without a record, that does not match, or that is
/// hidden from the requester.
pub(super) fn candidates(
    query: Query<NodeRecord>,
) -> impl Iterator<Item = Option<NodeRecord>> + Send + 'static {
    query.ends_to_examine().map(EndIx).map(move |ix| {
        let is_shown = query.directory.has_records(ix);
        let record = is_shown.then(|| record(&query.directory, ix))?;
        query.if_matching(record).filter(|_| query.may_see(ix))
    })
}

impl Query<NodeRecord> {
    /// The ends to examine: the ends with the LID, port GUID or node GUID of the query, or all ends
    /// if the query has none of these.
    fn ends_to_examine(&self) -> EndIndices {
        if self.mask.contains(NodeRecord::LID) {
            return self.ends_and_vports(NodeRecord::LID, self.record.lid());
        }
        let wanted = self.record.node_info();
        if self.mask.contains(NodeRecord::PORT_GUID) {
            return self.ends_with_guid(wanted.port_guid());
        }
        if self.mask.contains(NodeRecord::NODE_GUID) {
            return indices_of(self.directory.at_node(wanted.node_guid()));
        }
        self.listed()
    }
}

fn record(directory: &Directory, ix: EndIx) -> NodeRecord {
    let end = directory.end(ix);
    let (node, port) = directory.port(ix);
    let (info, description) = match directory.vport(ix) {
        Some(vport) => (
            vport::node_info(&node.info, vport, end.at.port),
            &*vport.description,
        ),
        None => {
            let mut info = node.info;
            // The stored NodeInfo names the port through which it was read.
            info.set_port_guid(port.guid)
                .set_local_port_num(end.at.port);
            (info, node.reported())
        }
    };
    let mut record = NodeRecord::default();
    record
        .set_lid(end.lid)
        .set_node_info(&info)
        .set_node_description(&NodeDescription::new(description.as_bytes()));
    record
}
