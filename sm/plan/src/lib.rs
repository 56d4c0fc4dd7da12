//! The plan: the immutable desired state of the subnet, and its proof.
//!
//! In: a [`PlanJob`], the whole input: the fabric, claims of LIDs, policies, what switches hold.
//! Out: an
//! [`Outcome`]: LIDs, routes, multicast trees, partitions, quality of service, and the proof that no
//! credit loop is closed, before, while and after the tables are written; or the reason of a
//! refusal.
//!
//! Planning is pure: [`plan`] runs on any thread, without side effects, and gives the same outcome
//! for the same job. [`avoid`] decides around which parts routes lead, [`whatif`] plans for a
//! fabric without a part, [`qos`] makes the tables of lanes, [`managed`] the content of blocks that
//! devices hold for the manager.
//!
//! Nothing here asks a device or knows what a push has written.
//!
//! Invariants: no plan leaves without its proof; a LID in use is never given to another port; the
//! next plan keeps what the one before decided, as far as the fabric allows.

pub mod adaptive;
#[cfg(test)]
mod aggregated;
pub mod avoid;
mod avoided;
pub mod gpu;
pub mod groups;
mod interrupted;
mod job;
mod layout;
mod levels;
pub mod lids;
mod links;
pub mod lint;
pub mod managed;
pub mod multicast;
mod mute;
pub mod order;
pub mod partitions;
pub mod policy;
pub mod ports;
pub mod qos;
pub mod refused;
mod roots;
mod slow;
mod topology;
mod transition;
pub mod whatif;
pub mod witness;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::text::count;
use rsm_model::whole::{Step, Whole};
use rsm_routing::engine::{
    self, AbsentRoots, EngineError, EngineKind, Options, Rebalanced, Routing,
};
use rsm_routing::mcast::{Mft, Orientation};
use rsm_routing::tables::{BLOCK_LIDS, Lft, Tables};
use rsm_routing::topology::{SlowCable, Topology, TopologyError};
use rsm_routing::verify::{Dependencies, Report, Tally};

use self::adaptive::Adaptive;
pub use self::avoided::Avoided;
use self::groups::GroupSet;
pub use self::interrupted::Interrupted;
pub use self::job::{JobKind, PlanJob};
pub use self::levels::Stopped;
use self::lids::{Claim, LidPlan};
pub use self::links::LinkPorts;
use self::lint::{Proof, Proved, Refusal};
use self::multicast::Multicast;
use self::order::HostOrder;
use self::partitions::PartitionPlan;
use self::policy::{Policy, PolicyChange};
pub use self::refused::RefusedPlan;
pub use self::topology::{build as topology, lids_in_use};
pub use self::transition::{HeldTable, Transition};
use crate::avoid::CutOff;

/// The desired state of the subnet. A clone shares everything of size.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Counts plans; every later one is higher.
    pub generation: u64,
    /// The subnet it was made for.
    pub fabric: Arc<Fabric>,
    /// The LIDs of all ports.
    pub lids: Arc<LidPlan>,
    /// The LID of the subnet manager's port.
    pub sm_lid: Lid,
    /// Cables that routes avoid, by either end: damped ones, and those of avoided parts.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The parts that routes go around.
    pub avoided: Arc<Avoided>,
    /// The switch graph with these LIDs, without the cables in `damped`.
    pub topology: Arc<Topology>,
    /// Categories, rails and order of the host ports that routes are spread by.
    pub order: HostOrder,
    /// The forwarding tables, and their origin.
    pub routing: Arc<Routing>,
    /// Their proof.
    pub report: Report,
    /// The sums behind the proof, for the next plan's proof.
    pub tally: Arc<Tally>,
    /// How the tables were proved.
    pub proved: Proved,
    /// Number of entries moved off the fullest links; `None` for a plan of another purpose.
    pub relieved: Option<usize>,
    /// Whether every route takes legal turns only, by the ranking of `routing` or, without one, by
    /// distance from the hosts.
    pub follows_ranking: bool,
    /// Adaptive routing beside these routes; `None` where packets take the forwarding tables alone.
    pub adaptive: Option<Arc<Adaptive>>,
    /// Multicast on these routes; `None` while the members are not known: multicast tables stay as
    /// they are.
    pub multicast: Option<Arc<Multicast>>,
    /// The way from the tables held now to those of `routing`.
    pub transition: Transition,
    /// State of the links at switches.
    pub link_ports: Arc<LinkPorts>,
    /// The partitions of all ports.
    pub partitions: Arc<PartitionPlan>,
    /// The engine that was asked for routes: one of the policy's, or `auto` in the place of all.
    pub engine: EngineKind,
    /// The operator's decisions for this plan.
    pub policy: Arc<Policy>,
    /// The difference of `policy` from that of the plan before.
    pub policy_change: PolicyChange,
    /// The cables between switches that are slower than most of their siblings.
    pub slow_cables: Arc<[SlowCable]>,
    /// Findings for the operator.
    pub findings: Vec<Finding>,
    /// The steps that took the whole subnet into account.
    pub whole: Vec<Whole>,
}

