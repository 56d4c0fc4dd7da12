//! Parses the bodies of requests that change partitions.

use rsm_api::model::{MemberName, Membership, PartitionSettings, WantedMember};
use rsm_api::v1;
use rsm_ids::Guid;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Refused, bad};

/// The maximum length of a host's name in bytes, which is the length of a NodeDescription.
const MAX_HOST_BYTES: usize = 64;

/// The fields of all bodies; other fields are ignored, as UFM does.
#[derive(Deserialize)]
struct Body {
    pkey: String,
    #[serde(default)]
    guids: Vec<String>,
    #[serde(default)]
    hosts_names: String,
    membership: Option<String>,
    /// The memberships, one for each GUID.
    memberships: Option<Vec<String>>,
    #[serde(default)]
    index0: bool,
    ip_over_ib: Option<bool>,
    partition_name: Option<String>,
    mtu_limit: Option<u16>,
    service_level: Option<u8>,
    rate_limit: Option<f64>,
}

/// The members of a request.
pub(super) struct Members {
    guids: Vec<String>,
    membership: Option<String>,
    memberships: Option<Vec<String>>,
    index0: bool,
}

/// The settings in a request.
pub(super) struct Settings {
    name: Option<String>,
    ipoib: Option<bool>,
    mtu_limit: Option<u16>,
    service_level: Option<u8>,
    rate_limit: Option<f64>,
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| bad(format!("the body: {error}")))
}

/// Parses a P_Key in hexadecimal; the bit of full membership is dropped.
pub(super) fn p_key(text: &str) -> Result<u16, Refused> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let key = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let key = key.map(|key| key & 0x7fff).filter(|&key| key != 0);
    key.ok_or_else(|| {
        let shown: String = text.chars().take(16).flat_map(char::escape_debug).collect();
        bad(format!("`{shown}` is no P_Key: expected 0x1 to 0x7fff"))
    })
}

/// Parses a GUID of 16 hexadecimal digits, with or without 0x.
fn guid(text: &str) -> Result<Guid, Refused> {
    let digits = text.trim();
    let digits = digits
        .strip_prefix("0x")
        .or(digits.strip_prefix("0X"))
        .unwrap_or(digits);
    let is_guid = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u64::from_str_radix(digits, 16).ok().filter(|_| is_guid);
    value.map(Guid).ok_or_else(|| {
        let shown: String = text.chars().take(32).flat_map(char::escape_debug).collect();
        bad(format!(
            "`{shown}` is no GUID: expected 16 hexadecimal digits"
        ))
    })
}

fn membership_of(text: &str) -> Result<Membership, Refused> {
    match text {
        "full" => Ok(Membership::Full),
        "limited" => Ok(Membership::Limited),
        "both" => Ok(Membership::Both),
        _ => Err(bad("membership: expected full, limited or both")),
    }
}

/// A part of a query with its escapes decoded, and each `+` as a blank (HTML forms).
pub(super) fn form_unescaped(text: &str) -> Result<String, Refused> {
    unescaped(&text.replace('+', " "))
}

/// A segment of a path with its `%` escapes decoded (RFC 3986).
pub(super) fn unescaped(text: &str) -> Result<String, Refused> {
    let wrong = || bad("the path or query: expected UTF-8, with two digits after each %");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let value = high.zip(low).map(|(high, low)| high * 16 + low);
                value
                    .and_then(|value| u8::try_from(value).ok())
                    .ok_or_else(wrong)?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl Body {
    fn into_parts(self) -> Result<(u16, Members, Settings, String), Refused> {
        let key = p_key(&self.pkey)?;
        let members = Members {
            guids: self.guids,
            membership: self.membership,
            memberships: self.memberships,
            index0: self.index0,
        };
        let settings = Settings {
            name: self.partition_name,
            ipoib: self.ip_over_ib,
            mtu_limit: self.mtu_limit,
            service_level: self.service_level,
            rate_limit: self.rate_limit,
        };
        Ok((key, members, settings, self.hosts_names))
    }
}

/// The P_Key, members and settings in a body.
pub(super) fn membership(body: &[u8]) -> Result<(u16, Members, Settings), Refused> {
    let (key, members, settings, _) = parse::<Body>(body)?.into_parts()?;
    Ok((key, members, settings))
}

/// The P_Key, members and settings in a body that names hosts.
pub(super) fn hosts(body: &[u8]) -> Result<(u16, Vec<WantedMember>, Settings), Refused> {
    let (key, members, settings, hosts) = parse::<Body>(body)?.into_parts()?;
    let membership = membership_of(members.membership.as_deref().unwrap_or("full"))?;
    let wanted = host_names(&hosts)?.into_iter().map(|port| WantedMember {
        port,
        membership,
        index0: members.index0,
    });
    Ok((key, wanted.collect(), settings))
}

/// The P_Key and quality of service in a body.
pub(super) fn qos(body: &[u8]) -> Result<(u16, Settings), Refused> {
    let (key, _, settings, _) = parse::<Body>(body)?.into_parts()?;
    Ok((key, settings))
}

/// The hosts in a comma-separated list.
pub(super) fn host_names(list: &str) -> Result<Vec<MemberName>, Refused> {
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Err(bad(
            "hosts_names: expected names of hosts, separated by commas",
        ));
    }
    let names = names.into_iter().map(|name| match name.len() {
        ..=MAX_HOST_BYTES => Ok(MemberName::Host(name.to_owned())),
        long => Err(bad(format!(
            "hosts_names: a name of {long} bytes, and node descriptions have at most {MAX_HOST_BYTES}"
        ))),
    });
    names.collect()
}

