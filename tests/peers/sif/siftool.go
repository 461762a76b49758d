// The `siftool` of the Sylabs library, which Debian ships as a package without a program.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/sylabs/sif/v2/pkg/siftool"
)

func main() {
	root := &cobra.Command{Use: "siftool", SilenceUsage: true}
	if err := siftool.AddCommands(root); err != nil {
		panic(err)
	}
	if root.Execute() != nil {
		os.Exit(1)
	}
}
