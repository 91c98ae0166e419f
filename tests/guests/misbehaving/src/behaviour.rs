//! Every way to misbehave, and the required reaction of a host.

macro_rules! behaviours {
    ($(#[doc = $about:literal])+ $name:ident: $($(#[doc = $what:literal])+ $variant:ident = $word:literal,)+) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $what])+ $variant,)+
        }

        impl $name {
            /// All values, in the order of declaration.
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// The value's word in the configuration.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// Reads the configuration's word.
            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|behaviour| behaviour.word() == word)
            }
        }
    };
}

mod balancing;
mod routing;

pub use balancing::Balancing;
pub use routing::Routing;

behaviours! {
    /// A way to behave. The word in the configuration is that of [`Behaviour::word`].
    Behaviour:

    /// Answers every node as it should, without any request: proof that the others fail for their own reason.
    Honest = "honest",
    /// Asks `GET /machines/{name}` for each node: 2xx is found, 404 is gone, anything else is unknown.
    HonestRequests = "honest-requests",
    /// The same, and unknown for a machine that no other one of the call was found beside: its 404 alone proves nothing.
    GoneBesideOthers = "gone-beside-others",

    /// Loops for ever in `find`. The call's deadline has to end it, and other calls must not suffer.
    Spin = "spin",
    /// Loops for ever in `init`. The provider must not be loaded.
    SpinInInit = "spin-in-init",
    /// Sleeps for an hour in the host's own clock and poll functions. The deadline holds there too.
    Sleep = "sleep",
    /// Polls a timer of no length, for ever. The deadline holds, and the host's own work counts as the call's.
    PollLoop = "poll-loop",
    /// Begins 100 000 timers of an hour. Ends in a trap where its handles end.
    ManyTimers = "many-timers",
    /// Makes a million objects at the host. Ends in a trap where its handles end.
    HoardHandles = "hoard-handles",
    /// Takes a mebibyte and never gives it back. The next call begins without it.
    Leak = "leak",
    /// Takes memory until it gets no more. Ends in a trap that says so, at the memory limit.
    MemoryBomb = "memory-bomb",
    /// Calls itself without end. Ends in a trap that says stack overflow.
    Recursion = "recursion",
    /// Panics with a message. The message has to be in the error and in the log.
    Panic = "panic",
    /// Panics in `init`. The provider must not be loaded, and the message says why.
    PanicInInit = "panic-in-init",
    /// Ends its program by `exit`. A failed call, never the end of the manager.
    Exit = "exit",
    /// Writes 10 000 log lines of 8 KiB. At most 100 lines of 4 KiB are kept, and the call goes on.
    LogFlood = "log-flood",
    /// Writes 10 000 lines to standard error. Whatever is kept of them is bounded.
    StderrFlood = "stderr-flood",
    /// Logs text that would write to a terminal, and forge a second line. Control characters have to be escaped.
    LogForgery = "log-forgery",
    /// Fills the state store with 64 KiB values until one is refused. Tells how many were kept: at most 256 KiB.
    StateOverflow = "state-overflow",
    /// Keeps one value of 16 MiB. Must be refused.
    StateHugeValue = "state-huge-value",
    /// Asks for 4 GiB of randomness. Ends in a trap.
    HugeRandom = "huge-random",
    /// Looks whether any clock is finer than a millisecond. None is.
    FineClock = "fine-clock",

    /// `init` enables an interface that the component does not export. An error of the guest.
    UnknownCapability = "unknown-capability",
    /// `init` refuses the configuration. The text is for the operator; it is no trap.
    RefusesConfig = "refuses-config",
    /// One lookup less than nodes. The whole answer is worthless.
    TooFewLookups = "too-few-lookups",
    /// One lookup more than nodes. The whole answer is worthless.
    TooManyLookups = "too-many-lookups",
    /// No lookup at all, whatever was asked.
    NoLookups = "no-lookups",
    /// Addresses that are none: a name as IP, a loopback, the metadata address, an IP with zone. Never stored.
    BadAddresses = "bad-addresses",
    /// An address of 300 bytes. Over the cap: an error of the guest.
    LongAddress = "long-address",
    /// Label keys and values that Kubernetes refuses. Never written.
    BadLabels = "bad-labels",
    /// A label value of 155 bytes. Over the cap: an error of the guest.
    LongLabel = "long-label",
    /// Labels under keys that belong to Kubernetes and to the manager. Dropped.
    ReservedLabels = "reserved-labels",
    /// Another provider ID than the node has. Held back, with an Event.
    ChangedProviderId = "changed-provider-id",
    /// A provider ID with the scheme of another cloud. Never written.
    ForeignScheme = "foreign-scheme",
    /// 10 000 addresses on one instance. Over the cap: an error of the guest.
    ManyAddresses = "many-addresses",
    /// A reason of 16 MiB for the first node. Over the cap, and the manager's memory does not grow.
    HugeString = "huge-string",
    /// 100 000 events. Over the cap.
    ManyEvents = "many-events",
    /// An event about a node that was not asked for. An error of the guest.
    EventOutOfRange = "event-out-of-range",
    /// An event whose reason is no CamelCase word and whose message has control characters.
    BadEvent = "bad-event",
    /// An error with the credential, control characters, terminal codes and 100 KiB in its text. Cut and cleaned.
    GarbageError = "garbage-error",
    /// The same with 10 MiB.
    HugeGarbageError = "huge-garbage-error",
    /// `gone` for every node, without any request. No proof of anything.
    GoneWithoutAsking = "gone-without-asking",
    /// Asks once per node, and says `gone` for whatever does not end 2xx. The host has to see the failed exchange.
    GoneAfterFailure = "gone-after-failure",
    /// The same for nodes that are not ready; what fails about others is unknown. `ccm provider test` has to see it.
    GoneAfterFailureIfNotReady = "gone-after-failure-if-not-ready",
    /// Counts its calls in its own memory. Must always answer `call 1`: every call has a fresh guest instance.
    FromMemory = "from-memory",
    /// Answers in its second call what `state` kept of its first: `gone`. A confirming look-up must not see it.
    FromState = "from-state",

    /// As `honest-requests`, and every tenth call ends with an error: unavailable. A trial has to notice.
    FailsSometimes = "fails-sometimes",
    /// As `honest-requests`, with machines in another zone than every other behaviour says. A trial has to notice.
    OtherZone = "other-zone",

    /// Sends a request in `init`. Refused; `find` tells.
    HttpInInit = "http-in-init",
    /// Asks for a path that no rule covers. Refused before it is sent.
    OtherPath = "other-path",
    /// Sends `DELETE` to a path that only `GET` may use. Refused before it is sent.
    OtherMethod = "other-method",
    /// Names a target that the manifest does not. Refused.
    OtherTarget = "other-target",
    /// Tries to leave the rules by `..`, encoded slashes, backslashes, a second host in the path. All refused.
    PathTricks = "path-tricks",
    /// Sets headers that belong to the host, the credential among them. All refused.
    HostHeaders = "host-headers",
    /// Sends a body of 2 MiB. Refused.
    HugeBody = "huge-body",
    /// Asks for the metadata address through `wasi:http`. Refused.
    Metadata = "metadata",
    /// Asks for a host that was not granted through `wasi:http`. Refused.
    OtherHost = "other-host",
    /// Sends 10 000 requests. The host's limits and the budget hold; reports how many were answered and throttled.
    Flood = "flood",
    /// Hands 10 000 requests to one `fetch-all`. Refused, or at most 64 are sent.
    FloodAtOnce = "flood-at-once",
    /// Leaves methods and hosts of megabytes with the host, in requests that it never sends. Not taken.
    HoardNames = "hoard-names",
    /// Begins the bodies of a hundred requests and ends none. The host takes as much as it would send at a time.
    HoardBodies = "hoard-bodies",
    /// Begins the body of a granted request with one byte, and never ends it. The deadline holds, and nothing is sent.
    SlowBody = "slow-body",
    /// Leaves header fields and paths of megabytes with the host, in a thousand requests that are not sent. Not taken.
    HoardFields = "hoard-fields",
    /// Puts a million header fields into one request, one by one. Ends in a trap at the limit of memory for them.
    ManyFields = "many-fields",
    /// Puts 32 769 header fields, more than a map of them can hold, into one request at once. Ends in a trap.
    ManyFieldsAtOnce = "many-fields-at-once",
    /// Asks for large answers, and keeps each of them with the host. The first fits, and no more.
    HoardAnswers = "hoard-answers",
    /// The same with one answer that was kept: each copy counts, although the cloud is asked once.
    HoardKeptAnswers = "hoard-kept-answers",
    /// Asks for many large answers in one call of the host. One fits.
    FetchAllHuge = "fetch-all-huge",
    /// Has got the credential, and writes it into its log and its answer. It is removed from both.
    TellsToken = "tells-token",
    /// Has come by the credential, and makes it a label. No answer at all.
    TokenAsLabel = "token-as-label",
    /// Reads files, environment and arguments. There are none.
    ReadHost = "read-host",
}
