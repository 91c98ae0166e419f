//! Limits the names in a `wasi:http` request that its implementation accepts at any length: a custom method, the
//! host and the path. The host keeps them for every request that a guest has begun. So their setters are replaced by
//! ones that check the length first and otherwise do the same.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{
    HostOutgoingRequest as _, Method, OutgoingRequest,
};

use crate::limits;
use crate::store_data::Guest;

/// Interface name as linked by wasmtime-wasi-http.
const TYPES: &str = "wasi:http/types@0.2.12";

/// Result of a setter; `Err`: the request does not accept the value.
type Taken = Result<(), ()>;

/// Replaces the setters; call it after wasmtime-wasi-http has linked them.
///
/// # Errors
/// The setters cannot be linked.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    types.func_wrap("[method]outgoing-request.set-method", set_method)?;
    types.func_wrap("[method]outgoing-request.set-authority", set_authority)?;
    types.func_wrap("[method]outgoing-request.set-path-with-query", set_path)?;
    linker.allow_shadowing(false);
    Ok(())
}

fn set_method(
    mut store: StoreContextMut<'_, Guest>,
    (request, method): (Resource<OutgoingRequest>, Method),
) -> wasmtime::Result<(Taken,)> {
    match &method {
        Method::Other(name) if name.len() > limits::HTTP_NAME_BYTES => Ok((Err(()),)),
        _ => Ok((store.data_mut().http().set_method(request, method)?,)),
    }
}

fn set_authority(
    mut store: StoreContextMut<'_, Guest>,
    (request, authority): (Resource<OutgoingRequest>, Option<String>),
) -> wasmtime::Result<(Taken,)> {
    match &authority {
        Some(name) if name.len() > limits::HTTP_NAME_BYTES => Ok((Err(()),)),
        _ => Ok((store.data_mut().http().set_authority(request, authority)?,)),
    }
}

/// A guest can set the path any number of times; each one counts.
fn set_path(
    mut store: StoreContextMut<'_, Guest>,
    (request, path): (Resource<OutgoingRequest>, Option<String>),
) -> wasmtime::Result<(Taken,)> {
    let guest = store.data_mut();
    let length = path.as_ref().map_or(0, String::len);
    match guest.paths_left.checked_sub(length) {
        None => Ok((Err(()),)),
        Some(left) => {
            guest.paths_left = left;
            Ok((guest.http().set_path_with_query(request, path)?,))
        }
    }
}
