//! PathRecord: the paths from one port to another.

pub(super) mod between;
mod constraints;
pub(super) mod multi;
pub(super) mod multicast;
mod pairs;
pub(super) mod trace;

use std::ops::Range;
use std::sync::Arc;

use rsm_config::QosLevel;
use rsm_ids::Lid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, PathRecord, Rate, SaStatus, Selector};

pub(crate) use self::constraints::PathConstraints;
use self::pairs::{EndRange, Pairs};
use super::answer::{Body, Wanted};
use super::directory::Directory;
use super::ends::EndIx;
use super::path_qos::{ChosenLevel, SlReason};
use super::query_context::SaQueryContext;

/// Answers Get and GetTable of PathRecord.
///
/// # Errors
/// The status to answer with.
pub(super) fn answer(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    let record: PathRecord = context.record()?;
    let mask = context.header.component_mask();
    let mut constraints = PathConstraints::of(&record, mask)?;
    if mask.contains(PathRecord::DGID) && record.dgid().is_multicast() {
        return multicast::answer(context, &record, mask, &constraints);
    }
    let directory = context.directory;
    let from = end(directory, mask, SOURCE, record.sgid(), record.slid())?;
    let dgid = mask.contains(PathRecord::DGID).then(|| record.dgid());
    let router = dgid.and_then(|dgid| directory.router_to(dgid));
    // The path to another subnet is the path to the router, with the requested GID and hop limit.
    let local = router.map_or(record.dgid(), |router| directory.gid(router));
    let to = end(directory, mask, DESTINATION, local, record.dlid())?;
    if router.is_some() && !mask.contains(PathRecord::HOP_LIMIT) {
        constraints.hop_limit = u8::MAX;
    }
    let is_get = context.header.mad().method() == Method::GET;
    if is_get && !(from.is_given && to.is_given) {
        return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
    }
    let finder = Finder {
        echoed_gids: (from.alias, dgid.filter(|_| router.is_some()).or(to.alias)),
        directory: directory.clone(),
        viewer: (!context.trust.is_trusted()).then_some(context.requester),
        constraints,
    };
    // A Get returns one path (IBA 15.2.5.16), however many exist.
    let most = if is_get {
        Some(1)
    } else {
        constraints.numb_path
    };
    let pairs = Pairs::new(finder, from.ends, to.ends, most.map(usize::from));
    if is_get {
        return Body::search(pairs, Wanted::First);
    }
    Ok(Body::table(pairs))
}

/// The components that name one end of a path.
struct EndComponents {
    gid: ComponentMask,
    lid: ComponentMask,
}

const SOURCE: EndComponents = EndComponents {
    gid: PathRecord::SGID,
    lid: PathRecord::SLID,
};

const DESTINATION: EndComponents = EndComponents {
    gid: PathRecord::DGID,
    lid: PathRecord::DLID,
};

/// The ports that may be at one end of a path.
struct Candidates {
    ends: EndRange,
    /// Whether the query names a port.
    is_given: bool,
    /// GID in the query, if it contains an alias GUID.
    alias: Option<Gid>,
}

/// The ports that match GID and LID of a query.
///
/// # Errors
/// ERR_REQ_INVALID_GID for a GID that no port has, ERR_REQ_INVALID for a LID of another port.
fn end(
    directory: &Directory,
    mask: ComponentMask,
    components: EndComponents,
    gid: Gid,
    lid: Lid,
) -> Result<Candidates, Status> {
    let by_gid = mask
        .contains(components.gid)
        .then(|| directory.by_gid(gid).ok_or(SaStatus::REQ_INVALID_GID))
        .transpose()?;
    let by_lid = mask.contains(components.lid).then(|| directory.by_lid(lid));
    let single = |EndIx(ix): EndIx| -> Range<u32> { ix..ix + 1 };
    let (range, lid) = match (by_gid, by_lid) {
        // A virtual port may share the LID of another end.
        (Some(gid), Some(_)) if directory.end(gid).vport.is_some() => {
            if directory.end(gid).lid != lid {
                return Err(SaStatus::REQ_INVALID);
            }
            (single(gid), Some(lid))
        }
        (Some(gid), Some(lid)) if Some(gid) != lid => return Err(SaStatus::REQ_INVALID),
        (Some(gid), _) => (single(gid), by_lid.map(|_| lid)),
        (None, Some(Some(holder))) => (single(holder), Some(lid)),
        (None, Some(None)) => (0..0, None),
        (None, None) => (0..directory.len() as u32, None),
    };
    Ok(Candidates {
        ends: EndRange { range, lid },
        is_given: by_gid.is_some() || by_lid.is_some(),
        alias: by_gid
            .filter(|&end| directory.end(end).guid != gid.guid())
            .map(|_| gid),
    })
}

/// Minimum HopLimit with which hosts send global route headers.
const GRH_HOP_LIMIT: u8 = 2;

