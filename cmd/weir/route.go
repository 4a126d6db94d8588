package main

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server"
	"weir/internal/server/state"
)

func newRoute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route --config FILE",
		Short: "Route requests to replicas: other weirs, vLLM, SGLang, llama-server, Triton",
		Long: "Serve the models of the file's lists models and classic, which have replicas, with the same API, keys, quotas and metrics as\n" +
			"weir serve, and compute nothing here. SIGHUP reads the file again: replicas come and go without a restart.\n\n" +
			"The least that the file must have; docs/replicas.md and weir config example show all of it:\n\n" +
			"  models:\n" +
			"    - name: chat\n" +
			"      replicas:\n" +
			"        - {url: \"http://10.0.0.7:8000/v1\"}                      # a weir; its name of the model is chat, too\n" +
			"        - {url: \"http://10.0.0.8:8080/v1\", kind: llama-server}  # or vllm, sglang, openai; model: THEIR-NAME",
		Example: "  weir route --config router.yml\n  weir route --config router.yml --port 8080",
		Args:    atMost(0),
	}
	opts := addOptions(cmd, everySection)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		read := func() (configs.Config, []string, error) {
			c, warnings, err := opts.config()
			if err == nil {
				err = checkRoutes(c)
			}
			if err == nil {
				err = state.CheckExposure(cmd.Context(), c)
			}
			if err != nil {
				return c, nil, console.ConfigError(err)
			}
			return c, warnings, nil
		}
		room := make([]byte, collectorRoom)
		defer runtime.KeepAlive(room)
		return serve(cmd.Context(), server.Config{Read: read, Out: cmd.OutOrStdout(), Errs: cmd.ErrOrStderr()})
	}
	return cmd
}

// collectorRoom counts as live for the garbage collector and is never touched, so it takes no memory itself. A router has some megabytes of its own:
// without it the collector would run every few hundred requests, and take a tenth of the processor time. With it a router takes up to so much more.
const collectorRoom = 48 << 20

// checkRoutes refuses a configuration by which nothing is routed, or something is computed.
func checkRoutes(c configs.Config) error {
	switch {
	case !c.Routes():
		return errors.New("no model has replicas, so there is nothing to route to; give the file (--config) a list like " +
			"models: [{name: chat, replicas: [{url: http://10.0.0.7:8000/v1}]}]")
	case c.Computes():
		return errors.New("weir route computes no model, and the configuration names some that have a path; use weir serve, or give them replicas")
	}
	return nil
}