/// The result of a [`PlanJob`].
#[derive(Debug)]
pub enum Outcome {
    /// A proven plan.
    Plan(Arc<Plan>),
    /// No link can be relieved further: this plan, the one in force, stays.
    Unchanged(Arc<Plan>),
    /// No plan; the one in force stays.
    Refused(Box<RefusedPlan>),
}

impl Outcome {
    /// The plan that is in force after the job.
    ///
    /// # Errors
    /// There is none for the job's fabric.
    pub fn plan(self) -> Result<Arc<Plan>, Box<RefusedPlan>> {
        match self {
            Outcome::Plan(plan) | Outcome::Unchanged(plan) => Ok(plan),
            Outcome::Refused(refused) => Err(refused),
        }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The fabric has no valid switch graph.
    #[error("the fabric cannot be routed")]
    Topology(#[from] TopologyError),
    /// The engine found no tables.
    #[error("the engine found no routes")]
    Engine(#[from] EngineError),
    /// The links have too few lanes for the engine.
    #[error("the engine found no routes, because {limit}")]
    FewLanes {
        /// The link, or the key that limits all.
        limit: String,
        /// The engine's needs.
        source: EngineError,
    },
    /// The operator's tables stop packets of these routes.
    #[error("the tables of section `qos` do not fit the routes")]
    Stopped(#[from] Stopped),
    /// The proof refuted the tables.
    #[error("the routes were refused")]
    Refused(#[from] Refusal),
    /// The subnet manager's own port got no LID.
    #[error("the subnet manager's own port has no LID")]
    NoLocalLid,
    /// Ports would be cut off without parts on trial.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// Packets would be dropped while the tables of an engine on trial are written.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl PlanError {
    /// Whether another engine may have a plan.
    fn is_of_engine(&self) -> bool {
        match self {
            PlanError::Engine(_)
            | PlanError::FewLanes { .. }
            | PlanError::Stopped(_)
            | PlanError::Refused(_) => true,
            PlanError::Topology(_)
            | PlanError::NoLocalLid
            | PlanError::CutOff(_)
            | PlanError::Interrupted(_) => false,
        }
    }

    /// As text, with all of its causes.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}

impl Plan {
    /// The table of the switch with this GUID.
    pub fn table(&self, guid: Guid) -> Option<&Lft> {
        self.table_of(&self.routing.tables, guid)
    }

    /// The table that the switch with this GUID holds at the end of a push: [`Plan::table`], unless
    /// that has to wait for switches that do not answer.
    pub fn last_table(&self, guid: Guid) -> Option<&Lft> {
        match &self.transition.instead {
            Some(tables) if !self.transition.mute.contains(&guid) => self.table_of(tables, guid),
            _ => self.table(guid),
        }
    }

    /// The interim table of the switch with this GUID in stage `stage`, before [`Plan::table`].
    pub fn interim_table(&self, stage: usize, guid: Guid) -> Option<&Lft> {
        self.table_of(self.transition.interim.get(stage)?, guid)
    }

    /// The table of the switch with this GUID among `tables`, which are in the order of
    /// [`Plan::topology`].
    pub fn table_of<'a>(&self, tables: &'a Tables, guid: Guid) -> Option<&'a Lft> {
        let switch = self.topology.switch_by_guid(guid)?;
        tables.lfts.get(switch.index())
    }

    /// The multicast forwarding table of the switch with this GUID.
    pub fn multicast_table(&self, guid: Guid) -> Option<&Arc<Mft>> {
        let switch = self.topology.switch_by_guid(guid)?;
        self.multicast.as_ref()?.table(switch)
    }

    /// The routes in a few words for the operator, such as `3 levels, 144 roots, all pairs
    /// reachable`; for engines that do not rank switches, the engine's own sentence. `report` is
    /// the fate of packets by these routes, if it is known.
    pub fn summary(&self, report: Option<&Report>) -> String {
        let Some(ranks) = &self.routing.ranks else {
            return self.routing.reason.clone();
        };
        let levels = ranks
            .iter()
            .max()
            .map_or(0, |&lowest| u64::from(lowest) + 1);
        let roots = ranks.iter().filter(|&&rank| rank == 0).count();
        let mut parts = vec![
            count(levels, "level", "levels"),
            count(roots, "root", "roots"),
        ];
        parts.extend(report.map(|report| {
            match report.unreachable_pairs + report.disconnected_pairs {
                0 => "all pairs reachable".to_owned(),
                pairs => count(pairs, "pair unreachable", "pairs unreachable"),
            }
        }));
        let ranking = self.routing.ranking.as_ref();
        if ranking.is_some_and(|ranking| ranking.is_interim) {
            parts.push("in another order while parts are missing".to_owned());
        }
        parts.join(", ")
    }

    /// LinearFDBTop for every switch: the highest LID in use.
    pub fn top(&self) -> Lid {
        self.topology.top_lid()
    }

    /// Blocks of each table: as many as reach [`Plan::top`].
    pub fn blocks(&self) -> usize {
        self.top().index() / BLOCK_LIDS + 1
    }

    /// The LIDs of a port.
    pub fn claim(&self, port: PortKey) -> Option<Claim> {
        self.lids.lids.get(&port).copied()
    }
}

/// Makes the plan of a job.
pub fn plan(job: &PlanJob) -> Outcome {
    match avoided::plan(job) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Refused(Box::new(RefusedPlan::new(job, error))),
    }
}

/// Plans without the cables in the job's `damped`, which are those of `avoided`, with the first of
/// the policy's engines that has routes.
fn try_plan(job: &PlanJob, avoided: &Arc<Avoided>) -> Result<Outcome, PlanError> {
    if let JobKind::Multicast { routes } = &job.kind {
        return Ok(Outcome::Plan(Arc::new(plan_groups(job, routes))));
    }
    let first = job.policy.engine;
    let error = match try_engine(job, avoided, first, None) {
        Err(error) if error.is_of_engine() && job.kind.routes_anew() => error,
        outcome => return outcome,
    };
    for &engine in job.policy.fallback_engines() {
        if let Ok(outcome) = try_engine(job, avoided, engine, Some(&error)) {
            return Ok(outcome);
        }
    }
    match stands_behind(job) {
        true => try_engine(job, avoided, EngineKind::Auto, Some(&error)).map_err(|_| error),
        false => Err(error),
    }
}

/// Whether `auto` routes where no engine of the policy does: ports that no packet reaches are worse
/// than routes of another engine. Routes in force stay where they serve all ports, and an engine on
/// trial is refused.
fn stands_behind(job: &PlanJob) -> bool {
    let policy = &job.policy;
    if policy.is_on_trial() || policy.engines.contains(&EngineKind::Auto) {
        return false;
    }
    match &job.previous {
        Some(plan) => plan.is_of_stand_in(),
        None => refused::follow(job).is_none_or(|held| held.unreachable_pairs > 0),
    }
}

/// The same with `engine`; `refused` is why the first engine of the policy has no routes.
fn try_engine(
    job: &PlanJob,
    avoided: &Arc<Avoided>,
    engine: EngineKind,
    refused: Option<&PlanError>,
) -> Result<Outcome, PlanError> {
    let mut whole = Vec::new();
    let policy_before = job.previous.as_ref().map(|plan| &plan.policy);
    let policy_change = PolicyChange::between(policy_before, &job.policy);
    let lids = lids_of(job, &policy_change, &mut whole);
    let sm_lid = sm_lid(job, &lids)?;
    let topology = topology_of(job, &lids, &mut whole)?;
    let order = order_of(job, &topology, &mut whole);
    let link_ports = links_of(job, &topology, &mut whole);
    let held = transition::tables(&topology, &job.hardware);
    let routed = routing_of(job, engine, &topology, &order, &link_ports, &held);
    let routed = routed.map_err(
        |source| match levels::fewest_lanes(job, &topology, &source) {
            Some(limit) => PlanError::FewLanes { limit, source },
            None => PlanError::Engine(source),
        },
    )?;
    let (mut routing, relieved) = match routed {
        Routed::Anew(routing) => {
            whole.extend(routing.whole().map(|why| Whole::new(Step::Routes, why)));
            (routing, None)
        }
        Routed::Relieved(rebalanced) => (rebalanced.routing, Some(rebalanced.moved)),
        Routed::AsBefore(plan) => return Ok(Outcome::Unchanged(plan)),
    };
    route_vports(job, &topology, &mut routing);
    levels::lanes_pass(job, &topology, &routing)?;
    let damped_too = with_damped_links(job, &lids, &topology)?;
    let links = damped_too.as_ref().unwrap_or(&topology);
    let orientation = multicast::orientation(&topology, &routing);
    let ways = transition::Ways::of(job, &topology, &routing);
    let route = |follows_ranking| {
        let orders = match follows_ranking {
            true => interim_orders(job, &topology, &routing, &orientation),
            false => transition::Orders::default(),
        };
        transition::route(
            &job.fabric,
            (&topology, links),
            (&job.hardware, &held),
            &routing.tables,
            &orders,
            &ways,
            &link_ports,
        )
    };
    let prove = || proof_of(job, &topology, &routing, &orientation);
    // Beside each other, on the assumption that the routes follow an order if those in force do. A
    // first plan, of which both take all processors and much memory, has them one after the other.
    let assumed = job.previous.as_ref().map(|plan| plan.follows_ranking);
    let (proof, route_assumed) = match assumed {
        Some(assumed) => {
            let (proof, route) = rayon::join(prove, || route(assumed));
            (proof, Some(route))
        }
        None => (prove(), None),
    };
    let proof = proof?;
    whole.extend(proof.why_whole().map(|why| Whole::new(Step::Proof, why)));
    let follows_ranking = proof.follows;
    let route = route_assumed
        .filter(|_| assumed == Some(follows_ranking))
        .unwrap_or_else(|| route(follows_ranking));
    whole.extend(route.whole.map(|why| Whole::new(Step::Interim, why)));
    let partitions = partitions_of(job, &policy_change, &mut whole);
    let mut findings = findings_of(job, &lids, &partitions, &topology, &proof.report);
    findings.extend(avoided.findings(&job.fabric));
    let (engine, replacement) = routed_by(job, engine, refused);
    findings.extend(replacement);
    findings.extend(levels::findings(&job.policy, &routing));
    let layout = job.policy.layout.as_deref();
    findings.extend(layout::misfit(layout, routing.coordinates.as_deref()));
    let slow_cables = slow::cables(&topology, &routing, &job.fabric);
    let mut plan = Plan {
        generation: job.generation,
        fabric: job.fabric.clone(),
        lids,
        sm_lid,
        damped: job.damped.clone(),
        avoided: avoided.clone(),
        topology: topology.clone(),
        order,
        routing: Arc::new(routing),
        report: proof.report,
        tally: Arc::new(proof.tally),
        proved: proof.proved,
        relieved,
        follows_ranking,
        adaptive: None,
        multicast: None,
        transition: route.transition,
        link_ports,
        partitions,
        engine,
        policy: job.policy.clone(),
        policy_change,
        slow_cables,
        findings,
        whole,
    };
    let mut findings = std::mem::take(&mut plan.findings);
    plan.adaptive = adaptive::plan(job, &plan, links, &held, &orientation, &mut findings);
    plan.findings = findings;
    if let Some(groups) = &job.groups {
        let previous = job.previous.as_deref().ok_or(NO_PLAN);
        let previous = previous.and_then(|plan| plan.multicast.as_deref().ok_or(NO_TREES));
        plan.add_multicast(job, groups, &orientation, previous);
        // The dependencies that the proof found are those of the links that routes may use.
        let needs = proof.dependencies.filter(|_| damped_too.is_none());
        let before = transition::Before {
            held: &held,
            masks: &job.masks,
        };
        let other = transition::with_multicast(before, &plan, links, route.follows, needs);
        if let Some(other) = other {
            plan.whole.push(Whole::new(Step::Interim, OFF_ORDER));
            plan.transition = other;
        }
    }
    if job.refuses_interruption {
        Interrupted::check(&plan, &held)?;
    }
    Ok(Outcome::Plan(Arc::new(plan)))
}

/// The LID of the subnet manager's port.
fn sm_lid(job: &PlanJob, lids: &LidPlan) -> Result<Lid, PlanError> {
    let local = job.fabric.local.map(|local| job.fabric.key(local));
    let claim = local.and_then(|local| lids.lids.get(&local));
    claim.map(|claim| claim.base).ok_or(PlanError::NoLocalLid)
}

fn order_of(job: &PlanJob, topology: &Arc<Topology>, whole: &mut Vec<Whole>) -> HostOrder {
    HostOrder::follow(job, topology).unwrap_or_else(|why| {
        whole.push(Whole::new(Step::Order, why));
        HostOrder::of(job, topology)
    })
}

/// The orders that interim tables may follow, given the order of the planned routes.
fn interim_orders<'a>(
    job: &PlanJob,
    topology: &Topology,
    routing: &Routing,
    own: &'a Orientation,
) -> transition::Orders<'a> {
    let previous = job.previous.as_deref();
    let previous = previous.and_then(|plan| plan.routing.ranking.as_ref());
    let Some(ranking) = &routing.ranking else {
        return transition::Orders {
            own: Some(own),
            ..transition::Orders::default()
        };
    };
    let turned = previous.filter(|previous| previous.follows != ranking.follows);
    let follows = |order: &Orientation| {
        let turns = Dependencies::of(topology, &routing.tables);
        turns.follows(|high, low| order.is_above(high, low))
    };
    let keeps = previous.is_some() && turned.is_none();
    transition::Orders {
        own: Some(own),
        is_own_foreign: ranking.is_interim && !keeps,
        before: turned
            .and_then(|previous| Orientation::of(topology, previous))
            .filter(follows),
    }
}

/// The routes of a job's engine.
enum Routed {
    Anew(Routing),
    /// Single entries were moved off the fullest links.
    Relieved(Rebalanced),
    /// No entry could be moved; this is the plan in force.
    AsBefore(Arc<Plan>),
}

fn routing_of(
    job: &PlanJob,
    engine: EngineKind,
    topology: &Topology,
    order: &HostOrder,
    link_ports: &LinkPorts,
    held: &Tables,
) -> Result<Routed, EngineError> {
    let policy = &job.policy;
    // Rankings and tables from before other rules do not follow these.
    let has_other_rules = |plan: &Plan| {
        plan.policy.switch_rules != policy.switch_rules
            || plan.policy.listed != policy.listed
            || plan.policy.layout != policy.layout
    };
    let is_anew = job.previous.as_deref().is_some_and(has_other_rules);
    let previous = job.previous.as_deref().filter(|_| !is_anew);
    let options = Options {
        root_guids: job.policy.root_guids.clone(),
        absent_roots: AbsentRoots::LeaveOut,
        threads: 0,
        previous_ranking: previous.and_then(|plan| plan.routing.ranking.clone()),
        previous_coordinates: previous.and_then(|plan| plan.routing.coordinates.clone()),
        layout: policy.layout.clone(),
        previous_choice: previous.and_then(|plan| plan.routing.choice.clone()),
        max_vls: link_ports.data_vls(&job.policy),
        tables: job.policy.tables.clone(),
        engine_options: job.policy.engine_options.clone(),
        categories: order.categories.clone(),
        numbers: order.numbers.clone(),
        listed: policy.listed.clone(),
        connect_roots: job.policy.connect_roots,
        shortest_only: job.adaptive.is_some(),
    };
    if let (&JobKind::Rebalance { max_blocks }, Some(previous)) = (&job.kind, &job.previous) {
        let rebalanced = engine::rebalance(topology, &options, &previous.tally, max_blocks);
        return Ok(rebalanced.map_or_else(|| Routed::AsBefore(previous.clone()), Routed::Relieved));
    }
    let used = job.hardware.iter().any(|held| held.entries.lids() > 0);
    let held = (used && !is_anew).then_some(held);
    let routing = engine::route(engine, topology, &options, held)?;
    Ok(Routed::Anew(routing))
}

/// Adds the entries of the LIDs of virtual ports to tables of an engine.
fn route_vports(job: &PlanJob, topology: &Topology, routing: &mut Routing) {
    if routing.tables.copy_to_further_lids(topology)
        && let Some(previous) = &job.previous
        && previous.topology.switches() == topology.switches()
    {
        routing.tables.share_with(&previous.routing.tables);
    }
}

/// The switch graph with the damped links, if there are any: they carry packets until no table
/// leads to them.
fn with_damped_links(
    job: &PlanJob,
    lids: &LidPlan,
    topology: &Arc<Topology>,
) -> Result<Option<Arc<Topology>>, TopologyError> {
    if job.damped.is_empty() {
        return Ok(None);
    }
    let of = |damped| topology::TopologySources {
        fabric: &job.fabric,
        lids,
        damped,
    };
    let all = of(&BTreeSet::new()).follow(&of(&job.damped), topology)?;
    Ok(Some(all))
}

fn proof_of<'a>(
    job: &PlanJob,
    topology: &'a Topology,
    routing: &Routing,
    orientation: &Orientation,
) -> Result<Proof<'a>, Refusal> {
    let previous = job.previous.as_deref();
    let mut proof = lint::prove(topology, routing, orientation, &job.policy, previous);
    match proof.refusal.take() {
        Some(refusal) => Err(refusal),
        None => Ok(proof),
    }
}

