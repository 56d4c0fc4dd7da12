//! Tests of the overlay: partitions that operators and tenants change through the API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};

use super::*;
use crate::{
    Owned, PartitionMembers, PartitionOrigin, Partitions, Protection, TrustMode, parse_partitions,
};

/// The partitions of a file with this text, which has no faults.
fn file(text: &str) -> Arc<Partitions> {
    let (partitions, findings) = parse_partitions(Path::new("partitions.conf"), text, false);
    assert_eq!(findings, []);
    Arc::new(partitions)
}

/// The partitions without a file.
fn no_file() -> Arc<Partitions> {
    Arc::default()
}

/// A change by an operator, who may change all partitions.
fn change(p_key: u16, action: Action) -> Change {
    Change {
        p_key,
        action,
        by: "alice".to_owned(),
        at_unix_ms: 7,
        may_change: vec![0..=0x7fff],
        when_cut_off: WhenCutOff::Accept,
    }
}

fn member(membership: Membership, index0: bool) -> Member {
    Member { membership, index0 }
}

/// Full members with these GUIDs.
fn members(guids: &[u64]) -> BTreeMap<Guid, Member> {
    let full = member(Membership::Full, false);
    guids.iter().map(|&guid| (Guid(guid), full)).collect()
}

/// The creation of a partition with plain settings.
fn create(p_key: u16, guids: &[u64], existing: Existing) -> Change {
    let action = Action::Create {
        settings: PartitionSettings::plain(p_key),
        members: members(guids),
        existing,
    };
    change(p_key, action)
}

/// The overlay after `changes`. Panics if one of them is refused.
fn overlay_after(changes: &[Change], file: &Partitions) -> Overlay {
    let start = Overlay::default();
    changes.iter().fold(start, |overlay, change| {
        overlay
            .apply(change, file)
            .unwrap_or_else(|error| panic!("{error}"))
    })
}

/// GUIDs of the members of a partition, ascending.
fn member_guids(overlay: &Overlay, p_key: u16) -> Vec<u64> {
    let partition = overlay.find(p_key).expect("it is there");
    partition.members.keys().map(|guid| guid.0).collect()
}

#[test]
fn repeated_creation_changes_nothing_and_is_refused_with_other_settings() {
    let creation = create(0x10, &[1, 2], Existing::Same);
    let overlay = overlay_after(std::slice::from_ref(&creation), &no_file());
    assert_eq!(overlay.apply(&creation, &no_file()).as_ref(), Ok(&overlay));
    let extended = overlay.apply(&create(0x10, &[3], Existing::Same), &no_file());
    assert_eq!(
        member_guids(&extended.expect("same settings"), 0x10),
        [1, 2, 3]
    );
    let other_settings = change(
        0x10,
        Action::Create {
            settings: PartitionSettings {
                ipoib: true,
                mtu: Mtu::Bytes4096,
                ..PartitionSettings::plain(0x10)
            },
            members: members(&[9]),
            existing: Existing::Same,
        },
    );
    let error = overlay
        .apply(&other_settings, &no_file())
        .expect_err("other settings");
    let expected = "the partition 0x0010 exists already, with the name `0x0010` and another setting of ipoib, MTU";
    assert_eq!(error.to_string(), expected);
    let refused = overlay.apply(&create(0x10, &[], Existing::Refuse), &no_file());
    assert!(matches!(refused, Err(ChangeError::Exists { .. })));
}

#[test]
fn invalid_and_taken_partition_names_are_refused() {
    let named = |p_key: u16, name: &str| {
        let settings = PartitionSettings {
            name: name.to_owned(),
            ..PartitionSettings::plain(p_key)
        };
        let action = Action::Create {
            settings,
            members: BTreeMap::new(),
            existing: Existing::Same,
        };
        change(p_key, action)
    };
    let file = file("Default=0x7fff : ALL=full ;\nBlue=0x20 : 0x5=full ;");
    let overlay = overlay_after(&[named(0x10, "red")], &file);
    let taken = |name: &str, p_key| ChangeError::NameTaken {
        name: name.to_owned(),
        p_key,
    };
    assert_eq!(
        overlay.apply(&named(0x11, "red"), &file),
        Err(taken("red", 0x10))
    );
    assert_eq!(
        overlay.apply(&named(0x11, "Blue"), &file),
        Err(taken("Blue", 0x20))
    );
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for wrong in ["", "a\nb", &long] {
        let refused = overlay.apply(&named(0x11, wrong), &file);
        assert!(
            matches!(refused, Err(ChangeError::Name { .. })),
            "{wrong:?}"
        );
    }
    let renamed = change(
        0x10,
        Action::Configure(PartitionSettings {
            name: "green".to_owned(),
            ..PartitionSettings::plain(0x10)
        }),
    );
    let overlay = overlay.apply(&renamed, &file).expect("it is free");
    assert_eq!(
        overlay.find(0x10).expect("it is there").settings.name,
        "green"
    );
}

