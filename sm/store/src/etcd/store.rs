//! [`EtcdStore`]: reads, claims and commits through etcd's API.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rsm_ids::Guid;
use rsm_proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use rsm_proto::etcd::request_op::Request as Op;
use rsm_proto::etcd::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RequestOp, TxnRequest, TxnResponse,
};
use tokio::runtime::Runtime;

use super::client::{Client, EtcdOptions, Limits};
use super::pages::{PAGE_MAX, PageName, Pages, family, table_of};
use crate::io::FileOperation;
use crate::{
    CLAIMS, ChangeSet, ClaimCondition, Deadline, Epoch, LoadReport, Origin, Persisted, SeenEpoch,
    SharedStore, Store, StoreError,
};

/// Value of the key `format`.
const FORMAT: &str = "rsm-store 1";

/// Value of the key `beat` after the holder has released the epoch.
const RELEASED: &str = "released";

/// Maximum number of keys changed in one transaction: etcd's default limit is 128, and the
/// remaining operations write the generation.
const OPS_MAX: usize = 120;

/// Time limits of a reading of all keys, whose answers may contain the pages of the whole subnet.
const LOAD: Limits = Limits {
    until_next: Duration::from_secs(2),
    total: Duration::from_secs(5),
};

/// Time limits of a write. One member of etcd gets most of the time, because two members that make
/// the same write at different times could overwrite a newer value with an older one. etcd itself
/// gives up after seven seconds.
const WRITE: Limits = Limits {
    until_next: Duration::from_secs(5),
    total: Duration::from_secs(7),
};

/// Time limits for reading the epoch and for writing a sign of life. A hanging member of etcd must
/// cost less time than the silence after which a holder counts as gone
/// ([`SILENT`](crate::replica::SILENT)).
const QUICK: Limits = Limits {
    until_next: Duration::from_millis(250),
    total: Duration::from_secs(1),
};

/// Time limits of a claim. If two members of etcd execute it, only one succeeds.
const CLAIM: Limits = Limits {
    until_next: QUICK.until_next,
    total: Duration::from_secs(5),
};

/// Minimum time that a claim with a deadline has, once it is granted, for reading the last writes
/// of the predecessor. With it, a takeover takes less than two seconds.
const LAST_WRITES: Duration = Duration::from_millis(500);

/// Time between two compactions.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// A store in etcd.
pub struct EtcdStore {
    runtime: Runtime,
    client: Client,
    deadline: Deadline,
    /// Prefix of the keys, ending in a slash.
    prefix: String,
    /// The contents of the keys after the last commit or reading.
    pages: Pages,
    /// The decoded rows of `pages`.
    state: Persisted,
    /// All keys at the last reading, without the prefix.
    keys: BTreeSet<String>,
    /// Value of the key `format`; `None` if there is no such key.
    format: Option<String>,
    /// Revision of the last reading; 0 if all keys must be read.
    revision: i64,
    /// Generation of the last stored plan.
    generation: u64,
    /// Tables whose pages were read since the last [`SharedStore::follow`].
    touched: BTreeSet<String>,
    /// Pages whose transaction failed, which the next commit writes again.
    unwritten: BTreeSet<PageName>,
    /// The epoch that this manager holds, with the modification revision of its key.
    held: Option<(Epoch, i64)>,
    /// Number of signs of life so far.
    beats: u64,
    /// Revision and time of the last compaction; the next compaction drops values before this
    /// revision. `None` before the first write.
    compacted: Option<(i64, Instant)>,
    closed: bool,
}

