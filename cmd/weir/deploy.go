package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/folder"
	"weir/router/deployment"
)

func newDeploy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deploy MODEL VERSION",
		Short: "Let a version of a model answer on all servers on a store",
		Long: "Let a version of a model answer on all servers that share a store: the label of a version that they have, a\n" +
			"name in the models folder, or one on a hub or in a registry, which each of them pulls. Which one is wanted is\n" +
			"kept in the store; every server follows it, also one that starts later. docs/deployments.md says how.",
		Example: "  weir deploy chat chat:v2\n  weir deploy chat hf.co/ORG/REPO-GGUF:Q4_K_M --resource kvCacheBytes=2GiB --warm 1\n" +
			"  weir deploy chat chat:v3 --rollout canary --wait\n  weir deploy chat chat:v3 --replicas 2 --node-selector region=eu\n  weir deploy -f chat.yml",
		Args: cobra.MaximumNArgs(2),
	}
	var file, policy, key string
	var resources, warm, selector []string
	var replicas int
	var generation int64
	var wait bool
	cmd.Flags().StringVarP(&file, "file", "f", "", "file in YAML or JSON: modelId, version, resources, rolloutPolicy, warm, replicas, nodeSelector, affinity")
	cmd.Flags().StringVar(&policy, "rollout", "", "how the version takes over: immediate, unchecked (immediate, without the check of its answers) or canary (default immediate)")
	cmd.Flags().StringArrayVar(&resources, "resource", nil, "KEY=VALUE of the model alone, such as kvCacheBytes=2GiB or maxSequences=8; again for more")
	cmd.Flags().StringArrayVar(&warm, "warm", nil, "how many versions before stay in memory, or a version that does; again for more versions")
	cmd.Flags().IntVar(&replicas, "replicas", 0, "how many servers have the model (default: all that can)")
	cmd.Flags().StringArrayVar(&selector, "node-selector", nil, "LABEL=VALUE that servers have which may have it (their --label, and region, arch, isa); again for more")
	cmd.Flags().Int64Var(&generation, "if-generation", 0, "change the deployment only if it is at this generation")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "key under which the call is executed once")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all servers answer as it is wanted, or all have said that no more can, or it is degraded or unserved for 20 seconds")
	return operating(cmd, func(ctx context.Context, o *operator, args []string) error {
		body, err := deploymentBody(file, args, deployFlags{policy, resources, warm, selector, replicas})
		if err != nil {
			return err
		}
		if generation > 0 {
			o.header = append(o.header, "If-Match: "+strconv.FormatInt(generation, 10))
		}
		if key != "" {
			o.header = append(o.header, "Idempotency-Key: "+key)
		}
		var v admin.DeploymentView
		if err := o.call(ctx, http.MethodPost, "/v1/deployments", json.RawMessage(body), &v); err != nil {
			return err
		}
		o.header = nil
		if wait {
			return o.awaitDeployment(ctx, v)
		}
		return printDeployment(cmd.OutOrStdout(), &v)
	})
}

// deployFlags are the flags of a deployment.
type deployFlags struct {
	policy                    string
	resources, warm, selector []string
	replicas                  int
}

// deploymentBody is what a command line asks for.
func deploymentBody(file string, args []string, w deployFlags) ([]byte, error) {
	if file != "" {
		if len(args) > 0 || w.policy != "" || w.replicas != 0 || len(w.resources)+len(w.warm)+len(w.selector) > 0 {
			return nil, &console.UsageError{Err: errors.New("a file and arguments"), Hint: "the file says all: give -f alone, or MODEL VERSION"}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return configs.DeploymentJSON(file, text)
	}
	if len(args) != 2 {
		return nil, &console.UsageError{Err: errors.New("a deployment needs a model and a version"), Hint: "weir deploy MODEL VERSION, or weir deploy -f FILE"}
	}
	body := map[string]any{"modelId": args[0], "version": args[1]}
	if w.policy != "" {
		body["rolloutPolicy"] = w.policy
	}
	if w.replicas != 0 {
		body["replicas"] = w.replicas
	}
	labels := make(map[string]string)
	for _, l := range w.selector {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, &console.UsageError{Err: fmt.Errorf("--node-selector %s", l), Hint: "give LABEL=VALUE, such as region=eu"}
		}
		labels[key] = value
	}
	if len(labels) > 0 {
		body["nodeSelector"] = labels
	}
	values := make(map[string]any)
	for _, r := range w.resources {
		name, value, ok := strings.Cut(r, "=")
		if !ok {
			return nil, &console.UsageError{Err: fmt.Errorf("--resource %s", r), Hint: "give KEY=VALUE, such as maxSequences=8"}
		}
		values[name] = value
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			values[name] = n
		} else if b, err := strconv.ParseBool(value); err == nil {
			values[name] = b
		}
	}
	if len(values) > 0 {
		body["resources"] = values
	}
	if n, err := strconv.Atoi(strings.Join(w.warm, " ")); err == nil {
		body["warm"] = n
	} else if len(w.warm) > 0 {
		body["warm"] = w.warm
	}
	return json.Marshal(body)
}

