package cli

import (
	"embed"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

// Common is what every program has. A program embeds it behind its own commands.
type Common struct {
	Help        helpCmd          `cmd:"" group:"Other:" help:"Show the help of a command, as --help behind it does."`
	Completion  completionCmd    `cmd:"" group:"Other:" help:"Print a script with which a shell completes commands, flags and files."`
	Complete    completeCmd      `cmd:"" group:"Other:" name:"__complete" hidden:"" passthrough:""`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// helpCmd is `PROGRAM help`. It has no Run: [Program.Run] reads it as --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as send."`
}

// completionCmd is `PROGRAM completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts call the program, so that they need not be printed again for a newer one.
//
//go:embed completion
var scripts embed.FS

// Run prints the script, which says how it is loaded.
func (c *completionCmd) Run(k *kong.Context) error {
	script, err := scripts.ReadFile("completion/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(k.Stdout, strings.ReplaceAll(string(script), "PROGRAM", k.Model.Name))
	return err
}

// completeCmd is what the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints what the last word may become, a line each.
func (c *completeCmd) Run(k *kong.Context) error {
	_, err := fmt.Fprint(k.Stdout, strings.Join(complete(k.Model.Node, c.Words), ""))
	return err
}

// Version is the module's version as the Go toolchain recorded it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
