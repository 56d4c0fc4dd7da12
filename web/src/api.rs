//! Serves the subnet as JSON: the services of gRPC, with their requests as query strings.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::get;
use rsm_api::v1;
use rsm_api::v1::foresee_loss_request::Loss;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::answer_cache::AnswerKey;
use crate::graph::Load;
use crate::reply::{self, Reply, failure};
use crate::routes_state::Shared;
use crate::sign_on;

/// Parses the fields of a request from a query string. Refuses unknown names and wrong values.
fn fields<T: DeserializeOwned>(uri: &Uri) -> Result<T, Box<Reply>> {
    let query = uri.query().unwrap_or_default();
    serde_html_form::from_str(query).map_err(|error| {
        let text = wrong_field::<T>(query).unwrap_or_else(|| error.to_string());
        Box::new(failure(StatusCode::BAD_REQUEST, &text))
    })
}

/// A text about the first field, in order of names, that is invalid by itself: the field, its
/// value, and the expected form. `None` if each field is valid by itself. The error of the whole
/// query does not state the field.
fn wrong_field<T: DeserializeOwned>(query: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_html_form::from_str(query).ok()?;
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in &pairs {
        values.entry(name).or_default().push(value);
    }
    values.into_iter().find_map(|(name, values)| {
        let pairs: Vec<(&str, &str)> = values.iter().map(|&value| (name, value)).collect();
        let alone = serde_html_form::to_string(&pairs).ok()?;
        let error = serde_html_form::from_str::<T>(&alone).err()?.to_string();
        let values = values.join("`, `");
        Some(match error.as_str() {
            unknown if unknown.starts_with("unknown field") => unknown.to_owned(),
            error => format!("{name}: `{values}` cannot be read: {}", expected(error)),
        })
    })
}

/// The expected form of a value, derived from the standard library's error text about numbers.
fn expected(error: &str) -> &str {
    match error {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "expected a whole number, 0 or more, in decimal digits"
        }
        "number too large to fit in target type" => "the number is too large for this field",
        other => other,
    }
}

/// Declares routes: the path below `/api/v1/`, and the method of [`rsm_api::Reader`] that answers.
macro_rules! routes {
    ($($path:literal => $method:ident($request:ident),)+) => {
        fn readers() -> Router<Arc<Shared>> {
            Router::new()$(.route(
                concat!("/api/v1/", $path),
                get(async |State(shared): State<Arc<Shared>>, uri: Uri| {
                    let request = match fields::<v1::$request>(&uri) {
                        Ok(request) => request,
                        Err(refused) => return *refused,
                    };
                    match shared.reader.$method(request).await {
                        Ok(answer) => reply::json(&answer),
                        Err(status) => reply::refusal(&status),
                    }
                }),
            ))+
        }

        /// The paths of all routes that answer as gRPC does.
        #[cfg(test)]
        const PATHS: &[&str] = &[$(concat!("/api/v1/", $path)),+];
    };
}

routes! {
    "status" => get_status(GetStatusRequest),
    "report" => get_report(GetReportRequest),
    "nodes" => list_nodes(ListNodesRequest),
    "node" => get_node(GetNodeRequest),
    "ports" => list_ports(ListPortsRequest),
    "virtual-ports" => list_virtual_ports(ListVirtualPortsRequest),
    "congestion-agents" => list_congestion_agents(ListCongestionAgentsRequest),
    "port" => get_port(GetPortRequest),
    "links" => list_links(ListLinksRequest),
    "forwarding-table" => get_forwarding_table(GetForwardingTableRequest),
    "route" => resolve_route(ResolveRouteRequest),
    "findings" => list_findings(ListFindingsRequest),
    "missing" => list_missing(ListMissingRequest),
    "design-moves" => list_design_moves(ListDesignMovesRequest),
    "drained" => list_drained(ListDrainedRequest),
    "convergences" => list_convergences(ListConvergencesRequest),
    "activity" => get_activity(GetActivityRequest),
    "events" => list_events(ListEventsRequest),
    "partitions" => list_partitions(ListPartitionsRequest),
    "partition-members" => list_partition_members(ListPartitionMembersRequest),
    "partition-guids" => list_partition_guids(ListPartitionGuidsRequest),
    "engines" => list_engines(ListEnginesRequest),
    "quality" => get_routing_quality(GetRoutingQualityRequest),
    "cable-use" => get_cable_use(GetCableUseRequest),
    "cable-hosts" => list_cable_hosts(ListCableHostsRequest),
    "paths" => resolve_path(ResolvePathRequest),
    "qos" => get_qos(GetQosRequest),
    "sa-counters" => get_sa_counters(GetSaCountersRequest),
    "port-counters" => list_port_counters(ListPortCountersRequest),
    "top-ports" => get_top_ports(GetTopPortsRequest),
    "counter-series" => get_counter_series(GetCounterSeriesRequest),
    "port-trends" => get_port_trends(GetPortTrendsRequest),
    "top-ports-since" => get_top_ports_since(GetTopPortsSinceRequest),
    "services" => list_services(ListServicesRequest),
    "subscriptions" => list_subscriptions(ListSubscriptionsRequest),
    "alias-guids" => list_alias_guids(ListAliasGuidsRequest),
    "multicast-groups" => list_multicast_groups(ListMulticastGroupsRequest),
    "multicast-group" => get_multicast_group(GetMulticastGroupRequest),
    "multicast-members" => list_multicast_members(ListMulticastMembersRequest),
    "multicast-switches" => list_multicast_switches(ListMulticastSwitchesRequest),
    "gpu-hosts" => list_gpu_hosts(ListGpuHostsRequest),
    "gpu-hints" => get_gpu_hints(GetGpuHintsRequest),
    "gpu-pair" => get_gpu_pair(GetGpuPairRequest),
    "gpu-status" => get_gpu_status(GetGpuStatusRequest),
}

