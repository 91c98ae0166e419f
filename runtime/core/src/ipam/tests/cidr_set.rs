//! The arithmetic of blocks in cases that upstream's vectors leave open.

use super::blocks::{cidr, holder, next, set};
use crate::ipam::bits::Bits;
use crate::ipam::{CidrSet, CidrSetError, Holder, Span};

#[test]
fn ipam_041_the_ends_of_masks_are_errors_and_not_panics() {
    for (range, mask) in [
        ("0.0.0.0/0", 32),
        ("::/0", 128),
        ("::/0", 17),
        ("0.0.0.0/0", 25),
    ] {
        assert!(CidrSet::new(cidr(range), mask).is_err(), "{range} /{mask}");
    }
    for (range, last) in [
        ("0.0.0.0/0 /0", "0.0.0.0/0"),
        ("::/0 /0", "::/0"),
        ("0.0.0.0/0 /24", "255.255.255.0/24"),
        ("::/0 /16", "ffff::/16"),
        ("255.255.255.255/32 /32", "255.255.255.255/32"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 /128",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
        ),
    ] {
        let set = set(range);
        let index = set.size() - 1;
        assert_eq!(set.block(index).unwrap().to_string(), last, "{range}");
        assert_eq!(
            set.span(&cidr(last)),
            Some(Span {
                first: index,
                last: index
            }),
            "{range}"
        );
    }
    assert_eq!(
        CidrSet::new(cidr("10.0.0.0/16"), 33).unwrap_err(),
        CidrSetError::MaskTooLong(33)
    );
    assert_eq!(
        CidrSet::new(cidr("10.0.0.0/26"), 24).unwrap_err(),
        CidrSetError::MaskTooShort
    );
}

#[test]
fn ipam_040_a_freed_block_is_used_again_last() {
    let mut set = set("10.0.0.0/22 /24");
    assert_eq!(next(&mut set, "a"), "10.0.0.0/24");
    set.release(&cidr("10.0.0.0/24"), &holder("a"));
    let order: Vec<String> = ["b", "c", "d", "e"]
        .iter()
        .map(|name| next(&mut set, name))
        .collect();
    assert_eq!(
        order,
        ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]
    );
}

#[test]
fn ipam_027a_whoever_does_not_hold_a_block_does_not_free_it() {
    let mut set = set("10.0.0.0/24 /24");
    let block = cidr("10.0.0.0/24");
    set.occupy(&block, &holder("a"));
    set.release(&block, &holder("a"));
    set.occupy(&block, &holder("b"));
    set.release(&block, &holder("a"));
    assert_eq!(next(&mut set, "c"), "", "it is b's");
    set.occupy(&block, &holder("a"));
    set.release(&block, &holder("b"));
    assert_eq!(next(&mut set, "c"), "", "it is still a's");
    let wide = cidr("10.0.0.0/16");
    set.occupy(&wide, &Holder::Services);
    set.release(&wide, &holder("a"));
    assert_eq!(set.used(), 1);
}

#[test]
fn a_wide_range_that_goes_leaves_what_others_hold_of_it() {
    let mut set = set("10.0.0.0/16 /24");
    set.occupy(&cidr("10.0.0.0/20"), &holder("wide"));
    set.occupy(&cidr("10.0.3.0/24"), &holder("narrow"));
    set.occupy(&cidr("10.0.14.0/23"), &holder("half"));
    set.occupy(&cidr("10.0.15.0/22"), &Holder::Services);
    set.release(&cidr("10.0.0.0/20"), &holder("wide"));
    assert_eq!(set.used(), 1 + 4, "3, and 12 to 15");
    assert_eq!(
        set.other_holders(&cidr("10.0.0.0/8"), &holder("half"))
            .len(),
        2
    );
    set.release(&cidr("10.0.3.0/24"), &holder("narrow"));
    assert_eq!(set.used(), 4);
}

/// Compares with a plain list of booleans.
#[test]
fn the_next_clear_bit_is_the_one_that_a_search_finds() {
    for len in [1, 63, 64, 65, 4095, 4096, 4097, 262_145] {
        let mut bits = Bits::new(len);
        let mut plain = vec![false; len];
        // A deterministic sequence that fills and clears ranges of all sizes.
        let mut state = 12_345_usize;
        for step in 0..60 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let begin = (state >> 33) % len;
            let end = (begin + (state >> 20) % (1 << (step % 18))).min(len - 1);
            let is_set = step % 3 != 0;
            let changed = plain[begin..=end]
                .iter()
                .filter(|one| **one != is_set)
                .count();
            assert_eq!(bits.fill(begin, end, is_set), changed);
            plain[begin..=end].fill(is_set);
            for from in [0, begin, end, len - 1, len] {
                let expected = plain
                    .iter()
                    .skip(from)
                    .position(|one| !one)
                    .map(|at| at + from);
                assert_eq!(
                    bits.next_clear(from),
                    expected,
                    "{len} bits, step {step}, from {from}"
                );
            }
            assert_eq!(bits.ones(), plain.iter().filter(|one| **one).count());
        }
        bits.fill(0, len - 1, true);
        assert_eq!(bits.next_clear(0), None, "{len}");
    }
}