#[test]
fn changes_of_unknown_partitions_and_of_the_files_partitions_are_refused() {
    let file = file("Default=0x7fff : ALL=full ;\nBlue=0x20 : 0x5=full ;");
    let overlay = Overlay::default();
    let add = |p_key| change(p_key, Action::Add(members(&[1])));
    let error = overlay
        .apply(&add(0x20), &file)
        .expect_err("it is in the file");
    assert!(
        error
            .to_string()
            .contains("`Blue`) is defined in partitions.conf"),
        "{error}"
    );
    for action in [
        Action::Delete,
        Action::Remove(BTreeSet::new(), WhenEmpty::Keep),
    ] {
        let error = overlay.apply(&change(0x8020, action), &file);
        assert!(matches!(error, Err(ChangeError::InFile { .. })));
    }
    let unknown = Err(ChangeError::NotFound { p_key: 0x21 });
    assert_eq!(overlay.apply(&add(0x21), &file), unknown);
    assert_eq!(overlay.apply(&change(0x21, Action::Delete), &file), unknown);
}

#[test]
fn change_with_an_invalid_member_is_refused() {
    let overlay = overlay_after(&[create(0x10, &[1], Existing::Same)], &no_file());
    for guid in [0, u64::MAX] {
        let refused = overlay.apply(&change(0x10, Action::Add(members(&[2, guid]))), &no_file());
        assert_eq!(refused, Err(ChangeError::Guid { guid: Guid(guid) }));
    }
    let both = BTreeMap::from([(Guid(2), member(Membership::Both, false))]);
    let add = change(0x10, Action::Add(both));
    let refused = overlay.apply(&add, &no_file());
    assert_eq!(refused, Err(ChangeError::BothNotAllowed { guid: Guid(2) }));
    let allowing = Partitions {
        allow_both: true,
        ..Partitions::default()
    };
    assert!(overlay.apply(&add, &allowing).is_ok());
}

#[test]
fn membership_above_the_maximum_is_refused_but_deletion_is_permitted() {
    let guids: Vec<u64> = (1..=MAX_MEMBERSHIPS as u64).collect();
    let full = overlay_after(&[create(0x10, &guids, Existing::Same)], &no_file());
    assert_eq!(full.memberships(), MAX_MEMBERSHIPS);
    let wanted = MAX_MEMBERSHIPS + 1;
    let refused = full.apply(&create(0x11, &[1], Existing::Same), &no_file());
    assert_eq!(refused, Err(ChangeError::TooMany { wanted }));
    let delete = change(0x10, Action::Delete);
    assert_eq!(
        full.apply(&delete, &no_file())
            .expect("it goes")
            .memberships(),
        0
    );
}

#[test]
fn index_0_belongs_to_one_partition_and_moves_only_among_the_callers_partitions() {
    let add_member = |p_key, index0| {
        change(
            p_key,
            Action::Add(BTreeMap::from([(
                Guid(1),
                member(Membership::Full, index0),
            )])),
        )
    };
    let overlay = overlay_after(
        &[
            create(0x10, &[], Existing::Same),
            create(0x11, &[], Existing::Same),
            add_member(0x10, true),
        ],
        &no_file(),
    );
    let index0 = |overlay: &Overlay, p_key| {
        let partition = overlay.find(p_key).expect("it is there");
        partition.members[&Guid(1)].index0
    };
    let tenant = Change {
        may_change: vec![0x11..=0x1f],
        ..add_member(0x11, true)
    };
    let refusal = ChangeError::Index0 {
        guid: Guid(1),
        p_key: 0x10,
    };
    assert_eq!(overlay.apply(&tenant, &no_file()), Err(refusal));
    let moved = overlay
        .apply(&add_member(0x11, true), &no_file())
        .expect("the caller may change all partitions");
    assert!(index0(&moved, 0x11) && !index0(&moved, 0x10));
    // If both partitions claim index 0 in the stored state, only the first one keeps it.
    let both = [0x10, 0x11].map(|p_key| {
        let mut partition = OverlayPartition::clone(moved.find(p_key).expect("it is there"));
        partition
            .members
            .insert(Guid(1), member(Membership::Full, true));
        (p_key, partition)
    });
    let restored = Overlay::restore(BTreeMap::from(both), false);
    assert!(index0(&restored, 0x10) && !index0(&restored, 0x11));
}

