//! What the bindings generator makes of the contract in `wit/`, and nothing else. The host compiles against the world of
//! the newest version that has everything; which of its exports a component has is asked per interface. Of older versions
//! it compiles what guests import: `v0_1` has their other types.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    reason = "generated; the contract documents it"
)]

wasmtime::component::bindgen!({
    path: "../../wit/v0.2",
    world: "provider",
    imports: {
        "ccm:provider/http.fetch": async,
        "ccm:provider/http.fetch-all": async,
        "ccm:provider/random.bytes": trappable,
    },
    exports: { default: async },
    require_store_data_send: true,
    // Arguments and answers cross to a sandbox in a process of its own.
    additional_derives: [serde::Serialize, serde::Deserialize],
});

pub(crate) use ccm::provider::{clock, common, http, log, random, state};
pub(crate) use exports::ccm::provider::{instances, lifecycle, load_balancer, routes, self_check};

/// What guests of version 0.1 import.
pub(crate) mod v0_1 {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1",
        world: "imports",
        imports: {
            "ccm:provider/http.fetch": async,
            "ccm:provider/http.fetch-all": async,
            "ccm:provider/random.bytes": trappable,
        },
        require_store_data_send: true,
    });

    pub(crate) use ccm::provider::{clock, http, log, random, state};
}
