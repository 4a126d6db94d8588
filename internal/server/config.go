package server

import (
	"io"
	"time"

	"weir/configs"
	"weir/telemetry"
)

// Config is what a server is assembled from.
type Config struct {
	Settings configs.Config
	Warnings []string        // of reading the settings, for the log
	Build    telemetry.Build // names this build, in metrics and answers

	Read    func() (c configs.Config, warnings []string, err error) // reads the settings again, for a reload; nil: they stay
	Applied func()                                                  // is called each time that the settings which were read last took effect; nil: nothing is

	MakesStore bool // where the settings name no store, one is made at the usual place, in the user's state directory; false: one that is there is used

	LeastFetch time.Duration // what fetching KV blocks may take where computing them would take less; 0 is the engine's
	StoreLease time.Duration // how long what this process holds in the store outlives it; 0 is the store's

	Out  io.Writer // for people: what is served where, once it is; nil: nowhere
	Errs io.Writer // logs and progress; nil: nowhere
}

// complete fills in what may be left out.
func (c *Config) complete() {
	if c.Read == nil {
		c.Read = func() (configs.Config, []string, error) { return c.Settings, nil, nil }
	}
	if c.Applied == nil {
		c.Applied = func() {}
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Errs == nil {
		c.Errs = io.Discard
	}
}
