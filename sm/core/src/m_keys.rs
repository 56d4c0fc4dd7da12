//! Rotation of the M_Keys of ports, if each port has an M_Key of its own.
//!
//! A rotation changes the policy. The comparison then finds that every port holds another key than
//! planned. The push writes PortInfo of each port, in a Set that carries the key that the port
//! holds. Until this Set is acknowledged, requests to the port use the old key and the new key in
//! turn, so that the port can be reached at any time. The store gets the new generation before the
//! first Set is sent.
//!
//! At protection levels 2 and 3, a port counts each Get with a wrong key as a violation, and a
//! standby reads the whole subnet with the keys that it knows. A master that shares its store
//! therefore first announces a rotation there, like a push that has begun, and waits for
//! [`NOTICE`]. A standby then ends its reading, and reads again with the new keys once the push has
//! ended.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::Generations;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::policy::{Policy, PortPolicy};
use rsm_state::{MKeyStatus, Ticket};
use rsm_store::replica::{BEAT, FOLLOW_PLAN};

/// Maximum number of ports that a finding names; the finding counts further ports.
const SHOWN: usize = 5;

/// Time in which an announcement reaches the store and a standby, and in which Gets under way end.
const DELIVERY: Duration = Duration::from_millis(900);

/// Time between the announcement of a rotation in the store and its first Set. A standby reads the
/// epoch every [`BEAT`], and reads the stored plan number after at most [`FOLLOW_PLAN`].
const NOTICE: Duration = BEAT.saturating_add(FOLLOW_PLAN).saturating_add(DELIVERY);

/// A rotation, before its first Set.
#[derive(Debug)]
pub(super) struct Rotation {
    /// The generations that ports get.
    pub(super) generations: Generations,
    /// Time at which the rotation begins.
    due: Time,
    /// Tickets of the commands that requested the rotation.
    pub(super) tickets: Vec<Ticket>,
}

/// An operator's request to rotate the keys of all ports, and the state on which the decision
/// depends.
pub(super) struct RotationRequest<'a> {
    pub(super) policy: &'a PortPolicy,
    /// Number of ports that hold a key of an earlier generation.
    pub(super) behind: usize,
    /// Whether the operator wants the rotation even if ports hold an earlier key.
    pub(super) forced: bool,
    /// Whether a standby may follow this master through the shared store.
    pub(super) may_be_followed: bool,
    pub(super) ticket: Ticket,
}

/// The decision about a request to rotate keys.
#[derive(Debug)]
pub(super) enum RotationStep {
    /// The request joins the announced rotation.
    Joined,
    /// There will be no rotation, for this reason.
    Declined(String),
    /// The rotation must be announced in the store.
    Announce,
    /// The rotation begins now.
    Begin(Rotation),
}

/// The rotation of M_Keys that is announced in the shared store and has not begun, if there is one.
#[derive(Default, Debug)]
pub(super) struct KeyRotation {
    announced: Option<Rotation>,
}

impl KeyRotation {
    /// Decides about a request at `now`. Declines the request if ports have no keys of their own,
    /// or while ports hold keys of an earlier generation, unless it is forced.
    pub(super) fn request(&mut self, request: &RotationRequest<'_>, now: Time) -> RotationStep {
        if let Some(rotation) = &mut self.announced {
            rotation.tickets.push(request.ticket);
            return RotationStep::Joined;
        }
        let (keys, behind) = (&request.policy.m_keys, request.behind);
        if keys.secret().is_none() {
            let reason = "ports have no keys of their own to rotate: set sm.m_keys = \"per-port\" and sm.m_key_secret_file";
            return RotationStep::Declined(reason.to_owned());
        }
        if behind > 0 && !request.forced {
            return RotationStep::Declined(format!(
                "{behind} ports do not yet hold the key of the previous rotation, and a finding names them; a forced rotation goes on \
                 without them, and finds them by their old keys later"
            ));
        }
        let rotation = Rotation {
            generations: keys.generations.rotated(),
            due: now + NOTICE,
            tickets: vec![request.ticket],
        };
        if request.may_be_followed && request.policy.guards_gets() {
            self.announced = Some(rotation);
            RotationStep::Announce
        } else {
            RotationStep::Begin(rotation)
        }
    }

    /// Handles that the issuer of `ticket` no longer waits for a rotation.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        if let Some(rotation) = &mut self.announced {
            rotation.tickets.retain(|&waiting| waiting != ticket);
        }
    }

    /// Whether a rotation is announced and has not begun.
    pub(super) fn is_announced(&self) -> bool {
        self.announced.is_some()
    }

    /// Time at which the announced rotation begins; `None` if no rotation is announced.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.announced.as_ref().map(|rotation| rotation.due)
    }

    /// Takes the announced rotation, if it is due at `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Rotation> {
        self.announced.take_if(|rotation| rotation.due <= now)
    }

    /// The generations to store: the later of the generations in use and of the announced
    /// rotation.
    pub(super) fn stored(&self, in_use: Generations) -> Generations {
        let announced = self.announced.as_ref();
        let announced = announced.map(|rotation| rotation.generations);
        in_use.later(announced.unwrap_or_default())
    }
}

