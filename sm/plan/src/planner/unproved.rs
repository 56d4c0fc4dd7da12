//! Unproved routes: their proof, and the transition to them from the tables in force.

use std::sync::Arc;

use rsm_routing::engine::Routing;
use rsm_routing::mcast::Orientation;
use rsm_routing::topology::Topology;
use rsm_routing::verify::Dependencies;

use super::input::RoutingInput;
use super::proof::{self, Proof};
use crate::job::PlanJob;
use crate::lint::Refusal;
use crate::transition::{CheckedTransition, LaneRelation, Orders, TransitionJob};

/// Routes without a proof, with their subnet.
#[derive(Clone, Copy)]
pub(super) struct UnprovedRoutes<'a> {
    pub(super) job: &'a PlanJob,
    pub(super) input: &'a RoutingInput,
    /// The switch graph with all links that may carry packets.
    pub(super) links: &'a Arc<Topology>,
    pub(super) routing: &'a Routing,
    /// The up*/down* order of the routes.
    pub(super) orientation: &'a Orientation,
}

impl<'a> UnprovedRoutes<'a> {
    /// Proves the routes, and finds the transition to them from the tables in force.
    ///
    /// If there is a previous plan, proof and transition run in parallel: the transition assumes
    /// that the new routes follow their order exactly if the previous routes did, and is computed
    /// again if the proof shows otherwise. For a first plan, they run one after the other, because
    /// each then uses all processors and much memory.
    ///
    /// # Errors
    /// Fails if the proof refutes the routes.
    pub(super) fn proof_and_transition(self) -> Result<(Proof<'a>, CheckedTransition), Refusal> {
        let assumed = self.job.previous.as_ref().map(|plan| plan.follows_ranking);
        let Some(assumed) = assumed else {
            let proof = self.prove()?;
            let transition = self.transition(proof.follows);
            return Ok((proof, transition));
        };
        let (proof, transition) = rayon::join(|| self.prove(), || self.transition(assumed));
        let proof = proof?;
        match proof.follows == assumed {
            true => Ok((proof, transition)),
            false => {
                let transition = self.transition(proof.follows);
                Ok((proof, transition))
            }
        }
    }

    fn prove(self) -> Result<Proof<'a>, Refusal> {
        let previous = self.job.previous.as_deref();
        let (topology, policy) = (&self.input.topology, &self.job.policy);
        let mut proof = proof::prove(topology, self.routing, self.orientation, policy, previous);
        match proof.refusal.take() {
            Some(refusal) => Err(refusal),
            None => Ok(proof),
        }
    }

    /// Finds the transition from the held tables to the routes; `follows` says whether the routes
    /// follow their order.
    fn transition(self, follows: bool) -> CheckedTransition {
        let topology = &*self.input.topology;
        let previous = self.job.previous.as_deref();
        let in_force = previous.map(|plan| (&plan.routing.lanes, &*plan.topology));
        let job = TransitionJob {
            fabric: &self.job.fabric,
            routes: topology,
            topology: self.links,
            held: &self.job.hardware,
            old: &self.input.held,
            planned: &self.routing.tables,
            orders: match follows {
                true => self.interim_orders(),
                false => Orders::default(),
            },
            lanes: LaneRelation::of(&self.routing.lanes, topology, in_force),
            link_ports: &self.input.link_ports,
        };
        job.plan()
    }

    /// The orders that interim tables may follow, given the order of the planned routes.
    fn interim_orders(self) -> Orders<'a> {
        let previous = self.job.previous.as_deref();
        let previous = previous.and_then(|plan| plan.routing.ranking.as_ref());
        let topology = &*self.input.topology;
        let Some(ranking) = &self.routing.ranking else {
            return Orders {
                own: Some(self.orientation),
                ..Orders::default()
            };
        };
        let turned = previous.filter(|previous| previous.follows != ranking.follows);
        let follows = |order: &Orientation| {
            let turns = Dependencies::of(topology, &self.routing.tables);
            turns.follows(|high, low| order.is_above(high, low))
        };
        let keeps = previous.is_some() && turned.is_none();
        Orders {
            own: Some(self.orientation),
            is_own_new: ranking.is_interim && !keeps,
            before: turned
                .and_then(|previous| Orientation::of(topology, previous))
                .filter(follows),
        }
    }
}
