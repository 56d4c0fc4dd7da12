use std::sync::Arc;

use rsm_ids::Lid;
use rsm_proto::v1;
use rsm_proto::v1::fabric_service_server::FabricService;
use tonic::{Request, Response, Status};

use super::incoming::Connections;
use super::paging::{Cursor, Listing};
use super::request::{
    finding_kind, named_host_or_node, named_node, node_filter, node_kind, of_kind, port_state,
    present_or_gone, selector, severity, smp_attribute, text_filter,
};
use crate::model::{FindingFilter, LinkFilter, NodeFilter, NodeKind, PortFilter};
use crate::refusal::no_subnet;
use crate::traits::{Reports, Subnet};

/// Serves queries about the subnet.
#[derive(Clone)]
pub(super) struct Fabric {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) reports: Option<Arc<dyn Reports>>,
    /// The connections of the Unix socket and over TCP; `None` if requests come through neither.
    pub(super) connections: Option<[Arc<Connections>; 2]>,
}

impl Fabric {
    fn connections(&self) -> Option<v1::Connections> {
        let [unix, tcp] = self.connections.as_ref()?;
        Some(v1::Connections {
            unix_open: unix.open() as u64,
            unix_limit: unix.limit() as u64,
            tcp_open: tcp.open() as u64,
            tcp_limit: tcp.limit() as u64,
            refused: unix.refused() + tcp.refused(),
        })
    }
}

