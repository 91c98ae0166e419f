//! The persistent record of one provider's versions, and people's orders. Every replica reads it, only the leader
//! writes it. Holds no rules.

/// Maximum number of remembered rejected versions; the oldest is dropped first. Each takes less than 2 KiB of an object
/// of at most 1 MiB.
pub const MOST_REJECTED: usize = 32;
/// Maximum number of remembered approved versions.
pub const MOST_APPROVED: usize = 32;
/// Maximum number of lines of a trial.
pub const MOST_LINES: usize = 64;
/// Maximum length of a reason, a line and the trouble, in bytes.
pub const MOST_REASON: usize = 1024;
/// Maximum length of a version's requests, in bytes: the largest manifest, and as much again.
pub const MOST_REQUESTS: usize = 128 << 10;

/// One version of a provider's module: these bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// `sha256:<hex>` of the component's bytes, uncompressed. Identifies the version; never a tag.
    pub digest: String,
    /// The version stated in its manifest, for people.
    pub version: String,
    /// Where exactly these bytes can be fetched again: an `oci://` reference with the manifest's digest if there is
    /// one, otherwise the place they were offered at.
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

/// Recorded properties of an active version, as formatted by the module reader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Noted {
    /// What it requests. If the module can no longer be loaded, a replacement's requests are compared with these.
    /// `None`: unknown; then every request counts as more.
    pub requests: Option<String>,
    /// Highest version that has served, including this one, since a person last ordered a lower one. `None`: none that
    /// is comparable or needed a signature.
    pub highest: Option<String>,
}

/// The record of an active version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The version that is active.
    pub release: Release,
    /// When it became active, in seconds since the Unix epoch.
    pub since: u64,
    /// Its recorded properties; the default until they are read.
    pub noted: Noted,
    /// Why it became active without a trial, for people; `None`: it had one, or is the first version.
    pub untried: Option<String>,
}

crate::named_enum! {
    /// Phase of a version that is not active yet. Its name is fixed in the record.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Phase {
        /// Its bytes are here.
        Fetched = "Fetched",
        /// A signer trusted by the operator vouches for it.
        Verified = "Verified",
        /// It requests more than the grants, or needs what this version of the program does not offer: the operator has
        /// to change the grants or upgrade, or leave it.
        WaitsForGrants = "WaitsForGrants",
        /// It requests more than the active version, within the grants: a person has to approve it.
        WaitsForApproval = "WaitsForApproval",
        /// It is compiled, and has started under its limits.
        Compiled = "Compiled",
        /// Its credential works, as far as it can be tested.
        SelfTested = "SelfTested",
        /// Its answers to reads are compared with those of the active version.
        Shadow = "Shadow",
        /// It answers a part of the calls.
        Canary = "Canary",
    }
}

impl Phase {
    /// The phase, for people.
    pub fn words(self) -> &'static str {
        match self {
            Phase::Fetched => "fetched",
            Phase::Verified => "verified",
            Phase::WaitsForGrants => "waits for grants",
            Phase::WaitsForApproval => "waits for approval",
            Phase::Compiled => "compiled",
            Phase::SelfTested => "self-tested",
            Phase::Shadow => "in shadow",
            Phase::Canary => "canary",
        }
    }

    /// Whether a person has to act.
    pub fn is_waiting(self) -> bool {
        matches!(self, Phase::WaitsForGrants | Phase::WaitsForApproval)
    }
}

/// A version that is not active yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The version that is to become active.
    pub release: Release,
    /// How far it has come.
    pub phase: Phase,
    /// When the phase began, in seconds since the Unix epoch.
    pub since: u64,
    /// What it waits for, or its results so far; lines for people, like those of a plan. At most 64.
    pub lines: Vec<String>,
}

/// A version that is not tried again until its bytes change or a person orders it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// `sha256:<hex>` of its bytes.
    pub digest: String,
    /// The version stated in its manifest; empty if that was unreadable.
    pub version: String,
    /// The reason, for people; sanitised, at most 1 KiB.
    pub reason: String,
    /// Whether it had answered calls before, as the active version or as a canary.
    pub has_answered: bool,
    /// When it was rejected, in seconds since the Unix epoch.
    pub at: u64,
}

impl Rejected {
    /// The version, of which only digest and name are remembered.
    pub fn release(&self) -> Release {
        Release {
            digest: self.digest.clone(),
            version: self.version.clone(),
            origin: String::new(),
        }
    }

