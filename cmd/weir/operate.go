package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/internal/unit"
	"weir/router/rollout"
)

// operator talks to the admin listener of a running server.
type operator struct {
	base, key string
	client    *http.Client
	cmd       *cobra.Command
	header    []string // further fields of requests, "Name: value"
}

// operating gives a verb the flags that name a running server.
func operating(cmd *cobra.Command, do func(ctx context.Context, o *operator, args []string) error) *cobra.Command {
	address := cmd.Flags().String("admin", "127.0.0.1:9090", "address of the server's admin listener")
	key := new(string)
	keyFlag(cmd.Flags(), key, "key", "WEIR_ADMIN_KEY", "API key with the admin scope, where the server asks for one")
	ca := cmd.Flags().String("ca", "", "PEM file of the authorities that sign the server's certificate, for https addresses (default: the system's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		base, err := adminURL([]string{*address})
		if err != nil {
			return err
		}
		client, err := lookClient(*ca)
		if err != nil {
			return &console.UsageError{Err: err}
		}
		client.Timeout = 0 // a model may take minutes to load; Ctrl-C ends the wait
		ctx, stop := interruptible(cmd)
		defer stop()
		return do(ctx, &operator{base: base, key: *key, client: client, cmd: cmd}, args)
	}
	return cmd
}

// call sends a request, with a JSON body where there is one, and decodes the answer.
func (o *operator) call(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, o.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if o.key != "" {
		req.Header.Set("Authorization", "Bearer "+o.key)
	}
	for _, field := range o.header {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Set(name, value)
	}
	res, err := o.client.Do(req)
	if err != nil {
		if refused, ok := errors.AsType[*url.Error](err); ok {
			err = refused.Err
		}
		return fmt.Errorf("ask %s: %w; start a server with weir serve, or --admin names the admin listener of a running one", o.base, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, lookBytes))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		var fault struct {
			Error struct{ Message string }
		}
		_ = json.Unmarshal(answer, &fault) // what is no JSON is shown as it is
		return fmt.Errorf("the server answers %d: %s", res.StatusCode, console.Printable(cmp.Or(fault.Error.Message, string(answer[:min(len(answer), 300)]))))
	}
	return json.Unmarshal(answer, into)
}

func newRollout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Try a new version of a model on a part of the requests of a running server",
		Long: "Try a new version of a model on a part of the requests of a running server: first on copies whose\n" +
			"answers are not shown, then for a growing share. A version that is worse is taken back by itself.\n" +
			"docs/rollout.md says how.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRolloutStart(), newRolloutStatus(), newRolloutKill())
	for verb, short := range map[string]string{
		"promote": "Let the candidate answer all requests, whatever the gates say",
		"abort":   "Take the candidate back at once",
		"pause":   "Keep the candidate's share as it is; the gates go on",
		"resume":  "Begin the step over after a pause",
	} {
		cmd.AddCommand(newRolloutDecision(verb, short))
	}
	return cmd
}

func newRolloutStart() *cobra.Command {
	var plan rollout.Plan
	var file string
	cmd := &cobra.Command{
		Use:   "start MODEL CANDIDATE",
		Short: "Start a rollout of a version, by its label",
		Example: "  weir rollout start chat 2026-11\n  weir rollout start chat 2026-11 --plan canary.json\n" +
			"  weir rollout start churn 4 --sticky tenant",
		Args: exactly(2),
	}
	cmd.Flags().StringVar(&file, "plan", "", "JSON file with steps and gates, as POST /v1/deployments takes them")
	cmd.Flags().StringVar((*string)(&plan.Sticky), "sticky", "", "what always gets the same version: conversation, tenant or request (default conversation)")
	cmd.Flags().BoolVar(&plan.Compare, "compare", false, "an A/B test: wait for an operator after the last step")
	return operating(cmd, func(ctx context.Context, o *operator, args []string) error {
		if file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(text, &plan); err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
		}
		plan.Model, plan.Candidate = args[0], args[1]
		var st rollout.Status
		if err := o.call(ctx, http.MethodPost, "/v1/deployments", plan, &st); err != nil {
			return err
		}
		return printRollouts(cmd.OutOrStdout(), []rollout.Status{st})
	})
}

func newRolloutDecision(verb, short string) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " MODEL", Short: short, Args: exactly(1)}
	return operating(cmd, func(ctx context.Context, o *operator, args []string) error {
		var st rollout.Status
		if err := o.call(ctx, http.MethodPost, "/v1/deployments/"+verb, map[string]string{"model": args[0]}, &st); err != nil {
			return err
		}
		return printRollouts(cmd.OutOrStdout(), []rollout.Status{st})
	})
}

