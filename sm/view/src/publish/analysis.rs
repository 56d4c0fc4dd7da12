//! Measures the routes in force, and predicts the effect of losses.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_api::model::{Keyed, LossSelector, Page, PortId, Selector};
use rsm_api::resolve::{resolve_cable_port, resolve_node};
use rsm_api::{BoxFuture, RoutingError, RoutingQueries, blocking, v1};
use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::text::count;
use rsm_plan::Plan;
use rsm_plan::avoid::{Avoid, Drained, NodeOrCable, Reason};
use rsm_plan::measured;
use rsm_plan::whatif::{self, what_if_all};
use rsm_plan::whatif_drain::{AfterDrain, Narrowed, after_drain};
use rsm_routing::engine::EngineKind;
use rsm_routing::quality::{self, Contention, LinkUse, Spread};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::api_view::{api_key, core_key};
use super::cables::{self, CablePaths};
use super::drained;
use super::published::Published;
use super::view::View;

/// Maximum number of waiting requests: more than operators make at a time, and few enough that each
/// is answered within a minute in the largest fabrics. Only one request is computed at a time, so
/// that processors stay free for the management of the subnet.
const MAX_WAITING: usize = 16;

/// Answers queries about routes from the snapshot in force, one computation at a time.
pub struct RouteAnalyst {
    view: Arc<View>,
    /// One permit for each request that waits or computes.
    permits: Arc<Semaphore>,
    /// LastResults results; locked during a computation.
    last: Arc<Mutex<LastResults>>,
}

/// The right to compute. The computation owns it and continues when its client leaves, so that
/// clients that leave cannot make two computations run at a time.
pub(super) struct Turn {
    last: OwnedMutexGuard<LastResults>,
    _permit: OwnedSemaphorePermit,
}

/// The last result of each kind.
#[derive(Default)]
struct LastResults {
    quality: Option<QualityResult>,
    spread: Option<(Arc<Plan>, Spread)>,
    cable: Option<CableResult>,
}

/// The paths of one plan over one cable.
struct CableResult {
    plan: Arc<Plan>,
    ends: [PortKey; 2],
    crossed: Arc<CablePaths>,
}

/// A cable with the paths over it, and the snapshot that they come from.
struct CableWithPaths {
    published: Arc<Published>,
    plan: Arc<Plan>,
    ends: [PortKey; 2],
    crossed: Arc<CablePaths>,
}

/// The quality of one plan, measured with one seed.
struct QualityResult {
    plan: Arc<Plan>,
    seed: u64,
    quality: Arc<quality::Quality>,
}

impl RouteAnalyst {
    /// Creates an analyst of the routes in `view`.
    pub fn new(view: Arc<View>) -> RouteAnalyst {
        RouteAnalyst {
            view,
            permits: Arc::new(Semaphore::new(MAX_WAITING)),
            last: Arc::default(),
        }
    }

    /// Waits until no other request is computed.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(super) async fn turn(&self) -> Result<Turn, RoutingError> {
        let place = Arc::clone(&self.permits).try_acquire_owned();
        let place = place.map_err(|_| RoutingError::Busy)?;
        Ok(Turn {
            last: Arc::clone(&self.last).lock_owned().await,
            _permit: place,
        })
    }

    /// The cable at a port, and the paths over it by the routes in force. Reuses the last result if
    /// that result is about the same cable and the same routes.
    async fn cable(&self, port: &Selector) -> Result<CableWithPaths, RoutingError> {
        let turn = self.turn().await?;
        let published = self.view.published();
        let plan = plan_of(&published)?;
        let ends = cables::ends(&published, &plan, port)?;
        let known =
            turn.last.cable.as_ref().filter(|known| {
                known.ends == ends && Arc::ptr_eq(&known.plan.routing, &plan.routing)
            });
        let crossed = match known {
            Some(known) => known.crossed.clone(),
            None => {
                let job = plan.clone();
                let (mut turn, crossed) =
                    compute(turn, move || cables::count_paths(&job, ends)).await?;
                let crossed = Arc::new(crossed);
                turn.last.cable = Some(CableResult {
                    plan: plan.clone(),
                    ends,
                    crossed: crossed.clone(),
                });
                crossed
            }
        };
        Ok(CableWithPaths {
            published,
            plan,
            ends,
            crossed,
        })
    }
}

