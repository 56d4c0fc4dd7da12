//! Categories of ports, and the order of compute ports by which routes are spread.
//!
//! Engines spread routes by host and rail, not by the ports at which cables end
//! (`rsm_gdr::host_order`). Positions are claims, like LIDs: plans assign positions, and the store
//! keeps them. Engines get numbers and categories, and know neither hosts nor GPUs. Positions
//! decide only between choices of equal cost, and the proof does not depend on positions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rsm_gdr::fabric as gdr;
use rsm_gdr::host_order::{Blocks, HostPositions};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{AnalysisConfig, Survey};
use rsm_ids::Guid;
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::Fabric;
use rsm_routing::engine::{Categories, Category, Numbers};
use rsm_routing::topology::{Destination, Topology};

use crate::gpu;
use crate::policy::OrderPolicy;

/// Inputs of the host order.
#[derive(Clone, Debug, Default)]
pub struct HostOrderSources {
    /// GPU inventories of hosts.
    pub gpus: Arc<GpuInventory>,
    /// The operator's decisions.
    pub policy: OrderPolicy,
}

impl HostOrderSources {
    /// Whether both are equal. Inventories count as equal only if they are the same object.
    fn are_equal(&self, other: &HostOrderSources) -> bool {
        // Inventories are large and are always replaced as a whole.
        Arc::ptr_eq(&self.gpus, &other.gpus) && self.policy == other.policy
    }
}

/// The order of hosts, rails and categories by which routes are spread.
#[derive(Clone, Debug, Default)]
pub struct HostOrder {
    /// Positions of compute ports, which are kept from run to run.
    pub positions: Arc<HostPositions>,
    /// Categories of ports that differ from the default of their kind.
    pub categories: Arc<Categories>,
    /// Order numbers of compute ports.
    pub numbers: Arc<Numbers>,
    /// Rails of compute ports, by port GUID.
    pub rails: Arc<BTreeMap<Guid, u16>>,
    /// Host numbers of compute ports, by port GUID.
    pub hosts: Arc<BTreeMap<Guid, u32>>,
    sources: HostOrderSources,
    /// All host ports in the order, each with its switch.
    host_ports: Arc<BTreeSet<(Guid, Guid)>>,
}

