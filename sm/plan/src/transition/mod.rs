//! The transition from the held tables to the planned tables, by interim tables.
//!
//! If held and planned tables follow one up*/down* order of the switches, the stages follow that
//! order (`rsm_routing::verify`): the order of the planned routes, or the order in force if the
//! planned routes follow it as well, as they do when only detours are removed. The first stage then
//! only removes the entries in force that make an illegal turn. If the planned routes follow no
//! order, and some mixture of old and new entries closes a loop, changing entries discard first. In
//! both cases LID-routed Sets use only entries that stay.
//!
//! Hosts continue to send to a host that is gone. A transition is therefore proved for the entries
//! of every LID in force, even of LIDs without a destination. If routes use several VLs, packets to
//! such LIDs have no service level that a proof could follow, so the first stage removes their
//! entries.
//!
//! Tables of a switch in use lead to a new link only from the second stage on, and the link becomes
//! Active before that stage. A switch with only new links gets all of its tables first. On a cold
//! start every switch has only new links, and no link waits.

pub(crate) mod mute;

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, Port};
use rsm_routing::lanes::Lanes;
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Difference, Lft, NO_PATH, Tables};
use rsm_routing::topology::{Destination, PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{IdleLinks, Stages, mixture_is_sound, stages, stages_along_opening};

use self::mute::AroundMute;
use crate::links::LinkPorts;

/// The known part of the forwarding table that one switch holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldTable {
    /// The switch.
    pub switch: Guid,
    /// Entries by LID; 255 if unknown.
    pub entries: Lft,
    /// Whether every entry up to LinearFDBTop is known, except the entries in `sent`.
    pub complete: bool,
    /// Entries of unanswered Sets, which the switch may hold in place of the entries in `entries`.
    pub sent: Vec<(Lid, u8)>,
    /// Whether the switch does not answer at present.
    pub is_suspect: bool,
}

/// The held tables in the order of `topology`; empty for switches with unknown tables.
pub(super) fn tables(topology: &Topology, held: &[HeldTable]) -> Tables {
    let mut lfts = vec![Lft::default(); topology.switch_count()];
    for switch in held {
        if let Some(index) = topology.switch_by_guid(switch.switch) {
            lfts[index.index()] = switch.entries.clone();
        }
    }
    Tables { lfts }
}

/// Relation of the VLs of the planned tables to the VLs of the tables in force.
pub(super) enum LaneRelation<'a> {
    /// The planned tables need only one VL.
    OneLane,
    /// Both tables need the same service levels and VLs.
    SameLanes(&'a Lanes),
    /// The tables in force may need other VLs.
    OtherLanes,
}

impl<'a> LaneRelation<'a> {
    /// Compares `lanes` on `topology` with the lanes in force on an earlier switch graph.
    pub(super) fn of(
        lanes: &'a Lanes,
        topology: &Topology,
        in_force: Option<(&Lanes, &Topology)>,
    ) -> LaneRelation<'a> {
        let agrees = |(before, earlier)| lanes.agree_with(topology, before, earlier);
        if lanes.is_single() {
            LaneRelation::OneLane
        } else if in_force.is_some_and(agrees) {
            LaneRelation::SameLanes(lanes)
        } else {
            LaneRelation::OtherLanes
        }
    }
}

