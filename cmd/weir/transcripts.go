package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/configs"
	"weir/internal/store"
	"weir/telemetry"
	"weir/telemetry/transcript"
)

// openTranscripts starts what keeps prompts and answers of tenants that agreed to it.
func (s *server) openTranscripts() error {
	if s.store == nil {
		for i := range s.config.Tenants {
			if t := &s.config.Tenants[i]; t.LogPrompts {
				s.log.Warn("a tenant has log_prompts, and there is no store to keep prompts in; set --store", zap.String("tenant", t.Name))
			}
		}
		return nil
	}
	trouble := &quietly{every: troubleEvery}
	s.transcripts = transcript.NewRecorder(transcript.Config{
		Log: s.store, Retention: s.config.Store.PromptRetention,
		Failed: func(err error) {
			trouble.do(func(held int) {
				s.log.Error("prompts and answers of tenants with log_prompts are not kept", zap.Error(err), zap.Int("times_before", held))
			})
		},
	})
	return s.metrics.AddTranscripts(func() telemetry.Transcripts {
		st := s.transcripts.Stats()
		return telemetry.Transcripts{Kept: st.Kept, Dropped: st.Dropped}
	})
}

func (s *server) closeTranscripts() error {
	if s.transcripts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return s.transcripts.Close(ctx)
}

// transcribed lets a recorder keep the texts of the requests that have some.
func transcribed(r *transcript.Recorder, h edge.Hooks) edge.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f edge.RequestFinish) {
		finish(f)
		texts := f.Texts
		if texts == nil {
			return
		}
		record := transcript.Record{
			Time: f.Finished, Tenant: f.Tenant, Request: f.ID, Endpoint: f.Endpoint, Model: f.Model, Status: f.Status, Answers: texts.Answers,
		}
		r.Add(transcript.Source{Tenant: f.Tenant, Bytes: texts.Bytes(), Record: func() transcript.Record {
			record.Prompts = texts.Prompts()
			return record
		}})
	}
	return h
}

// forget deletes what clients of a tenant asked and were answered, here and in the
// store. What they used is kept. by says who asked. A name that no tenant has is looked for all the same, since
// what was kept of a tenant outlives its entry in the configuration; where nothing was, it is an error.
func (s *server) forget(ctx context.Context, name, by string) (f admin.Forgotten, err error) {
	known, err := s.knowsTenant(ctx, name)
	if err != nil {
		return f, err
	}
	if err := s.audit(ctx, by, actionTenantForget, name, details{"known": known}); err != nil {
		return f, err
	}
	f, err = s.forgetAll(ctx, name)
	switch {
	case err != nil:
		return f, err
	case !known && f.Prompts+f.Answers+f.Files == 0:
		return f, fmt.Errorf("%w: %q is not configured, has no keys, and nothing was kept of it", admin.ErrNoTenant, name)
	}
	s.log.Info("what a tenant asked and was answered is deleted", zap.String("tenant", name), zap.String("by", by))
	return f, nil
}

// knowsTenant reports whether the configuration lists a tenant, or the store has a key of it.
func (s *server) knowsTenant(ctx context.Context, name string) (bool, error) {
	if s.callers.authenticator.Directory().Lists(name) || s.store == nil {
		return s.callers.authenticator.Directory().Lists(name), nil
	}
	keys, err := s.store.List(ctx, name)
	return len(keys) > 0, err
}

func (s *server) forgetAll(ctx context.Context, name string) (f admin.Forgotten, err error) {
	if s.store != nil {
		if err := s.store.ForgetKeys(ctx, name); err != nil { // first: from here on nothing can be read
			return f, err
		}
		if f.Prompts, err = s.transcripts.Forget(ctx, name); err != nil {
			return f, err
		}
		if f.Answers, err = s.store.ForgetAnswers(ctx, name); err != nil {
			return f, err
		}
		responses, err := s.store.ForgetResponses(ctx, name)
		if err != nil {
			return f, err
		}
		f.Answers += responses
	}
	if f.Files, err = s.batches.Forget(ctx, name); err != nil {
		return f, err
	}
	f.Answers += int64(s.edge.Forget(name))
	f.Blocks, err = s.emptyCaches(ctx) // cached blocks are computed from prompts
	return f, err
}

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
			"/admin/tenants/TENANT/forget on the second listener deletes both.\n\n" +
			"Nothing brings them back. On a terminal the tenant's name has to be typed again; scripts say --yes.",
		Example: "  weir tenants forget acme\n  weir tenants forget acme --yes",
		Args:    exactly(1),
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	onStore(cmd, func(ctx context.Context, c configs.Config, s *store.Store, args []string) error {
		if !*yes {
			what := fmt.Sprintf("Everything that %s asked and was answered is deleted for good, on all servers of this store.", printable(args[0]))
			if err := confirm(cmd, what, args[0]); err != nil {
				return err
			}
		}
		if _, err := addEntry(ctx, s, commandLine(), actionTenantForget, args[0], nil); err != nil {
			return err
		}
		if err := s.ForgetKeys(ctx, args[0]); err != nil { // first: from here on nothing can be read
			return err
		}
		prompts, err := s.ForgetTranscripts(ctx, args[0])
		if err != nil {
			return err
		}
		answers, err := s.ForgetAnswers(ctx, args[0])
		if err != nil {
			return err
		}
		responses, err := s.ForgetResponses(ctx, args[0])
		if err != nil {
			return err
		}
		files, err := s.ForgetBatches(ctx, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "deleted of %s: %d prompts with their answers, %d answers of idempotency keys, %d responses, %d files, and the keys that encrypted them\n",
			args[0], prompts, answers, responses, len(files))
		return removeFiles(c, files)
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
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *store.Store, args []string) error {
		if _, err := addEntry(ctx, s, commandLine(), actionTenantRead, args[0], nil); err != nil {
			return err
		}
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetEscapeHTML(false)
		for r, err := range s.Transcripts(ctx, args[0]) {
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
