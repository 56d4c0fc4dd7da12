//! Limits the time that the core waits for silent nodes while there is other work to do.
//!
//! When paths change, overdue and unsent Gets to other nodes are withdrawn and sent by the new
//! paths: the old paths may have led through a dead switch, and each further attempt would wait
//! twice as long.
//! Once no cable leads to a switch, the core does not wait for that switch. A sweep that has found
//! a change, and a push that delays urgent work, end without the answers of silent nodes.
//!
//! Packet loss alone makes some attempts fail. To allow for it, the core uses the loss rate
//! measured before the fault: attempts through dead switches also time out, and would raise the
//! present rate.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rsm_hardware::push::Push;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::{AgentAnswer, Query, Sweep, SweepScope, Withdrawal};
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Completion, Priority, Request};
use rsm_mad::wire::attr::{Attribute, NodeInfo};

use super::requests::Context;
use super::silences::Silences;

/// Number of unanswered attempts of a Set after which a push continues without the node, if urgent
/// work waits.
const ATTEMPTS_OF_URGENT_PUSH: u8 = 2;

/// Like [`ATTEMPTS_OF_URGENT_PUSH`], for a stopped push. Lower, because the next push repeats the
/// Sets that this push leaves undone.
const ATTEMPTS_OF_STOPPED_PUSH: u8 = 1;

/// Time after a node's last answer during which the node does not count as silent in a push, even
/// if a Set to it is overdue.
const ANSWER_VALID_FOR: Duration = Duration::from_millis(300);

/// Highest probability, in permille, that packet loss alone has caused a silence which counts
/// against its node.
const CHANCE_PERMILLE: u32 = 10;

/// Time after the beginning of a convergence during which the loss rate from before the
/// convergence is used. The present rate also counts attempts through dead switches.
const IDLE_LOSS_VALID_FOR: Duration = Duration::from_secs(1);

/// State that decides how long the core waits for nodes that do not answer.
#[derive(Default)]
pub(super) struct Silence {
    losses: Losses,
    /// Node → time of its last answer to a Set of this push.
    answered: HashMap<Guid, Time>,
    pub(super) silences: Silences,
}

/// State of the core that decides whether silence counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Whether a convergence is under way or waiting.
    pub(super) is_converging: bool,
    /// Whether no stage is under way.
    pub(super) is_idle: bool,
    /// Whether work waits for answers: a plan is in force, or this manager reads the subnet for its
    /// first plan. False while a standby reads.
    pub(super) awaits_answers: bool,
}

/// Time-outs of the client's attempts, and the loss rate before a convergence.
#[derive(Default)]
struct Losses {
    /// Number of time-outs at the last call of [`Silence::process_overdue`].
    timeouts: u64,
    /// Number of time-outs at the last call of [`Silence::abandon`].
    timeouts_of_push: u64,
    /// Loss rate in permille at the last time without a convergence, and that time; `None` before
    /// the first such time.
    idle_loss: Option<(u32, Time)>,
    /// Whether the whole fabric is silent.
    fabric: FabricSilence,
}

/// Whether only single nodes are silent, or the whole fabric. A Get to the [`probe_target`], a
/// switch next to the manager's node, decides.
///
/// ```text
///                an attempt becomes overdue          the probe is overdue as well,
///                and there is a probe target         and no node has answered
/// NotSuspected ─────────────────────────▶ Probing ──────────────────────────▶ Silent
///    ▲                                       │                                   │
///    └───────────────────────────────────────┴───────── any node answers ────────┘
///                           overdue attempts count        attempts so far are excused
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum FabricSilence {
    /// No attempt is overdue, or all overdue attempts have counted against their nodes.
    #[default]
    NotSuspected,
    /// Attempts are overdue, and the probe has been sent.
    Probing {
        /// Number of answers that had arrived when the probe was sent.
        answers: u64,
    },
    /// No node answers, not even the probe target.
    Silent {
        /// Time at which the probe became overdue.
        since: Time,
        /// Number of answers that had arrived then.
        answers: u64,
    },
}

/// After the whole fabric has been silent for this long, each overdue attempt counts against its
/// node.
const LONGEST_FABRIC_SILENCE: Duration = Duration::from_secs(1);

