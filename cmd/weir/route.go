package main

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/configs"
)

func newRoute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route --config FILE",
		Short: "Route requests to replicas: other weirs, vLLM, SGLang, llama-server",
		Long: "Serve the models of the file's list models that have replicas, with the same API, keys, quotas and metrics as\n" +
			"weir serve, and compute nothing here. SIGHUP reads the file anew: replicas come and go without a restart.",
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
				err = checkExposure(cmd.Context(), c)
			}
			if err != nil {
				return c, nil, configError(err)
			}
			return c, warnings, nil
		}
		return serve(cmd.Context(), read, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// checkRoutes refuses a configuration by which nothing is routed, or something is computed.
func checkRoutes(c configs.Config) error {
	switch {
	case len(c.RoutedModels()) == 0:
		return errors.New("no model has replicas, so there is nothing to route to; give the file (--config) a list like " +
			"models: [{name: chat, replicas: [{url: http://10.0.0.7:8000/v1}]}]")
	case c.ServesLanguage() || len(c.ClassicModels()) > 0:
		return errors.New("weir route computes no model, and the configuration names some that have a path; use weir serve, or give them replicas")
	}
	return nil
}