impl EtcdStore {
    /// Creates a store that connects with its first call.
    ///
    /// # Errors
    /// [`StoreError::Setting`] if an endpoint or a file cannot be used; [`StoreError::Io`] if the
    /// operating system refuses the client a resource.
    pub fn new(options: &EtcdOptions) -> Result<EtcdStore, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| StoreError::Io {
                operation: FileOperation::Read,
                path: "epoll".into(),
                source,
            })?;
        let deadline = Deadline::default();
        Ok(EtcdStore {
            runtime,
            client: Client::new(options, deadline.clone())?,
            deadline,
            prefix: format!("{}/", options.prefix.trim_end_matches('/')),
            pages: Pages::default(),
            state: Persisted::default(),
            keys: BTreeSet::new(),
            format: None,
            revision: 0,
            generation: 0,
            touched: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            held: None,
            beats: 0,
            compacted: None,
            closed: false,
        })
    }

    /// The key with this name below the prefix.
    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// Reads all keys whose names begin with `name`.
    fn read(&mut self, name: &str, limits: Limits) -> Result<Vec<KeyValue>, StoreError> {
        let (from, end) = self.span(name);
        let range = self.client.range(&from, &end, 0, limits);
        Ok(self.runtime.block_on(range)?.pairs)
    }

    /// The range of all keys whose names begin with `name`: its first key, and the key after it.
    fn span(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let from = self.key(name);
        let mut end = from.clone();
        // The prefix ends in a slash or a letter, so that the range ends at the next byte value.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (from, end)
    }

    /// The error about a damaged key.
    fn corrupt(&self, name: &str, reason: impl Into<String>) -> StoreError {
        StoreError::Corrupt {
            key: format!("{}{name}", self.prefix),
            reason: reason.into(),
            prefix: self.prefix.clone(),
        }
    }

    /// Brings pages and state up to date: reads the keys that have changed since the last call. The
    /// first call reads all keys.
    ///
    /// # Errors
    /// Fails if the store is unreachable, damaged, or contains keys that rsm did not write.
    fn read_changes(&mut self, limits: Limits) -> Result<(), StoreError> {
        // If this call fails later, the next call reads all keys.
        let before = std::mem::take(&mut self.revision);
        let (from, end) = self.span("");
        let since = if before == 0 { 0 } else { before + 1 };
        let range = self.client.range(&from, &end, since, limits);
        let ranged = match self.runtime.block_on(range) {
            Ok(ranged) => ranged,
            Err(error) => {
                // Nothing was read, so that the next call continues from here.
                self.revision = before;
                return Err(error);
            }
        };
        let revision = ranged.revision;
        if revision < before {
            // The store is an older copy of itself, in which other keys may have changed.
            return self.read_changes(limits);
        }
        if before == 0 {
            // Pages and state are emptied only once the store has answered: until then, a manager
            // continues with the last state.
            (self.pages, self.state) = (Pages::default(), Persisted::default());
            (self.keys, self.format) = (BTreeSet::new(), None);
            self.generation = 0;
        }
        for pair in &ranged.pairs {
            let name = self.name_of(pair)?;
            self.apply(&name, &pair.value)?;
            self.keys.insert(name);
        }
        // The numbers differ only if keys were removed. In most cases, one request is enough.
        if ranged.count != self.keys.len() as u64 {
            let names = self.client.list_keys(&from, &end, revision, limits);
            let names = self.runtime.block_on(names)?;
            let names: Result<BTreeSet<String>, _> =
                names.iter().map(|pair| self.name_of(pair)).collect();
            let names = names?;
            for removed in self.keys.difference(&names) {
                match removed.strip_prefix("pages/") {
                    Some(page) => {
                        self.touched.insert(table_of(page).to_owned());
                        self.pages.forget(page, &mut self.state);
                    }
                    None if removed == "format" => self.format = None,
                    None => {}
                }
            }
            self.keys = names;
        }
        match (self.format.as_deref(), self.keys.first()) {
            (None, None) | (Some(FORMAT), _) => {}
            (Some(other), _) => {
                let reason = format!("it is `{other}`, this version reads `{FORMAT}`");
                return Err(self.foreign("format", reason));
            }
            (None, Some(name)) => return Err(self.foreign(name, "there is no key `format`")),
        }
        self.unwritten.clear();
        self.revision = revision;
        Ok(())
    }

    /// Applies a key that was read to pages and state.
    fn apply(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        match name.split_once('/') {
            None if name == "format" => self.format = Some(text(value)),
            None if name == "generation" => {
                let number = text(value).parse();
                self.generation = number.map_err(|_| self.corrupt(name, "expected a number"))?;
                self.state.plan_generation = self.generation;
            }
            None if name == "epoch" || name == "beat" => {}
            Some(("managers", _)) => {}
            Some(("pages", page)) => {
                self.touched.insert(table_of(page).to_owned());
                let read = self.pages.follow(page, value, &mut self.state);
                read.map_err(|reason| self.corrupt(name, reason))?;
            }
            _ => return Err(self.foreign(name, "rsm has no such key")),
        }
        Ok(())
    }

    /// Name of a key, without the prefix.
    fn name_of(&self, pair: &KeyValue) -> Result<String, StoreError> {
        let key = text(&pair.key);
        match key.strip_prefix(&self.prefix) {
            Some(name) => Ok(name.to_owned()),
            None => Err(self.foreign(&key, "it is outside the prefix")),
        }
    }

    /// The error about a key that rsm did not write.
    fn foreign(&self, name: &str, reason: impl Into<String>) -> StoreError {
        StoreError::Foreign {
            key: format!("{}{name}", self.prefix),
            reason: reason.into(),
        }
    }

    /// Runs the operations `success` on the condition that this manager still holds the epoch.
    /// Returns the revision of the store after them.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] if another manager holds the epoch; then no operation was run. Also
    /// fails if this manager holds no epoch, or if the store is unreachable.
    fn fenced(&mut self, success: Vec<RequestOp>, limits: Limits) -> Result<i64, StoreError> {
        let Some((_, revision)) = self.held else {
            return Err(StoreError::NoEpoch);
        };
        let compare = compare_revision(self.key("epoch"), revision);
        let answer = self.transact(vec![compare], success, limits)?;
        if answer.succeeded {
            return Ok(answer.header.map_or(0, |header| header.revision));
        }
        // If this reading fails, `held` stays, and the next write fails at the epoch again.
        let seen = self.observe()?;
        self.held = None;
        // The rows of the failed transaction are not in the store: a later claim reads all keys.
        match seen {
            Some(seen) => Err(StoreError::Deposed(seen.epoch)),
            None => Err(self.foreign("epoch", "it was removed")),
        }
    }

    /// The conditions of a claim. With `is_format_known`, the key `format` must also have the value
    /// of this version.
    fn conditions(
        &self,
        seen: Option<SeenEpoch>,
        condition: ClaimCondition,
        is_format_known: bool,
    ) -> Vec<Compare> {
        // The modification revision of a key that was never written is 0.
        let revision = seen.map_or(0, |seen| seen.revision);
        let mut conditions = vec![compare_revision(self.key("epoch"), revision)];
        if let (ClaimCondition::HolderSilent, Some(seen)) = (condition, seen) {
            conditions.push(compare_revision(self.key("beat"), seen.beat));
        }
        if is_format_known {
            conditions.push(Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Value.into(),
                key: self.key("format"),
                target_union: Some(TargetUnion::Value(FORMAT.into())),
            });
        }
        conditions
    }

    /// Runs a transaction: the operations `success` if all conditions in `compare` are met.
    fn transact(
        &mut self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
        limits: Limits,
    ) -> Result<TxnResponse, StoreError> {
        let request = TxnRequest {
            compare,
            success,
            failure: Vec::new(),
        };
        self.runtime.block_on(self.client.txn(request, limits))
    }

    /// Writes the pages in [`EtcdStore::unwritten`] in as few transactions as possible. Pages of
    /// one [family] share a transaction if they fit.
    fn write(&mut self) -> Result<(), StoreError> {
        while !self.unwritten.is_empty() {
            let (names, ops) = self.next_batch()?;
            let revision = self.fenced(ops, WRITE)?;
            for name in names {
                self.unwritten.remove(&name);
            }
            self.compact(revision);
        }
        Ok(())
    }

    /// The pages of the next transaction, at least one, and the operations that write them.
    fn next_batch(&self) -> Result<(Vec<PageName>, Vec<RequestOp>), StoreError> {
        let names: Vec<&PageName> = self.unwritten.iter().collect();
        let (mut batch, mut ops, mut bytes) = (Vec::new(), Vec::new(), 0);
        for group in names.chunk_by(|one, next| family(one) == family(next)) {
            let mut encoded = Vec::with_capacity(group.len());
            for &name in group {
                let key = self.key(&format!("pages/{name}"));
                encoded.push((name, op(key, self.pages.encode(name)?)));
            }
            let size: usize = encoded.iter().map(|(_, op)| op_size(op)).sum();
            let fits = ops.len() + encoded.len() <= OPS_MAX && bytes + size <= PAGE_MAX;
            if !fits && !ops.is_empty() {
                break;
            }
            // A family is split only if it alone is too large for a transaction. The wide rows of
            // the family are then written first, so that a row that moves is for a moment in two
            // pages, rather than in none.
            encoded.reverse();
            for (name, op) in encoded {
                let size = op_size(&op);
                if !ops.is_empty() && (ops.len() == OPS_MAX || bytes + size > PAGE_MAX) {
                    return Ok((batch, ops));
                }
                batch.push(name.clone());
                bytes += size;
                ops.push(op);
            }
        }
        Ok((batch, ops))
    }

    /// Every [`COMPACT_EVERY`], makes etcd drop the values that were replaced before the revision
    /// of the last compaction. Without compaction, etcd keeps all old values.
    fn compact(&mut self, revision: i64) {
        let Some((before, at)) = self.compacted else {
            self.compacted = Some((revision, now()));
            return;
        };
        if at.elapsed() < COMPACT_EVERY {
            return;
        }
        self.compacted = Some((revision, now()));
        if let Err(error) = self.runtime.block_on(self.client.compact(before, QUICK)) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "etcd keeps replaced values"
            );
        }
    }
}

