//! Metrics that belong to no controller: of the build, of the process and of the providers' requests; and the text
//! formats in which a registry is served. Serves nothing itself, and knows neither Kubernetes nor Wasm.

pub mod build;
pub mod process;
pub mod requests;
pub mod text;

#[cfg(test)]
mod tests;
