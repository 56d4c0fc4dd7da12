use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::fabric_service_server::FabricService;
use tonic::{Request, Response, Status};

use super::incoming::Connections;
use super::paging::Cursor;
use super::request::{node_filter, node_kind, port_state, selector, severity, text_filter};
use crate::convert::messages;
use crate::model::{FindingFilter, LinkFilter, NodeFilter, PortFilter};
use crate::traits::Subnet;

/// Reading the subnet.
#[derive(Clone)]
pub(super) struct Fabric {
    pub(super) subnet: Arc<dyn Subnet>,
    /// Of the Unix socket, and over TCP.
    pub(super) connections: [Arc<Connections>; 2],
}

impl Fabric {
    fn connections(&self) -> v1::Connections {
        let [unix, tcp] = &self.connections;
        v1::Connections {
            unix_open: unix.open() as u64,
            unix_limit: unix.limit() as u64,
            tcp_open: tcp.open() as u64,
            tcp_limit: tcp.limit() as u64,
            refused: unix.refused() + tcp.refused(),
        }
    }
}

#[tonic::async_trait]
impl FabricService for Fabric {
    async fn get_status(
        &self,
        _request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(v1::GetStatusResponse {
            status: Some(self.subnet.status().into()),
            connections: Some(self.connections()),
        }))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListNodes", &mut request)?;
        let filter = NodeFilter {
            kind: node_kind("kind", request.kind)?,
            description_contains: text_filter(
                "description_contains",
                request.description_contains,
            )?,
        };
        let mut page = self.subnet.nodes(cursor.after, cursor.limit(), &filter);
        let next_page_token = cursor.cut(&mut page.items, |node| node.guid);
        Ok(Response::new(v1::ListNodesResponse {
            nodes: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn get_node(
        &self,
        request: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::GetNodeResponse>, Status> {
        let node = self
            .subnet
            .node(&selector("node", &request.get_ref().node)?)?;
        Ok(Response::new(v1::GetNodeResponse {
            node: Some(node.into()),
        }))
    }

    async fn list_ports(
        &self,
        request: Request<v1::ListPortsRequest>,
    ) -> Result<Response<v1::ListPortsResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListPorts", &mut request)?;
        let filter = PortFilter {
            node: node_filter(self.subnet.as_ref(), &request.node)?,
            node_kind: node_kind("node_kind", request.node_kind)?,
            state: port_state("state", request.state)?,
            connected: request.connected,
        };
        let mut page = self.subnet.ports(cursor.after, cursor.limit(), &filter);
        let next_page_token = cursor.cut(&mut page.items, |port| port.key);
        Ok(Response::new(v1::ListPortsResponse {
            ports: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn get_port(
        &self,
        request: Request<v1::GetPortRequest>,
    ) -> Result<Response<v1::GetPortResponse>, Status> {
        let port = self
            .subnet
            .port(&selector("port", &request.get_ref().port)?)?;
        Ok(Response::new(v1::GetPortResponse {
            port: Some(port.into()),
        }))
    }

    async fn list_links(
        &self,
        request: Request<v1::ListLinksRequest>,
    ) -> Result<Response<v1::ListLinksResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListLinks", &mut request)?;
        let filter = LinkFilter {
            node: node_filter(self.subnet.as_ref(), &request.node)?,
            between_switches: request.between_switches,
            state: port_state("state", request.state)?,
        };
        let mut page = self.subnet.links(cursor.after, cursor.limit(), &filter);
        let next_page_token = cursor.cut(&mut page.items, |link| link.a.key);
        Ok(Response::new(v1::ListLinksResponse {
            links: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn get_forwarding_table(
        &self,
        request: Request<v1::GetForwardingTableRequest>,
    ) -> Result<Response<v1::GetForwardingTableResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("GetForwardingTable", &mut request)?;
        let switch = selector("switch", &request.switch)?;
        let mut table = self
            .subnet
            .forwarding_table(&switch, cursor.after, cursor.limit())?;
        let next_page_token = cursor.cut(&mut table.entries, |entry| entry.lid);
        Ok(Response::new(v1::GetForwardingTableResponse {
            generation: table.generation,
            table: Some(table.into()),
            next_page_token,
        }))
    }

    async fn resolve_route(
        &self,
        request: Request<v1::ResolveRouteRequest>,
    ) -> Result<Response<v1::ResolveRouteResponse>, Status> {
        let request = request.into_inner();
        let source = selector("source", &request.source)?;
        let destination = selector("destination", &request.destination)?;
        let route = self.subnet.route(&source, &destination)?;
        Ok(Response::new(v1::ResolveRouteResponse {
            generation: route.generation,
            route: Some(route.into()),
        }))
    }

    async fn list_findings(
        &self,
        request: Request<v1::ListFindingsRequest>,
    ) -> Result<Response<v1::ListFindingsResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListFindings", &mut request)?;
        let filter = FindingFilter {
            min_severity: severity("min_severity", request.min_severity)?,
            kind: text_filter("kind", request.kind)?,
            node: node_filter(self.subnet.as_ref(), &request.node)?,
        };
        let mut page = self.subnet.findings(cursor.after, cursor.limit(), &filter);
        let next_page_token = cursor.cut(&mut page.items, |finding| finding.id);
        Ok(Response::new(v1::ListFindingsResponse {
            findings: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn list_missing(
        &self,
        request: Request<v1::ListMissingRequest>,
    ) -> Result<Response<v1::ListMissingResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListMissing", &mut request)?;
        let mut page = self.subnet.missing(cursor.after, cursor.limit());
        let next_page_token = cursor.cut(&mut page.items, |missing| missing.key);
        Ok(Response::new(v1::ListMissingResponse {
            missing: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }
}