#[tonic::async_trait]
impl FabricService for Fabric {
    async fn get_status(
        &self,
        _request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(v1::GetStatusResponse {
            status: Some(self.subnet.status()),
            connections: self.connections(),
        }))
    }

    async fn get_report(
        &self,
        _request: Request<v1::GetReportRequest>,
    ) -> Result<Response<v1::GetReportResponse>, Status> {
        let reports = self.reports.as_ref().ok_or_else(no_subnet)?;
        Ok(Response::new(v1::GetReportResponse {
            report: Some(reports.report().await),
        }))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let filter = NodeFilter {
            kind: node_kind("kind", request.kind)?,
            description_contains: text_filter(
                "description_contains",
                request.description_contains,
            )?,
        };
        let page = self.subnet.nodes(listing.after(), listing.limit(), &filter);
        listing.answer_keyed(page)
    }

    async fn get_node(
        &self,
        request: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::GetNodeResponse>, Status> {
        let node = self
            .subnet
            .node(&selector("node", &request.get_ref().node)?)?;
        Ok(Response::new(v1::GetNodeResponse {
            node: Some(node.message),
        }))
    }

    async fn list_ports(
        &self,
        request: Request<v1::ListPortsRequest>,
    ) -> Result<Response<v1::ListPortsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let node = named_node(self.subnet.as_ref(), &request.node)?;
        let kind = node_kind("node_kind", request.node_kind)?;
        of_kind("node_kind", node.as_ref(), kind)?;
        let filter = PortFilter {
            node: node.map(|node| node.key),
            node_kind: kind,
            state: port_state("state", request.state)?,
            connected: request.connected,
        };
        let page = self.subnet.ports(listing.after(), listing.limit(), &filter);
        listing.answer_keyed(page)
    }

    async fn get_attribute(
        &self,
        request: Request<v1::GetAttributeRequest>,
    ) -> Result<Response<v1::GetAttributeResponse>, Status> {
        let request = request.into_inner();
        let attribute = smp_attribute("attribute", request.attribute)?;
        let name = selector("name", &request.name)?;
        let fields = self.subnet.attribute(attribute, &name)?;
        Ok(Response::new(v1::GetAttributeResponse { fields }))
    }

    async fn list_virtual_ports(
        &self,
        request: Request<v1::ListVirtualPortsRequest>,
    ) -> Result<Response<v1::ListVirtualPortsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let node = node_filter(self.subnet.as_ref(), &request.node)?;
        let page = (self.subnet).virtual_ports(listing.after(), listing.limit(), node);
        let mut response = listing.answer_keyed(page)?;
        response.get_mut().off = self
            .subnet
            .virtual_ports_off()
            .unwrap_or_default()
            .to_owned();
        Ok(response)
    }

    async fn list_congestion_agents(
        &self,
        request: Request<v1::ListCongestionAgentsRequest>,
    ) -> Result<Response<v1::ListCongestionAgentsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let node = node_filter(self.subnet.as_ref(), &request.node)?;
        let page = (self.subnet).congestion_agents(listing.after(), listing.limit(), node);
        let mut response = listing.answer_keyed(page)?;
        response.get_mut().off = self.subnet.congestion_off().unwrap_or_default().to_owned();
        Ok(response)
    }

    async fn get_port(
        &self,
        request: Request<v1::GetPortRequest>,
    ) -> Result<Response<v1::GetPortResponse>, Status> {
        let port = self
            .subnet
            .port(&selector("port", &request.get_ref().port)?)?;
        Ok(Response::new(v1::GetPortResponse {
            partitions: self.subnet.partitions_of_port(port.key),
            port: Some(port.message),
        }))
    }

    async fn list_links(
        &self,
        request: Request<v1::ListLinksRequest>,
    ) -> Result<Response<v1::ListLinksResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let nodes = named_host_or_node(self.subnet.as_ref(), &request.node)?;
        let kind = request.between_switches.then_some(NodeKind::Switch);
        of_kind("between_switches", nodes.first(), kind)?;
        let filter = LinkFilter {
            nodes: nodes.into_iter().map(|node| node.key).collect(),
            between_switches: request.between_switches,
            slow: request.slow,
            state: port_state("state", request.state)?,
            end_contains: text_filter("end_contains", request.end_contains)?
                .map(|text| text.to_lowercase()),
        };
        let page = self.subnet.links(listing.after(), listing.limit(), &filter);
        listing.answer_keyed(page)
    }

    async fn get_forwarding_table(
        &self,
        request: Request<v1::GetForwardingTableRequest>,
    ) -> Result<Response<v1::GetForwardingTableResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take(&mut request)?;
        let switch = selector("switch", &request.switch)?;
        let mut response = (self.subnet).forwarding_table(&switch, cursor.after, cursor.limit())?;
        if let Some(table) = &mut response.table {
            // Entries have 16-bit LIDs.
            response.next_page_token =
                cursor.cut(&mut table.entries, |entry| Lid(entry.lid as u16));
        }
        Ok(Response::new(response))
    }

    async fn resolve_route(
        &self,
        request: Request<v1::ResolveRouteRequest>,
    ) -> Result<Response<v1::ResolveRouteResponse>, Status> {
        let request = request.into_inner();
        let source = selector("source", &request.source)?;
        let destination = selector("destination", &request.destination)?;
        Ok(Response::new(self.subnet.route(&source, &destination)?))
    }

    async fn list_findings(
        &self,
        request: Request<v1::ListFindingsRequest>,
    ) -> Result<Response<v1::ListFindingsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let filter = FindingFilter {
            min_severity: severity("min_severity", request.min_severity)?,
            kind: finding_kind(self.subnet.as_ref(), request.kind)?,
            nodes: present_or_gone(self.subnet.as_ref(), &request.node)?,
        };
        let page = self
            .subnet
            .findings(listing.after(), listing.limit(), &filter);
        listing.answer(page, |finding| finding.id)
    }

    async fn list_missing(
        &self,
        request: Request<v1::ListMissingRequest>,
    ) -> Result<Response<v1::ListMissingResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let page = match request.each {
            true => self.subnet.each_missing(listing.after(), listing.limit()),
            false => self.subnet.missing(listing.after(), listing.limit()),
        };
        listing.answer_keyed(page)
    }

    async fn list_design_moves(
        &self,
        request: Request<v1::ListDesignMovesRequest>,
    ) -> Result<Response<v1::ListDesignMovesResponse>, Status> {
        let (_, listing) = Listing::of(request)?;
        let page = self.subnet.design_moves(listing.after(), listing.limit());
        listing.answer(page, |one| one.number)
    }
}