impl RouteAnalyst {
    /// The plan in force, and how evenly its routes spread paths over links. The spread is measured
    /// once for the routes of a plan.
    ///
    /// # Errors
    /// There are no routes, or too many requests wait.
    pub(super) async fn spread(&self) -> Result<(Arc<Plan>, Spread), RoutingError> {
        let turn = self.turn().await?;
        let plan = plan_of(&self.view.published())?;
        let is_current = |known: &Arc<Plan>| Arc::ptr_eq(&known.routing, &plan.routing);
        let known = turn.last.spread.as_ref();
        if let Some((_, spread)) = known.filter(|(known, _)| is_current(known)) {
            return Ok((plan, *spread));
        }
        let job = plan.clone();
        let measure = move || {
            let (topology, routing) = (&job.topology, &job.routing);
            quality::spread(topology, &routing.tables, routing.ranks.as_deref())
        };
        let (mut turn, spread) = compute(turn, measure).await?;
        turn.last.spread = Some((plan.clone(), spread));
        Ok((plan, spread))
    }
}

fn plan_of(published: &Published) -> Result<Arc<Plan>, RoutingError> {
    published
        .snapshot
        .plan
        .clone()
        .ok_or(RoutingError::NoRoutes)
}

/// Runs a long computation on a thread of its own. The computation keeps `held` until its end, even
/// if the client leaves, and returns it with the result.
pub(super) async fn compute<H: Send + 'static, T: Send + 'static>(
    held: H,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(H, T), RoutingError> {
    match blocking::holding(held, work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_cancelled) => Err(RoutingError::Stopping),
    }
}

impl RoutingQueries for RouteAnalyst {
    fn engines(&self) -> Page<v1::Engine> {
        let published = self.view.published();
        let plan = published.plan();
        let engine = |kind: EngineKind| v1::Engine {
            name: kind.name().to_owned(),
            guarantee: kind.engine().guarantee().to_owned(),
            configured: plan.is_some_and(|plan| plan.policy.engine == kind),
            in_force: plan.is_some_and(|plan| plan.routing.engine == kind.name()),
        };
        Page {
            generation: published.generation,
            items: EngineKind::ALL.into_iter().map(engine).collect(),
        }
    }

