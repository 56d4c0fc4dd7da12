//! Tests that a subscriber gets reports only of ports, groups and keys that it may know.

use super::*;

#[test]
fn subscribers_get_no_reports_of_ports_in_other_partitions() {
    let mut world = partitioned_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    for &host in &hosts {
        subscribe(&mut world, host, &all_of(InformInfo::ALL)).unwrap();
    }
    send(
        &mut world,
        address(hosts[3], 1),
        &all_of(InformInfo::ALL),
        SM_KEY,
    )
    .unwrap();
    world.sa.notice(&link_change(switches[0]), START);
    let to: Vec<(Lid, u32)> = reports(&mut world, START)
        .iter()
        .map(|report| (report.remote.lid, report.remote.qpn))
        .collect();
    // Hosts 1 and 3 are not in the partition of the switch, but queue pair 1 of host 3 is trusted.
    assert_eq!(to, [(hosts[0], QPN), (hosts[2], QPN), (hosts[3], 1)]);
    // A port that the subscriber may not see counts as absent.
    let mut hidden = all_of(128);
    hidden.set_gid(world.gid(switches[0]));
    let refused = subscribe(&mut world, hosts[1], &hidden);
    assert_eq!(refused, Err(SaStatus::REQ_INVALID_GID));
    let mut range = all_of(128);
    range.set_lid_range_begin(switches[0]);
    assert_eq!(
        subscribe(&mut world, hosts[1], &range),
        Err(SaStatus::REQ_INVALID)
    );
    subscribe(&mut world, hosts[0], &hidden).unwrap();
    subscribe(&mut world, hosts[0], &range).unwrap();
}

#[test]
fn only_trusted_subscribers_get_reports_of_wrong_m_keys() {
    let mut world = serving_world();
    let (hosts, switches) = (world.hosts(), world.switches());
    subscribe(&mut world, hosts[1], &all_of(InformInfo::ALL)).unwrap();
    let trusted = address(hosts[2], QPN);
    send(&mut world, trusted, &all_of(256), SM_KEY).unwrap();
    let details = BadMKey::default();
    let (kind, producer) = (NoticeType::Security, ProducerType::SWITCH);
    let notice = Notice::generic(kind, producer, Trap::BAD_M_KEY, switches[0], &details);
    world.sa.notice(&notice, START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(256, hosts[2])]
    );
}

#[test]
fn reports_of_a_group_go_only_to_subscribers_in_its_partition() {
    let mut world = serving_world();
    let hosts = world.hosts();
    subscribe(&mut world, hosts[1], &all_of(66)).unwrap();
    subscribe(&mut world, hosts[1], &all_of(67)).unwrap();
    let mgid = Gid(0xFF12_401B_FFFF_0000_0000_0000_0000_0005);
    let mut member = McMemberRecord::default();
    member
        .set_mgid(mgid)
        .set_port_gid(world.gid(hosts[0]))
        .set_q_key(0x0B1B)
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let required = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let mask = required
        | McMemberRecord::Q_KEY
        | McMemberRecord::P_KEY
        | McMemberRecord::T_CLASS
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL;
    world
        .ask::<_, McMemberRecord>(Method::SET, mask, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let created = reports(&mut world, START).pop().unwrap();
    assert_eq!(trap_of(&created), (66, hosts[1]));
    let notice = notice_in(&created).notice();
    let TrapDetails::GidChange(change) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(change.gid(), mgid);
    answer(&mut world, &created);
    world
        .ask::<_, McMemberRecord>(Method::DELETE, required, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let later = START + limits::QUIET;
    world.sa.handle_deadline(later);
    let deleted = reports(&mut world, later).pop().unwrap();
    assert_eq!(trap_of(&deleted), (67, hosts[1]));
    // Host 1 is not in the partition of the next group, so that only host 2 gets a report.
    let mut world = partitioned_world();
    let hosts = world.hosts();
    subscribe(&mut world, hosts[1], &all_of(66)).unwrap();
    subscribe(&mut world, hosts[2], &all_of(66)).unwrap();
    member.set_p_key(PKey(0x8001)).set_mgid(Gid(0));
    world
        .ask::<_, McMemberRecord>(Method::SET, mask, &member)
        .unwrap();
    world.sa.handle_deadline(START);
    let sent = reports(&mut world, START);
    assert_eq!(
        sent.iter().map(trap_of).collect::<Vec<_>>(),
        [(66, hosts[2])]
    );
}

/// The request of the subscriber contains indices of the P_Key table and of the GID table of this
/// manager's port. Both tables can change, and the port of a successor has different tables.
#[test]
fn reports_use_the_present_index_of_the_subscriptions_p_key() {
    let world = World::new(SMALL);
    let subscriber = *world.hosts().last().unwrap();
    let own = world.snapshot.plan.as_ref().unwrap().sm_lid;
    let mut world = world.with_partitions(&[(own, &[0xFFFF, 0x8001]), (subscriber, &[0x8001])]);
    world.sa.handle_deadline(START);
    let mut from = address(subscriber, QPN);
    from.pkey_index = 1;
    from.grh = Some(Grh {
        gid: world.gid(subscriber),
        gid_index: 3,
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
    });
    send(&mut world, from, &all_of(InformInfo::ALL), 0).unwrap();
    let mut now = START;
    for (table, index) in [
        (&[0xFFFF, 0x8002, 0x8001][..], 2),
        // A successor may be a member with different rights.
        (&[0x0001, 0xFFFF], 0),
        // If this manager's port is not in the partition, the default partition is used.
        (&[0x8002, 0xFFFF], 1),
    ] {
        world = world.with_partitions(&[(own, table), (subscriber, &[0x8001, 0xFFFF])]);
        // Notices that are repeated within this time are dropped.
        now += limits::QUIET * 2;
        world.sa.handle_deadline(now);
        world.sa.notice(&link_change(own), now);
        let sent = reports(&mut world, now);
        let last = sent
            .last()
            .unwrap_or_else(|| panic!("no report: {table:x?}"));
        let grh = last.remote.grh.expect("the request had one");
        assert_eq!((last.remote.pkey_index, grh.gid_index), (index, 0));
        answer(&mut world, last);
    }
}
