// Command typecheck type-checks packages for another system, GOOS and GOARCH, without compiling their imports: that
// takes seconds, a build a minute.
//
//	GOOS=darwin GOARCH=arm64 typecheck ./...
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	found, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax}, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
	if packages.PrintErrors(found) > 0 || len(found) == 0 {
		os.Exit(1)
	}
	fmt.Printf("%d packages\n", len(found))
}
