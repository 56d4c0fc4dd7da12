//! Converts changes of the partition overlay from requests to the core's types, and results back.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::model::{
    EmptyPartition, ExistingPartition, MemberName, Membership as Asked, PartitionAction,
    PartitionChange, PartitionChanged, PartitionProtection, PartitionSettings as AskedSettings,
    Selector, TrustMode as AskedTrust, WantedMember, WhenCutOff as AskedWhenCutOff,
};
use rsm_api::resolve::resolve_host_or_part;
use rsm_api::{ControlError, LookupError, PartitionRefusal, v1};
use rsm_config::overlay::{
    Action, Change, ChangeError, Existing, MAX_NAME_BYTES, Member, PartitionSettings, WhenCutOff,
    WhenEmpty,
};
use rsm_config::{Membership, Owned, OwnedKind, Protection, TrustMode};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Mtu, NodeType};
use rsm_mad::wire::sa::Rate;
use rsm_state::ChangeEffect;

use super::api_view::api_key;
use super::published::Published;

/// Converts a request to the core's types, with the GUIDs of the ports that it names.
pub(super) fn change(
    published: &Published,
    asked: PartitionChange,
    now_unix_ms: u64,
) -> Result<Change, ControlError> {
    let PartitionChange {
        p_key,
        action,
        by,
        grant,
        cut_off,
    } = asked;
    let action = match action {
        PartitionAction::Create {
            settings,
            members: wanted,
            existing,
        } => Action::Create {
            settings: self::settings(p_key, &settings)?,
            members: members(published, &wanted)?,
            existing: match existing {
                ExistingPartition::Refuse => Existing::Refuse,
                ExistingPartition::Same => Existing::Same,
                ExistingPartition::Extend => Existing::Extend,
            },
        },
        PartitionAction::Add(wanted) => Action::Add(members(published, &wanted)?),
        PartitionAction::Replace(wanted, empty) => {
            Action::Replace(members(published, &wanted)?, when_empty(empty))
        }
        PartitionAction::Remove(names, empty) => {
            let mut gone = BTreeSet::new();
            for name in &names {
                gone.extend(guids(published, name)?);
            }
            Action::Remove(gone, when_empty(empty))
        }
        PartitionAction::Configure(settings) => {
            Action::Configure(self::settings(p_key, &settings)?)
        }
        PartitionAction::Protect(asked) => Action::Protect(protection(&asked)?),
        PartitionAction::Delete => Action::Delete,
        PartitionAction::LimitDefault(limits) => Action::LimitDefault(limits),
    };
    let by: String = by.chars().take(MAX_NAME_BYTES).collect();
    Ok(Change {
        p_key,
        action,
        by,
        at_unix_ms: now_unix_ms,
        may_change: grant.changeable(),
        when_cut_off: when_cut_off(cut_off),
    })
}

pub(super) fn when_cut_off(asked: AskedWhenCutOff) -> WhenCutOff {
    match asked {
        AskedWhenCutOff::Refuse => WhenCutOff::Refuse,
        AskedWhenCutOff::Accept => WhenCutOff::Accept,
    }
}

/// The answer to a change that is in force.
pub(super) fn changed(effect: ChangeEffect, convergence: v1::Convergence) -> PartitionChanged {
    let ChangeEffect {
        memberships, loss, ..
    } = effect;
    PartitionChanged {
        memberships: memberships as u64,
        cut_off: (!loss.is_none()).then_some(v1::PartitionCutOff {
            ports: loss.ports as u64,
            isolated_ports: loss.isolated as u64,
            pairs: loss.pairs,
            names: loss.names,
        }),
        convergence,
    }
}

fn when_empty(empty: EmptyPartition) -> WhenEmpty {
    match empty {
        EmptyPartition::Keep => WhenEmpty::Keep,
        EmptyPartition::Delete => WhenEmpty::Delete,
    }
}

fn invalid(reason: String) -> ControlError {
    let refusal = PartitionRefusal::Invalid;
    ControlError::Partition { refusal, reason }
}

fn settings(p_key: u16, asked: &AskedSettings) -> Result<PartitionSettings, ControlError> {
    let mtu = (1..=5).map(Mtu::from_code);
    let mtu = { mtu }.find(|mtu| mtu.bytes() == Some(asked.mtu_bytes));
    let mtu = mtu.ok_or_else(|| {
        invalid(format!(
            "an MTU of {} bytes: expected 256, 512, 1024, 2048 or 4096",
            asked.mtu_bytes
        ))
    })?;
    let mut rates = Rate::all();
    let rate = rates.find(|rate| rate.tenth_gbps() == Some(asked.rate_tenth_gbps));
    let rate = rate.ok_or_else(|| {
        let rates: Vec<String> = Rate::all()
            .filter_map(|rate| rate.tenth_gbps())
            .map(gbps)
            .collect();
        invalid(format!(
            "a rate of {} Gb/s: expected one of {}",
            gbps(asked.rate_tenth_gbps),
            rates.join(", ")
        ))
    })?;
    let plain = PartitionSettings::plain(p_key);
    Ok(PartitionSettings {
        name: match asked.name.as_str() {
            "" => plain.name,
            name => name.to_owned(),
        },
        ipoib: asked.ipoib,
        sl: asked.service_level,
        mtu,
        rate,
    })
}

fn protection(asked: &PartitionProtection) -> Result<Protection, ControlError> {
    let parse = |text: &String, parse: fn(&str) -> Result<Owned, String>| {
        parse(text).map_err(|expected| invalid(format!("`{}`: {expected}", text.escape_debug())))
    };
    let mgids = asked.mgids.iter().map(|text| parse(text, Owned::mgids));
    let guids = asked.guids.iter().map(|text| parse(text, Owned::guids));
    Ok(Protection {
        trust: match asked.trust {
            AskedTrust::Unspecified => None,
            AskedTrust::Off => Some(TrustMode::Off),
            AskedTrust::Report => Some(TrustMode::Report),
            AskedTrust::Enforce => Some(TrustMode::Enforce),
        },
        owned: mgids.chain(guids).collect::<Result<_, _>>()?,
    })
}

