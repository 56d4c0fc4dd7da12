//! Tests of joining, creating and leaving groups: permissions and answers.

use rsm_ids::Lid;
use rsm_mad::wire::sa::{SaStatus, Selector};

use super::super::limits::{MAX_CREATED_PER_PORT, MAX_MEMBERSHIPS_PER_PORT};
use super::super::mlid;
use super::*;

#[test]
fn first_full_member_creates_a_group_and_last_full_member_ends_it() {
    let mut subnet = Subnet::of(4);
    for state in [NON, SEND, JoinState(NON.0 | SEND.0)] {
        assert_eq!(subnet.join(1, MGID, state), Err(SaStatus::REQ_INVALID));
    }
    let answer = subnet.join(1, MGID, FULL).unwrap();
    assert_eq!(answer.mgid(), MGID);
    assert_eq!(answer.mlid(), Lid(0xC001));
    assert_eq!(answer.join_state(), FULL);
    assert_eq!(answer.scope(), 2);
    assert_eq!(answer.mtu_selector(), Selector::Exactly);
    assert_eq!(
        (answer.mtu(), answer.rate()),
        (Mtu::Bytes4096, Rate::GBPS_100)
    );
    assert_eq!(answer.packet_life_time(), 18);
    assert!(!answer.proxy_join());
    // The group ends with its last full member, although other members remain.
    subnet.join(2, MGID, NON).unwrap();
    subnet.join(3, MGID, SEND).unwrap();
    subnet.join(4, MGID, SEND_FULL).unwrap();
    subnet.leave(1, MGID, FULL).unwrap();
    assert_eq!(subnet.registry.members(), 3);
    subnet.leave(4, MGID, SEND_FULL).unwrap();
    assert!(subnet.registry.group(MGID).is_none());
    assert_eq!(subnet.registry.members(), 0);
    let events: Vec<_> = std::iter::from_fn(|| subnet.registry.poll_event()).collect();
    assert_eq!(
        events,
        [
            super::super::GroupEvent::Created(MGID, PKey::DEFAULT_FULL),
            super::super::GroupEvent::Deleted(MGID, PKey::DEFAULT_FULL)
        ]
    );
}

#[test]
fn requests_without_required_components_are_refused() {
    let mut subnet = Subnet::of(2);
    let record = request(1, MGID, FULL);
    for missing in [
        McMemberRecord::MGID,
        McMemberRecord::PORT_GID,
        McMemberRecord::JOIN_STATE,
    ] {
        let refused = subnet.set(1, &record, COMPLETE.without(missing));
        assert_eq!(refused, Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS));
    }
    for missing in [
        McMemberRecord::Q_KEY,
        McMemberRecord::P_KEY,
        McMemberRecord::T_CLASS,
        McMemberRecord::SL,
        McMemberRecord::FLOW_LABEL,
    ] {
        for mgid in [MGID, Gid(0)] {
            let refused = subnet.set(1, &request(1, mgid, FULL), COMPLETE.without(missing));
            assert_eq!(refused, Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS));
        }
    }
    // A join of an existing group requires only the components in `REQUIRED`.
    subnet.set(1, &record, COMPLETE).unwrap();
    let answer = subnet.set(2, &request(2, MGID, FULL), REQUIRED).unwrap();
    assert_eq!(answer.q_key(), 0x0B1B);
    assert_eq!(
        subnet.join(2, MGID, JoinState(0)),
        Err(SaStatus::REQ_INVALID)
    );
}

#[test]
fn join_with_mgid_0_creates_a_group_with_an_assigned_mgid() {
    let mut subnet = Subnet::of(1);
    let first = subnet.join(1, Gid(0), FULL).unwrap();
    let second = subnet.join(1, Gid(0), FULL).unwrap();
    assert_ne!(first.mgid(), second.mgid());
    assert_eq!(first.mgid().0 >> 96, 0xFF12_A01B);
    let mut record = request(1, Gid(0), FULL);
    record.set_scope(5);
    let mask = COMPLETE | McMemberRecord::SCOPE;
    let wide = subnet.set(1, &record, mask).unwrap();
    assert_eq!((wide.mgid().0 >> 96, wide.scope()), (0xFF15_A01B, 5));
    // No port can create a group with an assigned MGID, even if the MGID is free.
    subnet.leave(1, first.mgid(), FULL).unwrap();
    assert_eq!(
        subnet.join(1, first.mgid(), FULL),
        Err(SaStatus::REQ_INVALID)
    );
}

