//! Expansion of [`export_provider!`](crate::export_provider), and its support functions.
//!
//! Not for direct use by providers; public only because the macro expands in their crates.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

pub mod manifest;

use crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config as RawConfig;
use crate::{Capability, Config, Error, Provider, log};

/// The provider of this guest instance; `None` until `init` succeeds.
pub type Slot<P> = RefCell<Option<Rc<P>>>;

/// Serves `lifecycle.init`.
///
/// # Errors
/// The error of [`Provider::init`].
pub fn init<P: Provider>(
    slot: &Slot<P>,
    config: RawConfig,
    exported: &[Capability],
) -> Result<Vec<Capability>, Error> {
    report_panics();
    #[cfg(feature = "log")]
    log::bridge();
    let provider = P::init(&Config::of_host(config))?;
    let enabled = provider.enabled(exported);
    slot.replace(Some(Rc::new(provider)));
    Ok(enabled)
}

/// Serves every other function: runs `call` with the provider that `init` created.
///
/// # Errors
/// [`Error::Internal`] when the host did not call `init` first; otherwise the error of `call`.
pub fn call<P: Provider, T, E: From<Error>>(
    slot: &Slot<P>,
    call: impl FnOnce(&P) -> Result<T, E>,
) -> Result<T, E> {
    report_panics();
    // The borrow ends here, so `call` may use the slot again.
    let provider = slot.borrow().clone();
    match provider {
        Some(provider) => call(&provider),
        None => Err(Error::internal("init was not called").into()),
    }
}

/// Sends panic messages to the host's log. The panic still ends in a trap; a trap alone only reports `unreachable`, so
/// without this hook the reason would be lost.
fn report_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| log::error(&panic.to_string(), &[]))));
}