/// Reason why there is no path between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoPath {
    /// The forwarding tables do not lead to this LID.
    #[error("the forwarding tables do not lead to LID {0}")]
    NotReached(Lid),
    /// The ports share no partition, or share one only as limited members.
    #[error(
        "the two ports cannot communicate in any partition: both must be members, and at least one a full member"
    )]
    NoPartition,
    /// The ports cannot communicate in the requested partition.
    #[error("the two ports cannot communicate in partition {:#06x}: both must be members, and at least one a full member", .0.0)]
    NotInPartition(PKey),
    /// No path has the requested MTU.
    #[error("no path has the requested MTU")]
    Mtu,
    /// No path has the requested rate.
    #[error("no path has the requested rate")]
    Rate,
    /// No path has the requested packet life time.
    #[error("no path has the requested packet life time")]
    PacketLifeTime,
    /// The routes require another service level than the requested level.
    #[error("the routes require service level {needed}, but the query asks for {wanted}")]
    ServiceLevel {
        /// Service level that keeps the routes free of credit loops.
        needed: u8,
        /// Requested service level.
        wanted: u8,
    },
    /// The policy assigns another service level to the query than the requested level.
    #[error("the QoS policy requires service level {assigned}, but the query asks for {wanted}")]
    PolicyLevel {
        /// Service level of the policy's level.
        assigned: u8,
        /// Requested service level.
        wanted: u8,
    },
    /// The policy's level for the query applies only to other partitions.
    #[error("the QoS policy permits this query only in other partitions")]
    PolicyPartition,
    /// A port on the path drops packets with this service level.
    #[error(
        "ports on the path drop packets on service level {0}: section `qos` maps it to VL 15 there"
    )]
    Dropped(u8),
    /// The ports on the path together drop every service level.
    #[error(
        "ports on the path drop packets on every service level: section `qos` maps each to VL 15 at one of them"
    )]
    AllDropped,
}

/// Finds paths that satisfy a query.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    pub(super) directory: Arc<Directory>,
    /// Requester, which sees only ports in its partitions; `None` for a trusted requester, which
    /// sees all ports.
    pub(super) viewer: Option<EndIx>,
    pub(super) constraints: PathConstraints,
    /// Requested GIDs that the answer repeats: GIDs with an alias GUID, and a destination GID in
    /// another subnet. `None` if the answer has the port's own GID.
    pub(super) echoed_gids: (Option<Gid>, Option<Gid>),
}

impl Finder {
    /// Whether the two ports can be the ends of a path that the viewer may see.
    pub(super) fn may_pair(&self, from: EndIx, to: EndIx) -> bool {
        let is_visible = |end| {
            self.viewer
                .is_none_or(|viewer| self.directory.may_see(viewer, end))
        };
        is_visible(from) && is_visible(to)
    }

    /// The path between one LID of each of two ports.
    ///
    /// # Errors
    /// The reason why no path satisfies the query.
    pub(super) fn path(
        &self,
        (from, slid): (EndIx, Lid),
        (to, dlid): (EndIx, Lid),
        preference: u8,
    ) -> Result<PathRecord, NoPath> {
        let directory = &self.directory;
        let constraints = &self.constraints;
        let forth = directory.minima.between(from, to, dlid);
        let forth = forth.ok_or(NoPath::NotReached(dlid))?;
        // The limits of a reversible path apply in both directions.
        let back = directory.minima.between(to, from, slid);
        let limits = back.map_or(forth, |back| forth.meet(back));
        let chosen = self.chosen(from, to);
        let level = chosen.map(|chosen| chosen.level);
        if constraints.reversible && back.is_none() {
            return Err(NoPath::NotReached(slid));
        }
        let life_time = if from == to {
            // A packet to the port itself takes no time (IBA 15.2.5.16).
            0
        } else {
            let subnet = directory.plan.policy.ports.links.subnet_timeout;
            level.and_then(|level| level.packet_life).unwrap_or(subnet)
        };
        let p_key = self.p_key(from, to, level)?;
        let (sl, _) = self.level(from, to, p_key, chosen)?;
        let mtu = level.and_then(|level| level.mtu);
        let mtu = mtu.map_or(limits.mtu(), |most| lesser(limits.mtu(), most, Mtu::code));
        let rate = level.and_then(|level| level.rate);
        let rate = rate.map_or(limits.rate(), |most| {
            lesser(limits.rate(), most, Rate::tenth_gbps)
        });
        let mut path = PathRecord::default();
        let (source, destination) = self.echoed_gids;
        path.set_sgid(source.unwrap_or_else(|| directory.gid(from)))
            .set_dgid(destination.unwrap_or_else(|| directory.gid(to)))
            .set_slid(slid)
            .set_dlid(dlid)
            .set_service_id(constraints.service_id.unwrap_or(0))
            .set_qos_class(constraints.qos_class.unwrap_or(0))
            .set_raw_traffic(constraints.raw_traffic)
            .set_flow_label(constraints.flow_label)
            .set_hop_limit(self.hop_limit(from, to))
            .set_t_class(constraints.t_class)
            .set_reversible(back.is_some())
            .set_p_key(p_key)
            .set_sl(sl)
            .set_mtu_selector(Selector::Exactly)
            .set_mtu(constraints.mtu(mtu).ok_or(NoPath::Mtu)?)
            .set_rate_selector(Selector::Exactly)
            .set_rate(constraints.rate(rate).ok_or(NoPath::Rate)?)
            .set_packet_life_time_selector(Selector::Exactly)
            .set_packet_life_time(
                constraints
                    .packet_life_time(life_time)
                    .ok_or(NoPath::PacketLifeTime)?,
            )
            .set_preference(preference);
        Ok(path)
    }

