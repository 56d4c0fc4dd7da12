//! Shows operators the paths that hosts get from the SA.

use std::sync::Arc;

use rsm_api::model::{PathQuestion, Selector};
use rsm_api::resolve::NameLookup as _;
use rsm_api::v1_fields::gbps;
use rsm_api::{LookupError, SaError, v1};
use rsm_ids::PortNum;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::TraceRecord;
use rsm_model::fabric::PortRef;
use rsm_sa::{self, Directory, NoPath, PathEnd, SaSnapshot, TracedPath};

use super::api_view::{api_key, core_key};
use super::published::Published;
use super::routes::{dropped, end_port, shown_hop};

/// Answers `question`: looks up names in `published`, and paths in `sa_snapshot`.
pub(super) fn between(
    published: &Published,
    sa_snapshot: &SaSnapshot,
    question: &PathQuestion,
) -> Result<v1::ResolvePathResponse, SaError> {
    let not_answering = |reason: &str| SaError::NotAnswering {
        reason: reason.to_owned(),
    };
    let directory = sa_snapshot
        .directory()
        .ok_or_else(|| not_answering("no plan is in force yet"))?;
    if !sa_snapshot.is_master() {
        return Err(not_answering("this subnet manager is not the master"));
    }
    let (source_port, from) = end(published, directory, &question.source)?;
    let (destination_port, to) = end(published, directory, &question.destination)?;
    let found = directory.paths(&rsm_sa::PathQuery {
        from,
        to,
        p_key: question.p_key.map(PKey),
        sl: question.service_level,
        service_id: question.service_id,
        qos_class: question.qos_class,
        most: question.max_paths.into(),
    });
    let (paths, reason) = match found {
        Ok(found) => (
            found
                .iter()
                .map(|path| v1::Path {
                    adaptive_service_levels: adaptive_levels(published, directory, path).into(),
                    ..shown(directory, path)
                })
                .collect(),
            String::new(),
        ),
        Err(NoPath::NotReached(lid)) => {
            let ends = match published.index().port_of_lid(lid) {
                Some(holder) if holder == source_port => (destination_port, source_port),
                _ => (source_port, destination_port),
            };
            let reason = NoPath::NotReached(lid).to_string();
            let dropped = dropped(published, ends.0, ends.1, lid);
            let dropped = dropped.map_or_else(String::new, |dropped| format!(": {dropped}"));
            (Vec::new(), reason + &dropped)
        }
        Err(reason) => (Vec::new(), reason.to_string()),
    };
    let [source, destination] =
        [source_port, destination_port].map(|at| api_key(published.fabric().key(at)));
    let paths = v1::Paths {
        source: Some(source.into()),
        destination: Some(destination.into()),
        paths,
        reason,
    };
    Ok(v1::ResolvePathResponse {
        generation: published.generation,
        paths: Some(paths),
    })
}

/// The end port that `selector` refers to, in the fabric and in the SA's directory.
fn end(
    published: &Published,
    directory: &Directory,
    selector: &Selector,
) -> Result<(PortRef, PathEnd), LookupError> {
    let shown = end_port(published, selector)?;
    let key = api_key(published.fabric().key(shown));
    // The directory may belong to an earlier or later snapshot.
    let at = directory.fabric.find_port(core_key(key));
    let port = at.and_then(|at| directory.by_guid(directory.fabric.port(at).guid));
    let port = port.ok_or_else(|| published.names.without_lid(key))?;
    let lid = match selector {
        Selector::Lid(lid) => Some(*lid),
        Selector::Guid { .. } | Selector::Gid(_) | Selector::Description(_) => None,
    };
    Ok((shown, PathEnd { port, lid }))
}

fn shown(directory: &Arc<Directory>, path: &TracedPath) -> v1::Path {
    let record = &path.record;
    let nodes = path.nodes.iter();
    v1::Path {
        source_gid: record.sgid().to_string(),
        destination_gid: record.dgid().to_string(),
        source_lid: record.slid().0.into(),
        destination_lid: record.dlid().0.into(),
        p_key: record.p_key().0.into(),
        service_level: record.sl().into(),
        service_level_reason: directory.reason_in_words(path.sl_reason),
        // MTU and rate of a path always have defined codes.
        mtu_bytes: record.mtu().bytes().unwrap_or(0).into(),
        rate_gbps: gbps(record.rate().tenth_gbps().unwrap_or(0)),
        packet_life_time: record.packet_life_time().into(),
        reversible: record.reversible(),
        preference: record.preference().into(),
        hops: nodes.filter_map(|node| hop(directory, node)).collect(),
        adaptive_service_levels: 0,
    }
}

/// Service levels, one bit each, on which a switch on the path chooses among several ports; 0 if
/// no switch chooses.
fn adaptive_levels(published: &Published, directory: &Directory, path: &TracedPath) -> u16 {
    let snapshot = &published.snapshot;
    let plan = snapshot.plan.as_deref();
    let Some((plan, adaptive)) = plan.and_then(|plan| Some((plan, plan.adaptive.as_deref()?)))
    else {
        return 0;
    };
    let lid = path.record.dlid();
    let picks = |trace: &TraceRecord| {
        let node = directory.fabric.find(trace.node_id());
        let guid = node.map(|node| directory.fabric.node(node).guid);
        let guid = guid.filter(|guid| snapshot.adaptive.contains(guid));
        let table = guid.and_then(|guid| adaptive.table(plan, guid));
        table.is_some_and(|table| table.ports(lid).len() > 1)
    };
    match path.nodes.iter().any(picks) {
        true => adaptive.sls,
        false => 0,
    }
}

/// Converts a node on the path. Port 0 means no port.
fn hop(directory: &Directory, trace: &TraceRecord) -> Option<v1::Hop> {
    let node = directory
        .fabric
        .node(directory.fabric.find(trace.node_id())?);
    let port = |port: PortNum| Some(port).filter(|&port| port != PortNum::ZERO);
    Some(shown_hop(
        node,
        port(trace.entry_port()),
        port(trace.exit_port()),
    ))
}
