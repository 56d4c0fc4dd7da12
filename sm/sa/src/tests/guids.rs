//! Tests of alias GUIDs of ports.

use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::alias_guids::AliasGuids;

use super::world::{PREFIX, SM_KEY, SMALL, World, planned};
use crate::{Sa, SaConfig, SavedSaState};

/// The components of every request to assign or release alias GUIDs.
const REQUIRED: ComponentMask = GuidInfoRecord::LID.with(GuidInfoRecord::BLOCK_NUM);
const FIRST_ALIAS: Guid = Guid(0x1111);
const SECOND_ALIAS: Guid = Guid(0x2222);

/// A world whose hosts have room for 12 GUIDs, including their own.
fn world() -> World {
    let (mut fabric, plan) = planned(SMALL, 0);
    for port in fabric.nodes_mut().flat_map(|node| &mut node.ports) {
        if let Some(info) = &mut port.info {
            info.set_guid_cap(12);
        }
    }
    World::of(fabric, plan)
}

/// The components of a request about the GUIDs with these indices in a block.
fn components(indices: &[usize]) -> ComponentMask {
    let indices = indices
        .iter()
        .map(|&index| GuidInfoRecord::guid_component(index));
    indices.fold(REQUIRED, |mask, component| mask | component.unwrap())
}

/// A block of the GUID table of the port with this LID: each GUID with its index in the block.
fn block(lid: Lid, block: u8, aliases: &[(usize, Guid)]) -> GuidInfoRecord {
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid).set_block_num(block);
    let mut guids = [Guid::ZERO; 8];
    for &(index, alias) in aliases {
        guids[index] = alias;
    }
    record.guid_info_mut().set_guids(guids);
    record
}

/// The GUIDs of the block in the answer to a request, or the status of the answer.
fn ask(
    world: &mut World,
    host: Lid,
    sm_key: u64,
    method: Method,
    mask: ComponentMask,
    record: &GuidInfoRecord,
) -> Result<[Guid; 8], Status> {
    let records = world.ask_from((host, sm_key), method, mask, record)?;
    Ok(records[0].guid_info().guids())
}

/// The answer to a host that requests these alias GUIDs in block 0 of its table.
fn assign(world: &mut World, host: Lid, aliases: &[(usize, Guid)]) -> Result<[Guid; 8], Status> {
    let indices: Vec<usize> = aliases.iter().map(|&(index, _)| index).collect();
    let record = block(host, 0, aliases);
    ask(world, host, 0, Method::SET, components(&indices), &record)
}

/// The answer to a host that releases the alias GUIDs with these indices in block 0 of its table.
fn release(world: &mut World, host: Lid, indices: &[usize]) -> Result<[Guid; 8], Status> {
    let record = block(host, 0, &[]);
    ask(world, host, 0, Method::DELETE, components(indices), &record)
}

fn gid(guid: Guid) -> Gid {
    Gid::new(PREFIX, guid)
}

#[test]
fn alias_guids_can_be_assigned_found_and_released() {
    let mut world = world();
    let [a, b, ..] = world.hosts()[..] else {
        panic!("there are hosts");
    };
    let own = world.guid(a);
    let assigned = assign(&mut world, a, &[(1, FIRST_ALIAS), (3, Guid::ZERO)]).unwrap();
    let generated = assigned[3];
    assert_eq!(assigned[..3], [own, FIRST_ALIAS, Guid::ZERO]);
    assert!(!generated.is_zero());
    // A generated GUID stays when the host repeats the request.
    let again = assign(&mut world, a, &[(3, Guid::ZERO)]).unwrap();
    assert_eq!(again, assigned);
    let polled = world.sa.poll_guids(Time::MAX).unwrap();
    assert_eq!(polled.block(own, 0), assigned);
    assert_eq!(world.sa.poll_guids(Time::MAX), None);
    let saved = world.sa.poll_save(Time::MAX).unwrap();
    assert_eq!(saved.guids.as_ref(), Some(&polled));
    // Other hosts see the alias GUIDs, and get paths to them.
    let mut of_a = GuidInfoRecord::default();
    of_a.set_lid(a);
    let seen = world.table(GuidInfoRecord::LID, &of_a);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].guid_info().guids(), assigned);
    let mut path = PathRecord::default();
    path.set_sgid(world.gid(b)).set_dgid(gid(generated));
    let mask = PathRecord::SGID | PathRecord::DGID;
    let found = world.get(mask, &path).unwrap();
    assert_eq!((found.dlid(), found.dgid()), (a, gid(generated)));
    assert_eq!(found.sgid(), world.gid(b));
    // GUIDCap permits indices 0 to 3 of the second block.
    let record = block(a, 1, &[(3, SECOND_ALIAS)]);
    let second = ask(&mut world, a, 0, Method::SET, components(&[3]), &record);
    assert_eq!(second.unwrap()[3], SECOND_ALIAS);
    assert_eq!(
        world.sa.poll_guids(Time::MAX).unwrap().blocks(own),
        [0, 1].into()
    );

    let left = release(&mut world, a, &[1, 2, 3]).unwrap();
    assert_eq!(left[..4], [own, Guid::ZERO, Guid::ZERO, Guid::ZERO]);
    let refused = world.get(mask, &path);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID_GID);
}

