//! The calls of NetQ's API by which topograph reads a fabric: topograph with the provider `netq`
//! uses rsm in place of a NetQ server.
//!
//! The calls are a login, the choice of a premises, the graph, and the NVLink domains of hosts, as
//! the page `docs/providers/netq.md` of topograph 1.0 describes them. All four only read, and serve
//! all clients that may read the page; a name and a password are accepted and ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use rsm_api::v1;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::reply::{self, Reply, failure};
use crate::routes_state::Shared;

/// The calls that are sent with POST although they only read.
const POSTED: [&str; 2] = [LOGIN, GRAPH];

const LOGIN: &str = "/api/netq/auth/v1/login";
const GRAPH: &str = "/api/netq/telemetry/v1/object/topologygraph/fetch-topology";

/// The tier of hosts; switches have tiers from 0 on.
const HOST_TIER: i64 = -1;

/// The text between the two ends in the name of a link. Names of hosts and groups have no `*`.
const LINK: &str = "-*-";

/// Whether a path accepts POST.
pub(crate) fn is_posted(path: &str) -> bool {
    POSTED.contains(&path)
}

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route(LOGIN, post(async || reply::json(&session())))
        .route(
            "/api/netq/auth/v1/select/opid/{premises}",
            get(async || reply::json(&session())),
        )
        .route(GRAPH, post(graph))
        .route("/nmx/v1/compute-nodes", get(compute_nodes))
}

/// A session with a single premises, `rsm`.
fn session() -> Value {
    json!({
        "access_token": "none",
        "premises": [{"config_key_viewed": true, "name": "rsm", "namespace": "rsm", "opid": 0}],
    })
}

async fn graph(State(shared): State<Arc<Shared>>) -> Reply {
    match Fabric::read(&shared).await {
        Ok(fabric) => reply::json(&fabric.graph()),
        Err(refused) => *refused,
    }
}

async fn compute_nodes(State(shared): State<Arc<Shared>>) -> Reply {
    match Fabric::read(&shared).await {
        Ok(fabric) => reply::json(&fabric.compute_nodes()),
        Err(refused) => *refused,
    }
}

/// The hosts with the groups around them, as topograph's own graph has them.
#[derive(Deserialize)]
struct Fabric {
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    id: String,
    /// The groups around the host, the smallest first.
    network_layers: Vec<String>,
    labels: BTreeMap<String, String>,
}

impl Fabric {
    async fn read(shared: &Shared) -> Result<Fabric, Box<Reply>> {
        let request = v1::ExportGpuFileRequest {
            name: "topograph".to_owned(),
            ..v1::ExportGpuFileRequest::default()
        };
        let file = shared.reader.export_gpu_file(request).await;
        let file = file.map_err(|status| Box::new(reply::refusal(&status)))?;
        serde_json::from_str(&file.content).map_err(|error| {
            let text = format!("the groups of hosts cannot be read: {error}");
            Box::new(failure(StatusCode::INTERNAL_SERVER_ERROR, &text))
        })
    }

    /// The groups as switches, each linked with the group around it. The result is a tree, so that
    /// topograph has nothing to merge. All hosts are equally deep, because topograph walks upwards
    /// from all hosts at once. A host with the name of a group is left out, because it would
    /// replace the group.
    fn graph(&self) -> Value {
        let depth = self.instances.iter().map(|one| one.network_layers.len());
        let depth = depth.max().unwrap_or(0);
        let layers = self.instances.iter().map(|one| &one.network_layers);
        let groups: BTreeSet<String> = layers.flat_map(|layers| deepened(layers, depth)).collect();
        let mut tiers: BTreeMap<String, i64> = BTreeMap::new();
        let mut links: BTreeSet<String> = BTreeSet::new();
        for instance in &self.instances {
            if groups.contains(&instance.id) {
                tracing::warn!(
                    host = instance.id,
                    "a host has the name of a group of hosts"
                );
                continue;
            }
            let mut below = &instance.id;
            tiers.insert(below.clone(), HOST_TIER);
            let layers = deepened(&instance.network_layers, depth);
            for (tier, layer) in (HOST_TIER + 1..).zip(&layers) {
                tiers.insert(layer.clone(), tier);
                links.insert(format!("{below}{LINK}{layer}"));
                below = layer;
            }
        }
        let nodes: Vec<Value> = (tiers.iter())
            .map(|(name, tier)| json!({"id": name, "name": name, "tier": tier}))
            .collect();
        let links: Vec<Value> = links.iter().map(|id| json!({"id": id})).collect();
        json!([{"nodes": [{"compounded_nodes": nodes}], "links": links}])
    }

    /// The hosts that are in an NVLink domain, by the domain's name.
    fn compute_nodes(&self) -> Value {
        let of_host = |instance: &Instance| {
            let domain = instance.labels.get("nvidia.com/gpu.clique")?;
            Some(json!({"ID": instance.id, "Name": instance.id, "DomainUUID": domain}))
        };
        Value::Array(self.instances.iter().filter_map(of_host).collect())
    }
}