/// The stages by which the planned tables come into force.
///
/// All switches hold the tables of one stage before a push writes any table of the next stage, so
/// that no mixture of tables closes a loop or discards packets that would arrive. Clones share all
/// large parts.
#[derive(Clone, Default, Debug)]
pub struct Transition {
    /// The interim tables in order; empty if every mixture of old and planned tables is safe.
    pub interim: Arc<[Tables]>,
    /// Ports at both ends of the links that become Active after `cuts` + 1 stages of interim
    /// tables, and before the next stage. Every other link becomes Active once the switches at its
    /// ends hold the planned tables.
    pub awaited: Arc<BTreeSet<PortKey>>,
    /// Switches to which only awaited links lead. They hold the planned tables from the first stage
    /// on, before their links become Active.
    pub dark: Arc<BTreeSet<Guid>>,
    /// Number of stages, 0 or 1, that only remove entries from held tables. No awaited link becomes
    /// Active before these stages end.
    pub cuts: usize,
    /// Whether links of `dark` switches become Active only after all switches hold the stages of
    /// `awaited`. Otherwise they may become Active as soon as the dark switches at their ends hold
    /// their tables.
    pub dark_last: bool,
    /// Whether interim tables discard packets, including LID-routed SMPs, that both old and planned
    /// tables forward.
    pub discards: bool,
    /// Switches that do not answer. A push writes to mute switches, if at all, only after all other
    /// switches hold the last interim tables, which are then the final tables of those switches.
    pub mute: Arc<BTreeSet<Guid>>,
    /// Mute switches that a push writes to, because only a Set of their tables is unanswered.
    pub retried: Arc<BTreeSet<Guid>>,
    /// Tables of the other switches until the mute switches hold their planned tables; `None` if
    /// there are no mute switches.
    pub tables_beside_mute: Option<Arc<Tables>>,
}

impl Transition {
    /// A transition in which every changing entry discards packets before it has its planned value.
    pub(super) fn discarding(old: &Tables, planned: &Tables) -> Transition {
        Transition {
            interim: Arc::new([discarding(old, planned)]),
            discards: true,
            ..Transition::default()
        }
    }

    /// Prepends a stage that only removes entries; returns the transition unchanged if `cut` is
    /// `None`.
    fn after(self, cut: Option<Tables>) -> Transition {
        Transition {
            cuts: self.cuts + usize::from(cut.is_some()),
            interim: cut
                .into_iter()
                .chain(self.interim.iter().cloned())
                .collect(),
            ..self
        }
    }

    /// A transition with all but the last of `tables` as interim tables, which may discard packets.
    fn through(mut tables: Vec<Tables>) -> Transition {
        tables.pop();
        Transition {
            discards: !tables.is_empty(),
            interim: tables.into(),
            ..Transition::default()
        }
    }
}

/// A transition, and whether every mixture of its tables takes only legal turns.
pub(super) struct CheckedTransition {
    pub(super) transition: Transition,
    pub(super) follows: bool,
    /// The reason why all entries were examined; `None` if only changing entries were examined.
    pub(super) whole: Option<&'static str>,
}

/// Reason for examining all entries if routes need more than one VL.
const LANES: &str = "the routes need several VLs";

/// Reason for examining all entries if some switches are mute.
const MUTE: &str = "switches do not answer, and no order of the switches keeps their entries apart";

/// Reason for examining all entries if no order leads from the tables in force to the planned
/// tables.
const NO_ORDER: &str = "the tables in force and the planned tables follow no common order";

impl CheckedTransition {
    /// A transition of which only changing entries were examined.
    fn by(transition: Transition) -> CheckedTransition {
        CheckedTransition {
            transition,
            follows: false,
            whole: None,
        }
    }

    /// A transition of which all entries were examined, for the reason `why`.
    fn whole(transition: Transition, why: &'static str) -> CheckedTransition {
        CheckedTransition {
            whole: Some(why),
            ..CheckedTransition::by(transition)
        }
    }
}

/// The orders that interim tables may follow; the planned tables follow each of them.
#[derive(Default)]
pub(super) struct Orders<'a> {
    /// The order of the planned tables.
    pub(super) own: Option<&'a Orientation>,
    /// Whether `own` is an interim order that the tables in force do not follow. Stages along such
    /// an order would remove more entries than stages without a given order. It is used only if a
    /// switch is mute, because stages without a given order do not handle mute switches.
    pub(super) is_own_new: bool,
    /// The order of the tables in force, if the planned tables follow it as well, as they do when
    /// only detours are removed.
    pub(super) before: Option<Orientation>,
}

