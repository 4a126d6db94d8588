package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/state"
)

func newTenants() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "Show and delete the prompts and answers that are kept of tenants",
		Long: "Show and delete what the store keeps of tenants' prompts and answers: those of tenants with\n" +
			"log_prompts, scrubbed, and the answers of idempotency keys.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTenantsForget(), newTenantsPrompts())
	return cmd
}

func newTenantsForget() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget TENANT",
		Short: "Delete a tenant's prompts and answers from the store; usage stays",
		Long: "Delete a tenant's prompts and answers from the store: those that log_prompts kept, the answers of\n" +
			"idempotency keys, responses, files and batches, and the keys that encrypted them, so that copies of the\n" +
			"store are unreadable, too. Sums of usage stay. A running server has more in its memory: there, POST\n" +
			"/admin/tenants/TENANT/forget on the admin listener deletes both.\n\n" +
			"Nothing brings them back. On a terminal the tenant's name has to be typed again; scripts say --yes.",
		Example: "  weir tenants forget acme\n  weir tenants forget acme --yes",
		Args:    exactly(1),
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	onStore(cmd, func(ctx context.Context, c configs.Config, s *state.Store, args []string) error {
		if !*yes {
			what := fmt.Sprintf("Everything that %s asked and was answered is deleted for good, on all servers of this store.", console.Printable(args[0]))
			if err := confirm(cmd, what, args[0]); err != nil {
				return err
			}
		}
		if _, err := state.AddEntry(ctx, s.Audit, state.CommandLine(), state.ActionTenantForget, args[0], nil); err != nil {
			return err
		}
		if err := s.ForgetKeys(ctx, args[0]); err != nil { // first: from here on nothing can be read
			return err
		}
		prompts, err := s.Transcripts.ForgetTranscripts(ctx, args[0])
		if err != nil {
			return err
		}
		answers, err := s.Claims.ForgetAnswers(ctx, args[0])
		if err != nil {
			return err
		}
		responses, err := s.Responses.ForgetResponses(ctx, args[0])
		if err != nil {
			return err
		}
		files, err := s.Batches.ForgetBatches(ctx, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "deleted of %s: %d prompts with their answers, %d answers of idempotency keys, %d responses, %d files, and the keys that encrypted them\n",
			args[0], prompts, answers, responses, len(files))
		return state.RemoveFiles(c, files)
	})
	return cmd
}

// promptLine is a line of weir tenants prompts.
type promptLine struct {
	Time     time.Time `json:"time"`
	Request  string    `json:"request"`
	Endpoint string    `json:"endpoint"`
	Model    string    `json:"model"`
	Status   int       `json:"status"`
	Prompts  []string  `json:"prompts"`
	Answers  []string  `json:"answers"`
}

func newTenantsPrompts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prompts TENANT",
		Short: "Print the prompts and answers that are kept of a tenant, as lines of JSON",
		Args:  exactly(1),
	}
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, args []string) error {
		if _, err := state.AddEntry(ctx, s.Audit, state.CommandLine(), state.ActionTenantRead, args[0], nil); err != nil {
			return err
		}
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetEscapeHTML(false)
		for r, err := range s.Transcripts.Transcripts(ctx, args[0]) {
			if err != nil {
				return err
			}
			if err := out.Encode(promptLine{r.Time, r.Request, r.Endpoint, r.Model, r.Status, r.Prompts, r.Answers}); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}
