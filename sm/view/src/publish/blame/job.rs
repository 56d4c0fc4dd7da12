//! Looks up the hosts of a job, and their ports.

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

/// Maximum number of names for which descriptions are searched. Each search reads the descriptions
/// of all nodes.
pub(super) const MAX_DESCRIPTION_SEARCHES: usize = 64;

/// An end port of a host of the job.
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
    /// Names of the hosts in the fabric, as in the question.
    pub(super) hosts: Vec<String>,
    /// End ports of the hosts that hold a LID, each once.
    pub(super) ports: Vec<JobPort>,
    /// All nodes of the hosts.
    pub(super) nodes: HashSet<Guid>,
    /// Keys of [`Job::ports`].
    added_ports: HashSet<PortKey>,
    /// Missing adapters of the hosts.
    pub(super) gone: Vec<GoneAdapter>,
    /// Sentences about names that match no host.
    pub(super) unknown: Vec<String>,
    /// Number of names that match no host, and for which descriptions were not searched because of
    /// [`MAX_DESCRIPTION_SEARCHES`].
    pub(super) unsearched: usize,
}

impl Job {
    /// Looks up the hosts with these names, ignoring case. A name may be short or fully qualified,
    /// a GUID, a LID, or a part of a description.
    pub(super) fn find(published: &Published, names: &[String]) -> Job {
        let present = by_host(published.fabric());
        let gone = gone_by_host(published);
        let mut job = Job::default();
        let mut seen_names = BTreeSet::new();
        let mut searches = 0;
        for name in names.iter().map(|name| name.trim()) {
            let key = name.to_lowercase();
            if !seen_names.insert(key.clone()) {
                continue;
            }
            let short_name = key.split('.').next().unwrap_or_default();
            let matches = [key.as_str(), short_name].into_iter();
            let matches = matches.map(|key| (present.get(key), gone.get(key)));
            let found = matches
                .into_iter()
                .find(|(present_nodes, gone)| present_nodes.is_some() || gone.is_some());
            if let Some((present_nodes, gone)) = found {
                job.gone.extend(gone.into_iter().flatten().cloned());
                if let Some(nodes) = present_nodes {
                    let nodes = nodes.iter().map(|&node| (node, None)).collect::<Vec<_>>();
                    job.add(published.fabric(), name, &nodes);
                }
                continue;
            }
            job.search(published, name, &mut searches);
        }
        job
    }

    /// Looks up `name`, which is not the name of a host, as a GUID, a LID, or a part of a
    /// description.
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
            Ok(node_and_port) => self.add(published.fabric(), name, &[node_and_port]),
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

    /// Adds a host named `name`, with the end ports of `nodes` that hold a LID. For a node with a
    /// port number, adds only that port. Adds no host if earlier names have matched all its ports.
    fn add(&mut self, fabric: &Fabric, name: &str, nodes: &[(Guid, Option<PortNum>)]) {
        let host = self.hosts.len();
        let (count_before, mut has_earlier_ports) = (self.ports.len(), false);
        for &(guid, only_port) in nodes {
            let Some(index) = fabric.find(guid) else {
                continue;
            };
            self.nodes.insert(guid);
            for number in end_port_numbers(fabric.node(index)) {
                let at = PortRef {
                    node: index,
                    port: number,
                };
                let (port, key) = (fabric.port(at), fabric.key(at));
                if only_port.is_some_and(|only| only != number) || !holds_lid(port) {
                    continue;
                }
                if !self.added_ports.insert(key) {
                    has_earlier_ports = true;
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
        // Without a new port, another name has matched the same host.
        if self.ports.len() > count_before || !has_earlier_ports {
            self.hosts.push(name.to_owned());
        }
    }
}

/// The names by which a job may refer to the host of an adapter, in lower case.
fn names(description: &str) -> impl Iterator<Item = String> {
    let description = description.trim();
    let host = host_and_device(description).map_or(description, |(host, _)| host);
    let short_name = host.split('.').next().unwrap_or_default();
    let names = BTreeSet::from([description, host, short_name].map(str::to_lowercase));
    names.into_iter().filter(|name| !name.is_empty())
}

/// Channel adapters and routers, without aggregation nodes, by each name of their host.
fn by_host(fabric: &Fabric) -> HashMap<String, Vec<Guid>> {
    let mut hosts: HashMap<String, Vec<Guid>> = HashMap::new();
    let nodes = fabric.nodes();
    for node in nodes.filter(|node| node.kind() != NodeType::Switch) {
        let neighbour = node.ports.iter().skip(1).find_map(|port| port.peer);
        let neighbour = neighbour.and_then(|neighbour| fabric.find_port(neighbour));
        if neighbour.is_some_and(|neighbour| node.is_aggregation_node(fabric.port(neighbour))) {
            continue;
        }
        let host_names: BTreeSet<String> = names(&node.description)
            .chain(names(node.reported()))
            .collect();
        for name in host_names {
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
