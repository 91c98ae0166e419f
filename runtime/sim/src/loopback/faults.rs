//! Selects the requests that a fault applies to.

use http::Method;

use super::trouble::Trouble;

/// A trouble and the requests it applies to. The first injected fault that applies to a request is used; later ones do
/// not count that request.
#[derive(Clone, Debug)]
pub struct Fault {
    method: Option<Method>,
    path_prefix: String,
    page: Option<u64>,
    spared: u64,
    every: u64,
    times: Option<u32>,
    /// Number of matching requests so far.
    seen: u64,
    trouble: Trouble,
}

impl Fault {
    /// A fault that applies to every request until faults are cleared. The methods below narrow it.
    #[must_use]
    pub fn new(trouble: Trouble) -> Self {
        Self {
            method: None,
            path_prefix: String::new(),
            page: None,
            spared: 0,
            every: 1,
            times: None,
            seen: 0,
            trouble,
        }
    }

    /// Limits the fault to requests with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Limits it to requests whose path (after the endpoint, with query) has this prefix, for example `/servers?name=`.
    #[must_use]
    pub fn path(mut self, prefix: impl Into<String>) -> Self {
        self.path_prefix = prefix.into();
        self
    }

    /// Limits it to this page of lists; a request without a page counts as page 1.
    #[must_use]
    pub fn page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// Skips this number of matching requests first.
    #[must_use]
    pub fn after(mut self, spared: u64) -> Self {
        self.spared = spared;
        self
    }

    /// Limits it to every `k`-th matching request; 0 counts as 1.
    #[must_use]
    pub fn every(mut self, k: u64) -> Self {
        self.every = k.max(1);
        self
    }

    /// Limits it to this number of requests; then the fault is removed.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Whether the fault applies to a request; counts the request if it matches.
    fn meets(&mut self, method: &Method, path: &str, page: Option<u64>) -> bool {
        let fits = self.times != Some(0)
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && path.starts_with(&self.path_prefix)
            && self.page.is_none_or(|wanted| wanted == page.unwrap_or(1));
        if fits {
            self.seen += 1;
        }
        fits && self.seen > self.spared && (self.seen - self.spared).is_multiple_of(self.every)
    }
}

/// Finds the fault for a request and counts the request.
pub(super) fn pick(
    faults: &mut Vec<Fault>,
    method: &Method,
    path: &str,
    page: Option<u64>,
) -> Option<Trouble> {
    let fault = faults
        .iter_mut()
        .find_map(|fault| fault.meets(method, path, page).then_some(fault))?;
    let trouble = fault.trouble.clone();
    fault.times = fault.times.map(|times| times.saturating_sub(1));
    faults.retain(|fault| fault.times != Some(0));
    Some(trouble)
}