    fn quality(
        &self,
        seed: u64,
    ) -> BoxFuture<'_, Result<v1::GetRoutingQualityResponse, RoutingError>> {
        Box::pin(async move {
            let turn = self.turn().await?;
            let published = self.view.published();
            let plan = plan_of(&published)?;
            let known =
                turn.last.quality.as_ref().filter(|last| {
                    last.seed == seed && Arc::ptr_eq(&last.plan.routing, &plan.routing)
                });
            let quality = match known {
                Some(known) => known.quality.clone(),
                None => {
                    let job = plan.clone();
                    let (mut turn, quality) = compute(turn, move || measure(&job, seed)).await?;
                    let quality = Arc::new(quality);
                    turn.last.quality = Some(QualityResult {
                        plan: plan.clone(),
                        seed,
                        quality: quality.clone(),
                    });
                    quality
                }
            };
            Ok(v1::GetRoutingQualityResponse {
                quality: Some(shown(&plan, &quality)),
                generation: published.generation,
            })
        })
    }

    fn foresee(
        &self,
        selectors: Vec<LossSelector>,
    ) -> BoxFuture<'_, Result<v1::ForeseeLossResponse, RoutingError>> {
        Box::pin(async move {
            let turn = self.turn().await?;
            let published = self.view.published();
            let plan = plan_of(&published)?;
            let names = &published.names;
            let mut losses = Vec::new();
            for selector in &selectors {
                match selector {
                    LossSelector::Cable(port) => {
                        let key = core_key(resolve_cable_port(names, port)?);
                        losses.push(whatif::Loss::Cable(with_cable(&published, key, port)?));
                    }
                    LossSelector::Node(node) => {
                        losses.push(whatif::Loss::Node(resolve_node(names, node)?));
                    }
                    LossSelector::Part(name) => {
                        for (part, ..) in drained::named_parts(&published, name)? {
                            losses.push(match part {
                                NodeOrCable::Node(guid) => whatif::Loss::Node(guid),
                                NodeOrCable::Port(key) => {
                                    whatif::Loss::Cable(with_cable(&published, key, name)?)
                                }
                            });
                        }
                    }
                }
            }
            let parts: Vec<NodeOrCable> = losses
                .iter()
                .map(|&loss| match loss {
                    whatif::Loss::Cable(key) => NodeOrCable::Port(key),
                    whatif::Loss::Node(guid) => NodeOrCable::Node(guid),
                })
                .collect();
            let job = plan.clone();
            let avoid = with_drained(&published.snapshot.avoid, &parts);
            let computing = compute(turn, move || {
                let drained = avoid.and_then(|avoid| after_drain(&job, Arc::new(avoid)));
                (what_if_all(&job, &losses), drained)
            });
            let (_, (found, after)) = computing.await?;
            let found = found.map_err(|error| RoutingError::Impossible {
                reason: error.to_string(),
            })?;
            let refused = drain_refused(&published, &plan, &parts);
            Ok(v1::ForeseeLossResponse {
                consequence: Some(v1::Consequence {
                    drain_refused: refused.unwrap_or_default(),
                    unplug: drained::unplug_all(&published, &parts).into(),
                    max_paths_drained: after.as_ref().map_or(0, |after| after.max_load.1),
                    drain_effect: after
                        .map(|after| drain_effect(&plan.fabric, &after))
                        .unwrap_or_default(),
                    ..foreseen(&plan, found)
                }),
                generation: published.generation,
            })
        })
    }

    fn cable_use(
        &self,
        port: Selector,
    ) -> BoxFuture<'_, Result<v1::GetCableUseResponse, RoutingError>> {
        Box::pin(async move {
            let found = self.cable(&port).await?;
            let published = &found.published;
            Ok(v1::GetCableUseResponse {
                cable: Some(cables::shown(published, found.ends, &found.crossed)),
                generation: published.generation,
            })
        })
    }

    fn cable_hosts(
        &self,
        port: Selector,
        after: Option<PortId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<PortId, v1::CableHost>>, RoutingError>> {
        Box::pin(async move {
            let found = self.cable(&port).await?;
            let fabric = &found.plan.fabric;
            let crossed = &found.crossed;
            Ok(cables::hosts(
                &found.published,
                fabric,
                crossed,
                after,
                limit,
            ))
        })
    }
}

/// Returns `key` if that port has a cable. `port` is the name that the operator used for it.
///
/// # Errors
/// The port has no cable.
fn with_cable(
    published: &Published,
    key: PortKey,
    port: &Selector,
) -> Result<PortKey, RoutingError> {
    match NodeOrCable::Port(key).is_there(published.fabric()) {
        true => Ok(key),
        false => Err(RoutingError::Impossible {
            reason: cables::no_cable(published, key, port),
        }),
    }
}

/// Reason why a drain of these parts would be refused; `None` if it would be accepted.
fn drain_refused(published: &Published, plan: &Plan, parts: &[NodeOrCable]) -> Option<String> {
    let before = &published.snapshot.avoid;
    let (fabric, damped) = (published.fabric(), &plan.avoided.damped);
    let refused = Avoid::clone(before).try_add(&as_drained(parts), fabric, damped);
    refused.err().map(|error| error.to_string())
}

