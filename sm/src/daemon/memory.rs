//! What the core and subnet administration remember, in the store.
//!
//! Commits are made on a thread of their own, so that no convergence waits for a disk. Of several that wait, only the
//! last is made: each one is whole.

use std::path::Path;

use anyhow::Context as _;
use tokio::sync::watch;

use super::group_memory;
use crate::core::Remembered;
use crate::diff::{DeviceKind, NotKept, PortRole};
use crate::plan::lids::Claim;
use crate::plan::ports::FieldMask;
use crate::sa::mcast::{SavedGroup, View};
use crate::store::{ChangeSet, LidClaim, MemoryStore, Namespace, Persisted, SledStore, Store};

/// The table of fields that kinds of devices do not keep.
const NOT_KEPT: &str = "not-kept";

/// What is to be kept, as far as it was said.
#[derive(Clone, Default)]
struct Latest {
    remembered: Option<Box<Remembered>>,
    groups: Option<View>,
}

/// Keeps what the core remembers, and who takes part in multicast.
pub(super) struct Keeper {
    latest: watch::Sender<Latest>,
    thread: std::thread::JoinHandle<()>,
}

/// Opens the store in `dir` (`None`: nothing survives), and says what was remembered.
pub(super) fn open(dir: Option<&Path>) -> anyhow::Result<(Keeper, Remembered, Vec<SavedGroup>)> {
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
    let remembered = remembered(&persisted);
    let groups = group_memory::remembered(&persisted);
    let (latest, inbox) = watch::channel(Latest::default());
    let thread = std::thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || keep(store, persisted, inbox))
        .context("cannot start the thread of the store")?;
    Ok((Keeper { latest, thread }, remembered, groups))
}

impl Keeper {
    /// Keeps `remembered` from now on. Does not wait.
    pub(super) fn keep(&self, remembered: Box<Remembered>) {
        self.latest
            .send_modify(|latest| latest.remembered = Some(remembered));
    }

    /// Where it is told who takes part in multicast, to be kept from then on. Does not wait. The store closes
    /// when it is gone as well.
    pub(super) fn group_sink(&self) -> Box<dyn Fn(View) + Send> {
        let latest = self.latest.clone();
        Box::new(move |view| latest.send_modify(|latest| latest.groups = Some(view)))
    }

    /// Waits until everything is on the disk, and closes the store.
    pub(super) fn close(self) {
        drop(self.latest);
        if self.thread.join().is_err() {
            tracing::error!("the thread of the store panicked");
        }
    }
}

fn keep(mut store: Box<dyn Store>, mut persisted: Persisted, mut inbox: watch::Receiver<Latest>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let Ok(runtime) = runtime else {
        tracing::error!("the thread of the store cannot wait; nothing is remembered");
        return;
    };
    loop {
        // An error says that the sender is gone; what it sent last is still to be read.
        let open = runtime.block_on(inbox.changed()).is_ok();
        let latest = inbox.borrow_and_update().clone();
        {
            let mut changes = match &latest.remembered {
                Some(remembered) => changes(&persisted, remembered),
                None => ChangeSet::new(),
            };
            if let Some(groups) = &latest.groups {
                group_memory::changes(&persisted, groups, &mut changes);
            }
            // While a view is held, whoever changes groups has to copy them.
            drop(latest);
            if !changes.is_empty() {
                match store.commit(&changes) {
                    Ok(()) => persisted.apply(&changes),
                    Err(error) => {
                        tracing::error!(
                            error = &error as &dyn std::error::Error,
                            "cannot remember"
                        );
                    }
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
        not_kept,
        generation: persisted.plan_generation,
    }
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