/// The engine behind the routes of a plan, with the finding about it where it replaces others; a
/// plan that only relieves links has those of the routes that it starts from.
fn routed_by(
    job: &PlanJob,
    engine: EngineKind,
    refused: Option<&PlanError>,
) -> (EngineKind, Option<Finding>) {
    match job.previous.as_deref().filter(|_| !job.kind.routes_anew()) {
        Some(basis) => {
            let mut findings = basis.findings.iter();
            let found = findings.find(|finding| finding.kind == FindingKind::EngineReplaced);
            (basis.engine, found.cloned())
        }
        None => (engine, refused.map(|error| replaced(job, engine, error))),
    }
}

/// The finding about the engine in the place of the first one, which has no routes because of
/// `error`.
fn replaced(job: &PlanJob, engine: EngineKind, error: &PlanError) -> Finding {
    let text = format!(
        "routes are of {engine}, and not of {}, which stands before it: {}; mend the \
         cause, or set routing.engine",
        job.policy.engine,
        error.with_causes()
    );
    let kind = FindingKind::EngineReplaced;
    Finding::new(kind, Subject::Subnet, Severity::Warning, text)
}

/// The plan's findings, except those about multicast.
fn findings_of(
    job: &PlanJob,
    lids: &LidPlan,
    partitions: &PartitionPlan,
    topology: &Topology,
    report: &Report,
) -> Vec<Finding> {
    let mut findings = lids.findings.clone();
    findings.extend(partitions.findings.iter().cloned());
    let foreseen = partitions::foreseen(&job.fabric, &job.policy.partitions, partitions);
    findings.extend(foreseen);
    findings.extend(roots::absent(&job.policy.root_guids, topology));
    if report.disconnected_pairs > 0 {
        let text = format!(
            "{} pairs of ports have no cable path between them",
            report.disconnected_pairs
        );
        let kind = FindingKind::Unreachable;
        findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
    }
    findings
}

