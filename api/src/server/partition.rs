use std::sync::Arc;

use rsm_proto::v1::partition_service_server::PartitionService;
use rsm_proto::{Label as _, v1};
use tonic::{Extensions, Request, Response, Status};

use super::acts::{ActionRecorder, operator};
use super::paging::Listing;
use super::request::{p_key, selector, service_level, text_filter};
use crate::access::Caller;
use crate::error::ControlError;
use crate::limits::MAX_MEMBERS_PER_REQUEST;
use crate::model::{
    EmptyPartition, ExistingPartition, MemberName, Membership, PartitionAction, PartitionChange,
    PartitionChanged, PartitionProtection, PartitionSettings, Selector, TrustMode, WantedMember,
    WhenCutOff,
};
use crate::refusal::{Reason, refusal};
use crate::traits::{Control, Subnet};

/// The maximum number of members' names in the record of a request; further names are counted.
const NAMES_NOTED: usize = 8;

/// The maximum number of prefixes of MGIDs and GUIDs that belong to one partition.
const MAX_NAMES: usize = 64;

/// Serves partitions and their members.
#[derive(Clone)]
pub(super) struct Partitions {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
    pub(super) acts: ActionRecorder,
}

/// Refuses to show a partition to a tenant that does not own it.
fn check_seen(caller: Option<Arc<Caller>>, p_key: u16) -> Result<(), Status> {
    if !caller.is_some_and(|caller| caller.grant.sees(p_key)) {
        return Err(refusal(
            Reason::PartitionNotAllowed,
            format!("p_key: the partition {p_key:#x} is none of this tenant's"),
        ));
    }
    Ok(())
}

impl Partitions {
    /// Carries out a change for the identity of a request, if the identity may change that
    /// partition.
    async fn change(
        &self,
        from: &Extensions,
        number: u32,
        action: PartitionAction,
        accept_cut_off: bool,
    ) -> Result<PartitionChanged, Status> {
        let p_key = p_key("p_key", number)? & 0x7fff;
        let caller = from.get::<Arc<Caller>>();
        let caller =
            caller.ok_or_else(|| refusal(Reason::NoIdentity, "the request has no identity"))?;
        let detail = detail(p_key, &action);
        let mut act = self.acts.begin(from, act_name(&action), detail);
        let stated_by = operator(from, None);
        let is_allowed = caller.grant.changes(p_key);
        let outcome = match is_allowed {
            false => Err(refusal(
                Reason::PartitionNotAllowed,
                format!(
                    "p_key: {} may not change the partition {p_key:#06x}: it has {}",
                    caller.name, caller.grant
                ),
            )),
            true => {
                let change = PartitionChange {
                    p_key,
                    action,
                    by: stated_by,
                    grant: caller.grant.clone(),
                    cut_off: WhenCutOff::accepted(accept_cut_off),
                };
                let changed = self.control.change_partition(change).await;
                changed.map_err(|error: ControlError| Status::from(error))
            }
        };
        if let Ok(changed) = &outcome {
            act.add(&changed.cut_off_in_words());
        }
        act.end(outcome)
    }

    /// Carries out a change of memberships by [`Partitions::change`], and returns the response.
    async fn answer<R: From<PartitionChanged>>(
        &self,
        from: &Extensions,
        p_key: u32,
        action: PartitionAction,
        accept_cut_off: bool,
    ) -> Result<Response<R>, Status> {
        let changed = self.change(from, p_key, action, accept_cut_off).await?;
        Ok(Response::new(changed.into()))
    }
}

/// Messages that answer a change of memberships.
macro_rules! changed_memberships {
    ($($answer:ident),+ $(,)?) => {$(
        impl From<PartitionChanged> for v1::$answer {
            fn from(changed: PartitionChanged) -> v1::$answer {
                v1::$answer {
                    changed: changed.memberships,
                    convergence: Some(changed.convergence),
                    cut_off: changed.cut_off,
                }
            }
        }
    )+};
}

changed_memberships!(
    CreatePartitionResponse,
    AddPartitionMembersResponse,
    RemovePartitionMembersResponse,
    SetPartitionMembersResponse,
    DeletePartitionResponse,
    SetDefaultMembershipResponse,
);

/// The name of a change in the journal.
fn act_name(action: &PartitionAction) -> &'static str {
    match action {
        PartitionAction::Create { .. } => "create-partition",
        PartitionAction::Add(_) => "add-members",
        PartitionAction::Replace(..) => "set-members",
        PartitionAction::Remove(..) => "remove-members",
        PartitionAction::Configure(_) => "configure-partition",
        PartitionAction::Protect(_) => "protect-partition",
        PartitionAction::Delete => "delete-partition",
        PartitionAction::LimitDefault(_) => "set-default-membership",
    }
}

