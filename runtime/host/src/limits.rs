//! Every limit of the sandbox, each with its reason. The pre-scan, the compile child, the store of a call and the
//! host functions take their numbers only from here; the egress has its own.
//!
//! "Real guests" below are components built for this contract from Rust, C, JavaScript (QuickJS and StarlingMonkey)
//! and Python (CPython).

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// --- A module, before anything of it is compiled -------------------------------------------------

/// Size of a module. The largest real guest (CPython) has 18.6 MB.
pub const MODULE_BYTES: usize = 32 * MIB;
/// Core functions of a module, in total. Real guests have up to 13,500.
pub const FUNCTIONS: u64 = 50_000;
/// Local variables of one function. Real guests have up to 271; compile time grows with locals times blocks.
pub const LOCALS: u64 = 2_000;
/// Size of a function body. CPython's interpreter loop has 427 KB.
pub const BODY_BYTES: u64 = MIB as u64;
/// Locals times bytes of one function; the register allocator's time grows roughly with it. Real guests reach 9.0
/// million; a hostile module of 278 KB that took 146 s and 7.6 GB to compile has thousands of millions.
pub const LOCALS_TIMES_BYTES: u64 = 64 << 20;
/// Nesting depth of components. Real guests need 3.
pub const NESTING: usize = 16;
/// Core modules and components in a file, each. CPython guests have 38 modules.
pub const MODULES: usize = 128;
/// Globals that core modules define, in total. CPython guests have 874. Each takes 16 bytes of every instance, which no
/// memory limit of a call counts: [`INSTANCES`] of them take 8 MiB.
pub const GLOBALS: u64 = 4_096;
/// Imports of core modules, in total. CPython guests have 2,267. Each takes 24 bytes of every instance, as above:
/// [`INSTANCES`] of them take 24 MiB.
pub const CORE_IMPORTS: u64 = 8_192;
/// What the engine keeps of core modules for their instances, in total, and no memory limit of a call counts: for each
/// instance 16 bytes of a global, 24 of an import, 32 of a function with a reference (imported, exported, or in a segment or
/// a global) and of a passive element, 12 of a data segment. CPython guests take at most 33 MB; guests of Go, with 30,000
/// segments, less.
pub const INSTANCES_BYTES: u64 = 128 << 20;
/// Types of core modules and components, in total. CPython guests have 1,311. The engine keeps each for as long as the
/// component is loaded.
pub const TYPES: u64 = 16_384;
/// Entries of instance sections, adapters included. CPython guests have some 150.
pub const INSTANCE_ENTRIES: u64 = 1_024;
/// Imports or exports of the component itself. CPython guests import 25 interfaces.
pub const EXTERNS: usize = 1_024;

// --- Compilation ---------------------------------------------------------------------------------

/// Address space of the compile child. CPython guests need 440 MB; a hostile module reached this after 4 s. An
/// rlimit rather than the pod's limit, because an out-of-memory kill takes the whole container with it.
pub const COMPILE_MEMORY_BYTES: u64 = 1536 * MIB as u64;
/// CPU time of the compile child, in seconds over all its threads. StarlingMonkey guests need 14.
pub const COMPILE_CPU_SECONDS: u64 = 60;
/// How long the host waits for the compile child: its CPU time, and half as much again for a busy machine.
pub const COMPILE_WALL: Duration = Duration::from_secs(90);
/// Threads of the compile child. Each reserves address space, which is limited.
pub const COMPILE_THREADS: usize = 4;
/// Size of compiled code. StarlingMonkey guests have 37 MB.
pub const COMPILED_BYTES: usize = 256 * MIB;
/// Bytes kept of the compile child's error output.
pub const COMPILE_MESSAGE_BYTES: usize = 64 * KIB;
/// Compiled code on disk, over all modules: a dozen of the largest, thousands of the smallest.
pub const CACHE_BYTES: u64 = 512 * MIB as u64;
/// Components kept compiled in memory for the next load: the active and the previous module of two providers.
pub const RECENT_COMPONENTS: usize = 4;

// --- One call ------------------------------------------------------------------------------------