#[test]
fn tenant_moves_index_0_only_among_its_own_partitions() {
    let claim = |p_key| {
        let claiming = BTreeMap::from([(Guid(1), member(Membership::Full, true))]);
        change(p_key, Action::Add(claiming))
    };
    let of_tenant = |change| Change {
        may_change: vec![0x10..=0x1f],
        ..change
    };
    let overlay = overlay_after(
        &[
            create(0x10, &[], Existing::Same),
            create(0x11, &[], Existing::Same),
        ],
        &no_file(),
    );
    // The default partition has index 0 of a port that no partition of the API claims.
    let refused = overlay.apply(&of_tenant(claim(0x10)), &no_file());
    let default = ChangeError::Index0 {
        guid: Guid(1),
        p_key: 0x7fff,
    };
    assert_eq!(refused, Err(default));
    let claimed = overlay
        .apply(&claim(0x10), &no_file())
        .expect("an operator may");
    let repeated = claimed.apply(&of_tenant(claim(0x10)), &no_file());
    assert_eq!(repeated.as_ref(), Ok(&claimed));
    let moved = claimed.apply(&of_tenant(claim(0x11)), &no_file());
    let moved = moved.expect("both are the tenant's");
    assert!(moved.find(0x11).expect("it is there").members[&Guid(1)].index0);
}

#[test]
fn tenant_beyond_a_quarter_of_the_p_key_table_of_a_port_is_refused() {
    let partitions = (0x10..0x40).map(|p_key| create(p_key, &[], Existing::Same));
    let mut overlay = overlay_after(&Vec::from_iter(partitions), &no_file());
    let add = |p_key: u16, guid: u64| Change {
        may_change: vec![0x10..=0x3f],
        ..change(p_key, Action::Add(members(&[guid])))
    };
    let mut keys_added = 0;
    let refused = (0x10..0x40).find_map(|p_key| {
        let next = overlay
            .apply(&add(p_key, 7), &no_file())
            .expect("one key more");
        let checked = next.check_shares(&add(p_key, 7), &overlay, |_| Some(128));
        (overlay, keys_added) = (next, keys_added + 1);
        checked.err()
    });
    let refused = refused.expect("it has its share");
    let over_share = ChangeError::TenantShare {
        guid: Guid(7),
        wanted: 33,
        share: 32,
    };
    assert_eq!((refused, keys_added), (over_share, 33));
    // Each port has its own share, of at least one key. Operators may use the whole table.
    let next = |change: &Change| overlay.apply(change, &no_file()).expect("it can be made");
    let other = add(0x10, 8);
    assert_eq!(
        next(&other).check_shares(&other, &overlay, |_| Some(2)),
        Ok(())
    );
    let operator = change(0x3f, Action::Add(members(&[7])));
    assert_eq!(
        next(&operator).check_shares(&operator, &overlay, |_| None),
        Ok(())
    );
    // A tenant beyond its share may repeat a request that adds no key.
    let repeated = add(0x10, 7);
    assert_eq!(
        next(&repeated).check_shares(&repeated, &overlay, |_| Some(128)),
        Ok(())
    );
}

#[test]
fn each_tenant_has_its_own_quota_of_memberships() {
    let limit = MAX_TENANT_MEMBERSHIPS as u64;
    let all = Vec::from_iter(1..limit);
    let overlay = overlay_after(
        &[
            create(0x10, &all, Existing::Same),
            create(0x11, &[], Existing::Same),
            create(0x20, &[1, 2, 3], Existing::Same),
        ],
        &no_file(),
    );
    let add = |range, p_key, guids: &[u64]| Change {
        may_change: vec![range],
        ..change(p_key, Action::Add(members(guids)))
    };
    let last = overlay.apply(&add(0x10..=0x1f, 0x11, &[1]), &no_file());
    let full = last.expect("within the quota");
    let one_more = add(0x10..=0x1f, 0x11, &[1, 2]);
    let wanted = MAX_TENANT_MEMBERSHIPS + 1;
    let refused = full.apply(&one_more, &no_file());
    assert_eq!(refused, Err(ChangeError::TooManyOfTenant { wanted }));
    let other = full.apply(&add(0x20..=0x2f, 0x20, &[4]), &no_file());
    assert!(other.is_ok(), "another tenant has its own quota");
    let operator = add(0..=0x7fff, 0x11, &[1, 2]);
    assert!(full.apply(&operator, &no_file()).is_ok());
}

