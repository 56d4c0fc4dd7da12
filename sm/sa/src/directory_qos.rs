//! Quality of service of paths between two ports of the directory.

use rsm_mad::wire::attr::NodeType;
use rsm_plan::qos::PortClass;

use super::directory::Directory;
use super::ends::EndIx;
use super::path_qos::{ChosenLevel, Criteria, SlReason};

impl Directory {
    /// Number of end ports in the policy's port group with this index; 0 without a policy, or if no
    /// rule uses the group.
    pub fn ports_in_group(&self, group: usize) -> usize {
        let qos = self.qos.as_ref();
        qos.map_or(0, |qos| qos.ports_in_group(group))
    }

    /// The QoS level that the policy assigns to a query, and the matching rule; `None` without a
    /// policy.
    pub(super) fn level_of(
        &self,
        from: EndIx,
        to: EndIx,
        criteria: &Criteria,
    ) -> Option<ChosenLevel<'_>> {
        self.qos.as_ref()?.choose(from, to, criteria)
    }

    /// Mask of the SLs (bit n for SL n) on which a port along the path drops packets between two
    /// ports, according to the tables of section `qos`.
    pub(super) fn dropped(&self, from: EndIx, to: EndIx) -> u16 {
        let Some(qos) = &self.qos else {
            return 0;
        };
        let of = |class: PortClass| qos.dropped(class);
        let ((source, _), (target, _)) = (self.port(from), self.port(to));
        let mut dropped = match source.kind() {
            NodeType::Switch => 0,
            NodeType::Router => of(PortClass::Router),
            _ => of(PortClass::ChannelAdapter),
        };
        let [Some(first_switch), Some(last_switch)] = self.minima.switches(from, to) else {
            return dropped;
        };
        // If the engine determines SLtoVL tables, switches hold the engine's tables instead of the
        // tables of section `qos`.
        if from == to || !self.plan.routing.lanes.is_single() {
            return dropped;
        }
        if first_switch != last_switch {
            dropped |= of(PortClass::SwitchToSwitch);
        }
        dropped
            | match &target.switch {
                None => of(PortClass::SwitchExternal),
                Some(switch) if switch.enhanced_port0() => of(PortClass::SwitchPort0),
                Some(_) => 0,
            }
    }

    /// The reason for a path's service level, in words.
    pub fn reason_in_words(&self, reason: SlReason) -> String {
        let policy = self.plan.policy.qos_policy.as_deref();
        let file = policy.map(|policy| policy.file.display().to_string());
        let file = file.unwrap_or_default();
        match reason {
            SlReason::Requested => "as requested".to_owned(),
            SlReason::Engine => format!("the routes of {} need it", self.plan.routing.engine),
            SlReason::DefaultLevel => {
                let level = policy.map_or("", |policy| policy.default_level().name.as_str());
                format!("level {level} of {file}, for queries that match no rule")
            }
            SlReason::Rule(at) => {
                let rule = policy.and_then(|policy| Some((policy, policy.rules.get(at)?)));
                let Some((policy, rule)) = rule else {
                    return format!("a rule of {file}");
                };
                let level = &policy.level_of(rule).name;
                let description = match rule.description.as_str() {
                    "" => String::new(),
                    text => format!(" ({text})"),
                };
                format!("rule of {file}:{}{description}, level {level}", rule.line)
            }
            SlReason::Partition(p_key) => {
                let partition = self.plan.policy.partitions.find(p_key);
                let name = partition.map_or("", |partition| partition.name.as_str());
                format!("that of partition {name}")
            }
            SlReason::Lowest => "the lowest that no port drops".to_owned(),
        }
    }
}
