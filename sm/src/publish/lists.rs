//! Pages of lists: from behind a key on, as many as are wanted, without building the rest.

use rsm_api::model::{
    Convergence, Finding, FindingFilter, Keyed, Link, LinkFilter, Node, NodeFilter, NodeKind, Page,
    Port, PortFilter, PortKey,
};
use rsm_api::v1;
use rsm_ids::Guid;

use super::lens::{api_key, kind, port_numbers, state};
use super::published::Published;
use crate::fabric::{Fabric, NodeIx, PortRef};

pub(super) fn page<T>(
    published: &Published,
    items: impl Iterator<Item = T>,
    limit: usize,
) -> Page<T> {
    Page {
        generation: published.generation,
        items: items.take(limit).collect(),
    }
}

/// The position of the first node that `is_before` does not hold for, given that it holds for a first part of them.
fn first_node(fabric: &Fabric, is_before: impl Fn(Guid) -> bool) -> usize {
    fabric.partition_point(is_before)
}

pub(super) fn nodes(
    published: &Published,
    after: Option<Guid>,
    limit: usize,
    filter: &NodeFilter,
) -> Page<Node> {
    let fabric = published.fabric();
    let begin = first_node(fabric, |guid| after.is_some_and(|after| guid <= after));
    let nodes = (begin..fabric.len())
        .map(|position| NodeIx(position as u32))
        .filter(|&ix| {
            filter
                .kind
                .is_none_or(|wanted| wanted == kind(fabric.node(ix)))
        })
        .map(|ix| published.lens().node(ix))
        .filter(|node| filter.matches(node));
    page(published, nodes, limit)
}

/// The ports behind `after` in the order of their keys, of one node or of all that `wanted` holds for.
fn ports_from<'a>(
    fabric: &'a Fabric,
    after: Option<PortKey>,
    of: Option<Guid>,
    wanted: impl Fn(NodeKind) -> bool + 'a,
) -> impl Iterator<Item = PortRef> + 'a {
    let begin = first_node(fabric, |guid| {
        after.is_some_and(|after| guid < after.node) || of.is_some_and(|of| guid < of)
    });
    let end = first_node(fabric, |guid| of.is_none_or(|of| guid <= of));
    (begin..end.max(begin))
        .map(|position| NodeIx(position as u32))
        .map(|ix| (ix, fabric.node(ix)))
        .filter(move |(_, node)| wanted(kind(node)))
        .flat_map(move |(ix, node)| {
            let first = match after {
                Some(after) if after.node == node.guid => usize::from(after.number.0) + 1,
                _ => 0,
            };
            port_numbers(node)
                .filter(move |number| number.index() >= first)
                .map(move |port| PortRef { node: ix, port })
        })
}

pub(super) fn ports(
    published: &Published,
    after: Option<PortKey>,
    limit: usize,
    filter: &PortFilter,
) -> Page<Port> {
    let fabric = published.fabric();
    let of_kind = |node| filter.node_kind.is_none_or(|wanted| wanted == node);
    // What most ports fail is looked at before a port is built.
    let ports = ports_from(fabric, after, filter.node, of_kind)
        .filter(|&at| {
            let port = fabric.port(at);
            filter.state.is_none_or(|wanted| wanted == state(port))
                && (!filter.connected || port.peer.is_some())
        })
        .map(|at| published.lens().port(at))
        .filter(|port| filter.matches(port));
    page(published, ports, limit)
}

pub(super) fn links(
    published: &Published,
    after: Option<PortKey>,
    limit: usize,
    filter: &LinkFilter,
) -> Page<Link> {
    let fabric = published.fabric();
    let links = |ends: &mut dyn Iterator<Item = PortRef>| {
        let links = ends
            .filter_map(|at| published.lens().link(at))
            .filter(|link| filter.matches(link));
        page(published, links, limit)
    };
    if let Some(node) = filter.node {
        // The lower end of the node's links may be at any other node.
        let mut ends: Vec<PortRef> = ports_from(fabric, None, Some(node), |_| true)
            .filter_map(|at| Some(at.min(fabric.peer(at)?)))
            .filter(|&at| after.is_none_or(|after| api_key(fabric.key(at)) > after))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        return links(&mut ends.into_iter());
    }
    let of_kind = |node| !filter.between_switches || node == NodeKind::Switch;
    let mut ends = ports_from(fabric, after, None, of_kind)
        .filter(|&at| fabric.peer(at).is_some_and(|there| at < there));
    links(&mut ends)
}

pub(super) fn findings(
    published: &Published,
    after: Option<u64>,
    limit: usize,
    filter: &FindingFilter,
) -> Page<Finding> {
    let all = &published.findings;
    let begin = all.partition_point(|finding| after.is_some_and(|after| finding.id <= after));
    let findings = all[begin..]
        .iter()
        .filter(|finding| filter.matches(finding))
        .map(|finding| Finding::clone(finding));
    page(published, findings, limit)
}

pub(super) fn missing(
    published: &Published,
    after: Option<PortKey>,
    limit: usize,
) -> Page<Keyed<PortKey, v1::Missing>> {
    let all = &published.missing;
    let begin = all.partition_point(|missing| after.is_some_and(|after| missing.key <= after));
    page(published, all[begin..].iter().cloned(), limit)
}

pub(super) fn convergences(published: &Published, limit: usize) -> Page<Convergence> {
    let all = &published.convergences;
    let newest = &all[all.len().saturating_sub(limit)..];
    page(
        published,
        newest.iter().map(|logged| logged.shown.clone()),
        limit,
    )
}
