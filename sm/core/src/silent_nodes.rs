//! Limits waiting for silent nodes while there is other work to do.
//!
//! When paths change, overdue Gets to other nodes are withdrawn and sent by the new paths: the old
//! ones may have led through a dead switch, and each further attempt would wait twice as long. Once
//! no cable leads to a switch, the core does not wait for it. A sweep that has found a change, and
//! a push that delays urgent work, end without the answers of silent nodes.
//!
//! Packet loss explains some silence, measured before the fault: attempts through dead parts look
//! lost, and say nothing about the remaining paths.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rsm_hardware::push::Push;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::{AgentAnswer, Query, Sweep, Withdrawal};
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Completion, Priority, Request};
use rsm_mad::wire::attr::{Attribute, NodeInfo};

use super::requests::Context;
use super::silences::Silences;

/// Attempts of a Set that a node may leave unanswered before a push continues without it, if urgent
/// work waits.
const ATTEMPTS_OF_URGENT_PUSH: u8 = 2;

/// Value of [`ATTEMPTS_OF_URGENT_PUSH`] for a stopped push, whose rest is part of the next
/// difference.
const ATTEMPTS_OF_STOPPED_PUSH: u8 = 1;

/// Time since its last answer for which a node does not count as silent in a push, however often
/// one of its Sets was lost.
const ANSWERS_LATELY: Duration = Duration::from_millis(300);

/// Probability, in permille, below which packet loss does not explain an unanswered query, so that
/// the node is to blame.
const CHANCE_PERMILLE: u32 = 10;

/// How long the loss measured while idle still applies: attempts through dead switches would
/// inflate the present one.
const BEFORE_COUNTS: Duration = Duration::from_secs(1);

/// Nodes that do not answer.
#[derive(Default)]
pub(super) struct Silence {
    losses: Losses,
    /// Time of the last answer of each node to a Set of this push.
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
    /// first plan. Nothing waits for what a standby reads.
    pub(super) awaits_answers: bool,
}

/// Packet loss of the client's attempts, at present and at the core's last rest.
#[derive(Default)]
struct Losses {
    /// Number of timeouts when the core last told the sweep about them.
    timeouts: u64,
    /// Number of timeouts at the last look at a push.
    timeouts_of_push: u64,
    /// Lost attempts in 1000 at the last rest, and its time; `None` before the first.
    at_rest: Option<(u32, Time)>,
    /// Silence of the whole fabric, as far as it is known.
    fabric: FabricSilence,
}

/// Whether single nodes are silent, or the whole fabric.
///
/// ```text
///            an attempt is overdue            its own attempt is overdue, and no node has answered
/// Unheard ───────────────────────▶ Asked ─────────────────────────────────────▶ Everywhere
///    ▲ │ judged                     │                                              │
///    └─┴────────────────────────────┴──────────── any node answers ────────────────┘
///                              judges the silent                excuses all attempts so far
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum FabricSilence {
    /// Every overdue attempt has been judged.
    #[default]
    Unheard,
    /// Attempts are overdue, and the manager's own switch was asked when this many answers had
    /// arrived.
    Asked(u64),
    /// No node has answered since this time, not even the manager's own switch; this many answers
    /// had arrived then.
    Everywhere(Time, u64),
}

/// Time from which silence of the whole fabric counts as silence of its nodes.
const LONGEST_FABRIC_SILENCE: Duration = Duration::from_secs(1);

impl Losses {
    /// Number of successive unanswered attempts that packet loss explains, if it is `permille` of
    /// 1000 now.
    fn explain(&self, permille: u32, now: Time) -> u8 {
        let at_rest = self
            .at_rest
            .filter(|(_, rested)| now.since(*rested) < BEFORE_COUNTS);
        explained_by_losses(at_rest.map_or(permille, |(permille, _)| permille))
    }
}

/// Number of successive unanswered attempts that packet loss explains, if this many of 1000 are
/// lost: more of them are rarer than [`CHANCE_PERMILLE`].
fn explained_by_losses(loss_permille: u32) -> u8 {
    let mut explained = 0;
    let mut chance = loss_permille.min(1000);
    while chance > CHANCE_PERMILLE && explained < ClientConfig::MAX_RETRIES {
        explained += 1;
        chance = chance * loss_permille / 1000;
    }
    explained
}

