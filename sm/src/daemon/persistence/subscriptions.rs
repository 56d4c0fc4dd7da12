//! Stores subscriptions to notices, keyed by port and number.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::{InformInfo, Record as _};
use rsm_sa::events::{SavedSubscription, SubscriptionId, SubscriptionsView};
use rsm_store::journal::RowChange;
use rsm_store::{ChangeSet, Persisted};

use super::table;

/// Table of subscriptions.
const SUBSCRIPTIONS: &str = "subscriptions";

/// Length of a key in bytes: port GUID and number.
const KEY_LEN: usize = 10;
/// Length of the GRH in a value, in bytes.
const GRH_LEN: usize = 23;
/// Length of a value in bytes.
const VALUE_LEN: usize = InformInfo::LEN + 16 + 1 + 15 + GRH_LEN;

/// Table with copies of the rows of trusted subscriptions. Earlier versions do not know this table,
/// and read subscriptions without it. A subscription that an earlier version changed differs from
/// its copy, and is not trusted.
const TRUSTED: &str = "subscriptions-trusted";

/// Table of the P_Keys of subscriptions: the index of the P_Key (2 bytes), and the P_Key (2).
/// Earlier versions do not know this table, and write only the index, into the subscription's row.
const P_KEYS: &str = "subscriptions-p-keys";

/// Flag of a value: a GRH is present. In earlier versions bit 0 marked trust, based on an SM_Key
/// that every host could know; the bit is accepted and ignored. Earlier versions refuse values with
/// further bits.
const HAS_GRH: u8 = 1 << 1;
/// Lowest value of the flags that is invalid.
const FLAGS_END: u8 = 1 << 2;

/// Subscriptions in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> Vec<SavedSubscription> {
    let copy = |key: &[u8], value: &[u8]| Some((key.to_vec(), value.to_vec()));
    let trusted: table::Rows = table::read(persisted, TRUSTED, copy).into_iter().collect();
    let p_keys = table::read(persisted, P_KEYS, |key, value| {
        let (index, p_key) = value.split_first_chunk::<2>()?;
        let p_key = PKey(u16::from_be_bytes(p_key.try_into().ok()?));
        Some((key.to_vec(), (u16::from_be_bytes(*index), p_key)))
    });
    let p_keys: BTreeMap<_, _> = p_keys.into_iter().collect();
    table::read(persisted, SUBSCRIPTIONS, |key, value| {
        let is_trusted = trusted.get(key).is_some_and(|copy| copy == value);
        let saved = decode(key, value)?;
        let p_key = p_keys.get(key);
        let p_key = p_key.filter(|(index, _)| *index == saved.address.pkey_index);
        Some(SavedSubscription {
            trusted: is_trusted,
            p_key: p_key.map(|&(_, p_key)| p_key),
            ..saved
        })
    })
}

/// Adds the changes after which `persisted` holds the subscriptions of `view`.
pub(super) fn changes(persisted: &Persisted, view: &SubscriptionsView, changes: &mut ChangeSet) {
    let rows = view.save().map(|saved| encode(&saved));
    table::replace(persisted, SUBSCRIPTIONS, rows, changes);
    let trusted = view.save().filter(|saved| saved.trusted);
    let rows = trusted.map(|saved| encode(&saved));
    table::replace(persisted, TRUSTED, rows, changes);
    let p_keys = view.save();
    let p_keys = p_keys.filter_map(|saved| Some((key_of(&saved), p_key_of(&saved)?)));
    table::replace(persisted, P_KEYS, p_keys, changes);
}

/// Rows of all subscriptions of a port.
pub(super) fn rows(view: &SubscriptionsView, port: Guid) -> Vec<RowChange> {
    let before = SubscriptionId { port, number: 0 };
    let saved = view
        .save_not_before(before)
        .take_while(|saved| saved.port == port);
    let rows = saved.flat_map(|saved| {
        let (key, value) = encode(&saved);
        let trusted = saved.trusted.then(|| (key.clone(), value.clone()));
        let trusted = trusted.and_then(|(key, value)| table::set(TRUSTED, key, value));
        let p_key = p_key_of(&saved).map(|p_key| (key.clone(), p_key));
        let p_key = p_key.and_then(|(key, value)| table::set(P_KEYS, key, value));
        [table::set(SUBSCRIPTIONS, key, value), trusted, p_key]
    });
    let gone = |name| table::clear(name, port.0.to_be_bytes().to_vec());
    let gone = [gone(SUBSCRIPTIONS), gone(TRUSTED), gone(P_KEYS)];
    gone.into_iter().chain(rows).flatten().collect()
}

