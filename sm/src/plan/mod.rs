//! What we want: the immutable desired state of the subnet, and its proof.
//!
//! Planning is pure: [`plan`] turns a [`Job`] (everything it depends on) into an [`Outcome`], on
//! whatever thread, and nothing else happens.

pub mod gpu;
pub mod groups;
pub mod guids;
mod lanes;
pub mod lids;
pub mod lint;
pub mod multicast;
mod mute;
pub mod order;
pub mod partitions;
pub mod policy;
pub mod ports;
pub mod refused;
mod roots;
mod topology;
mod transition;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use rsm_gdr::hosts::Inventory;
use rsm_gdr::seats::Seats;
use rsm_ids::{Guid, Lid};
use rsm_routing::engine::{self, AbsentRoots, EngineError, Options, Routing};
use rsm_routing::mcast::Mft;
use rsm_routing::tables::{BLOCK_LIDS, Lft, Tables};
use rsm_routing::topology::{Topology, TopologyError};
use rsm_routing::verify::{Report, Tally};

use self::groups::GroupSet;
use self::lids::{Claim, Claims, LidPlan};
use self::lint::{Proved, Refusal};
use self::multicast::{Base, HeldMasks, Multicast};
use self::order::Order;
use self::partitions::PartitionPlan;
use self::policy::Policy;
pub use self::refused::RefusedPlan;
pub use self::topology::{build as topology, lids_in_use};
pub use self::transition::{Held, Transition};
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::sweep::inventory::PortKey;
use crate::whole::{Step, Whole};

/// Everything that a plan depends on.
#[derive(Clone, Debug)]
pub struct Job {
    /// Number of the plan.
    pub generation: u64,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// LIDs given out before.
    pub claims: Arc<Claims>,
    /// Where compute ports sat before, as long as there is no plan in force.
    pub seats: Arc<Seats>,
    /// What hosts with GPUs told of themselves.
    pub gpus: Arc<Inventory>,
    /// What the operator decides.
    pub policy: Arc<Policy>,
    /// Cables kept out of the routes, by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The plan in force.
    pub previous: Option<Arc<Plan>>,
    /// What switches hold now.
    pub hardware: Vec<Held>,
    /// Who takes part in multicast; `None` while that is not known.
    pub groups: Option<Arc<GroupSet>>,
    /// What switches pass multicast packets on by now.
    pub masks: Vec<HeldMasks>,
    /// A plan whose routes stay: only multicast is planned.
    pub basis: Option<Arc<Plan>>,
    /// The routes in force stay but for the fullest links, off which load is taken in at most so many blocks of tables. Where
    /// nothing is to be won the plan in force is what comes of it.
    pub rebalance: Option<usize>,
}

impl Job {
    /// The first plan for a subnet of which nothing is known but what it consists of.
    pub fn first(fabric: Arc<Fabric>, policy: Arc<Policy>) -> Job {
        Job {
            generation: 1,
            fabric,
            claims: Arc::default(),
            seats: Arc::default(),
            gpus: Arc::default(),
            policy,
            damped: Arc::default(),
            previous: None,
            hardware: Vec::new(),
            groups: None,
            masks: Vec::new(),
            basis: None,
            rebalance: None,
        }
    }

    /// The plan after `plan` for the fabric as it is then, where all switches hold what that wanted, and nobody takes part in
    /// multicast.
    pub fn after(plan: &Arc<Plan>, fabric: Arc<Fabric>) -> Job {
        let lids = plan.lids.lids.iter();
        let guid = |port| {
            plan.fabric
                .find_port(port)
                .map(|at| plan.fabric.port(at).guid)
        };
        let claims = lids.filter_map(|(&port, &claim)| Some((guid(port)?, claim)));
        let switches = plan.topology.switches().iter();
        let hardware = switches
            .zip(&plan.routing.tables.lfts)
            .map(|(switch, lft)| Held {
                switch: switch.guid,
                entries: lft.clone(),
                complete: true,
                sent: Vec::new(),
                is_suspect: false,
            });
        Job {
            generation: plan.generation + 1,
            claims: Arc::new(claims.collect()),
            seats: plan.order.seats.clone(),
            gpus: plan.order.gpus(),
            previous: Some(plan.clone()),
            hardware: hardware.collect(),
            ..Job::first(fabric, plan.policy.clone())
        }
    }
}

