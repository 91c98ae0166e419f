//! The Rust face of the contract in `wit/v0.1`: `generate!` and nothing else.
//!
//! One world per exported interface, so that a provider can export any subset: every world brings its own
//! export macro and its own description of the component's type, and the linker unites those that were used.
//! All of them share the types of `common` that the first world generates.

/// What the host offers, and the nouns that both sides use.
pub mod host {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world host {
                import ccm:provider/common@0.1.0;
                import ccm:provider/log@0.1.0;
                import ccm:provider/clock@0.1.0;
                import ccm:provider/random@0.1.0;
                import ccm:provider/state@0.1.0;
                import ccm:provider/http@0.1.0;
            }
        ",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
    });
}

/// Export of `lifecycle`.
pub mod lifecycle {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world lifecycle { export ccm:provider/lifecycle@0.1.0; }
        ",
        with: { "ccm:provider/common@0.1.0": crate::bindings::host::ccm::provider::common },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_lifecycle",
        default_bindings_module: "ccm_guest::bindings::lifecycle",
    });
}

/// Export of `self-check`.
pub mod self_check {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world self-check { export ccm:provider/self-check@0.1.0; }
        ",
        with: { "ccm:provider/common@0.1.0": crate::bindings::host::ccm::provider::common },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_self_check",
        default_bindings_module: "ccm_guest::bindings::self_check",
    });
}

/// Export of `instances`.
pub mod instances {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world instances { export ccm:provider/instances@0.1.0; }
        ",
        with: { "ccm:provider/common@0.1.0": crate::bindings::host::ccm::provider::common },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_instances",
        default_bindings_module: "ccm_guest::bindings::instances",
    });
}

/// Export of `load-balancer`.
pub mod load_balancer {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world load-balancer { export ccm:provider/load-balancer@0.1.0; }
        ",
        with: { "ccm:provider/common@0.1.0": crate::bindings::host::ccm::provider::common },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_load_balancer",
        default_bindings_module: "ccm_guest::bindings::load_balancer",
    });
}

/// Export of `routes`.
pub mod routes {
    wit_bindgen::generate!({
        path: "../wit/v0.1",
        inline: "
            package ccm:sdk;
            world routes { export ccm:provider/routes@0.1.0; }
        ",
        with: { "ccm:provider/common@0.1.0": crate::bindings::host::ccm::provider::common },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_routes",
        default_bindings_module: "ccm_guest::bindings::routes",
    });
}
