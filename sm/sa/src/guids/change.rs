//! Assigning and releasing alias GUIDs (IBA 15.2.5.18).

use rsm_ids::Guid;
use rsm_mad::wire::attr::{GuidInfo, PortInfo};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, GuidInfoRecord, SaStatus};

use super::{AliasRegistry, limits};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::mcast;
use crate::template::Template;
use crate::trust::Trust;

/// The components that identify a block of a port.
const NAMED: ComponentMask = ComponentMask(GuidInfoRecord::LID.0 | GuidInfoRecord::BLOCK_NUM.0);

/// Upper half of generated alias GUIDs: locally administered, so that no manufacturer assigns it,
/// followed by `RSM`.
const ASSIGNED: u64 = 0x0252_534D << 32;

/// Number of generated GUIDs to try. One of them is free, unless a host has asked for such GUIDs on
/// purpose.
const NAMES_TRIED: usize = 1000;

/// The requester, and the state required to answer it.
#[derive(Clone, Copy)]
pub(crate) struct AliasRequester<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) port: EndIx,
    pub(crate) trust: Trust,
    pub(crate) multicast: &'a mcast::GroupRegistry,
}

/// The alias GUIDs that a request concerns.
struct Places {
    /// GUID of the port.
    port: Guid,
    block: u8,
    /// Indices in the port's table, each with the GUID in the request.
    indices: Vec<(u8, Guid)>,
}

impl AliasRegistry {
    /// Answers Set of GUIDInfoRecord: gives a port the alias GUIDs that the mask selects. GUID 0
    /// asks for a generated GUID, or for the present GUID if there is one. A GUID of another port
    /// is refused: the answer then contains the present block.
    ///
    /// # Errors
    /// The status of the answer; nothing has changed then.
    pub(crate) fn assign(
        &mut self,
        record: &GuidInfoRecord,
        mask: ComponentMask,
        requester: &AliasRequester<'_>,
    ) -> Result<GuidInfoRecord, Status> {
        let places = places(record, mask, requester)?;
        let wanted = places.indices.iter().filter(|&&(index, wanted)| {
            let held = self.name(places.port, index);
            !wanted.is_zero() && held != Some(wanted) || held.is_none()
        });
        let wanted: Vec<(u8, Guid)> = wanted.copied().collect();
        for &(index, _) in &wanted {
            self.check_unused(&places, index, requester)?;
        }
        if self.names.owners.len() + wanted.len() > limits::MAX_ALIASES {
            return Err(SaStatus::NO_RESOURCES);
        }
        for (index, wanted) in wanted {
            let is_free = |name| requester.directory.by_guid(name).is_none();
            let name = if wanted.is_zero() {
                let protections = &requester.directory.plan.policy.partitions.protections;
                let has_owner = |name| protections.owner_of_guid(name).is_some();
                let name = self.make_up(|name| is_free(name) && !has_owner(name));
                Some(name.ok_or(SaStatus::NO_RESOURCES)?)
            } else {
                let free = is_free(wanted) && self.names.owner(wanted).is_none();
                free.then_some(wanted)
            };
            if let Some(name) = name {
                self.insert(places.port, index, name);
            }
        }
        Ok(self.answer(record, &places))
    }

    /// Answers Delete of GUIDInfoRecord: releases the alias GUIDs that the mask selects.
    ///
    /// # Errors
    /// The status of the answer; nothing has changed then.
    pub(crate) fn release(
        &mut self,
        record: &GuidInfoRecord,
        mask: ComponentMask,
        requester: &AliasRequester<'_>,
    ) -> Result<GuidInfoRecord, Status> {
        let places = places(record, mask, requester)?;
        for &(index, _) in &places.indices {
            self.check_unused(&places, index, requester)?;
        }
        for &(index, _) in &places.indices {
            self.remove(places.port, index);
        }
        Ok(self.answer(record, &places))
    }

    fn name(&self, port: Guid, index: u8) -> Option<Guid> {
        self.names.aliases.by_port.get(&port)?.get(&index).copied()
    }

    /// Refuses to change an alias GUID with which the port is a member of a multicast group.
    fn check_unused(
        &self,
        places: &Places,
        index: u8,
        requester: &AliasRequester<'_>,
    ) -> Result<(), Status> {
        let name = self.name(places.port, index);
        match name {
            Some(name) if requester.multicast.is_member_as(places.port, name) => {
                Err(SaStatus::REQ_DENIED)
            }
            _ => Ok(()),
        }
    }

    fn make_up(&mut self, is_free: impl Fn(Guid) -> bool) -> Option<Guid> {
        (0..NAMES_TRIED).find_map(|_| {
            self.assigned = self.assigned.wrapping_add(1);
            let name = Guid(ASSIGNED | u64::from(self.assigned));
            (is_free(name) && self.names.owner(name).is_none()).then_some(name)
        })
    }

    fn answer(&self, record: &GuidInfoRecord, places: &Places) -> GuidInfoRecord {
        let mut answer = *record;
        let guids = self.names.aliases.block(places.port, places.block);
        answer.guid_info_mut().set_guids(guids);
        answer
    }
}

/// Port, block and indices that a request concerns.
///
/// # Errors
/// ERR_NO_RECORDS for a port or block that does not exist; ERR_REQ_DENIED if the requester is
/// neither the port itself nor trusted; ERR_REQ_INVALID for the port's own GUID, and for indices
/// beyond GUIDCap.
fn places(
    record: &GuidInfoRecord,
    mask: ComponentMask,
    requester: &AliasRequester<'_>,
) -> Result<Places, Status> {
    if !mask.contains(NAMED) {
        return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
    }
    // Refuses components that the record lacks.
    Template::new(record, mask, ComponentMask(u64::MAX))?;
    let directory = requester.directory;
    let acts_for_all = requester.trust.acts_for_all();
    let ix = directory
        .by_lid(record.lid())
        .filter(|&ix| acts_for_all || directory.may_see(requester.port, ix))
        .ok_or(SaStatus::NO_RECORDS)?;
    if ix != requester.port && !acts_for_all {
        return Err(SaStatus::REQ_DENIED);
    }
    let (_, port) = directory.port(ix);
    let capacity = port.info.as_ref().map_or(0, PortInfo::guid_cap);
    if directory.end(ix).vport.is_some() {
        // The host owns the GUIDInfo of its virtual ports.
        return Err(SaStatus::REQ_INVALID);
    }
    let block = record.block_num();
    let first = usize::from(block) * GuidInfo::ENTRIES;
    if first >= usize::from(capacity) {
        return Err(SaStatus::NO_RECORDS);
    }
    let mut indices = Vec::new();
    for (place, guid) in record.guid_info().guids().into_iter().enumerate() {
        let component = GuidInfoRecord::guid_component(place);
        if !component.is_some_and(|component| mask.contains(component)) {
            continue;
        }
        match u8::try_from(first + place) {
            Ok(index) if index != 0 && index < capacity => indices.push((index, guid)),
            _ => return Err(SaStatus::REQ_INVALID),
        }
    }
    Ok(Places {
        port: directory.end(ix).guid,
        block,
        indices,
    })
}
