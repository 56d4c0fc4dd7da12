//! NodeRecord: end ports and their nodes.

use rsm_mad::wire::attr::NodeDescription;
use rsm_mad::wire::sa::NodeRecord;

use super::Query;
use crate::sa::directory::Directory;
use crate::sa::ends::EndIx;

pub(super) fn candidates(
    query: Query<NodeRecord>,
) -> impl Iterator<Item = Option<NodeRecord>> + Send + 'static {
    let ends = query.ends(NodeRecord::LID, query.record.lid());
    ends.map(EndIx).map(move |ix| {
        let record = record(&query.directory, ix);
        query.keep(record).filter(|_| query.may_see(ix))
    })
}

fn record(directory: &Directory, ix: EndIx) -> NodeRecord {
    let end = directory.end(ix);
    let (node, port) = directory.port(ix);
    let mut info = node.info;
    // The NodeInfo that was read gives the port that it was read through.
    info.set_port_guid(port.guid)
        .set_local_port_num(end.at.port);
    let mut record = NodeRecord::default();
    record
        .set_lid(end.lid)
        .set_node_info(&info)
        .set_node_description(&NodeDescription::new(node.reported().as_bytes()));
    record
}
