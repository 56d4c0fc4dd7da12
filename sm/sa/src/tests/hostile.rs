//! Tests that the SA answers each valid request of random content once, and that the answer ends.

use proptest::prelude::*;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{SaHeader, SaMad};

use super::world::{SM_KEY, SMALL, World};

/// A datagram with random contents.
fn any_request() -> impl Strategy<Value = MadBytes> {
    // Most values are valid; otherwise hardly any request would pass the checks of its header.
    let class = prop_oneof![9 => Just(3u8), 1 => any::<u8>()];
    let version = prop_oneof![9 => Just(2u8), 1 => any::<u8>()];
    let known = prop::sample::select(&[0x01u8, 0x02, 0x12, 0x13, 0x14, 0x15][..]);
    let method = prop_oneof![9 => known, 1 => any::<u8>()];
    let attribute = prop_oneof![9 => 0u16..0x40, 1 => Just(0xF3), 1 => any::<u16>()];
    let sm_key = prop_oneof![4 => Just(0), 4 => Just(SM_KEY), 1 => any::<u64>()];
    let few = prop::bits::u64::between(0, 24);
    let mask = prop_oneof![4 => Just(0), 8 => few, 1 => any::<u64>()];
    let sparse = prop::collection::vec(
        prop_oneof![4 => Just(0u8), 2 => 0..12u8, 1 => any::<u8>()],
        256,
    );
    (sparse, (class, version, method, attribute), (sm_key, mask)).prop_map(
        |(bytes, (class, version, method, attribute), (sm_key, mask))| {
            let mut mad: MadBytes = bytes.try_into().unwrap();
            mad[..4].copy_from_slice(&[1, class, version, method]);
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
            mad[36..44].copy_from_slice(&sm_key.to_be_bytes());
            mad[48..56].copy_from_slice(&mask.to_be_bytes());
            mad
        },
    )
}

/// Whether the SA must answer a request with this header.
fn is_answered(header: &SaHeader) -> bool {
    let mad = header.mad();
    let unanswered = [Method::TRAP, Method::TRAP_REPRESS, Method::SEND];
    mad.class().0 == 3
        && !mad.method().is_response()
        && !unanswered.contains(&mad.method())
        && [0, SM_KEY].contains(&header.sm_key())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_valid_request_has_one_answer_that_ends(
        mad in any_request(),
        more in prop::collection::vec(any::<u8>(), 0..600),
        cut in 0..=256usize,
    ) {
        let mut world = World::new(SMALL);
        let header = SaMad::from_bytes(&mad).header;
        // The message may be longer than a datagram, as after reassembly by RMPP.
        let answer = world.handle(&[&mad[..], &more].concat());
        prop_assert_eq!(answer.is_some(), is_answered(&header));
        if let Some(mut answer) = answer {
            prop_assert!(answer.header().mad().method().is_response());
            prop_assert_eq!(answer.header().mad().tid(), header.mad().tid());
            prop_assert_eq!(answer.header().sm_key(), 0);
            // The subnet is so small that one turn finds every record.
            prop_assert!(!answer.is_open());
            prop_assert!(answer.status().is_ok() || answer.datagram().is_some());
            let mut room = [0; 4096];
            while !answer.pull(&mut room).ended {}
        }
        // A truncated message must not panic either.
        if let Some(mut answer) = world.handle(&mad[..cut]) {
            while !answer.pull(&mut [0; 4096]).ended {}
        }
    }
}