impl Losses {
    /// Number of successive unanswered attempts that packet loss explains; `permille` is the
    /// present loss rate.
    fn explain(&self, permille: u32, now: Time) -> u8 {
        let while_idle = self
            .idle_loss
            .filter(|(_, idle)| now.since(*idle) < IDLE_LOSS_VALID_FOR);
        explained_by_losses(while_idle.map_or(permille, |(permille, _)| permille))
    }
}

/// Number of successive unanswered attempts that packet loss with this rate explains: one more has
/// at most the probability [`CHANCE_PERMILLE`].
fn explained_by_losses(loss_permille: u32) -> u8 {
    let mut explained = 0;
    let mut chance = loss_permille.min(1000);
    while chance > CHANCE_PERMILLE && explained < ClientConfig::MAX_RETRIES {
        explained += 1;
        chance = chance * loss_permille / 1000;
    }
    explained
}

/// Takes the queries of sweeps for which `unwanted` returns true out of the MAD client, by `take`.
/// Returns a query twice if it is under way twice.
fn take_queries<T>(
    unwanted: impl Fn(Query) -> bool,
    take: impl FnOnce(&mut dyn FnMut(&Context) -> bool) -> T,
) -> Vec<Query> {
    let mut taken = Vec::new();
    take(&mut |context| match *context {
        Context::Sweep(query) if unwanted(query) => {
            taken.push(query);
            true
        }
        _ => false,
    });
    taken
}

impl Silence {
    /// Forgets the answers to the Sets of the last push.
    pub(super) fn begin_push(&mut self) {
        self.answered.clear();
    }

    /// Records the end of a request.
    pub(super) fn record_completion(&mut self, completion: &Completion<Context>, now: Time) {
        self.silences.record_completion(completion, now);
        if let (Context::Push(task), Ok(_)) = (completion.context, &completion.outcome) {
            self.answered.insert(task.node(), now);
        }
    }

    /// Passes overdue queries to the `sweep` under way, and withdraws the queries that the sweep no
    /// longer wants. Returns whether there are new suspects.
    pub(super) fn process_overdue(
        &mut self,
        sweep: Option<&mut Sweep>,
        client: &mut Client<Context>,
        inventory: &mut Inventory,
        situation: Situation,
        now: Time,
    ) -> bool {
        let stats = client.stats();
        let has_waited =
            std::mem::replace(&mut self.losses.timeouts, stats.timeouts) != stats.timeouts;
        if !situation.is_converging {
            self.losses.idle_loss = Some((stats.loss_permille, now));
        }
        let explained = self.losses.explain(stats.loss_permille, now);
        let may_ask = has_waited && !situation.is_idle;
        let overdue_counts = situation.awaits_answers
            && self.update_fabric_silence(client, inventory, may_ask, has_waited, explained, now);
        let Some(sweep) = sweep else { return false };
        if overdue_counts {
            sweep.on_overdue(inventory, overdue_queries(client), explained);
        }
        withdraw_unwanted(sweep, client, inventory);
        // A query sent before the paths changed may become overdue only now. Its silence must count
        // before it is sent again: otherwise its node would never become a suspect.
        let may_use_dead_paths = overdue_counts && !inventory.suspects.is_empty();
        if !sweep.is_outward() {
            let has_new_paths = sweep.take_rerouted();
            // In a full sweep, queries behind silent nodes are sent last in any case.
            if has_new_paths && !matches!(sweep.scope(), SweepScope::Full { .. }) {
                reroute_unsent(sweep, client, inventory);
            }
            if has_new_paths || may_use_dead_paths {
                reroute_overdue(sweep, client, inventory);
            }
        }
        sweep.take_suspicion()
    }

