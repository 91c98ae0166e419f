//! The arithmetic of blocks: upstream's vectors, each under its ID in `tests/conformance.md`.

use super::blocks::{cidr, holder, next, set};
use crate::ipam::{CidrSet, CidrSetError, Holder, Span};
use ipnet::IpNet;

#[test]
fn ipam_042_a_range_of_one_block_has_one() {
    for (id, range, block) in [
        (
            "TestCIDRSetFullyAllocated/01",
            "127.123.234.0/30 /30",
            "127.123.234.0/30",
        ),
        (
            "TestCIDRSetFullyAllocated/02",
            "beef:1234::/30 /30",
            "beef:1234::/30",
        ),
    ] {
        let mut set = set(range);
        let block = cidr(block).trunc().to_string();
        for _ in 0..2 {
            assert_eq!(next(&mut set, "a"), block, "{id}");
            assert_eq!(next(&mut set, "b"), "", "{id}");
            set.release(&cidr(&block), &holder("a"));
        }
        assert_eq!(set.used(), 0, "{id}");
    }
}

#[test]
fn ipam_044_the_index_names_the_block_and_the_block_the_index() {
    for (id, range, index, block) in [
        (
            "TestIndexToCIDRBlock/01",
            "127.123.3.0/16 /24",
            0,
            "127.123.0.0/24",
        ),
        (
            "TestIndexToCIDRBlock/02",
            "127.123.0.0/16 /24",
            15,
            "127.123.15.0/24",
        ),
        (
            "TestIndexToCIDRBlock/03",
            "192.168.5.219/28 /32",
            5,
            "192.168.5.213/32",
        ),
        (
            "TestIndexToCIDRBlock/04",
            "2001:0db8:1234:3::/48 /64",
            0,
            "2001:db8:1234::/64",
        ),
        (
            "TestIndexToCIDRBlock/05",
            "2001:0db8:1234::/48 /64",
            15,
            "2001:db8:1234:f::/64",
        ),
        (
            "TestIndexToCIDRBlock/06",
            "2001:0db8:85a3::8a2e:0370:7334/50 /63",
            6425,
            "2001:db8:85a3:3232::/63",
        ),
        (
            "TestIndexToCIDRBlock/07",
            "2001:0db8::/32 /48",
            0,
            "2001:db8::/48",
        ),
        (
            "TestIndexToCIDRBlock/08",
            "2001:0db8::/32 /48",
            15,
            "2001:db8:f::/48",
        ),
        (
            "TestIndexToCIDRBlock/09",
            "2001:0db8:85a3::8a2e:0370:7334/32 /48",
            6425,
            "2001:db8:1919::/48",
        ),
        (
            "TestIndexToCIDRBlock/10",
            "2001:0db8:1234:ff00::/56 /72",
            0,
            "2001:db8:1234:ff00::/72",
        ),
        (
            "TestIndexToCIDRBlock/11",
            "2001:0db8:1234:ff00::/56 /72",
            15,
            "2001:db8:1234:ff00:f00::/72",
        ),
        (
            "TestIndexToCIDRBlock/12",
            "2001:0db8:1234:ff00::0370:7334/56 /72",
            6425,
            "2001:db8:1234:ff19:1900::/72",
        ),
        (
            "TestIndexToCIDRBlock/13",
            "2001:0db8:1234:0:1234::/80 /96",
            0,
            "2001:db8:1234:0:1234::/96",
        ),
        (
            "TestIndexToCIDRBlock/14",
            "2001:0db8:1234:0:1234::/80 /96",
            15,
            "2001:db8:1234:0:1234:f::/96",
        ),
        (
            "TestIndexToCIDRBlock/15",
            "2001:0db8:1234:ff00::0370:7334/80 /96",
            6425,
            "2001:db8:1234:ff00:0:1919::/96",
        ),
    ] {
        let set = set(range);
        let found = set.block(index).unwrap();
        assert_eq!(found.to_string(), block, "{id}");
        let only = Span {
            first: index,
            last: index,
        };
        assert_eq!(set.span(&found), Some(only), "{id}");
        assert_eq!(set.block(set.size()), None, "{id}: beyond the end");
    }
}

