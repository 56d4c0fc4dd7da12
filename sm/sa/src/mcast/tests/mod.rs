//! Tests of the registry of multicast groups, with chosen and with random requests.

mod joining;
mod model;
mod over_time;
mod querying;
mod rules;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord, Rate};

use super::join::REQUIRED;
use super::presence::Unexamined;
use super::{
    GroupRegistry, GroupRegistryConfig, GroupRequester, MemberPort, Parameters, Ports, mgid,
};

const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// The partition of all hosts.
const ALL_HOSTS: PKey = PKey::DEFAULT_FULL;

/// The partition of the hosts with even numbers.
const EVEN_HOSTS: PKey = PKey(0x8005);

/// The MGID of a group that hosts create.
const MGID: Gid = Gid(0xFF12_A01C << 96 | 0x17);

/// The components of a request that creates a group.
const COMPLETE: ComponentMask = ComponentMask(
    REQUIRED.0
        | McMemberRecord::Q_KEY.0
        | McMemberRecord::P_KEY.0
        | McMemberRecord::T_CLASS.0
        | McMemberRecord::SL.0
        | McMemberRecord::FLOW_LABEL.0,
);

struct Host {
    guid: Guid,
    /// GUID of the physical port; the GUID of the host itself unless a test makes it a virtual
    /// port.
    physical: Guid,
    aliases: Vec<Guid>,
    p_keys: Vec<PKey>,
    mtu: Mtu,
    rate: Rate,
    present: bool,
}

/// A subnet of hosts numbered from 1. A host's port GUID is its number, and its alias GUID is its
/// number plus 0x1000. All hosts are in partition [`ALL_HOSTS`]; hosts with even numbers are also
/// in [`EVEN_HOSTS`].
struct Subnet {
    hosts: Vec<Host>,
    registry: GroupRegistry,
}

impl Ports for Vec<Host> {
    fn by_gid(&self, gid: Gid) -> Option<MemberPort<'_>> {
        let guid = gid.guid();
        let host = self
            .iter()
            .find(|host| host.present && (host.guid == guid || host.aliases.contains(&guid)))?;
        (gid.prefix() == PREFIX).then(|| port(host, guid))
    }

    fn by_guid(&self, guid: Guid) -> Option<MemberPort<'_>> {
        let host = self.iter().find(|host| host.present && host.guid == guid)?;
        Some(port(host, guid))
    }
}

fn port(host: &Host, guid: Guid) -> MemberPort<'_> {
    MemberPort {
        gid: Gid::new(PREFIX, guid),
        guid: host.guid,
        physical: host.physical,
        p_keys: &host.p_keys,
        mtu: host.mtu,
        rate: host.rate,
    }
}

impl Subnet {
    fn of(hosts: u64) -> Subnet {
        let host = |number: u64| Host {
            guid: Guid(number),
            physical: Guid(number),
            aliases: vec![Guid(0x1000 + number)],
            p_keys: if number.is_multiple_of(2) {
                vec![ALL_HOSTS, EVEN_HOSTS]
            } else {
                vec![ALL_HOSTS]
            },
            mtu: Mtu::Bytes4096,
            rate: Rate::GBPS_100,
            present: true,
        };
        Subnet {
            hosts: (1..=hosts).map(host).collect(),
            registry: GroupRegistry::new(GroupRegistryConfig::default()),
        }
    }

    /// A subnet with the broadcast group of [`ALL_HOSTS`].
    fn with_broadcast(hosts: u64) -> Subnet {
        let mut subnet = Subnet::of(hosts);
        assert_eq!(subnet.registry.set_well_known(&[broadcast(ALL_HOSTS)]), 0);
        subnet
    }

    fn host(&mut self, number: u64) -> &mut Host {
        &mut self.hosts[number as usize - 1]
    }

    fn requester(&self, number: u64) -> GroupRequester<'_> {
        let host = &self.hosts[number as usize - 1];
        GroupRequester {
            port: port(host, host.guid),
            acts_for_all: false,
        }
    }

    /// The answer to a join that host `sender` sends.
    fn set(
        &mut self,
        sender: u64,
        record: &McMemberRecord,
        mask: ComponentMask,
    ) -> Result<McMemberRecord, Status> {
        let host = &self.hosts[sender as usize - 1];
        let requester = GroupRequester {
            port: port(host, host.guid),
            acts_for_all: false,
        };
        self.registry.join(record, mask, &requester, &self.hosts)
    }

    /// The answer to a leave request that host `sender` sends.
    fn delete(&mut self, sender: u64, record: &McMemberRecord) -> Result<McMemberRecord, Status> {
        let host = &self.hosts[sender as usize - 1];
        let requester = GroupRequester {
            port: port(host, host.guid),
            acts_for_all: false,
        };
        self.registry
            .leave(record, REQUIRED, &requester, &self.hosts)
    }

    /// Host `number` joins a group itself, which creates the group if it does not exist.
    fn join(&mut self, number: u64, mgid: Gid, state: JoinState) -> Result<McMemberRecord, Status> {
        self.set(number, &request(number, mgid, state), COMPLETE)
    }

    fn leave(
        &mut self,
        number: u64,
        mgid: Gid,
        state: JoinState,
    ) -> Result<McMemberRecord, Status> {
        self.delete(number, &request(number, mgid, state))
    }

    /// Makes the registry examine all ports again.
    fn ports_changed(&mut self, at: Time) {
        let mut all = Unexamined::default();
        all.add_all();
        while !all.is_empty() {
            self.registry.ports_changed(&self.hosts, &mut all, at);
        }
    }
}

/// A request of host `number` for a group in partition [`ALL_HOSTS`].
fn request(number: u64, mgid: Gid, state: JoinState) -> McMemberRecord {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(Gid::new(PREFIX, Guid(number)))
        .set_q_key(0x0B1B)
        .set_p_key(ALL_HOSTS)
        .set_join_state(state);
    record
}

fn broadcast(p_key: PKey) -> Parameters {
    Parameters {
        mgid: mgid::broadcast(2, p_key),
        q_key: 0x0B1B,
        p_key,
        mtu: Mtu::Bytes2048,
        rate: Rate::GBPS_10,
        packet_life_time: 18,
        sl: 0,
        t_class: 0,
        flow_label: 0,
        hop_limit: 0,
        scope: 2,
    }
}

const FULL: JoinState = JoinState::FULL_MEMBER;
const NON: JoinState = JoinState::NON_MEMBER;
const SEND: JoinState = JoinState::SEND_ONLY_NON_MEMBER;
const SEND_FULL: JoinState = JoinState::SEND_ONLY_FULL_MEMBER;
