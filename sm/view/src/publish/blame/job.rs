//! The hosts of a job, and their ports.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rsm_api::LookupError;
use rsm_api::model::Selector;
use rsm_api::resolve::resolve_node_or_port;
use rsm_gdr::fabric::host_and_device;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, PortRef};

use super::super::api_view::{end_port_numbers, holds_lid};
use super::super::published::Published;

/// Maximum number of names that are searched for as parts of descriptions. Each search reads the
/// descriptions of all nodes.
pub(super) const MAX_DESCRIPTION_SEARCHES: usize = 64;

/// A port of a host of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobPort {
    pub(super) at: PortRef,
    pub(super) key: PortKey,
    pub(super) guid: Guid,
    /// Index into [`Job::hosts`].
    pub(super) host: usize,
}

/// A missing host, or a missing adapter of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GoneAdapter {
    pub(super) guid: Guid,
    pub(super) description: String,
}

/// The hosts of a job.
#[derive(Default, Debug)]
pub(super) struct Job {
    /// Names, as in the question, of the hosts in the fabric.
    pub(super) hosts: Vec<String>,
    /// Ports of the hosts that hold a LID, each once.
    pub(super) ports: Vec<JobPort>,
    /// All nodes of the hosts.
    pub(super) nodes: HashSet<Guid>,
    /// The keys of [`Job::ports`].
    added_ports: HashSet<PortKey>,
    /// Missing adapters of the hosts.
    pub(super) gone: Vec<GoneAdapter>,
    /// Sentences about names that match no host.
    pub(super) unknown: Vec<String>,
    /// Number of further names that match no host and were not searched for in descriptions.
    pub(super) unsearched: usize,
}

impl Job {
    /// Looks up the hosts with these names.
    pub(super) fn find(published: &Published, names: &[String]) -> Job {
        let present = by_host(published.fabric());
        let gone = gone_by_host(published);
        let mut job = Job::default();
        let mut asked = BTreeSet::new();
        let mut searches = 0;
        for name in names.iter().map(|name| name.trim()) {
            let key = name.to_lowercase();
            if !asked.insert(key.clone()) {
                continue;
            }
            let short = key.split('.').next().unwrap_or_default();
            let known = [key.as_str(), short].into_iter();
            let known = known.map(|key| (present.get(key), gone.get(key)));
            let known = known
                .into_iter()
                .find(|(here, gone)| here.is_some() || gone.is_some());
            if let Some((here, gone)) = known {
                job.gone.extend(gone.into_iter().flatten().cloned());
                if let Some(nodes) = here {
                    let nodes = nodes.iter().map(|&node| (node, None)).collect::<Vec<_>>();
                    job.add(published.fabric(), name, &nodes);
                }
                continue;
            }
            job.search(published, name, &mut searches);
        }
        job
    }

    /// Looks up `name`, which no host has: a GUID, a LID, or a part of a description.
    fn search(&mut self, published: &Published, name: &str, searches: &mut usize) {
        let selector = match name.parse::<Selector>() {
            Ok(selector) => selector,
            Err(error) => return self.unknown.push(format!("`{name}`: {error}")),
        };
        if matches!(selector, Selector::Description(_)) {
            *searches += 1;
            if *searches > MAX_DESCRIPTION_SEARCHES {
                self.unsearched += 1;
                return;
            }
        }
        match resolve_node_or_port(&published.names, &selector) {
            Ok((node, port)) if published.fabric().is_switch(node) => {
                let port = port.map_or_else(String::new, |port| format!("port {port} of "));
                let text = format!("`{name}` is {port}a switch: expected a host");
                self.unknown.push(text);
            }
            Ok(found) => self.add(published.fabric(), name, &[found]),
            Err(LookupError::Gone { node, .. }) => {
                let description = published.snapshot.expected.name(published.fabric(), node);
                self.gone.push(GoneAdapter {
                    guid: node,
                    description,
                });
            }
            Err(LookupError::HostGone { nodes, .. }) => {
                for node in nodes {
                    let description = published.snapshot.expected.name(published.fabric(), node);
                    self.gone.push(GoneAdapter {
                        guid: node,
                        description,
                    });
                }
            }
            Err(error) => self.unknown.push(error.to_string()),
        }
    }

    /// Adds a host with the end ports of `nodes` that hold a LID. A node with a port number adds
    /// only that port.
    fn add(&mut self, fabric: &Fabric, name: &str, nodes: &[(Guid, Option<PortNum>)]) {
        let host = self.hosts.len();
        let (before, mut is_other) = (self.ports.len(), false);
        for &(guid, only) in nodes {
            let Some(ix) = fabric.find(guid) else {
                continue;
            };
            self.nodes.insert(guid);
            for number in end_port_numbers(fabric.node(ix)) {
                let at = PortRef {
                    node: ix,
                    port: number,
                };
                let (port, key) = (fabric.port(at), fabric.key(at));
                if only.is_some_and(|only| only != number) || !holds_lid(port) {
                    continue;
                }
                if !self.added_ports.insert(key) {
                    is_other = true;
                    continue;
                }
                self.ports.push(JobPort {
                    at,
                    key,
                    guid: port.guid,
                    host,
                });
            }
        }
        // Another name matched the same ports.
        if self.ports.len() > before || !is_other {
            self.hosts.push(name.to_owned());
        }
    }
}

/// The names by which a job may refer to the host of an adapter, in lower case.
fn names(description: &str) -> impl Iterator<Item = String> {
    let whole = description.trim();
    let host = host_and_device(whole).map_or(whole, |(host, _)| host);
    let first = host.split('.').next().unwrap_or_default();
    let names = BTreeSet::from([whole, host, first].map(str::to_lowercase));
    names.into_iter().filter(|name| !name.is_empty())
}

/// Channel adapters and routers, without aggregation nodes, by each name of their host.
fn by_host(fabric: &Fabric) -> HashMap<String, Vec<Guid>> {
    let mut hosts: HashMap<String, Vec<Guid>> = HashMap::new();
    let nodes = fabric.nodes();
    for node in nodes.filter(|node| node.kind() != NodeType::Switch) {
        let near = node.ports.iter().skip(1).find_map(|port| port.peer);
        let near = near.and_then(|near| fabric.find_port(near));
        if near.is_some_and(|near| node.is_aggregation_node(fabric.port(near))) {
            continue;
        }
        let all: BTreeSet<String> = names(&node.description)
            .chain(names(node.reported()))
            .collect();
        for name in all {
            hosts.entry(name).or_default().push(node.guid);
        }
    }
    hosts
}

/// Missing channel adapters and routers, by each name of their host.
fn gone_by_host(published: &Published) -> BTreeMap<String, Vec<GoneAdapter>> {
    let fabric = published.fabric();
    let mut hosts: BTreeMap<String, Vec<GoneAdapter>> = BTreeMap::new();
    let nodes = published.snapshot.expected.nodes();
    let gone =
        nodes.filter(|(guid, node)| node.kind != NodeType::Switch && fabric.find(*guid).is_none());
    for (guid, node) in gone {
        for name in names(&node.description) {
            hosts.entry(name).or_default().push(GoneAdapter {
                guid,
                description: node.description.clone(),
            });
        }
    }
    hosts
}
