//! What is written down about one provider's versions, and what people order. Every replica reads it, only the leader
//! writes it. Holds no rules.

/// Rejected versions that are remembered; the oldest is forgotten first. Each takes less than 2 KiB of an object that
/// may have 1 MiB.
pub const MOST_REJECTED: usize = 32;
/// Approved versions that are remembered.
pub const MOST_APPROVED: usize = 32;
/// Lines of a trial.
pub const MOST_LINES: usize = 64;
/// Bytes of a reason, of a line and of the trouble.
pub const MOST_REASON: usize = 1024;
/// Bytes of what a version requests: the largest manifest, and as much again.
pub const MOST_REQUESTS: usize = 128 << 10;

/// One version of a provider's module: these bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// `sha256:<hex>` of the component's bytes, uncompressed. What a version is told by; never a tag.
    pub digest: String,
    /// The version that its manifest names, for people.
    pub version: String,
    /// Where exactly these bytes can be had again: an `oci://` reference with the manifest's digest where there is one,
    /// otherwise the place they were offered at.
    pub origin: String,
}

impl Release {
    /// `1.2.3 (sha256:0123456789ab)`, for people.
    pub fn shown(&self) -> String {
        let short: String = self.digest.chars().take(19).collect();
        match self.version.as_str() {
            "" => short,
            version => format!("{version} ({short})"),
        }
    }
}

/// What is written down of a version that serves, in the words of whoever reads modules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Noted {
    /// What it requests. A process that cannot have the module any more compares with it what is offered in its place.
    /// `None`: not known, and then everything is more.
    pub requests: Option<String>,
    /// The highest version that has served, this one included, since a person last ordered a lower one. `None`: none that
    /// can be compared, or for which somebody had to vouch.
    pub highest: Option<String>,
}

/// A version that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Which.
    pub release: Release,
    /// Since when, in seconds since the Unix epoch.
    pub since: u64,
    /// See [`Noted`]. The default, until it was read.
    pub noted: Noted,
    /// Why it was not tried beside its predecessor before it served, for people; `None`: it was, or it is the first one.
    pub untried: Option<String>,
}

/// How far a version has come that does not serve yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its bytes are here.
    Fetched,
    /// Somebody that the operator trusts vouches for it.
    Verified,
    /// It requests what is not granted: the operator has to change the grants, or leave it.
    WaitsForGrants,
    /// It requests more than the version that serves, within the grants: somebody has to approve it.
    WaitsForApproval,
    /// It is compiled, and has started under its limits.
    Compiled,
    /// It has proven its credential, as far as it can.
    SelfTested,
    /// Its answers to reads are compared with those of the version that serves.
    Shadow,
    /// It answers a part of the calls.
    Canary,
}

impl Phase {
    /// Whether a person has to do something.
    pub fn is_waiting(self) -> bool {
        matches!(self, Phase::WaitsForGrants | Phase::WaitsForApproval)
    }
}

/// A version that does not serve yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Which.
    pub release: Release,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is there, in seconds since the Unix epoch.
    pub since: u64,
    /// What it waits for, or has shown so far; lines for people, like those of a plan. At most 64.
    pub lines: Vec<String>,
}

/// A version that is not tried again until its bytes change or a person says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// `sha256:<hex>` of its bytes.
    pub digest: String,
    /// The version that its manifest names; empty where that could not be read.
    pub version: String,
    /// Why, for people; sanitised, at most 1 KiB.
    pub reason: String,
    /// When, in seconds since the Unix epoch.
    pub at: u64,
}

/// What is written down about one provider. The `status` of the object `Provider`, or memory where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// What serves.
    pub active: Option<Placed>,
    /// What served before, and can again.
    pub previous: Option<Release>,
    /// What is on its way.
    pub trial: Option<Trial>,
    /// Not to be tried again; the latest first, at most [`MOST_REJECTED`].
    pub rejected: Vec<Rejected>,
    /// Digests whose wider requests a person has approved; the latest first, at most [`MOST_APPROVED`].
    pub approved: Vec<String>,
    /// What keeps the source from being read or the version from being served, for people. Empty: nothing.
    pub trouble: String,
}