func newRolloutStatus() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show the rollouts that are under way, and the last ones", Args: cobra.NoArgs}
	return operating(cmd, func(ctx context.Context, o *operator, _ []string) error {
		return o.showRollouts(ctx, http.MethodGet, "/v1/deployments")
	})
}

func newRolloutKill() *cobra.Command {
	cmd := &cobra.Command{Use: "kill", Short: "Abort all rollouts, and take no new ones until the server restarts", Args: cobra.NoArgs}
	return operating(cmd, func(ctx context.Context, o *operator, _ []string) error {
		return o.showRollouts(ctx, http.MethodPost, "/v1/deployments/kill")
	})
}

func (o *operator) showRollouts(ctx context.Context, method, path string) error {
	var list struct{ Rollouts []rollout.Status }
	if err := o.call(ctx, method, path, nil, &list); err != nil {
		return err
	}
	if len(list.Rollouts) == 0 {
		_, err := fmt.Fprintln(o.cmd.OutOrStdout(), "There are no rollouts; weir rollout start MODEL CANDIDATE begins one.")
		return err
	}
	return printRollouts(o.cmd.OutOrStdout(), list.Rollouts)
}

func printRollouts(w io.Writer, list []rollout.Status) error {
	for _, st := range list {
		fmt.Fprintf(w, "%s  %s -> %s  %s, step %d of %d: %g %% of the requests, %g %% copied\n", console.Printable(st.Plan.Model), console.Printable(st.Plan.Stable),
			console.Printable(st.Plan.Candidate), st.State, st.Step, len(st.Plan.Steps), st.Percent, st.Shadow)
		if why := cmp.Or(st.Reason, st.Waiting); why != "" {
			fmt.Fprintf(w, "  %s\n", console.Printable(why))
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "  ARM\tVERSION\tREQUESTS\tFAILED\t4XX\t429\tEMPTY\tCUT\tREFUSED\tTTFT P95\tTTFT P99\tWHOLE P95\tITL P95\tTOKENS\tCOST")
		for _, a := range st.Arms {
			fmt.Fprintf(table, "  %s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%.0f\t%.3g\n", a.Arm, console.Printable(a.Version), a.Requests, a.Failed, a.Denied, a.Throttled,
				a.Empty, a.Length, a.Refused, showSeconds(a.TTFTP95), showSeconds(a.TTFTP99), showSeconds(a.WholeP95), showSeconds(a.ITLP95), a.Output, a.Cost)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func showSeconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return unit.Seconds(s)
}

// liveModels are the verbs of weir models that change what a running server has in memory.
func liveModels() []*cobra.Command {
	var list []*cobra.Command
	for _, v := range []struct{ action, use, short string }{
		{"load", "load MODEL [VERSION]", "Have a running server load a version into memory"},
		{"unload", "unload MODEL [VERSION]", "Have a running server take a version out of memory, once its requests have ended"},
		{"alias", "alias MODEL VERSION", "Let a version answer for a model of a running server"},
		{"rollback", "rollback MODEL", "Let the version answer that did before, in a running server"},
	} {
		cmd := &cobra.Command{Use: v.use, Short: v.short, Args: cobra.RangeArgs(1, 2)}
		list = append(list, operating(cmd, func(ctx context.Context, o *operator, args []string) error {
			return o.changeModel(ctx, v.action, args)
		}))
	}
	return list
}

func (o *operator) changeModel(ctx context.Context, action string, args []string) error {
	if action == "rollback" && len(args) > 1 || action == "alias" && len(args) < 2 {
		return &console.UsageError{Err: errors.New("the arguments are not those of " + o.cmd.CommandPath()), Hint: "they are: " + strings.TrimPrefix(o.cmd.Use, action+" ")}
	}
	body := map[string]string{"name": args[0]}
	if len(args) > 1 {
		body["version"] = args[1]
	}
	var done struct {
		Version, Before string
		Seconds         float64
	}
	if err := o.call(ctx, http.MethodPost, "/admin/models/"+action, body, &done); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: version %s answers", console.Printable(args[0]), console.Printable(done.Version))
	if done.Before != "" {
		text += ", " + console.Printable(done.Before) + " did before"
	}
	_, err := fmt.Fprintf(o.cmd.OutOrStdout(), "%s (%s)\n", text, time.Duration(done.Seconds*float64(time.Second)).Round(time.Microsecond))
	return err
}