#[test]
fn ipam_040_all_blocks_come_in_order_and_come_in_the_same_order_again() {
    for (id, range) in [
        ("TestCIDRSet_RandomishAllocation/01", "127.123.234.0/16 /24"),
        ("TestCIDRSet_RandomishAllocation/02", "beef:1234::/16 /24"),
    ] {
        let mut set = set(range);
        let mut round = || {
            let blocks: Vec<String> = (0..256).map(|_| next(&mut set, "a")).collect();
            assert_eq!(next(&mut set, "b"), "", "{id}");
            assert!(blocks.iter().all(|block| !block.is_empty()), "{id}");
            blocks
                .iter()
                .for_each(|block| set.release(&cidr(block), &holder("a")));
            assert_eq!(set.used(), 0, "{id}");
            blocks
        };
        let first = round();
        assert_eq!(first, round(), "{id}");
    }
}

#[test]
fn ipam_021_what_is_occupied_does_not_come() {
    for (id, range) in [
        ("TestCIDRSet_AllocationOccupied/01", "127.123.234.0/16 /24"),
        ("TestCIDRSet_AllocationOccupied/02", "beef:1234::/16 /24"),
    ] {
        let mut set = set(range);
        let upper: Vec<IpNet> = (128..256).map(|index| set.block(index).unwrap()).collect();
        upper
            .iter()
            .for_each(|block| set.occupy(block, &holder("a")));
        set.occupy(&upper[0], &holder("a"));
        assert_eq!(set.used(), 128, "{id}");
        for index in 0..128 {
            let expected = set.block(index).unwrap().to_string();
            assert_eq!(next(&mut set, "b"), expected, "{id}");
        }
        assert_eq!(next(&mut set, "b"), "", "{id}");
    }
}

#[test]
fn ipam_043_occupying_and_releasing_twice_is_doing_it_once() {
    let mut set = set("10.42.0.0/16 /24");
    let a = holder("a");
    for (id, what, block, used) in [
        ("TestDoubleOccupyRelease/01", "occupy", "10.42.5.0/24", 1),
        ("TestDoubleOccupyRelease/02", "occupy", "10.42.9.0/24", 2),
        ("TestDoubleOccupyRelease/03", "occupy", "10.42.8.0/22", 5),
        ("TestDoubleOccupyRelease/04", "occupy", "10.42.9.0/24", 5),
        ("TestDoubleOccupyRelease/05", "release", "10.42.9.0/24", 4),
        ("TestDoubleOccupyRelease/06", "release", "10.42.9.0/24", 4),
        ("TestDoubleOccupyRelease/07", "release", "10.42.4.0/22", 3),
    ] {
        match what {
            "occupy" => set.occupy(&cidr(block), &a),
            _ => set.release(&cidr(block), &a),
        }
        assert_eq!(set.used(), used, "{id}: {what} {block}");
    }
    let more = (0..300).take_while(|_| !next(&mut set, "b").is_empty());
    assert_eq!(more.count(), 253);
    set.release(&cidr("10.42.0.0/16"), &a);
    assert_eq!(
        set.used(),
        253,
        "what is left of it goes, and nothing of another's"
    );
}

#[test]
fn ipam_043_a_block_is_found_by_its_addresses() {
    for (id, range, block, index) in [
        (
            "TestGetBitforCIDR/01",
            "127.0.0.0/8 /16",
            "127.0.0.0/16",
            Some(0),
        ),
        ("TestGetBitforCIDR/02", "be00::/8 /16", "be00::/16", Some(0)),
        (
            "TestGetBitforCIDR/03",
            "127.0.0.0/8 /16",
            "127.123.0.0/16",
            Some(123),
        ),
        (
            "TestGetBitforCIDR/04",
            "be00::/8 /16",
            "beef::/16",
            Some(0xef),
        ),
        (
            "TestGetBitforCIDR/05",
            "127.0.0.0/8 /16",
            "127.168.0.0/16",
            Some(168),
        ),
        (
            "TestGetBitforCIDR/06",
            "be00::/8 /16",
            "be68::/16",
            Some(0x68),
        ),
        (
            "TestGetBitforCIDR/07",
            "127.0.0.0/8 /16",
            "127.224.0.0/16",
            Some(224),
        ),
        (
            "TestGetBitforCIDR/08",
            "be00::/8 /16",
            "be24::/16",
            Some(0x24),
        ),
        (
            "TestGetBitforCIDR/09",
            "192.168.0.0/16 /24",
            "192.168.12.0/24",
            Some(12),
        ),
        (
            "TestGetBitforCIDR/10",
            "beef::/16 /24",
            "beef:1200::/24",
            Some(0x12),
        ),
        (
            "TestGetBitforCIDR/11",
            "192.168.0.0/16 /24",
            "192.168.151.0/24",
            Some(151),
        ),
        (
            "TestGetBitforCIDR/12",
            "beef::/16 /24",
            "beef:9700::/24",
            Some(0x97),
        ),
        (
            "TestGetBitforCIDR/13",
            "192.168.0.0/16 /24",
            "127.168.224.0/24",
            None,
        ),
        (
            "TestGetBitforCIDR/14",
            "beef::/16 /24",
            "2001:db00::/24",
            None,
        ),
    ] {
        let span = set(range).span(&cidr(block));
        assert_eq!(
            span,
            index.map(|index| Span {
                first: index,
                last: index
            }),
            "{id}"
        );
    }
}