/// The groups around a host, the smallest first, extended to the length `depth` by further groups
/// after the first group; empty for a host without groups.
fn deepened(layers: &[String], depth: usize) -> Vec<String> {
    let Some((first, rest)) = layers.split_first() else {
        return Vec::new();
    };
    let lacking = depth.saturating_sub(layers.len());
    let more = (1..=lacking).map(|number| format!("{first}-{number}"));
    std::iter::once(first.clone())
        .chain(more)
        .chain(rest.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The switches above each of `nodes` as topograph finds them (`parseNetq`, 1.0): layer by
    /// layer from the hosts, each switch only in the first layer that reaches it.
    fn parsed(answer: &Value, nodes: &[&str]) -> BTreeMap<String, Vec<String>> {
        let answers = answer.as_array().expect("a list");
        assert_eq!(answers.len(), 1, "topograph refuses several");
        let (mut tiers, mut layer) = (BTreeMap::new(), BTreeMap::new());
        let mut switches = BTreeSet::new();
        let lists = answers[0]["nodes"].as_array().expect("nodes");
        for node in lists
            .iter()
            .flat_map(|list| list["compounded_nodes"].as_array())
            .flatten()
        {
            let text = |name: &str| node[name].as_str().expect("text").to_owned();
            let tier = node["tier"].as_i64().expect("a number");
            if tier != -1 {
                switches.insert(text("id"));
            } else if nodes.contains(&text("name").as_str()) {
                layer.insert(text("id"), vec![text("name")]);
            }
            tiers.insert(text("id"), tier);
        }
        let mut up: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for link in answers[0]["links"].as_array().expect("links") {
            let id = link["id"].as_str().expect("text");
            let (low, high) = id.split_once("-*-").expect("two ends");
            let (low, high) = match tiers[low] < tiers[high] {
                true => (low, high),
                false => (high, low),
            };
            assert_ne!(tiers[low], tiers[high], "{id}: refused");
            up.entry(low.to_owned())
                .or_default()
                .insert(high.to_owned());
        }
        let mut above: BTreeMap<String, Vec<String>> = BTreeMap::new();
        loop {
            let mut next: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (id, hosts) in &layer {
                for switch in up.get(id).into_iter().flatten() {
                    assert!(
                        switches.contains(switch) || next.contains_key(switch),
                        "{switch} is in two layers: topograph loses {hosts:?}"
                    );
                    switches.remove(switch);
                    next.entry(switch.clone())
                        .or_default()
                        .extend(hosts.clone());
                    for host in hosts {
                        above.entry(host.clone()).or_default().push(switch.clone());
                    }
                }
            }
            if next.is_empty() {
                return above;
            }
            layer = next;
        }
    }

    fn fabric(text: &str) -> Fabric {
        serde_json::from_str(text).expect("a graph")
    }

    #[test]
    fn topograph_finds_the_groups_around_each_host_of_the_cluster() {
        let fabric = fabric(
            r#"{"instances": [
            {"id": "a", "network_layers": ["su-1", "pod-1", "fabric-1"], "labels": {}},
            {"id": "b", "network_layers": ["su-2", "pod-1", "fabric-1"],
             "labels": {"nvidia.com/gpu.clique": "d.1"}},
            {"id": "c", "network_layers": ["su-3", "pod-2", "fabric-1"],
             "labels": {"nvidia.com/gpu.clique": "d.2"}}]}"#,
        );
        let found = parsed(&fabric.graph(), &["a", "b", "c"]);
        for instance in &fabric.instances {
            assert_eq!(found[&instance.id], instance.network_layers);
        }
        // A host that is not in the cluster is in no layer.
        let found = parsed(&fabric.graph(), &["a"]);
        assert_eq!(found.len(), 1);
        let nodes = fabric.compute_nodes();
        assert_eq!(
            nodes,
            json!([{"ID": "b", "Name": "b", "DomainUUID": "d.1"},
                   {"ID": "c", "Name": "c", "DomainUUID": "d.2"}])
        );
    }

    #[test]
    fn hosts_nearer_to_the_root_are_made_as_deep_as_all_other_hosts() {
        let fabric = fabric(
            r#"{"instances": [
            {"id": "a", "network_layers": ["su-1", "pod-1", "fabric-1"], "labels": {}},
            {"id": "s", "network_layers": ["leaf-9", "fabric-1"], "labels": {}}]}"#,
        );
        let found = parsed(&fabric.graph(), &["a", "s"]);
        assert_eq!(found["a"], ["su-1", "pod-1", "fabric-1"]);
        assert_eq!(found["s"], ["leaf-9", "leaf-9-1", "fabric-1"]);
    }

    #[test]
    fn host_with_the_name_of_a_group_is_left_out_and_the_group_stays() {
        let fabric = fabric(
            r#"{"instances": [
            {"id": "a", "network_layers": ["su-1", "pod-1", "fabric-1"], "labels": {}},
            {"id": "pod-1", "network_layers": ["su-2", "pod-2", "fabric-1"], "labels": {}},
            {"id": "su-2-1", "network_layers": ["su-3", "pod-2", "fabric-1"], "labels": {}}]}"#,
        );
        let found = parsed(&fabric.graph(), &["a", "pod-1", "su-2-1"]);
        assert_eq!(found["a"], ["su-1", "pod-1", "fabric-1"]);
        assert_eq!(found["su-2-1"], ["su-3", "pod-2", "fabric-1"]);
        assert!(!found.contains_key("pod-1"), "{found:?}");
    }

    #[test]
    fn only_login_and_graph_accept_post() {
        assert!(is_posted(LOGIN) && is_posted(GRAPH));
        assert!(!is_posted("/nmx/v1/compute-nodes") && !is_posted("/api/v1/status"));
        // Two routes with one path would panic.
        let _routes = routes();
    }
}