/// The desired state of the subnet. A clone shares everything of size.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Counts plans; every later one is higher.
    pub generation: u64,
    /// The subnet it was made for.
    pub fabric: Arc<Fabric>,
    /// Who has which LID.
    pub lids: Arc<LidPlan>,
    /// The LID of the port that this subnet manager sits at.
    pub sm_lid: Lid,
    /// Cables kept out of the routes, by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The switch graph with these LIDs, without these cables.
    pub topology: Arc<Topology>,
    /// What routes are spread by.
    pub order: Order,
    /// The forwarding tables, and how they came about.
    pub routing: Arc<Routing>,
    /// Their proof.
    pub report: Report,
    /// The sums that the proof was made from, for that of the next plan.
    pub tally: Arc<Tally>,
    /// How they were proved.
    pub proved: Proved,
    /// How many entries were moved off the fullest links; `None` where that was not what the plan was made for.
    pub relieved: Option<usize>,
    /// Whether no route goes up after it went down, by the ranking of `routing` or, where it has none, by distance
    /// from the hosts.
    pub follows_ranking: bool,
    /// Multicast on these routes; `None` while nobody told who takes part: tables are left as they are.
    pub multicast: Option<Arc<Multicast>>,
    /// How the hardware gets from what it holds now to the tables of `routing`.
    pub transition: Transition,
    /// Who is in which partition.
    pub partitions: Arc<PartitionPlan>,
    /// The decisions it was made under.
    pub policy: Arc<Policy>,
    /// What the operator should know.
    pub findings: Vec<Finding>,
    /// The steps that took the whole subnet into account.
    pub whole: Vec<Whole>,
}