/// Linear memory of one call, all memories together, unless the manifest asks for more or the targets of a load
/// balancer need it: see `call::admission`. Rust guests use 1 to 2 MiB and their answers; CPython guests begin with 20.
pub const MEMORY_BYTES: usize = 64 * MIB;
/// The most that a manifest may ask for, and a call may have: [`CALLS_AT_ONCE`] calls of this size still fit a node of 4 GiB.
pub const MEMORY_CEILING_BYTES: usize = 256 * MIB;
/// Memory that the host holds for one call beside the guest's, in total: responses (`egress::limits`), cached
/// responses, header fields, paths, log.
pub const HELD_BYTES: usize = 32 * MIB;
/// Elements of all tables together, and of the segments of a module. CPython guests need 7,800.
pub const TABLE_ELEMENTS: usize = 100_000;
/// Core instances, tables and memories in a store, each. CPython guests make 38 instances.
pub const INSTANCES: usize = 128;
/// How long a call may wait until it begins, or as long as it may last if that is longer: for its turn, for memory and
/// for a pause after bad calls. So each place of a slow provider becomes free once meanwhile.
pub const WAIT: Duration = Duration::from_secs(60);
/// Duration of a call from its start, unless the manifest or the permit says otherwise.
pub const CALL: Duration = Duration::from_secs(60);
/// Longest call that a manifest may ask for. Guests return `pending` rather than wait for minutes.
pub const CALL_CEILING: Duration = Duration::from_secs(300);
/// The longest call with its wait, which is at most as long. For callers that leave the time to the module's own limit.
pub const CALL_WITH_WAIT: Duration = CALL_CEILING.saturating_mul(2);
/// Duration of `init` when a module is loaded. It makes no request, so it only computes.
pub const INIT: Duration = Duration::from_secs(10);
/// CPU time of one call. A guest that reads 5,000 machines needs less than one second.
pub const CALL_CPU: Duration = Duration::from_secs(10);
/// CPU time after which a call counts as long: see `sandbox::cpu_scheduler`. Most calls need a few milliseconds.
pub const CALL_CPU_AT_ONCE: Duration = Duration::from_millis(20);
/// Concurrent calls of one provider, or as many as fit into its share of the memory. Equal to its concurrent requests,
/// since a call without a request ends at once.
pub const CALLS_AT_ONCE: usize = 8;
/// Concurrent load-balancer calls among them: tenants create any number of Services, and the cloud may take its time
/// with each.
pub const BALANCING_AT_ONCE: usize = 5;
/// Concurrent route calls among them: one that lists and one that changes something. Clouds change the routes of a
/// network one after the other anyway. Together with load balancers this leaves one call to nodes; where fewer calls fit,
/// both get less: see `call::admission`.
pub const ROUTING_AT_ONCE: usize = 2;
/// Interval at which a running guest yields to other tasks. Also its delay in noticing a deadline. Most calls of
/// other providers finish within one tick, so they wait for a tick and not for many times their own length.
pub const TICK: Duration = Duration::from_millis(2);
/// Maximum number of consecutive bad calls that count: see `call::backoff`. A provider that only traps computes for
/// a sixteenth of the time.
pub const BAD_CALLS_COUNTED: u32 = 16;
/// The longest pause before a provider's next call, however long the last ones computed: a recovered provider is
/// asked soon.
pub const PAUSE: Duration = Duration::from_secs(2);
/// Stack of wasm code: the default of wasmtime, enough for CPython's recursion limit in practice.
pub const WASM_STACK_BYTES: usize = 512 * KIB;
/// Native stack of a call, host functions included; must exceed [`WASM_STACK_BYTES`].
pub const CALL_STACK_BYTES: usize = 2 * MIB;
/// Bytes that the host copies out of a guest in one crossing: an answer about 5,000 machines has some 5 MB.
pub const CROSSING_BYTES: usize = 32 * MIB;
/// Handles of a component, and resources that the host keeps for it. Guests in Rust have a dozen.
pub const HANDLES: usize = 1_024;

// --- What a guest may write and request -----------------------------------------------------------

/// Log lines kept of one call (contract, interface `log`).
pub const LOG_LINES: usize = 100;
/// One log line (contract, interface `log`).
pub const LOG_LINE_BYTES: usize = 4 * KIB;
/// Log lines shown with an error.
pub const LOG_TAIL: usize = 20;
/// Text of an error; Events hold 1 KiB of it, logs all.
pub const ERROR_BYTES: usize = 4 * KIB;
/// Frames of a guest's stack shown with a trap.
pub const FRAMES: usize = 20;
/// Random bytes of one request (contract, interface `random`).
pub const RANDOM_BYTES: u32 = 4 * KIB as u32;
/// Keys and values of a state store together (contract, interface `state`).
pub const STATE_BYTES: usize = 256 * KIB;
/// Entries of a state store; without it, many tiny ones would cost the host more than a few large ones.
pub const STATE_ENTRIES: usize = 1_024;
/// The longest time to live of a state entry (contract, interface `state`).
pub const STATE_TTL: Duration = Duration::from_secs(3_600);
/// Body of a request through `wasi:http`; the same as through the contract's own `http`.
pub const REQUEST_BODY_BYTES: usize = MIB;
/// Chunk of such a body that the host buffers before it is read; two chunks for each request that a guest has begun.
/// As many bodies are read at a time as requests are sent.
pub const REQUEST_PIECE_BYTES: usize = 16 * KIB;
/// Length of a custom method, and of a host with its port, in a request through `wasi:http`. DNS names have 253
/// bytes.
pub const HTTP_NAME_BYTES: usize = 512;
/// Header fields of one request through `wasi:http`; the host keeps them for each handle of a guest.
pub const HTTP_FIELDS_BYTES: usize = 8 * KIB;
/// Paths with queries of all requests that one call makes through `wasi:http`: more than half a kilobyte for each of
/// its maximum number of requests.
pub const HTTP_PATHS_BYTES: usize = 2 * MIB;
/// Entries of the configuration (contract, `lifecycle.config`).
pub const CONFIG_ENTRIES: usize = 256;
/// Keys and values of the configuration together (contract, `lifecycle.config`).
pub const CONFIG_BYTES: usize = 256 * KIB;
/// Nodes of one look-up, and targets of a load balancer.
pub const NODES: usize = ccm_core::cloud::instance::MOST_NODES;
/// Nodes of one listing of routes, which cannot be split (contract, `routes.list`): the largest clusters that clouds
/// offer. Without labels and annotations they take some 10 MB in a guest.
pub const ROUTED_NODES: usize = 15_000;
/// Routes of one listing (contract, `routes.list`): one of each family for each of [`ROUTED_NODES`], and a third as
/// many with other next hops. Typical routes take 8 MB of [`CROSSING_BYTES`], and as much in a guest.
pub const ROUTES: usize = 40_000;
