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

fn file(text: &str) -> Arc<Partitions> {
    let (partitions, findings) = parse_partitions(Path::new("partitions.conf"), text, false);
    assert_eq!(findings, []);
    Arc::new(partitions)
}

fn none() -> Arc<Partitions> {
    Arc::default()
}

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

fn members(guids: &[u64]) -> BTreeMap<Guid, Member> {
    let full = member(Membership::Full, false);
    guids.iter().map(|&guid| (Guid(guid), full)).collect()
}

fn create(p_key: u16, guids: &[u64], existing: Existing) -> Change {
    let action = Action::Create {
        settings: PartitionSettings::plain(p_key),
        members: members(guids),
        existing,
    };
    change(p_key, action)
}

/// The overlay after `changes`, all of which must be possible.
fn overlay_after(changes: &[Change], file: &Partitions) -> Overlay {
    let start = Overlay::default();
    changes.iter().fold(start, |overlay, change| {
        overlay
            .apply(change, file)
            .unwrap_or_else(|error| panic!("{error}"))
    })
}

/// GUIDs of the members of a partition.
fn held(overlay: &Overlay, p_key: u16) -> Vec<u64> {
    let found = overlay.find(p_key).expect("it is there");
    found.members.keys().map(|guid| guid.0).collect()
}