    /// Advances [`FabricSilence`], and returns whether overdue attempts count against their nodes
    /// now. They count only once some node has answered after they became overdue: until then, the
    /// whole fabric may be silent. Without a probe target, they count immediately.
    ///
    /// `has_waited`: an attempt has become overdue since the last call. `may_ask`: in addition, a
    /// stage is under way, so that the probe may be sent. `explained`: the number of successive
    /// unanswered attempts that packet loss explains.
    fn update_fabric_silence(
        &mut self,
        client: &mut Client<Context>,
        inventory: &Inventory,
        may_ask: bool,
        has_waited: bool,
        explained: u8,
        now: Time,
    ) -> bool {
        let stats = client.stats();
        let arrived = stats.answered + stats.busy + stats.late + stats.duplicate;
        match self.losses.fabric {
            FabricSilence::NotSuspected if may_ask => {
                if !send_fabric_probe(client, inventory) {
                    return true;
                }
                self.losses.fabric = FabricSilence::Probing { answers: arrived };
                false
            }
            FabricSilence::NotSuspected => false,
            FabricSilence::Probing { answers } if answers == arrived => {
                let mut pending = client.pending_requests();
                if pending.any(|(context, attempts)| {
                    matches!(context, Context::FabricProbe) && attempts > explained
                }) {
                    self.losses.fabric = FabricSilence::Silent {
                        since: now,
                        answers,
                    };
                }
                false
            }
            FabricSilence::Silent { since, answers } if answers == arrived => {
                has_waited && now.since(since) >= LONGEST_FABRIC_SILENCE
            }
            FabricSilence::Probing { .. } => {
                self.end_fabric_silence(client);
                true
            }
            FabricSilence::Silent { .. } => {
                client.excuse(now);
                self.end_fabric_silence(client);
                false
            }
        }
    }

    /// Records that a node has answered, and withdraws the probe.
    fn end_fabric_silence(&mut self, client: &mut Client<Context>) {
        self.losses.fabric = FabricSilence::NotSuspected;
        client.withdraw(|context| matches!(context, Context::FabricProbe));
    }

    /// Makes a `push` continue without silent nodes, because work waits for its end. Returns the
    /// nodes that the push gives up.
    pub(super) fn abandon(
        &mut self,
        push: &mut Push,
        client: &mut Client<Context>,
        inventory: &mut Inventory,
        now: Time,
    ) -> BTreeSet<Guid> {
        if self.losses.fabric != FabricSilence::NotSuspected {
            return BTreeSet::new();
        }
        let limit = if push.was_stopped() {
            ATTEMPTS_OF_STOPPED_PUSH
        } else {
            ATTEMPTS_OF_URGENT_PUSH
        };
        let explained = self.losses.explain(client.stats().loss_permille, now);
        let limit = limit.saturating_add(explained);
        let timeouts = client.stats().timeouts;
        let before = std::mem::replace(&mut self.losses.timeouts_of_push, timeouts);
        if limit > 1 && before == timeouts {
            // This function is called at each answer, but only a time-out can make a node silent.
            return BTreeSet::new();
        }
        // With packet loss, some of a thousand Sets to healthy nodes are overdue as well. A healthy
        // node still answers its other Sets.
        let has_answered_lately = |node: &Guid| {
            let last = self.answered.get(node);
            last.is_some_and(|&last| now.since(last) < ANSWER_VALID_FOR)
        };
        let pending = client.pending_requests();
        let silent: BTreeSet<Guid> = pending
            .filter(|&(_, attempts)| attempts >= limit)
            .filter_map(|(context, _)| match context {
                Context::Push(task) => Some(task.node()),
                _ => None,
            })
            .filter(|node| !has_answered_lately(node))
            .collect();
        if silent.is_empty() {
            return silent;
        }
        let withdrawn = client.withdraw(
            |context| matches!(context, Context::Push(task) if silent.contains(&task.node())),
        );
        for &node in &silent {
            push.give_up_on(node);
        }
        for request in withdrawn {
            if let Context::Push(task) = request.request.context {
                push.abandon(inventory, task);
            }
        }
        silent
    }
}

/// Withdraws the queries that `sweep` no longer wants.
fn withdraw_unwanted(sweep: &mut Sweep, client: &mut Client<Context>, inventory: &Inventory) {
    while let Some(withdrawal) = sweep.next_withdrawal() {
        let covers = |query| withdrawal.covers(query);
        if let Withdrawal::Unsent(_) = withdrawal {
            let unsent = take_queries(covers, |is_taken| client.cancel_queued(is_taken));
            unsent.into_iter().for_each(|query| sweep.postpone(query));
            continue;
        }
        let taken = take_queries(covers, |is_taken| client.withdraw(is_taken));
        for query in taken {
            match withdrawal {
                Withdrawal::Everything | Withdrawal::ForLater(_) => sweep.park(inventory, query),
                Withdrawal::Overdue(_) => sweep.reroute(query),
                _ => sweep.withdrawn(query),
            }
        }
    }
}