impl Store for EtcdStore {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        self.read_changes(LOAD)?;
        let state = self.state.clone();
        let is_fresh = state.is_empty() && state.plan_generation == 0;
        let report = LoadReport {
            origin: if is_fresh {
                Origin::Fresh
            } else {
                Origin::Clean
            },
            generation: state.plan_generation,
            ..LoadReport::default()
        };
        Ok((state, report))
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::Closed);
        }
        if self.held.is_none() {
            return Err(StoreError::NoEpoch);
        }
        let changed = self.pages.apply(changes);
        self.state.apply(changes);
        self.unwritten.extend(changed);
        self.write()?;
        let generation = changes.plan_generation.unwrap_or(self.generation);
        if generation != self.generation {
            let key = self.key("generation");
            let put = op(key, Some(generation.to_string().into_bytes()));
            self.fenced(vec![put], WRITE)?;
            self.generation = generation;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.closed = true;
        self.held = None;
        Ok(())
    }
}

impl SharedStore for EtcdStore {
    fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    fn observe(&mut self) -> Result<Option<SeenEpoch>, StoreError> {
        let (mut epoch, mut beat, mut is_released, mut plan) = (None, 0, false, 0);
        // One request for the range from `beat` to `generation` is enough: rsm has only the keys
        // `epoch` and `format` between them.
        let (from, end) = (self.key("beat"), self.key("generation\0"));
        let range = self.client.range(&from, &end, 0, QUICK);
        for pair in self.runtime.block_on(range)?.pairs {
            match self.name_of(&pair)?.as_str() {
                "epoch" => {
                    let read = read_epoch(&text(&pair.value));
                    let read =
                        read.ok_or_else(|| self.corrupt("epoch", "expected number=N holder=GUID"))?;
                    epoch = Some((read, pair.mod_revision));
                }
                "beat" => {
                    beat = pair.mod_revision;
                    is_released = text(&pair.value) == RELEASED;
                }
                name @ "generation" => {
                    let number = text(&pair.value).parse();
                    plan = number.map_err(|_| self.corrupt(name, "expected a number"))?;
                }
                _ => {}
            }
        }
        Ok(epoch.map(|(epoch, revision)| SeenEpoch {
            epoch,
            revision,
            beat,
            is_released,
            plan,
        }))
    }