#[test]
fn emptied_partition_is_kept_or_deleted_as_requested() {
    let overlay = overlay_after(&[create(0x10, &[1, 2], Existing::Same)], &no_file());
    let remove = |guids: &[u64], when| {
        let guids = guids.iter().copied().map(Guid).collect();
        change(0x10, Action::Remove(guids, when))
    };
    let after = |change| overlay.apply(&change, &no_file()).expect("it can be made");
    let kept = after(remove(&[1, 2, 3], WhenEmpty::Keep));
    assert_eq!(member_guids(&kept, 0x10), [0; 0]);
    assert!(after(remove(&[1, 2], WhenEmpty::Delete)).is_empty());
    assert_eq!(
        member_guids(&after(remove(&[1, 9], WhenEmpty::Delete)), 0x10),
        [2]
    );
    // A partition created without members is not deleted when a port that is no member is removed.
    let again = kept.apply(&remove(&[5], WhenEmpty::Delete), &no_file());
    assert_eq!(again.as_ref(), Ok(&kept));
    let set = change(0x10, Action::Replace(members(&[2, 4]), WhenEmpty::Delete));
    let set = after(set);
    assert_eq!(member_guids(&set, 0x10), [2, 4]);
    assert_eq!(set.differing(&overlay, 0x10).len(), 2);
}

#[test]
fn default_partition_cannot_be_created_or_deleted_but_takes_members_and_a_limit() {
    for action in [
        Action::Delete,
        Action::Configure(PartitionSettings::plain(0x7fff)),
        create(0x7fff, &[], Existing::Same).action,
    ] {
        let refused = Overlay::default().apply(&change(0xffff, action), &no_file());
        assert_eq!(refused, Err(ChangeError::Default));
    }
    let file = file("Default=0x7fff : ALL=full, 0x5=full ;");
    let overlay = overlay_after(
        &[
            change(0x7fff, Action::LimitDefault(true)),
            change(0x7fff, Action::Add(members(&[1]))),
        ],
        &file,
    );
    let combined = overlay.over(&file);
    assert_eq!(combined.findings, []);
    assert_eq!(combined.partitions.list, file.list);
    let rule = |members| {
        let mut rules = combined.partitions.rules.iter().rev();
        rules
            .find(|rule| rule.members == members)
            .map(|rule| rule.membership)
    };
    assert_eq!(rule(PartitionMembers::All), Some(Membership::Limited));
    for full in [
        PartitionMembers::Own,
        PartitionMembers::Switches,
        PartitionMembers::Port(Guid(5)),
        PartitionMembers::Port(Guid(1)),
    ] {
        assert_eq!(rule(full), Some(Membership::Full), "{full:?}");
    }
    // Replacing the members requires no former members.
    let set = change(0x7fff, Action::Replace(members(&[4]), WhenEmpty::Keep));
    assert_eq!(member_guids(&overlay_after(&[set], &file), 0x7fff), [4]);
    let guids = BTreeSet::from([Guid(1)]);
    let back = overlay.apply(
        &change(0x7fff, Action::Remove(guids, WhenEmpty::Keep)),
        &file,
    );
    let back =
        back.and_then(|back| back.apply(&change(0x7fff, Action::LimitDefault(false)), &file));
    assert!(back.expect("both can be undone").is_empty());
}