/// `before` with the drained `parts` added; `None` if the parts are too many.
fn with_drained(before: &Avoid, parts: &[NodeOrCable]) -> Option<Avoid> {
    let mut avoid = before.clone();
    avoid.add(&as_drained(parts)).is_ok().then_some(avoid)
}

/// A sentence on each switch whose live hosts would share fewer uplinks after a drain; empty if
/// there is no such switch.
fn drain_effect(fabric: &Fabric, after: &AfterDrain) -> String {
    let narrowed = |one: &Narrowed| {
        let switch = fabric.name(one.switch);
        let hosts = count(one.hosts as u64, "live host", "live hosts");
        let uplinks = match one.links[..] {
            [] => "have no uplink".to_owned(),
            [port] => format!("share one uplink, port {port}"),
            _ => format!("share {} uplinks", one.links.len()),
        };
        format!("{hosts} at {switch} will {uplinks} ({} now)", one.links_now)
    };
    let texts: Vec<String> = after.narrowed.iter().map(narrowed).collect();
    texts.join("; ")
}

/// The parts with the reasons that a drain by an operator would give them.
fn as_drained(parts: &[NodeOrCable]) -> BTreeMap<NodeOrCable, Reason> {
    let drained = |&part: &NodeOrCable| {
        let drained = Drained::new("", 0);
        (part, Reason::Drained(drained))
    };
    parts.iter().map(drained).collect()
}

fn measure(plan: &Plan, seed: u64) -> quality::Quality {
    let ranks = plan.routing.ranks.clone();
    let settings = measured::settings(&plan.fabric, &plan.topology, &plan.order, seed, ranks);
    quality::measure(&plan.topology, &plan.routing.tables, &settings)
}

/// A port as a message, and the description of its node.
fn port_and_description(fabric: &Fabric, key: PortKey) -> (Option<v1::PortKey>, String) {
    let node = fabric.find(key.node).map(|node| fabric.node(node));
    let description = node.map(|node| node.description.clone());
    (Some(api_key(key).into()), description.unwrap_or_default())
}

fn contention(contention: &Contention) -> v1::Contention {
    v1::Contention {
        max: contention.max,
        mean: contention.mean,
        phases: contention.phases as u64,
        of: contention.of as u64,
    }
}

fn link_use(fabric: &Fabric, link: &LinkUse) -> v1::LinkUse {
    let (port, description) = port_and_description(fabric, PortKey::new(link.switch, link.port));
    let (peer, peer_description) =
        port_and_description(fabric, PortKey::new(link.peer, link.peer_port));
    v1::LinkUse {
        port,
        description,
        peer,
        peer_description,
        paths: link.paths,
        sources: link.sources,
        destinations: link.destinations,
    }
}

fn shown(plan: &Plan, quality: &quality::Quality) -> v1::RoutingQuality {
    let worst = quality.worst.iter();
    v1::RoutingQuality {
        engine: plan.routing.engine.to_owned(),
        hosts: quality.hosts as u64,
        links: quality.links as u64,
        lost_pairs: quality.lost_pairs,
        paths: Some(v1::PathLoad {
            max: quality.paths.max,
            mean: quality.paths.mean,
            rate_max_over_mean: quality.paths.rate_max_over_mean,
        }),
        all_to_all: quality.all_to_all,
        shift: Some(contention(&quality.shift)),
        random: Some(contention(&quality.random)),
        bisection: Some(v1::Bisection {
            mean: quality.bisection.mean,
            min: quality.bisection.min,
            samples: quality.bisection.samples as u64,
        }),
        ring: Some(contention(&quality.ring)),
        recursive_doubling: Some(contention(&quality.recursive_doubling)),
        double_tree: Some(contention(&quality.double_tree)),
        rail_all_to_all: quality.rail_all_to_all.as_ref().map(contention),
        worst_links: worst.map(|link| link_use(&plan.fabric, link)).collect(),
        balance: balance(quality).into(),
        verdict: verdict(plan, &quality.spread()),
    }
}

