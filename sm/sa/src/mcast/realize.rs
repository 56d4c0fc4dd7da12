//! MTU, rate and packet life time: the choice for a new group, and the check whether an existing
//! group satisfies a request.

use rsm_mad::wire::attr::Mtu;
use rsm_mad::wire::sa::{ComponentMask, McMemberRecord, Rate, Selector};

use super::{MemberPort, Parameters};

/// MTUs in the order of their codes, smallest first.
const MTUS: [Mtu; 5] = [
    Mtu::Bytes256,
    Mtu::Bytes512,
    Mtu::Bytes1024,
    Mtu::Bytes2048,
    Mtu::Bytes4096,
];

/// A value in a request, with its selector. Both components must be present; otherwise there is no
/// constraint.
struct Constraint<T> {
    selector: Selector,
    value: T,
}

/// The constraint, if `mask` contains both of its `components`.
fn constraint<T>(
    mask: ComponentMask,
    components: ComponentMask,
    selector: Selector,
    value: T,
) -> Option<Constraint<T>> {
    mask.contains(components)
        .then_some(Constraint { selector, value })
}

fn mtu_constraint(record: &McMemberRecord, mask: ComponentMask) -> Option<Constraint<Mtu>> {
    let components = McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
    constraint(mask, components, record.mtu_selector(), record.mtu())
}

fn rate_constraint(record: &McMemberRecord, mask: ComponentMask) -> Option<Constraint<Rate>> {
    let components = McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE;
    constraint(mask, components, record.rate_selector(), record.rate())
}

fn life_time_constraint(record: &McMemberRecord, mask: ComponentMask) -> Option<Constraint<u8>> {
    let components = McMemberRecord::PACKET_LIFE_TIME_SELECTOR | McMemberRecord::PACKET_LIFE_TIME;
    let value = record.packet_life_time();
    constraint(mask, components, record.packet_life_time_selector(), value)
}

/// Whether MTU and rate in a request, if present, are values that IBA defines.
pub(crate) fn is_meaningful(record: &McMemberRecord, mask: ComponentMask) -> bool {
    let mtu = mtu_constraint(record, mask);
    let rate = rate_constraint(record, mask);
    mtu.is_none_or(|constraint| {
        constraint.selector == Selector::Extreme || MTUS.contains(&constraint.value)
    }) && rate.is_none_or(|constraint| {
        constraint.selector == Selector::Extreme || constraint.value.tenth_gbps().is_some()
    })
}

/// The MTU of a new group: the highest MTU that the request accepts and that `port`, the first
/// member, can carry. `None` if there is no such MTU.
pub(super) fn mtu(
    record: &McMemberRecord,
    mask: ComponentMask,
    port: &MemberPort<'_>,
) -> Option<Mtu> {
    let wanted = mtu_constraint(record, mask);
    let fits = |mtu: &Mtu| {
        mtu.code() <= port.mtu.code()
            && wanted.as_ref().is_none_or(|constraint| {
                constraint
                    .selector
                    .accepts(mtu.code(), constraint.value.code())
            })
    };
    MTUS.into_iter().rev().find(fits)
}

/// The rate of a new group: the highest rate that the request accepts and that `port`, the first
/// member, can carry. `None` if there is no such rate.
pub(super) fn rate(
    record: &McMemberRecord,
    mask: ComponentMask,
    port: &MemberPort<'_>,
) -> Option<Rate> {
    let wanted = rate_constraint(record, mask);
    let port_rate = port.rate.tenth_gbps()?;
    let fits = |rate: &Rate| {
        let value = rate.tenth_gbps();
        value.is_some_and(|value| value <= port_rate)
            && wanted.as_ref().is_none_or(|constraint| {
                constraint
                    .selector
                    .accepts(value, constraint.value.tenth_gbps())
            })
    };
    let is_requested = |rate: &Rate| {
        // If a rate has two codes, the code of the request is used.
        wanted
            .as_ref()
            .is_some_and(|constraint| constraint.value == *rate)
    };
    let best = Rate::all().rev().find(fits)?;
    let same = Rate::all().filter(|rate| rate.tenth_gbps() == best.tenth_gbps());
    Some(same.into_iter().find(is_requested).unwrap_or(best))
}

/// The packet life time of a new group: `default`, or the nearest value that the request accepts;
/// `None` if the request accepts no value.
pub(super) fn packet_life_time(
    record: &McMemberRecord,
    mask: ComponentMask,
    default: u8,
) -> Option<u8> {
    /// Largest value of six bits.
    const LONGEST: u8 = 63;
    let Some(constraint) = life_time_constraint(record, mask) else {
        return Some(default);
    };
    match constraint.selector {
        Selector::Exactly => Some(constraint.value),
        Selector::GreaterThan if constraint.value == LONGEST => None,
        Selector::GreaterThan => Some(default.max(constraint.value + 1)),
        Selector::LessThan => constraint
            .value
            .checked_sub(1)
            .map(|most| default.min(most)),
        Selector::Extreme | Selector::Unknown(_) => Some(default),
    }
}

/// The first of a group's MTU, rate and packet life time that does not satisfy a request: its name,
/// the code in the request, and the code of the group. `None` if all three satisfy the request.
pub(super) fn mismatch(
    record: &McMemberRecord,
    mask: ComponentMask,
    group: &Parameters,
) -> Option<(&'static str, u8, u8)> {
    if let Some(Constraint { selector, value }) = mtu_constraint(record, mask)
        && !selector.accepts(group.mtu.code(), value.code())
    {
        return Some(("MTU", value.code(), group.mtu.code()));
    }
    if let Some(Constraint { selector, value }) = rate_constraint(record, mask)
        && !selector.accepts(group.rate.tenth_gbps(), value.tenth_gbps())
    {
        return Some(("Rate", value.0, group.rate.0));
    }
    let Constraint { selector, value } = life_time_constraint(record, mask)?;
    let actual = group.packet_life_time;
    (!selector.accepts(actual, value)).then_some(("PacketLifeTime", value, actual))
}

/// Whether a port can carry the packets of a group.
pub(super) fn can_carry(port: &MemberPort<'_>, group: &Parameters) -> bool {
    port.mtu.code() >= group.mtu.code() && port.rate.tenth_gbps() >= group.rate.tenth_gbps()
}
