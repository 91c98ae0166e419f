//! The 86 flags of the Go cloud-controller-manager, those that AWS's manager adds, and this program's own, as data.
//! Names, sections and all defaults but four are upstream's (`k8s.io/cloud-provider/options`, component-base), the help
//! texts are not. `flags/arguments.rs` has the order of the sections.

/// Type of a flag's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagKind {
    /// `--flag`, `--flag=true`, `--flag=false`.
    Bool,
    /// Text, not parsed further.
    Text,
    /// The path of a file.
    File,
    /// The path of a folder.
    Folder,
    /// Comma-separated ranges in one text, as upstream parses it.
    Cidrs,
    /// A non-negative whole number.
    Number,
    /// A verbosity: a whole number in decimal digits alone.
    Level,
    /// A number with an optional fraction.
    Float,
    /// A Go duration, such as `5m0s`.
    Duration,
    /// Comma-separated; may be repeated.
    List,
    /// One value each time the flag is given; commas are part of it.
    Repeated,
}

/// Effect of the flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Works as upstream's flag does.
    Works,
    /// Accepted without effect, so that a manifest written for the Go binary starts. Any value but the default asks for
    /// a feature that is missing here, and prints a warning with this reason.
    Accepted(&'static str),
    /// Accepted without effect, too. These values ask for what happens anyway, for this reason, and do not warn; every
    /// other value but the default warns.
    Fulfilled(FulfilledValues, &'static str),
}

/// Values of a flag that ask for what happens anyway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FulfilledValues {
    /// Every value.
    All,
    /// Only these, or other spellings of them.
    These(&'static [&'static str]),
}

/// A flag of `ccm run`.
pub(crate) struct Flag {
    /// Name without dashes, such as `cluster-cidr`.
    pub name: &'static str,
    /// Upstream's heading in `--help`.
    pub section: &'static str,
    /// Type of the value.
    pub kind: FlagKind,
    /// The value in force without the flag, as upstream prints it; empty for none.
    pub default: &'static str,
    /// Whether it has an effect.
    pub state: State,
    /// Help text, one sentence.
    pub help: &'static str,
}

const fn flag(
    section: &'static str,
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    state: State,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        section,
        kind,
        default,
        state,
        help,
    }
}

use FlagKind::{Bool, Cidrs, Duration, File, Float, Folder, Level, List, Number, Repeated, Text};
use FulfilledValues::{All, These};
use State::{Accepted, Fulfilled, Works};

const ALWAYS_SHARED: State = Accepted("the address can always be taken over, as in Go");
const NO_WEBHOOKS: State = Accepted("webhooks are not served");
// What AWS's manager has beside the controllers of all managers (cloud-provider-aws, `pkg/controllers/options`).
const NO_TAGGING: State = Accepted(super::NO_TAGGING);
const NO_POD_CIDRS_OF_AWS: State =
    Accepted("pod CIDRs are chosen out of --cluster-cidr, and not by AWS");
const NO_PPROF: State = Accepted("there are no locks of Go's runtime to profile");
const ONE_STREAM: State = Accepted("the whole log goes to standard error");
const NO_BUFFER: State = Accepted("each line is written at once");