/// The `unwanted` queries of sweeps that `take` withdraws from the MAD client. A query that is
/// under way twice is returned twice.
fn pick<T>(
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
    /// Forgets the answers to the push before.
    pub(super) fn begin_push(&mut self) {
        self.answered.clear();
    }

    /// Records the end of a request.
    pub(super) fn note(&mut self, completion: &Completion<Context>, now: Time) {
        self.silences.note(completion, now);
        if let (Context::Push(task), Ok(_)) = (completion.context, &completion.outcome) {
            self.answered.insert(task.node(), now);
        }
    }

    /// Tells the `sweep` under way about overdue queries, and withdraws those that it no longer
    /// wants. Returns whether the set of suspected nodes has changed.
    pub(super) fn apply_silence(
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
            self.losses.at_rest = Some((stats.loss_permille, now));
        }
        let explained = self.losses.explain(stats.loss_permille, now);
        let may_ask = has_waited && !situation.is_idle;
        let counts = situation.awaits_answers
            && self.weigh(client, inventory, may_ask, has_waited, explained, now);
        let Some(sweep) = sweep else { return false };
        if counts {
            let pending = client.pending_requests();
            let overdue = pending.filter_map(|(context, attempts)| match *context {
                Context::Sweep(query) if attempts > 0 => Some((query, attempts)),
                _ => None,
            });
            sweep.on_overdue(inventory, overdue, explained);
        }
        withdraw_unwanted(sweep, client, inventory);
        // A query from before the paths changed may become overdue only now. If it is sent again
        // before its silence counts, its node never becomes a suspect.
        let may_be_on_dead_way = counts && !inventory.suspects.is_empty();
        if !sweep.is_outward() && (sweep.take_rerouted() || may_be_on_dead_way) {
            reroute_overdue(sweep, client, inventory);
        }
        sweep.take_suspicion()
    }

    /// Whether overdue attempts count as silence of their nodes now. Until any node has answered
    /// after they became overdue, the whole fabric may be silent. `has_waited` says whether
    /// attempts have become overdue, and `may_ask` whether they have while a stage is under way.
    fn weigh(
        &mut self,
        client: &mut Client<Context>,
        inventory: &Inventory,
        may_ask: bool,
        has_waited: bool,
        explained: u8,
        now: Time,
    ) -> bool {
        let stats = client.stats();
        let heard = stats.answered + stats.busy + stats.late + stats.duplicate;
        match self.losses.fabric {
            FabricSilence::Unheard if may_ask => {
                if !ask_witness(client, inventory) {
                    return true;
                }
                self.losses.fabric = FabricSilence::Asked(heard);
                false
            }
            FabricSilence::Unheard => false,
            FabricSilence::Asked(before) if before == heard => {
                let mut pending = client.pending_requests();
                if pending.any(|(context, attempts)| {
                    matches!(context, Context::Witness) && attempts > explained
                }) {
                    self.losses.fabric = FabricSilence::Everywhere(now, heard);
                }
                false
            }
            FabricSilence::Everywhere(since, before) if before == heard => {
                has_waited && now.since(since) >= LONGEST_FABRIC_SILENCE
            }
            FabricSilence::Asked(_) => {
                self.end_fabric_silence(client);
                true
            }
            FabricSilence::Everywhere(..) => {
                client.excuse(now);
                self.end_fabric_silence(client);
                false
            }
        }
    }

    fn end_fabric_silence(&mut self, client: &mut Client<Context>) {
        self.losses.fabric = FabricSilence::Unheard;
        client.withdraw(|context| matches!(context, Context::Witness));
    }

    /// Makes a `push` continue without silent nodes, because urgent work waits. Returns these
    /// nodes.
    pub(super) fn abandon(
        &mut self,
        push: &mut Push,
        client: &mut Client<Context>,
        inventory: &mut Inventory,
        now: Time,
    ) -> BTreeSet<Guid> {
        if self.losses.fabric != FabricSilence::Unheard {
            return BTreeSet::new();
        }
        let enough = if push.was_stopped() {
            ATTEMPTS_OF_STOPPED_PUSH
        } else {
            ATTEMPTS_OF_URGENT_PUSH
        };
        let explained = self.losses.explain(client.stats().loss_permille, now);
        let enough = enough.saturating_add(explained);
        let timeouts = client.stats().timeouts;
        let had = std::mem::replace(&mut self.losses.timeouts_of_push, timeouts);
        if enough > 1 && had == timeouts {
            // This is called at each answer: requests are examined after a timeout alone.
            return BTreeSet::new();
        }
        // With packet loss, one of a thousand Sets is late at a healthy node as well, which answers
        // its other Sets meanwhile.
        let answers = |node: &Guid| {
            let last = self.answered.get(node);
            last.is_some_and(|&last| now.since(last) < ANSWERS_LATELY)
        };
        let pending = client.pending_requests();
        let silent: BTreeSet<Guid> = pending
            .filter(|&(_, attempts)| attempts >= enough)
            .filter_map(|(context, _)| match context {
                Context::Push(task) => Some(task.node()),
                _ => None,
            })
            .filter(|node| !answers(node))
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
            let unsent = pick(covers, |picks| client.cancel_queued(picks));
            unsent.into_iter().for_each(|query| sweep.postpone(query));
            continue;
        }
        let taken = pick(covers, |picks| client.withdraw(picks));
        for query in taken {
            match withdrawal {
                Withdrawal::Everything | Withdrawal::ForLater(_) => sweep.park(inventory, query),
                Withdrawal::Overdue(_) => sweep.reroute(query),
                _ => sweep.withdrawn(query),
            }
        }
    }
}