/// What became of a [`Job`].
#[derive(Debug)]
pub enum Outcome {
    /// A proven plan.
    Plan(Arc<Plan>),
    /// No plan; that in force stays.
    Refused(Box<RefusedPlan>),
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The fabric cannot be made a switch graph.
    #[error("the fabric cannot be routed")]
    Topology(#[from] TopologyError),
    /// The engine found no tables.
    #[error("the engine found no routes")]
    Engine(#[from] EngineError),
    /// The tables did not stand the proof.
    #[error("the routes were refused")]
    Refused(#[from] Refusal),
    /// The subnet manager's own port could not be given a LID.
    #[error("the subnet manager's own port has no LID")]
    NoLocalLid,
}

impl PlanError {
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

    /// The table that the switch with this GUID is to hold at the end of a push: [`Plan::table`], but where that waits for
    /// switches that do not answer.
    pub fn last_table(&self, guid: Guid) -> Option<&Lft> {
        match &self.transition.instead {
            Some(tables) if !self.transition.mute.contains(&guid) => self.table_of(tables, guid),
            _ => self.table(guid),
        }
    }

    /// The interim table that the switch with this GUID is to hold in stage `stage` on the way to [`Plan::table`].
    pub fn interim_table(&self, stage: usize, guid: Guid) -> Option<&Lft> {
        self.table_of(self.transition.interim.get(stage)?, guid)
    }

    /// The table of the switch with this GUID among `tables`, which are in the order of [`Plan::topology`].
    pub fn table_of<'a>(&self, tables: &'a Tables, guid: Guid) -> Option<&'a Lft> {
        let switch = self.topology.switch_by_guid(guid)?;
        tables.lfts.get(switch.index())
    }

    /// The multicast forwarding table of the switch with this GUID.
    pub fn multicast_table(&self, guid: Guid) -> Option<&Mft> {
        let switch = self.topology.switch_by_guid(guid)?;
        self.multicast.as_ref()?.table(switch)
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

/// Plans.
pub fn plan(job: &Job) -> Outcome {
    match try_plan(job) {
        Ok(plan) => Outcome::Plan(plan),
        Err(error) => Outcome::Refused(Box::new(RefusedPlan::new(job, error))),
    }
}

fn try_plan(job: &Job) -> Result<Arc<Plan>, PlanError> {
    if let Some(basis) = &job.basis {
        return Ok(Arc::new(plan_groups(job, basis)));
    }
    let mut whole = Vec::new();
    let lids = lids_of(job, &mut whole);
    let sm_lid = job
        .fabric
        .local
        .and_then(|local| lids.lids.get(&job.fabric.key(local)))
        .map(|claim| claim.base)
        .ok_or(PlanError::NoLocalLid)?;
    let topology = topology_of(job, &lids, &mut whole)?;
    let order = Order::of(job, &topology);
    let used = job.hardware.iter().any(|held| held.entries.lids() > 0);
    let hardware = used.then(|| transition::tables(&topology, &job.hardware));
    let options = Options {
        root_guids: job.policy.root_guids.clone(),
        absent_roots: AbsentRoots::LeaveOut,
        threads: 0,
        previous_ranking: job
            .previous
            .as_ref()
            .and_then(|plan| plan.routing.ranking.clone()),
        previous_coordinates: job
            .previous
            .as_ref()
            .and_then(|plan| plan.routing.coordinates.clone()),
        max_vls: lanes::available(&job.fabric, &topology, &job.policy),
        tables: job.policy.tables.clone(),
        nue_vls: job.policy.nue_vls,
        categories: order.categories.clone(),
        numbers: order.numbers.clone(),
    };
    let (routing, relieved) = match (job.rebalance, &job.previous) {
        (Some(blocks), Some(previous)) => {
            match engine::rebalance(&topology, &options, &previous.tally, blocks) {
                Some(rebalanced) => (rebalanced.routing, Some(rebalanced.moved)),
                None => return Ok(previous.clone()),
            }
        }
        _ => {
            let kind = job.policy.engine;
            let routing = engine::route(kind, &topology, &options, hardware.as_ref())?;
            (routing, None)
        }
    };
    // Links kept out of the routes carry packets all the same, until no table leads to them.
    let links_apart = if job.damped.is_empty() {
        None
    } else {
        let of = |damped| topology::Sources {
            fabric: &job.fabric,
            lids: &lids,
            damped,
        };
        Some(of(&BTreeSet::new()).follow(&of(&job.damped), &topology)?)
    };
    let links = links_apart.as_ref().unwrap_or(&topology);
    let ways = transition::Ways::of(job, &topology, &routing);
    let orientation = multicast::orientation(&topology, &routing);
    let previous = job.previous.as_deref();
    let proof = lint::prove(&topology, &routing, &orientation, &job.policy, previous);
    if let Some(refusal) = proof.refusal {
        return Err(refusal.into());
    }
    if let Proved::Whole { why } = &proof.proved {
        whole.push(Whole::new(Step::Proof, why.clone()));
    }
    let report = proof.report;
    let follows_ranking = proof.follows;
    let route = transition::route(
        &job.fabric,
        (&topology, links),
        &job.hardware,
        &routing.tables,
        follows_ranking.then_some(&orientation),
        &ways,
    );
    let partitions = partitions_of(job, &mut whole);
    let mut findings = lids.findings.clone();
    findings.extend(partitions.findings.iter().cloned());
    findings.extend(roots::absent(&job.policy.root_guids, &topology));
    if report.disconnected_pairs > 0 {
        findings.push(Finding::new(
            FindingKind::Unreachable,
            Subject::Subnet,
            Severity::Warning,
            format!(
                "{} pairs of ports have no cable path between them",
                report.disconnected_pairs
            ),
        ));
    }
    let mut plan = Plan {
        generation: job.generation,
        fabric: job.fabric.clone(),
        lids,
        sm_lid,
        damped: job.damped.clone(),
        topology: topology.clone(),
        order,
        routing: Arc::new(routing),
        report,
        tally: Arc::new(proof.tally),
        proved: proof.proved,
        relieved,
        follows_ranking,
        multicast: None,
        transition: route.transition,
        partitions,
        policy: job.policy.clone(),
        findings,
        whole,
    };
    if let Some(groups) = &job.groups {
        let base = Base::new(&job.fabric, &topology, orientation, follows_ranking);
        plan.add_multicast(job, groups, Arc::new(base), None);
        // What was found out on the way holds for the links that it was found out on.
        let needs = proof.dependencies.filter(|_| links_apart.is_none());
        if let Some(other) = transition::with_multicast(job, &plan, links, route.follows, needs) {
            plan.transition = other;
        }
    }
    Ok(Arc::new(plan))
}

/// Why there is nothing to follow.
const NO_PLAN: &str = "no plan is in force";

/// The plan in force, if it was made under the same decisions.
fn predecessor(job: &Job) -> Result<&Plan, &'static str> {
    let previous = job.previous.as_deref().ok_or(NO_PLAN)?;
    let is_same = Arc::ptr_eq(&previous.policy, &job.policy);
    is_same
        .then_some(previous)
        .ok_or("the configuration changed")
}

/// What `follow` makes of what changed since the plan before; where that does not tell, what `assign` makes of the whole.
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

fn lids_of(job: &Job, whole: &mut Vec<Whole>) -> Arc<LidPlan> {
    let assign = || lids::assign(&job.fabric, &job.claims, &job.policy);
    let follow = predecessor(job).and_then(|previous| {
        let (before, fabric) = (&previous.fabric, &job.fabric);
        lids::follow(&previous.lids, before, fabric, &job.claims, &job.policy)
            .ok_or("a port has no claim, or holds another LID")
    });
    followed(Step::Lids, follow, assign, whole)
}

fn partitions_of(job: &Job, whole: &mut Vec<Whole>) -> Arc<PartitionPlan> {
    let assign = || partitions::assign(&job.fabric, &job.policy);
    let follow = predecessor(job).and_then(|previous| {
        let (before, fabric) = (&previous.fabric, &job.fabric);
        partitions::follow(&previous.partitions, before, fabric, &job.policy)
            .ok_or("whether anybody is kept apart may change for all")
    });
    followed(Step::Partitions, follow, assign, whole)
}

/// The switch graph of a plan: by what changed since the plan before, if there is one.
fn topology_of(
    job: &Job,
    lids: &LidPlan,
    whole: &mut Vec<Whole>,
) -> Result<Arc<Topology>, TopologyError> {
    let build = || topology::build(&job.fabric, lids, &job.damped);
    let Some(previous) = &job.previous else {
        whole.push(Whole::new(Step::Graph, NO_PLAN));
        return Ok(Arc::new(build()?));
    };
    let sources = topology::Sources {
        fabric: &job.fabric,
        lids,
        damped: &job.damped,
    };
    let before = topology::Sources {
        fabric: &previous.fabric,
        lids: &previous.lids,
        damped: &previous.damped,
    };
    let topology = sources.follow(&before, &previous.topology)?;
    debug_assert_eq!(Ok(&*topology), build().as_ref());
    Ok(topology)
}

/// The same plan with other multicast members.
fn plan_groups(job: &Job, basis: &Plan) -> Plan {
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
        let base = match &previous {
            Some(previous) => previous.base().clone(),
            None => {
                let orientation = multicast::orientation(&plan.topology, &plan.routing);
                let follows = plan.follows_ranking;
                Arc::new(Base::new(
                    &plan.fabric,
                    &plan.topology,
                    orientation,
                    follows,
                ))
            }
        };
        plan.add_multicast(job, groups, base, previous.as_deref());
    }
    plan
}

impl Plan {
    /// Plans multicast on the plan's routes. Trees that do not stand the proof are reported, and multicast stays as the
    /// hardware has it.
    fn add_multicast(
        &mut self,
        job: &Job,
        groups: &Arc<GroupSet>,
        base: Arc<Base>,
        previous: Option<&Multicast>,
    ) {
        let planned = multicast::plan(&multicast::Job {
            topology: &self.topology,
            routing: &self.routing,
            policy: &self.policy,
            unicast_follows: self.follows_ranking,
            groups,
            held: &job.masks,
            base,
            previous,
        });
        match planned {
            Ok(multicast) => {
                self.findings.extend(multicast.findings());
                self.multicast = Some(Arc::new(multicast));
            }
            Err(report) => self.findings.push(Finding::new(
                FindingKind::MulticastRefused,
                Subject::Subnet,
                Severity::Error,
                format!(
                    "the multicast trees did not stand the proof, and the tables in force stay: {:?}",
                    report.witnesses
                ),
            )),
        }
    }
}
