//! Quality of service of paths: the QoS level that the operator's policy assigns to a query, and
//! the service levels that ports on a path drop.

use std::sync::Arc;

use rsm_config::{GroupKind, MatchRule, PortGroup, QosLevel, QosPolicy, Ranges};
use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_plan::policy::Policy;
use rsm_plan::qos::{PortClass, Qos};
use rsm_routing::lanes::DROP;

use super::ends::{EndIx, EndPort};
use super::partitions::Memberships;

/// The components of a query that rules of a policy match; `None` for a component that the query
/// lacks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Criteria {
    pub(super) service_id: Option<u64>,
    pub(super) qos_class: Option<u16>,
    pub(super) p_key: Option<PKey>,
}

/// Why a path has its service level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlReason {
    /// The query requested the service level.
    Requested,
    /// The routes require the service level.
    Engine,
    /// A rule of the policy applies, given by its index.
    Rule(usize),
    /// The policy's level for queries that match no rule applies.
    DefaultLevel,
    /// The partition of the path has the service level.
    Partition(PKey),
    /// The lowest service level that no port on the path drops, for raw packets, which are in no
    /// partition.
    Lowest,
}

/// The QoS level of a query, and the rule that the query matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenLevel<'a> {
    pub(super) level: &'a QosLevel,
    /// Index of the rule; `None` if the query matches no rule.
    pub(super) rule: Option<usize>,
}

impl ChosenLevel<'_> {
    /// The reason for the service level of the QoS level.
    pub(super) fn reason(&self) -> SlReason {
        self.rule.map_or(SlReason::DefaultLevel, SlReason::Rule)
    }
}

/// The operator's decisions about paths in one snapshot.
#[derive(Debug)]
pub(super) struct PathQos {
    rules: Option<Rules>,
    /// Mask of the SLs (bit n for SL n) that each class of ports drops, in the order of
    /// [`PortClass::ALL`].
    dropped: [u16; PortClass::ALL.len()],
}

/// The operator's QoS policy, with the ports of its groups.
#[derive(Debug)]
struct Rules {
    policy: Arc<QosPolicy>,
    /// Ports of each group, by the index of the group; empty for a group that no rule uses.
    groups: Vec<EndSet>,
}

/// A set of ends, as bits: bit n of word w stands for the end with index 64 w + n.
#[derive(Clone, Default, Debug)]
struct EndSet(Vec<u64>);

impl EndSet {
    /// The ends below `ends` for which `has` returns true.
    fn of(ends: usize, has: impl Fn(usize) -> bool) -> EndSet {
        let mut words = vec![0_u64; ends.div_ceil(64)];
        for end in (0..ends).filter(|&end| has(end)) {
            words[end / 64] |= 1 << (end % 64);
        }
        EndSet(words)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn contains(&self, EndIx(end): EndIx) -> bool {
        let word = self.0.get(end as usize / 64);
        word.is_some_and(|word| word >> (end % 64) & 1 == 1)
    }
}

impl PathQos {
    /// The decisions about paths in the policy of `plan`; `None` if the policy contains none.
    pub(super) fn of(
        fabric: &Fabric,
        plan: &Plan,
        ends: &[EndPort],
        memberships: &Memberships,
    ) -> Option<PathQos> {
        let policy = &plan.policy;
        if policy.qos.is_none() && policy.qos_policy.is_none() {
            return None;
        }
        let groups = |rules: &Arc<QosPolicy>| Rules {
            policy: rules.clone(),
            groups: groups(rules, policy, fabric, ends, memberships),
        };
        let dropped = |class: PortClass| policy.qos.as_deref().map_or(0, |qos| dropped(qos, class));
        Some(PathQos {
            rules: policy.qos_policy.as_ref().map(groups),
            dropped: PortClass::ALL.map(dropped),
        })
    }

    /// Number of end ports in a group of the policy, given by its index; 0 for a group that no rule
    /// uses.
    pub(super) fn ports_in_group(&self, group: usize) -> usize {
        let groups = self.rules.as_ref().map(|rules| &rules.groups);
        let set = groups.and_then(|groups| groups.get(group));
        set.map_or(0, EndSet::len)
    }

    /// Mask of the SLs (bit n for SL n) that ports of this class drop.
    pub(super) fn dropped(&self, class: PortClass) -> u16 {
        self.dropped[class as usize]
    }

