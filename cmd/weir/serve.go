package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server"
	"weir/internal/server/state"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [MODEL.gguf | NAME=MODEL.gguf]...",
		Short: "Serve models with an OpenAI-compatible API, and classical models beside them",
		Long: "Serve GGUF models with an OpenAI-compatible API, and models of XGBoost, LightGBM, CatBoost and\n" +
			"ONNX (--classic) with the APIs of KServe and Triton; without a model, the small built-in ones.\n" +
			"Every flag is also a key of the YAML file (--config) and an environment variable: --max-num-seqs is\n" +
			"WEIR_MAX_NUM_SEQS. A flag overrides the environment, the environment overrides the file. SIGHUP\n" +
			"reads the configuration again; the log names what needs a restart. SIGINT and SIGTERM let running\n" +
			"requests end; a second signal ends the process at once.",
		Example: "  weir serve\n  weir serve model.gguf --port 8001 --max-model-len 8192\n  weir serve --classic churn=model.ubj\n" +
			"  WEIR_API_KEY=long-secret weir serve model.gguf --host 0.0.0.0",
		Args: cobra.ArbitraryArgs,
	}
	opts := addOptions(cmd, everySection)
	takeLenient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		locator := newLocator(cmd)
		read := func() (configs.Config, []string, error) {
			c, warnings, err := opts.config()
			if err != nil {
				return c, nil, err
			}
			if cmd.Flags().Changed(lenient) {
				warnings = append(warnings, "--lenient changes nothing: fields that weir does not know are ignored unless --strict is given")
			}
			if err := state.CheckExposure(cmd.Context(), c); err != nil {
				return c, nil, console.ConfigError(err)
			}
			if err := chooseModels(&c, args); err != nil {
				return c, nil, err
			}
			return c, warnings, locator.locate(cmd.Context(), &c)
		}
		about := server.Config{Read: read, MakesStore: true, Applied: locator.applied, Out: cmd.OutOrStdout(), Errs: cmd.ErrOrStderr()}
		return serve(cmd.Context(), about)
	}
	return cmd
}

// lenient is a flag without effect: what it asked for is the default now. It is
// still taken because the built-in model recommends it in its answers.
const lenient = "lenient"

func takeLenient(cmd *cobra.Command) {
	cmd.Flags().Bool(lenient, true, "")
	_ = cmd.Flags().MarkHidden(lenient) // the flag exists
}

// serve runs a server until a signal, or until it fails. Read gives its settings, first here and again at each SIGHUP.
func serve(ctx context.Context, about server.Config) (err error) {
	if about.Settings, about.Warnings, err = about.Read(); err != nil {
		return err
	}
	about.Build = build()
	s, err := server.New(about)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from here on a signal ends the process at once
	reloadOnHangup(ctx, s)
	return s.Run(ctx)
}

// reloadOnHangup reloads at every SIGHUP until ctx ends.
func reloadOnHangup(ctx context.Context, s *server.Server) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				_ = s.Reload(ctx, "SIGHUP") // the log has the error
			}
		}
	}()
}