/// A change in a few words, for the journal.
fn detail(p_key: u16, action: &PartitionAction) -> String {
    let names = |names: Vec<&MemberName>| {
        let shown = names.iter().take(NAMES_NOTED).map(|name| match name {
            MemberName::Guid(guid) => guid.to_string(),
            MemberName::Present(selector) => selector.to_string(),
            MemberName::Host(host) => host.clone(),
        });
        let shown: Vec<String> = shown.collect();
        let more = names.len().saturating_sub(NAMES_NOTED);
        match more {
            0 => shown.join(" "),
            more => format!("{} and {more} more", shown.join(" ")),
        }
    };
    let wanted = |members: &[WantedMember]| names(members.iter().map(|one| &one.port).collect());
    let rest = match action {
        PartitionAction::Create { members, .. }
        | PartitionAction::Add(members)
        | PartitionAction::Replace(members, _) => wanted(members),
        PartitionAction::Remove(members, _) => names(members.iter().collect()),
        PartitionAction::Configure(settings) => settings.name.clone(),
        PartitionAction::Protect(protection) => {
            let names = protection.mgids.iter().chain(&protection.guids);
            let names: Vec<&str> = names.take(NAMES_NOTED).map(String::as_str).collect();
            let mode = TrustMode::label(protection.trust.into()).unwrap_or_default();
            format!("{} {mode}", names.join(" "))
        }
        PartitionAction::Delete => String::new(),
        PartitionAction::LimitDefault(true) => "limited".to_owned(),
        PartitionAction::LimitDefault(false) => "as the file says".to_owned(),
    };
    format!("{p_key:#06x} {rest}").trim_end().to_owned()
}

/// Parses the name of a member. A GUID without a port number is a port GUID, and that port need not
/// be present.
fn member_name(text: &str) -> Result<MemberName, Status> {
    Ok(match selector("port", text)? {
        Selector::Guid { guid, port: None } => MemberName::Guid(guid),
        other => MemberName::Present(other),
    })
}

/// Refuses fewer than `least` members, and more than a request may have.
fn check_count(count: usize, least: usize) -> Result<(), Status> {
    if (least..=MAX_MEMBERS_PER_REQUEST).contains(&count) {
        return Ok(());
    }
    Err(refusal(
        Reason::InvalidField,
        format!(
            "members: expected {least} to {MAX_MEMBERS_PER_REQUEST}, found {count}: send several requests"
        ),
    ))
}

/// Parses requested members, at least `least`. An unspecified membership means a full one.
fn wanted(members: &[v1::WantedMember], least: usize) -> Result<Vec<WantedMember>, Status> {
    check_count(members.len(), least)?;
    let wanted = members.iter().map(|member| {
        let membership = Membership::try_from(member.membership).map_err(|_| {
            refusal(
                Reason::InvalidField,
                format!(
                    "membership: this server knows no value {}",
                    member.membership
                ),
            )
        })?;
        Ok(WantedMember {
            port: member_name(&member.port)?,
            membership: match membership {
                Membership::Unspecified => Membership::Full,
                some => some,
            },
            index0: member.index0,
        })
    });
    wanted.collect()
}

/// Parses settings; an MTU or a rate of 0 means the default.
fn settings(given: Option<v1::PartitionSettings>) -> Result<PartitionSettings, Status> {
    let given = given.unwrap_or_default();
    let plain = PartitionSettings::default();
    let tenths = given.rate_gbps * 10.0;
    // The test is also false for NaN.
    let is_rate = (0.0..=f64::from(u16::MAX)).contains(&tenths) && tenths.fract() == 0.0;
    if !is_rate {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "rate_gbps: {} is no rate of InfiniBand, expected 2.5 to 1200",
                given.rate_gbps
            ),
        ));
    }
    Ok(PartitionSettings {
        name: text_filter("name", given.name)?.unwrap_or_default(),
        ipoib: given.ipoib,
        service_level: service_level(given.service_level)?,
        mtu_bytes: match given.mtu_bytes {
            0 => plain.mtu_bytes,
            some => u16::try_from(some).unwrap_or(u16::MAX),
        },
        rate_tenth_gbps: match tenths as u16 {
            0 => plain.rate_tenth_gbps,
            some => some,
        },
    })
}

fn protection(given: Option<v1::PartitionProtection>) -> Result<PartitionProtection, Status> {
    let v1::PartitionProtection {
        trust,
        mgids,
        guids,
    } = given.unwrap_or_default();
    let trust = TrustMode::try_from(trust).map_err(|_| {
        refusal(
            Reason::InvalidField,
            format!("trust: this server knows no value {trust}"),
        )
    })?;
    let count = mgids.len() + guids.len();
    if count > MAX_NAMES {
        return Err(refusal(
            Reason::InvalidField,
            format!("mgids, guids: {count} names: expected at most {MAX_NAMES}"),
        ));
    }
    Ok(PartitionProtection {
        trust,
        mgids,
        guids,
    })
}

