//! What the core and subnet administration remember, in the store.
//!
//! Commits are made on a thread of their own, so that no convergence waits for a disk. Of several that wait, only the
//! last is made: each one is whole.

mod groups;
mod guids;
mod seats;
mod services;
mod subscriptions;
mod table;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::clock::Clock;
use crate::core::Remembered;
use crate::diff::{DeviceKind, NotKept, PortRole};
use crate::plan::lids::Claim;
use crate::plan::ports::FieldMask;
use crate::sa;
use crate::store::{ChangeSet, LidClaim, MemoryStore, Namespace, Persisted, SledStore, Store};

/// The table of fields that kinds of devices do not keep.
const NOT_KEPT: &str = "not-kept";

/// What is to be kept and is not yet, as far as it was said.
#[derive(Default)]
struct Latest {
    remembered: Option<Box<Remembered>>,
    administration: sa::Unsaved,
}

/// Where it waits for the store's thread, which is woken up for it.
#[derive(Clone)]
struct Mailbox {
    latest: Arc<Mutex<Latest>>,
    bell: watch::Sender<()>,
}

/// Keeps what the core remembers, and what subnet administration does.
pub(super) struct Keeper {
    mailbox: Mailbox,
    thread: std::thread::JoinHandle<()>,
}

/// What was kept before.
pub(super) struct Kept {
    /// What the core remembers.
    pub(super) core: Remembered,
    /// What subnet administration remembers.
    pub(super) administration: sa::Remembered,
}

/// Opens the store in `dir` (`None`: nothing survives), and says what was remembered.
pub(super) fn open(dir: Option<&Path>, clock: Clock) -> anyhow::Result<(Keeper, Kept)> {
    let mut store: Box<dyn Store> = match dir {
        Some(dir) => Box::new(
            SledStore::open(dir)
                .with_context(|| format!("cannot use the state directory {}", dir.display()))?,
        ),
        None => Box::new(MemoryStore::default()),
    };
    let (persisted, report) = store.load().context("cannot read what was remembered")?;
    if report.is_alarming() {
        tracing::warn!(report = %report, "the store was damaged");
    } else {
        tracing::info!(report = %report, "store opened");
    }
    let mut core = remembered(&persisted);
    // Where nothing is known of before, or not all of it, hosts may have registered with who is no more.
    core.reregister = persisted.claims.is_empty() || report.is_alarming();
    let kept = Kept {
        core,
        administration: sa::Remembered {
            groups: groups::remembered(&persisted),
            services: services::remembered(&persisted, &clock, clock.now()),
            guids: guids::remembered(&persisted),
            subscriptions: subscriptions::remembered(&persisted),
        },
    };
    let (bell, rung) = watch::channel(());
    let latest = Arc::new(Mutex::new(Latest::default()));
    let thread = std::thread::Builder::new()
        .name("store".to_owned())
        .spawn({
            let latest = latest.clone();
            move || keep(store, persisted, &latest, rung, clock)
        })
        .context("cannot start the thread of the store")?;
    let mailbox = Mailbox { latest, bell };
    Ok((Keeper { mailbox, thread }, kept))
}

impl Mailbox {
    fn put(&self, change: impl FnOnce(&mut Latest)) {
        change(&mut self.latest.lock());
        self.bell.send_replace(());
    }
}

impl Keeper {
    /// Keeps `remembered` from now on. Does not wait.
    pub(super) fn keep(&self, remembered: Box<Remembered>) {
        self.mailbox
            .put(|latest| latest.remembered = Some(remembered));
    }

    /// Where subnet administration tells what is to be kept from then on. Does not wait. The store closes when it is gone as
    /// well.
    pub(super) fn administration_sink(&self) -> Box<dyn Fn(sa::Unsaved) + Send> {
        let mailbox = self.mailbox.clone();
        Box::new(move |unsaved| mailbox.put(|latest| latest.administration.update(unsaved)))
    }

    /// Waits until everything is on the disk, and closes the store.
    pub(super) fn close(self) {
        drop(self.mailbox);
        if self.thread.join().is_err() {
            tracing::error!("the thread of the store panicked");
        }
    }
}

fn keep(
    mut store: Box<dyn Store>,
    mut persisted: Persisted,
    mailbox: &Mutex<Latest>,
    mut rung: watch::Receiver<()>,
    clock: Clock,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let Ok(runtime) = runtime else {
        tracing::error!("the thread of the store cannot wait; nothing is remembered");
        return;
    };
    // What is not on the disk as yet: what could not be written is written with what comes next.
    let mut owed = ChangeSet::new();
    loop {
        // An error says that the sender is gone; what it sent last is still to be read.
        let open = runtime.block_on(rung.changed()).is_ok();
        // Views are not held while the disk is waited for: whoever changes what they show would have to copy it.
        let latest = std::mem::take(&mut *mailbox.lock());
        let changes = changes_to(&persisted, latest, &clock);
        persisted.apply(&changes);
        owed.merge(changes);
        if !owed.is_empty() {
            match store.commit(&owed) {
                Ok(()) => owed = ChangeSet::new(),
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
                }
            }
        }
        if !open {
            break;
        }
    }
    if let Err(error) = store.close() {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "cannot close the store"
        );
    }
}

