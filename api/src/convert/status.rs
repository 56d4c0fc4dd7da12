use rsm_proto::v1;

use crate::model::{
    EngineChoice, FindingCounts, MasterElsewhere, Status, SubnetState, Verification,
};

impl From<SubnetState> for v1::SubnetState {
    fn from(state: SubnetState) -> Self {
        match state {
            SubnetState::NotActive => v1::SubnetState::NotActive,
            SubnetState::Discovering => v1::SubnetState::Discovering,
            SubnetState::Standby => v1::SubnetState::Standby,
            SubnetState::Converging => v1::SubnetState::Converging,
            SubnetState::Up => v1::SubnetState::Up,
            SubnetState::Degraded => v1::SubnetState::Degraded,
        }
    }
}

impl From<EngineChoice> for v1::EngineChoice {
    fn from(engine: EngineChoice) -> Self {
        v1::EngineChoice {
            name: engine.name,
            reason: engine.reason,
        }
    }
}

impl From<Verification> for v1::Verification {
    fn from(verification: Verification) -> Self {
        v1::Verification {
            reachable_pairs: verification.reachable_pairs,
            unreachable_pairs: verification.unreachable_pairs,
            loop_free: verification.loop_free,
            credit_loop_free: verification.credit_loop_free,
            max_hops: verification.max_hops,
        }
    }
}

impl From<FindingCounts> for v1::FindingCounts {
    fn from(counts: FindingCounts) -> Self {
        v1::FindingCounts {
            info: counts.info,
            warning: counts.warning,
            error: counts.error,
        }
    }
}

impl From<MasterElsewhere> for v1::MasterElsewhere {
    fn from(master: MasterElsewhere) -> Self {
        v1::MasterElsewhere {
            guid: master.guid.to_string(),
            lid: master.lid.0.into(),
            priority: master.priority.into(),
        }
    }
}

impl From<Status> for v1::SubnetStatus {
    fn from(status: Status) -> Self {
        let inventory = status.inventory;
        v1::SubnetStatus {
            version: status.version,
            fabric: status.fabric,
            simulated: status.simulated,
            state: v1::SubnetState::from(status.state).into(),
            state_reason: status.state_reason,
            generation: status.generation,
            uptime_ms: u64::try_from(status.uptime.as_millis()).unwrap_or(u64::MAX),
            port_guid: status.port_guid.to_string(),
            lid: status.lid.0.into(),
            priority: status.priority.into(),
            subnet_prefix: format!("{:#018x}", status.subnet_prefix),
            master: status.master.map(v1::MasterElsewhere::from),
            switches: inventory.switches,
            cas: inventory.cas,
            routers: inventory.routers,
            links: inventory.links,
            lids: inventory.lids,
            ports_active: inventory.ports_active,
            ports_not_active: inventory.ports_not_active,
            engine: status.engine.map(v1::EngineChoice::from),
            verify: status.verification.map(v1::Verification::from),
            findings: Some(status.findings.into()),
            smps: Some(status.smps),
            last_convergence: status.last_convergence,
        }
    }
}