#[test]
fn creation_is_repeatable_and_refused_with_other_settings() {
    let first = create(0x10, &[1, 2], Existing::Same);
    let overlay = overlay_after(std::slice::from_ref(&first), &none());
    assert_eq!(overlay.apply(&first, &none()).as_ref(), Ok(&overlay));
    let more = overlay.apply(&create(0x10, &[3], Existing::Same), &none());
    assert_eq!(held(&more.expect("same settings"), 0x10), [1, 2, 3]);
    let other = change(
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
    let error = overlay.apply(&other, &none()).expect_err("other settings");
    let text = "the partition 0x0010 exists already, with the name `0x0010` and another setting of ipoib, MTU";
    assert_eq!(error.to_string(), text);
    let refused = overlay.apply(&create(0x10, &[], Existing::Refuse), &none());
    assert!(matches!(refused, Err(ChangeError::Exists { .. })));
}

#[test]
fn partition_names_are_checked_and_unique() {
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
    let overlay = overlay_after(&[create(0x10, &[1], Existing::Same)], &none());
    for guid in [0, u64::MAX] {
        let refused = overlay.apply(&change(0x10, Action::Add(members(&[2, guid]))), &none());
        assert_eq!(refused, Err(ChangeError::Guid { guid: Guid(guid) }));
    }
    let both = BTreeMap::from([(Guid(2), member(Membership::Both, false))]);
    let add = change(0x10, Action::Add(both));
    let refused = overlay.apply(&add, &none());
    assert_eq!(refused, Err(ChangeError::BothNotAllowed { guid: Guid(2) }));
    let allowing = Partitions {
        allow_both: true,
        ..Partitions::default()
    };
    assert!(overlay.apply(&add, &allowing).is_ok());
}

#[test]
fn memberships_above_the_maximum_are_refused_but_deletion_is_permitted() {
    let many: Vec<u64> = (1..=MAX_MEMBERSHIPS as u64).collect();
    let full = overlay_after(&[create(0x10, &many, Existing::Same)], &none());
    assert_eq!(full.memberships(), MAX_MEMBERSHIPS);
    let wanted = MAX_MEMBERSHIPS + 1;
    let refused = full.apply(&create(0x11, &[1], Existing::Same), &none());
    assert_eq!(refused, Err(ChangeError::TooMany { wanted }));
    let gone = change(0x10, Action::Delete);
    assert_eq!(
        full.apply(&gone, &none()).expect("it goes").memberships(),
        0
    );
}

#[test]
fn index_0_belongs_to_one_partition_and_moves_only_among_the_callers_partitions() {
    let first = |p_key, index0| {
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
            first(0x10, true),
        ],
        &none(),
    );
    let index0 = |overlay: &Overlay, p_key| {
        let found = overlay.find(p_key).expect("it is there");
        found.members[&Guid(1)].index0
    };
    let tenant = Change {
        may_change: vec![0x11..=0x1f],
        ..first(0x11, true)
    };
    let theirs = ChangeError::Index0 {
        guid: Guid(1),
        p_key: 0x10,
    };
    assert_eq!(overlay.apply(&tenant, &none()), Err(theirs));
    let moved = overlay
        .apply(&first(0x11, true), &none())
        .expect("the caller may change all partitions");
    assert!(index0(&moved, 0x11) && !index0(&moved, 0x10));
    // In the stored state, both partitions claim index 0; one of them keeps it.
    let both = [0x10, 0x11].map(|p_key| {
        let mut one = OverlayPartition::clone(moved.find(p_key).expect("it is there"));
        one.members.insert(Guid(1), member(Membership::Full, true));
        (p_key, one)
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
        &none(),
    );
    // The default partition has index 0 of a port that no partition of the API claims.
    let refused = overlay.apply(&of_tenant(claim(0x10)), &none());
    let default = ChangeError::Index0 {
        guid: Guid(1),
        p_key: 0x7fff,
    };
    assert_eq!(refused, Err(default));
    let given = overlay
        .apply(&claim(0x10), &none())
        .expect("an operator may");
    let again = given.apply(&of_tenant(claim(0x10)), &none());
    assert_eq!(again.as_ref(), Ok(&given));
    let moved = given.apply(&of_tenant(claim(0x11)), &none());
    let moved = moved.expect("both are the tenant's");
    assert!(moved.find(0x11).expect("it is there").members[&Guid(1)].index0);
}

#[test]
fn tenant_may_use_a_quarter_of_the_p_key_table_of_a_port() {
    let partitions = (0x10..0x40).map(|p_key| create(p_key, &[], Existing::Same));
    let mut overlay = overlay_after(&Vec::from_iter(partitions), &none());
    let add = |p_key: u16, guid: u64| Change {
        may_change: vec![0x10..=0x3f],
        ..change(p_key, Action::Add(members(&[guid])))
    };
    let mut taken = 0;
    let refused = (0x10..0x40).find_map(|p_key| {
        let next = overlay
            .apply(&add(p_key, 7), &none())
            .expect("one key more");
        let checked = next.check_shares(&add(p_key, 7), &overlay, |_| Some(128));
        (overlay, taken) = (next, taken + 1);
        checked.err()
    });
    let refused = refused.expect("it has its share");
    let share = ChangeError::TenantShare {
        guid: Guid(7),
        wanted: 33,
        share: 32,
    };
    assert_eq!((refused, taken), (share, 33));
    // Each port has its own share, of at least one key. Operators may use the whole table.
    let next = |change: &Change| overlay.apply(change, &none()).expect("it can be made");
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
    let same = add(0x10, 7);
    assert_eq!(
        next(&same).check_shares(&same, &overlay, |_| Some(128)),
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
        &none(),
    );
    let add = |range, p_key, guids: &[u64]| Change {
        may_change: vec![range],
        ..change(p_key, Action::Add(members(guids)))
    };
    let last = overlay.apply(&add(0x10..=0x1f, 0x11, &[1]), &none());
    let full = last.expect("within the quota");
    let one_more = add(0x10..=0x1f, 0x11, &[1, 2]);
    let wanted = MAX_TENANT_MEMBERSHIPS + 1;
    let refused = full.apply(&one_more, &none());
    assert_eq!(refused, Err(ChangeError::TooManyOfTenant { wanted }));
    let other = full.apply(&add(0x20..=0x2f, 0x20, &[4]), &none());
    assert!(other.is_ok(), "another tenant has its own quota");
    let operator = add(0..=0x7fff, 0x11, &[1, 2]);
    assert!(full.apply(&operator, &none()).is_ok());
}

#[test]
fn emptied_partition_is_kept_or_deleted_as_requested() {
    let overlay = overlay_after(&[create(0x10, &[1, 2], Existing::Same)], &none());
    let remove = |guids: &[u64], when| {
        let guids = guids.iter().copied().map(Guid).collect();
        change(0x10, Action::Remove(guids, when))
    };
    let after = |change| overlay.apply(&change, &none()).expect("it can be made");
    let kept = after(remove(&[1, 2, 3], WhenEmpty::Keep));
    assert_eq!(held(&kept, 0x10), [0; 0]);
    assert!(after(remove(&[1, 2], WhenEmpty::Delete)).is_empty());
    assert_eq!(held(&after(remove(&[1, 9], WhenEmpty::Delete)), 0x10), [2]);
    // A partition created without members is not deleted when a port that is no member is removed.
    let again = kept.apply(&remove(&[5], WhenEmpty::Delete), &none());
    assert_eq!(again.as_ref(), Ok(&kept));
    let set = change(0x10, Action::Replace(members(&[2, 4]), WhenEmpty::Delete));
    let set = after(set);
    assert_eq!(held(&set, 0x10), [2, 4]);
    assert_eq!(set.differing(&overlay, 0x10).len(), 2);
}

#[test]
fn default_partition_cannot_be_created_or_deleted_but_takes_members_and_a_limit() {
    for action in [
        Action::Delete,
        Action::Configure(PartitionSettings::plain(0x7fff)),
        create(0x7fff, &[], Existing::Same).action,
    ] {
        let refused = Overlay::default().apply(&change(0xffff, action), &none());
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
    assert_eq!(held(&overlay_after(&[set], &file), 0x7fff), [4]);
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
    let ip = change(
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
    let overlay = overlay_after(&[ip], &file);
    let combined = overlay.over(&file);
    let list = &combined.partitions.list;
    let keys: Vec<u16> = list.iter().map(|one| one.p_key.0).collect();
    assert_eq!(keys, [0x10, 0x20, 0x7fff]);
    let origins: Vec<PartitionOrigin> = list.iter().map(|one| one.origin).collect();
    let [api, from_file] = [PartitionOrigin::Api, PartitionOrigin::File];
    assert_eq!(origins, [api, from_file, from_file]);
    let group = list[0].groups.first().expect("its broadcast group");
    assert_eq!(group.mgid.to_string(), "ff12:401b:8010::ffff:ffff");
    assert_eq!((group.sl, group.q_key), (3, 0x0b1b));
    // Without changes, the result is the file's partitions, as the same value.
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
        &none(),
    );
    let file =
        file("Default=0x7fff : ALL=full ;\nBlue=0x10 : 0x5=full ;\n0x0011=0x12 : 0x6=full ;");
    let combined = overlay.over(&file);
    assert_eq!(combined.findings.len(), 2, "{:?}", combined.findings);
    assert!(combined.findings[0].text.contains("0x0010"));
    let of = |guid| {
        let rules = combined.partitions.rules.iter();
        rules
            .filter(|rule| rule.members == PartitionMembers::Port(Guid(guid)))
            .count()
    };
    assert_eq!([of(1), of(2), of(5)], [0, 1, 1]);
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
    let combined = overlay.over(&none());
    assert_eq!(combined.partitions.list.len(), 0x7fff);
    assert_eq!(
        combined.partitions.rules.len(),
        none().rules.len() + 2 * 0x7ffe
    );
    let more = change(0x100, Action::Add(members(&[7])));
    let more = overlay.apply(&more, &none()).expect("there is room");
    let changed = more
        .over(&none())
        .partitions
        .changed_members(&combined.partitions);
    assert_eq!(changed, Some(BTreeSet::from([Guid(7)])));
}

proptest! {
    #[test]
    fn count_of_memberships_equals_the_sum_after_every_change(
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
            if let Ok(next) = overlay.apply(&change(p_key, action), &none()) {
                overlay = next;
            }
            let counted: usize = overlay.partitions().map(|(_, one)| one.members.len()).sum();
            prop_assert_eq!(overlay.memberships(), counted);
        }
    }
}

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
    // No table of a port depends on protections.
    let changed = combined.partitions.changed_members(
        &overlay_after(&[empty(0x10), empty(0x11)], &file)
            .over(&file)
            .partitions,
    );
    assert_eq!(changed, Some(BTreeSet::new()));

    for (p_key, prefix, of) in [
        (0x11, "ff12:a01d:10::1/128", 0x10),
        (0x11, "ff12:a01d::/32", 0x10),
        (0x11, "ff12:a01d:20:1::/64", 0x20),
    ] {
        let refused = overlay.apply(&protect(p_key, &[prefix]), &file);
        let Err(ChangeError::Owned { p_key: owner, .. }) = refused else {
            panic!("{prefix}: {refused:?}");
        };
        assert_eq!(owner, of, "{prefix}");
    }
    // A request replaces the earlier prefixes, and may be repeated.
    let again = overlay.apply(&protect(0x10, &["ff12:a01d:10::/48"]), &file);
    assert_eq!(again.as_ref(), Ok(&overlay));
    let other = overlay.apply(&protect(0x10, &["ff12:a01d:12::/48"]), &file);
    let other = other.expect("it is free").over(&file);
    assert_eq!(
        other.partitions.protections.by_partition()[&0x10]
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
    let gone = overlay
        .apply(&change(0x10, Action::Delete), &file)
        .expect("it is there");
    gone.apply(&protect(0x11, &["ff12:a01d:10::/48"]), &file)
        .expect("it is free");
}

#[test]
fn prefixes_owned_by_the_file_are_reported_and_too_many_prefixes_refused() {
    let changes = [
        create(0x10, &[], Existing::Same),
        protect(0x10, &["ff12:a01d:10::/48"]),
    ];
    let overlay = overlay_after(&changes, &none());
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

    let many: Vec<String> = (0..=MAX_OWNED)
        .map(|number| format!("ff12:a01d:{number:x}::/48"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = overlay.apply(&protect(0x10, &many), &none());
    assert_eq!(
        refused,
        Err(ChangeError::TooManyOwned {
            wanted: MAX_OWNED + 1
        })
    );
    overlay
        .apply(&protect(0x10, &many[1..]), &none())
        .expect("the bound");
    for p_key in [0x7fff, 0x12] {
        assert!(overlay.apply(&protect(p_key, &[]), &none()).is_err());
    }
}