/// The tables in force, the planned tables, and the links that these tables may use.
pub(super) struct TransitionJob<'a> {
    pub(super) fabric: &'a Fabric,
    /// The switch graph with the links that routes may use.
    pub(super) routes: &'a Topology,
    /// The switch graph with every link that carries packets, including links that routes avoid.
    pub(super) topology: &'a Topology,
    pub(super) held: &'a [HeldTable],
    /// The tables of `held`, in the order of `topology`.
    pub(super) old: &'a Tables,
    pub(super) planned: &'a Tables,
    /// The orders that interim tables may follow.
    pub(super) orders: Orders<'a>,
    pub(super) lanes: LaneRelation<'a>,
    pub(super) link_ports: &'a LinkPorts,
}

/// Stages along an order of the switches, and the mute switches that the stages leave out.
type OrderedStages = (Stages, Option<AroundMute>);

impl TransitionJob<'_> {
    /// Finds the transition from the held tables to the planned tables.
    ///
    /// If old entries lead beyond the topology, no mixture of tables can be proved. Every changed
    /// entry then discards first, which only removes dependencies.
    pub(super) fn plan(&self) -> CheckedTransition {
        let difference = Difference::between(self.old, self.planned);
        if difference.is_empty() {
            return CheckedTransition::by(Transition::default());
        }
        if self.is_unread() || leads_beyond_topology(self.fabric, self.topology, &difference) {
            return CheckedTransition::by(self.discarding());
        }
        let idle = self.link_ports.idle(self.topology);
        if !matches!(self.lanes, LaneRelation::OneLane) {
            return CheckedTransition::whole(self.on_several_vls(&idle), LANES);
        }
        let (along, follows) = self.along_an_order(&difference, &idle);
        if mute::has_mute_switch(self.topology, self.held)
            && !along.as_ref().is_some_and(|along| self.is_safe(along))
        {
            return CheckedTransition::whole(self.beside_mute(), MUTE);
        }
        match along {
            Some(along) => self.by_stages(along, follows, &idle),
            None => CheckedTransition::whole(self.in_any_order(&idle), NO_ORDER),
        }
    }

    /// Whether entries of a switch in the topology are not known.
    fn is_unread(&self) -> bool {
        let mut incomplete = self.held.iter().filter(|held| !held.complete);
        incomplete.any(|held| self.topology.switch_by_guid(held.switch).is_some())
    }

    /// The transition in which every changed entry discards first.
    fn discarding(&self) -> Transition {
        Transition::discarding(self.old, self.planned)
    }

    /// The transition if the planned tables need several VLs. Entries need not discard first if the
    /// tables in force need the same VLs and every mixture is sound on these VLs.
    fn on_several_vls(&self, idle: &IdleLinks) -> Transition {
        // The proof of the mixture does not include entries of unanswered Sets.
        match self.lanes {
            LaneRelation::SameLanes(lanes)
                if self.held.iter().all(|held| held.sent.is_empty())
                    && mixture_is_sound(self.topology, self.old, self.planned, lanes) =>
            {
                self.opening(idle)
                    .after(without_absent(self.topology, self.old))
            }
            _ => self.discarding(),
        }
    }

    /// Finds stages along the planned tables' own order, or along the order in force if only the
    /// own order removes entries in force. The second value says whether the stages follow the own
    /// order.
    fn along_an_order(
        &self,
        difference: &Difference<'_>,
        idle: &IdleLinks,
    ) -> (Option<OrderedStages>, bool) {
        let along = |orientation: &Orientation| self.along(orientation, difference, idle);
        let orders = &self.orders;
        let own = orders
            .own
            .filter(|_| !orders.is_own_new || mute::has_mute_switch(self.topology, self.held))
            .and_then(along);
        let own_cuts = own.as_ref().is_none_or(|(stages, _)| stages.has_cut);
        let before = orders.before.as_ref().filter(|_| own_cuts).and_then(along);
        match before.filter(|(stages, _)| !stages.has_cut) {
            Some(before) => (Some(before), false),
            None => (own, true),
        }
    }

    /// Finds stages along one order; `None` if the tables do not follow that order.
    fn along(
        &self,
        orientation: &Orientation,
        difference: &Difference<'_>,
        idle: &IdleLinks,
    ) -> Option<OrderedStages> {
        let (topology, held) = (self.topology, self.held);
        let is_above = |high, low| orientation.is_above(high, low);
        let around = mute::around(topology, is_above, held, (self.old, self.planned));
        let around_mute = around
            .as_ref()
            .map(|around| Difference::between(self.old, &around.reached));
        let difference = around_mute.as_ref().unwrap_or(difference);
        let fixed = mute::fixed(topology, held);
        let stages = stages_along_opening(topology, is_above, idle, &fixed, difference)?;
        Some((stages, around))
    }

    /// Whether adjacent mute switches cannot close a credit loop together with these stages.
    fn is_safe(&self, (stages, around): &OrderedStages) -> bool {
        let around = around.as_ref();
        let beside = around.filter(|_| mute::are_neighbours(self.topology, self.held));
        beside.is_none_or(|around| {
            let tables = (self.old, self.planned);
            mute::is_safe_beside(self.topology, self.held, around, tables, &stages.tables)
        })
    }

    /// The transition by stages along an order; `follows` says whether the order is the planned
    /// tables' own.
    fn by_stages(
        &self,
        (mut stages, around): OrderedStages,
        follows: bool,
        idle: &IdleLinks,
    ) -> CheckedTransition {
        if around.is_none() {
            stages.tables.pop();
        }
        let around = around.unwrap_or_default();
        let tables_beside_mute = around.has_cut.then(|| Arc::new(around.reached));
        let (awaited, dark) = if stages.links_first {
            self.awaited_and_dark(idle)
        } else {
            Default::default()
        };
        CheckedTransition {
            transition: Transition {
                interim: stages.tables.into(),
                awaited,
                dark,
                cuts: usize::from(stages.has_cut),
                dark_last: stages.dark_last,
                discards: stages.has_cut || around.has_cut,
                mute: Arc::new(around.mute),
                retried: Arc::new(around.retried),
                tables_beside_mute,
            },
            follows: follows && !stages.has_cut,
            whole: None,
        }
    }

    /// The transition of tables that follow no common order.
    fn in_any_order(&self, idle: &IdleLinks) -> Transition {
        let stages = stages(self.topology, self.old, self.planned);
        match stages.len() {
            1 => self.opening(idle),
            _ => Transition::through(stages),
        }
    }

    /// The transition in which every changed entry first discards, which only removes dependencies.
    /// Afterwards, all switches except mute switches get the entries that close no credit loop with
    /// the entries of mute switches.
    fn beside_mute(&self) -> Transition {
        let tables = (self.old, self.planned);
        let Some(around) = mute::beside(self.topology, self.held, tables) else {
            // The push stays in its first stage until the mute switches answer.
            return self.discarding();
        };
        let first = discarding(self.old, &around.reached);
        Transition {
            interim: Arc::new([first, around.reached.clone()]),
            cuts: 1,
            discards: true,
            mute: Arc::new(around.mute),
            retried: Arc::new(around.retried),
            tables_beside_mute: Some(Arc::new(around.reached)),
            ..Transition::default()
        }
    }

    /// The transition by one stage: the planned tables without entries to idle links. Every mixture
    /// of old and planned tables is free of loops.
    fn opening(&self, idle: &IdleLinks) -> Transition {
        let (awaited, dark) = self.awaited_and_dark(idle);
        let interim = idle.before_opening(self.old, self.planned);
        Transition {
            interim: interim.into_iter().collect(),
            awaited,
            dark,
            cuts: 0,
            ..Transition::default()
        }
    }

    /// The ports at idle links that routes may use, and the dark switches.
    fn awaited_and_dark(&self, idle: &IdleLinks) -> (Arc<BTreeSet<PortKey>>, Arc<BTreeSet<Guid>>) {
        let guid = |switch: SwitchIdx| self.topology.switch(switch).guid;
        let ports = idle
            .ports()
            .filter(|&(switch, port)| self.routes.peer(switch, port).is_some())
            .map(|(switch, port)| PortKey::new(guid(switch), port));
        (
            Arc::new(ports.collect()),
            Arc::new(idle.dark().map(guid).collect()),
        )
    }
}

