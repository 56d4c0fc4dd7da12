//! ServiceRecord: services that ports offer; see [`crate::services`].

use rsm_mad::Time;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{SaHeader, SaStatus, ServiceRecord};

use super::{Record as _, SaQueryContext};
use crate::answer::Body;
use crate::services::{ServiceAccess, ServiceQuery, ServiceRegistry, ServiceRequester};

/// Registers or deletes a service. Only a trusted requester gets the service key in the answer.
///
/// # Errors
/// Fails with the status for the answer.
pub(crate) fn change(
    registry: &mut ServiceRegistry,
    (header, data): (&SaHeader, &[u8]),
    requester: &ServiceRequester<'_>,
    now: Time,
) -> Result<Body, Status> {
    let record = ServiceRecord::from_prefix(data).ok_or(SaStatus::REQ_INVALID)?;
    let mask = header.component_mask();
    let mut answer = match header.mad().method() {
        Method::SET => registry.register(record, mask, requester, now)?,
        _ => registry.delete(record, mask, requester, now)?,
    };
    if !requester.trust.is_trusted() {
        answer.set_service_key([0; 16]);
    }
    Ok(Body::record(&answer))
}

/// Searches services.
///
/// # Errors
/// Fails with the status for the answer.
pub(super) fn read(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    let record = context.record::<ServiceRecord>()?;
    let access = ServiceAccess {
        directory: context.directory.clone(),
        requester: context.requester,
        trust: context.trust,
    };
    let mask = context.header.component_mask();
    let services = context.services.view();
    context.read(ServiceQuery::new(
        services,
        access,
        &record,
        mask,
        context.now,
    )?)
}
