//! Parses one line of the dump.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{GuidInfo, Mtu, PKey};
use rsm_mad::wire::sa::{InformInfo, JoinState, Rate, ServiceRecord};
use rsm_sa::events::SavedSubscription;
use rsm_sa::mcast::{Parameters, SavedGroup, SavedMember};
use rsm_sa::services::SavedService;

use super::fields::Fields;
use super::is_of;

/// Start of a group's line.
pub(super) const GROUP: &str = "MC Group";

/// Mask of the value in fields that hold a selector in their upper two bits (IBA 15.2.5.17).
const SELECTED: u8 = 0x3F;

/// Context in which lines are read.
pub(super) struct Context {
    /// Prefix of the subnet. A GID with another prefix belongs to another subnet.
    pub(super) prefix: u64,
    /// Current time, in seconds since the Unix epoch.
    pub(super) now: u64,
}

/// Contents of a line.
pub(super) enum Entry {
    /// Group without its members, which follow on separate lines.
    Group(Box<SavedGroup>),
    /// Member of the group on an earlier line.
    Member(SavedMember),
    /// Service whose lease has not expired.
    Service(Box<SavedService>),
    /// Subscription to notices.
    Subscription(Box<SavedSubscription>),
    /// Port GUID, and its alias GUIDs by index.
    AliasGuids(Guid, BTreeMap<u8, Guid>),
    /// Service with an expired lease.
    Expired,
    /// Registration by a port of another subnet.
    Foreign(Gid),
}

