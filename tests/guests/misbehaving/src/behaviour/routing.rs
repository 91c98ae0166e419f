//! The ways to misbehave as a provider of routes.

behaviours! {
    /// A way to behave in the three functions about routes.
    Routing:

    /// Reads, makes what is missing, waits once, answers truly: proof that the others fail for their own reason.
    Honest = "honest",
    /// Repeats what it gets, without a request: a route for each CIDR of each node, and requests as hints. Values must
    /// cross the boundary whole.
    Echo = "echo",

    /// Panics. The message has to be in the error, with the function's name.
    Panic = "panic",
    /// Loops for ever. The call's deadline ends it, and names the function.
    Spin = "spin",
    /// Sleeps for an hour. The deadline holds there too.
    Sleep = "sleep",
    /// Takes memory until it gets no more. Ends in a trap that says so.
    MemoryBomb = "memory-bomb",
    /// An error whose text has control characters, terminal codes and 1 MiB of length. Cut and cleaned.
    GarbageError = "garbage-error",

    /// 50 000 routes. Over the cap: an error of the guest.
    ManyRoutes = "many-routes",
    /// 20 000 routes of the maximum length. More bytes than may cross, whatever the count: a trap, and the manager's
    /// memory does not grow.
    LongRoutes = "long-routes",
    /// An id of 513 bytes. Over the cap: an error of the guest.
    LongId = "long-id",
    /// A route without an id. An error of the guest: it could not be handed back.
    NoId = "no-id",
    /// An id that writes to terminals. An error of the guest.
    TerminalId = "terminal-id",
    /// A destination of 1 MiB. Over the cap: an error of the guest.
    LongDestination = "long-destination",
    /// Destinations in two lines. An error of the guest.
    TerminalDestination = "terminal-destination",
    /// Everything, nothing, the metadata address, the same twice. The shape is right; core judges the meaning.
    HostileDestinations = "hostile-destinations",
    /// Leads to a node outside the question. An error of the guest: it would count as one that has vanished.
    UnknownNode = "unknown-node",
    /// Leads to a machine with a name of 1 MiB. Over the cap: an error of the guest.
    LongTarget = "long-target",
    /// Leads to a machine whose name has terminal codes. Cleaned.
    TerminalTarget = "terminal-target",
    /// 1 000 entries of `extra`. Over the cap: an error of the guest.
    ManyExtras = "many-extras",
    /// An entry of `extra` of 1 MiB. Over the cap: an error of the guest.
    HugeExtra = "huge-extra",

    /// A hint of 1 MiB. Over the cap: an error of the guest, and nothing of it is kept.
    HugeHint = "huge-hint",
    /// Asks to be called again in 500 million years. Ten minutes are the maximum.
    Never = "never",
    /// Asks to be called again at once, for ever. A tenth of a second is the minimum.
    AtOnce = "at-once",
    /// 100 000 events. Over the cap.
    ManyEvents = "many-events",
    /// Events with markup and terminal codes in their messages. Cleaned.
    MarkupEvents = "markup-events",
    /// An event whose reason is markup. An error of the guest.
    MarkupReason = "markup-reason",

    /// Makes ten routes where one is asked for. The permit's budget ends it.
    ManyCreates = "many-creates",
    /// Deletes during a `list`. The permit refuses.
    DeletesInList = "deletes-in-list",
    /// Makes routes during a `list`, and does not report the refusal. It has made none, and its list proves nothing.
    CreatesInList = "creates-in-list",
    /// Says that there are no routes, without any request. No proof of anything.
    NoneWithoutAsking = "none-without-asking",
    /// Asks, and says that a route leads to nothing any more. It may go.
    Dead = "dead",
    /// The same without any request. No proof of anything: it stays.
    DeadWithoutAsking = "dead-without-asking",
    /// Asks, and says that there are no routes whatever the answer is. The host has to see the failed exchange.
    NoneAfterFailure = "none-after-failure",
    /// Asks with `max-age`, and believes cached answers. A list must reach the cloud.
    BelievesKept = "believes-kept",
    /// `create` keeps in `state` that there are no routes, and `list` believes it. `list` must not see it.
    BelievesState = "believes-state",
}
