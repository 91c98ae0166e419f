//! The cases of hostile artifacts, and where each is shown. A test holds that every case is, by tests that exist.

use std::path::Path;

use crate::artifacts::{bombs, files, mutants};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[("every_case_is_shown_somewhere", every_case_is_shown)];

/// Where a case is shown.
enum Shown {
    /// By a test of this program.
    Here(&'static str),
    /// By a test in another file.
    There(&'static str, &'static str),
}

use Shown::{Here, There};

const CACHE: &str = "runtime/host/src/compile/cache/tests.rs";
const COMPILING: &str = "tests/sandbox/loading/compiling.rs";
const KEYLESS: &str = "runtime/delivery/src/trust/tests/keyless.rs";
const POLICY: &str = "runtime/delivery/src/trust/tests/policy.rs";
const UNPACK: &str = "runtime/delivery/src/source/unpack/tests.rs";
const REFUSED: &str = "runtime/delivery/src/source/oci/tests/refused.rs";

/// Number, what it is, where it is shown.
const ROWS: &[(&str, &str, &[Shown])] = &[
    (
        "A1",
        "0 bytes; random bytes; a valid file cut at every section's boundary",
        &[Here("a1_nothing_noise_and_parts_are_refused")],
    ),
    (
        "A2",
        "a core module instead of a component",
        &[Here("a2_a_core_module_is_no_component")],
    ),
    (
        "A3",
        "an export is missing or has another signature",
        &[
            Here("a3_what_is_not_exported_is_named"),
            There(
                "tests/sandbox/loading/requirements.rs",
                "an_export_without_its_functions_is_named",
            ),
        ],
    ),
    (
        "A4",
        "an import beyond the list",
        &[Here("a4_what_the_host_does_not_offer_is_listed")],
    ),
    (
        "A5",
        "a newer version of the contract, or one two majors away",
        &[Here(
            "a5_another_version_of_the_contract_is_refused_by_both_numbers",
        )],
    ),
    (
        "A6",
        "over the cap, from each source; a ConfigMap at its limit",
        &[
            Here("a6_a_file_over_the_cap_is_refused_before_it_is_read"),
            There(
                UNPACK,
                "the_largest_module_is_taken_and_one_byte_more_is_not",
            ),
            There(UNPACK, "bombs_are_stopped"),
            There(
                REFUSED,
                "a6_a_manifest_that_is_too_long_is_not_read_to_its_end",
            ),
        ],
    ),
    (
        "A7",
        "a registry that lies about what it sends, or redirects",
        &[
            There(
                REFUSED,
                "a7_an_artifact_that_is_no_module_is_refused_before_its_layers_are_asked_for",
            ),
            There(
                REFUSED,
                "a7_a_layer_that_is_not_what_its_manifest_names_is_refused",
            ),
            There(
                REFUSED,
                "a_name_that_leads_to_a_forbidden_address_is_not_dialled",
            ),
            There(
                "runtime/delivery/src/source/oci/tests/access.rs",
                "nothing_is_sent_to_where_the_registry_redirects_or_for_tokens_to_a_forbidden_address",
            ),
        ],
    ),
    (
        "A8",
        "a tag that is moved between resolving and pulling",
        &[There(
            "runtime/delivery/src/source/oci/tests/tags.rs",
            "a8_when_a_tag_moves_between_the_look_and_the_download_the_digest_wins",
        )],
    ),
    (
        "A9",
        "compile bombs",
        &[
            Here("a9_a_compile_bomb_costs_the_host_nothing"),
            There(COMPILING, "a_bomb_that_passes_the_scan_dies_of_its_memory"),
            There(COMPILING, "a_bomb_that_passes_the_scan_dies_of_its_time"),
        ],
    ),
    (
        "A10",
        "the compiler crashes",
        &[
            Here("a10_a_compiler_that_crashes_is_no_way_in"),
            There(
                "runtime/core/src/rollout/tests/journeys.rs",
                "a_rejected_version_is_not_tried_again_by_the_next_leader_until_a_person_says_so",
            ),
        ],
    ),
    (
        "A11",
        "compiled code instead of a component",
        &[Here("a11_compiled_code_is_refused_by_its_first_bytes")],
    ),
    (
        "A12",
        "a tampered, cut or other entry in the cache of compiled code",
        &[
            There(CACHE, "a_changed_entry_is_never_loaded_and_goes"),
            There(
                CACHE,
                "an_entry_counts_for_its_module_settings_and_installation_only",
            ),
            There(
                CACHE,
                "code_for_another_engine_is_not_loaded_even_with_our_signature",
            ),
            There(COMPILING, "a_tampered_cache_is_compiled_again"),
        ],
    ),
    (
        "A13",
        "unsigned, or signed by or for somebody or something else",
        &[
            There(
                "runtime/delivery/src/trust/tests/keys.rs",
                "b5_a13_signatures_of_a_key_hold_for_what_they_are_about_and_nothing_else",
            ),
            There(
                KEYLESS,
                "b5_a13_each_thing_that_is_wrong_with_a_keyless_signature_has_its_reason",
            ),
            There(
                KEYLESS,
                "b5_a13_the_identity_and_its_issuer_have_to_be_the_named_ones",
            ),
            There(
                POLICY,
                "b5_a13_nothing_is_trusted_unless_the_operator_said_so",
            ),
        ],
    ),
    (
        "A14",
        "an older version, with a good signature",
        &[There(
            POLICY,
            "b5_a14_an_older_signed_version_is_refused_by_its_own_reason",
        )],
    ),
    (
        "A15",
        "proposals that are switched off",
        &[Here("a15_what_is_switched_off_is_refused_by_name")],
    ),
    (
        "A16",
        "memories, tables and instances that begin too large",
        &[Here("a16_what_begins_too_large_is_refused_by_its_limit")],
    ),
    (
        "A17",
        "names that write to terminals, forge lines or do not end",
        &[Here("a17_names_are_shown_harmlessly_and_cut")],
    ),
    (
        "A18",
        "random damage",
        &[Here("a18_damaged_modules_panic_nobody_and_take_no_time")],
    ),
];

fn every_case_is_shown() {
    let ids: Vec<_> = ROWS.iter().map(|(id, ..)| (*id).to_owned()).collect();
    let all: Vec<_> = (1..=18).map(|number| format!("A{number}")).collect();
    assert_eq!(ids, all);
    let here = [files::TESTS, bombs::TESTS, mutants::TESTS].concat();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (id, what, shown) in ROWS {
        assert!(!shown.is_empty(), "{id}: {what}: shown nowhere");
        for one in *shown {
            match one {
                Here(test) => {
                    let is_there = here.iter().any(|(name, _)| name == test);
                    assert!(is_there, "{id}: there is no test {test}");
                }
                There(file, test) => {
                    let text = std::fs::read_to_string(root.join(file)).unwrap();
                    let is_there = [format!("fn {test}("), format!("\"{test}\"")];
                    let is_there = is_there.iter().any(|form| text.contains(form.as_str()));
                    assert!(is_there, "{id}: {file} has no test {test}");
                }
            }
        }
    }
}