/// What people order, by annotations on the object `Provider`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// `wasm-ccm.dev/pin`: only this digest may serve.
    pub pin: Option<String>,
    /// `wasm-ccm.dev/pause`: nothing new begins, and what is on its way is put off.
    pub pause: bool,
    /// `wasm-ccm.dev/roll-back`: back to the previous version, and the one that serves is rejected. Taken away when it is
    /// done.
    pub roll_back: bool,
    /// `wasm-ccm.dev/approve`: the wider requests of this digest are approved.
    pub approve: Option<String>,
    /// `wasm-ccm.dev/retry`: this digest may be tried again. Taken away when it is done.
    pub retry: Option<String>,
    /// `wasm-ccm.dev/allow-downgrade`: neither the minimum version nor the highest that has served holds for this digest.
    pub allow_downgrade: Option<String>,
    /// `wasm-ccm.dev/allow-changes`: this digest may change what the version that serves leaves alone. Another order than
    /// an approval, which is given before anybody knows what a version would change.
    pub allow_changes: Option<String>,
}

impl Record {
    /// Whether this digest is not to be tried.
    pub fn is_rejected(&self, digest: &str) -> bool {
        self.rejected.iter().any(|one| one.digest == digest)
    }

    /// Whether the wider requests of this digest are approved.
    pub fn is_approved(&self, digest: &str) -> bool {
        self.approved.iter().any(|one| one == digest)
    }

    /// Takes over what was rejected and approved in another record, but for what is active in this one.
    pub(super) fn inherit(&mut self, before: &Record) {
        let active = self.active.as_ref().map(|active| &active.release.digest);
        let rejected = before.rejected.iter().filter(|one| {
            !self.is_rejected(&one.digest) && active.is_none_or(|active| *active != one.digest)
        });
        let rejected: Vec<Rejected> = rejected.cloned().collect();
        self.rejected.extend(rejected);
        self.rejected.truncate(MOST_REJECTED);
        let approved = before.approved.iter().filter(|one| !self.is_approved(one));
        let approved: Vec<String> = approved.cloned().collect();
        self.approved.extend(approved);
        self.approved.truncate(MOST_APPROVED);
    }

    /// Notes that `release` is not to be tried again.
    pub(super) fn reject(&mut self, release: &Release, reason: &str, at: u64) {
        self.rejected.retain(|one| one.digest != release.digest);
        self.rejected.insert(
            0,
            Rejected {
                digest: release.digest.clone(),
                version: release.version.clone(),
                reason: cut(reason),
                at,
            },
        );
        self.rejected.truncate(MOST_REJECTED);
        // What is not to be tried cannot be gone back to.
        self.previous
            .take_if(|previous| previous.digest == release.digest);
    }

    /// Notes that `digest` is approved.
    pub(super) fn approve(&mut self, digest: &str) {
        self.approved.retain(|one| one != digest);
        self.approved.insert(0, digest.to_owned());
        self.approved.truncate(MOST_APPROVED);
    }

    /// `release` serves from now on, and what served before is kept. What is to be noted of it follows once it serves.
    pub(super) fn activate(&mut self, release: Release, at: u64, untried: Option<String>) {
        let mut noted = Noted::default();
        if let Some(active) = self.active.take() {
            noted.highest = active.noted.highest;
            let digest = &active.release.digest;
            if *digest != release.digest && !self.is_rejected(digest) {
                self.previous = Some(active.release);
            }
        }
        self.previous
            .take_if(|previous| previous.digest == release.digest);
        self.active = Some(Placed {
            release,
            since: at,
            noted,
            untried,
        });
        self.trial = None;
    }
}

/// At most [`MOST_REASON`] bytes, and whole characters.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(MOST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
