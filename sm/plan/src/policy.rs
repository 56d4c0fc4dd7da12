//! The operator's decisions that plans depend on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::MKeyPolicy;
use rsm_config::{Enforcement, LinkConfig, Partitions, PrefixRoutes, QosPolicy, RateLimits};
use rsm_ids::{Guid, Lmc};
use rsm_routing::engine::{Categories, EngineKind, EngineOptions, Numbers, TorusLayout};
use rsm_routing::lfts::Dump;
use rsm_routing::topology::SwitchRules;

use super::adaptive::AdaptivePolicy;
use crate::qos::Qos;

/// The decisions of the configuration file that go into every plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// LID mask control of channel adapter and router ports.
    pub lmc: Lmc,
    /// Whether enhanced switch port 0 gets [`Policy::lmc`] as well. A base port 0 always has one
    /// LID.
    pub lmc_enhanced_port0: bool,
    /// Whether this manager's port gets its claimed LID even while it holds another LID: a floating
    /// LID belongs to the master and not to a port.
    pub floating_lid: bool,
    /// Values for PortInfo and SwitchInfo.
    pub ports: PortPolicy,
    /// The routing engine.
    pub engine: EngineKind,
    /// The configured engine and its replacements, in order. Valid only while the first engine of
    /// the list is [`Policy::engine`].
    pub engines: Vec<EngineKind>,
    /// Rules about single switches and ports, for engines.
    pub switch_rules: Arc<SwitchRules>,
    /// Categories and order of the ports of hosts, by which routes are spread.
    pub order: OrderPolicy,
    /// The layout of a torus or mesh; `None` if the engine finds it.
    pub layout: Option<Arc<TorusLayout>>,
    /// GUIDs of the root switches of up*/down*; empty if the engine chooses them.
    pub root_guids: Vec<Guid>,
    /// The tables of the engine `file`; `None` if it is not used.
    pub tables: Option<Arc<Dump>>,
    /// Options that the engines declare.
    pub engine_options: EngineOptions,
    /// Whether two switches without hosts need a path between their own ports as well.
    pub connect_roots: bool,
    /// Whether aggregation nodes are enabled; `None` to keep the devices' setting.
    pub aggregation_nodes: Option<bool>,
    /// Whether and how switches route adaptively.
    pub adaptive: AdaptivePolicy,
    /// Whether multicast is routed. If not, multicast tables keep their content.
    pub routes_multicast: bool,
    /// Partition rules.
    pub partitions: Arc<Partitions>,
    /// Routers to other subnets, for the SA.
    pub prefix_routes: Arc<PrefixRoutes>,
    /// The directions in which switches enforce partitions.
    pub enforcement: Enforcement,
    /// The operator's QoS tables; `None` if devices keep their own tables.
    pub qos: Option<Arc<Qos>>,
    /// The operator's rules about paths; `None` if each path has the service level of its
    /// partition.
    pub qos_policy: Option<Arc<QosPolicy>>,
    /// The operator's rate limits by service level; `None` if adapters keep their own limits.
    pub rate_limits: Option<Arc<RateLimits>>,
    /// Whether routes are accepted whose channel dependency graph has cycles. Dangerous: the fabric
    /// can deadlock.
    pub accept_credit_loops: bool,
}

impl Policy {
    /// The engines that replace [`Policy::engine`], in order; empty if that engine is on trial.
    pub fn fallback_engines(&self) -> &[EngineKind] {
        match self.engines.split_first() {
            Some((_, fallbacks)) if !self.is_on_trial() => fallbacks,
            _ => &[],
        }
    }

    /// Whether [`Policy::engine`] is not the configured engine: it is on trial, and no engine
    /// replaces it.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.engines.first() != Some(&self.engine)
    }

    /// Whether routes may need several VLs.
    pub fn may_need_lanes(&self) -> bool {
        let mut engines = self.fallback_engines().iter().chain([&self.engine]);
        engines.any(|engine| engine.may_need_lanes())
    }

    /// The port GUIDs whose partition rules differ from those in `before`; `None` if any other part
    /// of the policy differs.
    pub fn changed_members(&self, before: &Policy) -> Option<BTreeSet<Guid>> {
        let partitions = before.partitions.clone();
        let changed = self.partitions.changed_members(&partitions)?;
        let with_former_partitions = Policy {
            partitions,
            ..self.clone()
        };
        (with_former_partitions == *before).then_some(changed)
    }
}

