package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"weir/telemetry"
)

// version and commit are set at link time (make build); a plain go build leaves them to the module's and
// the repository's own data.
var version, commit string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and platform",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine is what weir version and weir --version print.
func versionLine() string {
	b := build()
	return fmt.Sprintf("weir %s (commit %s, %s, %s/%s)", b.Version, b.Commit, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// build identifies this binary.
func build() telemetry.Build {
	b := telemetry.Build{Version: version, Commit: cmp.Or(commit, "unknown"), GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && commit == "" {
			b.Commit = s.Value[:min(12, len(s.Value))]
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}