/// Why no plan can be followed.
const NO_PLAN: &str = "no plan is in force";

/// Why interim tables made for unicast alone are not enough.
const OFF_ORDER: &str = "multicast packets and unicast ones could wait for each other";

/// Why there are no multicast trees to follow.
const NO_TREES: &str = "no multicast trees are in force";

/// The plan in force, and the port GUIDs whose partition rules have changed since.
///
/// # Errors
/// No plan is in force, or anything else in the policy has changed.
fn predecessor<'a>(
    job: &'a PlanJob,
    policy_change: &'a PolicyChange,
) -> Result<(&'a Plan, &'a BTreeSet<Guid>), &'static str> {
    let previous = job.previous.as_deref().ok_or(NO_PLAN)?;
    let members = policy_change.members().ok_or("the configuration changed")?;
    Ok((previous, members))
}

/// The result of `follow` by the changes since the plan before; without one, that of `assign` for
/// the whole.
fn followed<T: PartialEq + Debug>(
    step: Step,
    follow: Result<Arc<T>, &'static str>,
    assign: impl Fn() -> T,
    whole: &mut Vec<Whole>,
) -> Arc<T> {
    match follow {
        Ok(made) => {
            debug_assert_eq!(*made, assign());
            made
        }
        Err(why) => {
            whole.push(Whole::new(step, why));
            Arc::new(assign())
        }
    }
}

