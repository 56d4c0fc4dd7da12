//! M_Keys of ports (IBA 14.2.4): one key for all ports, or a key for each port, derived from a
//! secret.
//!
//! A port holds its own M_Key, and port 0 of a switch holds the M_Key of the switch. The key of a
//! single port is
//!
//! ```text
//! HMAC-SHA256(secret, "rsm M_Key 1" ‖ generation ‖ node GUID ‖ port ‖ attempt)
//! ```
//!
//! whose first eight bytes count, big-endian. Generation and node GUID have eight bytes each,
//! big-endian as well; port and attempt have one byte each. The port is 0 for a switch. The attempt
//! is 0, or the first number whose key is not zero. The input is node GUID and port number rather
//! than port GUID: a manager that knows a cable from an earlier run must know the key of the port
//! behind it before that port answers anything, as at protection levels 2 and 3.
//!
//! A rotation increments the generation. No generation is forgotten, so that a port that was absent
//! during any number of rotations is found by its former key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hmac::digest::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rsm_ids::{Guid, PortKey};
use sha2::Sha256;

/// Length of a secret in bytes.
pub const SECRET_BYTES: usize = 32;

/// Maximum number of secrets: the secret in use and its predecessors.
pub(crate) const SECRETS_MAX: usize = 4;

/// First part of the input, so that any other use of the secret derives other keys.
const LABEL: &[u8] = b"rsm M_Key 1";

/// Input for the fingerprint of a secret.
const FINGERPRINT: &[u8] = b"rsm M_Key secret 1";

/// Number of generations after the known generation whose keys are tried, because another manager
/// may have rotated keys since.
const AHEAD: u64 = 3;

/// Number of generations before the known generation whose keys are tried at a port that hides
/// its key.
const BEHIND: u64 = 8;

/// A secret from which keys are derived. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// Creates a secret of these bytes.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// The M_Key of a port in this generation; never zero.
    pub fn m_key(&self, generation: u64, holder: PortKey) -> u64 {
        let Guid(node) = holder.node;
        let mut derived = (0..=u8::MAX).map(|attempt| {
            let digest = hmac_sha256(
                &self.0,
                &[
                    LABEL,
                    &generation.to_be_bytes(),
                    &node.to_be_bytes(),
                    &[holder.port.0, attempt],
                ],
            );
            let (first, _) = digest.split_at(8);
            first
                .iter()
                .fold(0, |key, &byte| key << 8 | u64::from(byte))
        });
        // 256 zero keys in a row do not occur; 1 is a key like any other key.
        derived.find(|&key| key != 0).unwrap_or(1)
    }

    /// A number by which managers compare their secrets. No key can be derived from it.
    pub fn fingerprint(&self) -> u64 {
        let digest = hmac_sha256(&self.0, &[FINGERPRINT]);
        let (first, _) = digest.split_at(8);
        first
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// HMAC-SHA256 (RFC 2104) of the concatenated `parts`. `key` has at most one block, 64 bytes.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A shorter key is padded with zeroes.
    let mut block = Key::<Hmac<Sha256>>::default();
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Generations of the keys: numbers of rotations, for switches and for all other ports. If another
/// manager may have changed keys, only the generation of switches is ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Generations {
    /// Generation of switches.
    pub switches: u64,
    /// Generation of ports of hosts and routers.
    pub others: u64,
}

impl Generations {
    /// Generation of this kind of node.
    fn of(self, is_switch: bool) -> u64 {
        match is_switch {
            true => self.switches,
            false => self.others,
        }
    }

    fn highest(self) -> u64 {
        self.switches.max(self.others)
    }

    /// The generations after a rotation of all keys.
    #[must_use]
    pub fn rotated(self) -> Generations {
        let next = self.highest().saturating_add(1);
        Generations {
            switches: next,
            others: next,
        }
    }

    /// The generations after a rotation of the keys of switches that must be unknown to another
    /// manager. The rotation skips a generation, which that manager may have begun to use
    /// unnoticed.
    #[must_use]
    pub fn fenced(self) -> Generations {
        Generations {
            switches: self.highest().saturating_add(2),
            ..self
        }
    }

    /// The later generation of each of the two kinds.
    #[must_use]
    pub fn later(self, other: Generations) -> Generations {
        Generations {
            switches: self.switches.max(other.switches),
            others: self.others.max(other.others),
        }
    }
}

/// Keys that ports hold according to the files of another manager, and the cables by which that
/// manager reached the ports.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ForeignKeys {
    /// M_Keys by port GUID; for a switch, by node GUID.
    pub by_port: BTreeMap<Guid, u64>,
    /// GUID of the port at the other end of a cable, by GUID and number of the port here.
    pub neighbors: BTreeMap<(Guid, u8), Guid>,
}

impl fmt::Debug for ForeignKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} foreign keys", self.by_port.len())
    }
}

/// A port that holds an M_Key: port 0 of a switch, or any port of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHolder {
    /// Node and port.
    pub port: PortKey,
    /// GUID of the port; zero while it is not known.
    pub guid: Guid,
    /// Whether the port is port 0 of a switch.
    pub is_switch: bool,
}