/// The tables in force without the entries to LIDs of absent ports: packets to these LIDs have no
/// service level that a proof over VLs could follow. `None` if there is no such entry.
fn without_absent(topology: &Topology, old: &Tables) -> Option<Tables> {
    let lids = topology.destinations().iter().flat_map(Destination::lids);
    let present: BTreeSet<Lid> = lids.collect();
    let mut cut = old.clone();
    let mut has_cut = false;
    for lft in &mut cut.lfts {
        let held = (1..=lft.top().map_or(0, |top| top.0)).map(Lid);
        let absent: Vec<Lid> = held
            .filter(|lid| lft.entry(*lid) != NO_PATH && !present.contains(lid))
            .collect();
        has_cut |= !absent.is_empty();
        for lid in absent {
            lft.set_entry(lid, NO_PATH);
        }
    }
    has_cut.then_some(cut)
}

/// Whether a changed entry leads through a port that may lead to a switch outside of `topology`.
fn leads_beyond_topology(
    fabric: &Fabric,
    topology: &Topology,
    difference: &Difference<'_>,
) -> bool {
    let leads_beyond_topology = |switch: SwitchIdx| {
        let mut entries = difference.entries(switch).peekable();
        if entries.peek().is_none() {
            return false;
        }
        // Hardly any switch has such a port, so that entries of few switches are examined.
        let open = open_ports(fabric, topology, switch);
        let is_open = |entry: u8| open.contains(&entry);
        !open.is_empty() && entries.any(|entry| is_open(entry.before) || is_open(entry.after))
    };
    topology.par_indices().any(leads_beyond_topology)
}

