//! Cuts lists into pages, and makes the page tokens.
//!
//! A token contains the key of the last sent item, so that it needs no state on the server and
//! survives a new generation; and a fingerprint of the request, so that the server refuses it with
//! other filters.

use std::marker::PhantomData;

use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_proto::{List, Paged};
use tonic::{Request, Response, Status};

use crate::limits::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};
use crate::model::{AliasGuidKey, Keyed, Page, PortId, ServiceKey, SubscriptionKey, VirtualPortId};
use crate::refusal::{Reason, refusal};

/// The number of hexadecimal digits of the fingerprint at the beginning of a token.
const FINGERPRINT_DIGITS: usize = 8;

/// The sort key of a list, written as a fixed number of hexadecimal digits.
pub(super) trait Key: Sized {
    fn write(&self) -> String;
    fn read(digits: &str) -> Option<Self>;
}

/// Parses exactly `len` hexadecimal digits.
fn number(digits: &str, len: usize) -> Option<u64> {
    if digits.len() != len || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

impl Key for u64 {
    fn write(&self) -> String {
        format!("{self:016x}")
    }

    fn read(digits: &str) -> Option<Self> {
        number(digits, 16)
    }
}

impl Key for Guid {
    fn write(&self) -> String {
        self.0.write()
    }

    fn read(digits: &str) -> Option<Self> {
        u64::read(digits).map(Guid)
    }
}

impl Key for Gid {
    fn write(&self) -> String {
        format!("{}{}", self.prefix().write(), self.guid().write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (prefix, guid) = digits.split_at_checked(16)?;
        Some(Gid::new(u64::read(prefix)?, Guid::read(guid)?))
    }
}

impl Key for ServiceKey {
    fn write(&self) -> String {
        let ServiceKey { id, gid, p_key } = self;
        format!("{}{}{}", id.write(), gid.write(), p_key.write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (id, rest) = digits.split_at_checked(16)?;
        let (gid, p_key) = rest.split_at_checked(32)?;
        Some(ServiceKey {
            id: u64::read(id)?,
            gid: Gid::read(gid)?,
            p_key: u16::read(p_key)?,
        })
    }
}

impl Key for SubscriptionKey {
    fn write(&self) -> String {
        format!("{}{}", self.port.write(), self.number.write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (port, number) = digits.split_at_checked(16)?;
        Some(SubscriptionKey {
            port: Guid::read(port)?,
            number: u16::read(number)?,
        })
    }
}

impl Key for AliasGuidKey {
    fn write(&self) -> String {
        format!("{}{}", self.port.write(), self.index.write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (port, index) = digits.split_at_checked(16)?;
        Some(AliasGuidKey {
            port: Guid::read(port)?,
            index: u8::read(index)?,
        })
    }
}

impl Key for VirtualPortId {
    fn write(&self) -> String {
        format!("{}{}", self.port.write(), self.index.write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (port, index) = digits.split_at_checked(digits.len().checked_sub(4)?)?;
        Some(VirtualPortId {
            port: PortId::read(port)?,
            index: u16::read(index)?,
        })
    }
}

impl Key for u8 {
    fn write(&self) -> String {
        format!("{self:02x}")
    }

    fn read(digits: &str) -> Option<Self> {
        u8::try_from(number(digits, 2)?).ok()
    }
}

impl Key for u16 {
    fn write(&self) -> String {
        format!("{self:04x}")
    }

    fn read(digits: &str) -> Option<Self> {
        u16::try_from(number(digits, 4)?).ok()
    }
}

impl Key for Lid {
    fn write(&self) -> String {
        self.0.write()
    }

    fn read(digits: &str) -> Option<Self> {
        u16::read(digits).map(Lid)
    }
}

/// A name, written as two digits for each byte.
impl Key for String {
    fn write(&self) -> String {
        hex::encode(self)
    }

    fn read(digits: &str) -> Option<Self> {
        String::from_utf8(hex::decode(digits).ok()?).ok()
    }
}

impl Key for PortId {
    fn write(&self) -> String {
        format!("{}{}", self.node.write(), self.number.0.write())
    }

    fn read(digits: &str) -> Option<Self> {
        let (node, port) = digits.split_at_checked(16)?;
        Some(PortId {
            node: Guid::read(node)?,
            number: PortNum(u8::read(port)?),
        })
    }
}

/// The requested page of a list.
#[derive(Debug)]
pub(super) struct Cursor<K> {
    /// The key of the last item of the previous page, if there is one.
    pub(super) after: Option<K>,
    size: usize,
    fingerprint: u32,
}

impl<K: Key> Cursor<K> {
    /// Takes the page fields out of a request.
    pub(super) fn take<Q: Paged>(request: &mut Q) -> Result<Self, Status> {
        let (size, token) = request.take_page();
        let fingerprint = fingerprint(Q::METHOD, &request.encode_to_vec());
        let after = match token.as_str() {
            "" => None,
            token => Some(read(token, fingerprint)?),
        };
        let size = match usize::try_from(size) {
            Ok(0) => DEFAULT_PAGE_SIZE,
            Ok(size) => size.min(MAX_PAGE_SIZE),
            Err(_) => MAX_PAGE_SIZE,
        };
        Ok(Cursor {
            after,
            size,
            fingerprint,
        })
    }

    /// The number of items to fetch: one more than a page, to see whether another page follows.
    pub(super) fn limit(&self) -> usize {
        self.size + 1
    }

    /// Cuts the items down to the page; returns the token of the next page, empty if this is the
    /// last.
    pub(super) fn cut<T>(&self, items: &mut Vec<T>, key: impl Fn(&T) -> K) -> String {
        if items.len() <= self.size {
            return String::new();
        }
        items.truncate(self.size);
        items.last().map_or_else(String::new, |last| {
            format!(
                "{:0width$x}{}",
                self.fingerprint,
                key(last).write(),
                width = FINGERPRINT_DIGITS
            )
        })
    }
}

/// The requested page of the list that a `Q` asks for.
pub(super) struct Listing<Q, K> {
    cursor: Cursor<K>,
    request: PhantomData<Q>,
}

impl<Q: List, K: Key + Clone> Listing<Q, K> {
    /// Splits a request into its filters and its page.
    pub(super) fn of(request: Request<Q>) -> Result<(Q, Self), Status> {
        let mut request = request.into_inner();
        let listing = Listing {
            cursor: Cursor::take(&mut request)?,
            request: PhantomData,
        };
        Ok((request, listing))
    }

    /// [`Cursor::after`] of the request.
    pub(super) fn after(&self) -> Option<K> {
        self.cursor.after.clone()
    }

    /// [`Cursor::limit`] of the request.
    pub(super) fn limit(&self) -> usize {
        self.cursor.limit()
    }

    /// The answer with the page, given the items after [`after`](Listing::after), by ascending
    /// `key`, at most [`limit`](Listing::limit).
    pub(super) fn answer(
        &self,
        mut page: Page<Q::Item>,
        key: impl Fn(&Q::Item) -> K,
    ) -> Result<Response<Q::Response>, Status> {
        let token = self.cursor.cut(&mut page.items, key);
        Ok(Response::new(Q::response(
            page.items,
            token,
            page.generation,
        )))
    }

    /// The answer of [`Listing::answer`], for items that have their keys.
    pub(super) fn answer_keyed(
        &self,
        mut page: Page<Keyed<K, Q::Item>>,
    ) -> Result<Response<Q::Response>, Status> {
        let token = self.cursor.cut(&mut page.items, |item| item.key.clone());
        let items = page.items.into_iter().map(|item| item.message).collect();
        Ok(Response::new(Q::response(items, token, page.generation)))
    }
}

/// The key in a token, which must have this fingerprint.
fn read<K: Key>(token: &str, fingerprint: u32) -> Result<K, Status> {
    let parsed = token
        .split_at_checked(FINGERPRINT_DIGITS)
        .and_then(|(made_for, key)| Some((number(made_for, FINGERPRINT_DIGITS)?, K::read(key)?)));
    match parsed {
        Some((made_for, key)) if made_for == u64::from(fingerprint) => Ok(key),
        Some(_) => Err(refusal(
            Reason::InvalidPageToken,
            "page_token was made for another list or other filters: \
             repeat the request it came from, or begin again without a token",
        )),
        None => Err(refusal(
            Reason::InvalidPageToken,
            "page_token is not one that this server made: begin again without a token",
        )),
    }
}

/// Hashes the method and its filters with FNV-1a, as a guard against mistakes, not attacks.
fn fingerprint(method: &str, filters: &[u8]) -> u32 {
    let bytes = method.bytes().chain([0]).chain(filters.iter().copied());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsm_proto::v1;
    use tonic::Code;

    use super::*;

    fn request(size: u32, token: &str) -> v1::ListNodesRequest {
        v1::ListNodesRequest {
            page_size: size,
            page_token: token.to_owned(),
            ..Default::default()
        }
    }

    fn cursor(size: u32, token: &str) -> Result<Cursor<Guid>, Status> {
        Cursor::take(&mut request(size, token))
    }

    #[test]
    fn page_sizes_have_a_default_and_a_maximum() {
        assert_eq!(cursor(0, "").unwrap().limit(), DEFAULT_PAGE_SIZE + 1);
        assert_eq!(cursor(7, "").unwrap().limit(), 8);
        assert_eq!(cursor(u32::MAX, "").unwrap().limit(), MAX_PAGE_SIZE + 1);
    }

    #[test]
    fn a_token_continues_after_the_last_item() {
        let mut items: Vec<Guid> = (1..=3).map(Guid).collect();
        let token = cursor(2, "").unwrap().cut(&mut items, |guid| *guid);
        assert_eq!(items, [Guid(1), Guid(2)]);
        assert_eq!(cursor(2, &token).unwrap().after, Some(Guid(2)));

        let mut last = vec![Guid(3)];
        assert_eq!(cursor(2, &token).unwrap().cut(&mut last, |guid| *guid), "");
    }

    #[test]
    fn a_token_of_another_request_is_refused() {
        let mut items = vec![Guid(1), Guid(2)];
        let token = cursor(1, "").unwrap().cut(&mut items, |guid| *guid);
        let mut other = request(1, &token);
        other.kind = v1::NodeKind::Switch.into();
        let refused = Cursor::<Guid>::take(&mut other).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("other filters"));
        let mut of_another_list = v1::ListPartitionsRequest {
            page_token: token,
            ..Default::default()
        };
        assert!(Cursor::<Guid>::take(&mut of_another_list).is_err());
    }

    proptest! {
        #[test]
        fn random_tokens_are_refused(token in ".{1,40}") {
            prop_assert!(cursor(1, &token).is_err());
        }

        #[test]
        fn keys_round_trip(node: u64, port: u8, lid: u16, gid: u128) {
            let key = PortId { node: Guid(node), number: PortNum(port) };
            prop_assert_eq!(PortId::read(&key.write()), Some(key));
            prop_assert_eq!(Lid::read(&Lid(lid).write()), Some(Lid(lid)));
            let service = ServiceKey { id: node, gid: Gid(gid), p_key: lid };
            prop_assert_eq!(ServiceKey::read(&service.write()), Some(service));
            prop_assert_eq!(Gid::read(&Gid(gid).write()), Some(Gid(gid)));
            let subscription = SubscriptionKey { port: Guid(node), number: lid };
            prop_assert_eq!(SubscriptionKey::read(&subscription.write()), Some(subscription));
            let alias = AliasGuidKey { port: Guid(node), index: port };
            prop_assert_eq!(AliasGuidKey::read(&alias.write()), Some(alias));
            let vport = VirtualPortId { port: key, index: lid };
            prop_assert_eq!(VirtualPortId::read(&vport.write()), Some(vport));
        }
    }
}