#[test]
fn invalid_alias_guid_requests_are_refused() {
    let mut world = world();
    let [a, b, ..] = world.hosts()[..] else {
        panic!("there are hosts");
    };
    assign(&mut world, a, &[(1, FIRST_ALIAS)]).unwrap();
    // If the requested GUID belongs to another port, or is the port's own GUID, the answer shows
    // the present entry instead.
    for taken in [FIRST_ALIAS, world.guid(a), world.guid(b)] {
        let answer = assign(&mut world, b, &[(2, taken), (4, SECOND_ALIAS)]).unwrap();
        assert_eq!(
            (answer[2], answer[4]),
            (Guid::ZERO, SECOND_ALIAS),
            "{taken}"
        );
    }
    let answer = assign(&mut world, a, &[(2, FIRST_ALIAS)]).unwrap();
    assert_eq!(answer[1..3], [FIRST_ALIAS, Guid::ZERO]);
    // Index 0 is the port's own GUID, which cannot be changed.
    let invalid = Err(SaStatus::REQ_INVALID);
    assert_eq!(assign(&mut world, a, &[(0, SECOND_ALIAS)]), invalid);
    assert_eq!(release(&mut world, a, &[0, 1]), invalid);
    // Missing components, unknown ports, and blocks and indices beyond GUIDCap.
    let set = Method::SET;
    let record = block(a, 0, &[(2, SECOND_ALIAS)]);
    let only_lid = GuidInfoRecord::LID;
    let refused = ask(&mut world, a, 0, set, only_lid, &record);
    assert_eq!(refused, Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS));
    let of_absent_port = block(Lid(0xBFF0), 0, &[(2, SECOND_ALIAS)]);
    let refused = ask(&mut world, a, 0, set, components(&[2]), &of_absent_port);
    assert_eq!(refused, Err(SaStatus::NO_RECORDS));
    let beyond = block(a, 2, &[(0, SECOND_ALIAS)]);
    let refused = ask(&mut world, a, 0, set, components(&[0]), &beyond);
    assert_eq!(refused, Err(SaStatus::NO_RECORDS));
    let beyond = block(a, 1, &[(4, SECOND_ALIAS)]);
    assert_eq!(
        ask(&mut world, a, 0, set, components(&[4]), &beyond),
        invalid
    );
    let unknown = ComponentMask(1 << 12);
    assert_eq!(
        ask(&mut world, a, 0, set, REQUIRED | unknown, &record),
        invalid
    );
    // Only trusted ports assign GUIDs to other ports.
    let refused = ask(&mut world, b, 0, set, components(&[2]), &record);
    assert_eq!(refused, Err(SaStatus::REQ_DENIED));
    let of_other = block(a, 0, &[(2, Guid(0x3333))]);
    let trusted = ask(&mut world, b, SM_KEY, set, components(&[2]), &of_other);
    assert_eq!(trusted.unwrap()[2], Guid(0x3333));
}

#[test]
fn alias_guid_in_a_group_cannot_be_released_and_ends_with_its_port() {
    let mut world = world();
    let host = world.hosts()[2];
    let own = world.guid(host);
    assign(&mut world, host, &[(1, FIRST_ALIAS), (2, SECOND_ALIAS)]).unwrap();
    let mut member = McMemberRecord::default();
    member
        .set_mgid(Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF))
        .set_port_gid(gid(FIRST_ALIAS))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let change =
        |world: &mut World, method| world.ask_from((host, 0), method, mask, &member).unwrap()[0];
    assert_eq!(change(&mut world, Method::SET).port_gid(), gid(FIRST_ALIAS));
    let groups = world.sa.poll_groups(Time::MAX).unwrap();
    assert!(groups.by_mlid[&Lid(0xC000)].ports.contains_key(&own));
    let denied = Err(SaStatus::REQ_DENIED);
    assert_eq!(release(&mut world, host, &[1, 2]), denied);
    assert_eq!(assign(&mut world, host, &[(1, Guid(0x3333))]), denied);
    release(&mut world, host, &[2]).unwrap();
    change(&mut world, Method::DELETE);
    release(&mut world, host, &[1]).unwrap();

    assign(&mut world, host, &[(1, FIRST_ALIAS)]).unwrap();
    world.remove_host(host);
    world.sa.handle_deadline(Time::ZERO);
    assert!(
        !world.sa.guids().alias_index().is_empty(),
        "the port may return"
    );
    world
        .sa
        .handle_deadline(Time::ZERO + Duration::from_secs(10));
    assert!(world.sa.guids().alias_index().is_empty());
    assert_eq!(
        *world.sa.poll_guids(Time::MAX).unwrap(),
        AliasGuids::default()
    );
    // Another port may get the released GUID now.
    let other = world.hosts()[0];
    assert_eq!(
        assign(&mut world, other, &[(5, FIRST_ALIAS)]).unwrap()[5],
        FIRST_ALIAS
    );
}