fn lids_of(job: &PlanJob, policy_change: &PolicyChange, whole: &mut Vec<Whole>) -> Arc<LidPlan> {
    let assign = || match job.assigns_lids_anew {
        true => lids::assign_anew(&job.fabric, &job.policy),
        false => lids::assign_apart(&job.fabric, &job.claims, &job.policy, &job.apart),
    };
    if job.assigns_lids_anew {
        return followed(Step::Lids, Err("all LIDs are given anew"), assign, whole);
    }
    let follow = predecessor(job, policy_change).and_then(|(previous, _)| {
        let (before, fabric) = (&previous.fabric, &job.fabric);
        let known = (&*job.claims, job.apart.block);
        lids::follow(&previous.lids, before, fabric, known, &job.policy)
            .ok_or("a port has no claim, or holds another LID")
    });
    followed(Step::Lids, follow, assign, whole)
}

fn partitions_of(
    job: &PlanJob,
    policy_change: &PolicyChange,
    whole: &mut Vec<Whole>,
) -> Arc<PartitionPlan> {
    let assign = || partitions::assign(&job.fabric, &job.policy);
    let follow = predecessor(job, policy_change).and_then(|(previous, members)| {
        let before = (&*previous.fabric, &*previous.policy);
        partitions::follow(
            &previous.partitions,
            before,
            &job.fabric,
            &job.policy,
            members,
        )
        .ok_or("enforcement starts or ends, or there are findings")
    });
    followed(Step::Partitions, follow, assign, whole)
}

