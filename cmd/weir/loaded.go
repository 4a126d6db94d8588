package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/api/admin"
	"weir/internal/console"
	"weir/internal/unit"
)

// newLs is weir models list, by the name that people try first.
func newLs() *cobra.Command {
	cmd := newModelsList()
	cmd.Use, cmd.Aliases = "ls [NAME]", []string{"list"}
	return cmd
}

func newPs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the models of a running server: what is in memory, how large it is, who uses it",
		Args:  cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return operating(cmd, func(ctx context.Context, o *operator, _ []string) error {
		list, err := o.loaded(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return printLoaded(cmd.OutOrStdout(), list)
	})
}

func newStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop MODEL",
		Short: "Take a model of a running server out of memory, once its requests have ended",
		Long: "Take a model of a running server out of memory, once its requests have ended. The next request for it brings it\n" +
			"back; weir models unload MODEL has requests refused until weir models load. The server goes on; Ctrl-C in its terminal ends it.",
		Example: "  weir stop chat",
		Args:    exactly(1),
	}
	return operating(cmd, func(ctx context.Context, o *operator, args []string) error {
		var done admin.ModelChanged
		if err := o.call(ctx, http.MethodPost, "/admin/models/"+admin.ModelStop, map[string]string{"name": args[0]}, &done); err != nil {
			return err
		}
		name := console.Printable(args[0])
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s leaves memory; the next request brings it back\n", name)
		return err
	})
}

// loaded are the versions of a server's models.
func (o *operator) loaded(ctx context.Context) ([]admin.ModelState, error) {
	var answer struct{ Models []admin.ModelState }
	err := o.call(ctx, http.MethodGet, "/admin/models", nil, &answer)
	return answer.Models, err
}

func printLoaded(w io.Writer, list []admin.ModelState) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "The server has no language models and text encoders.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tVERSION\tSTATE\tMEMORY\tREQUESTS\tLAST USED")
	for _, m := range list {
		used := "-"
		if m.LastUse != nil {
			used = time.Since(*m.LastUse).Round(time.Second).String() + " ago"
		}
		bytes := "-"
		if m.State != "absent" && m.State != "unloaded" {
			bytes = unit.Bytes(m.Bytes)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", console.Printable(m.Name), console.Printable(m.Version), m.State, bytes, m.Requests, used)
	}
	return table.Flush()
}