#[test]
fn alias_equal_to_the_guid_of_a_port_ends_with_its_memberships_when_the_port_appears() {
    let mut world = world();
    let (attacker, victim) = (world.hosts()[0], world.hosts()[2]);
    let own = world.guid(victim);
    let with_victim = world.snapshot.clone();
    world.remove_host(victim);
    world.sa.handle_deadline(Time::ZERO);
    assert_eq!(assign(&mut world, attacker, &[(1, own)]).unwrap()[1], own);
    let broadcast = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
    let mut member = McMemberRecord::default();
    member
        .set_mgid(broadcast)
        .set_port_gid(gid(own))
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let join = |world: &mut World, host| world.ask_from((host, 0), Method::SET, mask, &member);
    join(&mut world, attacker).unwrap();

    world.snapshot = with_victim;
    world.sa.replace(&world.snapshot);
    world
        .sa
        .handle_deadline(Time::ZERO + Duration::from_secs(1));
    assert_eq!(world.sa.guids().alias_index().owner(own), None);
    assert_eq!(world.sa.multicast().members(), 0);
    let polled = world.sa.poll_guids(Time::MAX).unwrap();
    assert_eq!(*polled, AliasGuids::default());
    join(&mut world, victim).unwrap();
    let group = world.sa.multicast().group(broadcast).unwrap();
    assert_eq!(group.members[&own].port, own);
    // The attacker cannot have it again.
    let refused = assign(&mut world, attacker, &[(1, own)]).unwrap();
    assert_eq!(refused[1], Guid::ZERO);
}

#[test]
fn repeated_changes_of_alias_guids_reach_the_core_at_a_limited_pace() {
    let mut world = world();
    let host = world.hosts()[0];
    let own = world.guid(host);
    let ms = |ms| Time::ZERO + Duration::from_millis(ms);
    let mut passed = Vec::new();
    for turn in 0..100 {
        match turn % 2 {
            0 => assign(&mut world, host, &[(1, FIRST_ALIAS)]).unwrap(),
            _ => release(&mut world, host, &[1]).unwrap(),
        };
        passed.extend(world.sa.poll_guids(ms(turn)).map(|_| turn));
    }
    assert!((4..=5).contains(&passed.len()), "{passed:?}");
    // The last change is delayed, but not lost.
    world.sa.poll_save(Time::MAX);
    world.sa.handle_deadline(ms(99));
    let due = world.sa.next_deadline().expect("the core lacks a change");
    assert!(due > ms(99), "{due:?}");
    let last = world.sa.poll_guids(ms(200)).expect("the delay has ended");
    assert!(last.blocks(own).is_empty());
    assert_eq!(world.sa.poll_guids(ms(300)), None);
}

#[test]
fn saved_alias_guids_are_restored_unless_invalid() {
    let mut saved = AliasGuids::default();
    for (port, index, alias) in [
        (1, 1, 11),
        (1, 2, 12),
        // Port 2: the port's own GUID, 0, another port's own GUID, the alias GUID of another port,
        // an alias GUID at index 0, and a valid alias GUID.
        (2, 1, 2),
        (2, 2, 0),
        (2, 3, 1),
        (2, 4, 11),
        (2, 0, 13),
        (2, 5, 14),
    ] {
        let aliases = saved.by_port.entry(Guid(port)).or_default();
        aliases.insert(index, Guid(alias));
    }
    let mut sa = Sa::new(SaConfig {
        sm_key: 0,
        ..SaConfig::default()
    });
    let saved_state = SavedSaState {
        guids: saved,
        ..SavedSaState::default()
    };
    assert_eq!(sa.restore(saved_state, Time::ZERO), 5);
    let alias_index = sa.guids().alias_index();
    assert_eq!(alias_index.owner(Guid(11)), Some(Guid(1)));
    assert_eq!(alias_index.owner(Guid(14)), Some(Guid(2)));
    assert_eq!(alias_index.owner(Guid(13)), None);
    assert!(sa.poll_guids(Time::MAX).is_some());
}