/// Sends overdue queries again, by paths that work. A suspect has one unanswered query, by any
/// path.
fn reroute_overdue(sweep: &mut Sweep, client: &mut Client<Context>, inventory: &Inventory) {
    let suspects = &inventory.suspects;
    let overdue: BTreeSet<Query> = client
        .pending_requests()
        .filter_map(|(context, attempts)| match *context {
            Context::Sweep(query) if attempts > 0 => Some(query),
            _ => None,
        })
        .filter(|&query| {
            sweep.may_reroute(query) && !query.node().is_some_and(|guid| suspects.contains(&guid))
        })
        .collect();
    // A query may be under way twice.
    let is_overdue = |query| overdue.contains(&query);
    let taken = pick(is_overdue, |picks| client.withdraw(picks));
    taken.into_iter().for_each(|query| sweep.reroute(query));
}

/// Asks the switch at the manager's port for NodeInfo, or another switch if the manager's is not
/// suitable. Returns whether there is one.
fn ask_witness(client: &mut Client<Context>, inventory: &Inventory) -> bool {
    let Some(witness) = witness(inventory) else {
        return false;
    };
    let Some(node) = inventory.hardware.node(witness) else {
        return false;
    };
    let request = Request {
        priority: Priority::Urgent,
        // The target key differs from the switch's, so that other requests to it do not delay
        // this one.
        ..Request::get(!witness.0, node.path, NodeInfo::ID, 0, Context::Witness)
    };
    client.submit(request).is_ok()
}

fn witness(inventory: &Inventory) -> Option<Guid> {
    let local = inventory.hardware.local?;
    let node = inventory.hardware.node(local.node)?;
    let is_witness = |end: &PortKey| {
        inventory.hardware.is_switch(end.node) && !inventory.suspects.contains(&end.node)
    };
    let beside = match node.is_switch() {
        true => {
            let mut peers = node.external_ports().filter_map(|(_, port)| port.peer);
            peers.find(is_witness)
        }
        false => inventory.hardware.port(local)?.peer.filter(is_witness),
    };
    beside.map(|end| end.node)
}

/// Ends the wait of a `sweep` for outstanding answers, if only silent nodes owe them and other work
/// waits: `urgent` work, or a change that the sweep has found. Returns whether the sweep gave up
/// any query.
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
    let none_is_needed = sweep.can_leave_out(urgent)
        && client
            .pending_requests()
            .all(|(context, _)| is_left_out(context));
    if !none_is_needed {
        return false;
    }
    let queries = pick(|_| true, |picks| client.withdraw(picks));
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
