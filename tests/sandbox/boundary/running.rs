//! Guests that do not yield before they are called or while they move memory, that take memory and tables in one step,
//! or that call the host when they may not.

use std::time::Duration;

use ccm_host::Digest;
use wasm_encoder::{BlockType, Instruction};

use super::made::{NOW, PAGE, good};
use super::{End, check, each, load};
use crate::host::cache;
use crate::misbehaving::world::block_on;
use ccm_tests::harness::Test;

pub(super) const TESTS: &[Test] = &[
    ("b1_a_start_function_without_end_keeps_nobody", b1),
    ("b2_moving_memory_without_end_ends_with_the_call", b2),
    ("b4_memory_ends_at_its_limit_in_one_step_and_in_many", b4),
    ("b5_tables_end_at_their_limit_in_one_step_and_in_many", b5),
    ("b14_who_asks_the_host_while_it_is_asked_is_ended", b14),
];

/// These instructions in an endless loop.
fn for_ever(body: &[Instruction<'static>]) -> Vec<Instruction<'static>> {
    let begin = Instruction::Loop(BlockType::Empty);
    let end = [Instruction::Br(0), Instruction::End];
    [&[begin], body, &end].concat()
}

/// It has ten seconds, as `init` has. They pass at once when nothing else waits: as soon as it is compiled.
fn b1() {
    let made = good().starting(for_ever(&[]));
    let digest = Digest::of(&made.component()).hex();
    let is_compiled = || {
        let folder = std::fs::read_dir(cache().join("compiled")).into_iter();
        let mut names = folder.flatten().flatten().map(|entry| entry.file_name());
        names.any(|name| {
            let name = name.to_string_lossy();
            name.starts_with(&digest) && name.ends_with(".cwasm")
        })
    };
    block_on(async {
        let seconds = async {
            while !is_compiled() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::pause();
            loop {
                tokio::time::advance(Duration::from_secs(1)).await;
                tokio::task::yield_now().await;
            }
        };
        let loaded = tokio::select! {
            loaded = load(&made) => loaded,
            () = seconds => unreachable!("they go on for ever"),
        };
        let end = End::NotLoaded("timed out: instantiation");
        check("a loop in the start function", loaded, &end).await;
    });
    each(vec![(
        "a trap in the start function",
        good().starting([Instruction::Unreachable]),
        End::NotLoaded("trapped: instantiation"),
    )]);
}

fn b2() {
    const MIB: i32 = 1 << 20;
    let large = || good().pages(60 * 16);
    let fill = [
        Instruction::I32Const(0),
        Instruction::I32Const(0),
        Instruction::I32Const(60 * MIB),
        Instruction::MemoryFill(0),
    ];
    let copy = [
        Instruction::I32Const(30 * MIB),
        Instruction::I32Const(0),
        Instruction::I32Const(30 * MIB),
        Instruction::MemoryCopy {
            src_mem: 0,
            dst_mem: 0,
        },
    ];
    each(vec![
        ("filling", large().finding(for_ever(&fill)), End::TimesOut),
        ("copying", large().finding(for_ever(&copy)), End::TimesOut),
    ]);
}

fn b4() {
    let ended = || End::Traps("more than its 64 MiB of memory");
    let grow = |pages: i32| {
        [
            Instruction::I32Const(pages),
            Instruction::MemoryGrow(0),
            Instruction::Drop,
        ]
    };
    let most = 64 * (1 << 20) / PAGE as i32 - 2;
    each(vec![
        ("4 GiB at once", good().finding(grow(65_534)), ended()),
        ("page by page", good().finding(for_ever(&grow(1))), ended()),
        // A 32-bit memory cannot be larger: the guest gets an error, and goes on.
        (
            "more pages than there are",
            good().finding(grow(-1)),
            End::Answers,
        ),
        (
            "as much as it may have",
            good().finding(grow(most)),
            End::Answers,
        ),
        ("a page more", good().finding(grow(most + 1)), ended()),
    ]);
}

fn b5() {
    let ended = || End::Traps("more than 100000 table elements");
    let grow = |elements: i32| {
        [
            Instruction::RefNull(wasm_encoder::HeapType::FUNC),
            Instruction::I32Const(elements),
            Instruction::TableGrow(0),
            Instruction::Drop,
        ]
    };
    each(vec![
        ("all at once", good().finding(grow(-2)), ended()),
        (
            "a thousand at a time",
            good().finding(for_ever(&grow(1_000))),
            ended(),
        ),
        // All tables count together, also the small ones of the adapter between guest and host.
        (
            "nearly all that it may have",
            good().finding(grow(99_900)),
            End::Answers,
        ),
        ("more by one table", good().finding(grow(100_000)), ended()),
        // More than a table can have: the guest gets an error, and goes on.
        (
            "more than there are numbers",
            good().finding(grow(-1)),
            End::Answers,
        ),
    ]);
}

fn b14() {
    let ask = [NOW, Instruction::Drop];
    let giving = [&ask[..], &super::made::next_free()].concat();
    each(vec![
        (
            "while the host puts something into its memory",
            good().giving(giving),
            End::NotLoaded("cannot leave component instance"),
        ),
        (
            "when its answer has been read",
            good().after(ask),
            End::Traps("cannot leave component instance"),
        ),
    ]);
}