fn links_of(job: &PlanJob, topology: &Topology, whole: &mut Vec<Whole>) -> Arc<LinkPorts> {
    let read = || LinkPorts::read(&job.fabric, topology);
    followed(Step::Links, LinkPorts::follow(job, topology), read, whole)
}

/// The switch graph of a plan: by the changes since the plan before, if there is one.
fn topology_of(
    job: &PlanJob,
    lids: &LidPlan,
    whole: &mut Vec<Whole>,
) -> Result<Arc<Topology>, TopologyError> {
    let rules = &job.policy.switch_rules;
    let build = || {
        let topology = topology::build(&job.fabric, lids, &job.damped)?;
        Ok::<Topology, TopologyError>(topology.with_rules(rules.clone()))
    };
    let previous = job.previous.as_ref().ok_or(NO_PLAN);
    let previous = previous.and_then(|previous| match previous.policy.switch_rules == *rules {
        true => Ok(previous),
        false => Err("rules about switches changed"),
    });
    let previous = match previous {
        Ok(previous) => previous,
        Err(why) => {
            whole.push(Whole::new(Step::Graph, why));
            return Ok(Arc::new(build()?));
        }
    };
    let sources = topology::TopologySources {
        fabric: &job.fabric,
        lids,
        damped: &job.damped,
    };
    let before = topology::TopologySources {
        fabric: &previous.fabric,
        lids: &previous.lids,
        damped: &previous.damped,
    };
    let topology = sources.follow(&before, &previous.topology)?;
    debug_assert_eq!(Ok(&*topology), build().as_ref());
    Ok(topology)
}

