//! Invalid texts, lists, case numbers, handles and addresses in memory.

use wasm_encoder::{BlockType, Instruction};
use wit_component::StringEncoding::{CompactUTF16, UTF16};

use super::made::{
    ADDRESS, ANSWER, BLOCK, DROP_FIELDS, DROP_POLLABLE, FIELDS, INIT, LOG, LOOKUP, NODE, PAGE,
    TEXT, TIMER, good, next_free,
};
use super::{End, Row, each};
use ccm_tests::harness::Test;

pub(super) const TESTS: &[Test] = &[
    ("a_good_guest_of_single_instructions_answers", answers),
    ("c1_a_crossing_has_room_for_so_much_and_no_more", c1),
    ("c2_texts_and_lists_that_cannot_be_end_the_call", c2),
    ("c3_texts_in_sixteen_bits_that_cannot_be_end_the_call", c3),
    ("c4_cases_that_are_not_in_the_contract_end_the_call", c4),
    ("c5_memory_that_the_host_cannot_write_to_ends_the_call", c5),
    (
        "c6_handles_that_are_gone_or_of_something_else_end_the_call",
        c6,
    ),
];

/// The engine's message.
const BEYOND: &str = "pointer/length out of bounds of memory";
const CROOKED: &str = "not aligned";
const NO_CASE: &str = "discriminant";

/// The bit that marks a text of `latin1+utf16` as UTF-16: the length then counts code units of sixteen bits.
const TAG: u32 = 1 << 31;

/// The good guest works: otherwise the others could fail for a reason of their own.
fn answers() {
    each(vec![
        ("as it is", good(), End::Answers),
        ("a refusal", good().saying(b"no", 1), End::AnswersText("no")),
        ("an echo", good().echoing(), End::AnswersText(NODE)),
        (
            "an echo in sixteen bits",
            good().encoded(UTF16).echoing(),
            End::AnswersText(NODE),
        ),
        (
            "an echo in sixteen bits where Latin letters do not suffice",
            good().encoded(CompactUTF16).echoing(),
            End::AnswersText(NODE),
        ),
        (
            "a line in the log, and a timer",
            good().finding(
                [
                    log(1).as_slice(),
                    &[
                        Instruction::I64Const(1),
                        TIMER,
                        Instruction::LocalTee(2),
                        BLOCK,
                        Instruction::LocalGet(2),
                        DROP_POLLABLE,
                        FIELDS,
                        DROP_FIELDS,
                    ],
                ]
                .concat(),
            ),
            End::Answers,
        ),
    ]);
}

fn c1() {
    const MIB: u32 = 1 << 20;
    let large = || good().pages(48 * 16);
    let too_much = End::Traps("too much data is being copied");
    each(vec![
        (
            "a text as long as there is room",
            large().refusing(PAGE, 32 * MIB),
            End::AnswersMuch,
        ),
        (
            "one byte more",
            large().refusing(PAGE, 32 * MIB + 1),
            End::Traps("too much data is being copied"),
        ),
        (
            "two texts that have room one by one",
            large()
                .bytes(LOOKUP, &[3])
                .words(LOOKUP + 4, &[PAGE, 20 * MIB])
                .words(ANSWER + 8, &[LOOKUP, 2])
                .bytes(LOOKUP + 76, &[3])
                .words(LOOKUP + 80, &[PAGE, 20 * MIB]),
            too_much,
        ),
        (
            "a list of half a million look-ups that fit into the guest",
            large().words(ANSWER + 8, &[0, 500_000]),
            End::Traps("too much data is being copied"),
        ),
        (
            "a list of a million events",
            large().words(ANSWER + 16, &[0, 1_000_000]),
            End::Traps("too much data is being copied"),
        ),
    ]);
}