/// Key of a subscription.
fn key_of(saved: &SavedSubscription) -> Vec<u8> {
    let mut key = saved.port.0.to_be_bytes().to_vec();
    key.extend(saved.number.to_be_bytes());
    key
}

/// Value of a row of [`P_KEYS`]; `None` if the P_Key is unknown.
fn p_key_of(saved: &SavedSubscription) -> Option<Vec<u8>> {
    let p_key = saved.p_key?;
    let mut value = saved.address.pkey_index.to_be_bytes().to_vec();
    value.extend(p_key.0.to_be_bytes());
    Some(value)
}

/// Encodes a subscription, numbers big-endian, in the order in which [`decode`] reads. Absent
/// fields are zero.
fn encode(saved: &SavedSubscription) -> (Vec<u8>, Vec<u8>) {
    let key = key_of(saved);
    let address = &saved.address;
    let mut value = saved.info.as_bytes().to_vec();
    value.extend(saved.gid.0.to_be_bytes());
    value.push(match address.grh {
        Some(_) => HAS_GRH,
        None => 0,
    });
    value.extend(address.lid.0.to_be_bytes());
    value.extend(address.qpn.to_be_bytes());
    value.extend(address.qkey.to_be_bytes());
    value.extend([address.sl, address.path_bits]);
    value.extend(address.pkey_index.to_be_bytes());
    value.push(0);
    let mut grh = [0; GRH_LEN];
    if let Some(known) = &address.grh {
        grh[..16].copy_from_slice(&known.gid.0.to_be_bytes());
        grh[16..19].copy_from_slice(&[known.gid_index, known.hop_limit, known.traffic_class]);
        grh[19..].copy_from_slice(&known.flow_label.to_be_bytes());
    }
    value.extend(grh);
    (key, value)
}

/// Decodes the subscription of a row. The row of [`TRUSTED`] tells whether it is trusted; the row
/// of [`P_KEYS`] holds its P_Key.
fn decode(key: &[u8], value: &[u8]) -> Option<SavedSubscription> {
    let key: &[u8; KEY_LEN] = key.try_into().ok()?;
    let (port, number) = key.split_first_chunk::<8>()?;
    let value: &[u8; VALUE_LEN] = value.try_into().ok()?;
    let (info, rest) = value.split_at(InformInfo::LEN);
    let (gid, rest) = rest.split_first_chunk::<16>()?;
    let (&[flags], rest) = rest.split_first_chunk()?;
    let (lid, rest) = rest.split_first_chunk::<2>()?;
    let (qpn, rest) = rest.split_first_chunk::<4>()?;
    let (qkey, rest) = rest.split_first_chunk::<4>()?;
    let (&[sl, path_bits], rest) = rest.split_first_chunk()?;
    let (pkey_index, rest) = rest.split_first_chunk::<2>()?;
    let (_, grh) = rest.split_first_chunk::<1>()?;
    let (source, grh) = grh.split_first_chunk::<16>()?;
    let (&[gid_index, hop_limit, traffic_class], flow_label) = grh.split_first_chunk()?;
    let grh = Grh {
        gid: Gid(u128::from_be_bytes(*source)),
        gid_index,
        hop_limit,
        traffic_class,
        flow_label: u32::from_be_bytes(flow_label.try_into().ok()?),
    };
    let address = RemoteAddress {
        lid: Lid(u16::from_be_bytes(*lid)),
        qpn: u32::from_be_bytes(*qpn),
        qkey: u32::from_be_bytes(*qkey),
        sl,
        pkey_index: u16::from_be_bytes(*pkey_index),
        path_bits,
        grh: (flags & HAS_GRH != 0).then_some(grh),
    };
    // Accepts only valid subscriptions: no request can contain other values.
    let is_sound = flags < FLAGS_END && sl < 16 && path_bits < 128 && grh.flow_label < 1 << 20;
    is_sound.then_some(SavedSubscription {
        port: Guid(u64::from_be_bytes(*port)),
        number: u16::from_be_bytes(number.try_into().ok()?),
        gid: Gid(u128::from_be_bytes(*gid)),
        address,
        p_key: None,
        trusted: false,
        info: *InformInfo::from_prefix(info)?,
    })
}

#[cfg(test)]
mod tests {
    use rsm_mad::Time;
    use rsm_sa::events::Events;
    use rsm_store::Namespace;

    use super::*;

