//! Tests of answers to commands that the hardware does not hold yet.

use rsm_api::access::{Grant, Role};
use rsm_api::model::{
    EmptyPartition, ExistingPartition, MemberName, Membership, PartitionAction, PartitionChange,
    PartitionChanged, PartitionSettings, PortAction, PortCommand, WantedMember, WhenCutOff,
};
use rsm_api::{Control, ControlError, v1};
use rsm_ids::Guid;
use rsm_sim::Silence;

use super::world::*;

fn member(name: &str) -> MemberName {
    MemberName::Present(named(name))
}

async fn change(
    world: &mut World,
    action: PartitionAction,
) -> Result<PartitionChanged, ControlError> {
    let change = PartitionChange {
        p_key: 0x10,
        action,
        by: "alice".to_owned(),
        grant: Grant::of(&[Role::Admin]),
        cut_off: WhenCutOff::Accept,
    };
    carry_out(world, |controller| async move {
        controller.change_partition(change).await
    })
    .await
}

/// A world with a partition of the second and the fourth host, in which the node `silent` no longer
/// answers.
async fn with_partition(silent: Guid) -> World {
    let mut world = World::up();
    let wanted = |name: Guid| WantedMember {
        port: member(&name.to_string()),
        membership: Membership::Full,
        index0: false,
    };
    let create = PartitionAction::Create {
        settings: PartitionSettings::default(),
        members: vec![wanted(HOSTS[1]), wanted(HOSTS[3])],
        existing: ExistingPartition::Refuse,
    };
    change(&mut world, create).await.unwrap();
    assert!(has_key(&world, HOSTS[3]));
    world.sim.set_silence(silent, Silence::Answers).unwrap();
    world
}

/// Whether the P_KeyTable of a host has the key of the partition.
fn has_key(world: &World, host: Guid) -> bool {
    let keys = world.sim.p_keys(host, rsm_ids::PortNum(1)).unwrap();
    keys.iter().any(|key| key.base() == 0x10)
}

fn remove(host: Guid) -> PartitionAction {
    PartitionAction::Remove(vec![member(&host.to_string())], EmptyPartition::Keep)
}

#[tokio::test]
async fn removal_is_not_done_while_a_silent_host_keeps_its_membership() {
    let mut world = with_partition(HOSTS[3]).await;
    // The command has no effect the second time, and is not done then either.
    for _ in 0..2 {
        let removed = change(&mut world, remove(HOSTS[3])).await;
        let Err(ControlError::Unwritten { parts, what }) = removed else {
            panic!("{removed:?}");
        };
        assert_eq!((parts, what.as_str()), (1, "twin port 1"));
        assert!(has_key(&world, HOSTS[3]));
    }
    world.sim.set_silence(HOSTS[3], Silence::None).unwrap();
    world.run(WAIT * 20);
    assert!(!has_key(&world, HOSTS[3]), "the change was kept");
    change(&mut world, remove(HOSTS[3])).await.unwrap();
}

#[tokio::test]
async fn change_of_other_members_is_done_despite_a_silent_host() {
    let mut world = with_partition(HOSTS[3]).await;
    change(&mut world, remove(HOSTS[3])).await.unwrap_err();
    let removed = change(&mut world, remove(HOSTS[1])).await.unwrap();
    assert_eq!(removed.memberships, 1);
    assert!(!has_key(&world, HOSTS[1]));
}

#[tokio::test]
async fn port_whose_switch_is_silent_is_not_disabled() {
    let mut world = World::up();
    world.sim.set_silence(LEAF_2, Silence::Answers).unwrap();
    let command = PortCommand {
        port: named("leaf-2:2"),
        action: PortAction::Disable,
        accept_cut_off: true,
        accept_other_operator: false,
        accept_own_cut_off: false,
        by: "alice".to_owned(),
        reason: String::new(),
    };
    let answer: Result<v1::OperatePortResponse, _> =
        carry_out(&mut world, |controller| async move {
            controller.operate_port(command).await
        })
        .await;
    let Err(ControlError::Unwritten { parts, what }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((parts, what.as_str()), (1, "leaf-2 port 2"));
}

#[tokio::test]
async fn rewrite_names_the_switch_that_does_not_hold_its_tables() {
    let mut world = World::up();
    world.sim.set_silence(LEAF_2, Silence::Answers).unwrap();
    let answer = carry_out(&mut world, |controller| async move {
        controller.rewrite().await
    })
    .await;
    let Err(ControlError::Unwritten { parts, what }) = answer else {
        panic!("{answer:?}");
    };
    assert!(parts >= 1 && what.contains("leaf-2"), "{parts}: {what}");
}