/// The ports of a switch that may lead to a switch outside of `topology`.
fn open_ports(fabric: &Fabric, topology: &Topology, switch: SwitchIdx) -> Vec<u8> {
    let Some(node) = fabric.node_of(topology.switch(switch).guid) else {
        return Vec::new();
    };
    let is_open = |number: u8| {
        // Most ports lead to a link or host, so the cheaper test comes first.
        let port = node.ports.get(usize::from(number));
        topology.port_use(switch, PortNum(number)) == PortUse::Unused
            && port.is_some_and(|port| may_lead_to_switch(fabric, port))
    };
    // A switch has fewer than 255 ports.
    let last = node.ports.len().min(usize::from(NO_PATH)) as u8;
    (1..last).filter(|&number| is_open(number)).collect()
}

/// Whether the link of a port may be up and lead to a switch.
fn may_lead_to_switch(fabric: &Fabric, port: &Port) -> bool {
    let may_be_up = port.up || port.info.is_none();
    let host = port
        .peer
        .and_then(|peer| fabric.node_of(peer.node))
        .is_some_and(|node| node.kind() != NodeType::Switch);
    may_be_up && !host
}

/// `planned` without the entries that differ from `old`.
fn discarding(old: &Tables, planned: &Tables) -> Tables {
    let mut discarding = planned.clone();
    for (lft, (old, planned)) in discarding
        .lfts
        .iter_mut()
        .zip(old.lfts.iter().zip(&planned.lfts))
    {
        for lid in old.differing(planned) {
            lft.set_entry(lid, NO_PATH);
        }
    }
    discarding
}
