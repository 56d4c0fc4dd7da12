//! Alias GUIDs of ports, in the form of the API.

use std::ops::Bound;

use rsm_api::model::{AliasGuidKey, Keyed, Page, PortId};
use rsm_api::v1;
use rsm_ids::{Gid, Guid};
use rsm_model::alias_guids::AliasGuids;

use super::published::Published;
use super::subnet::page;

/// Page of alias GUIDs after the key `after`; only the alias GUIDs of `port`, if given.
pub(super) fn aliases(
    published: &Published,
    alias_guids: &AliasGuids,
    after: Option<AliasGuidKey>,
    limit: usize,
    port: Option<PortId>,
) -> Page<Keyed<AliasGuidKey, v1::AliasGuid>> {
    let owner = port.map(|port| published.guid_of(port));
    let from = after.map_or(Bound::Unbounded, |after| Bound::Included(after.port));
    let of_ports = alias_guids
        .by_port
        .range((from, Bound::Unbounded))
        .filter(|&(&port, _)| owner.is_none_or(|owner| owner == Some(port)));
    let all = of_ports.flat_map(|(&port, alias_guids)| {
        let named = alias_guids.iter();
        named.map(move |(&index, &guid)| (AliasGuidKey { port, index }, guid))
    });
    let wanted = all.filter(|&(key, _)| after.is_none_or(|after| key > after));
    let shown = wanted.map(|(key, guid)| shown(published, key, guid));
    page(published, shown, limit)
}

fn shown(
    published: &Published,
    key: AliasGuidKey,
    guid: Guid,
) -> Keyed<AliasGuidKey, v1::AliasGuid> {
    let (port, description) = published.port_and_description(key.port);
    let message = v1::AliasGuid {
        port_guid: key.port.to_string(),
        index: key.index.into(),
        alias_guid: guid.to_string(),
        gid: Gid::new(published.prefix(), guid).to_string(),
        port,
        description,
    };
    Keyed { key, message }
}
