//! The subnet and its manager at one glance.

use std::time::Duration;

use rsm_api::model::{EngineChoice, MasterElsewhere, Status, Verification};
use rsm_api::v1;
use rsm_ids::Lid;

use super::published::Published;
use crate::core::role::Role;
use crate::fabric::Port;

/// The status as far as the snapshot has it: the view fills in the fabric's name and the uptime.
pub(super) fn of(published: &Published) -> Status {
    let snapshot = &*published.snapshot;
    let local = snapshot.fabric.local.map(|at| snapshot.fabric.port(at));
    let plan = published.plan();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fabric: String::new(),
        simulated: false,
        state: published.state,
        state_reason: published.reason.clone(),
        generation: published.generation,
        uptime: Duration::ZERO,
        port_guid: snapshot.own_guid,
        lid: local.map_or(Lid::NONE, Port::lid),
        priority: snapshot.identity.priority,
        subnet_prefix: published.prefix(),
        master: match &snapshot.role {
            Role::Standby { master } => Some(MasterElsewhere {
                guid: master.guid,
                lid: master.lid,
                priority: master.priority,
            }),
            Role::Discovering | Role::Master | Role::NotActive => None,
        },
        inventory: published.counts.inventory,
        engine: plan.map(|plan| EngineChoice {
            name: plan.routing.engine.to_owned(),
            reason: plan.routing.reason.clone(),
        }),
        verification: snapshot.reachability().map(|report| Verification {
            reachable_pairs: report.reachable_pairs,
            // For lack of cables or of entries, no packet gets through.
            unreachable_pairs: report.unreachable_pairs + report.disconnected_pairs,
            loop_free: report.loop_free,
            credit_loop_free: report.credit_loop_free,
            max_hops: report.max_hops,
        }),
        findings: published.counts.findings,
        smps: v1::SmpCounts {
            get: snapshot.stats.sent_get,
            set: snapshot.stats.sent_set,
            retries: snapshot.stats.retries,
            timeouts: snapshot.stats.timeouts,
        },
        last_convergence: published
            .convergences
            .last()
            .map(|logged| logged.shown.clone()),
    }
}
