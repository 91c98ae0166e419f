// The OCI registry that the tests of sources and signatures run against: upstream's own, with the parts that a
// test on loopback needs. crane and cosign are built from the same pinned modules.
package main

import (
	"io"
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if os.Getenv("EXIT_WITH_STDIN") != "" {
		go exitWithStdin()
	}
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}

// exitWithStdin ends the server when whoever started it is gone, however that ended: a test that was killed
// cannot stop its servers any more, but the kernel closes the pipe that it held.
func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