/// The difference between a plan's policy and the policy of the previous plan. As policies of large
/// sites have a rule for each port, the plan compares the two policies once, and keeps the result
/// for every step that follows changes.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    /// The policy of the previous plan; `None` for a first plan.
    before: Option<Arc<Policy>>,
    /// See [`PolicyChange::members`].
    members: Option<BTreeSet<Guid>>,
}

impl PolicyChange {
    /// Compares the policy `before` with the policy `now`.
    pub(super) fn between(before: Option<&Arc<Policy>>, now: &Arc<Policy>) -> PolicyChange {
        let members = before.and_then(|before| {
            if Arc::ptr_eq(before, now) {
                return Some(BTreeSet::new());
            }
            now.changed_members(before)
        });
        PolicyChange {
            before: before.cloned(),
            members,
        }
    }

    /// The port GUIDs whose partition rules differ; `None` for a first plan, or if any other part
    /// of the policy differs.
    pub fn members(&self) -> Option<&BTreeSet<Guid>> {
        self.members.as_ref()
    }

    /// Whether `policy` is the policy of the previous plan, and only [`PolicyChange::members`]
    /// differ.
    pub fn follows(&self, policy: &Arc<Policy>) -> bool {
        let before = self.before.as_ref();
        self.members.is_some() && before.is_some_and(|before| Arc::ptr_eq(before, policy))
    }
}

/// The operator's decisions about categories and order of the ports of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderPolicy {
    /// Categories of ports that differ from the default of their kind, by port GUID.
    pub categories: Arc<Categories>,
    /// Whether `categories` has all compute ports, so that ports of hosts without a category are
    /// for management.
    pub compute_is_listed: bool,
    /// Whether to spread routes to hosts with several ports in the order of hosts and rails.
    pub rails: bool,
    /// The operator's order of ports of hosts, by port GUID, which has precedence over the order of
    /// rails.
    pub listed: Arc<Numbers>,
}

impl Default for OrderPolicy {
    fn default() -> Self {
        OrderPolicy {
            categories: Arc::default(),
            compute_is_listed: false,
            rails: true,
            listed: Arc::default(),
        }
    }
}

/// Values for PortInfo and SwitchInfo (IBA 14.2.5.4, 14.2.5.6).
#[derive(Clone, PartialEq, Debug)]
pub struct PortPolicy {
    /// Subnet prefix, the upper half of every GID.
    pub subnet_prefix: u64,
    /// M_Keys, which protect end ports from other managers.
    pub m_keys: MKeyPolicy,
    /// M_KeyProtectBits, 0 to 3.
    pub m_key_protect: u8,
    /// Seconds until a port gives up the M_Key of a lost manager; 0 for never.
    pub m_key_lease_s: u16,
    /// Service level for packets to the subnet manager.
    pub sm_sl: u8,
    /// Whether hosts are asked to register again with the SA (ClientReregister, IBA 14.4.11).
    pub reregisters: bool,
    /// Section `links` of the configuration.
    pub links: LinkConfig,
}

impl PortPolicy {
    /// Whether ports require the M_Key for Gets as well, and may have different M_Keys.
    pub fn guards_gets(&self) -> bool {
        self.m_key_protect > 1 && !self.m_keys.is_uniform()
    }
}