#[tonic::async_trait]
impl PartitionService for Partitions {
    async fn list_partitions(
        &self,
        request: Request<v1::ListPartitionsRequest>,
    ) -> Result<Response<v1::ListPartitionsResponse>, Status> {
        let (_, listing) = Listing::of(request)?;
        let page = self.subnet.partitions(listing.after(), listing.limit());
        listing.answer_keyed(page)
    }

    async fn list_partition_members(
        &self,
        request: Request<v1::ListPartitionMembersRequest>,
    ) -> Result<Response<v1::ListPartitionMembersResponse>, Status> {
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let (request, listing) = Listing::of(request)?;
        let p_key = p_key("p_key", request.p_key)?;
        check_seen(caller, p_key)?;
        let page = self
            .subnet
            .partition_members(p_key, listing.after(), listing.limit())?;
        listing.answer_keyed(page)
    }

    async fn list_partition_guids(
        &self,
        request: Request<v1::ListPartitionGuidsRequest>,
    ) -> Result<Response<v1::ListPartitionGuidsResponse>, Status> {
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let (request, listing) = Listing::of(request)?;
        let p_key = p_key("p_key", request.p_key)?;
        check_seen(caller, p_key)?;
        let page = self
            .subnet
            .partition_guids(p_key, listing.after(), listing.limit())?;
        listing.answer_keyed(page)
    }

    async fn create_partition(
        &self,
        request: Request<v1::CreatePartitionRequest>,
    ) -> Result<Response<v1::CreatePartitionResponse>, Status> {
        let asked = request.get_ref();
        let action = PartitionAction::Create {
            settings: settings(asked.settings.clone())?,
            members: wanted(&asked.members, 0)?,
            existing: ExistingPartition::Same,
        };
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        self.answer(from, asked.p_key, action, accepted).await
    }

    async fn add_partition_members(
        &self,
        request: Request<v1::AddPartitionMembersRequest>,
    ) -> Result<Response<v1::AddPartitionMembersResponse>, Status> {
        let asked = request.get_ref();
        let action = PartitionAction::Add(wanted(&asked.members, 1)?);
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        self.answer(from, asked.p_key, action, accepted).await
    }

    async fn remove_partition_members(
        &self,
        request: Request<v1::RemovePartitionMembersRequest>,
    ) -> Result<Response<v1::RemovePartitionMembersResponse>, Status> {
        let asked = request.get_ref();
        check_count(asked.ports.len(), 1)?;
        let names = asked.ports.iter().map(|port| member_name(port));
        let names = names.collect::<Result<_, _>>()?;
        let action = PartitionAction::Remove(names, EmptyPartition::Keep);
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        self.answer(from, asked.p_key, action, accepted).await
    }

    async fn set_partition_members(
        &self,
        request: Request<v1::SetPartitionMembersRequest>,
    ) -> Result<Response<v1::SetPartitionMembersResponse>, Status> {
        let asked = request.get_ref();
        let members = wanted(&asked.members, 0)?;
        let action = PartitionAction::Replace(members, EmptyPartition::Keep);
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        self.answer(from, asked.p_key, action, accepted).await
    }

    async fn configure_partition(
        &self,
        request: Request<v1::ConfigurePartitionRequest>,
    ) -> Result<Response<v1::ConfigurePartitionResponse>, Status> {
        let asked = request.get_ref();
        let action = PartitionAction::Configure(settings(asked.settings.clone())?);
        // The settings do not affect memberships, so that no port is cut off.
        let from = request.extensions();
        let changed = self.change(from, asked.p_key, action, false).await?;
        Ok(Response::new(v1::ConfigurePartitionResponse {
            convergence: Some(changed.convergence),
        }))
    }

    async fn protect_partition(
        &self,
        request: Request<v1::ProtectPartitionRequest>,
    ) -> Result<Response<v1::ProtectPartitionResponse>, Status> {
        let asked = request.get_ref();
        let action = PartitionAction::Protect(protection(asked.protection.clone())?);
        // The protection does not affect memberships, so that no port is cut off.
        let from = request.extensions();
        let changed = self.change(from, asked.p_key, action, false).await?;
        Ok(Response::new(v1::ProtectPartitionResponse {
            convergence: Some(changed.convergence),
        }))
    }

    async fn delete_partition(
        &self,
        request: Request<v1::DeletePartitionRequest>,
    ) -> Result<Response<v1::DeletePartitionResponse>, Status> {
        let asked = request.get_ref();
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        let action = PartitionAction::Delete;
        self.answer(from, asked.p_key, action, accepted).await
    }

    async fn set_default_membership(
        &self,
        request: Request<v1::SetDefaultMembershipRequest>,
    ) -> Result<Response<v1::SetDefaultMembershipResponse>, Status> {
        let asked = request.get_ref();
        let action = PartitionAction::LimitDefault(asked.limited);
        let (from, accepted) = (request.extensions(), asked.accept_cut_off);
        self.answer(from, 0x7fff, action, accepted).await
    }
}