    /// The QoS level of a query for a path from one port to another, from the first matching rule
    /// or the default; `None` if there is no policy.
    pub(super) fn choose(
        &self,
        from: EndIx,
        to: EndIx,
        criteria: &Criteria,
    ) -> Option<ChosenLevel<'_>> {
        let rules = self.rules.as_ref()?;
        let policy = &rules.policy;
        let mut all = policy.rules.iter();
        let rule = all.position(|rule| rules.matches(rule, from, to, criteria));
        let level = match rule {
            Some(rule) => policy.level_of(&policy.rules[rule]),
            None => policy.default_level(),
        };
        Some(ChosenLevel { level, rule })
    }
}

impl Rules {
    /// Whether a query for a path from one port to another matches a rule.
    fn matches(&self, rule: &MatchRule, from: EndIx, to: EndIx, criteria: &Criteria) -> bool {
        let in_any = |groups: &[usize], end| {
            groups.is_empty() || groups.iter().any(|&group| self.groups[group].contains(end))
        };
        // If the rule lists values of a component, a query without that component does not match.
        let has = |list: &Ranges, value: Option<u64>| {
            list.is_empty() || value.is_some_and(|value| list.contains(value))
        };
        has(&rule.service_ids, criteria.service_id)
            && has(&rule.qos_classes, criteria.qos_class.map(u64::from))
            && has(&rule.p_keys, criteria.p_key.map(|key| key.base().into()))
            && in_any(&rule.sources, from)
            && in_any(&rule.destinations, to)
    }
}

/// Mask of the SLs that ports of a class drop.
fn dropped(qos: &Qos, class: PortClass) -> u16 {
    let sl2vl = qos.set(class).sl2vl.iter().enumerate();
    let dropped = sl2vl.filter(|&(_, &vl)| vl == DROP);
    dropped.fold(0, |mask, (sl, _)| mask | 1 << sl)
}

/// The ports of each group of the QoS policy; empty for groups that no rule uses.
fn groups(
    rules: &QosPolicy,
    policy: &Policy,
    fabric: &Fabric,
    ends: &[EndPort],
    memberships: &Memberships,
) -> Vec<EndSet> {
    let named = rules
        .rules
        .iter()
        .flat_map(|rule| [&rule.sources, &rule.destinations]);
    let named: std::collections::BTreeSet<usize> = named.flatten().copied().collect();
    let set = |(at, group): (usize, &PortGroup)| {
        if !named.contains(&at) {
            return EndSet::default();
        }
        let p_keys = p_keys(group, policy);
        EndSet::of(ends.len(), |end| {
            let ix = EndIx(end as u32);
            has_port(group, fabric, &ends[end])
                || (!p_keys.is_empty() && {
                    let mut keys = memberships.table(ix).iter().filter(|key| key.is_valid());
                    keys.any(|key| p_keys.contains(key.base().into()))
                })
        })
    };
    rules.groups.iter().enumerate().map(set).collect()
}

/// The P_Keys, without the membership bit, of the partitions whose members belong to a group.
fn p_keys(group: &PortGroup, policy: &Policy) -> Ranges {
    let list = policy.partitions.list.iter();
    let named = list.filter(|partition| group.partitions.contains(&partition.name));
    let named = named.map(|partition| {
        let key = u64::from(partition.p_key.base());
        (key, key)
    });
    group.p_keys.clone().with(Ranges::of(named.collect()))
}

/// Whether a port belongs to a group by its GUID, its name or the kind of its node.
fn has_port(group: &PortGroup, fabric: &Fabric, end: &EndPort) -> bool {
    let node = fabric.node(end.at.node);
    let is_own = || {
        let own = fabric.local;
        own.is_some_and(|own| fabric.port(own).guid == end.guid)
    };
    group.guids.contains(end.guid.0)
        || group.kinds.iter().any(|kind| match kind {
            GroupKind::ChannelAdapter => node.kind() == NodeType::Ca,
            GroupKind::Switch => node.kind() == NodeType::Switch,
            GroupKind::Router => node.kind() == NodeType::Router,
            GroupKind::Own => is_own(),
        })
        || (!group.ports.is_empty() && {
            // The name of any port of a switch stands for the switch.
            let ports = group
                .ports
                .range((node.description.clone(), rsm_ids::PortNum::ZERO)..);
            let mut named = ports.take_while(|(name, _)| *name == node.description);
            let exists = |port: rsm_ids::PortNum| port.index() < node.ports.len();
            named.any(|&(_, port)| match node.is_switch() {
                true => exists(port),
                false => port == end.at.port,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_set_contains_exactly_its_ports() {
        let set = EndSet::of(130, |end| end % 3 == 0);
        assert!((0..130).all(|end| set.contains(EndIx(end)) == (end % 3 == 0)));
        assert!(!set.contains(EndIx(130)) && !set.contains(EndIx(u32::MAX)));
        assert!(!EndSet::default().contains(EndIx(0)));
    }
}