fn remembered(persisted: &Persisted) -> Remembered {
    let claims = persisted
        .claims
        .iter()
        .map(|(&guid, claim)| {
            let claim = Claim {
                base: claim.lid,
                lmc: claim.lmc,
            };
            (guid, claim)
        })
        .collect();
    let mut not_kept = NotKept::default();
    let records = namespace().and_then(|namespace| persisted.records.get(&namespace));
    for (key, value) in records.into_iter().flatten() {
        match (decode_kind(key), decode_fields(value)) {
            (Some(kind), Some(fields)) => {
                not_kept.learn(kind, fields);
            }
            _ => tracing::warn!(
                ?key,
                ?value,
                "a record of {NOT_KEPT} is not readable; left out"
            ),
        }
    }
    Remembered {
        claims,
        seats: Arc::new(seats::remembered(persisted)),
        gpus: Arc::default(),
        not_kept,
        generation: persisted.plan_generation,
        reregister: false,
    }
}

/// What has to be written so that `persisted` becomes what `latest` says.
fn changes_to(persisted: &Persisted, latest: Latest, clock: &Clock) -> ChangeSet {
    let Latest {
        remembered,
        administration,
    } = latest;
    let mut changes = match remembered {
        Some(remembered) => changes(persisted, &remembered),
        None => ChangeSet::new(),
    };
    if let Some(groups) = administration.groups {
        groups::changes(persisted, &groups, &mut changes);
    }
    if let Some(services) = administration.services {
        services::changes(persisted, &services, clock, &mut changes);
    }
    if let Some(aliases) = administration.guids {
        guids::changes(persisted, &aliases, &mut changes);
    }
    if let Some(subscriptions) = administration.subscriptions {
        subscriptions::changes(persisted, &subscriptions, &mut changes);
    }
    changes
}

/// What has to be written so that `persisted` becomes `remembered`.
fn changes(persisted: &Persisted, remembered: &Remembered) -> ChangeSet {
    let mut changes = ChangeSet::new();
    for (&guid, claim) in &remembered.claims {
        let same = persisted
            .claims
            .get(&guid)
            .is_some_and(|known| known.lid == claim.base && known.lmc == claim.lmc);
        if !same {
            let claim = LidClaim {
                lid: claim.base,
                lmc: claim.lmc,
                last_seen: remembered.generation,
            };
            if let Err(error) = changes.set_claim(guid, claim) {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
            }
        }
    }
    seats::changes(persisted, &remembered.seats, &mut changes);
    if let Some(namespace) = namespace() {
        let known = persisted.records.get(&namespace);
        for (kind, fields) in remembered.not_kept.iter() {
            let (key, value) = (encode_kind(kind), fields.0.to_be_bytes());
            let same =
                known.is_some_and(|known| known.get(&key[..]).is_some_and(|v| v[..] == value));
            if !same && let Err(error) = changes.set_record(&namespace, &key, &value) {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
            }
        }
    }
    if !changes.is_empty() {
        changes.set_plan_generation(remembered.generation);
    }
    changes
}

fn namespace() -> Option<Namespace> {
    Namespace::new(NOT_KEPT).ok()
}

/// Vendor, device, revision, role: big-endian, 11 bytes.
fn encode_kind(kind: DeviceKind) -> [u8; 11] {
    let mut key = [0; 11];
    key[..4].copy_from_slice(&kind.vendor.to_be_bytes());
    key[4..6].copy_from_slice(&kind.device.to_be_bytes());
    key[6..10].copy_from_slice(&kind.revision.to_be_bytes());
    key[10] = match kind.role {
        PortRole::End => 0,
        PortRole::Management => 1,
        PortRole::External => 2,
    };
    key
}

fn decode_kind(key: &[u8]) -> Option<DeviceKind> {
    let key: &[u8; 11] = key.try_into().ok()?;
    let role = match key[10] {
        0 => PortRole::End,
        1 => PortRole::Management,
        2 => PortRole::External,
        _ => return None,
    };
    Some(DeviceKind {
        vendor: u32::from_be_bytes(key[..4].try_into().ok()?),
        device: u16::from_be_bytes(key[4..6].try_into().ok()?),
        revision: u32::from_be_bytes(key[6..10].try_into().ok()?),
        role,
    })
}

fn decode_fields(value: &[u8]) -> Option<FieldMask> {
    Some(FieldMask(u32::from_be_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, Lid, Lmc};

    use super::*;

    #[test]
    fn what_was_remembered_comes_back() {
        let mut before = Remembered {
            generation: 7,
            ..Remembered::default()
        };
        let claim = Claim {
            base: Lid(8),
            lmc: Lmc::from_bits(2),
        };
        before.claims.insert(Guid(1), claim);
        let kind = DeviceKind {
            vendor: 0x2c9,
            device: 4129,
            revision: 3,
            role: PortRole::External,
        };
        before.not_kept.learn(kind, FieldMask(0x81));
        let mut persisted = Persisted::default();
        persisted.apply(&changes(&persisted, &before));
        let after = remembered(&persisted);
        assert_eq!(after.claims, before.claims);
        assert_eq!(after.not_kept, before.not_kept);
        assert_eq!(after.generation, 7);
        assert!(
            changes(&persisted, &after).is_empty(),
            "nothing is written twice"
        );
    }
}