    /// HopLimit of a path: the requested value, or, if an end is distinguished only by its GID, a
    /// value that makes hosts send global route headers.
    fn hop_limit(&self, from: EndIx, to: EndIx) -> u8 {
        let needs_grh = [from, to]
            .into_iter()
            .any(|end| self.directory.needs_grh(end));
        match self.constraints.hop_limit {
            0 if needs_grh => GRH_HOP_LIMIT,
            requested => requested,
        }
    }

    /// The level that the policy assigns to the query; `None` if there is no policy.
    fn chosen(&self, from: EndIx, to: EndIx) -> Option<ChosenLevel<'_>> {
        let criteria = self.constraints.criteria();
        self.directory.level_of(from, to, &criteria)
    }

    /// The service level of a path in the partition `p_key`, and the reason. In descending
    /// precedence: the level that the routes require, the requested level, the policy's level, and
    /// the level of the partition. Raw packets have no partition, and get the lowest SL that no
    /// port drops.
    ///
    /// # Errors
    /// The reason why no service level satisfies the query.
    fn level(
        &self,
        from: EndIx,
        to: EndIx,
        p_key: PKey,
        chosen: Option<ChosenLevel<'_>>,
    ) -> Result<(u8, SlReason), NoPath> {
        let directory = &self.directory;
        let dropped = directory.dropped(from, to);
        let needed = directory.minima.level(from, to);
        let (sl, reason) = match (needed, self.constraints.sl, chosen) {
            (Some(needed), Some(wanted), _) if needed != wanted => {
                return Err(NoPath::ServiceLevel { needed, wanted });
            }
            (Some(needed), ..) => (needed, SlReason::Engine),
            (None, Some(wanted), Some(chosen)) if chosen.level.sl != wanted => {
                let assigned = chosen.level.sl;
                return Err(NoPath::PolicyLevel { assigned, wanted });
            }
            (None, Some(wanted), _) => (wanted, SlReason::Requested),
            (None, None, Some(chosen)) => (chosen.level.sl, chosen.reason()),
            (None, None, None) if p_key == PKey::INVALID => {
                if dropped == u16::MAX {
                    return Err(NoPath::AllDropped);
                }
                (dropped.trailing_ones() as u8, SlReason::Lowest)
            }
            (None, None, None) => (directory.service_level(p_key), SlReason::Partition(p_key)),
        };
        // A path record has 4 bits for the SL, so `sl` is at most 15.
        match dropped >> sl & 1 {
            0 => Ok((sl, reason)),
            _ => Err(NoPath::Dropped(sl)),
        }
    }

    /// The partition of the path: the requested partition, or the first partition that contains
    /// both ends and that the policy's level permits. Raw packets have no partition.
    ///
    /// # Errors
    /// The reason why there is no such partition.
    fn p_key(&self, from: EndIx, to: EndIx, level: Option<&QosLevel>) -> Result<PKey, NoPath> {
        let mut common = self.directory.common_p_keys(from, to);
        let permitted = level
            .map(|level| &level.p_keys)
            .filter(|keys| !keys.is_empty());
        let permits =
            |key: PKey| permitted.is_none_or(|permitted| permitted.contains(key.base().into()));
        match self.constraints.p_key {
            _ if self.constraints.raw_traffic => common
                .next()
                .map(|_| PKey::INVALID)
                .ok_or(NoPath::NoPartition),
            None => {
                let first = common.next().ok_or(NoPath::NoPartition)?;
                let mut all = std::iter::once(first).chain(common);
                all.find(|&key| permits(key)).ok_or(NoPath::PolicyPartition)
            }
            Some(wanted) if common.any(|key| key.base() == wanted.base()) => {
                match permits(wanted) {
                    true => Ok(wanted),
                    false => Err(NoPath::PolicyPartition),
                }
            }
            Some(wanted) => Err(NoPath::NotInPartition(wanted)),
        }
    }
}

/// The value with the lower key; `one` if the keys are equal.
fn lesser<T: Copy, K: Ord>(one: T, other: T, key: impl Fn(T) -> K) -> T {
    if key(other) < key(one) { other } else { one }
}