    fn claim(
        &mut self,
        holder: Guid,
        seen: Option<SeenEpoch>,
        condition: ClaimCondition,
    ) -> Result<Option<Epoch>, StoreError> {
        // Keys that rsm did not write must stay unchanged. If the key `format` was rsm's at the
        // last reading, the transaction checks that it still is.
        let is_format_known = self.revision != 0 && self.format.is_some();
        if !is_format_known {
            self.read_changes(LOAD)?;
        }
        let epoch = Epoch {
            number: seen.map_or(0, |seen| seen.epoch.number) + 1,
            holder,
        };
        let value = format!("number={} holder={}", epoch.number, epoch.holder);
        let success = vec![
            op(self.key("epoch"), Some(value.into_bytes())),
            op(self.key("format"), Some(FORMAT.into())),
            op(self.key("beat"), Some(b"0".to_vec())),
        ];
        let compare = self.conditions(seen, condition, is_format_known);
        let answer = self.transact(compare, success, CLAIM)?;
        let revision = match answer.succeeded {
            true => answer.header.map_or(0, |header| header.revision),
            false => match self.observe()?.filter(|seen| seen.epoch == epoch) {
                // The claim has succeeded at another member of etcd, whose answer was lost.
                Some(seen) => seen.revision,
                None => {
                    if is_format_known {
                        self.read_changes(LOAD)?;
                    }
                    return Ok(None);
                }
            },
        };
        // This manager holds the epoch from now on. It takes over without the last writes of its
        // predecessor rather than late: a later claim reads them.
        if let Some(by) = self.deadline.get() {
            self.deadline.set(Some(by.max(now() + LAST_WRITES)));
        }
        self.read_changes(LOAD)?;
        // During this epoch, the pages have the contents to write. After the epoch, all keys are
        // read again.
        self.revision = 0;
        self.held = Some((epoch, revision));
        Ok(Some(epoch))
    }

    fn beat(&mut self) -> Result<(), StoreError> {
        self.beats += 1;
        let key = self.key("beat");
        let value = self.beats.to_string().into_bytes();
        self.fenced(vec![op(key, Some(value))], QUICK).map(drop)
    }