fn balance(quality: &quality::Quality) -> v1::Balance {
    if quality.lost_pairs > 0 {
        v1::Balance::Lossy
    } else if quality.balance.beyond > 0 {
        v1::Balance::Uneven
    } else {
        v1::Balance::Even
    }
}

/// A sentence with figures about how evenly the paths are spread.
pub(super) fn verdict(plan: &Plan, spread: &Spread) -> String {
    let Spread {
        lost_pairs,
        balance: found,
        links,
    } = spread;
    let Some(most) = found.most.filter(|_| *lost_pairs == 0) else {
        return match lost_pairs {
            0 => "balanced: no path leads from switch to switch".to_owned(),
            lost => format!(
                "NOT balanced: packets of {} do not arrive (`rsmctl findings`)",
                count(*lost, "pair of hosts", "pairs of hosts")
            ),
        };
    };
    let (times, share) = (most.times(), most.paths);
    if found.beyond == 0 {
        return format!(
            "balanced: none of {links} link directions has more than {times:.2} times its share of the paths"
        );
    }
    let end = |node, port| {
        let name = plan.fabric.node_of(node).map(|node| node.name());
        format!("{}:{port}", name.unwrap_or_else(|| node.to_string()))
    };
    let LinkUse { paths, .. } = most.link;
    let advice = match plan.avoided.avoid.is_empty() {
        true => {
            "repair missing or exchanged cables (`rsmctl expect`), or try another engine (`rsmctl engine list`)"
        }
        false => {
            "routes go around drained or unhealthy parts (`rsmctl status`), and others take their share"
        }
    };
    format!(
        "NOT balanced: {} to {} has {times:.1} times its share ({paths} paths of {share:.0}), and {} of {links} link \
         directions have too many: {advice}",
        end(most.link.switch, most.link.port),
        end(most.link.peer, most.link.peer_port),
        found.beyond
    )
}

fn foreseen(plan: &Plan, found: whatif::Consequence) -> v1::Consequence {
    let cable = |&(near, far): &(PortKey, PortKey)| {
        let (port, description) = port_and_description(&plan.fabric, near);
        let (peer, peer_description) = port_and_description(&plan.fabric, far);
        v1::LostCable {
            port,
            description,
            peer,
            peer_description,
        }
    };
    let cut_off = |&key: &PortKey| {
        let (port, description) = port_and_description(&plan.fabric, key);
        v1::CutOffPort { port, description }
    };
    let smps = found.smps() as u64;
    let (engine, reason) = found.engine.unwrap_or_default();
    v1::Consequence {
        cables: found.cables.iter().map(cable).collect(),
        cut_off: found.cut_off.iter().map(cut_off).collect(),
        broken_pairs: found.broken_pairs,
        unreachable_pairs: found.unreachable_pairs,
        refused: found.refused.unwrap_or_default(),
        engine: engine.to_owned(),
        reason,
        entries: found.entries as u64,
        switches: found.switches as u64,
        blocks: found.blocks as u64,
        blocks_before: found.blocks_before as u64,
        smps,
        max_paths_now: found.max_load.0,
        max_paths_then: found.max_load.1,
        credit_loop_free: found.credit_loop_free,
        drain_refused: String::new(),
        unplug: v1::Unplug::Unspecified.into(),
        max_paths_drained: 0,
        drain_effect: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn computation_keeps_its_turn_when_its_client_leaves() {
        let permits = Arc::new(Semaphore::new(1));
        let turn = Arc::clone(&permits).try_acquire_owned().unwrap();
        let (finish, finished) = mpsc::channel::<()>();
        let computing = compute(turn, move || finished.recv());
        let waited = tokio::time::timeout(Duration::from_millis(20), computing).await;
        assert!(waited.is_err(), "the computation waits for the test");
        assert_eq!(permits.available_permits(), 0);
        finish.send(()).unwrap();
        let limit = Duration::from_secs(60);
        let free = tokio::time::timeout(limit, permits.acquire()).await;
        assert!(free.is_ok(), "the end of the computation frees the turn");
    }
}