impl Members {
    /// The members in a comma-separated list of GUIDs.
    pub(super) fn of_list(list: &str) -> Members {
        let guids = list.split(',').filter(|guid| !guid.trim().is_empty());
        Members {
            guids: guids.map(str::to_owned).collect(),
            membership: None,
            memberships: None,
            index0: false,
        }
    }

    /// The requested members.
    pub(super) fn wanted_members(&self) -> Result<Vec<WantedMember>, Refused> {
        let common = self.membership.as_deref().unwrap_or("full");
        // The common membership is checked even without members.
        membership_of(common)?;
        let each = self.memberships.as_deref();
        if each.is_some_and(|each| each.len() != self.guids.len()) {
            return Err(bad("memberships: expected as many as guids"));
        }
        let wanted = self.guids.iter().enumerate().map(|(at, text)| {
            let membership = each.and_then(|each| each.get(at));
            Ok(WantedMember {
                port: MemberName::Guid(guid(text)?),
                membership: membership_of(membership.map_or(common, String::as_str))?,
                index0: self.index0,
            })
        });
        wanted.collect()
    }

    /// The GUIDs of the members, as names.
    pub(super) fn names(&self) -> Result<Vec<MemberName>, Refused> {
        let names = self
            .guids
            .iter()
            .map(|text| guid(text).map(MemberName::Guid));
        names.collect()
    }
}

impl Settings {
    /// The settings of a partition that may be new. UFM names a partition by its P_Key.
    pub(super) fn of_new(&self, p_key: u16) -> Result<PartitionSettings, Refused> {
        let plain = PartitionSettings {
            name: format!("api_pkey_{p_key:#x}"),
            ipoib: true,
            ..PartitionSettings::default()
        };
        self.replace_in(plain)
    }

    /// The settings of an existing partition, replaced by the settings that the request has.
    pub(super) fn of_existing(&self, known: &v1::Partition) -> Result<PartitionSettings, Refused> {
        let known = PartitionSettings {
            name: known.name.clone(),
            ipoib: known.ipoib,
            service_level: u8::try_from(known.service_level).unwrap_or_default(),
            mtu_bytes: u16::try_from(known.mtu_bytes).unwrap_or_default(),
            rate_tenth_gbps: (known.rate_gbps * 10.0).round() as u16,
        };
        self.replace_in(known)
    }

    /// `known`, replaced by the settings that the request has.
    fn replace_in(&self, known: PartitionSettings) -> Result<PartitionSettings, Refused> {
        let service_level = self.service_level.unwrap_or(known.service_level);
        if service_level > 15 {
            return Err(bad("service_level: expected 0 to 15"));
        }
        let mtu_bytes = match self.mtu_limit {
            None => known.mtu_bytes,
            Some(1) => 1024,
            Some(2) => 2048,
            Some(4) => 4096,
            Some(_) => return Err(bad("mtu_limit: expected 1, 2 or 4, in kilobytes")),
        };
        let tenths = self.rate_limit.map(|rate| rate * 10.0);
        let is_rate = |tenths: &f64| (1.0..=f64::from(u16::MAX)).contains(tenths);
        let rate_tenth_gbps = match tenths {
            None => known.rate_tenth_gbps,
            Some(tenths) if is_rate(&tenths) && tenths.fract() == 0.0 => tenths as u16,
            Some(_) => return Err(bad("rate_limit: expected a rate of InfiniBand in Gb/s")),
        };
        Ok(PartitionSettings {
            name: self.name.clone().unwrap_or(known.name),
            ipoib: self.ipoib.unwrap_or(known.ipoib),
            service_level,
            mtu_bytes,
            rate_tenth_gbps,
        })
    }
}