/// The planned M_Keys of ports, and earlier keys that ports may still hold.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MKeyPolicy {
    /// The key of all ports; with a key per port, an earlier key that ports may still hold. 0 for
    /// none.
    pub one: u64,
    /// Whether each port has its own key. Requires a secret.
    pub per_port: bool,
    /// The secrets. The first is in use; ports may still hold keys derived from the other secrets.
    pub secrets: Arc<[Secret]>,
    /// The generation in use.
    pub generations: Generations,
    /// Keys that ports hold according to files of another manager.
    pub foreign: Arc<ForeignKeys>,
}

impl MKeyPolicy {
    /// A policy with one key for all ports and no earlier keys; 0 for no key.
    pub fn one(key: u64) -> MKeyPolicy {
        MKeyPolicy {
            one: key,
            ..MKeyPolicy::default()
        }
    }

    /// The secret from which keys are derived; `None` unless each port has its own key.
    pub fn secret(&self) -> Option<&Secret> {
        self.secrets.first().filter(|_| self.per_port)
    }

    /// Whether every port is planned to hold the one key, and no port may still hold an earlier
    /// key.
    pub fn is_uniform(&self) -> bool {
        self.secrets.is_empty() && self.foreign.by_port.is_empty()
    }

    /// Whether ports are planned to hold any key.
    pub fn protects(&self) -> bool {
        self.one != 0 || self.secret().is_some()
    }

    /// The planned key of a port; 0 for none.
    pub fn planned(&self, holder: KeyHolder) -> u64 {
        match self.secret() {
            Some(secret) => secret.m_key(self.generations.of(holder.is_switch), holder.port),
            None => self.one,
        }
    }

    /// The keys that a port may hold, without duplicates, the most likely first. No key is zero,
    /// because a port without a key accepts any key.
    pub fn candidates(&self, holder: KeyHolder) -> Vec<u64> {
        let mut keys = vec![self.planned(holder)];
        let own = self.generations.of(holder.is_switch);
        keys.extend(self.before_fence(holder));
        let near = [
            own,
            own.saturating_sub(1),
            self.generations.of(!holder.is_switch),
        ];
        keys.extend(self.foreign.by_port.get(&holder.guid));
        keys.push(self.one);
        keys.extend(self.later(holder).into_iter().take(1));
        if let Some(secret) = self.secrets.first() {
            keys.extend(near.map(|generation| secret.m_key(generation, holder.port)));
        }
        keys.extend(self.later(holder));
        for secret in self.secrets.iter().skip(1) {
            keys.extend(near.map(|generation| secret.m_key(generation, holder.port)));
        }
        for secret in self.secrets.iter() {
            let earlier = (2..=BEHIND).filter_map(|less| own.checked_sub(less));
            keys.extend(earlier.map(|generation| secret.m_key(generation, holder.port)));
        }
        let mut seen = Vec::with_capacity(keys.len());
        for key in keys {
            if key != 0 && !seen.contains(&key) {
                seen.push(key);
            }
        }
        seen
    }

    /// The key of a switch before the last fence, or the key that a host's port would have after
    /// that fence; `None` if there was no fence.
    fn before_fence(&self, holder: KeyHolder) -> Option<u64> {
        let other = self.generations.of(!holder.is_switch);
        let is_fenced = other != self.generations.of(holder.is_switch);
        let secret = self.secret().filter(|_| is_fenced)?;
        Some(secret.m_key(other, holder.port))
    }

    /// The keys of a port in the generations after its own, up to `AHEAD` after the highest one in
    /// use. A fence skips the generation that another manager may have begun to use.
    pub fn later(&self, holder: KeyHolder) -> Vec<u64> {
        let first = self.generations.of(holder.is_switch).saturating_add(1);
        let later = first..=self.generations.highest().saturating_add(AHEAD);
        let secret = self.secrets.first().into_iter();
        secret
            .flat_map(|secret| {
                later
                    .clone()
                    .map(|generation| secret.m_key(generation, holder.port))
            })
            .collect()
    }

    /// The generation in which a port holds `key`, if this generation is later than the generation
    /// in use because another manager has rotated keys. `None` if there is no such generation.
    pub fn ahead(&self, holder: KeyHolder, key: u64) -> Option<u64> {
        let secret = self.secret()?;
        let own = self.generations.of(holder.is_switch);
        let last = self.generations.highest().saturating_add(AHEAD);
        let mut later = own.saturating_add(1)..=last;
        later.find(|&generation| secret.m_key(generation, holder.port) == key)
    }
}

impl fmt::Debug for MKeyPolicy {
    /// Formats the policy without secret keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MKeyPolicy")
            .field("has_one", &(self.one != 0))
            .field("per_port", &self.per_port)
            .field("secrets", &self.secrets.len())
            .field("generations", &self.generations)
            .field("foreign", &self.foreign)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;