impl Default for PortPolicy {
    fn default() -> Self {
        PortPolicy {
            subnet_prefix: 0xfe80_0000_0000_0000,
            m_keys: MKeyPolicy::default(),
            m_key_protect: 0,
            m_key_lease_s: 0,
            sm_sl: 0,
            reregisters: true,
            links: LinkConfig::default(),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            lmc: Lmc::ZERO,
            lmc_enhanced_port0: false,
            floating_lid: false,
            ports: PortPolicy::default(),
            engine: EngineKind::Auto,
            engines: Vec::new(),
            switch_rules: Arc::default(),
            order: OrderPolicy::default(),
            layout: None,
            root_guids: Vec::new(),
            tables: None,
            engine_options: EngineOptions::default(),
            connect_roots: false,
            aggregation_nodes: None,
            adaptive: AdaptivePolicy::default(),
            routes_multicast: true,
            partitions: Arc::default(),
            prefix_routes: Arc::default(),
            enforcement: Enforcement::default(),
            qos: None,
            qos_policy: None,
            rate_limits: None,
            accept_credit_loops: false,
        }
    }
}

/// Conditions under which a flapping link is kept out of the routes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DampingPolicy {
    /// Number of state changes within the window that keeps a link out of the routes; 0 for never.
    pub threshold: u32,
    /// Length of the window.
    pub window: Duration,
    /// Time without a state change after which routes use the link again.
    pub hold: Duration,
}

impl Default for DampingPolicy {
    fn default() -> Self {
        DampingPolicy {
            threshold: 6,
            window: Duration::from_secs(60),
            hold: Duration::from_secs(30),
        }
    }
}

/// Rules for relieving links with maximum load while a fault persists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebalancePolicy {
    /// Time without a change of the subnet before relief begins; zero for never.
    pub after: Duration,
    /// Maximum number of blocks of forwarding tables, and therefore of SMPs, that one step of
    /// relief writes.
    pub blocks: usize,
}

impl Default for RebalancePolicy {
    fn default() -> Self {
        RebalancePolicy {
            after: Duration::from_secs(30),
            blocks: 256,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rsm_config::parse_partitions;
    use rsm_model::fabric::Fabric;
    use rsm_routing::generate::generate;

    use super::*;
    use crate::{Plan, PlanJob, plan};

    fn planned(job: &PlanJob) -> Arc<Plan> {
        let planned = plan(job).plan();
        planned.unwrap_or_else(|refused| panic!("{}", refused.with_causes()))
    }

    /// A policy with these port GUIDs in a partition.
    fn with_members(members: &[Guid]) -> Arc<Policy> {
        let members: Vec<String> = members.iter().map(|guid| format!("{guid}=full")).collect();
        let members = members.join(", ");
        let text = format!("Default=0x7fff : ALL=full ;\nTenant=0x10 : {members} ;");
        let (partitions, findings) = parse_partitions(Path::new("p"), &text, true);
        assert_eq!(findings, []);
        Arc::new(Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        })
    }

    #[test]
    fn plan_keeps_the_comparison_with_the_policy_of_the_previous_plan() {
        let netlist = generate("fat-tree:k=4,levels=2").unwrap();
        let fabric = Arc::new(Fabric::of_netlist(&netlist));
        let hosts = fabric.end_ports().filter(|(at, _)| at.port.0 != 0);
        let guids: Vec<Guid> = hosts.map(|(_, port)| port.guid).take(3).collect();
        let first = planned(&PlanJob::first(fabric.clone(), with_members(&guids[..2])));
        assert_eq!(first.policy_change.members(), None);

        let after = |plan: &Arc<Plan>, policy: Arc<Policy>| {
            planned(&PlanJob {
                policy,
                ..PlanJob::after(plan, fabric.clone())
            })
        };
        let second = after(&first, with_members(&guids));
        let added = BTreeSet::from([guids[2]]);
        assert_eq!(second.policy_change.members(), Some(&added));
        assert!(second.policy_change.follows(&first.policy));
        assert!(!second.policy_change.follows(&second.policy));

        let third = after(&second, second.policy.clone());
        assert_eq!(third.policy_change.members(), Some(&BTreeSet::new()));
        assert!(third.policy_change.follows(&second.policy));

        let other = Policy {
            accept_credit_loops: true,
            ..Policy::clone(&second.policy)
        };
        let fourth = after(&third, Arc::new(other));
        assert_eq!(fourth.policy_change.members(), None);
        assert!(!fourth.policy_change.follows(&third.policy));
    }
}
