use std::fmt;

use crate::wire::header::Status;

/// The statuses that the SA adds to the common statuses (IBA 15.2.2), as values of the header's
/// field.
pub struct SaStatus;

impl SaStatus {
    /// ERR_NO_RESOURCES: the SA has no room for the result of the request.
    pub const NO_RESOURCES: Status = Status(0x0100);
    /// ERR_REQ_INVALID: the request contradicts itself or the state of the SA.
    pub const REQ_INVALID: Status = Status(0x0200);
    /// ERR_NO_RECORDS: no record matches a Get.
    pub const NO_RECORDS: Status = Status(0x0300);
    /// ERR_TOO_MANY_RECORDS: more than one record matches a Get.
    pub const TOO_MANY_RECORDS: Status = Status(0x0400);
    /// ERR_REQ_INVALID_GID: a GID in the request belongs to no port, or to a port for which the
    /// requester may not act.
    pub const REQ_INVALID_GID: Status = Status(0x0500);
    /// ERR_REQ_INSUFFICIENT_COMPONENTS: a required component is missing.
    pub const REQ_INSUFFICIENT_COMPONENTS: Status = Status(0x0600);
    /// ERR_REQ_DENIED: the requester lacks permission.
    pub const REQ_DENIED: Status = Status(0x0700);
    /// ERR_REQ_PRIORITY_SUGGESTED: another QoS priority could satisfy the request.
    pub const REQ_PRIORITY_SUGGESTED: Status = Status(0x0800);

    /// The text form of `status` in a datagram of this class.
    pub fn name(status: Status) -> impl fmt::Display {
        Name(status)
    }
}

struct Name(Status);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SaStatus::NO_RESOURCES => f.pad("ERR_NO_RESOURCES"),
            SaStatus::REQ_INVALID => f.pad("ERR_REQ_INVALID"),
            SaStatus::NO_RECORDS => f.pad("ERR_NO_RECORDS"),
            SaStatus::TOO_MANY_RECORDS => f.pad("ERR_TOO_MANY_RECORDS"),
            SaStatus::REQ_INVALID_GID => f.pad("ERR_REQ_INVALID_GID"),
            SaStatus::REQ_INSUFFICIENT_COMPONENTS => f.pad("ERR_REQ_INSUFFICIENT_COMPONENTS"),
            SaStatus::REQ_DENIED => f.pad("ERR_REQ_DENIED"),
            SaStatus::REQ_PRIORITY_SUGGESTED => f.pad("ERR_REQ_PRIORITY_SUGGESTED"),
            other => fmt::Display::fmt(&other, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_the_sa_have_names_and_common_statuses_their_text() {
        assert_eq!(SaStatus::name(Status(0x0300)).to_string(), "ERR_NO_RECORDS");
        assert_eq!(SaStatus::name(Status::BUSY).to_string(), "busy");
        assert_eq!(SaStatus::name(Status(0x0900)).to_string(), "0x0900");
    }
}