impl HostOrder {
    /// Checks that the order, made for the switch graph `before`, is valid for `sources` and the
    /// graph `now`: the sources are equal, and every host port of `now` was at the same switch.
    ///
    /// # Errors
    /// The reason why the order may differ.
    pub(super) fn check(
        &self,
        sources: &HostOrderSources,
        before: &Topology,
        now: &Topology,
    ) -> Result<(), &'static str> {
        if !self.sources.are_equal(sources) {
            return Err(
                "GPU inventories, categories, the use of rails or the order of ports changed",
            );
        }
        match self.contains_host_ports(now, before) {
            true => Ok(()),
            false => Err("a host port is new, or at another switch"),
        }
    }

    /// Computes the order for a fabric. Every port in `positions` keeps its position.
    pub fn new(
        fabric: &Fabric,
        topology: &Arc<Topology>,
        sources: HostOrderSources,
        positions: &Arc<HostPositions>,
    ) -> HostOrder {
        let has_inventory =
            !sources.gpus.hosts().is_empty() || sources.gpus.default_machine_type().is_some();
        let mut order = HostOrder {
            positions: positions.clone(),
            categories: sources.policy.categories.clone(),
            numbers: Arc::default(),
            rails: Arc::default(),
            hosts: Arc::default(),
            host_ports: Arc::new(host_ports(topology).collect()),
            sources,
        };
        let detects_rails = order.sources.policy.rails && (has_inventory || may_have_rails(fabric));
        if has_inventory || detects_rails {
            let view = gpu::fabric(fabric, topology, None, 0);
            let config = AnalysisConfig {
                roles: roles(&order.sources.policy.categories),
                ..AnalysisConfig::default()
            };
            let survey = Survey::new(&order.sources.gpus, Some(&view), &config);
            order.categorise(&survey, &view);
            if detects_rails {
                let blocks = Blocks::find(&survey, &view, &order.sources.policy.categories);
                order.rails = Arc::new(blocks.rails(&view));
                order.hosts = Arc::new(blocks.hosts(&view));
                let positions = order.positions.with(&blocks, &view);
                if positions != *order.positions {
                    order.positions = Arc::new(positions);
                }
            }
        }
        if order.sources.policy.compute_is_listed {
            order.categorise_unlisted();
        }
        if order.sources.policy.rails {
            order.numbers = Arc::new(order.positions.numbers());
        }
        if !order.sources.policy.listed.is_empty() {
            order.numbers = Arc::new(order.after_listed());
        }
        order
    }

    /// The GPU inventories that the order was made from.
    pub fn gpus(&self) -> Arc<GpuInventory> {
        self.sources.gpus.clone()
    }

    /// The categories in the operator's files that the order was made from.
    pub fn operator_categories(&self) -> &Categories {
        &self.sources.policy.categories
    }

    /// Adds the categories of GPU hosts' ports, except those that the operator sets.
    fn categorise(&mut self, survey: &Survey, view: &gdr::GpuFabric) {
        let mut found = Categories::new();
        for host in &survey.hosts {
            for (joined, (role, _)) in host.joined.iter().zip(&host.roles) {
                if let (Some(port), Some(category)) = (joined.port(), role.category()) {
                    found.insert(view.port(port).guid, category);
                }
            }
        }
        if !found.is_empty() {
            found.extend(
                self.sources
                    .policy
                    .categories
                    .iter()
                    .map(|(&guid, &category)| (guid, category)),
            );
            self.categories = Arc::new(found);
        }
    }

    /// The order numbers with the operator's list first, and all other ports after it.
    fn after_listed(&self) -> Numbers {
        let listed = &self.sources.policy.listed;
        let after = listed
            .values()
            .copied()
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        let others = self.numbers.iter();
        let others = others.map(|(&guid, &number)| (guid, number.saturating_add(after)));
        others
            .chain(listed.iter().map(|(&guid, &number)| (guid, number)))
            .collect()
    }

    /// Assigns the category management to host ports without a category.
    fn categorise_unlisted(&mut self) {
        let mut all = Categories::clone(&self.categories);
        for &(port, _) in self.host_ports.iter() {
            all.entry(port).or_insert(Category::Management);
        }
        self.categories = Arc::new(all);
    }

    /// Whether the order contains every host port of `topology`, at the same switch. Requires that
    /// the order contains all host ports of `earlier`.
    fn contains_host_ports(&self, topology: &Topology, earlier: &Topology) -> bool {
        let key = |topology: &Topology, d: &Destination| {
            (topology.switch(d.switch).guid, d.guid, d.port, d.kind)
        };
        let now = topology.destinations().iter().map(|d| key(topology, d));
        let before = earlier.destinations().iter().map(|d| key(earlier, d));
        now.eq(before)
            || topology.indices().all(|switch| {
                let guid = topology.switch(switch).guid;
                let now = topology.destinations_of(switch);
                let key = |d: &Destination| (d.guid, d.port, d.kind);
                let before = earlier.switch_by_guid(guid);
                before.is_some_and(|before| {
                    let before = earlier.destinations_of(before);
                    now.iter().map(key).eq(before.iter().map(key))
                }) || now
                    .iter()
                    .filter(|end| end.kind.is_host())
                    .all(|end| self.host_ports.contains(&(end.guid, guid)))
            })
    }
}

/// The host ports of `topology`, each with its switch.
fn host_ports(topology: &Topology) -> impl Iterator<Item = (Guid, Guid)> {
    let hosts = topology.destinations().iter();
    let hosts = hosts.filter(|destination| destination.kind.is_host());
    hosts.map(|end| (end.guid, topology.switch(end.switch).guid))
}

/// The roles of ports for GPU hints, from the operator's categories.
pub fn roles(operator_categories: &Categories) -> BTreeMap<Guid, TrafficRole> {
    let role = |(&guid, &category): (&Guid, &Category)| Some((guid, TrafficRole::of(category)?));
    operator_categories.iter().filter_map(role).collect()
}

/// Whether nodes whose descriptions name one host are cabled to several switches. Otherwise, as in
/// most large fabrics, there are no rails to detect.
fn may_have_rails(fabric: &Fabric) -> bool {
    let mut leaf_of: HashMap<&str, Guid> = HashMap::new();
    for (at, port) in fabric.end_ports() {
        let node = fabric.node(at.node);
        let host = node.reported().split_whitespace().next();
        if let (NodeType::Ca, Some(host), Some(peer)) = (node.kind(), host, port.peer)
            && *leaf_of.entry(host).or_insert(peer.node) != peer.node
        {
            return true;
        }
    }
    false
}
