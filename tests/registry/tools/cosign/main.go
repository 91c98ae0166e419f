// cosign's own command, without its plugins for the key services of clouds: no test has a key there, and the client
// libraries of four clouds would have to be compiled.
package main

import (
	"fmt"
	"os"

	"github.com/sigstore/cosign/v3/cmd/cosign/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "cosign:", err)
		os.Exit(1)
	}
}
