//! Tests of the operator's rules for groups and joins.

use rsm_mad::wire::sa::SaStatus;

use super::super::GroupRules;
use super::*;

/// A subnet whose registry has these rules.
fn subnet(rules: GroupRules) -> Subnet {
    let mut subnet = Subnet::with_broadcast(8);
    let config = GroupRegistryConfig {
        rules,
        ..GroupRegistryConfig::default()
    };
    subnet.registry.configure(config);
    subnet
}

/// The solicited-node group of the IPv6 address that ends with these 24 bits, in the default
/// partition.
fn solicited(last: u32) -> Gid {
    Gid(0xFF12_601B_FFFF_u128 << 80 | 0x1_FF00_0000 | u128::from(last & 0xFF_FFFF))
}

/// A request of host `number` for `mgid` with the parameters of the broadcast group.
fn ipv6(mgid: Gid, number: u64) -> McMemberRecord {
    let mut record = request(number, mgid, FULL);
    record
        .set_mtu(Mtu::Bytes2048)
        .set_rate(Rate::GBPS_10)
        .set_packet_life_time(18);
    record
}

#[test]
fn solicited_node_groups_share_a_multicast_lid_only_if_configured() {
    let separate = GroupRules::default();
    let together = GroupRules {
        consolidate_ipv6_snm: true,
        ..separate
    };
    for (rules, shared) in [(separate, false), (together, true)] {
        let mut subnet = subnet(rules);
        let mut joined = |number: u64, mgid| {
            let answer = subnet.set(number, &ipv6(mgid, number), COMPLETE).unwrap();
            answer.mlid()
        };
        let (first, second) = (joined(1, solicited(1)), joined(2, solicited(2)));
        assert_eq!(first == second, shared);
        // The group of all IPv6 nodes, and other groups, keep a multicast LID of their own.
        let all_nodes = Gid(0xFF12_601B_FFFF_u128 << 80 | 1);
        let others = [joined(3, all_nodes), joined(4, MGID)];
        assert!(!others.contains(&first) && others[0] != others[1]);
        // The LID stays in use until the last of its groups ends.
        subnet.leave(1, solicited(1), FULL).unwrap();
        let third = subnet.set(5, &ipv6(solicited(3), 5), COMPLETE).unwrap();
        assert_eq!(third.mlid() == second, shared);
    }
}

#[test]
fn joins_that_contradict_their_group_are_accepted_only_if_configured() {
    let strict = GroupRules::default();
    let lenient = GroupRules {
        validate_joins: false,
        ..strict
    };
    for (rules, accepted) in [(strict, false), (lenient, true)] {
        let mut subnet = subnet(rules);
        subnet.join(1, MGID, FULL).unwrap();
        let mut record = request(2, MGID, FULL);
        record.set_q_key(0x1234).set_sl(3);
        let answer = subnet.set(2, &record, COMPLETE);
        assert_eq!(answer.is_ok(), accepted, "{answer:?}");
        if let Ok(answer) = answer {
            // The answer has the parameters of the group.
            assert_eq!((answer.q_key(), answer.sl()), (0x0B1B, 0));
        }
        // A request never joins a group of another partition, or a group whose packets the port
        // cannot carry.
        record.set_p_key(EVEN_HOSTS);
        assert_eq!(subnet.set(2, &record, COMPLETE), Err(SaStatus::REQ_INVALID));
        subnet.host(6).mtu = Mtu::Bytes256;
        assert_eq!(subnet.join(6, MGID, FULL), Err(SaStatus::REQ_INVALID));
    }
}

#[test]
fn ip_groups_that_differ_from_their_broadcast_group_are_created_only_if_configured() {
    let strict = GroupRules::default();
    let lenient = GroupRules {
        validate_ipoib: false,
        ..strict
    };
    for (rules, created) in [(strict, false), (lenient, true)] {
        let mut subnet = subnet(rules);
        let mut record = ipv6(solicited(1), 1);
        record.set_q_key(0x1234);
        assert_eq!(subnet.set(1, &record, COMPLETE).is_ok(), created);
        // The rule also applies to a partition without a broadcast group.
        let p_key = u128::from(EVEN_HOSTS.0) << 80;
        let mut record = ipv6(Gid(0xFF12_601B_u128 << 96 | p_key | 0x1_FF00_0001), 2);
        record.set_p_key(EVEN_HOSTS);
        assert_eq!(subnet.set(2, &record, COMPLETE).is_ok(), created);
    }
}
