//! Requests to assign and release alias GUIDs (IBA 15.2.5.18).

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

/// The components that identify a block of a port's GUIDs.
const BLOCK_COMPONENTS: ComponentMask =
    ComponentMask(GuidInfoRecord::LID.0 | GuidInfoRecord::BLOCK_NUM.0);

/// Upper half of generated alias GUIDs: a byte that marks the GUID as locally administered, so that
/// no manufacturer assigns it, and `RSM`.
const GENERATED_PREFIX: u64 = 0x0252_534D << 32;

/// Maximum number of generated GUIDs that are tried. At least one of these is free, unless a host
/// has requested such GUIDs on purpose.
const MAX_GUIDS_TRIED: usize = 1000;

/// The requester, and the state required to answer the request.
#[derive(Clone, Copy)]
pub(crate) struct AliasRequester<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) port: EndIx,
    pub(crate) trust: Trust,
    pub(crate) multicast: &'a mcast::GroupRegistry,
}

/// The entries of a port's GUID table that a request concerns.
struct Entries {
    /// GUID of the port.
    port: Guid,
    /// Number of the block.
    block: u8,
    /// Indices in the port's table, from 1, each with the GUID in the request.
    indices: Vec<(u8, Guid)>,
}

impl AliasRegistry {
    /// Answers a Set of GUIDInfoRecord: assigns a port the alias GUIDs that the mask selects. GUID
    /// 0 requests a generated GUID, or the present GUID if there is one. A GUID that is in use is
    /// not assigned: the answer then shows the present entry.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub(crate) fn assign(
        &mut self,
        record: &GuidInfoRecord,
        mask: ComponentMask,
        requester: &AliasRequester<'_>,
    ) -> Result<GuidInfoRecord, Status> {
        let entries = entries(record, mask, requester)?;
        let wanted = entries.indices.iter().filter(|&&(index, wanted)| {
            let held = self.alias(entries.port, index);
            !wanted.is_zero() && held != Some(wanted) || held.is_none()
        });
        let wanted: Vec<(u8, Guid)> = wanted.copied().collect();
        for &(index, _) in &wanted {
            self.check_unused(&entries, index, requester)?;
        }
        if self.index.owners.len() + wanted.len() > limits::MAX_ALIASES {
            return Err(SaStatus::NO_RESOURCES);
        }
        for (index, wanted) in wanted {
            let is_free = |guid| requester.directory.by_guid(guid).is_none();
            let alias = if wanted.is_zero() {
                let protections = &requester.directory.plan.policy.partitions.protections;
                let has_owner = |guid| protections.owner_of_guid(guid).is_some();
                let alias = self.generate(|guid| is_free(guid) && !has_owner(guid));
                Some(alias.ok_or(SaStatus::NO_RESOURCES)?)
            } else {
                let free = is_free(wanted) && self.index.owner(wanted).is_none();
                free.then_some(wanted)
            };
            if let Some(alias) = alias {
                self.insert(entries.port, index, alias);
            }
        }
        Ok(self.answer(record, &entries))
    }

    /// Answers a Delete of GUIDInfoRecord: releases the alias GUIDs that the mask selects.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub(crate) fn release(
        &mut self,
        record: &GuidInfoRecord,
        mask: ComponentMask,
        requester: &AliasRequester<'_>,
    ) -> Result<GuidInfoRecord, Status> {
        let entries = entries(record, mask, requester)?;
        for &(index, _) in &entries.indices {
            self.check_unused(&entries, index, requester)?;
        }
        for &(index, _) in &entries.indices {
            self.remove(entries.port, index);
        }
        Ok(self.answer(record, &entries))
    }

    /// The alias GUID at this index of a port's table; `None` if the entry is empty.
    fn alias(&self, port: Guid, index: u8) -> Option<Guid> {
        self.index.aliases.by_port.get(&port)?.get(&index).copied()
    }

    /// Checks that the port is in no multicast group with the alias GUID at this index.
    ///
    /// # Errors
    /// ERR_REQ_DENIED if the port is in such a group.
    fn check_unused(
        &self,
        entries: &Entries,
        index: u8,
        requester: &AliasRequester<'_>,
    ) -> Result<(), Status> {
        match self.alias(entries.port, index) {
            Some(alias) if requester.multicast.is_member_as(entries.port, alias) => {
                Err(SaStatus::REQ_DENIED)
            }
            _ => Ok(()),
        }
    }

    /// The next generated GUID that is free and not yet an alias GUID of any port; `None` after
    /// [`MAX_GUIDS_TRIED`] GUIDs in use.
    fn generate(&mut self, is_free: impl Fn(Guid) -> bool) -> Option<Guid> {
        (0..MAX_GUIDS_TRIED).find_map(|_| {
            self.generated = self.generated.wrapping_add(1);
            let guid = Guid(GENERATED_PREFIX | u64::from(self.generated));
            (is_free(guid) && self.index.owner(guid).is_none()).then_some(guid)
        })
    }

    /// The record in the answer: the request with the present GUIDs of the block.
    fn answer(&self, record: &GuidInfoRecord, entries: &Entries) -> GuidInfoRecord {
        let mut answer = *record;
        let guids = self.index.aliases.block(entries.port, entries.block);
        answer.guid_info_mut().set_guids(guids);
        answer
    }
}

/// The entries that a request concerns.
///
/// # Errors
/// ERR_REQ_INSUFFICIENT_COMPONENTS if LID or block number is missing; ERR_NO_RECORDS for a port or
/// block that does not exist; ERR_REQ_DENIED if the requester is neither the port itself nor
/// trusted; ERR_REQ_INVALID for the port's own GUID, for indices beyond GUIDCap, and for virtual
/// ports.
fn entries(
    record: &GuidInfoRecord,
    mask: ComponentMask,
    requester: &AliasRequester<'_>,
) -> Result<Entries, Status> {
    if !mask.contains(BLOCK_COMPONENTS) {
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
        // The host itself manages the GUIDInfo of its virtual ports.
        return Err(SaStatus::REQ_INVALID);
    }
    let block = record.block_num();
    let first = usize::from(block) * GuidInfo::ENTRIES;
    if first >= usize::from(capacity) {
        return Err(SaStatus::NO_RECORDS);
    }
    let mut indices = Vec::new();
    for (offset, guid) in record.guid_info().guids().into_iter().enumerate() {
        let component = GuidInfoRecord::guid_component(offset);
        if !component.is_some_and(|component| mask.contains(component)) {
            continue;
        }
        match u8::try_from(first + offset) {
            Ok(index) if index != 0 && index < capacity => indices.push((index, guid)),
            _ => return Err(SaStatus::REQ_INVALID),
        }
    }
    Ok(Entries {
        port: directory.end(ix).guid,
        block,
        indices,
    })
}