/// The trust mode of a partition, and the MGIDs and GUIDs that belong to it, as the API shows them.
pub(super) fn shown_protection(protection: &Protection) -> v1::PartitionProtection {
    let names = |kind: OwnedKind| {
        let owned = protection.owned.iter().filter(|owned| owned.kind == kind);
        owned.map(Owned::to_string).collect()
    };
    let trust = match protection.trust {
        None => AskedTrust::Unspecified,
        Some(TrustMode::Off) => AskedTrust::Off,
        Some(TrustMode::Report) => AskedTrust::Report,
        Some(TrustMode::Enforce) => AskedTrust::Enforce,
    };
    v1::PartitionProtection {
        trust: trust.into(),
        mgids: names(OwnedKind::Mgids),
        guids: names(OwnedKind::Guids),
    }
}

fn gbps(tenths: u16) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// Members by port GUID. A port that is named twice must have the same membership both times.
fn members(
    published: &Published,
    wanted: &[WantedMember],
) -> Result<BTreeMap<Guid, Member>, ControlError> {
    let mut members = BTreeMap::new();
    for one in wanted {
        let member = Member {
            membership: match one.membership {
                Asked::Limited => Membership::Limited,
                Asked::Both => Membership::Both,
                Asked::Full | Asked::Unspecified => Membership::Full,
            },
            index0: one.index0,
        };
        for guid in guids(published, &one.port)? {
            let before = members.insert(guid, member);
            if before.is_some_and(|before| before != member) {
                return Err(invalid(format!(
                    "{guid} is named twice, with different memberships: name it once"
                )));
            }
        }
    }
    Ok(members)
}

/// The port GUIDs that a name refers to.
fn guids(published: &Published, name: &MemberName) -> Result<Vec<Guid>, ControlError> {
    let selector = match name {
        MemberName::Guid(guid) => return Ok(vec![*guid]),
        MemberName::Host(host) => return host_ports(published, host),
        MemberName::Present(selector) => selector,
    };
    let mut guids = Vec::new();
    for (node, port) in resolve_host_or_part(&published.names, selector)? {
        guids.extend(end_ports(published, selector, node, port)?);
    }
    Ok(guids)
}

/// The GUIDs of all end ports of a node, or only of the end port with the number `port`.
fn end_ports(
    published: &Published,
    selector: &Selector,
    node: Guid,
    port: Option<PortNum>,
) -> Result<Vec<Guid>, ControlError> {
    let fabric = published.fabric();
    let not_found = || LookupError::NotFound {
        selector: selector.to_string(),
    };
    let found = fabric.node_of(node).ok_or_else(not_found)?;
    let ends = found.end_ports();
    let ends: Vec<(PortNum, Guid)> = ends.map(|(number, port)| (number, port.guid)).collect();
    let Some(number) = port else {
        return Ok(ends.into_iter().map(|(_, guid)| guid).collect());
    };
    let end = ends.iter().find(|&&(end, _)| end == number);
    let port = api_key(PortKey::new(node, number));
    let &(_, guid) = end.ok_or(LookupError::NoLid { port })?;
    Ok(vec![guid])
}

/// Port GUIDs of all channel adapters of a host.
fn host_ports(published: &Published, host: &str) -> Result<Vec<Guid>, ControlError> {
    let is_meant = |description: &str| {
        let first = description.split_whitespace().next();
        description == host || first == Some(host)
    };
    let nodes = published.fabric().nodes();
    let adapters = nodes.filter(|node| node.kind() == NodeType::Ca);
    let meant = adapters.filter(|node| is_meant(&node.description) || is_meant(node.reported()));
    let guids = meant.flat_map(|node| node.end_ports().map(|(_, port)| port.guid));
    let guids: Vec<Guid> = guids.collect();
    match guids.is_empty() {
        false => Ok(guids),
        true => Err(ControlError::Lookup(LookupError::NotFound {
            selector: host.chars().take(MAX_NAME_BYTES).collect(),
        })),
    }
}

/// Converts the core's refusal to an error for the caller.
pub(super) fn refusal(error: &ChangeError) -> ControlError {
    let refusal = match error {
        ChangeError::CutOff { loss, .. } => {
            let (ports, reason) = (loss.ports as u64, error.to_string());
            return ControlError::CutOff { ports, reason };
        }
        ChangeError::NotFound { p_key } => {
            let p_key = *p_key;
            return ControlError::Lookup(LookupError::NoSuchPartition { p_key });
        }
        ChangeError::Exists { .. } | ChangeError::NameTaken { .. } | ChangeError::Owned { .. } => {
            PartitionRefusal::Exists
        }
        ChangeError::Default
        | ChangeError::Name { .. }
        | ChangeError::Guid { .. }
        | ChangeError::TooManyOwned { .. } => PartitionRefusal::Invalid,
        ChangeError::Index0 { .. } => PartitionRefusal::NotAllowed,
        ChangeError::TooMany { .. }
        | ChangeError::TooManyOfTenant { .. }
        | ChangeError::TenantShare { .. }
        | ChangeError::TableFull { .. } => PartitionRefusal::Full,
        ChangeError::InFile { .. }
        | ChangeError::BothNotAllowed { .. }
        | ChangeError::Plan { .. }
        | ChangeError::Dropped { .. } => PartitionRefusal::Refused,
    };
    ControlError::Partition {
        refusal,
        reason: error.to_string(),
    }
}