fn c2() {
    let end = 2 * PAGE;
    let text = |bytes: &[u8]| good().saying(bytes, 1);
    let at = |at, length| good().refusing(at, length);
    let utf8 = || End::Traps("utf-8");
    let beyond = || End::Traps(BEYOND);
    let crooked = || End::Traps(CROOKED);
    each(vec![
        ("no letters", text(b"\xff\xfe\xff\xfe"), utf8()),
        ("half a letter", text(b"ok \xc3"), utf8()),
        (
            "half of a pair of sixteen bits",
            text(b"\xed\xa0\x80"),
            utf8(),
        ),
        (
            "a letter that is written too long",
            text(b"\xc0\xaf"),
            utf8(),
        ),
        (
            "a letter that there is not",
            text(b"\xf5\x80\x80\x80"),
            utf8(),
        ),
        ("a text beyond the memory", at(0xffff_0000, 16), beyond()),
        ("a text that ends beyond it", at(end - 4, 5), beyond()),
        (
            "a text at its end, and empty",
            at(end, 0),
            End::AnswersText(""),
        ),
        ("an empty text beyond it", at(end + 1, 0), beyond()),
        (
            "a text of all that can be counted",
            at(1, u32::MAX),
            beyond(),
        ),
        (
            "an answer beyond the memory",
            good().answering_at(0xffff_fff8),
            End::Traps("out of bounds"),
        ),
        (
            "an answer that ends beyond it",
            good().answering_at(end - 8),
            End::Traps("out of bounds"),
        ),
        (
            "an answer at a crooked place",
            good().answering_at(ANSWER + 4),
            crooked(),
        ),
        (
            "a list beyond the memory",
            good().words(ANSWER + 8, &[0xffff_ff00, 1]),
            beyond(),
        ),
        (
            "a list that ends beyond it",
            good().words(ANSWER + 8, &[end - 72, 1]),
            beyond(),
        ),
        (
            "a list whose length times its parts is small again",
            good().words(ANSWER + 8, &[LOOKUP, (u32::MAX / 76) + 2]),
            beyond(),
        ),
        (
            "a list of all that can be counted",
            good().words(ANSWER + 16, &[LOOKUP, u32::MAX]),
            beyond(),
        ),
        (
            "a list at a crooked place",
            good().words(ANSWER + 8, &[LOOKUP + 1, 1]),
            crooked(),
        ),
        (
            "a text of a list of a list",
            good().words(ADDRESS + 4, &[end - 1, 2]),
            beyond(),
        ),
        (
            "a line for the log",
            good().finding([
                Instruction::I32Const(1),
                Instruction::I32Const(TEXT as i32),
                Instruction::I32Const(-1),
                Instruction::I32Const(0),
                Instruction::I32Const(0),
                LOG,
            ]),
            beyond(),
        ),
        (
            "the answer of init",
            good().words(INIT + 8, &[end, 1]),
            End::NotLoaded(BEYOND),
        ),
    ]);
}

fn c3() {
    let wide = |letters: &[u16]| -> Vec<u8> {
        letters
            .iter()
            .flat_map(|letter| letter.to_le_bytes())
            .collect()
    };
    let end = 2 * PAGE;
    let mut rows: Vec<Row> = vec![
        (
            "Latin letters",
            good().encoded(CompactUTF16).saying(b"M\xfcnchen", 1),
            End::AnswersText("München"),
        ),
        (
            "Latin letters at an odd place",
            good()
                .encoded(CompactUTF16)
                .bytes(TEXT + 1, b"ok")
                .refusing(TEXT + 1, 2),
            End::Traps(CROOKED),
        ),
        (
            "Latin letters that end beyond the memory",
            good().encoded(CompactUTF16).refusing(end - 2, 3),
            End::Traps(BEYOND),
        ),
    ];
    for (encoding, tag) in [(UTF16, 0), (CompactUTF16, TAG)] {
        let guest = || good().encoded(encoding);
        let saying = |letters: &[u16]| {
            let bytes = wide(letters);
            guest()
                .bytes(TEXT, &bytes)
                .refusing(TEXT, letters.len() as u32 | tag)
        };
        let at = |at, length| guest().refusing(at, length | tag);
        rows.extend([
            ("letters", saying(&[0x6f, 0x6b]), End::AnswersText("ok")),
            ("a pair", saying(&[0xd83e, 0xdd80]), End::AnswersText("🦀")),
            (
                "the first of a pair",
                saying(&[0x6f, 0xd83e]),
                End::Traps("unpaired surrogate"),
            ),
            (
                "the second of a pair",
                saying(&[0xdd80, 0x6f]),
                End::Traps("unpaired surrogate"),
            ),
            (
                "a pair in the wrong order",
                saying(&[0xdd80, 0xd83e]),
                End::Traps("unpaired surrogate"),
            ),
            ("an odd place", at(TEXT + 1, 2), End::Traps(CROOKED)),
            (
                "an odd place, and empty",
                at(TEXT + 1, 0),
                End::Traps(CROOKED),
            ),
            ("beyond the memory", at(0xffff_0000, 2), End::Traps(BEYOND)),
            ("ending beyond it", at(end - 2, 2), End::Traps(BEYOND)),
            (
                "twice its length is small again",
                at(TEXT, 0x7fff_ffff),
                End::Traps(BEYOND),
            ),
        ]);
    }
    each(rows);
}