/// The overdue queries of sweeps, each with its number of unanswered attempts.
fn overdue_queries(client: &Client<Context>) -> impl Iterator<Item = (Query, u8)> + '_ {
    client
        .pending_requests()
        .filter_map(|(context, attempts)| match *context {
            Context::Sweep(query) if attempts > 0 => Some((query, attempts)),
            _ => None,
        })
}

/// Sends overdue queries again by their present paths. Queries to suspects are left out: one
/// unanswered query to a suspect suffices, by any path.
fn reroute_overdue(sweep: &mut Sweep, client: &mut Client<Context>, inventory: &Inventory) {
    let suspects = &inventory.suspects;
    let overdue: BTreeSet<Query> = overdue_queries(client)
        .map(|(query, _)| query)
        .filter(|&query| {
            sweep.may_reroute(query) && !query.node().is_some_and(|guid| suspects.contains(&guid))
        })
        .collect();
    // A query may be under way twice.
    let is_overdue = |query| overdue.contains(&query);
    let taken = take_queries(is_overdue, |is_taken| client.withdraw(is_taken));
    taken.into_iter().for_each(|query| sweep.reroute(query));
}

/// Takes back queries that wait for a place in the client's window, so that they take the present
/// paths: each would wait for an answer by a former path, which may lead through a dead switch. The
/// one query to a suspect stays.
fn reroute_unsent(sweep: &mut Sweep, client: &mut Client<Context>, inventory: &Inventory) {
    let suspects = &inventory.suspects;
    let is_to_others = |query: Query| !query.node().is_some_and(|guid| suspects.contains(&guid));
    let taken = take_queries(is_to_others, |is_taken| client.cancel_queued(is_taken));
    taken.into_iter().for_each(|query| sweep.queue_again(query));
}

/// Sends a Get of NodeInfo to the [`probe_target`]. Returns whether there is a probe target.
fn send_fabric_probe(client: &mut Client<Context>, inventory: &Inventory) -> bool {
    let Some(target) = probe_target(inventory) else {
        return false;
    };
    let Some(node) = inventory.hardware.node(target) else {
        return false;
    };
    let request = Request {
        priority: Priority::Urgent,
        // The target key differs from the switch's, so that other requests to it do not delay
        // this one.
        ..Request::get(!target.0, node.path, NodeInfo::ID, 0, Context::FabricProbe)
    };
    client.submit(request).is_ok()
}

/// The first switch next to the manager's node that is not a suspect; `None` if there is none.
fn probe_target(inventory: &Inventory) -> Option<Guid> {
    let local = inventory.hardware.local?;
    let node = inventory.hardware.node(local.node)?;
    let is_suitable = |end: &PortKey| {
        inventory.hardware.is_switch(end.node) && !inventory.suspects.contains(&end.node)
    };
    let neighbour = match node.is_switch() {
        true => {
            let mut peers = node.external_ports().filter_map(|(_, port)| port.peer);
            peers.find(is_suitable)
        }
        false => inventory.hardware.port(local)?.peer.filter(is_suitable),
    };
    neighbour.map(|end| end.node)
}

/// Completes `sweep` without the answers of silent nodes, if the sweep allows that
/// ([`Sweep::can_leave_out`]) and all outstanding queries are overdue. Returns whether any query
/// was given up.
pub(super) fn leave_silent_nodes_out(
    sweep: &mut Sweep,
    urgent: bool,
    client: &mut Client<Context>,
    inventory: &mut Inventory,
) -> bool {
    let is_left_out = |context: &Context| match *context {
        Context::Sweep(query) => sweep.is_overdue(query),
        _ => true,
    };
    let can_end = sweep.can_leave_out(urgent)
        && client
            .pending_requests()
            .all(|(context, _)| is_left_out(context));
    if !can_end {
        return false;
    }
    let queries = take_queries(|_| true, |is_taken| client.withdraw(is_taken));
    for &query in &queries {
        sweep.handle(inventory, query, AgentAnswer::Silence);
    }
    !queries.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_loss_rate_explains_more_unanswered_attempts() {
        let explained = [0, 10, 50, 200, 500, 1000].map(explained_by_losses);
        assert_eq!(explained, [0, 0, 1, 2, 6, ClientConfig::MAX_RETRIES]);
    }
}