#[test]
fn overlay_adds_partitions_with_groups_to_the_files_partitions() {
    let file = file("Default=0x7fff : ALL=full ;\nBlue=0x20 : 0x5=full ;");
    let with_ipoib = change(
        0x10,
        Action::Create {
            settings: PartitionSettings {
                ipoib: true,
                sl: 3,
                ..PartitionSettings::plain(0x10)
            },
            members: members(&[1]),
            existing: Existing::Same,
        },
    );
    let overlay = overlay_after(&[with_ipoib], &file);
    let combined = overlay.over(&file);
    let list = &combined.partitions.list;
    let keys: Vec<u16> = list.iter().map(|partition| partition.p_key.0).collect();
    assert_eq!(keys, [0x10, 0x20, 0x7fff]);
    let origins: Vec<PartitionOrigin> = list.iter().map(|partition| partition.origin).collect();
    let [api, from_file] = [PartitionOrigin::Api, PartitionOrigin::File];
    assert_eq!(origins, [api, from_file, from_file]);
    let group = list[0].groups.first().expect("its broadcast group");
    assert_eq!(group.mgid.to_string(), "ff12:401b:8010::ffff:ffff");
    assert_eq!((group.sl, group.q_key), (3, 0x0b1b));
    // An empty overlay returns the file's partitions without a copy.
    assert!(Arc::ptr_eq(
        &Overlay::default().over(&file).partitions,
        &file
    ));
}

#[test]
fn definition_in_the_file_takes_precedence_over_the_overlay() {
    let overlay = overlay_after(
        &[
            create(0x10, &[1], Existing::Same),
            create(0x11, &[2], Existing::Same),
        ],
        &no_file(),
    );
    let file =
        file("Default=0x7fff : ALL=full ;\nBlue=0x10 : 0x5=full ;\n0x0011=0x12 : 0x6=full ;");
    let combined = overlay.over(&file);
    assert_eq!(combined.findings.len(), 2, "{:?}", combined.findings);
    assert!(combined.findings[0].text.contains("0x0010"));
    let rule_count = |guid| {
        let rules = combined.partitions.rules.iter();
        rules
            .filter(|rule| rule.members == PartitionMembers::Port(Guid(guid)))
            .count()
    };
    assert_eq!([rule_count(1), rule_count(2), rule_count(5)], [0, 1, 1]);
    let known = combined
        .partitions
        .find(PKey(0x10))
        .expect("the file has it");
    assert_eq!(
        (known.name.as_str(), known.origin),
        ("Blue", PartitionOrigin::File)
    );
}

#[test]
fn overlay_with_every_p_key_is_combined_with_the_file() {
    let partitions = (1..0x7fff).map(|p_key| {
        let partition = OverlayPartition {
            settings: PartitionSettings::plain(p_key),
            by: String::new(),
            since_unix_ms: 0,
            protection: Protection::default(),
            members: members(&[u64::from(p_key), 0x9_9999]),
        };
        (p_key, partition)
    });
    let overlay = Overlay::restore(partitions.collect(), false);
    let combined = overlay.over(&no_file());
    assert_eq!(combined.partitions.list.len(), 0x7fff);
    assert_eq!(
        combined.partitions.rules.len(),
        no_file().rules.len() + 2 * 0x7ffe
    );
    let added = change(0x100, Action::Add(members(&[7])));
    let added = overlay.apply(&added, &no_file()).expect("there is room");
    let changed = added
        .over(&no_file())
        .partitions
        .changed_members(&combined.partitions);
    assert_eq!(changed, Some(BTreeSet::from([Guid(7)])));
}

proptest! {
    #[test]
    fn memberships_equal_the_sum_over_partitions_after_every_change(
        steps in proptest::collection::vec((0u8..5, 1u16..4, proptest::collection::vec(1u64..6, 0..4)), 1..40),
    ) {
        let mut overlay = Overlay::default();
        for (kind, p_key, guids) in steps {
            let action = match kind {
                0 => create(p_key, &guids, Existing::Extend).action,
                1 => Action::Add(members(&guids)),
                2 => Action::Remove(guids.iter().copied().map(Guid).collect(), WhenEmpty::Delete),
                3 => Action::Replace(members(&guids), WhenEmpty::Keep),
                _ => Action::Delete,
            };
            if let Ok(next) = overlay.apply(&change(p_key, action), &no_file()) {
                overlay = next;
            }
            let partitions = overlay.partitions();
            let counted: usize = partitions.map(|(_, partition)| partition.members.len()).sum();
            prop_assert_eq!(overlay.memberships(), counted);
        }
    }
}

/// The change that gives multicast GID prefixes to a partition, and enforces its protection.
fn protect(p_key: u16, mgids: &[&str]) -> Change {
    let owned = mgids
        .iter()
        .map(|text| Owned::mgids(text).expect("a prefix"));
    let action = Action::Protect(Protection {
        trust: Some(TrustMode::Enforce),
        owned: owned.collect(),
    });
    change(p_key, action)
}

