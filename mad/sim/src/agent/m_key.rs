//! The check of the management key (IBA 14.2.4).

use rsm_ids::Lid;
use rsm_mad::wire::attr::{BadMKey, NoticeType, PortInfo, Trap};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;

use super::{Effect, Request};
use crate::notice::notice_of;
use crate::personality::Habit;

/// Whether a request with `key` passes the M_Key check (IBA 14.2.4.1): every request if the port
/// has no key or `key` is right, and a Get with a wrong key up to protection level 1.
pub(crate) fn allows(info: &PortInfo, method: Method, key: u64) -> bool {
    info.m_key() == 0
        || info.m_key() == key
        || (method == Method::GET && info.m_key_protect_bits() <= 1)
}

impl Request<'_> {
    /// Whether the agent accepts a TrapRepress. An agent with [`Habit::ChecksRepress`] requires the
    /// right key.
    pub(crate) fn repress_allowed(&mut self, smp: &Smp, slid: Lid) -> bool {
        !self.has(Habit::ChecksRepress) || self.m_key_matches(smp, slid)
    }

    /// Checks the key of a request. A right key stops the countdown of the lease; after a wrong key
    /// the agent increments the counter, sends a trap, and starts the countdown.
    pub(super) fn m_key_matches(&mut self, smp: &Smp, slid: Lid) -> bool {
        let method = smp.header().method();
        let address = self.address;
        let port = self.fabric.port_mut(address);
        let info = &mut port.info;
        if allows(info, method, smp.m_key()) {
            if port.is_lease_running && info.m_key() == smp.m_key() {
                port.is_lease_running = false;
                port.lease_generation += 1;
            }
            return true;
        }
        info.set_m_key_violations(info.m_key_violations().saturating_add(1));
        if info.m_key_lease_period() != 0 && !port.is_lease_running {
            port.is_lease_running = true;
            self.effects.push(Effect::LeaseStart(address));
        }
        let notice = notice_of(
            self.fabric,
            address,
            NoticeType::Security,
            Trap::BAD_M_KEY,
            &details(smp, slid),
        );
        self.effects.push(Effect::Trap(address, notice));
        false
    }
}

/// The details of the trap about a request with a wrong key.
fn details(smp: &Smp, slid: Lid) -> BadMKey {
    let header = smp.header();
    let mut details = BadMKey::default();
    details
        .set_lid(slid)
        .set_method(header.method())
        .set_attribute(header.attribute())
        .set_modifier(header.modifier())
        .set_m_key(smp.m_key());
    if smp.is_directed() {
        let path = &smp.return_path()[1..];
        let room = details.return_path().len();
        details
            .set_dr_slid(smp.dr_slid())
            .set_dr_notice(true)
            .set_dr_hop_count(smp.hop_count())
            .set_dr_path_truncated(usize::from(smp.hop_count()) > room);
        details.return_path_mut().copy_from_slice(&path[..room]);
    }
    details
}