/// Exports a provider from a guest crate.
///
/// ```
/// # use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider};
/// struct Tiny;
/// # impl Provider for Tiny {
/// #     fn init(_: &Config) -> Result<Tiny, Error> { Ok(Tiny) }
/// # }
/// # impl Instances for Tiny {
/// #     fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> { Ok(FindReply::new(Vec::new())) }
/// # }
/// ccm_guest::export_provider! {
///     provider: Tiny,
///     interfaces: [instances],
///     manifest: "examples/tiny/manifest.json",
/// }
/// ```
///
/// The arguments come in any order. `interfaces` is any subset of `instances`, `load_balancer`, `routes` and
/// `self_check`; the provider type must implement the trait of each. `lifecycle` is always exported. `manifest` is a
/// path relative to the crate's `Cargo.toml`; the file becomes the custom section `ccm:manifest`, which the host reads
/// without running the component. A mistake in its shape is a compiler error. The macro adds the version of
/// `Cargo.toml`; a manifest that states a version must state the same one.
///
/// Outside Wasm the types and the manifest are only checked: component export names do not link into a native library.
#[macro_export]
macro_rules! export_provider {
    (@read [$($provider:ident)?] [$($interfaces:tt)?] [$($manifest:literal)?] provider: $found:ident $(, $($rest:tt)*)?) => {
        $crate::export_provider!(@read [$found] [$($interfaces)?] [$($manifest)?] $($($rest)*)?);
    };
    (@read [$($provider:ident)?] [$($interfaces:tt)?] [$($manifest:literal)?] interfaces: $found:tt $(, $($rest:tt)*)?) => {
        $crate::export_provider!(@read [$($provider)?] [$found] [$($manifest)?] $($($rest)*)?);
    };
    (@read [$($provider:ident)?] [$($interfaces:tt)?] [$($manifest:literal)?] manifest: $found:literal $(, $($rest:tt)*)?) => {
        $crate::export_provider!(@read [$($provider)?] [$($interfaces)?] [$found] $($($rest)*)?);
    };
    (@read [$provider:ident] [[$($interface:ident),+ $(,)?]] [$manifest:literal]) => {
        const _: () = {
            const FILE: &[u8] = ::core::include_bytes!(::core::concat!(
                ::core::env!("CARGO_MANIFEST_DIR"),
                "/",
                $manifest
            ));
            const VERSION: &str = ::core::env!("CARGO_PKG_VERSION");
            const LENGTH: usize = $crate::export::manifest::checked_length(FILE, VERSION);
            $crate::export_provider!(@both $provider FILE VERSION LENGTH $($interface)+);
        };
    };
    (@read [] $interfaces:tt $manifest:tt) => {
        ::core::compile_error!("export_provider! needs `provider: YourType`");
    };
    (@read $provider:tt [] $manifest:tt) => {
        ::core::compile_error!("export_provider! needs `interfaces: [instances]`, or others of load_balancer, routes and self_check");
    };
    (@read $provider:tt $interfaces:tt []) => {
        ::core::compile_error!("export_provider! needs `manifest: \"manifest.json\"`, relative to Cargo.toml");
    };
    (@read $provider:tt $interfaces:tt $manifest:tt $($rest:tt)*) => {
        ::core::compile_error!(
            "export_provider! takes `provider: YourType`, `interfaces: [instances, load_balancer, routes, self_check]` and `manifest: \"manifest.json\"`"
        );
    };

    (@both $provider:ident $file:ident $version:ident $length:ident $($interface:ident)+) => {
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            $($crate::export_provider!(@check $interface $provider);)+
            const _: usize = $length;
        };

        #[cfg(target_arch = "wasm32")]
        #[allow(
            unsafe_code,
            missing_docs,
            unused_qualifications,
            clippy::allow_attributes_without_reason,
            reason = "generated: exported functions and custom sections need unsafe attributes"
        )]
        const _: () = {
            #[unsafe(link_section = "ccm:manifest")]
            #[used]
            static SECTION: [u8; $length] = $crate::export::manifest::with_version($file, $version);

            ::std::thread_local! {
                static PROVIDER: $crate::export::Slot<$provider> = const { ::std::cell::RefCell::new(None) };
            }

            struct Component;

            impl $crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Guest for Component {
                fn init(
                    config: $crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config,
                ) -> ::core::result::Result<::std::vec::Vec<$crate::Capability>, $crate::Error> {
                    let exported: &[$crate::Capability] =
                        &[$($crate::export_provider!(@capability $interface)),+].concat();
                    PROVIDER.with(|slot| $crate::export::init(slot, config, exported))
                }
            }
            $crate::bindings::lifecycle::export_lifecycle!(Component with_types_in $crate::bindings::lifecycle);

            $($crate::export_provider!(@export $interface);)+
        };
    };

    (@capability instances) => { [$crate::Capability::Instances].as_slice() };
    (@capability load_balancer) => { [$crate::Capability::LoadBalancer].as_slice() };
    (@capability routes) => { [$crate::Capability::Routes].as_slice() };
    (@capability self_check) => { [].as_slice() };

    (@check instances $provider:ident) => { const fn instances<P: $crate::Instances>() {} instances::<$provider>(); };
    (@check load_balancer $provider:ident) => {
        const fn load_balancer<P: $crate::LoadBalancer>() {}
        load_balancer::<$provider>();
    };
    (@check routes $provider:ident) => { const fn routes<P: $crate::Routes>() {} routes::<$provider>(); };
    (@check self_check $provider:ident) => { const fn self_check<P: $crate::SelfCheck>() {} self_check::<$provider>(); };

    (@export instances) => {
        impl $crate::bindings::instances::exports::ccm::provider::instances::Guest for Component {
            fn find(
                nodes: ::std::vec::Vec<$crate::Node>,
            ) -> ::core::result::Result<$crate::FindReply, $crate::Error> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::Instances::find(provider, nodes)))
            }
        }
        $crate::bindings::instances::export_instances!(Component with_types_in $crate::bindings::instances);
    };

    (@export self_check) => {
        impl $crate::bindings::self_check::exports::ccm::provider::self_check::Guest for Component {
            fn check() -> ::core::result::Result<(), $crate::Error> {
                PROVIDER.with(|slot| $crate::export::call(slot, $crate::SelfCheck::check))
            }
        }
        $crate::bindings::self_check::export_self_check!(Component with_types_in $crate::bindings::self_check);
    };

    (@export load_balancer) => {
        impl $crate::bindings::load_balancer::exports::ccm::provider::load_balancer::Guest for Component {
            fn ensure(
                request: $crate::load_balancer::EnsureRequest,
            ) -> ::core::result::Result<$crate::load_balancer::EnsureReply, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::LoadBalancer::ensure(provider, request)))
            }
            fn update_targets(
                request: $crate::load_balancer::UpdateRequest,
            ) -> ::core::result::Result<$crate::load_balancer::ProgressReply, $crate::Failure> {
                PROVIDER.with(|slot| {
                    $crate::export::call(slot, |provider| $crate::LoadBalancer::update_targets(provider, request))
                })
            }
            fn delete(
                request: $crate::load_balancer::DeleteRequest,
            ) -> ::core::result::Result<$crate::load_balancer::ProgressReply, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::LoadBalancer::delete(provider, request)))
            }
            fn get(
                service: $crate::load_balancer::Service,
            ) -> ::core::result::Result<$crate::load_balancer::Found, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::LoadBalancer::get(provider, service)))
            }
        }
        $crate::bindings::load_balancer::export_load_balancer!(Component with_types_in $crate::bindings::load_balancer);
    };

    (@export routes) => {
        impl $crate::bindings::routes::exports::ccm::provider::routes::Guest for Component {
            fn list(
                nodes: ::std::vec::Vec<$crate::Node>,
            ) -> ::core::result::Result<::std::vec::Vec<$crate::routes::Route>, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::Routes::list(provider, nodes)))
            }
            fn create(
                request: $crate::routes::CreateRequest,
            ) -> ::core::result::Result<$crate::routes::ProgressReply, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::Routes::create(provider, request)))
            }
            fn delete(
                request: $crate::routes::DeleteRequest,
            ) -> ::core::result::Result<$crate::routes::ProgressReply, $crate::Failure> {
                PROVIDER.with(|slot| $crate::export::call(slot, |provider| $crate::Routes::delete(provider, request)))
            }
        }
        $crate::bindings::routes::export_routes!(Component with_types_in $crate::bindings::routes);
    };

    (@capability $other:ident) => { $crate::export_provider!(@unknown $other) };
    (@check $other:ident $provider:ident) => { $crate::export_provider!(@unknown $other); };
    (@export $other:ident) => {};
    (@unknown $other:ident) => {
        ::core::compile_error!(::core::concat!(
            "there is no interface `",
            ::core::stringify!($other),
            "`: instances, load_balancer, routes, self_check"
        ))
    };

    ($($arguments:tt)*) => { $crate::export_provider!(@read [] [] [] $($arguments)*); };
}
