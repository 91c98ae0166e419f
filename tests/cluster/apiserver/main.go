// Two servers in one program: the etcd and the kube-apiserver that the cluster suite runs against, built from
// the modules that upstream publishes. The name it is started by says which of the two it is.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	// Client metrics and the build version, for effect, as upstream's own program has them.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if os.Getenv("EXIT_WITH_STDIN") != "" {
		go exitWithStdin()
	}
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "started as %q: the name must be etcd or kube-apiserver\n", name)
		os.Exit(2)
	}
}

// exitWithStdin ends the server when whoever started it is gone, however that ended: a test that was killed
// cannot stop its servers any more, but the kernel closes the pipe that it held.
func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
