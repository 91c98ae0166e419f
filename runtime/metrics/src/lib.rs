//! Metrics that belong to no controller: of the build, of the process and of the providers' requests; how metrics are
//! registered, and the text formats in which a registry is served. Serves nothing itself, and knows neither Kubernetes
//! nor Wasm.

pub mod build;
pub mod process;
mod registration;
pub mod requests;
pub mod text;

pub use registration::Registration;

#[cfg(test)]
mod tests;
