// Lists the metrics that a Go cloud-controller-manager registers: those of upstream's framework with its node IPAM
// controller, and those of the vendor hcloud. `tests/metrics/upstream.txt` is its output.
package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/component-base/metrics/prometheus/slis"

	// What a manager's main function imports, for effect.
	_ "k8s.io/cloud-provider/app"
	_ "k8s.io/cloud-provider/controllers/node"
	_ "k8s.io/cloud-provider/controllers/route"
	_ "k8s.io/cloud-provider/controllers/service"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/kubernetes/pkg/controller/nodeipam/ipam/cidrset"
)

// The controllers register their metrics when they are made, which needs a cluster and a cloud.

//go:linkname registerNode k8s.io/cloud-provider/controllers/node.registerMetrics
func registerNode()

//go:linkname registerService k8s.io/cloud-provider/controllers/service.registerMetrics
func registerService()

//go:linkname registerRoute k8s.io/cloud-provider/controllers/route.registerMetrics
func registerRoute()

//go:linkname registerCidrset k8s.io/kubernetes/pkg/controller/nodeipam/ipam/cidrset.registerCidrsetMetrics
func registerCidrset()

var desc = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: .*, constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

const head = `# The metrics that Go's cloud-controller-managers register: name, type, stability, {labels}, [buckets].
# Made by: cd tests/metrics/upstream && go run . > ../upstream.txt
# The versions are those of its go.mod. go_* stands for all metrics of Go's runtime, which change with Go.
# Each section names its Go module; those of another path than /metrics begin with the path.
`

// The vendor's own metrics. Its packages are internal, so these are read from its sources: commit 6485324f, after v1.35.0,
// which has all but the first.
var vendors = []family{
	{"cloud_controller_manager_load_balancer_type_cache_requests_total", "counter", "-", "mode,result,subsystem", ""},
	{"cloud_controller_manager_operations_total", "counter", "-", "op", ""},
	{"cloud_controller_manager_server_cache_requests_total", "counter", "-", "mode,result,subsystem", ""},
}

// family is one line of the list.
type family struct {
	name, kind, stability, labels, buckets string
}

func main() {
	registerNode()
	registerService()
	registerRoute()
	registerCidrset()
	controllersmetrics.Register()
	fmt.Print(head)
	show("k8s.io/cloud-provider/app and the controllers", families(legacyregistry.Registerer().(*prometheus.Registry)))
	results := metrics.NewKubeRegistry()
	slis.Register(results)
	show("/metrics/slis k8s.io/component-base/metrics/prometheus/slis", families(results.Registerer().(*prometheus.Registry)))
	client := prometheus.NewRegistry()
	hcloud.NewClient(hcloud.WithInstrumentation(client))
	show("github.com/hetznercloud/hcloud-go/v2/hcloud", families(client))
	show("github.com/hetznercloud/hcloud-cloud-controller-manager", vendors)
}

func show(source string, all []family) {
	fmt.Printf("\n# %s\n", source)
	for _, one := range all {
		fmt.Printf("%s %s %s {%s} [%s]\n", one.name, one.kind, one.stability, one.labels, one.buckets)
	}
}

func families(registry *prometheus.Registry) []family {
	// What has no series yet is in no scrape, so the collectors themselves are asked.
	field := reflect.ValueOf(registry).Elem().FieldByName("collectorsByID")
	collectors := *(*map[uint64]prometheus.Collector)(unsafe.Pointer(field.UnsafeAddr()))
	scraped := map[string]string{}
	gathered, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, one := range gathered {
		scraped[one.GetName()] = strings.ToLower(one.GetType().String())
	}
	found := map[string]family{}
	if scraped["go_info"] != "" {
		found["go_*"] = family{"go_*", "-", "-", "", ""}
	}
	for _, collector := range collectors {
		kind, stability, buckets := look(collector)
		descs := make(chan *prometheus.Desc, 1000)
		collector.Describe(descs)
		close(descs)
		for one := range descs {
			parts := desc.FindStringSubmatch(one.String())
			if parts == nil {
				panic(one.String())
			}
			if strings.HasPrefix(parts[1], "go_") {
				continue
			}
			labels := strings.Split(parts[2], ",")
			slices.Sort(labels)
			kind := kind
			if kind == "" {
				kind = scraped[parts[1]]
			}
			if kind == "" {
				kind = "unknown"
			}
			found[parts[1]] = family{parts[1], kind, stability, strings.Join(labels, ","), buckets}
		}
	}
	var all []family
	for _, one := range found {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b family) int { return strings.Compare(a.name, b.name) })
	return all
}

// look says what a collector is: its type, its stability and its buckets.
func look(collector prometheus.Collector) (kind, stability, buckets string) {
	bounds := func(all []float64) string {
		var texts []string
		for _, bound := range all {
			texts = append(texts, fmt.Sprint(bound))
		}
		return strings.Join(texts, " ")
	}
	switch one := collector.(type) {
	case *metrics.Counter:
		return "counter", string(one.StabilityLevel), ""
	case *metrics.CounterVec:
		return "counter", string(one.StabilityLevel), ""
	case *metrics.Gauge:
		return "gauge", string(one.StabilityLevel), ""
	case *metrics.GaugeVec:
		return "gauge", string(one.StabilityLevel), ""
	case *metrics.Histogram:
		return "histogram", string(one.HistogramOpts.StabilityLevel), bounds(one.HistogramOpts.Buckets)
	case *metrics.HistogramVec:
		return "histogram", string(one.HistogramOpts.StabilityLevel), bounds(one.HistogramOpts.Buckets)
	case *metrics.TimingHistogram:
		return "histogram", string(one.TimingHistogramOpts.StabilityLevel), bounds(one.TimingHistogramOpts.Buckets)
	case *metrics.Summary:
		return "summary", string(one.StabilityLevel), ""
	case *metrics.SummaryVec:
		return "summary", string(one.StabilityLevel), ""
	case *prometheus.CounterVec:
		return "counter", "-", ""
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram", "-", bounds(prometheus.DefBuckets)
	case prometheus.Gauge:
		return "gauge", "-", ""
	}
	return "", "-", ""
}
