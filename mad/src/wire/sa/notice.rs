use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{gids, narrow, record, widen};
use crate::wire::attr::Notice;

/// Notice in the SA (IBA 13.4.8.2): the Notice of an SMP, and the GID of its sender, for which SMPs
/// have no room.
///
/// ```text
/// byte  0  Notice, 64 bytes
///      64  IssuerGID
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SaNotice {
    notice: [u8; 64],
    issuer_gid: [u8; 16],
}

record!(SaNotice, 0x0002, "Notice");

gids! { SaNotice {
    /// The GID of the port that sent the notice.
    issuer_gid, set_issuer_gid = issuer_gid;
} }

impl SaNotice {
    const COMPONENT_TABLE: &'static [super::Component] = &[];

    /// The notice without the GID.
    pub fn notice(&self) -> Notice {
        widen(&self.notice)
    }

    /// Sets [`Self::notice`].
    pub fn set_notice(&mut self, notice: &Notice) -> &mut Self {
        self.notice = narrow(notice);
        self
    }
}
