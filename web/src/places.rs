//! Limits the number of connections, in total and for each client.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The places for open connections.
#[derive(Debug)]
pub(crate) struct Places {
    /// The total number of places.
    all: usize,
    /// The number of places for one client.
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// The number of connections by [`client`]; clients without a connection are absent.
    clients: BTreeMap<IpAddr, usize>,
}

/// A place for one connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    /// Creates `all` places, of which one client can have at most `each`.
    pub(crate) fn new(all: usize, each: usize) -> Arc<Places> {
        Arc::new(Places {
            all,
            each,
            taken: Mutex::default(),
        })
    }

    /// Acquires a place for a connection from `address`; `None` if all places are taken, or the
    /// client has its share.
    pub(crate) fn acquire(self: &Arc<Places>, address: IpAddr) -> Option<Place> {
        let client = client(address);
        let mut taken = self.taken.lock();
        let own = taken.clients.get(&client).copied().unwrap_or(0);
        if taken.all >= self.all || own >= self.each {
            return None;
        }
        taken.all += 1;
        taken.clients.insert(client, own + 1);
        drop(taken);
        let places = Arc::clone(self);
        Some(Place { places, client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }
}

/// The address by which a client is counted: only the first 64 bits of an IPv6 address, because a
/// host can use all addresses of its network (RFC 4291 2.5.4). An IPv4 address mapped into IPv6
/// counts as IPv4.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_client_gets_no_more_than_its_share_of_connections() {
        let places = Places::new(8, 3);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let mut held: Vec<Place> = (0..3).map(|_| places.acquire(one).unwrap()).collect();
        assert!(places.acquire(one).is_none());
        assert!(places.acquire(address("::ffff:10.0.0.1")).is_none());
        assert!(places.acquire(other).is_some());
        held.pop();
        assert!(places.acquire(one).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let places = Places::new(8, 1);
        let _held = places.acquire(address("2001:db8::1")).unwrap();
        assert!(places.acquire(address("2001:db8::2")).is_none());
        assert!(places.acquire(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn connections_of_all_clients_stay_within_the_total_limit() {
        let places = Places::new(2, 2);
        let first = places.acquire(address("10.0.0.1")).unwrap();
        let _second = places.acquire(address("10.0.0.2")).unwrap();
        assert!(places.acquire(address("10.0.0.3")).is_none());
        drop(first);
        assert!(places.acquire(address("10.0.0.3")).is_some());
        assert_eq!(places.taken.lock().clients.len(), 1);
    }
}
