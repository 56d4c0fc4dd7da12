use rsm_proto::v1;

use crate::model::{
    Bisection, Consequence, Contention, Engine, LinkUse, LostCable, NamedPort, PathLoad,
    RoutingQuality,
};

impl From<Engine> for v1::Engine {
    fn from(engine: Engine) -> Self {
        v1::Engine {
            name: engine.name,
            guarantee: engine.guarantee,
            configured: engine.configured,
            in_force: engine.in_force,
        }
    }
}

fn path_load(load: PathLoad) -> v1::PathLoad {
    v1::PathLoad {
        max: load.max,
        mean: load.mean,
        rate_max_over_mean: load.rate_max_over_mean,
    }
}

fn contention(contention: Contention) -> v1::Contention {
    v1::Contention {
        max: contention.max,
        mean: contention.mean,
        phases: contention.phases as u64,
        of: contention.of as u64,
    }
}

fn bisection(bisection: Bisection) -> v1::Bisection {
    v1::Bisection {
        mean: bisection.mean,
        min: bisection.min,
        samples: bisection.samples as u64,
    }
}

impl From<LinkUse> for v1::LinkUse {
    fn from(link: LinkUse) -> Self {
        v1::LinkUse {
            port: Some(link.from.key.into()),
            description: link.from.description,
            peer: Some(link.to.key.into()),
            peer_description: link.to.description,
            paths: link.paths,
            sources: link.sources,
            destinations: link.destinations,
        }
    }
}

impl From<RoutingQuality> for v1::RoutingQuality {
    fn from(quality: RoutingQuality) -> Self {
        v1::RoutingQuality {
            engine: quality.engine,
            hosts: quality.hosts,
            links: quality.links,
            lost_pairs: quality.lost_pairs,
            paths: Some(path_load(quality.paths)),
            all_to_all: quality.all_to_all,
            shift: Some(contention(quality.shift)),
            random: Some(contention(quality.random)),
            bisection: Some(bisection(quality.bisection)),
            ring: Some(contention(quality.ring)),
            recursive_doubling: Some(contention(quality.recursive_doubling)),
            double_tree: Some(contention(quality.double_tree)),
            rail_all_to_all: quality.rail_all_to_all.map(contention),
            worst_links: super::messages(quality.worst_links),
        }
    }
}

impl From<LostCable> for v1::LostCable {
    fn from(cable: LostCable) -> Self {
        v1::LostCable {
            port: Some(cable.near.key.into()),
            description: cable.near.description,
            peer: Some(cable.far.key.into()),
            peer_description: cable.far.description,
        }
    }
}

impl From<NamedPort> for v1::CutOffPort {
    fn from(port: NamedPort) -> Self {
        v1::CutOffPort {
            port: Some(port.key.into()),
            description: port.description,
        }
    }
}

impl From<Consequence> for v1::Consequence {
    fn from(found: Consequence) -> Self {
        v1::Consequence {
            cables: super::messages(found.cables),
            cut_off: super::messages(found.cut_off),
            broken_pairs: found.broken_pairs,
            unreachable_pairs: found.unreachable_pairs,
            refused: found.refused.unwrap_or_default(),
            engine: found.engine,
            reason: found.reason,
            entries: found.entries,
            switches: found.switches,
            blocks: found.blocks,
            blocks_before: found.blocks_before,
            smps: found.smps,
            max_paths_now: found.max_paths_now,
            max_paths_then: found.max_paths_then,
            credit_loop_free: found.credit_loop_free,
        }
    }
}