#[test]
fn owned_prefixes_belong_to_one_partition_of_file_and_overlay() {
    let file = file("Default=0x7fff : ALL=full ;\nred=0x20 : 0x5=full, mgids=ff12:a01d:20::/48 ;");
    let empty = |p_key| create(p_key, &[], Existing::Same);
    let overlay = overlay_after(
        &[
            empty(0x10),
            empty(0x11),
            protect(0x10, &["ff12:a01d:10::/48"]),
        ],
        &file,
    );
    let combined = overlay.over(&file);
    assert_eq!(combined.findings, []);
    let protections = &combined.partitions.protections;
    let owner = |low: u128| protections.owner_of_group(Gid(0xff12_a01d << 96 | low << 80));
    assert_eq!(
        [0x10, 0x20, 0x11].map(owner),
        [Some(PKey(0x10)), Some(PKey(0x20)), None]
    );
    assert_eq!(protections.trust(PKey(0x8010)), Some(TrustMode::Enforce));
    assert_eq!(protections.trust(PKey(0x20)), None);
    // Protections change no P_KeyTable.
    let changed = combined.partitions.changed_members(
        &overlay_after(&[empty(0x10), empty(0x11)], &file)
            .over(&file)
            .partitions,
    );
    assert_eq!(changed, Some(BTreeSet::new()));

    for (p_key, prefix, expected_owner) in [
        (0x11, "ff12:a01d:10::1/128", 0x10),
        (0x11, "ff12:a01d::/32", 0x10),
        (0x11, "ff12:a01d:20:1::/64", 0x20),
    ] {
        let refused = overlay.apply(&protect(p_key, &[prefix]), &file);
        let Err(ChangeError::Owned { p_key: owner, .. }) = refused else {
            panic!("{prefix}: {refused:?}");
        };
        assert_eq!(owner, expected_owner, "{prefix}");
    }
    // A request replaces the earlier prefixes, and may be repeated.
    let repeated = overlay.apply(&protect(0x10, &["ff12:a01d:10::/48"]), &file);
    assert_eq!(repeated.as_ref(), Ok(&overlay));
    let replaced = overlay.apply(&protect(0x10, &["ff12:a01d:12::/48"]), &file);
    let replaced = replaced.expect("it is free").over(&file);
    assert_eq!(
        replaced.partitions.protections.by_partition()[&0x10]
            .owned
            .len(),
        1
    );
    // The deletion of the partition frees its prefixes; other changes keep them.
    let kept = overlay.apply(
        &change(0x10, Action::Configure(PartitionSettings::plain(0x10))),
        &file,
    );
    assert_eq!(kept.as_ref(), Ok(&overlay));
    let deleted = overlay
        .apply(&change(0x10, Action::Delete), &file)
        .expect("it is there");
    deleted
        .apply(&protect(0x11, &["ff12:a01d:10::/48"]), &file)
        .expect("it is free");
}

#[test]
fn prefixes_owned_by_the_file_are_reported_and_too_many_prefixes_refused() {
    let changes = [
        create(0x10, &[], Existing::Same),
        protect(0x10, &["ff12:a01d:10::/48"]),
    ];
    let overlay = overlay_after(&changes, &no_file());
    let file = file("Default=0x7fff : ALL=full ;\nred=0x20 : 0x5=full, mgids=ff12:a01d::/32 ;");
    let combined = overlay.over(&file);
    let [finding] = &combined.findings[..] else {
        panic!("{:?}", combined.findings);
    };
    assert!(
        finding
            .text
            .contains("ff12:a01d:10::/48 (ff12:a01d::/32 of 0x0020)"),
        "{}",
        finding.text
    );
    let owner = combined
        .partitions
        .protections
        .owner_of_group(Gid(0xff12_a01d_0010 << 80));
    assert_eq!(owner, Some(PKey(0x20)));

    let too_many: Vec<String> = (0..=MAX_OWNED)
        .map(|number| format!("ff12:a01d:{number:x}::/48"))
        .collect();
    let too_many: Vec<&str> = too_many.iter().map(String::as_str).collect();
    let refused = overlay.apply(&protect(0x10, &too_many), &no_file());
    assert_eq!(
        refused,
        Err(ChangeError::TooManyOwned {
            wanted: MAX_OWNED + 1
        })
    );
    overlay
        .apply(&protect(0x10, &too_many[1..]), &no_file())
        .expect("the bound");
    for p_key in [0x7fff, 0x12] {
        assert!(overlay.apply(&protect(p_key, &[]), &no_file()).is_err());
    }
}