fn c4() {
    let no_case = || End::Traps(NO_CASE);
    let byte = |at, byte| good().bytes(at, &[byte]);
    let refusing = |case: u8| good().saying(b"no", 1).bytes(ANSWER + 8, &[case]);
    each(vec![
        ("neither answer nor error", byte(ANSWER, 2), no_case()),
        ("neither, by far", byte(ANSWER, 255), no_case()),
        ("an error that there is not", refusing(8), no_case()),
        (
            "an error that there is not, by far",
            refusing(255),
            no_case(),
        ),
        ("a look-up that there is not", byte(LOOKUP, 4), no_case()),
        ("a type of an address", byte(ADDRESS, 5), no_case()),
        (
            "a zone that is neither there nor not",
            byte(LOOKUP + 24, 2),
            no_case(),
        ),
        (
            "a state that is neither known nor not",
            byte(LOOKUP + 64, 2),
            no_case(),
        ),
        // In the component model every non-zero value is true.
        (
            "a truth of 255",
            good().bytes(LOOKUP + 64, &[1, 255]),
            End::Answers,
        ),
        ("a level of the log", good().finding(log(4)), no_case()),
        (
            "a level of the log, by far",
            good().finding(log(-1)),
            no_case(),
        ),
        (
            "a capability",
            good().bytes(INIT + 52, &[3]),
            End::NotLoaded(NO_CASE),
        ),
        (
            "the answer of init is neither",
            byte(INIT, 2),
            End::NotLoaded(NO_CASE),
        ),
    ]);
}

fn c5() {
    let place = |at: u32| good().giving([Instruction::I32Const(at as i32)]);
    let end = 2 * PAGE;
    let in_init = |words| End::NotLoaded(words);
    let mut growing = vec![
        Instruction::I32Const(1),
        Instruction::MemoryGrow(0),
        Instruction::Drop,
    ];
    growing.extend(next_free());
    each(vec![
        // An answer may overlap any other data of the guest: it is the guest's memory.
        ("at 0", place(0), End::Answers),
        ("always at the same place", place(end - 4096), End::Answers),
        (
            "more memory each time",
            good().giving(growing),
            End::Answers,
        ),
        ("at a crooked place", place(end - 4095), in_init(CROOKED)),
        (
            "at the end of the memory",
            place(end),
            in_init("beyond end of memory"),
        ),
        (
            "beyond it",
            place(0xffff_fffc),
            in_init("beyond end of memory"),
        ),
        (
            "nowhere",
            good().giving([Instruction::Unreachable]),
            in_init("unreachable"),
        ),
        (
            "in sixteen bits at a crooked place",
            good()
                .encoded(UTF16)
                .giving([Instruction::I32Const(end as i32 - 4095)]),
            in_init(CROOKED),
        ),
        (
            "the first time, and the second time beyond it",
            good().encoded(CompactUTF16).giving([
                // A text that grows: Latin letters become code units of sixteen bits.
                Instruction::LocalGet(1),
                Instruction::If(BlockType::Result(wasm_encoder::ValType::I32)),
                Instruction::I32Const(-4),
                Instruction::Else,
                Instruction::I32Const(end as i32 - 4096),
                Instruction::End,
            ]),
            End::Traps("beyond end of memory"),
        ),
    ]);
}

fn c6() {
    let timer = || vec![Instruction::I64Const(1), TIMER, Instruction::LocalTee(2)];
    let then = |more: &[Instruction<'static>]| good().finding([timer(), more.to_vec()].concat());
    let again = Instruction::LocalGet(2);
    let unknown = || End::Traps("unknown handle index");
    each(vec![
        (
            "dropped twice",
            then(&[DROP_POLLABLE, again.clone(), DROP_POLLABLE]),
            unknown(),
        ),
        (
            "used after it was dropped",
            then(&[DROP_POLLABLE, again, BLOCK]),
            unknown(),
        ),
        (
            "one that never was",
            good().finding([Instruction::I32Const(77), BLOCK]),
            unknown(),
        ),
        (
            "0",
            good().finding([Instruction::I32Const(0), DROP_POLLABLE]),
            unknown(),
        ),
        (
            "the largest",
            good().finding([Instruction::I32Const(-1), DROP_POLLABLE]),
            unknown(),
        ),
        (
            "header fields as a timer",
            good().finding([FIELDS, BLOCK]),
            End::Traps("wrong type"),
        ),
        (
            "a timer that is dropped as header fields",
            then(&[DROP_FIELDS]),
            End::Traps("wrong type"),
        ),
    ]);
}

/// Logs two letters at a level.
fn log(level: i32) -> Vec<Instruction<'static>> {
    vec![
        Instruction::I32Const(level),
        Instruction::I32Const(TEXT as i32),
        Instruction::I32Const(2),
        Instruction::I32Const(0),
        Instruction::I32Const(0),
        LOG,
    ]
}