    /// That it does not serve although it is offered, and why, for people.
    pub(super) fn offered(&self) -> String {
        let release = self.release().shown();
        format!("{release} is offered, but rejected: {}", self.reason)
    }
}

/// The record of one provider: the `status` of the object `Provider`, or memory where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The version that should serve; `None` before the first one.
    pub active: Option<Placed>,
    /// The version active before, which can be restored.
    pub previous: Option<Release>,
    /// The version being tried.
    pub trial: Option<Trial>,
    /// Rejected versions; the latest first, at most [`MOST_REJECTED`].
    pub rejected: Vec<Rejected>,
    /// Digests whose wider requests a person has approved; the latest first, at most [`MOST_APPROVED`].
    pub approved: Vec<String>,
    /// Why the source cannot be read or the version cannot serve, for people. Empty: no trouble.
    pub trouble: String,
    /// Whether the order to go back that is still there was carried out: it is removed after this was written, and a
    /// process that takes over in between must not take back another version.
    pub has_gone_back: bool,
}

/// People's orders, given as annotations on the object `Provider`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// `wasm-ccm.dev/pin`: only this digest may serve.
    pub pin: Option<String>,
    /// `wasm-ccm.dev/pause`: nothing new begins, and the version being tried is put off.
    pub pause: bool,
    /// `wasm-ccm.dev/roll-back`: restore the previous version and reject the active one. Removed once carried out.
    pub roll_back: bool,
    /// `wasm-ccm.dev/approve`: approves the wider requests of this digest.
    pub approve: Option<String>,
    /// `wasm-ccm.dev/retry`: this digest may be tried again. Removed once carried out.
    pub retry: Option<String>,
    /// `wasm-ccm.dev/allow-downgrade`: exempts this digest from the highest version that has served.
    pub allow_downgrade: Option<String>,
    /// `wasm-ccm.dev/allow-changes`: this digest may change what the active version leaves alone. Separate from the
    /// approval, which is given before the planned changes are known.
    pub allow_changes: Option<String>,
}

/// An order that is removed once it is carried out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// An order to roll back: [`Orders::roll_back`].
    RollBack,
    /// [`Orders::retry`], for this digest.
    Retry(String),
}

impl Orders {
    /// Whether this order stands.
    pub fn has(&self, order: &Order) -> bool {
        match order {
            Order::RollBack => self.roll_back,
            Order::Retry(digest) => self.retry.as_ref() == Some(digest),
        }
    }
}

impl Record {
    /// The version that should serve.
    pub fn active_release(&self) -> Option<&Release> {
        self.active.as_ref().map(|active| &active.release)
    }

    /// Whether this digest is rejected.
    pub fn is_rejected(&self, digest: &str) -> bool {
        self.rejection(digest).is_some()
    }

    /// The rejection of this digest.
    pub fn rejection(&self, digest: &str) -> Option<&Rejected> {
        self.rejected.iter().find(|one| one.digest == digest)
    }

    /// Whether the wider requests of this digest are approved.
    pub fn is_approved(&self, digest: &str) -> bool {
        self.approved.iter().any(|one| one == digest)
    }

    /// Merges the rejections and approvals of another record, except a rejection of the version active in this one.
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

    /// Records `release` as rejected.
    pub(super) fn reject(&mut self, release: &Release, reason: &str, has_answered: bool, at: u64) {
        self.rejected.retain(|one| one.digest != release.digest);
        self.rejected.insert(
            0,
            Rejected {
                digest: release.digest.clone(),
                version: release.version.clone(),
                reason: cut(reason),
                has_answered,
                at,
            },
        );
        self.rejected.truncate(MOST_REJECTED);
        // A rejected version cannot be restored.
        self.previous
            .take_if(|previous| previous.digest == release.digest);
    }

    /// Records `digest` as approved.
    pub(super) fn approve(&mut self, digest: &str) {
        self.approved.retain(|one| one != digest);
        self.approved.insert(0, digest.to_owned());
        self.approved.truncate(MOST_APPROVED);
    }

    /// Records `release` as active and the former one as previous. Its [`Noted`] is filled in once it serves.
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

/// Truncates `text` to at most [`MOST_REASON`] bytes, at a character boundary.
pub(super) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MOST_REASON)].to_owned()
}
