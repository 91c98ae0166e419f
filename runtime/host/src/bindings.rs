//! Types and functions that the bindings generator makes of the contract in `wit/`, and nothing else. The host compiles
//! against the world of the newest version that has every interface; whether a component exports one is checked for
//! each interface. Of version 0.1 only the imports are compiled: `v0_1` has its other types.
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
    // Arguments and answers are sent to and from a sandbox process.
    additional_derives: [serde::Serialize, serde::Deserialize],
});

pub(crate) use ccm::provider::{clock, common, http, log, random, state};
pub(crate) use exports::ccm::provider::{instances, lifecycle, load_balancer, routes};

/// Interfaces that guests of version 0.1 import.
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