    fn announce(
        &mut self,
        own: Guid,
        checksums: &str,
    ) -> Result<BTreeMap<Guid, String>, StoreError> {
        let mut managers = BTreeMap::new();
        for pair in self.read("managers/", QUICK)? {
            let name = self.name_of(&pair)?;
            let guid = name.strip_prefix("managers/");
            let guid = guid.and_then(|guid| guid.parse().ok());
            let guid = guid.ok_or_else(|| self.foreign(&name, "expected a GUID at its end"))?;
            managers.insert(guid, text(&pair.value));
        }
        if managers.get(&own).map(String::as_str) != Some(checksums) {
            let key = self.key(&format!("managers/{own}"));
            // The key belongs to this manager, and its write needs no epoch.
            let put = op(key, Some(checksums.as_bytes().to_vec()));
            self.transact(Vec::new(), vec![put], QUICK)?;
            managers.insert(own, checksums.to_owned());
        }
        Ok(managers)
    }

    fn release(&mut self) {
        if self.held.is_none() {
            return;
        }
        let put = op(self.key("beat"), Some(RELEASED.into()));
        if let Err(error) = self.fenced(vec![put], QUICK) {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the shared store does not record the release of the epoch"
            );
        }
        self.held = None;
    }

    fn state(&self) -> Persisted {
        self.state.clone()
    }

    fn follow(&mut self) -> Result<BTreeSet<String>, StoreError> {
        self.read_changes(LOAD)?;
        Ok(std::mem::take(&mut self.touched))
    }

    fn tables(&self, names: &[&str]) -> Persisted {
        let tables = self.state.records.iter();
        let wanted = tables.filter(|(name, _)| names.contains(&name.as_str()));
        let claims = names.contains(&CLAIMS).then(|| self.state.claims.clone());
        Persisted {
            claims: claims.unwrap_or_default(),
            records: wanted
                .map(|(name, rows)| (name.clone(), rows.clone()))
                .collect(),
            ..Persisted::default()
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "etcd's database grows in real time"
)]
fn now() -> Instant {
    Instant::now()
}

/// The condition that `key` was last modified at `revision`; 0 for a key that does not exist.
fn compare_revision(key: Vec<u8>, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key,
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

/// The operation that writes `value`, or removes the key if `value` is `None`.
fn op(key: Vec<u8>, value: Option<Vec<u8>>) -> RequestOp {
    let request = match value {
        Some(value) => Op::RequestPut(PutRequest { key, value }),
        None => Op::RequestDeleteRange(DeleteRangeRequest {
            key,
            range_end: Vec::new(),
        }),
    };
    RequestOp {
        request: Some(request),
    }
}

/// Number of bytes of an operation: the key and the value.
fn op_size(op: &RequestOp) -> usize {
    match &op.request {
        Some(Op::RequestPut(put)) => put.key.len() + put.value.len(),
        Some(Op::RequestDeleteRange(delete)) => delete.key.len(),
        Some(Op::RequestRange(_)) | None => 0,
    }
}

/// The bytes as lossy text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The epoch in the value of the key `epoch`; `None` if the text is invalid.
fn read_epoch(text: &str) -> Option<Epoch> {
    let (number, holder) = text.split_once(' ')?;
    Some(Epoch {
        number: number.strip_prefix("number=")?.parse().ok()?,
        holder: holder.strip_prefix("holder=")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn epoch_is_read_as_it_was_written_and_invalid_text_is_refused() {
        let epoch = Epoch {
            number: 7,
            holder: Guid(0x0002_c903_0000_0001),
        };
        let written = format!("number={} holder={}", epoch.number, epoch.holder);
        assert_eq!(read_epoch(&written), Some(epoch));
        for other in [
            "",
            "7",
            "number=x holder=0x1",
            "number=1 holder=",
            "number=1",
        ] {
            assert_eq!(read_epoch(other), None, "{other}");
        }
    }

    #[test]
    fn all_hanging_endpoints_together_delay_a_call_no_longer_than_its_limit() {
        let listeners: Vec<TcpListener> = (0..6)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let endpoints = listeners
            .iter()
            .map(|listener| format!("http://{}", address(listener)));
        let options = EtcdOptions {
            endpoints: endpoints.collect(),
            prefix: "/rsm/fe80000000000000".to_owned(),
            ..EtcdOptions::default()
        };
        let mut store = EtcdStore::new(&options).unwrap();
        let begun = now();
        let error = store.observe().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
        // Calls one after the other would take six times as long.
        assert!(begun.elapsed() < 3 * QUICK.total, "{:?}", begun.elapsed());
    }
}
