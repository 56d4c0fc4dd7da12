use rsm_proto::v1;

use super::messages;
use crate::model::{Hop, Route, RouteOutcome};

impl From<Hop> for v1::Hop {
    fn from(hop: Hop) -> Self {
        v1::Hop {
            node_guid: hop.node.to_string(),
            description: hop.description,
            kind: hop.kind.into(),
            in_port: hop.in_port.map(|port| port.0.into()),
            out_port: hop.out_port.map(|port| port.0.into()),
        }
    }
}

impl From<Route> for v1::Route {
    fn from(route: Route) -> Self {
        let (outcome, reason) = match route.outcome {
            RouteOutcome::Delivered => (v1::RouteOutcome::Delivered, String::new()),
            RouteOutcome::Dropped { reason } => (v1::RouteOutcome::Dropped, reason),
            RouteOutcome::Loop => (v1::RouteOutcome::Loop, String::new()),
        };
        v1::Route {
            source: Some(route.source.into()),
            destination: Some(route.destination.into()),
            lid: route.lid.0.into(),
            hops: messages(route.hops),
            outcome: outcome.into(),
            reason,
        }
    }
}