#[test]
fn ipam_043_a_wide_range_has_every_block_that_it_covers() {
    for (id, range, wide, first, last) in [
        ("TestOccupy/01", "127.0.0.0/8 /16", "127.0.0.0/8", 0, 255),
        (
            "TestOccupy/02",
            "2001:beef:1200::/40 /48",
            "2001:beef:1200::/40",
            0,
            255,
        ),
        ("TestOccupy/03", "127.0.0.0/8 /16", "127.0.0.0/2", 0, 255),
        (
            "TestOccupy/04",
            "2001:beef:1200::/40 /48",
            "2001:beef:1200::/34",
            0,
            255,
        ),
        ("TestOccupy/05", "127.0.0.0/8 /16", "127.0.0.0/16", 0, 0),
        (
            "TestOccupy/06",
            "2001:beef:1200::/40 /48",
            "2001:beef:1200::/48",
            0,
            0,
        ),
        ("TestOccupy/07", "127.0.0.0/8 /32", "127.0.0.0/16", 0, 65535),
        (
            "TestOccupy/08",
            "2001:beef:1200::/48 /64",
            "2001:beef:1200::/48",
            0,
            65535,
        ),
        ("TestOccupy/09", "127.0.0.0/7 /16", "127.0.0.0/15", 256, 257),
        (
            "TestOccupy/10",
            "2001:beef:7f00::/39 /48",
            "2001:beef:7f00::/47",
            256,
            257,
        ),
        ("TestOccupy/11", "127.0.0.0/7 /15", "127.0.0.0/15", 128, 128),
        (
            "TestOccupy/12",
            "2001:beef:7f00::/39 /47",
            "2001:beef:7f00::/47",
            128,
            128,
        ),
        (
            "TestOccupy/13",
            "127.0.0.0/7 /18",
            "127.0.0.0/15",
            1024,
            1031,
        ),
        (
            "TestOccupy/14",
            "2001:beef:7f00::/39 /50",
            "2001:beef:7f00::/47",
            1024,
            1031,
        ),
    ] {
        let mut set = set(range);
        let wide = cidr(wide).trunc();
        assert_eq!(set.span(&wide), Some(Span { first, last }), "{id}");
        set.occupy(&wide, &Holder::Services);
        assert_eq!(set.used(), last - first + 1, "{id}");
        let free = (0..set.size()).find(|index| !(first..=last).contains(index));
        let expected = free.and_then(|index| set.block(index));
        let found = set.allocate(&holder("a")).map(|one| one.block);
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn ipam_041_an_ipv6_range_has_65536_blocks_at_most() {
    let mut four = set("127.0.0.0/8 /32");
    assert_eq!(next(&mut four, "a"), "127.0.0.0/32", "TestCIDRSetv6/01");
    let six = CidrSet::new(cidr("beef:1234::/32"), 49);
    let too_many = CidrSetError::TooManyBlocks {
        blocks: 17,
        most: 16,
    };
    assert_eq!(six.unwrap_err(), too_many, "{}", "TestCIDRSetv6/02");
    assert!(
        too_many
            .to_string()
            .starts_with("New CIDR set failed; the node CIDR size is too big")
    );
    let mut six = set("2001:beef:1234:369b::/60 /64");
    let id = "TestCIDRSetv6/03";
    assert_eq!(next(&mut six, "a"), "2001:beef:1234:3690::/64", "{id}");
    assert_eq!(next(&mut six, "b"), "2001:beef:1234:3691::/64", "{id}");
    assert_eq!(set("fd00::/48 /64").size(), 65536);
}