// waitEvery is how often a command line looks how far a deployment is.
const waitEvery = 500 * time.Millisecond

// waitBad is how long a deployment may be degraded or unserved before a command line takes it for its end: more than the lease of a
// server that was killed, after which another one may take its part.
const waitBad = 20 * time.Second

// deployWait is a command line that waits for a deployment.
type deployWait struct{ bad time.Time } // since when it stands badly; zero: it does not

// isOver reports whether nothing better is to come.
func (w *deployWait) isOver(v *admin.DeploymentView, now time.Time) bool {
	if v.State != deployment.Degraded && v.State != deployment.Unserved {
		w.bad = time.Time{}
		return v.State == deployment.Ready
	}
	if w.bad.IsZero() {
		w.bad = now
	}
	return deployment.IsFinal(v.Instances, v.Generation) || now.Sub(w.bad) >= waitBad
}

// awaitDeployment waits until servers answer as a deployment wants it, and shows on the way why they do not.
func (o *operator) awaitDeployment(ctx context.Context, v admin.DeploymentView) error {
	shown, wait := "", deployWait{}
	for {
		if why := strings.Join(v.Why, "; "); why != shown && why != "" {
			shown = why
			fmt.Fprintln(o.cmd.ErrOrStderr(), console.Printable(why))
		}
		if wait.isOver(&v, time.Now()) {
			err := printDeployment(o.cmd.OutOrStdout(), &v)
			if v.State != deployment.Ready {
				err = errors.Join(err, fmt.Errorf("the deployment of %s is %s", console.Printable(v.ModelID), v.State))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(waitEvery):
		}
		next := admin.DeploymentView{} // an empty one, as what an answer leaves out would stay in v
		if err := o.call(ctx, http.MethodGet, "/v1/deployments/"+url.PathEscape(v.ModelID), nil, &next); err != nil {
			return err
		}
		v = next
	}
}

func newDeployments() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deployments", Short: "Show which versions all servers on a store shall answer with, and why one does not yet", Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the deployments", Args: cobra.NoArgs}
	get := &cobra.Command{Use: "get MODEL", Short: "Show a deployment, and each server's part", Args: exactly(1)}
	get.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	remove := &cobra.Command{Use: "delete MODEL", Aliases: []string{"rm"}, Short: "Give a model back to the servers' configurations", Args: exactly(1)}
	cmd.AddCommand(operating(list, func(ctx context.Context, o *operator, _ []string) error {
		var all struct{ Deployments []admin.DeploymentView }
		if err := o.call(ctx, http.MethodGet, "/v1/deployments", nil, &all); err != nil {
			return err
		}
		return listDeployments(o.cmd.OutOrStdout(), all.Deployments)
	}), operating(get, func(ctx context.Context, o *operator, args []string) error {
		var raw json.RawMessage
		if err := o.call(ctx, http.MethodGet, "/v1/deployments/"+url.PathEscape(args[0]), nil, &raw); err != nil {
			return err
		}
		if asJSON {
			_, err := io.Copy(o.cmd.OutOrStdout(), bytes.NewReader(append(raw, '\n')))
			return err
		}
		var v admin.DeploymentView
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
		return printDeployment(o.cmd.OutOrStdout(), &v)
	}), operating(remove, func(ctx context.Context, o *operator, args []string) error {
		var done struct{}
		if err := o.call(ctx, http.MethodDelete, "/v1/deployments/"+url.PathEscape(args[0]), nil, &done); err != nil {
			return err
		}
		_, err := fmt.Fprintf(o.cmd.OutOrStdout(), "%s: the configurations of the servers decide again\n", console.Printable(args[0]))
		return err
	}))
	return cmd
}

func listDeployments(w io.Writer, list []admin.DeploymentView) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "There are no deployments; weir deploy MODEL VERSION makes one.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tVERSION\tDIGEST\tGENERATION\tSTATE\tANSWERS\tWHY")
	for i := range list {
		v := &list[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", console.Printable(v.ModelID), console.Printable(v.Version), orDash(folder.ShortDigest(v.Digest)), v.Generation, v.State, orDash(v.Answers),
			orDash(strings.Join(v.Why, "; ")))
	}
	return table.Flush()
}

func printDeployment(w io.Writer, v *admin.DeploymentView) error {
	if err := listDeployments(w, []admin.DeploymentView{*v}); err != nil || len(v.Instances) == 0 {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n  SERVER\tSTATE\tANSWERS\tWARM\tWHY")
	for _, o := range v.Instances {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", console.Printable(o.Instance), o.State, orDash(o.Answers), orDash(strings.Join(o.Warm, ", ")), orDash(o.Why))
	}
	return table.Flush()
}
