//! The ways to misbehave as a provider of load balancers.

behaviours! {
    /// A way to behave in the four functions about load balancers.
    Balancing:

    /// Reads, makes what is missing, waits once, answers truly: proof that the others fail for their own reason.
    Honest = "honest",
    /// Repeats what it gets, without a request: the stored status as the new one, the hint as the hint, the rest in
    /// annotations. Values must cross the boundary whole.
    Echo = "echo",

    /// Panics. The message has to be in the error, with the function's name.
    Panic = "panic",
    /// Loops for ever. The call's deadline ends it, and names the function.
    Spin = "spin",
    /// Takes memory until it gets no more. Ends in a trap that says so.
    MemoryBomb = "memory-bomb",
    /// A conflict whose owner has 1 MiB. An error of the guest, and no conflict without owner, which would permit
    /// adoption.
    HugeOwner = "huge-owner",
    /// A conflict whose owner has an invalid object name. An error of the guest: no such object would ever exist.
    NamelessOwner = "nameless-owner",
    /// An error with 100 000 events. Over the cap: an error of the guest, and none of them is recorded.
    ManyFailureEvents = "many-failure-events",
    /// An error with an event whose reason is markup. An error of the guest.
    MarkupFailureReason = "markup-failure-reason",
    /// An error whose text has control characters, terminal codes and 1 MiB of length. Cut and cleaned.
    GarbageError = "garbage-error",

    /// 1 000 ingress entries. Over the cap: an error of the guest.
    ManyWaysIn = "many-ways-in",
    /// An ingress entry without address and hostname. An error of the guest.
    NoWayIn = "no-way-in",
    /// Addresses and names that no Service may show: loopback, metadata, the cluster's own, markup. The shape is right;
    /// core judges the meaning.
    HostileWaysIn = "hostile-ways-in",
    /// A hostname of 300 bytes. Over the cap: an error of the guest.
    LongHostname = "long-hostname",
    /// Ports 0, and with a sentence as error. An error of the guest.
    BadPorts = "bad-ports",

    /// A hint of 1 MiB. Over the cap: an error of the guest, and nothing of it is kept.
    HugeHint = "huge-hint",
    /// Asks to be called again in 500 million years. Ten minutes are the maximum.
    Never = "never",
    /// Asks to be called again at once, for ever. A tenth of a second is the minimum.
    AtOnce = "at-once",

    /// Annotations of Kubernetes, of the manager and of others. The shape is right; none of them may be written.
    ForeignAnnotations = "foreign-annotations",
    /// 1 000 annotations. Over the cap.
    ManyAnnotations = "many-annotations",
    /// An annotation of 1 MiB. Over the cap.
    HugeAnnotation = "huge-annotation",
    /// An annotation that writes to terminals. An error of the guest.
    TerminalAnnotation = "terminal-annotation",
    /// 100 000 events. Over the cap.
    ManyEvents = "many-events",
    /// Events with markup and terminal codes in their messages. Cleaned.
    MarkupEvents = "markup-events",
    /// An event whose reason is markup. An error of the guest.
    MarkupReason = "markup-reason",

    /// Makes ten load balancers for one Service without a look-up. The permit's budget ends it.
    ManyCreates = "many-creates",
    /// Deletes during a `get`. The permit refuses.
    DeletesInGet = "deletes-in-get",
    /// Says that nothing is there, without any request. No proof of anything.
    AbsentWithoutAsking = "absent-without-asking",
    /// Asks, and says that nothing is there whatever the answer is. The host has to see the failed exchange.
    AbsentAfterFailure = "absent-after-failure",
    /// Asks with `max-age`, and believes cached answers. The look-up before a finalizer's removal must reach the cloud.
    BelievesKept = "believes-kept",
    /// `ensure` keeps in `state` that nothing is there, and `get` believes it. `get` must not see it.
    BelievesState = "believes-state",
    /// Asks eight times side by side. Such calls, in any number, leave requests to look-ups of nodes.
    ManyLooks = "many-looks",
}