/// Sets the M_Key generations of the policy. The caller repeats this after a reload, which replaces
/// the policy. Returns whether the generations changed.
pub(super) fn set_key_generations(policy: &mut Arc<Policy>, generations: Generations) -> bool {
    let is_news = policy.ports.m_keys.generations != generations;
    if is_news {
        Arc::make_mut(policy).ports.m_keys.generations = generations;
    }
    is_news
}

/// The state of the keys, for the snapshot.
pub(super) fn status(policy: &PortPolicy, inventory: &Inventory) -> MKeyStatus {
    let policy = &policy.m_keys;
    MKeyStatus {
        protects: policy.protects(),
        per_port: policy.secret().is_some(),
        generations: policy.generations,
        settled: inventory.ports_with_keys(),
        behind: inventory.ports_behind().len(),
    }
}

/// The finding about ports that do not hold their planned key; `None` if every port holds it.
/// Leaves out ports with a foreign key, which have a finding of their own. Called while no stage is
/// under way.
pub(super) fn finding(inventory: &Inventory) -> Option<Finding> {
    let behind = inventory.ports_behind().iter().copied();
    let behind: Vec<PortKey> = behind
        .filter(|&port| !inventory.hardware.is_locked(port))
        .collect();
    if behind.is_empty() {
        return None;
    }
    let names: Vec<String> = behind
        .iter()
        .take(SHOWN)
        .map(|&port| inventory.hardware.port_name(port))
        .collect();
    let more = match behind.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "{} do not hold their M_Key: {}{more}; rsm manages ports with an earlier key by that key, and gives them the new key as soon as \
         they accept it; keep the secret of the earlier keys until this finding ends",
        match behind.len() {
            1 => "1 port".to_owned(),
            ports => format!("{ports} ports"),
        },
        names.join(", "),
    );
    let kind = FindingKind::MKeyBehind;
    Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
}

#[cfg(test)]
mod tests {
    use rsm_config::m_keys::{MKeyPolicy, SECRET_BYTES, Secret};

    use super::*;

    fn request(policy: &PortPolicy, behind: usize, forced: bool) -> RotationRequest<'_> {
        RotationRequest {
            policy,
            behind,
            forced,
            may_be_followed: true,
            ticket: 1,
        }
    }

    /// A policy that gives each port a key of its own, which Gets need as well.
    fn per_port() -> PortPolicy {
        PortPolicy {
            m_key_protect: 2,
            m_keys: MKeyPolicy {
                per_port: true,
                secrets: Arc::new([Secret::new([7; SECRET_BYTES])]),
                ..MKeyPolicy::default()
            },
            ..PortPolicy::default()
        }
    }

    #[test]
    fn rotation_is_declined_if_ports_have_no_keys_of_their_own() {
        let mut rotation = KeyRotation::default();
        let policy = PortPolicy::default();
        let step = rotation.request(&request(&policy, 0, true), Time::ZERO);
        assert!(matches!(step, RotationStep::Declined(_)), "{step:?}");
        assert!(!rotation.is_announced());
    }

    #[test]
    fn rotation_is_declined_while_ports_are_behind_unless_it_is_forced() {
        let policy = per_port();
        let mut rotation = KeyRotation::default();
        let step = rotation.request(&request(&policy, 3, false), Time::ZERO);
        let RotationStep::Declined(reason) = step else {
            panic!("{step:?}");
        };
        // The reason also goes to other clients than rsmctl.
        assert!(
            !reason.contains("rsmctl") && !reason.contains("--"),
            "{reason}"
        );
        let step = rotation.request(&request(&policy, 3, true), Time::ZERO);
        assert!(matches!(step, RotationStep::Announce), "{step:?}");
    }

    #[test]
    fn announced_rotation_begins_after_its_notice_for_all_requests() {
        let policy = per_port();
        let before = policy.m_keys.generations;
        let mut rotation = KeyRotation::default();
        rotation.request(&request(&policy, 0, false), Time::ZERO);
        let step = rotation.request(&request(&policy, 0, false), Time::ZERO);
        assert!(matches!(step, RotationStep::Joined), "{step:?}");
        assert_eq!(rotation.stored(before), before.rotated());
        let due = rotation.deadline().unwrap();
        assert_eq!(due, Time::ZERO + NOTICE);
        assert!(rotation.take_due(Time::ZERO).is_none());
        let begun = rotation.take_due(due).unwrap();
        assert_eq!(begun.generations, before.rotated());
        assert_eq!(begun.tickets, [1, 1]);
        assert!(!rotation.is_announced());
    }

    #[test]
    fn rotation_begins_at_once_if_no_standby_follows() {
        let policy = per_port();
        let mut rotation = KeyRotation::default();
        let request = RotationRequest {
            may_be_followed: false,
            ..request(&policy, 0, false)
        };
        let step = rotation.request(&request, Time::ZERO);
        assert!(matches!(step, RotationStep::Begin(_)), "{step:?}");
    }
}