    /// Offset of the flags in a value.
    const FLAGS_AT: usize = InformInfo::LEN + 16;

    fn samples() -> Vec<SavedSubscription> {
        let subscription = |number: u16, grh| {
            let mut info = InformInfo::default();
            info.set_lid_range_begin(InformInfo::LID_RANGE_ALL)
                .set_is_generic(1)
                .set_subscribe(1)
                .set_notice_type(InformInfo::ALL)
                .set_device_id(64 + number)
                .set_qpn(0x12_3456)
                .set_resp_time_value(18);
            SavedSubscription {
                port: Guid(0xE09D),
                number,
                gid: Gid(0xFE80 << 112 | 0xE09D),
                address: RemoteAddress {
                    lid: Lid(7),
                    qpn: 0x12_3456,
                    qkey: 0x8001_0000,
                    sl: 3,
                    pkey_index: 0x102,
                    path_bits: 5,
                    grh,
                },
                p_key: (number == 1).then_some(PKey(0x8001)),
                trusted: number == 1,
                info,
            }
        };
        let grh = Grh {
            gid: Gid(0xFE80 << 112 | 0xE09D),
            gid_index: 1,
            hop_limit: 2,
            traffic_class: 3,
            flow_label: 0xF_FFFF,
        };
        vec![subscription(0, None), subscription(1, Some(grh))]
    }

    /// Changes after which `persisted` holds the subscriptions `saved`.
    fn changes_for(persisted: &Persisted, saved: Vec<SavedSubscription>) -> ChangeSet {
        let mut events = Events::default();
        assert_eq!(events.restore(saved, Time::MAX), 0);
        let mut set = ChangeSet::new();
        changes(persisted, &events.view(), &mut set);
        set
    }

    #[test]
    fn stored_subscriptions_are_restored() {
        let mut persisted = Persisted::default();
        persisted.apply(&changes_for(&persisted, samples()));
        assert_eq!(restored(&persisted), samples());
        assert!(
            changes_for(&persisted, samples()).is_empty(),
            "nothing is written twice"
        );
        persisted.apply(&changes_for(&persisted, samples()[..1].to_vec()));
        assert_eq!(restored(&persisted), samples()[..1]);
    }

    #[test]
    fn trust_bit_of_earlier_versions_is_ignored() {
        let mut persisted = Persisted::default();
        persisted.apply(&changes_for(&persisted, samples()));
        let (key, mut value) = encode(&samples()[1]);
        value[FLAGS_AT] = 1 | HAS_GRH;
        let table = Namespace::new(SUBSCRIPTIONS).unwrap();
        let mut earlier = ChangeSet::new();
        earlier.set_record(&table, &key, &value).unwrap();
        persisted.apply(&earlier);
        let before = &restored(&persisted)[1];
        assert!(!before.trusted);
        assert_eq!(before.address, samples()[1].address);
    }

    #[test]
    fn p_key_is_unknown_after_an_earlier_version_rewrote_the_row() {
        let mut persisted = Persisted::default();
        persisted.apply(&changes_for(&persisted, samples()));
        let mut anew = samples()[1];
        anew.address.pkey_index += 1;
        let (key, value) = encode(&anew);
        let table = Namespace::new(SUBSCRIPTIONS).unwrap();
        let mut earlier = ChangeSet::new();
        earlier.set_record(&table, &key, &value).unwrap();
        persisted.apply(&earlier);
        assert_eq!(restored(&persisted)[1].p_key, None);
    }

    #[test]
    fn flags_of_rows_are_valid_for_earlier_versions() {
        for saved in samples() {
            let flags = encode(&saved).1[FLAGS_AT];
            assert!(flags < 4, "they refuse {flags}");
        }
    }

    #[test]
    fn invalid_records_are_skipped() {
        let mut persisted = Persisted::default();
        persisted.apply(&changes_for(&persisted, samples()));
        let table = Namespace::new(SUBSCRIPTIONS).unwrap();
        let (key, value) = encode(&samples()[0]);
        let mut broken = ChangeSet::new();
        let mut put = |key: &[u8], value: &[u8]| broken.set_record(&table, key, value).unwrap();
        put(&key[1..], &value);
        put(&[&key[..], &[0]].concat(), &value);
        put(&[9; KEY_LEN], &value[1..]);
        put(&[8; KEY_LEN], &[0xFF; VALUE_LEN]);
        put(&[7; KEY_LEN], &[]);
        persisted.apply(&broken);
        assert_eq!(restored(&persisted), samples());
    }
}
