//go:build !unix

package cli

import "os"

// terminalSize is not known here.
func terminalSize(*os.File) (width, height int) { return 0, 0 }