/// The same plan with other multicast members.
fn plan_groups(job: &PlanJob, basis: &Plan) -> Plan {
    let mut plan = Plan {
        generation: job.generation,
        transition: Transition::default(),
        relieved: None,
        whole: Vec::new(),
        ..basis.clone()
    };
    plan.findings.retain(|finding| {
        !matches!(
            finding.kind,
            FindingKind::MulticastUnserved | FindingKind::MulticastRefused
        )
    });
    if let Some(groups) = &job.groups {
        let previous = plan.multicast.take();
        let orientation = match &previous {
            Some(previous) => previous.orientation().clone(),
            None => multicast::orientation(&plan.topology, &plan.routing),
        };
        let previous = previous.as_deref().ok_or(NO_TREES);
        plan.add_multicast(job, groups, &orientation, previous);
    }
    plan
}

impl Plan {
    /// Whether `auto` routes in the place of all engines of the policy.
    fn is_of_stand_in(&self) -> bool {
        self.engine == EngineKind::Auto && !self.policy.engines.contains(&EngineKind::Auto)
    }

    /// Plans multicast on the plan's routes. Reports trees that fail the proof; the hardware's
    /// multicast tables then stay as they are.
    fn add_multicast(
        &mut self,
        job: &PlanJob,
        groups: &Arc<GroupSet>,
        orientation: &Orientation,
        previous: Result<&Multicast, &'static str>,
    ) {
        let outcome = multicast::plan(&multicast::MulticastJob {
            fabric: &self.fabric,
            topology: &self.topology,
            routing: &self.routing,
            orientation,
            policy: &self.policy,
            unicast_follows: self.follows_ranking,
            groups,
            held: &job.masks,
            previous,
        });
        let whole = outcome.whole.map(|why| Whole::new(Step::Multicast, why));
        self.whole.extend(whole);
        match outcome.multicast {
            Ok(multicast) => {
                self.findings.extend(multicast.findings());
                self.multicast = Some(Arc::new(multicast));
            }
            Err(report) => self.findings.push(Finding::new(
                FindingKind::MulticastRefused,
                Subject::Subnet,
                Severity::Error,
                format!(
                    "the multicast trees did not stand the proof, and the tables in force stay: {}",
                    witness::multicast_faults(&report)
                ),
            )),
        }
    }
}