/// Parser of a line's part after its name.
type Reader = fn(&mut Fields<'_>, &Context) -> Result<Entry, String>;

impl Entry {
    /// Parses a line.
    ///
    /// # Errors
    /// The line does not have the expected form; the error states what was expected.
    pub(super) fn parse(line: &str, context: &Context) -> Result<Entry, String> {
        const READERS: [(&str, Reader); 5] = [
            (GROUP, group),
            ("mcm_port:", member),
            ("Service Record:", service),
            ("InformInfo Record:", subscription),
            ("GUIDInfo Record:", alias_guids),
        ];
        for (name, read) in READERS {
            if let Some(rest) = line.strip_prefix(name) {
                return read(&mut Fields::new(rest), context);
            }
        }
        let names = READERS.map(|(name, _)| format!("`{}`", name.trim_end_matches(':')));
        Err(format!("expected a line of {}", names.join(", ")))
    }
}

/// Parses a group.
fn group(fields: &mut Fields<'_>, _: &Context) -> Result<Entry, String> {
    let mgid = fields.gid("mgid")?;
    fields.gid("port_gid")?;
    let q_key = fields.number("qkey", 32)? as u32;
    let mlid = fields.number("mlid", 16)? as u16;
    let mtu = fields.number("mtu", 8)? as u8 & SELECTED;
    let t_class = fields.number("tclass", 8)? as u8;
    let p_key = PKey(fields.number("pkey", 16)? as u16);
    let rate = Rate(fields.number("rate", 8)? as u8 & SELECTED);
    let packet_life_time = fields.number("pkt_life", 8)? as u8 & SELECTED;
    let sl_flow_hop = fields.number("sl_flow_hop", 32)? as u32;
    let scope_state = fields.number("scope_state", 8)? as u8;
    let parameters = Parameters {
        mgid,
        q_key,
        p_key,
        mtu: Mtu::from_code(mtu),
        rate,
        packet_life_time,
        sl: (sl_flow_hop >> 28) as u8,
        t_class,
        flow_label: sl_flow_hop >> 8 & 0xF_FFFF,
        hop_limit: sl_flow_hop as u8,
        scope: scope_state >> 4,
    };
    let mlid = Lid(mlid);
    if !mgid.is_multicast() {
        return Err("expected an MGID, which begins with ff".to_owned());
    }
    if !p_key.is_valid() {
        return Err("expected the P_Key of a partition, not 0x0000 or 0x8000".to_owned());
    }
    if !mlid.is_multicast() {
        return Err("expected a multicast LID, 0xc000 to 0xfffe".to_owned());
    }
    if parameters.mtu.bytes().is_none() {
        return Err("expected an MTU with the code 1 to 5".to_owned());
    }
    if rate.tenth_gbps().is_none() {
        return Err("expected the code of a rate, from 2 on".to_owned());
    }
    Ok(Entry::Group(Box::new(SavedGroup {
        parameters,
        mlid,
        creator: None,
        members: Vec::new(),
    })))
}

/// Parses a member of the preceding group.
fn member(fields: &mut Fields<'_>, context: &Context) -> Result<Entry, String> {
    let gid = fields.gid("port_gid")?;
    let state = JoinState(fields.number("scope_state", 8)? as u8 & 0xF);
    let proxy = fields.number("proxy_join", 8)? != 0;
    if !is_of(gid, context.prefix) {
        return Ok(Entry::Foreign(gid));
    }
    if state.0 == 0 {
        return Err("expected a JoinState that is not zero".to_owned());
    }
    Ok(Entry::Member(SavedMember {
        gid,
        port: guid_of(gid)?,
        state,
        proxy,
    }))
}

/// Parses a service, with the rest of its lease.
fn service(fields: &mut Fields<'_>, context: &Context) -> Result<Entry, String> {
    let mut record = ServiceRecord::default();
    record.set_service_id(fields.number("id", 64)?);
    let gid = fields.gid("gid")?;
    record.set_service_gid(gid);
    record.set_service_p_key(PKey(fields.number("pkey", 16)? as u16));
    fields.number("lease", 32)?;
    record.set_service_key(bytes::<16>(&[fields.pair("key")?]));
    record.set_service_name(name(fields.quoted("name", "data8=")?));
    let data = [
        fields.pair("data8")?,
        fields.pair("data16")?,
        fields.pair("data32")?,
        fields.pair("data64")?,
    ];
    record.set_service_data(bytes::<64>(&data));
    let modified = fields.number("modified_time", 32)?;
    let period = fields.number("lease_period", 32)? as u32;
    if !is_of(gid, context.prefix) {
        return Ok(Entry::Foreign(gid));
    }
    let left = if period == ServiceRecord::LEASE_INDEFINITE {
        None
    } else {
        match (modified + u64::from(period)).checked_sub(context.now) {
            // A clock that was set back extends no lease.
            Some(left @ 1..) => Some(Duration::from_secs(left.min(u64::from(period)))),
            _ => return Ok(Entry::Expired),
        }
    };
    record.set_service_lease(period);
    let port = guid_of(gid)?;
    Ok(Entry::Service(Box::new(SavedService {
        record,
        port,
        owner: port,
        left,
    })))
}

/// Parses a subscription.
fn subscription(fields: &mut Fields<'_>, context: &Context) -> Result<Entry, String> {
    let gid = fields.gid("subscriber_gid")?;
    fields.number("subscriber_enum", 16)?;
    let mut info = InformInfo::default();
    info.set_gid(fields.gid("gid")?)
        .set_lid_range_begin(Lid(fields.number("lid_range_begin", 16)? as u16))
        .set_lid_range_end(Lid(fields.number("lid_range_end", 16)? as u16))
        .set_is_generic(fields.number("is_generic", 8)? as u8)
        .set_subscribe(fields.number("subscribe", 8)? as u8)
        .set_notice_type(fields.number("trap_type", 16)? as u16)
        .set_device_id(fields.number("trap_num", 16)? as u16);
    let qpn_resp_time = fields.number("qpn_resp_time_val", 32)? as u32;
    info.set_qpn(qpn_resp_time >> 8)
        .set_resp_time_value(qpn_resp_time as u8 & 0x1F)
        .set_vendor_id(fields.number("node_type", 24)? as u32);
    let address = RemoteAddress {
        lid: Lid(fields.number("lid", 16)? as u16),
        path_bits: fields.number("path_bits", 8)? as u8 & 0x7F,
        qpn: fields.number("remote_qp", 32)? as u32,
        qkey: fields.number("remote_qkey", 32)? as u32,
        pkey_index: fields.number("pkey_ix", 16)? as u16,
        sl: fields.number("sl", 8)? as u8 & 0xF,
        grh: None,
    };
    if !is_of(gid, context.prefix) {
        return Ok(Entry::Foreign(gid));
    }
    if !address.lid.is_unicast() {
        return Err("expected a unicast LID of the subscriber".to_owned());
    }
    Ok(Entry::Subscription(Box::new(SavedSubscription {
        port: guid_of(gid)?,
        number: 0,
        gid,
        address,
        // The dump contains only the index in the P_Key table of a port, which may be this
        // manager's own port.
        p_key: None,
        // The dump does not tell whether the request contained the SM_Key.
        trusted: false,
        info,
    })))
}

/// Parses a block of alias GUIDs.
fn alias_guids(fields: &mut Fields<'_>, _: &Context) -> Result<Entry, String> {
    let port = Guid(fields.number("base_guid", 64)?);
    fields.number("lid", 16)?;
    let block = fields.number("block_num", 8)? as u8;
    if port.is_zero() {
        return Err("expected a GUID that is not zero".to_owned());
    }
    let first = usize::from(block) * GuidInfo::ENTRIES;
    let mut aliases = BTreeMap::new();
    for entry in 0..GuidInfo::ENTRIES {
        let alias = Guid(fields.number(&format!("guid{entry}"), 64)?);
        let index = u8::try_from(first + entry).map_err(|_| "expected a block below 32")?;
        // Index 0 is the port's own GUID.
        if index != 0 && !alias.is_zero() {
            aliases.insert(index, alias);
        }
    }
    Ok(Entry::AliasGuids(port, aliases))
}

/// GUID in the lower half of a GID. Fails if the GUID is zero.
fn guid_of(gid: Gid) -> Result<Guid, String> {
    let guid = gid.guid();
    match guid.is_zero() {
        true => Err("expected a GID whose lower half, a GUID, is not zero".to_owned()),
        false => Ok(guid),
    }
}

/// Converts numbers to their bytes on the wire.
fn bytes<const N: usize>(pairs: &[[u64; 2]]) -> [u8; N] {
    let mut all = [0; N];
    let numbers = pairs.as_flattened();
    for (chunk, number) in all.chunks_mut(8).zip(numbers) {
        chunk.copy_from_slice(&number.to_be_bytes());
    }
    all
}

/// Name of a service, which a zero byte ends.
fn name(text: &str) -> [u8; 64] {
    let mut name = [0; 64];
    // OpenSM writes the bytes unchanged; the reader takes bytes that are not UTF-8 as Latin-1.
    let bytes: Vec<u8> = match text.chars().all(|c| u32::from(c) < 256) {
        true => text.chars().map(|c| c as u8).collect(),
        false => text.bytes().collect(),
    };
    for (slot, byte) in name.iter_mut().take(63).zip(bytes) {
        *slot = byte;
    }
    name
}