/// Every flag of `ccm run`, in the order of `--help`.
// One flag per line, so that columns can be compared.
#[rustfmt::skip]
pub(crate) const FLAGS: &[Flag] = &[
    flag("wasm", "config", File, "", Works, "File with the providers: sources, trust, grants, settings (wasm-ccm.dev/v1alpha1). It is read again when it changes"),
    flag("wasm", "provider-module", Text, "", Works, "Module of --cloud-provider, such as file:///etc/ccm/provider.wasm; replaces the `source` of --config and the embedded one. Modules from ConfigMaps and registries need --config, which configures their trust"),
    flag("wasm", "enable-provider-objects", Bool, "false", Works, "Whether objects `Provider` with a `spec` configure providers, beside --config, which takes precedence for the providers that it names. Write access to these objects is control over the clouds' accounts"),
    flag("wasm", "provider-secret-namespace", Text, "", Works, "With --enable-provider-objects: the only namespace whose Secrets those objects may name; empty: the manager's own"),
    flag("wasm", "provider-isolation", Text, "in-process", Works, "Where providers run. in-process: in this process, in the sandbox of the WebAssembly engine. child-process: in that sandbox, and each provider in a process of its own, without files, network, credentials or the cluster's token; then each call takes a fraction of a millisecond longer, and each loaded module needs its compiled code twice and about 10 MiB more"),
    flag("wasm", "cloud-proxy", Text, "", Works, "Proxy to the cloud of a provider that runs with built-in grants: environment (HTTPS_PROXY, NO_PROXY) or direct. Defaults to direct, and to environment under the name of a Go cloud-controller-manager. `proxy` in --config takes precedence"),
    flag("wasm", "compiled-cache-dir", Folder, "", Works, "Folder for compiled modules and for the last good modules of each provider; no other process may write to it. Empty: modules are compiled at every start, and a start waits for a source that does not answer"),
    flag("wasm", "reconcile-node-labels", Bool, "false", Works, "Whether the labels of known nodes for type, zone and region follow the cloud, such as after a resize. Each change needs two equal answers (--node-change-confirm-after), and --brake=relabel=… limits how many are made"),
    flag("wasm", "node-change-confirm-after", Duration, "10s", Works, "Shortest time between the two equal answers of the cloud that a change of a Ready node's InternalIP, or of a node's labels, needs"),
    flag("wasm", "node-internal-ip-cidrs", Cidrs, "", Works, "Ranges, comma-separated, in which every InternalIP of a node has to be, such as 10.0.0.0/16; empty: any address"),
    flag("wasm", "node-deletion-not-ready", Duration, "30s", Works, "How long a node has to be NotReady before it may be deleted because its machine is gone"),
    flag("wasm", "node-deletion-min-age", Duration, "5m0s", Works, "How old a node has to be before it may be deleted, because clouds list new machines late"),
    flag("wasm", "node-deletion-confirm-after", Duration, "10s", Works, "Shortest time between the two answers of the cloud that a node's machine is gone, before the node is deleted"),
    flag("wasm", "node-deletion-mass-hold", Duration, "15m0s", Works, "Where more than a third of the provider's nodes are reported gone: how long they have to be reported so before they are deleted"),
    flag("wasm", "node-deletion-wanted-selector", Text, "", Works, "Label selector of nodes that are always meant to be deleted with their machine, such as pool=spot: neither --node-deletion-mass-hold nor the brake node-deletion holds their deletion. Empty: none"),
    flag("wasm", "delete-last-node", Bool, "false", Works, "Whether nodes may be deleted although the cloud finds no other node of the provider, which would show that its answers are about the right account"),
    flag("wasm", "service-cluster-ip-range", Cidrs, "", Works, "Ranges of the Services' cluster IPs, comma-separated, such as 10.96.0.0/12; no node and no load balancer gets an address in them, and no node a pod CIDR"),
    flag("wasm", "load-balancer-drift-check", Duration, "1h0m0s", Works, "How often each load balancer is compared with its Service although the Service has not changed; each time up to a half earlier or later. 0: never"),
    flag("wasm", "load-balancer-removal-confirm-after", Duration, "30s", Works, "How long a removal of more than half of a load balancer's targets, or of all addresses of a Service, has to stay necessary before it is made"),
    flag("wasm", "shutdown-drain", Duration, "10s", Works, "How long a shutdown waits for requests that are under way before it releases the Lease. If some are still under way then, the Lease is left to expire. Has to be at least 3s shorter than the pod's terminationGracePeriodSeconds"),
    flag("wasm", "mode", Text, "enforce", Works, "enforce acts; plan reads, changes nothing, and prints for each object the first write and the first request to the cloud that it would make; observe only reads and reports. Neither plan nor observe takes part in leader election"),
    flag("wasm", "plan-for", Duration, "0s", Works, "With --mode=plan: after this long the whole plan goes to standard output (as JSON with --logging-format=json) and the process ends, with exit code 0 if the plan is empty, 2 if it is not, and 3 if no change is known but something could not be judged. 2m is enough for what needs a second answer, 20m for a mass of deletions. 0: it runs until it is stopped"),
    flag("wasm", "brake", List, "", Works, "How many changes of one dangerous kind may be made in a time window, as NAME=LEAST:PERCENT:MOST[:WINDOW], such as node-deletion=1:5:10:30m: PERCENT of all objects of the kind, but at least LEAST and at most MOST, in WINDOW (10m without it); may be given more than once. The budget of a deletion brake, and that of cloud-mutations, doubles every four minutes for held changes, four times at most, and MOST then grows fourfold each time. Defaults: internal-ip, relabel, node-deletion, shutdown-taint 3:10:20; load-balancer-deletion 20:10:100; status-clear 1:10:20; route-deletion 2:10:50; cloud-mutations 600:100:6000"),
    flag("wasm", "audit-log-path", File, "", Works, "File that gets one JSON line for each change at the cloud and each deletion of a node; - is standard output; empty: the ordinary log. While it cannot be written, no such change is made"),
    flag("generic", "cloud-provider", Text, "", Works, "The cloud provider: a name from --config or, without --config, an embedded one. Without it: all providers of --config, or digitalocean under the name digitalocean-cloud-controller-manager"),
    flag("generic", "cloud-config", File, "", Works, "The same as --config; with --cloud-provider=aws also the file of its Go provider, whose section [Global] has the provider's keys"),
    flag("generic", "cluster-name", Text, "kubernetes", Works, "The name under which this cluster owns cloud objects"),
    flag("generic", "cluster-cidr", Cidrs, "", Works, "Ranges of the pods, comma-separated: one, or one of IPv4 and one of IPv6, such as 10.244.0.0/16,fd00:244::/56. Nodes get their pod CIDRs out of them, routes are made and removed only within them, and the provider gets them; empty: no routes are made"),
    flag("generic", "controllers", List, "*", Works, "Controllers to run: '*' all, 'name' this one, '-name' not this one; the first entry that names a controller counts. The names, with their aliases: cloud-node-controller (cloud-node), cloud-node-lifecycle-controller (cloud-node-lifecycle), service-lb-controller (service), node-route-controller (route), node-ipam-controller (nodeipam)"),
    flag("generic", "kube-api-qps", Float, "-1", Works, "Requests per second to the API server, of each Kubernetes client of this program; watches do not count. Below 0: no limit, because fairness between clients is the API server's (the Go manager: 20)"),
    flag("generic", "kube-api-burst", Number, "30", Works, "Requests to the API server that each client may begin at once after a pause. Given without --kube-api-qps, it comes with the Go manager's rate of 20 per second, which /configz shows; where neither is given there is no limit"),
    flag("generic", "kube-api-content-type", Text, "application/vnd.kubernetes.protobuf", Fulfilled(These(&["application/json"]), "nodes are read as protobuf, and everything else is JSON"), "Content type of requests"),
    flag("generic", "min-resync-period", Duration, "12h0m0s", Fulfilled(These(&["0s"]), "the watch cache is never resynchronised on a timer"), "Shortest time between two resyncs"),
    flag("generic", "controller-start-interval", Duration, "0s", Accepted("all controllers start at once"), "Pause between two controller starts"),
    flag("generic", "allow-untagged-cloud", Bool, "false", Fulfilled(All, "a cluster without an ID may run, except with the provider aws, which needs KubernetesClusterID, or an instance whose tags name the cluster"), "Whether a cluster without an ID in the cloud may run"),
    flag("generic", "use-service-account-credentials", Bool, "false", Works, "In enforce mode, each controller acts as a ServiceAccount of its own in kube-system: node-controller, service-controller or route-controller; created if missing. Watches and elections keep the identity of the kubeconfig"),
    flag("generic", "node-sync-period", Duration, "0s", Fulfilled(All, "a no-op upstream, too"), "Time between two looks at all nodes"),
    flag("generic", "node-monitor-period", Duration, "5s", Works, "Time between two checks of the NotReady nodes; each asks the cloud at most once about those that have to be looked up"),
    flag("generic", "route-reconciliation-period", Duration, "5m0s", Works, "How often all routes are listed although no node has changed; changes of nodes are seen at once (upstream: every 10s, and only then)"),
    flag("generic", "configure-cloud-routes", Bool, "true", Works, "Whether routes to the nodes' pod CIDRs are made, with --cluster-cidr and by a provider that can make them"),
    flag("generic", "allocate-node-cidrs", Bool, "false", Works, "Whether nodes are given pod CIDRs out of --cluster-cidr"),
    flag("generic", "cidr-allocator-type", Text, "RangeAllocator", Works, "How pod CIDRs are chosen; RangeAllocator is the only way"),
    flag("generic", "external-cloud-volume-plugin", Text, "", Fulfilled(All, "unused upstream, too"), "Volume plugin of the former in-tree providers"),
    flag("generic", "feature-gates", List, "", Works, "Feature gates of upstream's manager, as A=true,B=false. None switches anything here but LoggingBetaOptions, without which there is no JSON log; a gate that asks for something this program does not do warns"),
    flag("generic", "leader-elect", Bool, "true", Works, "Whether leader election is used; false only if no second manager can run"),
    flag("generic", "leader-elect-lease-duration", Duration, "15s", Works, "How long after its last renewal another's Lease is left alone; has to be longer than --leader-elect-renew-deadline"),
    flag("generic", "leader-elect-renew-deadline", Duration, "10s", Works, "How long after the last renewal of its Lease a leader may begin requests; then it ends"),
    flag("generic", "leader-elect-retry-period", Duration, "2s", Works, "Time between two renewals of the Lease, and between two attempts to get it"),
    flag("generic", "leader-elect-resource-lock", Text, "leases", Works, "Kind of the lock; leases is the only one"),
    flag("generic", "leader-elect-resource-name", Text, "cloud-controller-manager", Works, "Name of the Lease"),
    flag("generic", "leader-elect-resource-namespace", Text, "kube-system", Works, "Namespace of the Lease"),
    flag("leader-migration", "enable-leader-migration", Bool, "false", Works, "Whether controllers move between this manager and kube-controller-manager under a Lease of their own"),
    flag("leader-migration", "leader-migration-config", File, "", Works, "File with the migration's configuration (controllermanager.config.k8s.io); empty: the built-in one"),
    flag("cloud-node-controller", "concurrent-node-syncs", Number, "16", Works, "How many nodes are initialised at the same time (the Go manager: 1)"),
    flag("cloud-node-controller", "concurrent-node-status-updates", Number, "0", Works, "How many nodes are refreshed at the same time; 0: as many as --concurrent-node-syncs"),
    flag("misc", "node-status-update-frequency", Duration, "5m0s", Works, "Time between two refreshes of all nodes' addresses"),
    flag("service-lb-controller", "concurrent-service-syncs", Number, "16", Works, "How many Services are reconciled at the same time; those that wait for the cloud do not count (the Go manager: 1)"),
    flag("node-ipam-controller", "node-cidr-mask-size", Number, "0", Works, "Prefix length of a node's pod CIDR, in a cluster with one family; 0: 24 for IPv4 and 64 for IPv6"),
    flag("node-ipam-controller", "node-cidr-mask-size-ipv4", Number, "0", Works, "Prefix length of a node's pod CIDR of IPv4, also in a cluster with both families; 0: 24"),
    flag("node-ipam-controller", "node-cidr-mask-size-ipv6", Number, "0", Works, "Prefix length of a node's pod CIDR of IPv6, also in a cluster with both families; 0: 64"),
    flag("misc", "kubeconfig", File, "", Works, "Kubeconfig file; empty: the pod's own service account"),
    flag("misc", "master", Text, "", Works, "URL of the API server; replaces the kubeconfig's"),
    flag("debugging", "profiling", Bool, "true", Works, "Whether the secure port serves /debug/flags/v, where a PUT sets the verbosity of the log; Go's profiles, the other half upstream, do not exist here"),
    flag("debugging", "contention-profiling", Bool, "false", NO_PPROF, "Whether the time that goroutines wait for locks is recorded, for /debug/pprof/block"),
    flag("secure serving", "bind-address", Text, "0.0.0.0", Works, "Address on which the secure port listens; 0.0.0.0 and :: are all addresses, of IPv4 and IPv6"),
    flag("secure serving", "secure-port", Number, "10258", Works, "Port that serves health, metrics and status over HTTPS, with authentication and authorisation; 0: none"),
    flag("secure serving", "disable-http2-serving", Bool, "false", Works, "Serve HTTP/1.1 only"),
    flag("secure serving", "cert-dir", Folder, "", Works, "Folder with the pair cloud-controller-manager.crt and .key, which is made and signed by itself if it is missing. Ignored with --tls-cert-file; empty: such a pair is kept in memory"),
    flag("secure serving", "tls-cert-file", File, "", Works, "PEM file with the serving certificate and its chain; read again when it changes"),
    flag("secure serving", "tls-private-key-file", File, "", Works, "PEM file with the key of --tls-cert-file"),
    flag("secure serving", "tls-cipher-suites", List, "", Works, "Cipher suites of TLS 1.2 by their IANA names; those without forward secrecy and with CBC are never offered. Empty: all others"),
    flag("secure serving", "tls-curve-preferences", List, "", Works, "Key exchange groups by their IANA numbers: 29 is X25519, 23 P-256, 24 P-384. Empty: all three"),
    flag("secure serving", "tls-min-version", Text, "", Works, "Lowest TLS version: VersionTLS12 or VersionTLS13; older ones are never spoken. Empty: VersionTLS12"),
    flag("secure serving", "tls-sni-cert-key", Repeated, "", Works, "Another certificate and its key, as CERT,KEY or CERT,KEY:NAME,NAME; may be given more than once. Without names: those of the certificate"),
    flag("secure serving", "http2-max-streams-per-connection", Number, "0", Works, "Streams of one HTTP/2 connection; 0: 250"),
    flag("secure serving", "permit-port-sharing", Bool, "false", Works, "Whether several processes may listen on the port (SO_REUSEPORT)"),
    flag("secure serving", "permit-address-sharing", Bool, "false", ALWAYS_SHARED, "Whether a specific address may be used beside 0.0.0.0 (SO_REUSEADDR)"),
    flag("authentication", "authentication-kubeconfig", File, "", Works, "Kubeconfig of the API server that reviews tokens; empty: the pod's own service account, or else --kubeconfig"),
    flag("authentication", "authentication-token-webhook-cache-ttl", Duration, "10s", Works, "How long the API server's answer about a token is cached"),
    flag("authentication", "client-ca-file", File, "", Works, "CA of client certificates; empty: the cluster's, from ConfigMap kube-system/extension-apiserver-authentication"),
    flag("authentication", "requestheader-username-headers", List, "x-remote-user", Works, "Headers in which a front proxy gives the user's name, with --requestheader-client-ca-file; without that file the names are the cluster's"),
    flag("authentication", "requestheader-uid-headers", List, "", Works, "The same for the user's UID"),
    flag("authentication", "requestheader-group-headers", List, "x-remote-group", Works, "The same for groups"),
    flag("authentication", "requestheader-extra-headers-prefix", List, "x-remote-extra-", Works, "The same for further attributes: the beginnings of the headers' names"),
    flag("authentication", "requestheader-client-ca-file", File, "", Works, "CA of the certificate of a front proxy, which may name users in headers; empty: the cluster's, and its names of headers instead of those of these flags"),
    flag("authentication", "requestheader-allowed-names", List, "", Works, "Common names that the front proxy's certificate may have, with --requestheader-client-ca-file; empty: any"),
    flag("authentication", "authentication-skip-lookup", Bool, "false", Works, "Whether the cluster's own settings (ConfigMap kube-system/extension-apiserver-authentication) are not read: only the flags count. True under the name digitalocean-cloud-controller-manager, as in that manager"),
    flag("authentication", "authentication-tolerate-lookup-failure", Bool, "false", Works, "Whether the process starts although the cluster's own settings cannot be read"),
    flag("authorization", "authorization-kubeconfig", File, "", Works, "Kubeconfig of the API server that reviews access; empty: the pod's own service account, or else --kubeconfig"),
    flag("authorization", "authorization-webhook-cache-authorized-ttl", Duration, "10s", Works, "How long the API server's answer is cached that a user may read a path"),
    flag("authorization", "authorization-webhook-cache-unauthorized-ttl", Duration, "10s", Works, "How long the API server's answer is cached that a user may not read a path"),
    flag("authorization", "authorization-always-allow-paths", List, "/healthz,/readyz,/livez", Works, "Paths that all clients may read; a * at the end stands for anything"),
    flag("webhook", "webhooks", List, "", NO_WEBHOOKS, "Webhooks to serve"),
    flag("webhook serving", "webhook-bind-address", Text, "0.0.0.0", NO_WEBHOOKS, "Address to serve on"),
    flag("webhook serving", "webhook-secure-port", Number, "10260", Fulfilled(These(&["0"]), "webhooks are not served"), "Port to serve on; 0: none"),
    flag("webhook serving", "webhook-disable-http2-serving", Bool, "false", NO_WEBHOOKS, "HTTP/1.1 only"),
    flag("webhook serving", "webhook-cert-dir", Folder, "", NO_WEBHOOKS, "Folder of the serving certificate"),
    flag("webhook serving", "webhook-tls-cert-file", File, "", NO_WEBHOOKS, "Serving certificate"),
    flag("webhook serving", "webhook-tls-private-key-file", File, "", NO_WEBHOOKS, "Key of the serving certificate"),
    flag("webhook serving", "webhook-tls-cipher-suites", List, "", NO_WEBHOOKS, "Allowed cipher suites"),
    flag("webhook serving", "webhook-tls-curve-preferences", List, "", NO_WEBHOOKS, "Allowed curves"),
    flag("webhook serving", "webhook-tls-min-version", Text, "", NO_WEBHOOKS, "Lowest TLS version"),
    flag("webhook serving", "webhook-tls-sni-cert-key", Repeated, "", NO_WEBHOOKS, "More certificates"),
    flag("global", "logging-format", Text, "text", Works, "text: klog's lines; json: component-base's objects, one per line. Not given, and `ccm run` in a terminal: a human-readable format"),
    flag("global", "v", Level, "0", Works, "Verbosity: 0 what happened, 2 each decision, 4 each cloud request, 6 everything"),
    flag("global", "vmodule", List, "", Works, "Verbosity of single source files, as PATTERN=N,…; the pattern is of the file's name without .rs, such as node*=4"),
    flag("global", "log-flush-frequency", Duration, "5s", Fulfilled(All, "each line is written at once"), "Time between two flushes"),
    flag("global", "log-text-split-stream", Bool, "false", ONE_STREAM, "Errors to another stream"),
    flag("global", "log-text-info-buffer-size", Text, "0", NO_BUFFER, "Size of the buffer"),
    flag("global", "log-json-split-stream", Bool, "false", ONE_STREAM, "Errors to another stream"),
    flag("global", "log-json-info-buffer-size", Text, "0", NO_BUFFER, "Size of the buffer"),
    flag("AWS", "tags", List, "", NO_TAGGING, "Tags of instances, comma-separated, as KEY=VALUE"),
    flag("AWS", "resources", Repeated, "", NO_TAGGING, "Kinds of what is tagged; may be given more than once"),
    flag("AWS", "tagging-controller-rate-limit", Float, "0", NO_TAGGING, "Nodes per second whose instances are tagged"),
    flag("AWS", "tagging-controller-burst-limit", Number, "0", NO_TAGGING, "Nodes whose instances may be tagged at once"),
    flag("AWS", "dualstack", Bool, "false", NO_POD_CIDRS_OF_AWS, "Whether nodes get pod CIDRs of both families"),
    flag("AWS", "nodeipam-controller-rate-limit", Float, "0", NO_POD_CIDRS_OF_AWS, "Nodes per second that get a pod CIDR"),
    flag("AWS", "nodeipam-controller-burst-limit", Number, "0", NO_POD_CIDRS_OF_AWS, "Nodes that may get a pod CIDR at once"),
];