    /// Key, parts of the message, and digest.
    type HmacCase<'a> = (&'a [u8], &'a [&'a [u8]], &'a str);

    /// Test cases 1, 2 and 3 of RFC 4231.
    #[test]
    fn hmac_equals_the_test_cases_of_rfc_4231() {
        let cases: [HmacCase<'_>; 3] = [
            (
                &[0x0b; 20],
                &[b"Hi ", b"There"],
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                &[b"what do ya want ", b"for nothing?"],
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 20],
                &[&[0xdd; 50]],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
        ];
        for (key, parts, expected) in cases {
            assert_eq!(hex::encode(hmac_sha256(key, parts)), expected);
        }
    }

    fn holder(node: u64, port: u8) -> KeyHolder {
        KeyHolder {
            port: PortKey::new(Guid(node), PortNum(port)),
            guid: Guid(node + 100),
            is_switch: port == 0,
        }
    }

    fn per_port(secrets: &[u8]) -> MKeyPolicy {
        let secrets = secrets
            .iter()
            .map(|&byte| Secret::new([byte; SECRET_BYTES]));
        MKeyPolicy {
            per_port: true,
            secrets: secrets.collect(),
            ..MKeyPolicy::default()
        }
    }

    /// Computed by `python3 -c 'import hmac; m = b"rsm M_Key 1" + (3).to_bytes(8) +
    /// (0x2c903).to_bytes(8) + b"\1\0"; print(hmac.digest(b"\7" * 32, m, "sha256")[:8].hex())'`
    #[test]
    fn key_is_the_documented_derivation() {
        let key = Secret::new([7; SECRET_BYTES]).m_key(3, holder(0x2c903, 1).port);
        assert_eq!(format!("{key:016x}"), "7c645e7682134be8");
    }

    /// Computed by `python3 -c 'import hmac; print(hmac.digest(b"\7" * 32, b"rsm M_Key secret 1",
    /// "sha256")[:8].hex())'`
    #[test]
    fn fingerprint_of_a_secret_is_no_key_and_differs_by_secret() {
        let of = |byte| Secret::new([byte; SECRET_BYTES]).fingerprint();
        assert_eq!(format!("{:016x}", of(7)), "12b88b9a731ed015");
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn keys_differ_by_secret_generation_node_and_port() {
        let key = |secret, generation, node, port| {
            Secret::new([secret; SECRET_BYTES]).m_key(generation, holder(node, port).port)
        };
        let keys = [
            key(1, 0, 5, 1),
            key(2, 0, 5, 1),
            key(1, 1, 5, 1),
            key(1, 0, 6, 1),
            key(1, 0, 5, 2),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(at + 1).all(|other| other != one));
        }
    }

    #[test]
    fn candidates_contain_every_former_key_once() {
        let mut policy = per_port(&[1, 2]);
        policy.one = 0xc0ffee;
        policy.generations = Generations {
            switches: 4,
            others: 3,
        };
        policy.foreign = Arc::new(ForeignKeys {
            by_port: BTreeMap::from([(Guid(105), 0xbeef)]),
            neighbors: BTreeMap::new(),
        });
        let port = holder(5, 1);
        let candidates = policy.candidates(port);
        assert_eq!(candidates.first(), Some(&policy.planned(port)));
        let of = |secret: usize, generation| policy.secrets[secret].m_key(generation, port.port);
        let mut expected = vec![0xc0ffee, 0xbeef];
        expected.extend((0..=7).map(|generation| of(0, generation)));
        expected.extend((0..=4).map(|generation| of(1, generation)));
        for key in &expected {
            assert!(candidates.contains(key), "{key:x}");
        }
        assert_eq!(candidates.len(), expected.len());
        assert_eq!(policy.planned(port), of(0, 3));
        assert_eq!(policy.ahead(port, of(0, 5)), Some(5));
        assert_eq!(policy.ahead(port, of(0, 3)), None);
    }

    #[test]
    fn candidates_after_a_fence_include_the_skipped_generation() {
        let mut policy = per_port(&[1]);
        policy.generations = Generations::default().fenced();
        for port in [holder(5, 1), holder(5, 0)] {
            let skipped = policy.secrets[0].m_key(1, port.port);
            assert!(policy.candidates(port).contains(&skipped));
        }
        assert_eq!(policy.later(holder(5, 1)).len(), 5);
    }

    #[test]
    fn without_a_secret_all_ports_have_the_one_key() {
        let policy = MKeyPolicy {
            per_port: true,
            ..MKeyPolicy::one(7)
        };
        assert!(policy.is_uniform());
        assert_eq!(policy.candidates(holder(5, 1)), [7]);
        assert_eq!(MKeyPolicy::default().candidates(holder(5, 1)), [0; 0]);
    }

    #[test]
    fn debug_shows_no_key() {
        let mut policy = per_port(&[0xab]);
        policy.one = 0xdead_beef;
        let text = format!("{policy:?} {policy:#?}").to_lowercase();
        for secret in ["171", "abab", "deadbeef", "3735928559"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn fence_advances_only_switches_and_rotation_advances_all() {
        let fenced = Generations::default().fenced();
        assert_eq!((fenced.switches, fenced.others), (2, 0));
        let rotated = fenced.rotated();
        assert_eq!((rotated.switches, rotated.others), (3, 3));
        assert_eq!(fenced.later(rotated), rotated);
    }
}
