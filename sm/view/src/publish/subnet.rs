//! Answers readers from the snapshot in force. A page of a list starts after a key, and builds only
//! its own items.

use std::sync::Arc;

use rsm_api::model::{
    FindingFilter, GoneSwitches, Keyed, LinkFilter, NodeFilter, NodeKind, Page, PortFilter, PortId,
    Selector, SubnetState, VirtualPortId,
};
use rsm_api::resolve::{resolve_node, resolve_port};
use rsm_api::{LookupError, Subnet, v1};
use rsm_ids::{Guid, Lid};
use rsm_model::fabric::{Fabric, NodeIx, PortRef};
use rsm_model::findings::FindingKind;
use tokio::sync::broadcast;

use super::api_view::{api_key, core_key, kind, port_numbers, state};
use super::published::Published;
use super::view::View;
use super::{activity, congestion, design, partitions, routes, status, vports};

impl Subnet for View {
    fn status(&self) -> v1::SubnetStatus {
        let published = self.published();
        let uptime = self.clock.now().since(self.started);
        let following = published.snapshot.following.unwrap_or_default();
        let shared_store = self.shared_store.as_ref().map(|store| v1::SharedStore {
            master_plan: following.planned,
            read_plan: following.read,
            ..store.shared_store()
        });
        let progress = self.progress();
        let mut of_snapshot = status::of(&published);
        // The snapshot is of before the change that the pass under way follows.
        let is_stated = matches!(published.state, SubnetState::Up | SubnetState::Degraded);
        if progress.is_converging && is_stated {
            of_snapshot.state = SubnetState::Converging.into();
            of_snapshot.state_reason = match progress.cause.as_str() {
                "" => progress.next.clone(),
                cause => cause.to_owned(),
            };
        }
        let activity = activity::of(progress, self.clock.now());
        v1::SubnetStatus {
            fabric: self.fabric.clone(),
            simulated: self.simulated,
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            shared_store,
            dropped_log_lines: (self.dropped_log_lines)(),
            event_receivers: self
                .outlet
                .as_ref()
                .map_or_else(Vec::new, |outlet| outlet.receivers()),
            activity: Some(activity).filter(|activity| activity.stage() != v1::Stage::Idle),
            ..of_snapshot
        }
    }

    fn address(&self, port: PortId) -> Option<(Guid, Lid)> {
        let published = self.published();
        let fabric = published.fabric();
        let node = fabric.node_of(port.node)?;
        let mut ends = node.end_ports();
        let (_, end) = ends.find(|(number, _)| *number == port.number)?;
        Some((end.guid, end.lid()))
    }

    fn nodes(
        &self,
        after: Option<Guid>,
        limit: usize,
        filter: &NodeFilter,
    ) -> Page<Keyed<Guid, v1::Node>> {
        nodes(&self.published(), after, limit, filter)
    }