#[test]
fn join_adds_states_and_leave_removes_only_states_that_the_port_has() {
    let mut subnet = Subnet::of(1);
    let all = |bits: &[JoinState]| JoinState(bits.iter().fold(0, |all, bit| all | bit.0));
    assert_eq!(subnet.join(1, MGID, FULL).unwrap().join_state(), FULL);
    assert_eq!(
        subnet.join(1, MGID, SEND).unwrap().join_state(),
        all(&[FULL, SEND])
    );
    assert_eq!(
        subnet.join(1, MGID, NON).unwrap().join_state(),
        all(&[FULL, SEND, NON])
    );
    // A port can give up only states that it has.
    subnet.leave(1, MGID, NON).unwrap();
    assert_eq!(
        subnet.leave(1, MGID, all(&[NON, FULL])),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(subnet.leave(1, MGID, NON), Err(SaStatus::REQ_INVALID));
    assert_eq!(
        subnet.leave(1, MGID, JoinState(0)),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(subnet.leave(1, MGID, SEND).unwrap().join_state(), FULL);
    let last = subnet.leave(1, MGID, FULL).unwrap();
    assert_eq!((last.join_state(), last.scope()), (JoinState(0), 2));
    assert_eq!(subnet.leave(1, MGID, FULL), Err(SaStatus::REQ_INVALID));
}

#[test]
fn broadcast_group_outlives_its_last_member_while_it_is_well_known() {
    let mut subnet = Subnet::with_broadcast(2);
    let mgid = broadcast(ALL_HOSTS).mgid;
    assert_eq!(subnet.registry.group(mgid).unwrap().mlid, mlid::BROADCAST);
    assert_eq!(subnet.leave(1, mgid, FULL), Err(SaStatus::REQ_INVALID));
    // A non-member may join a group that exists.
    let answer = subnet.set(1, &request(1, mgid, NON), REQUIRED).unwrap();
    assert_eq!(
        (answer.mtu(), answer.rate()),
        (Mtu::Bytes2048, Rate::GBPS_10)
    );
    subnet.leave(1, mgid, NON).unwrap();
    subnet.join(1, mgid, FULL).unwrap();
    subnet.leave(1, mgid, FULL).unwrap();
    assert!(subnet.registry.group(mgid).is_some());
    // A group that is no longer well known ends with its last full member.
    subnet.join(2, mgid, FULL).unwrap();
    subnet.registry.set_well_known(&[]);
    assert!(subnet.registry.group(mgid).is_some());
    subnet.leave(2, mgid, FULL).unwrap();
    assert!(subnet.registry.group(mgid).is_none());
}

#[test]
fn ip_group_requires_the_parameters_of_its_broadcast_group() {
    let mut subnet = Subnet::of(2);
    let ip = Gid(0xFF12_401B_FFFF << 80 | 0x0000_1234);
    assert_eq!(subnet.join(1, ip, FULL), Err(SaStatus::REQ_INVALID));
    subnet.registry.set_well_known(&[broadcast(ALL_HOSTS)]);
    let mut other_q_key = request(1, ip, FULL);
    other_q_key.set_q_key(7);
    assert_eq!(
        subnet.set(1, &other_q_key, COMPLETE),
        Err(SaStatus::REQ_INVALID)
    );
    let mut other_hop_limit = request(1, ip, FULL);
    other_hop_limit.set_hop_limit(9);
    assert_eq!(
        subnet.set(1, &other_hop_limit, COMPLETE | McMemberRecord::HOP_LIMIT),
        Err(SaStatus::REQ_INVALID)
    );
    let answer = subnet.join(1, ip, FULL).unwrap();
    assert_eq!(answer.mlid(), Lid(0xC001));
}

#[test]
fn ip_group_of_a_request_without_mtu_and_rate_has_those_of_its_broadcast_group() {
    let mut subnet = Subnet::of(3);
    let of_broadcast = Parameters {
        hop_limit: 3,
        ..broadcast(ALL_HOSTS)
    };
    subnet.registry.set_well_known(&[of_broadcast]);
    let ip = Gid(0xFF12_401B_FFFF << 80 | 0x0000_1234);
    // A faster port makes the group first, and asks for no MTU, rate or hop limit.
    subnet.join(1, ip, FULL).unwrap();
    let group = subnet.registry.group(ip).unwrap();
    let expected = Parameters {
        mgid: ip,
        ..of_broadcast
    };
    assert_eq!(group.parameters, expected);
    // The kernel of a slower port joins with the parameters of the broadcast group.
    let host = subnet.host(2);
    (host.mtu, host.rate) = (of_broadcast.mtu, of_broadcast.rate);
    let mut record = request(2, ip, FULL);
    record
        .set_mtu_selector(Selector::Exactly)
        .set_mtu(of_broadcast.mtu)
        .set_rate_selector(Selector::Exactly)
        .set_rate(of_broadcast.rate)
        .set_hop_limit(of_broadcast.hop_limit);
    let of_link = McMemberRecord::MTU_SELECTOR
        | McMemberRecord::MTU
        | McMemberRecord::RATE_SELECTOR
        | McMemberRecord::RATE;
    let mask = COMPLETE | of_link | McMemberRecord::HOP_LIMIT;
    assert!(subnet.set(2, &record, mask).is_ok());
    // A port that cannot carry the broadcast group makes no group beside it.
    subnet.host(3).mtu = Mtu::Bytes1024;
    let another = subnet.join(3, Gid(ip.0 + 1), FULL);
    assert_eq!(another, Err(SaStatus::REQ_INVALID));
}

#[test]
fn configured_rate_of_a_group_is_lowered_at_once_and_raised_only_without_members() {
    let mut subnet = Subnet::with_broadcast(3);
    let mgid = broadcast(ALL_HOSTS).mgid;
    let rate = |subnet: &Subnet| subnet.registry.group(mgid).unwrap().parameters.rate;
    let wanted = |rate| Parameters {
        rate,
        ..broadcast(ALL_HOSTS)
    };
    let usual = rate(&subnet);
    subnet.host(2).rate = Rate::GBPS_2_5;
    subnet.join(1, mgid, FULL).unwrap();
    assert_eq!(subnet.join(2, mgid, FULL), Err(SaStatus::REQ_INVALID));
    subnet.registry.set_well_known(&[wanted(Rate::GBPS_2_5)]);
    assert_eq!(rate(&subnet), Rate::GBPS_2_5);
    subnet.join(2, mgid, FULL).unwrap();
    subnet.registry.set_well_known(&[wanted(usual)]);
    assert_eq!(
        rate(&subnet),
        Rate::GBPS_2_5,
        "host 2 cannot carry the usual rate"
    );
    for host in [1, 2] {
        subnet.leave(host, mgid, FULL).unwrap();
    }
    subnet.registry.set_well_known(&[wanted(usual)]);
    assert_eq!(rate(&subnet), usual);
}

#[test]
fn ports_cannot_join_groups_whose_mtu_or_rate_exceeds_their_own() {
    let mut subnet = Subnet::with_broadcast(3);
    let mgid = broadcast(ALL_HOSTS).mgid;
    subnet.host(1).mtu = Mtu::Bytes1024;
    subnet.host(2).rate = Rate::GBPS_2_5;
    assert_eq!(subnet.join(1, mgid, FULL), Err(SaStatus::REQ_INVALID));
    assert_eq!(subnet.join(2, mgid, FULL), Err(SaStatus::REQ_INVALID));
    subnet.join(3, mgid, FULL).unwrap();
    // A group that the port itself creates fits its link.
    let answer = subnet.join(2, MGID, FULL).unwrap();
    assert_eq!(answer.rate(), Rate::GBPS_2_5);
}

#[test]
fn selectors_determine_mtu_rate_and_lifetime_of_a_new_group() {
    let mtu = |selector, value| {
        let mut subnet = Subnet::of(1);
        subnet.host(1).mtu = Mtu::Bytes2048;
        let mut record = request(1, MGID, FULL);
        record.set_mtu_selector(selector).set_mtu(value);
        let mask = COMPLETE | McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
        subnet.set(1, &record, mask).map(|answer| answer.mtu())
    };
    assert_eq!(mtu(Selector::Exactly, Mtu::Bytes1024), Ok(Mtu::Bytes1024));
    assert_eq!(
        mtu(Selector::Exactly, Mtu::Bytes4096),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(
        mtu(Selector::GreaterThan, Mtu::Bytes256),
        Ok(Mtu::Bytes2048)
    );
    assert_eq!(
        mtu(Selector::GreaterThan, Mtu::Bytes2048),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(mtu(Selector::LessThan, Mtu::Bytes4096), Ok(Mtu::Bytes2048));
    assert_eq!(
        mtu(Selector::LessThan, Mtu::Bytes256),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(
        mtu(Selector::Exactly, Mtu::from_code(6)),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(
        mtu(Selector::Extreme, Mtu::from_code(0)),
        Ok(Mtu::Bytes2048)
    );

    let rate = |selector, value| {
        let mut subnet = Subnet::of(1);
        let mut record = request(1, MGID, FULL);
        record.set_rate_selector(selector).set_rate(value);
        let mask = COMPLETE | McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE;
        subnet.set(1, &record, mask).map(|answer| answer.rate())
    };
    assert_eq!(rate(Selector::Exactly, Rate::GBPS_10), Ok(Rate::GBPS_10));
    assert_eq!(
        rate(Selector::Exactly, Rate::GBPS_400),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(
        rate(Selector::GreaterThan, Rate::GBPS_10),
        Ok(Rate::GBPS_100)
    );
    assert_eq!(
        rate(Selector::GreaterThan, Rate::GBPS_100),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(rate(Selector::LessThan, Rate::GBPS_10), Ok(Rate(5)));
    assert_eq!(
        rate(Selector::LessThan, Rate::GBPS_2_5),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(rate(Selector::Exactly, Rate(0)), Err(SaStatus::REQ_INVALID));

    let life = |selector, value| {
        let mut subnet = Subnet::of(1);
        let mut record = request(1, MGID, FULL);
        record
            .set_packet_life_time_selector(selector)
            .set_packet_life_time(value);
        let both = McMemberRecord::PACKET_LIFE_TIME_SELECTOR | McMemberRecord::PACKET_LIFE_TIME;
        let answer = subnet.set(1, &record, COMPLETE | both);
        answer.map(|answer| answer.packet_life_time())
    };
    assert_eq!(life(Selector::Exactly, 12), Ok(12));
    assert_eq!(life(Selector::LessThan, 12), Ok(11));
    assert_eq!(life(Selector::LessThan, 0), Err(SaStatus::REQ_INVALID));
    assert_eq!(life(Selector::GreaterThan, 20), Ok(21));
    assert_eq!(life(Selector::GreaterThan, 63), Err(SaStatus::REQ_INVALID));
}

#[test]
fn join_with_parameters_that_differ_from_the_group_is_refused() {
    let mut subnet = Subnet::of(2);
    subnet.join(1, MGID, FULL).unwrap();
    type Change = fn(&mut McMemberRecord);
    let changes: [(Change, ComponentMask); 7] = [
        (
            |record| {
                record.set_q_key(1);
            },
            McMemberRecord::Q_KEY,
        ),
        (
            |record| {
                record.set_t_class(1);
            },
            McMemberRecord::T_CLASS,
        ),
        (
            |record| {
                record.set_sl(1);
            },
            McMemberRecord::SL,
        ),
        (
            |record| {
                record.set_flow_label(1);
            },
            McMemberRecord::FLOW_LABEL,
        ),
        (
            |record| {
                record.set_hop_limit(1);
            },
            McMemberRecord::HOP_LIMIT,
        ),
        (
            |record| {
                record.set_p_key(EVEN_HOSTS);
            },
            McMemberRecord::P_KEY,
        ),
        (
            |record| {
                record
                    .set_mtu_selector(Selector::LessThan)
                    .set_mtu(Mtu::Bytes4096);
            },
            ComponentMask(McMemberRecord::MTU.0 | McMemberRecord::MTU_SELECTOR.0),
        ),
    ];
    for (change, component) in changes {
        let mut record = request(2, MGID, FULL);
        change(&mut record);
        assert_eq!(
            subnet.set(2, &record, REQUIRED | component),
            Err(SaStatus::REQ_INVALID)
        );
        // Components outside the mask are not compared.
        subnet.set(2, &record, REQUIRED).unwrap();
        subnet.leave(2, MGID, FULL).unwrap();
    }
}

#[test]
fn ports_outside_a_groups_partition_cannot_join_it() {
    let mut subnet = Subnet::of(4);
    let mut record = request(2, MGID, FULL);
    record.set_p_key(EVEN_HOSTS);
    subnet.set(2, &record, COMPLETE).unwrap();
    assert_eq!(
        subnet.set(1, &request(1, MGID, FULL), REQUIRED),
        Err(SaStatus::REQ_INVALID)
    );
    subnet.set(4, &request(4, MGID, FULL), REQUIRED).unwrap();
    let other = Gid(MGID.0 + 1);
    let mut record = request(1, other, FULL);
    record.set_p_key(EVEN_HOSTS);
    assert_eq!(subnet.set(1, &record, COMPLETE), Err(SaStatus::REQ_INVALID));
    assert!(subnet.registry.group(other).is_none());
    record.set_p_key(PKey(0x8000));
    assert_eq!(subnet.set(1, &record, COMPLETE), Err(SaStatus::REQ_INVALID));
}

#[test]
fn other_ports_can_change_only_memberships_by_proxy() {
    let mut subnet = Subnet::of(3);
    // Host 1 joins host 2 by proxy.
    let answer = subnet.set(1, &request(2, MGID, FULL), COMPLETE).unwrap();
    assert!(answer.proxy_join());
    // Any port in the partition may change a membership by proxy.
    let answer = subnet.set(3, &request(2, MGID, NON), REQUIRED).unwrap();
    assert!(answer.proxy_join());
    subnet.delete(3, &request(2, MGID, NON)).unwrap();
    // After the port has joined itself, only that port may change the membership.
    assert!(
        !subnet
            .set(2, &request(2, MGID, FULL), REQUIRED)
            .unwrap()
            .proxy_join()
    );
    assert_eq!(
        subnet.delete(3, &request(2, MGID, FULL)),
        Err(SaStatus::REQ_INVALID)
    );
    assert_eq!(
        subnet.set(3, &request(2, MGID, SEND), REQUIRED),
        Err(SaStatus::REQ_INVALID)
    );
    // A port that shares no partition with another port cannot act for that port.
    subnet.host(3).p_keys = vec![PKey(0x8009)];
    let other = Gid(MGID.0 + 1);
    assert_eq!(
        subnet.set(3, &request(1, other, FULL), COMPLETE),
        Err(SaStatus::REQ_INVALID)
    );
    // Limited members of one partition cannot communicate with each other.
    subnet.host(3).p_keys = vec![PKey(0x7FFF)];
    subnet.host(1).p_keys = vec![PKey(0x7FFF)];
    assert_eq!(
        subnet.set(3, &request(1, MGID, FULL), REQUIRED),
        Err(SaStatus::REQ_INVALID)
    );
    subnet.set(1, &request(1, MGID, FULL), REQUIRED).unwrap();
}

#[test]
fn join_of_a_port_that_does_not_exist_is_refused() {
    let mut subnet = Subnet::of(1);
    assert_eq!(
        subnet.set(1, &request(9, MGID, FULL), COMPLETE),
        Err(SaStatus::REQ_INVALID_GID)
    );
    let mut record = request(1, MGID, FULL);
    record.set_port_gid(Gid(1 << 64 | 1));
    assert_eq!(
        subnet.set(1, &record, COMPLETE),
        Err(SaStatus::REQ_INVALID_GID)
    );
}

#[test]
fn alias_gid_is_a_separate_member_at_the_same_port() {
    let mut subnet = Subnet::of(1);
    subnet.join(1, MGID, FULL).unwrap();
    let alias = request(0x1001, MGID, SEND);
    let answer = subnet.set(1, &alias, REQUIRED).unwrap();
    assert_eq!((answer.join_state(), answer.proxy_join()), (SEND, false));
    assert_eq!(subnet.registry.members(), 2);
    let set = subnet.registry.group_set();
    assert_eq!(set.by_mlid[&Lid(0xC001)].ports.len(), 1);
    assert!(
        set.by_mlid[&Lid(0xC001)].ports[&Guid(1)],
        "the port receives by its alias GID"
    );
    subnet.delete(1, &alias).unwrap();
    subnet.leave(1, MGID, FULL).unwrap();
    assert!(subnet.registry.group_set().by_mlid.is_empty());
}

#[test]
fn joining_beyond_max_memberships_per_port_is_refused() {
    let mut subnet = Subnet::of(6);
    for number in 0..MAX_MEMBERSHIPS_PER_PORT {
        let mgid = Gid(MGID.0 + number as u128);
        let creator = 3 + (number / MAX_CREATED_PER_PORT) as u64;
        subnet.join(creator, mgid, FULL).unwrap();
        subnet.join(1, mgid, FULL).unwrap();
    }
    let one_more = Gid(MGID.0 + MAX_MEMBERSHIPS_PER_PORT as u128);
    assert_eq!(subnet.join(1, one_more, FULL), Err(SaStatus::NO_RESOURCES));
    assert!(subnet.registry.group(one_more).is_none());
    // A port at the limit may add states in its groups; other ports are not affected.
    subnet.join(1, MGID, NON).unwrap();
    subnet.join(2, one_more, FULL).unwrap();
}

#[test]
fn port_creates_no_more_groups_than_its_share_even_for_other_ports() {
    let mut subnet = Subnet::of(3);
    let mgid = |number: usize| Gid(MGID.0 + number as u128);
    for number in 0..MAX_CREATED_PER_PORT {
        let host = 1 + (number % 3) as u64;
        let record = request(host, mgid(number), FULL);
        subnet.set(1, &record, COMPLETE).unwrap();
    }
    let one_more = mgid(MAX_CREATED_PER_PORT);
    assert_eq!(subnet.join(1, one_more, FULL), Err(SaStatus::NO_RESOURCES));
    subnet.join(2, one_more, FULL).unwrap();
    subnet.join(1, one_more, FULL).unwrap();
    // A group that ends makes room for another.
    subnet.leave(1, mgid(0), FULL).unwrap();
    subnet
        .join(1, mgid(MAX_CREATED_PER_PORT + 1), FULL)
        .unwrap();
    let again = subnet.join(1, mgid(MAX_CREATED_PER_PORT + 2), FULL);
    assert_eq!(again, Err(SaStatus::NO_RESOURCES));
}

#[test]
fn virtual_ports_have_the_share_of_their_physical_port() {
    let mut subnet = Subnet::of(3);
    subnet.host(2).physical = Guid(1);
    let mgid = |number: usize| Gid(MGID.0 + number as u128);
    for number in 0..MAX_CREATED_PER_PORT {
        let host = 1 + (number % 2) as u64;
        subnet.join(host, mgid(number), FULL).unwrap();
    }
    let one_more = mgid(MAX_CREATED_PER_PORT);
    for host in [1, 2] {
        let answer = subnet.join(host, one_more, FULL);
        assert_eq!(answer, Err(SaStatus::NO_RESOURCES), "host {host}");
    }
    subnet.join(3, one_more, FULL).unwrap();
}

#[test]
fn alias_guids_count_in_the_memberships_of_their_port() {
    let mut subnet = Subnet::of(6);
    let mgid = |number: usize| Gid(MGID.0 + number as u128);
    for number in 0..MAX_MEMBERSHIPS_PER_PORT / 2 {
        let creator = 3 + (number / MAX_CREATED_PER_PORT) as u64;
        subnet.join(creator, mgid(number), FULL).unwrap();
        subnet.join(1, mgid(number), FULL).unwrap();
        let alias = request(0x1001, mgid(number), FULL);
        subnet.set(1, &alias, COMPLETE).unwrap();
    }
    let one_more = mgid(MAX_MEMBERSHIPS_PER_PORT / 2);
    subnet.join(5, one_more, FULL).unwrap();
    assert_eq!(subnet.join(1, one_more, FULL), Err(SaStatus::NO_RESOURCES));
    subnet.join(2, one_more, FULL).unwrap();
}

#[test]
fn mlids_are_shared_within_a_partition_when_they_run_short() {
    let mut subnet = Subnet::with_broadcast(4);
    subnet.registry.set_capacity(3, 1);
    let mgids: Vec<Gid> = (0..4).map(|number| Gid(MGID.0 + number)).collect();
    let lids: Vec<Lid> = mgids
        .iter()
        .map(|&mgid| subnet.join(1, mgid, FULL).unwrap().mlid())
        .collect();
    assert_eq!(lids, [Lid(0xC001), Lid(0xC002), Lid(0xC000), Lid(0xC001)]);
    let mut record = request(2, Gid(MGID.0 + 9), FULL);
    record.set_p_key(EVEN_HOSTS);
    assert_eq!(
        subnet.set(2, &record, COMPLETE),
        Err(SaStatus::NO_RESOURCES)
    );
    subnet.join(3, mgids[3], SEND).unwrap();
    let set = subnet.registry.group_set();
    assert_eq!(set.by_mlid[&Lid(0xC001)].ports.len(), 2);
    subnet.leave(1, mgids[1], FULL).unwrap();
    assert_eq!(
        subnet.set(2, &record, COMPLETE).unwrap().mlid(),
        Lid(0xC002)
    );
}