/// The parts that are lost together: `unlink` names a cable by one of its ports, `remove` a node,
/// and `part` either; each may be given any number of times.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Losses {
    unlink: Vec<String>,
    remove: Vec<String>,
    part: Vec<String>,
}

impl Losses {
    /// The request in the form of gRPC.
    fn request(mut self) -> v1::ForeseeLossRequest {
        let loss = if self.unlink.is_empty() {
            (!self.remove.is_empty()).then(|| Loss::Remove(self.remove.remove(0)))
        } else {
            Some(Loss::Unlink(self.unlink.remove(0)))
        };
        v1::ForeseeLossRequest {
            loss,
            further_unlinks: self.unlink,
            further_removes: self.remove,
            parts: self.part,
        }
    }
}

async fn foresee(State(shared): State<Arc<Shared>>, uri: Uri) -> Reply {
    let losses = match fields::<Losses>(&uri) {
        Ok(losses) => losses,
        Err(refused) => return *refused,
    };
    match shared.reader.foresee_loss(losses.request()).await {
        Ok(answer) => reply::json(&answer),
        Err(status) => reply::refusal(&status),
    }
}

/// The query of a path that takes no field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

async fn graph(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Reply {
    if let Err(refused) = fields::<NoFields>(&uri) {
        return *refused;
    }
    match shared.graphs.current().await {
        Ok(drawn) => reply::tagged(&headers, reply::JSON, &drawn.tag, drawn.json.clone()),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The use and errors of the links of the graph, in its order.
async fn load(State(shared): State<Arc<Shared>>, uri: Uri) -> Reply {
    if let Err(refused) = fields::<NoFields>(&uri) {
        return *refused;
    }
    let Some(counters) = shared.counters.clone() else {
        return failure(
            StatusCode::CONFLICT,
            "this server manages no subnet: ask an rsm that does",
        );
    };
    let drawn = match shared.graphs.current().await {
        Ok(drawn) => drawn,
        Err(error) => return failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let key = || AnswerKey::now(shared.subnet.as_ref(), shared.counters.as_deref());
    let load = move || {
        let load = serde_json::to_vec(&Load::of(&drawn, counters.as_ref()));
        load.map(Bytes::from).map_err(|error| error.to_string())
    };
    let load = shared.load.get(key, load).await;
    match load.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(load) => reply::body(StatusCode::OK, reply::JSON, load),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error),
    }
}

pub(crate) fn routes() -> Router<Arc<Shared>> {
    readers()
        .route("/api/v1/what-if", get(foresee))
        .route("/api/v1/me", get(sign_on::me))
        .route("/api/v1/graph", get(graph))
        .route("/api/v1/graph-load", get(load))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(query: &str) -> Option<T> {
        let uri: Uri = format!("/api/v1/x?{query}").parse().unwrap();
        fields(&uri).ok()
    }

    #[test]
    fn requests_come_from_query_strings_and_unknown_fields_are_refused() {
        let request: v1::ListPortsRequest =
            read("node=leaf-1%20%3Cb%3E&state=active&page_size=5&connected=true").unwrap();
        assert_eq!(request.node, "leaf-1 <b>");
        assert_eq!(request.state(), v1::PortState::Active);
        assert_eq!((request.page_size, request.connected), (5, true));
        assert!(read::<v1::ListPortsRequest>("").is_some());
        for wrong in [
            "nod=1",
            "state=up",
            "page_size=-1",
            "page_size=x",
            "connected=2",
        ] {
            assert!(read::<v1::ListPortsRequest>(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn refusals_name_the_field_the_value_and_the_expected_form() {
        let refusal = |query: &str| wrong_field::<v1::ListPortsRequest>(query).unwrap();
        for (query, parts) in [
            (
                "node=leaf-1&page_size=x",
                ["page_size", "`x`", "whole number"],
            ),
            ("page_size=-1", ["page_size", "`-1`", "whole number"]),
            ("page_size=", ["page_size", "``", "whole number"]),
            (
                "page_size=99999999999",
                ["page_size", "`99999999999`", "too large"],
            ),
            (
                "page_size=1&page_size=2",
                ["page_size", "`1`, `2`", "cannot be read"],
            ),
            ("connected=yes", ["connected", "`yes`", "\"true\""]),
            ("state=up%26", ["state", "up&", "active"]),
            ("nod=1", ["`nod`", "unknown field", "`node`"]),
        ] {
            let refusal = refusal(query);
            for part in parts {
                assert!(refusal.contains(part), "{query}: {refusal}");
            }
        }
        assert_eq!(wrong_field::<v1::ListPortsRequest>("page_size=3"), None);
    }

    #[test]
    fn several_losses_become_one_request() {
        let losses: Losses = read("unlink=leaf-1:3&remove=spine-1&unlink=leaf-1:4").unwrap();
        let request = losses.request();
        assert_eq!(request.loss, Some(Loss::Unlink("leaf-1:3".to_owned())));
        assert_eq!(request.further_unlinks, ["leaf-1:4"]);
        assert_eq!(request.further_removes, ["spine-1"]);
        let none: Losses = read("").unwrap();
        assert_eq!(none.request().loss, None);
    }

    #[test]
    fn no_two_routes_have_one_path() {
        let mut paths = PATHS.to_vec();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), PATHS.len());
        // Two routes with one path would panic.
        let _routes = routes();
    }
}