    fn node(&self, selector: &Selector) -> Result<Keyed<Guid, v1::Node>, LookupError> {
        let published = self.published();
        let guid = resolve_node(&published.names, selector)?;
        let ix = published.fabric().find(guid);
        let ix = ix.ok_or_else(|| LookupError::NotFound {
            selector: selector.to_string(),
        })?;
        Ok(keyed_node(&published, ix))
    }

    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &PortFilter,
    ) -> Page<Keyed<PortId, v1::Port>> {
        ports(&self.published(), after, limit, filter)
    }

    fn virtual_ports(
        &self,
        after: Option<VirtualPortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<VirtualPortId, v1::VirtualPort>> {
        vports::virtual_ports(&self.published(), after, limit, node)
    }

    fn virtual_ports_off(&self) -> Option<&'static str> {
        let is_off = !self.published().snapshot.manages_vports;
        is_off.then_some(
            "virtualization is off, so rsm asks no host for its virtual ports: `sm.virtualization = \"on\"` turns it on",
        )
    }

    fn congestion_off(&self) -> Option<&'static str> {
        let is_off = !self.published().snapshot.controls_congestion;
        is_off.then_some(
            "congestion control is off, so rsm asks no agent: `congestion.enabled = true` turns it on",
        )
    }

    fn congestion_agents(
        &self,
        after: Option<PortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<PortId, v1::CongestionAgent>> {
        congestion::agents(&self.published(), after, limit, node)
    }

    fn port(&self, selector: &Selector) -> Result<Keyed<PortId, v1::Port>, LookupError> {
        let published = self.published();
        let key = resolve_port(&published.names, selector)?;
        let at = published.fabric().find_port(core_key(key));
        let at = at.ok_or(LookupError::NoSuchPort { port: key })?;
        Ok(keyed_port(&published, at))
    }

    fn attribute(
        &self,
        attribute: v1::SmpAttribute,
        selector: &Selector,
    ) -> Result<Vec<v1::AttributeField>, LookupError> {
        super::attribute::fields(&self.published(), attribute, selector)
    }

    fn partitions_of_port(&self, port: PortId) -> Vec<v1::PortPartition> {
        partitions::of_port(&self.published(), core_key(port))
    }

    fn links(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &LinkFilter,
    ) -> Page<Keyed<PortId, v1::Link>> {
        links(&self.published(), after, limit, filter)
    }

    fn forwarding_table(
        &self,
        switch: &Selector,
        after: Option<Lid>,
        limit: usize,
    ) -> Result<v1::GetForwardingTableResponse, LookupError> {
        routes::forwarding_table(&self.published(), switch, after, limit)
    }

    fn route(
        &self,
        source: &Selector,
        destination: &Selector,
    ) -> Result<v1::ResolveRouteResponse, LookupError> {
        routes::route(&self.published(), source, destination)
    }

    fn partitions(&self, after: Option<u16>, limit: usize) -> Page<Keyed<u16, v1::Partition>> {
        partitions::partitions(&self.published(), after, limit)
    }

    fn partition_members(
        &self,
        p_key: u16,
        after: Option<PortId>,
        limit: usize,
    ) -> Result<Page<Keyed<PortId, v1::PartitionMember>>, LookupError> {
        partitions::members(&self.published(), p_key, after, limit)
    }

    fn partition_guids(
        &self,
        p_key: u16,
        after: Option<Guid>,
        limit: usize,
    ) -> Result<Page<Keyed<Guid, v1::PartitionGuid>>, LookupError> {
        partitions::guids(&self.published(), p_key, after, limit)
    }

    fn finding_kinds(&self) -> Vec<&'static str> {
        FindingKind::codes()
    }

    fn findings(
        &self,
        after: Option<u64>,
        limit: usize,
        filter: &FindingFilter,
    ) -> Page<v1::Finding> {
        findings(&self.published(), after, limit, filter)
    }

    fn missing(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::Missing>> {
        missing(&self.published(), after, limit)
    }

    fn each_missing(
        &self,
        after: Option<PortId>,
        limit: usize,
    ) -> Page<Keyed<PortId, v1::Missing>> {
        let published = self.published();
        let unix_ms = |at| self.clock.unix_ms(at);
        let after = after.map(core_key);
        let each = super::missing::each(&published.snapshot, after, limit, &unix_ms);
        page(&published, each.into_iter(), limit)
    }

    fn design_moves(&self, after: Option<u64>, limit: usize) -> Page<v1::DesignMove> {
        design::moves(&self.published(), after, limit)
    }

    fn gone_switches(&self) -> GoneSwitches {
        super::missing::gone_switches(&self.published().snapshot)
    }

    fn drained(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::DrainedPart>> {
        let published = self.published();
        let is_after = |key| after.is_none_or(|after| key > after);
        let rest = super::drained::shown(&published, is_after);
        page(&published, rest, limit)
    }

    fn convergences(&self, limit: usize) -> Page<v1::Convergence> {
        convergences(&self.published(), limit)
    }

    fn events(&self, after: u64, limit: usize) -> Vec<Arc<v1::Event>> {
        self.journal.events(after, limit)
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<v1::Event>> {
        self.journal.subscribe()
    }
}

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

/// Position of the first node for which `is_before` is false. `is_before` must be true for all
/// earlier nodes, and false for all later nodes.
fn first_node(fabric: &Fabric, is_before: impl Fn(Guid) -> bool) -> usize {
    fabric.partition_point(is_before)
}

fn nodes(
    published: &Published,
    after: Option<Guid>,
    limit: usize,
    filter: &NodeFilter,
) -> Page<Keyed<Guid, v1::Node>> {
    let fabric = published.fabric();
    let begin = first_node(fabric, |guid| after.is_some_and(|after| guid <= after));
    let nodes = (begin..fabric.len())
        .map(|position| NodeIx(position as u32))
        .filter(|&ix| {
            let node = fabric.node(ix);
            filter.matches(kind(node), &node.description)
                || filter.matches(kind(node), node.reported())
        })
        .map(|ix| keyed_node(published, ix));
    page(published, nodes, limit)
}

fn keyed_node(published: &Published, ix: NodeIx) -> Keyed<Guid, v1::Node> {
    Keyed {
        key: published.fabric().node(ix).guid,
        message: published.api_view().node(ix),
    }
}

/// Ports whose keys are greater than `after`, in ascending order of key, at nodes whose kind
/// `wanted` accepts. With `of`, only ports of that node.
pub(super) fn ports_from<'a>(
    fabric: &'a Fabric,
    after: Option<PortId>,
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

fn ports(
    published: &Published,
    after: Option<PortId>,
    limit: usize,
    filter: &PortFilter,
) -> Page<Keyed<PortId, v1::Port>> {
    let fabric = published.fabric();
    let of_kind = |node| filter.node_kind.is_none_or(|wanted| wanted == node);
    // The filters that reject most ports are applied before a port is built.
    let ports = ports_from(fabric, after, filter.node, of_kind)
        .filter(|&at| {
            let port = fabric.port(at);
            filter.state.is_none_or(|wanted| wanted == state(port))
                && (!filter.connected || port.peer.is_some())
        })
        .map(|at| keyed_port(published, at))
        .filter(|port| filter.matches(port));
    page(published, ports, limit)
}

fn keyed_port(published: &Published, at: PortRef) -> Keyed<PortId, v1::Port> {
    Keyed {
        key: api_key(published.fabric().key(at)),
        message: published.api_view().port(at),
    }
}

fn links(
    published: &Published,
    after: Option<PortId>,
    limit: usize,
    filter: &LinkFilter,
) -> Page<Keyed<PortId, v1::Link>> {
    let fabric = published.fabric();
    let links = |ends: &mut dyn Iterator<Item = PortRef>| {
        let links = ends.filter_map(|at| {
            let key = api_key(fabric.key(at));
            let message = published.api_view().link(at)?;
            (filter.matches(&message)).then_some(Keyed { key, message })
        });
        page(published, links, limit)
    };
    if !filter.nodes.is_empty() {
        // The lower end of a link of a node may be at any other node.
        let nodes = filter.nodes.iter();
        let mut ends: Vec<PortRef> = nodes
            .flat_map(|&node| ports_from(fabric, None, Some(node), |_| true))
            .filter_map(|at| Some(at.min(fabric.peer(at)?)))
            .filter(|&at| after.is_none_or(|after| api_key(fabric.key(at)) > after))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        return links(&mut ends.into_iter());
    }
    let of_kind = |node| !filter.between_switches || node == NodeKind::Switch;
    let mut ends = ports_from(fabric, after, None, of_kind)
        .filter(|&at| fabric.peer(at).is_some_and(|there| at <= there));
    links(&mut ends)
}

fn findings(
    published: &Published,
    after: Option<u64>,
    limit: usize,
    filter: &FindingFilter,
) -> Page<v1::Finding> {
    let all = &published.findings;
    let begin = all.partition_point(|finding| after.is_some_and(|after| finding.id <= after));
    let findings = all[begin..]
        .iter()
        .filter(|finding| filter.matches(finding))
        .map(|finding| v1::Finding::clone(finding));
    page(published, findings, limit)
}

fn missing(
    published: &Published,
    after: Option<PortId>,
    limit: usize,
) -> Page<Keyed<PortId, v1::Missing>> {
    let all = &published.missing;
    let begin = all.partition_point(|missing| after.is_some_and(|after| missing.key <= after));
    page(published, all[begin..].iter().cloned(), limit)
}

fn convergences(published: &Published, limit: usize) -> Page<v1::Convergence> {
    let all = &published.convergences;
    let newest = &all[all.len().saturating_sub(limit)..];
    page(
        published,
        newest.iter().map(|logged| logged.shown.clone()),
        limit,
    )
}
